"""Statements and loop nests: the bodies of maps and reductions. `compiler.ir.level2.program` is their face.

Assumes / guarantees: plain data; legality is specified in verify/kernel.py.
Does not: say what names mean (formals of the kernel do).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr
from compiler.ir.space import DType

Word = str
"""A word of the language. Every other string of level-2 code is a name: of a formal, a dim or a local."""


class FindsFormals:
    """A body, or the relation of a propagation, which finds the formals `by_name` by these names, with their types
    (None: several have that name): they are part of the kernel's text."""

    by_name: ClassVar[Mapping[str, DType | None]] = MappingProxyType({})

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Those of its statements, and what it sums."""
        return ()


@dataclass(frozen=True)
class Assign:
    """`target = value`: a written array formal's element, or a local (declared by its first assignment).

    A body is straight-line code; every expression reads the newest values. Locals are REAL, INT or BOOL
    by inference (compiler/expr/types.py).
    """

    target: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Add:
    """`target += value` on an ACCUMULATE formal (or, in a nest, on an UPDATE formal)."""

    target: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Emit:
    """Append the element's index `i` to the list of this step when `when` holds; replaces the slot's list.

    `list` (i32 [slots][n]) and `count` (i32 [slots]) are ByName formals, `slots` a column; the slot of step k
    is k mod slots. Lists are ascending on cpu and reference, unordered on cuda.
    """

    list: str
    count: str
    slots: str
    when: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Assign | Add | Emit
Statements = tuple[Statement, ...]


def value_of(s: Statement) -> Expr:
    """What a statement evaluates."""
    return s.when if isinstance(s, Emit) else s.value


class DimKind(StrEnum):
    PAR = "par"  # iterations are independent
    RED = "red"  # combined into the accumulator, in order, innermost last
    LANE = "lane"  # parallel, innermost in memory, literal extent (vector lanes of a Lanes layout)


@dataclass(frozen=True)
class Dim:
    name: str
    extent: int | str  # literal (structure) or column
    kind: DimKind = DimKind.PAR
    meaning: str = field(default="", compare=False, repr=False)  # as that of an array formal

    @property
    def word(self) -> str:
        """What text calls it."""
        return self.meaning or self.name


@dataclass(frozen=True)
class Sum:
    """A reduction over the RED dims of a nest: acc = identity; for each of their points: acc = combine(acc, term)."""

    acc: str
    term: Expr


@dataclass(frozen=True)
class TileSum:
    """What `target`, [columns][tiles], has of the rows of a tile: l1.TileSum, whose kinds are those of `of`. `value`
    reads array formals at a point, after the epilogue; what is written has its value as it is stored. `weight`: the
    formal with the weights of rows, one after the other ("": they are 1)."""

    target: str
    of: Word
    value: Expr
    weight: str = ""


@dataclass(frozen=True)
class Stage:
    """More reductions over the RED dims of a nest, whose terms may read what earlier epilogues have, and then their
    epilogue."""

    combine: Word
    sums: tuple[Sum, ...]
    epilogue: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Blocks:
    """The sums of a nest are long: the terms of `length` (a literal or a column) iterations of the RED dim `dim`, and
    of all dims inside it, are added up by themselves from 0 on, and what they come to is added to the accumulator with
    what rounding took from it before (`carried` in backends/device/elementary.py)."""

    dim: str
    length: int | str


@dataclass(frozen=True)
class Nest(FindsFormals):
    """A loop nest. For every point of the PAR and LANE dims:

        prologue                                  (straight-line; may read any formal not indexed by RED dims)
        acc = identity; for RED dims: acc = combine(acc, term)        (only when `combine` is given)
        epilogue                                  (may read the local named `acc`)

    MAP kernels have no combine: their statements are in `prologue`. `fill` is the value of guarded reads out of bounds.
    `beside`: more reductions in the same loops, by the same `combine`, each of which has its order and its local.
    `then`: what follows at each point, stage by stage; `each`: last, statements for each point of the RED dims (mean,
    variance and standardized elements of a row). Elements that several of them reach are each other's.
    `combine`: "add" | "max" | "min". Random calls at this level: Call("uniform" | "normal" | "exponential", (key
    column, integer index expression, Num draw)) and Call("poisson", (key, index, draw, lambda)), Call("binomial", (key,
    index, draw, n, p)). With a fourth argument, a Num, the first three draw what they draw in that step (0: in phase
    init), not in the one that runs.
    Call("shuffled", (key column, p, n, k)) is place k of permutation number p of 0 .. n - 1, integers.
    `blocks`: how the sums (combine "add") of all stages are added up, where they are long.
    """

    dims: tuple[Dim, ...]
    prologue: tuple[Statement, ...] = ()
    combine: Word | None = None
    term: Expr | None = None
    acc: str = "acc"
    epilogue: tuple[Statement, ...] = ()
    fill: float = 0.0
    beside: tuple[Sum, ...] = ()
    then: tuple[Stage, ...] = ()
    each: tuple[Statement, ...] = ()
    blocks: Blocks | None = None

    @property
    def par(self) -> list[Dim]:
        """The dims of its points."""
        return [d for d in self.dims if d.kind is not DimKind.RED]

    @property
    def red(self) -> list[Dim]:
        """The dims that are summed over."""
        return [d for d in self.dims if d.kind is DimKind.RED]

    @property
    def staged(self) -> bool:
        """Whether a point goes on after its first reductions."""
        return bool(self.then or self.each)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All reductions, with their epilogues, in order."""
        first = () if self.combine is None else (Stage(self.combine, self.sums, self.epilogue),)
        return (*first, *self.then)

    @property
    def terms(self) -> tuple[Expr, ...]:
        """Of all reductions."""
        return tuple(s.term for stage in self.stages for s in stage.sums)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All of them, in order."""
        return (*self.prologue, *(s for stage in self.stages for s in stage.epilogue), *self.each)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return (*map(value_of, self.statements), *self.terms)

    @property
    def sums(self) -> tuple[Sum, ...]:
        """The first reductions, in order; none in a map."""
        return () if self.combine is None or self.term is None else (Sum(self.acc, self.term), *self.beside)

    def rewritten(self, new: Callable[[Expr], Expr], statements: Callable[[Statements], Statements]) -> Nest:
        """The nest with other terms and statements."""

        def sums(found: tuple[Sum, ...]) -> tuple[Sum, ...]:
            return tuple(replace(s, term=new(s.term)) for s in found)

        return replace(
            self,
            prologue=statements(self.prologue),
            term=None if self.term is None else new(self.term),
            epilogue=statements(self.epilogue),
            beside=sums(self.beside),
            then=tuple(Stage(s.combine, sums(s.sums), statements(s.epilogue)) for s in self.then),
            each=statements(self.each),
        )
