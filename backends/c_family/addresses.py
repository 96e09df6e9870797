"""Addresses of elements: what an access of a nest (l2.Strided) is as an expression.

Assumes: a legal template (verify/verify.py); the names in its affine accesses are dims, columns or integer locals.
Guarantees: one form for all targets: an address is a sum over axes, of an index times a stride each, and its guard is
apart from it, axis by axis, for whoever computes it elsewhere. Indices are 64-bit arithmetic.
Does not: choose where guards are computed (the backends do).
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import compiler.ir.level2.program as l2
from backends.kernel_ir.expr import ZERO, binary, cast, code, every, total
from backends.kernel_ir.tree import Code


def quotient(axis: l2.Axis) -> l2.Axis:
    """What tells whether the index of an axis is divisible."""
    return replace(axis, extent=None, stride=1)


def inner_last(access: l2.Strided) -> list[l2.Axis]:
    """The axes, the one whose elements lie beside each other last."""
    return sorted(access.axes, key=lambda a: a.stride == 1)


@dataclass(frozen=True)
class Addresses:
    """`name`: dims, columns and locals inside an index. `short`: those of guarded axes are computed in 32 bits; the
    target makes sure that they fit. `exact`: quotients that are known to have no remainder."""

    name: Callable[[str], Code]
    short: bool = False
    exact: AbstractSet[l2.Axis] = frozenset()

    def number(self, x: int | str) -> Code:
        return code(x) if isinstance(x, int) else self.name(x)

    def numerator(self, axis: l2.Axis) -> Code:
        """const + sum(coefficient * dim) of an axis."""
        parts = list[Code | int]()
        short = self.short and axis.guarded
        for dim, coefficient in axis.terms:
            x = cast("nl_i32", self.name(dim)) if short else self.name(dim)
            parts.append(-x if coefficient == -1 else x if coefficient == 1 else coefficient * x)
        const = self.number(axis.const)
        return total([*parts, cast("nl_i32", const) if short and isinstance(axis.const, str) else const])

    def index(self, axis: l2.Axis) -> Code:
        numerator = self.numerator(axis)
        return numerator if axis.div == 1 else numerator / axis.div

    def scaled(self, index: Code, axis: l2.Axis) -> Code:
        """index * stride."""
        if axis.stride == 1 or index == ZERO:
            return index
        return index * self.number(axis.stride)

    def part(self, axis: l2.Axis) -> Code:
        """What an axis adds to the offset of an element."""
        index = self.index(axis)
        return self.scaled(cast("nl_i64", index) if self.short and axis.guarded else index, axis)

    def offset(self, access: l2.Strided) -> Code:
        return total(self.part(a) for a in inner_last(access))

    def divides(self, axis: l2.Axis) -> Code | None:
        """Whether the division of an index is exact; None: always."""
        if axis.div == 1 or quotient(axis) in self.exact:
            return None
        return binary(self.numerator(axis) % axis.div, "==", 0)

    def within(self, axis: l2.Axis, index: Code | None = None) -> Code | None:
        """Whether an index is inside the extent; None: always."""
        if axis.extent is None:
            return None
        kind, extent = "nl_u32" if self.short else "nl_u64", self.number(axis.extent)
        return cast(kind, index or self.index(axis)) < cast(kind, extent)

    def inside(self, access: l2.Strided) -> Code | None:
        """The guard of an access; None: it has none."""
        return every(test for axis in access.axes for test in (self.divides(axis), self.within(axis)))
