"""How kernels make the connections of a rule that numbers them: data, from which every backend prints or computes.

Assumes: the columns `n_pre` and `n_post`, and those of the rule.
Guarantees: all targets draw the same: integer arithmetic on words of Philox (backends/device/philox.h).
Does not: order or store connections (the backends sort rows that are drawn).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.expr.ast import Cond, Expr, Num, Ref

SOURCE: Final = Ref("i")
TARGET: Final = Ref("j")
PLACE: Final = Ref("c")
DRAWN: Final = (Ref("a"), Ref("b"))
SKIP: Final = Cond(Ref("skip"), Num(1), Num(0))


def past(x: Expr, other: Expr) -> Expr:
    """Neuron `x` of those that are not `other`, where a neuron must not be connected to itself."""
    return x + Cond(Ref("skip") & (x >= other), Num(1), Num(0))


@dataclass(frozen=True)
class Numbered:
    """Connections `c` = 0 .. `each` - 1 of each owner: a source `i` or target `j` = 0 .. `owners` - 1, or both
    populations together (`owner` ""). `source` and `target` are expressions of the owner, `c`, the columns, `skip`
    (whether i and j are one population without autapses), and what is drawn:

    `pools`: a is below the first, b below the second. With multapses a = (word 0 * pool) >> 32, b = (word 1 * pool) >>
    32 of the draw (index owner, step c, draw 0; of no owner: index c, step 0). Without, connection c is place c of
    permutation `owner` (0) of the pool, or of the product of both: a = place / second pool, b = place % second pool."""

    owner: str
    owners: Expr
    each: Expr
    source: Expr
    target: Expr
    pools: tuple[Expr, ...] = ()

    @property
    def by_source(self) -> bool:
        """Whether each source has `each` connections, without any drawing."""
        return self.owner == "i"
