"""Weights in safetensors files: read, compared with a network, put into an instance.

Assumes: files of any program; names and shapes as runs write them (`conv1.weight`, in logical shape).
Guarantees: a file that does not fit is refused with everything that is missing, left over or of another shape, and with
what takes a part of it; numbers of other floating types are converted (bfloat16 too). `num_batches_tracked` of
PyTorch's batch norms is ignored.
Does not: rename, transpose or slice arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.core.diagnostics import ModelError, RunError, Sink, did_you_mean
from compiler.core.names import listed
from compiler.core.source import Span
from compiler.files.guard import regular
from compiler.passes.tensors.prepare_weights import PREPARE
from compiler.runtime.artifacts.digest import check_digest
from compiler.runtime.common.arrays import to_physical

Reals = npt.NDArray[np.floating]
Shapes = Mapping[str, tuple[int, ...]]

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_LISTED = 8  # names in a message


def read_weights(path: Path) -> dict[str, Reals]:
    """The arrays of a file by name. Raises RunError (E0916, exit 2) when it is no such file, or holds other types,
    E0927 when it is one of ours and damaged."""
    from safetensors import SafetensorError, deserialize

    try:
        regular(path)
        check_digest(path)
        entries: list[tuple[str, dict[str, Any]]] = deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (SafetensorError, ValueError) as error:
        raise RunError("E0916", f"`{path}` is not a safetensors file: {error}") from None
    out: dict[str, Reals] = {}
    for name, part in entries:
        if name.endswith(".num_batches_tracked"):
            continue
        kind = _TYPES.get(str(part["dtype"]))
        if kind is None and _is_checkpoint(path):  # its counters and random states are no weights
            continue
        if kind is None:
            raise RunError("E0916", f"`{name}` in `{path}` is {part['dtype']}; weights are F64, F32, F16 or BF16")
        raw = np.frombuffer(part["data"], kind).reshape(part["shape"])
        out[name] = (raw.astype("<u4") << np.uint32(16)).view("<f4") if part["dtype"] == "BF16" else raw
    return out


def learned(graphs: tuple[l1.TensorGraph, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights and running statistics of a trained network."""
    return {
        node.out.name: node.out.shape
        for graph in graphs
        for node in graph.nodes
        if isinstance(node, l1.Weight | l1.Variable)
        and not node.out.name.startswith("metric.")
        and not (isinstance(node, l1.Variable) and node.inner)
    }


@dataclass(frozen=True)
class Misfits:
    """Where weights do not fit, in words. `layers`: those of weights that are missing or have another shape."""

    message: str
    help: str | None
    layers: tuple[str, ...]


def misfits(weights: Mapping[str, Reals], wanted: Shapes) -> Misfits | None:
    """Where weights do not fit; None when they do."""
    missing = [n for n in wanted if n not in weights]
    extra = sorted(n for n in weights if n not in wanted)
    differ = [n for n, s in wanted.items() if n in weights and weights[n].shape != s]
    other = [f"`{n}` has the shape {list(weights[n].shape)}, not {list(wanted[n])}" for n in differ]
    parts = [f"it has no {listed(missing, _LISTED)}"] * bool(missing)
    parts += [f"it holds {listed(extra, _LISTED)}, which the network does not have"] * bool(extra)
    parts += [*other[:_LISTED], *([f"and {len(other) - _LISTED} more"] if len(other) > _LISTED else [])]
    if not parts:
        return None
    near = did_you_mean(missing[0], extra) if missing and extra else None
    return Misfits(
        "; ".join(parts), near, tuple(dict.fromkeys(layer_of(n) for n in wanted if n in {*missing, *differ}))
    )


def fitting(
    path: Path, wanted: Shapes, place: l0.InitialWeights | None = None, drawn: bool = False
) -> dict[str, Reals]:
    """The weights of a file, which must be exactly those that are wanted; of a part of the layers, where the model says
    so and the others may be `drawn`. `place`: where the model names the file: a misfit is then a ModelError that
    points there, otherwise a RunError (E0916, exit 2)."""
    chosen = {n: s for n, s in wanted.items() if place is None or place.gives(n)}
    if not drawn and (missing := [n for n in wanted if n not in chosen]):
        message = f"`weights` gives no {listed(missing, _LISTED)}: a training draws them, here they are needed"
        raise _refused(message, "give `--weights RUN`, the run or file of a training", place)
    weights = read_weights(path)
    if _is_checkpoint(path) or (place is not None and place.layers is not None):
        weights = {n: v for n, v in weights.items() if n in chosen}
    wrong = misfits(weights, chosen)
    if wrong is None:
        return weights
    message = f"the weights in `{path.name if place else path}` do not fit the network: {wrong.message}"
    name = str(path) if place is None else _as_written(place.file.span) or path.name
    partly = _partly(name, wanted, chosen, wrong.layers) if drawn else None
    help = " Otherwise, ".join(h for h in (wrong.help, partly) if h) or None
    raise _refused(message, help, place)


def _as_written(at: Span) -> str:
    return at.file.text[at.start : at.end]


def _partly(file: str, wanted: Shapes, chosen: Shapes, layers: tuple[str, ...]) -> str | None:
    """How the layers that fit take their weights from the file, where there are any."""
    others = [n for n in dict.fromkeys(map(layer_of, wanted)) if n in layers or n not in set(map(layer_of, chosen))]
    if not layers or len(others) == len({layer_of(n) for n in wanted}):
        return None
    return f"`weights: {{file: {file}, except: [{', '.join(others)}]}}` draws those of the layers that do not fit"


def _refused(message: str, help: str | None, place: l0.InitialWeights | None) -> RunError | ModelError:
    if place is None:
        return RunError("E0916", message, help)
    sink = Sink()
    sink.error("E0916", message, place.file.span, help)
    return ModelError(sink.items)


def layer_of(array: str) -> str:
    """The layer that an array of weights is named after."""
    return array.split(".", 1)[0]


def _is_checkpoint(path: Path) -> bool:
    """Whether a readable safetensors file is a checkpoint of a run, which holds more than weights."""
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return str((file.metadata() or {}).get("format", "")).startswith("netloom checkpoint")


def put_weights(instance: Instance, program: l2.Merged, weights: Mapping[str, Reals]) -> None:
    """Write weights, in logical shape, into the arrays of their names; those that the program lacks are left out. Then
    what a prediction computes of them alone is computed."""
    for array in program.arrays:
        if array.name in weights:
            values = weights[array.name].astype(array.dtype.numpy)
            instance.write(array.name, to_physical(array, values))
    if any(phase.name == PREPARE for phase in program.phases):
        instance.run(PREPARE, 1, 1)
