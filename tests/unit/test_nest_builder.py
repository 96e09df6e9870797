"""Loops of nests: what they walk in the arrays."""

from __future__ import annotations

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.space import along
from compiler.passes.kernels.nest_builder import Loops, Walk, build_loops


def element(loops: Loops, formal: str, at: dict[str, int]) -> int:
    """The place that a formal is accessed at."""
    access = loops.accesses[formal]
    assert isinstance(access, l2.Strided)

    def number(x: int | str) -> int:
        return loops.columns[x] if isinstance(x, str) else x

    return sum(
        (number(axis.const) + sum(at[d] * n for d, n in axis.terms)) * number(axis.stride) for axis in access.axes
    )


def test_a_dim_may_walk_several_axes_of_an_array() -> None:
    """As those of the blocks along a diagonal."""
    g, k, c = along("g"), along("k"), along("c")
    blocks, y = l1.Tensor("blocks", (2, 4, 2, 3)), l1.Tensor("y", (2, 4, 3))
    walks = [Walk("y", y, (g, k, c)), Walk("x", blocks, (g, k, g, c)), Walk("z", l1.Tensor("z", (2, 2)), (g, g))]
    loops = build_loops(walks, (("g", 2), ("k", 4), ("c", 3)), ["g", "k", "c"], frozenset(), 0)
    assert [d.name for d in loops.dims] == ["g", "k", "c"]
    at = {"g": 1, "k": 2, "c": 1}
    assert element(loops, "y", at) == (1 * 4 + 2) * 3 + 1
    assert element(loops, "x", at) == ((1 * 4 + 2) * 2 + 1) * 3 + 1
    assert element(loops, "z", at) == 1 * 2 + 1
