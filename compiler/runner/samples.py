"""Samples for the inputs of a network, from a file or from a caller's arrays.

Assumes: the formats of compiler/array_files.py.
Guarantees: an array of the right shape and kind of numbers for every input, all of one length; anything else is refused
(E0917) with what was found.
Does not: scale (the program does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.array_files import headers, read_array
from compiler.diagnostics import did_you_mean
from compiler.ir.model import TensorInput
from compiler.runner.errors import RunError

Array = npt.NDArray[Any]
Samples = Mapping[str, npt.ArrayLike] | npt.ArrayLike


def _refuse(message: str, help: str | None = None) -> RunError:
    return RunError("E0917", message, help, exit_code=2)


def from_file(path: Path, inputs: Sequence[TensorInput], names: Mapping[str, str]) -> dict[str, Array]:
    """The arrays of a file: of each input the one that `names` says (that the training read), or that is called like
    the input. Raises RunError (E0917, exit 2)."""
    if not path.is_file():
        raise _refuse(f"there is no data file `{path}`")
    try:
        found = headers(path)
        out: dict[str, Array] = {}
        for item in inputs:
            name = _array_of(path, item, found, names, len(inputs))
            out[item.name] = read_array(path, name)
    except (OSError, ValueError) as error:
        raise _refuse(f"`{path}` cannot be read: {' '.join(str(error).split())[:120]}") from None
    return checked(out, inputs, f"`{path}`")


def _array_of(
    path: Path, item: TensorInput, found: Mapping[str, object], names: Mapping[str, str], inputs: int
) -> str | None:
    """The name of an input's array; None for a file that holds one array without a name."""
    if not found or "" in found:
        if inputs == 1:
            return None
        raise _refuse(f"`{path}` holds one array, but the network has {inputs} inputs", "use an .npz file")
    for name in (names.get(item.name), item.name):
        if name in found:
            return name
    wanted = names.get(item.name, item.name)
    listed = ", ".join(f"`{n}`" for n in list(found)[:12])
    help = did_you_mean(wanted, found) or f"it has {listed}"
    raise _refuse(f"`{path}` has no array `{wanted}` for the input `{item.name}`", help)


def from_caller(samples: Samples, inputs: Sequence[TensorInput], names: Mapping[str, str]) -> dict[str, Array]:
    """Arrays by name (of the input, or of the training's array), or one array for the only input."""
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


def checked(arrays: dict[str, Array], inputs: Sequence[TensorInput], where: str) -> dict[str, Array]:
    """The arrays, if they are samples of the inputs."""
    lengths: dict[str, int] = {}
    for item in inputs:
        a = arrays[item.name]
        if a.dtype.kind not in "fiub":
            raise _refuse(f"the array for `{item.name}` in {where} holds {a.dtype}, not numbers")
        if item.dtype != "real" and a.dtype.kind == "f":
            raise _refuse(f"`{item.name}` needs whole numbers, but its array in {where} holds {a.dtype}")
        if a.ndim == 0 or a.shape[1:] != item.shape:
            message = (
                f"`{item.name}` has samples of shape {list(item.shape)}, but the array in {where} is {list(a.shape)}"
            )
            raise _refuse(message, "the first axis counts samples")
        lengths[item.name] = a.shape[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n} of `{k}`" for k, n in lengths.items())
        raise _refuse(f"{where} has different numbers of samples: {listed}")
    if lengths and min(lengths.values()) == 0:
        raise _refuse(f"{where} holds no samples")
    return arrays
