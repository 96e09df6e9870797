"""Samples for the inputs of a trained network, from another file, or from a caller's arrays.

Assumes: the formats of compiler/files/array_files.py; a training that was loaded without its data
(compiler/frontend/build/tensors/data.py).
Guarantees: an array of the right shape and kind of numbers for every input, all of one length; anything else is refused
(E0917).
Does not: scale (the program does).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError, did_you_mean
from compiler.files.array_files import Header, headers
from compiler.files.array_rows import Rows
from compiler.files.data_source import open_samples, read_samples, samples_header
from compiler.files.sample_help import sample_help
from compiler.ir.level0.tensors import DEFAULT_MEMORY

Array = npt.NDArray[Any]
Samples = Mapping[str, npt.ArrayLike] | npt.ArrayLike


def _refuse(message: str, help: str | None = None) -> RunError:
    return RunError("E0917", message, help)


def array_names(model: l0.Model) -> dict[str, str]:
    """Which array of a data file the training read for each input, where it is given."""
    data = model.train.data if model.train is not None else None
    return {} if data is None else {name: text for name, _, text in data.files if text}


def from_file(path: Path, inputs: Sequence[l0.TensorInput], model: l0.Model, cache: Path) -> dict[str, Array | Rows]:
    """The arrays of a file (or folder of images) for `inputs`; larger ones than a training loads stay in the file.
    Raises RunError (E0917, exit 2)."""
    data = data_of(path, inputs, model)
    sizes = headers_checked(data, inputs)
    large = sum(sizes.values()) > data.memory
    with readable(f"`{path}`"):
        return {
            name: open_samples(data, array, cache) if large else read_samples(data, array)
            for name, array, _ in data.arrays
        }


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Errors of reading become a RunError (E0917, exit 2)."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refuse(f"{what} cannot be read: {' '.join(str(error).split())[:120]}") from None


def data_of(path: Path, inputs: Sequence[l0.TensorInput], model: l0.Model) -> l0.Data:
    """Where `inputs` stand in a file: in the columns, or in the array, that the training read, or in one with the
    name of the input; with the training's scale. Raises RunError (E0917, exit 2)."""
    if not path.exists():
        raise _refuse(f"there is no data file `{path}`")
    names = array_names(model)
    columns = dict(model.train.data.columns) if model.train is not None else {}
    scales = {name: scale for name, _, scale in model.train.data.arrays} if model.train is not None else {}
    with readable(f"`{path}`"):
        known = headers(path)
    arrays = []
    together: list[tuple[str, tuple[str, ...]]] = []
    for item in inputs:
        array = item.name
        if item.name in columns and known.keys() >= set(columns[item.name]):
            together.append((array, columns[item.name]))
        else:
            array = _array_of(path, item, known, names, columns.get(item.name, ()), len(inputs))
        arrays.append((item.name, array, scales.get(item.name, 1.0)))
    memory = model.train.data.memory if model.train is not None else DEFAULT_MEMORY
    return l0.Data(str(path), tuple(arrays), 0.0, columns=tuple(together), memory=memory)


def headers_checked(data: l0.Data, inputs: Sequence[l0.TensorInput]) -> dict[str, int]:
    """As `checked`, without reading the arrays; their bytes."""
    sizes: dict[str, int] = {}
    where, lengths = f"`{data.path}`", {}
    for item, (_, array, _) in zip(inputs, data.arrays, strict=True):
        with readable(where):
            header = samples_header(data, array)
        _fits(item, header, where)
        lengths[item.name] = header.shape[0]
        sizes[item.name] = header.size * np.dtype(header.dtype).itemsize
    _one_length(lengths, where)
    return sizes


def _array_of(
    path: Path, item: l0.TensorInput, arrays: Mapping[str, object], names: Mapping[str, str], columns: Sequence[str],
    inputs: int,
) -> str:  # fmt: skip
    """The name of an input's array; "" for a file that holds one array without a name."""
    if not arrays or "" in arrays:
        if inputs == 1:
            return ""
        raise _refuse(f"`{path}` holds one array, but the network has {inputs} inputs", "use an .npz file")
    for name in (names.get(item.name, item.name), item.name):
        if name in arrays:
            return name
    listed = ", ".join(f"`{n}`" for n in list(arrays)[:12])
    missing = next((c for c in columns if c not in arrays), None)
    if missing is not None:
        message = f"`{path}` has no column `{missing}`, of which the input `{item.name}` is made"
        raise _refuse(message, did_you_mean(missing, arrays) or f"it has {listed}")
    wanted = names.get(item.name, item.name)
    help = did_you_mean(wanted, arrays) or f"it has {listed}"
    raise _refuse(f"`{path}` has no array `{wanted}` for the input `{item.name}`", help)


def from_caller(samples: Samples, inputs: Sequence[l0.TensorInput], model: l0.Model) -> dict[str, Array]:
    """Arrays by name (of the input, or of the training's array), or one array for the only input."""
    names = array_names(model)
    if not isinstance(samples, Mapping):
        if len(inputs) != 1:
            listed = ", ".join(f"`{i.name}`" for i in inputs)
            raise _refuse(f"the network has {len(inputs)} inputs: give arrays by name ({listed})")
        return checked({inputs[0].name: np.asarray(samples)}, inputs, "the data")
    out: dict[str, Array] = {}
    for item in inputs:
        name = item.name if item.name in samples else names.get(item.name, item.name)
        if name not in samples:
            raise _refuse(f"the data have no array `{item.name}`")
        out[item.name] = np.asarray(samples[name])
    return checked(out, inputs, "the data")


def checked(arrays: dict[str, Array], inputs: Sequence[l0.TensorInput], where: str) -> dict[str, Array]:
    """The arrays, if they are samples of the inputs."""
    for item in inputs:
        a = arrays[item.name]
        _fits(item, Header(a.shape, a.dtype.kind, str(a.dtype)), where)
    _one_length({i.name: arrays[i.name].shape[0] for i in inputs}, where)
    return arrays


def _fits(item: l0.TensorInput, header: Header, where: str) -> None:
    help = sample_help(item.name, item.shape, item.dtype != "real", header.shape, header.kind, fixed=True)
    if header.kind not in "fiub":
        raise _refuse(f"the array for `{item.name}` in {where} holds {header.held}, not numbers", help)
    if item.dtype != "real" and header.kind == "f":
        raise _refuse(f"`{item.name}` needs whole numbers, but its array in {where} holds {header.dtype}", help)
    if not header.shape or header.shape[1:] != item.shape:
        has = list(header.shape)
        message = f"`{item.name}` has samples of shape {list(item.shape)}, but the array in {where} is {has}"
        raise _refuse(message, help or "the first axis counts samples")


def _one_length(lengths: Mapping[str, int], where: str) -> None:
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n} of `{k}`" for k, n in lengths.items())
        raise _refuse(f"{where} has different numbers of samples: {listed}")
    if lengths and min(lengths.values()) == 0:
        raise _refuse(f"{where} holds no samples")
