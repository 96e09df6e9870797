"""Definition of a connectivity rule: its keys, numbers, expected size and the columns of its kernels in one object.

Assumes: nothing of any rule; compiler/connect/__init__.py lists them.
Guarantees: language, frontend, verifier, passes and runtime derive what they know of a rule from these objects.
Does not: read files (the frontend fills a Place), or draw connections (the backends do, from `drawing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.connect.drawing import Drawing
from compiler.expr.ast import Expr
from compiler.expr.keys.kinds import Alternative, Block, Expression
from compiler.ir.space import DType

Args = tuple[tuple[str, float | int], ...]
Table = tuple[str, Callable[[], npt.NDArray[np.uint32]]]
Setting = tuple[int, int] | bool


def pair(settings: Mapping[str, Setting], key: str) -> tuple[int, int]:
    """A setting that is one number for rows and columns each."""
    found = settings[key]
    assert isinstance(found, tuple)
    return found


class Form(Enum):
    """How the connections of a rule are known: what may be stored, reversed or left out follows from it."""

    ALL = "every pair"
    DIAGONAL = "neuron i to neuron i"
    WINDOWS = "a kernel at every position; the family has planes"
    GIVEN = "explicit pairs of the user"
    DRAWN = "drawn or computed pair by pair, on the device"


class Misfit(Exception):
    """Populations or numbers that a rule cannot have. `key`: the invalid value, which is reported once (None: the rule,
    for these populations); `places`: populations whose declarations are shown."""

    def __init__(
        self,
        code: str,
        message: str,
        help: str | None = None,
        key: str | None = None,
        places: tuple[l0.Population, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.help, self.key, self.places = code, message, help, key, places


@dataclass(frozen=True)
class Place:
    """One member of a family, for the arguments of its rule. `values`: the rule's numbers and flags, in the order of
    its keys, defaults filled in."""

    source: l0.Population
    target: l0.Population
    values: Mapping[str, float | int]
    planes: l0.Planes | None = None

    @property
    def hole(self) -> bool:
        """Whether the pairs (i, i) are left out."""
        return self.source.name == self.target.name and not self.values.get("autapses", 1)


class Neurons(Protocol):
    """A population of level 0, or an instance of level 1."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Ends:
    """One built member of a family (`projection`), and its populations."""

    projection: l0.Projection
    member: l0.Member
    pre: Neurons
    post: Neurons

    @property
    def args(self) -> Mapping[str, float | int]:
        return dict(self.member.args)

    @property
    def hole(self) -> bool:
        """Whether the pairs (i, i) are left out."""
        return self.pre.name == self.post.name and int(self.args.get("autapses", 1)) == 0

    @property
    def pairs(self) -> int:
        """All pairs that may be connected."""
        return self.pre.size * self.post.size - (self.pre.size if self.hole else 0)


@dataclass(frozen=True)
class Rows:
    """Connections that the host knows, source by source, targets ascending. `row` i64 [n_pre + 1], `col` i32; `given`:
    how many values the user gives; `order` i64: which of them each synapse has."""

    row: npt.NDArray[np.int64]
    col: npt.NDArray[np.int32]
    given: int
    order: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Expressed:
    """A rule as a condition over places of both ends, and the numbers that it reads of two populations beside extents
    (raises Misfit)."""

    condition: Expr
    arguments: Callable[[Place], Args]


def as_given(p: Place) -> Args | None:
    """All numbers and flags of the file are arguments."""
    return tuple(p.values.items())


@dataclass(frozen=True)
class ConnectRule:
    """`keys`: the name, the keys and the texts of the language; `synonyms`: what users of other tools write instead,
    with what to write here. `own_name`: the name in the IR, where it is not that of the language.

    `arguments(place)`: the level-0 arguments of a member; None where the member is left out. Raises Misfit.
    `planes(settings)`: of the form WINDOWS. `count(ends)`: the expected number of connections; `random`: that number is
    drawn. `amount`: the argument that is a probability or a number of connections: at 0 there are none.

    What the host knows of the connections: `rows(ends)`, of the forms GIVEN and WINDOWS; `bits(ends)`, bool [n_pre,
    n_post], where a pair is connected at most once.

    Kernels that draw read `columns`, integers: arguments, `same` (both ends are one population), and the extents
    `w_from`, `h_from`, `w_to`, `h_to`; and `table(args)`: the name of an array that members share, and what makes it.
    `drawing`: what such kernels compute.
    `held`: why the connections of one source cannot be drawn again at its spikes; `ordered`: they are drawn in
    ascending order, which numbers them.

    `expressed(settings)`: of a rule that the IR does not know, which stands there as that of an expression.
    `each`: of a rule that decides pair by pair, a condition, or the probability of every pair by the rule's numbers."""

    keys: Alternative
    form: Form
    count: Callable[[Ends], float]
    arguments: Callable[[Place], Args | None] = as_given
    columns: tuple[str, ...] = ()
    table: Callable[[Mapping[str, float | int]], Table] | None = None
    drawing: Drawing | None = None
    planes: Callable[[Mapping[str, Setting]], l0.Planes] | None = None
    rows: Callable[[Ends], Rows] | None = None
    bits: Callable[[Ends], npt.NDArray[np.bool_]] | None = None
    amount: str = ""
    random: bool = False
    held: str = ""
    ordered: bool = True
    own_name: str = ""
    expressed: Callable[[Mapping[str, Setting]], Expressed] | None = None
    each: Expr | None = None
    synonyms: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        return self.own_name or self.keys.name

    @property
    def block(self) -> Block:
        assert isinstance(self.keys.kind, Block)
        return self.keys.kind

    @cached_property
    def expression(self) -> bool:
        """Whether an expression decides."""
        return any(isinstance(f.kind, Expression) for f in self.block.fields)

    @property
    def repeats(self) -> bool:
        """Whether a pair may be connected several times."""
        return "multapses" in self.block.by_name

    @property
    def reversible(self) -> bool:
        """Whether the pairs are known before the run, so that those of another projection can be the same, reversed."""
        return self.form in (Form.ALL, Form.DIAGONAL, Form.GIVEN)

    @cached_property
    def formals(self) -> Mapping[str, DType]:
        """What its kernels read by name."""
        table = {"table": DType.U32} if self.table is not None else {}
        return {**table, **dict.fromkeys(self.columns, DType.I64)}

    @property
    def arrays(self) -> bool:
        """Whether connections have an order before they are drawn, so that values may be lists or arrays."""
        return self.form is not Form.DRAWN

    def shape(self, pre: int, post: int) -> tuple[int, ...] | None:
        """The shape of an array with one value for each pair, where that follows from the populations alone."""
        return {Form.ALL: (pre, post), Form.DIAGONAL: (pre,)}.get(self.form)

    def empty(self, args: Args) -> bool:
        """Whether these arguments connect nothing."""
        return bool(self.amount) and dict(args).get(self.amount) == 0
