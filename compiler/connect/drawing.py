"""How kernels draw the connections of a rule: data, from which every backend prints or computes.

Assumes: the columns `n_pre` and `n_post`, and those of the rule.
Guarantees: all targets draw the same: integer arithmetic on words of Philox (backends/device/philox.h). Only the
expression of a model computes with real numbers: its pairs are the same under `order: bitwise`, else where rounding
does not decide.
Does not: order or store connections (the backends sort rows that are drawn).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.expr.ast import Cond, Expr, Num, Ref

SOURCE: Final = Ref("i")
TARGET: Final = Ref("j")
PLACE: Final = Ref("c")
TURN: Final = Ref("n")
DRAWN: Final = (Ref("a"), Ref("b"))
HOLDS: Final = Ref("holds")
HOLE: Final = Ref("skip")
SKIP: Final = Cond(HOLE, Num(1), Num(0))


def past(x: Expr, other: Expr) -> Expr:
    """Neuron `x` of those that are not `other`, where a neuron must not be connected to itself."""
    return x + Cond(HOLE & (x >= other), Num(1), Num(0))


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


@dataclass(frozen=True)
class Passing:
    """Each source `i` passes over places 0 .. `pool` - 1 in ascending order: from -1, turn `n` = 0, 1, ... moves on by
    `step` to place `c`, which ends the row where it is not in the pool; else `target` is connected if `hit` (never
    where c is the `hole` and `skip`). They are expressions of `i`, `c`, the columns, `skip`, and the words of the draw
    (index `index`, step `at`, draw 0):

    with a table of 512 thresholds: a is the number of those 256 .. 511 that are below word 0, b of those 0 .. 254 that
    are below word 1;
    with an expression of the model: `holds` is its truth value for the pair (no draw), or word 0 / 2**32 < it."""

    pool: Expr
    index: Expr
    at: Expr
    step: Expr
    hit: Expr
    target: Expr
    hole: Expr | None = None

    @property
    def each(self) -> bool:
        """Whether no place is left out, so that all can be looked at side by side."""
        return self.step == Num(1)


Drawing = Numbered | Passing
