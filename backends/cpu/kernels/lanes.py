"""lanes: which loops over the points of a nest are carried out as lanes of vectors.

Assumes: statements of one nest, whose loops over points are told by their kinds.
Guarantees: every such loop has a kind that can be printed. The innermost ones are lanes, unless they add to elements of
the kernel's arrays, which points may share; a loop over lanes stays one loop.
Does not: change bodies, or see additions in frames.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from backends.kernel_ir import stmt
from backends.kernel_ir.stmt import For, Kind, Stmt, changed, walk
from backends.kernel_ir.tree import Index


def in_lanes(statements: Sequence[Stmt], arrays: Set[str]) -> list[Stmt]:
    """`arrays`: the names of the kernel's pointers."""

    def adds(s: Stmt) -> bool:
        return isinstance(s, stmt.Set) and s.op != "=" and isinstance(s.target, Index) and s.target.array.text in arrays

    def chosen(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind not in (Kind.POINTS, Kind.LANE):
            return s
        apart = not any(isinstance(x, For) or adds(x) for x in walk(s.body))
        if s.kind is Kind.POINTS:
            return replace(s, kind=Kind.LANES if apart else Kind.SERIAL)
        return replace(s, kind=Kind.KEPT_LANES if apart else Kind.KEPT)

    return changed(statements, chosen)
