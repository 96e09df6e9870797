"""Elementary functions over numpy arrays: those of backends/device/elementary.py, from which C is printed, too.

Assumes: IEEE arithmetic in numpy (no flush to zero), each operation rounded to the array's type.
Guarantees: the results have the bits of C under -ffp-contract=off and of CUDA under --fmad=false; NaN for NaN, though
the sign and payload of a NaN are not defined. Every call returns a new array of the broadcast shape and never warns.
Does not: accept integers where a real number is due (min, max, clip, abs, sign, floordiv and mod take them), or run
fast: this is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backends.device.precisions import PRECISIONS

Array = NDArray[Any]
Function = Callable[..., Array]

_OF_TYPE: Final = MappingProxyType({p.real: p for p in PRECISIONS})


def _real(name: str) -> Function:
    """The function over arrays of any shape, broadcast to one real type."""

    def call(*arguments: ArrayLike) -> Array:
        dtype = np.result_type(*arguments)
        of = _OF_TYPE.get(dtype.type)
        if of is None:
            raise TypeError(f"{name} takes float32 or float64, not {dtype}")
        arrays: Sequence[Array] = [np.asarray(a, dtype) for a in arguments]
        if any(a.shape != arrays[0].shape for a in arrays):
            arrays = np.broadcast_arrays(*arrays)
        flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
        with np.errstate(all="ignore"):
            result: Array = getattr(of, name)(*flat)
        return result.reshape(arrays[0].shape)

    return call


def _number(name: str, of_integers: Function) -> Function:
    """The function with another one for integers."""
    real = _real(name)

    def call(*arguments: ArrayLike) -> Array:
        with np.errstate(all="ignore"):
            whole = np.result_type(*arguments).kind in "iub"
            return np.asarray(of_integers(*arguments)) if whole else real(*arguments)

    return call


def carried(total: Array, part: Array, lost: Array) -> tuple[Array, Array]:
    """The next of a sum of parts, and what rounding added to it; sums of integers lose nothing."""
    of = _OF_TYPE.get(total.dtype.type)
    if of is None:
        return np.asarray(total + part), lost
    with np.errstate(all="ignore"):
        more, rest = of.carried(total, part, lost)
    return np.asarray(more), np.asarray(rest)


minimum: Final = _number("min", np.minimum)
maximum: Final = _number("max", np.maximum)
exp: Final = _real("exp")
log: Final = _real("log")
log1p: Final = _real("log1p")

_REAL: Final = "exp expm1 exprel log log1p log2 log10 pow sqrt tanh sigmoid softplus sinh cosh sin cos tan asin acos"
FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {name: _real(name) for name in (*_REAL.split(), "atan", "atan2", "erf")}
    | {name: _number(name, getattr(np, name)) for name in ("floor", "ceil", "round", "abs", "sign")}
    | {
        "min": minimum,
        "max": maximum,
        "clip": _number("clip", lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi)),
        "floordiv": _number("floordiv", np.floor_divide),
        "mod": _number("mod", np.mod),
    }
)
"""By name in the expression language; `pow`, `floordiv` and `mod` stand for `**`, `//`, `%`."""
