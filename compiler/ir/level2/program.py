"""Level 2, program: kernels over arrays with declared effects, and their merged form.

A `Kernel` is written over *formals*. A row binds each formal: an array formal to an array of the program
(a byte offset into an arena), a scalar formal to a number. A kernel carries all rows that share its text
(a family of 64,000 projections is one kernel and a table); `merge` joins kernels whose texts are equal up to
the names of formals and locals. So code is emitted once per *template* and everything else is data.

Assumes: names are unique (`Program.arrays` by name; formals within a kernel).
Guarantees: frozen data with structural equality (spans outside it); legality is specified in verify/verify.py.
Does not: place arrays in memory (plan_memory), order launches (schedule) or print code (backends).

Rows are 8 bytes a column: array formals u64 byte offsets, integers i64, reals f64 (cast once per row).
Global names readable in every body: `step` (i64, the step that runs, from 1; 0 in init phases).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from math import prod
from operator import mul
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr

# This module is the face of level 2: `import compiler.ir.level2.program as l2` gives all of its nodes.
from compiler.ir.level2.nests import *  # noqa: F403
from compiler.ir.level2.relations import *  # noqa: F403
from compiler.ir.space import DType, Role

# ruff: noqa: F405

# ---------------------------------------------------------------------------------------------- arrays


@dataclass(frozen=True)
class Lanes:
    """Batch-in-lanes layout: logical (N, rest...) is stored as [ceil(N / lanes)][rest...][lanes]."""

    lanes: int


# Frozen by `Final` where a model may have 100,000, as spans are (compiler/core/source.py).
@dataclass(slots=True, unsafe_hash=True)
class Array:
    """One array of the program. `shape` is the logical shape; `layout` None means row-major.

    `size_from`: when the extent is known only after connecting (numbers of synapses), the name of the
    row-pointer array whose last element is the extent; `shape` is then (-1,).
    `unit`: canonical unit for outputs ("mV"); `path`: model path for messages ("exc.v").
    `least`: no element of a delay array is smaller (steps).
    `within`: the array that it is a part of, from element `first` on; "": it has a place of its own.
    `by_step`: elements between the parts of two steps of a loop (Loop), of which the first one begins at `first`;
    `ring`: only so many steps have one, so that that of step t is that of step t mod ring (0: every step).
    `strides`: of a part between whose elements others lie, elements per step along each axis; with lanes, axis 0 counts
    blocks of samples. (): none lie there.
    """

    name: Final[str]
    dtype: Final[DType]
    shape: Final[tuple[int, ...]]
    role: Final[Role]
    layout: Final[Lanes | None] = None
    size_from: Final[str | None] = None
    unit: Final[str] = "1"
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)
    least: Final[int] = 0
    within: Final[str] = ""
    first: Final[int] = 0
    by_step: Final[int] = 0
    ring: Final[int] = 0
    strides: Final[tuple[int, ...]] = ()

    def first_at(self, step: int) -> int:
        """The first element in a step of a loop, from 0."""
        return self.first + self.by_step * (step % self.ring if self.ring else step)

    def over(self, steps: int) -> tuple[int, int]:
        """The elements, from the first one to behind the last one, in which the parts of so many steps lie."""
        ends = self.first, self.first_at((self.ring or steps) - 1)
        return min(ends), max(ends) + self.physical_size

    @property
    def physical_size(self) -> int:
        """Number of stored elements (padding of lanes included); -1 when not yet known. Of a part with gaps the
        elements from its first one to its last one."""
        if self.size_from is not None:
            return -1
        if self.strides:
            return 1 + sum((extent - 1) * by for extent, by in self.walk)
        if self.layout is None:
            return prod(self.shape)
        return -(-self.shape[0] // self.layout.lanes) * self.layout.lanes * prod(self.shape[1:])

    @property
    def walk(self) -> tuple[tuple[int, int], ...]:
        """Extents and strides of the axes as its elements are stored, of a size that is known."""
        if not self.shape:
            return ()
        lanes = () if self.layout is None else ((self.layout.lanes, 1),)
        blocks = self.shape[0] if self.layout is None else -(-self.shape[0] // self.layout.lanes)
        extents = (blocks, *self.shape[1:])
        inner = accumulate(reversed(extents[1:]), mul, initial=lanes[0][0] if lanes else 1)
        strides = self.strides or tuple(inner)[::-1]
        return (*zip(extents, strides, strict=True), *lanes)


# --------------------------------------------------------------------------------------------- formals


class Mode(StrEnum):
    """The access of a kernel to an array formal."""

    READ = "r"
    WRITE = "w"  # every element of the accessed part is written, old values are not read
    UPDATE = "rw"
    ACCUMULATE = "acc"  # += from several places; order is the kernel's order class


@dataclass(frozen=True)
class Axis:
    """One axis of an affine access: index = (const + sum(coef * dim)) / div; address += stride * index.

    `terms` name dims of the nest or integer locals of its prologue; coefficients are literals (structure).
    `const`, `extent` and `stride` are column names or literals. `extent` None: always inside. Otherwise the
    access is *guarded*: where the index is outside [0, extent), or div does not divide, the element reads
    as the kernel's `fill`, and is not written.
    """

    terms: tuple[tuple[str, int], ...]
    const: int | str = 0
    div: int = 1
    extent: int | str | None = None
    stride: int | str = 1

    @property
    def guarded(self) -> bool:
        return self.extent is not None or self.div != 1

    @property
    def dim(self) -> str | None:
        """The dim that the index is, if it is one."""
        plain = len(self.terms) == 1 and (self.terms[0][1], self.const, self.div, self.extent) == (1, 0, 1, None)
        return self.terms[0][0] if plain else None


@dataclass(frozen=True)
class Strided:
    """Element access of a nest: the sum over axes."""

    axes: tuple[Axis, ...]

    @property
    def guards(self) -> list[Axis]:
        return [a for a in self.axes if a.guarded]

    @property
    def dims(self) -> frozenset[str]:
        """What the indices depend on."""
        return frozenset(d for a in self.axes for d, _ in a.terms)

    def along(self, dim: str) -> list[tuple[Axis, int]]:
        """The axes along which a step of a dim goes, and how far."""
        return [(a, c) for a in self.axes for d, c in a.terms if d == dim]

    def neighbours(self, dim: str) -> bool:
        """Whether a step of a dim goes to the next element in memory."""
        return [(a.stride, c) for a, c in self.along(dim)] == [(1, 1)]


@dataclass(frozen=True)
class At:
    """Element access in a propagation: "pre" (the source neuron), "post" (the target), "syn" (the synapse).

    `ring`: (delay formal, slots column, size column): the array is a ring buffer of more slots than any delay, of
    `size` elements each, and the element is the one of slot (step + delay) mod slots: the arrivals of that step.
    `past`: that of slot (step - delay) mod slots, which is read only: the value written in that step.
    """

    end: Word
    ring: tuple[str, str, str] | None = None
    past: bool = False


@dataclass(frozen=True)
class ByName:
    """The kernel's own structure uses this array by its name (row pointers, event lists, buffers)."""


Access = Strided | At | ByName

ELEMENT = Strided((Axis((("i", 1),)),))
"""The access of a flat map over `i`: element i."""

SCALAR = Strided(())
"""The access of an array of one element."""


@dataclass(slots=True)
class ArrayFormal:
    """`meaning`: a word for what it is (`weight`, `image`), from the first kernel that was lowered with it; text shows
    it in place of `name` ("": the name); `unit`: that of all its arrays, for the text. Kernels are equal without
    them."""

    name: Final[str]
    dtype: Final[DType]
    mode: Final[Mode]
    access: Final[Access]
    meaning: Final[str] = field(default="", compare=False, repr=False)
    unit: Final[str] = field(default="", compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.name)  # a kernel has each name once; kernels of 100,000 rows are looked up by their formals


@dataclass(slots=True, unsafe_hash=True)
class ScalarFormal:
    """A column. F32/F64 columns are stored as f64; integers as i64; U64 is for random-stream keys. `unit`: as that of
    an array."""

    name: Final[str]
    dtype: Final[DType]
    unit: Final[str] = field(default="", compare=False, repr=False)


Formal = ArrayFormal | ScalarFormal


class HasFormals:
    formals: tuple[Formal, ...]

    @property
    def arrays(self) -> list[ArrayFormal]:
        return [f for f in self.formals if isinstance(f, ArrayFormal)]

    @property
    def columns(self) -> list[ScalarFormal]:
        return [f for f in self.formals if isinstance(f, ScalarFormal)]

    @property
    def strided(self) -> dict[str, Strided]:
        """The accesses to arrays whose elements the dims of a nest tell, by formal."""
        return {f.name: f.access for f in self.arrays if isinstance(f.access, Strided)}


# ---------------------------------------------------------------------------------------------- bodies


@dataclass(frozen=True)
class Contract(FindsFormals):
    """A contraction computed by a named strategy (compiler/strategies); `nest` is its meaning.

    `literals` are the structural integers of the strategy's template (kernel size, stride, tile sizes).
    The strategy's template may use any formal of the kernel and `scratch` bytes per row (a column name).
    `nest.epilogue` is fused into the template's stores, and so are `sums` over the rows of each tile; columns say how
    many rows a tile has (`tile_lines`), how many tiles a batch (`tile_rows`) and all batches (`tiles`). `flat`: arrays
    that only the epilogue reaches lie as if all dims of their points but the last were one. `apart`: one that the
    epilogue reaches has other elements between the lines of the result's last axis, as a part of a longer array has, or
    one whose axes are in another order.
    """

    nest: Nest
    strategy: Word
    literals: tuple[tuple[Word, int], ...] = ()
    scratch: str | None = None
    sums: tuple[TileSum, ...] = ()
    flat: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Attention(FindsFormals):
    """Results of an l1.Attention, `of` "context" alone or with "norms"; "query"; "key", "value" or both. Array formals
    have the names of its operands and results: query, key, value, offset, mask; context_grad, norms, context;
    query_grad etc. Columns: batch, heads, steps, keys, d, e, scale; the elements between two steps of query, key and
    value (`key_by_step`), whose heads are side by side; and for each of `beside` those between two of its samples,
    heads and steps (`mask_by_head`: 0 where they share them). `wide`: d and e are at most that."""

    by_name = dict.fromkeys(
        (
            *("query", "key", "value", "offset", "mask", "context", "norms"),
            *("context_grad", "query_grad", "key_grad", "value_grad"),
            *("batch", "heads", "steps", "keys", "d", "e", "scale"),
            *(f"{name}_by_{of}" for name in ("offset", "mask") for of in ("sample", "head", "step")),
            *("query_by_step", "key_by_step", "value_by_step"),
        )
    )
    of: tuple[Word, ...]
    wide: int
    factors: int
    causal: bool
    beside: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Propagate:
    """For every event, in list order, for every synapse of that neuron, in the relation's order: run the statements.

    `by` says which end the events belong to: "pre" (a spike reaches the synapses of its source) or "post" (the synapses
    of its target; a stored relation is then the transposed one: `row` over targets, `col` the sources). Array formals
    are accessed At("pre"), At("post") and At("syn") whatever `by` is, and SCALAR ones are read; `pre`, `post` and `syn`
    are integers in the statements. Random calls use (key column, `syn`, draw). Statements write what is At("syn"), and
    add to ACCUMULATE formals at either end; the synapses of one launch are distinct.

    `gather`: the synapses of one neuron run one after the other in every backend, neurons side by side; so statements
    may also write what is At(`by`), and sums over the synapses of a neuron have the relation's order everywhere.
    """

    events: Events | Every
    relation: Relation
    statements: tuple[Statement, ...]
    by: Word = "pre"
    gather: bool = False

    @property
    def by_name(self) -> Mapping[str, DType | None]:
        return self.relation.by_name

    @property
    def expressions(self) -> tuple[Expr, ...]:
        return tuple(map(value_of, self.statements))


@dataclass(frozen=True)
class Connect(FindsFormals):
    """Draws a relation. `rule` and `stage` ("count": row[i + 1] = number of synapses of source i, row[0] = 0;
    "scan": inclusive sum of row; "fill": writes col, each row ascending by target) choose what is drawn.
    Stage "mask" writes the bits of a Bitmask instead: words (u32 [n_pre][ceil(n_post / 32)], zero before) and no row.
    Formals have fixed names: row, col (fill), n_pre, n_post, key, and the `formals` of the rule (compiler/connect).
    Rule "expression": pair (i, j) is connected when `probability` holds (a truth value), or with that probability. It
    reads columns and the integers i, j and PLACES, the positions of source and target.
    Rule "transpose" makes the relation by target of a filled one: stage "count" (row, col -> to_row: counts of each
    target, scanned by the stage "scan" like any other), stage "fill" (row, col, to_row -> to_col: the source, to_index:
    the synapse; in each row ascending by synapse, so by source). Columns n_pre, n_post. Stage "refill" is "fill" in a
    step: it counts in to_filled (i32 [n_post], zero before).
    Rule "rewire", stage "rewire", in a step: each synapse s with an odd gone[s] (i32) gets another target, one synapse
    of a source after the other: the first of 64 draws (index s, step, draw 0 .. 63), uniform over the targets (but for
    the source itself without autapses), that the source does not have at that moment (or, with multapses, any); else
    the next one after the last draw, in a circle; none: it keeps its own. Places with gone[s] >= 2 are vacant, and
    their targets count for nothing; what was 3 becomes 1 with a new target, 2 without. Formals row, col and gone
    (written), n_pre, n_post, key, multapses, autapses, same.
    """

    by_name = dict.fromkeys(
        (
            *("row", "col", "n_pre", "n_post", "key", "table", "autapses", "same", "number", "multapses"),
            *("to_row", "to_col", "to_index", "to_filled", "gone", "words", "w_from", "h_from", "w_to", "h_to"),
        )
    )
    rule: Word
    stage: Word
    probability: Expr | None = None


PLACES: Final = ("x_i", "y_i", "c_i", "x_j", "y_j", "c_j")
"""Column, row and channel of source and target, as an expression rule reads them: neuron k of a population of width w
and height h is at x = k % w, y = k // w % h, channel c = k // (w h)."""


_RING: Final = {"list": DType.I32, "count": DType.I32, "slots": DType.I64}
"""The lists of events of a population, their lengths, and how many there are."""


@dataclass(frozen=True)
class RecordEvents(FindsFormals):
    """Append (step, id) of this step's events to a buffer: formals list, count, slots (of the source),
    buffer (i32 [capacity][2]), used (i64 [1]), capacity, n. When two more steps may not fit (2 n events), the step loop
    is asked to return to its caller (`full`): after a loop that ran to its end there is room for a step still."""

    by_name = _RING | {"buffer": DType.I32, "used": DType.I64, "capacity": DType.I64, "n": DType.I64}


@dataclass(frozen=True)
class RecordTrace(FindsFormals):
    """Append one sample row: formals source (element read at members), members (i32 [m]), m,
    buffer (real [capacity][m]), used (i64 [1]), capacity. Asks the loop to return when two more do not fit.
    `value` may combine several arrays (element access "i" = the member's index): an input plus what was
    delivered to it in this step. With a column `ring_slots` accesses may use `slot` = step mod ring_slots."""

    by_name: ClassVar[Mapping[str, DType | None]] = {
        "members": DType.I32, "m": DType.I64, "buffer": None, "used": DType.I64, "capacity": DType.I64
    }  # fmt: skip
    value: Expr


@dataclass(frozen=True)
class EmitScheduled(FindsFormals):
    """Emits given events: formals steps (i32 [m], ascending), ids (i32 [m]), m, cursor (i64 [1] state),
    list, count, slots, n (room of a list). In step k every entry with steps == k is emitted (spike_times)."""

    by_name = _RING | {"steps": DType.I32, "ids": DType.I32, "m": DType.I64, "cursor": DType.I64, "n": DType.I64}


Body = Nest | Contract | Attention | Propagate | Connect | RecordEvents | RecordTrace | EmitScheduled


class Order(StrEnum):
    """Order classes of sums. fast: any order; reproducible: the same bits on every run on one machine;
    bitwise: the same bits on cpu, cuda and reference."""

    FAST = "fast"
    REPRODUCIBLE = "reproducible"
    BITWISE = "bitwise"


@dataclass(slots=True, unsafe_hash=True)
class SizeOf:
    """A column value that is the extent of an array whose size is known only after connecting."""

    array: Final[str]


@dataclass(slots=True, unsafe_hash=True)
class StreamKey:
    """A column value that is the key of a random stream, made from (seed, path) when tables are written."""

    path: Final[str]


ColumnValue = int | float | SizeOf | StreamKey


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a kernel, by column: array formals -> tuple of array names; scalar formals -> a numpy
    vector (f64 or i64) or a tuple of ColumnValue. Equality compares contents."""

    count: int
    arrays: Mapping[str, tuple[str, ...]]
    scalars: Mapping[str, npt.NDArray[np.float64] | npt.NDArray[np.int64] | tuple[ColumnValue, ...]]
    paths: tuple[str, ...] = ()  # model path of each row, for comments, messages and explain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows):
            return NotImplemented
        return (
            self.count == other.count
            and dict(self.arrays) == dict(other.arrays)
            and self.scalars.keys() == other.scalars.keys()
            and all(list(self.scalars[k]) == list(other.scalars[k]) for k in self.scalars)
        )

    __hash__ = None  # type: ignore[assignment]

    def taken(self, rows: Sequence[int]) -> Rows:
        """Those rows, in that order."""
        at = np.array(rows, np.int64)
        arrays = {f: tuple(names[n] for n in rows) for f, names in self.arrays.items()}
        scalars = {
            f: x[at] if isinstance(x, np.ndarray) else tuple(x[n] for n in rows) for f, x in self.scalars.items()
        }
        return Rows(len(rows), arrays, scalars, tuple(self.paths[n] for n in rows) if self.paths else ())


@dataclass(frozen=True)
class Kernel(HasFormals):
    """`name`: model path of its first row and what it does ("exc: neuron update")."""

    name: str
    formals: tuple[Formal, ...]
    body: Body
    rows: Rows
    order: Order = Order.REPRODUCIBLE
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Launch:
    """Rows [lo, hi) of the table of a template (of a kernel, before merging), in steps k with k % every == offset:
    data, not code."""

    template: int
    lo: int
    hi: int
    every: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Loop:
    """Launches [first, last) of a phase, in order, once for each of `steps` steps: the time of a Scan (`name`: its
    first result). What they access of an array that has a part for each step (Array.by_step) is the part of the step.
    `samples`: they keep so many samples of a batch apart (ir/level2/batch_independence.py), so that the loop may run as
    one launch, a chain, in which a block runs all steps for a few samples, concurrently with others (0: not known).
    `pays`: whether that is faster, by estimate; steps then share no part of an array that they make. `spread`: blocks
    that do so together, each with a part of the outputs of each launch; `passes`: products of tf32 that their matrix
    units add up for each product (0: threads make the sums). `cluster`: blocks that do so as a cluster of the device,
    which give each other what the next products multiply on chip. `beside`: names of the loops of the phase that
    run at the same time, each on a part of the processors, with its own (none: it has all processors)."""

    first: int
    last: int
    steps: int
    name: str
    samples: int = 0
    pays: bool = False
    spread: int = 1
    beside: tuple[str, ...] = ()
    passes: int = 0
    cluster: int = 1

    @property
    def abreast(self) -> int:
        """How many loops run at the same time."""
        return max(1, len(self.beside))


CONNECT_PHASES: Final = ("count", "scan")
"""What runs once, before the numbers of synapses are known."""
INIT_PHASES: Final = ("fill", "init")
"""What runs once, when they are."""


@dataclass(frozen=True)
class Phase:
    """The launches of one request of the runner, in order, or in one that is equivalent: "count", "scan", "fill",
    "init" (once), "step", "train", "eval". `loops` are disjoint and ascending."""

    name: str
    launches: tuple[Launch, ...]
    loops: tuple[Loop, ...] = ()

    @property
    def chains(self) -> tuple[Loop, ...]:
        """The loops that run as one launch, where a device can."""
        return tuple(x for x in self.loops if x.pays)


@dataclass(frozen=True)
class Program:
    """Kernels before merging. `precision` is what REAL means: F32 or F64."""

    name: str
    precision: DType
    order: Order
    arrays: tuple[Array, ...]
    kernels: tuple[Kernel, ...]
    phases: tuple[Phase, ...]
    constants: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict, compare=False, repr=False)
    """Initial contents given by the host, by array name, in physical layout; other arrays start as zero."""


# ----------------------------------------------------------------------------------------- merged form


@dataclass(frozen=True)
class Template(HasFormals):
    """One text. `digest` is over the alpha-renamed kernel; names are those of its first appearance."""

    index: int
    name: str
    digest: str
    formals: tuple[Formal, ...]
    body: Body
    order: Order
    span: Span = field(default=NOWHERE, compare=False, repr=False)


LAYERS: Final = frozenset({"train", "eval", "prepare", "predict"})
"""Phases of layers."""


def in_order(launches: int, loops: Sequence[Loop]) -> Iterator[tuple[int, int]]:
    """So many launches by number, each with the step of the loop that it is in (0 outside of loops)."""
    done = 0
    for loop in loops:
        yield from ((n, 0) for n in range(done, loop.first))
        yield from ((n, step) for step in range(loop.steps) for n in range(loop.first, loop.last))
        done = loop.last
    yield from ((n, 0) for n in range(done, launches))


@dataclass(frozen=True)
class Merged:
    """The merged program: templates[i] goes with tables[i]. Backends emit from `templates` alone."""

    name: str
    precision: DType
    order: Order
    arrays: tuple[Array, ...]
    templates: tuple[Template, ...]
    tables: tuple[Rows, ...]
    phases: tuple[Phase, ...]
    constants: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def has_loops(self) -> bool:
        return any(p.loops for p in self.phases)
