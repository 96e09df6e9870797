"""Checkpoints: everything that determines how a run goes on, in one file.

Assumes: connections are drawn from the seed, so that they need no place in the file.
Guarantees: written to a temporary name and renamed; arrays are stored by name in logical shape, so that another target
may resume; a checkpoint that does not fit the program is refused with the name of the first array that differs.
Does not: hold records (they are drained before).

The file is safetensors; its metadata says `kind` (spiking | training), `step`, `epoch`, `seed`, `model` (hash).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from backends.protocol import AnyArray, Instance
from compiler.disk import new_file
from compiler.ir.program import Merged
from compiler.runner.arrays import persistent_arrays, read_logical, to_physical
from compiler.runner.errors import RunError

FORMAT = "netloom checkpoint 1"


@dataclass(frozen=True)
class Position:
    """Where a run stands: steps done (of the simulation, or training steps); for training also the epochs that are
    complete and the batches done of the next one."""

    kind: str
    step: int
    seed: int
    model: str
    epoch: int = 0
    batch: int = 0


BEST = "best/"
"""What the names of the best weights so far begin with: they go along, so that a resumed run has them."""


def save_checkpoint(
    path: Path,
    instance: Instance,
    program: Merged,
    position: Position,
    best: Mapping[str, AnyArray] | None = None,
    frozen: bool = False,
) -> None:
    """Write the state at `position` to `path`, atomically; `frozen`: what has been learned stands still in this run."""
    arrays = {a.name: read_logical(instance, a) for a in persistent_arrays(program, frozen)}
    arrays |= {f"{BEST}{name}": value for name, value in (best or {}).items()}
    metadata = {"format": FORMAT} | {k: str(v) for k, v in asdict(position).items()}
    write_tensors(path, arrays, metadata, "a checkpoint")


def write_tensors(
    path: Path, arrays: Mapping[str, AnyArray], metadata: dict[str, str] | None = None, what: str = "the weights"
) -> None:
    """A safetensors file, atomically, with the permissions of any other new file. Raises RunError (E0930)."""
    # By hand, array by array: the library makes three copies of all of them first.
    kept = {n: np.ascontiguousarray(v) for n, v in arrays.items()}
    kinds = {n: f"{_LETTERS[a.dtype.kind]}{8 * a.itemsize}" for n, a in kept.items()}
    order = sorted(kept, key=lambda n: (_KINDS.index(kinds[n]), n))  # as the library does: every array is aligned
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(sorted(metadata.items()))}
    at = 0
    for name in order:
        a = kept[name]
        header[name] = {"dtype": kinds[name], "shape": list(a.shape), "data_offsets": [at, at := at + a.nbytes]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with new_file(path, what, 8 + len(text) + at) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(kept[name].reshape(-1).view(np.uint8).data)


_LETTERS: Final[Mapping[str, str]] = MappingProxyType({"f": "F", "i": "I", "u": "U"})
_KINDS: Final = ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8")


def latest_checkpoint(place: Path) -> Path:
    """The checkpoint to resume from: `place` itself, or the newest of a run directory. Raises RunError (E0909)."""
    if place.is_file():
        return place
    if not place.is_dir():
        raise RunError("E0909", f"there is no run directory or checkpoint `{place}`", exit_code=2)
    found = sorted((place / "checkpoints").glob("*.safetensors"))
    if not found:
        raise RunError("E0909", f"`{place}` holds no checkpoints", exit_code=2)
    return max(found, key=lambda p: (read_position(p).step, p.name))


def read_position(path: Path) -> Position:
    """What the checkpoint says of itself. Raises RunError (E0909) when it is not one."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise RunError("E0909", f"`{path}` cannot be read: {error}", exit_code=2) from None
    if metadata.get("format") != FORMAT:
        raise RunError("E0909", f"`{path}` is not a checkpoint", exit_code=2)
    return Position(
        metadata["kind"],
        int(metadata["step"]),
        int(metadata["seed"]),
        metadata["model"],
        int(metadata["epoch"]),
        int(metadata["batch"]),
    )


def restore_checkpoint(path: Path, instance: Instance, program: Merged, frozen: bool = False) -> None:
    """Put the arrays of a checkpoint into an instance. Raises RunError (E0909) when they do not fit. A `frozen` run has
    no place for some of what learning needs, and synapses that nothing ever changes are as they were drawn."""
    from safetensors.numpy import load_file

    stored = {n: v for n, v in load_file(path).items() if not n.startswith(BEST)}
    needed = frozenset(a.name for a in persistent_arrays(program))
    for array in persistent_arrays(program, frozen):
        values = stored.pop(array.name, None)
        if values is None and array.name not in needed:
            continue
        if values is None:
            raise _misfit(path, f"it has no `{array.name}`")
        if values.dtype != np.dtype(array.dtype.numpy):
            raise _misfit(path, f"`{array.name}` is {values.dtype}, not {array.dtype.numpy}")
        if array.size_from is None and values.shape != array.shape:
            raise _misfit(path, f"`{array.name}` is shaped {values.shape}, not {array.shape}")
        try:
            instance.write(array.name, to_physical(array, values))
        except ValueError as error:
            raise _misfit(path, str(error)) from None
    if stored and not frozen:
        raise _misfit(path, f"it holds `{next(iter(stored))}`, which the model does not have")


def best_of_checkpoint(path: Path) -> dict[str, AnyArray]:
    """The best weights so far of the run that wrote a checkpoint; {} where it kept none."""
    from safetensors.numpy import load_file

    return {n.removeprefix(BEST): v for n, v in load_file(path).items() if n.startswith(BEST)}


def _misfit(path: Path, reason: str) -> RunError:
    return RunError(
        "E0909",
        f"the checkpoint `{path}` does not fit this model: {reason}",
        "resume with the model, the settings and the precision of the run that wrote it",
        exit_code=2,
    )
