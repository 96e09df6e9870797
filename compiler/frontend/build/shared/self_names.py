"""Names of a neuron's place: `self.i` and the others.

Assumes: a population of known size and shape, numbered row by row, channel after channel (docs/connectivity.md).
Guarantees: checked expressions read them as hidden parameters (level 0 has no other names for them), so that every
target has them as values per neuron; what is the same for all neurons is one number.
Does not: know copies (frontend/build/instances/expand.py gives each its number).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr, Ref, refs, rewrite
from compiler.expr.units import DIMENSIONLESS, Dimension

INSTANCE: Final = "self.instance"
SELF: Final[Mapping[str, Dimension | None]] = dict.fromkeys(
    (
        *("self.i", "self.n", "self.x", "self.y", "self.c", "self.w", "self.h"),
        *("self.px", "self.py", "self.pw", "self.ph", INSTANCE),
    ),
    DIMENSIONLESS,
)
"""What users write. i: index; n: size; x, y, c: column, row, channel; w, h: width, height; px, py: column and row of
the pool, pw, ph: of how many; instance: number of the copy; all from 0."""
PARAMS: Final = {name: l0.hidden(name.replace(".", "_")) for name in SELF}
"""The hidden parameter of each."""
HIDDEN: Final = frozenset(PARAMS.values())


def hide(e: Expr) -> Expr:
    """`e` with the hidden parameters."""
    if not refs(e) & PARAMS.keys():
        return e
    return rewrite(e, lambda x: Ref(PARAMS[x.name], x.span) if isinstance(x, Ref) and x.name in PARAMS else x)


_WRITTEN: Final = {hidden: name for name, hidden in PARAMS.items()}


def as_written(e: Expr) -> Expr:
    """`e` with the names that users write, for messages."""
    return rewrite(e, lambda x: Ref(_WRITTEN[x.name], x.span) if isinstance(x, Ref) and x.name in _WRITTEN else x)


def place_values(size: int, shape: tuple[int, ...]) -> dict[str, np.ndarray | float]:
    """The values of the hidden parameters, one per neuron where they differ; without the number of the copy."""
    *_, height, width = (1, 1, *shape) if shape else (1, size)
    rows, columns = pools_of(shape)
    k = np.arange(size)
    channel = k // (height * width)
    places = {"self.i": k, "self.x": k % width, "self.y": k // width % height, "self.c": channel}
    places |= {"self.px": channel % columns, "self.py": channel // columns}
    numbers = {"self.n": size, "self.w": width, "self.h": height, "self.pw": columns, "self.ph": rows}
    found: dict[str, np.ndarray | float] = {PARAMS[n]: v.astype(np.float64) for n, v in places.items()}
    return found | {PARAMS[n]: float(v) for n, v in numbers.items()}


def pools_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of pools: of a shape of 4 extents; else the channels are one row of them."""
    if len(shape) == 4:
        return shape[0], shape[1]
    return 1, shape[0] if len(shape) == 3 else 1


def param_values(names: frozenset[str], size: int, shape: tuple[int, ...]) -> dict[str, l0.Value]:
    """Values of the hidden parameters among `names` for a population."""
    values: dict[str, l0.Value] = {PARAMS[INSTANCE]: l0.Const(0.0)}
    for name, value in place_values(size, shape).items():
        values[name] = l0.Const(value) if isinstance(value, float) else l0.Listed(tuple(value.tolist()))
    return {n: v for n, v in values.items() if n in names}
