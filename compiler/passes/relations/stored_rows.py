"""stored_rows: the arrays of a relation: rows by source and by target (CSR), and masks.

Assumes: a rule (compiler/connect) says what its kernels read and what the host knows of its connections.
Guarantees: arrays are made once, drawn on the device or given by the host. Tables are integers, so that every backend
compares integers and draws the same network. The numbering of synapses is the same in every storage; rows are ascending
by target.
Does not: say how kernels read them (relations).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.connect import RULE, ConnectRule, Ends, Form, rule_of
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.ir.level2.synapse_values import member_name, stored_by_target
from compiler.ir.space import DType, Role, own_array
from compiler.passes.program.build_program import ProgramBuilder, Prototype

_EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")
Columns = dict[str, l2.ColumnValue]
ColumnsOfEach = Mapping[str, Sequence[l2.ColumnValue]]
"""A value for each of several links."""


@dataclass(frozen=True)
class Link(Ends):
    """One member while its relation is lowered. `storage`: of the family, `shared`: its synapses share elements of a
    kernel; `part`: what follows the projection's name in the names of arrays."""

    pre: l1.Instance
    post: l1.Instance
    builder: ProgramBuilder
    storage: str
    shared: bool
    part: str = field(default="", kw_only=True)
    stored: str = field(init=False)
    """The model path of the member whose synapses it uses: its own, or that of another one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", f"{member_name(self.projection, self.member)}{self.part}")

    @property
    def in_part(self) -> bool:
        """Whether one of its ends is a part of a population."""
        return self.member.parts != (None, None)

    @property
    def by_target(self) -> bool:
        """Whether synapses are numbered target by target."""
        return stored_by_target(self.projection)

    @property
    def rule(self) -> ConnectRule:
        return rule_of(self.projection)

    def array(self, part: str) -> str:
        """The array `<stored>'<part>`."""
        return own_array(self.stored, part)

    def has(self, part: str) -> bool:
        """Whether the array `<stored>'<part>` has been made."""
        return self.array(part) in self.builder.arrays

    def given(self, part: str, dtype: DType, contents: npt.NDArray[np.generic]) -> None:
        """Makes `<stored>'<part>` from the host: of one element at least."""
        data = (contents if len(contents) else np.zeros(1)).astype(dtype.numpy)
        self.builder.array(self._constant(part, dtype, data.shape), data)

    def filled(self, part: str, dtype: DType, shape: tuple[int, ...]) -> None:
        """Makes `<stored>'<part>`, which kernels fill in before the run."""
        self.builder.array(self._constant(part, dtype, shape))

    def _constant(self, part: str, dtype: DType, shape: tuple[int, ...]) -> l2.Array:
        return l2.Array(self.array(part), dtype, shape, Role.CONST, span=self.projection.span)

    def kernel(
        self,
        phase: str,
        rule: str,
        stage: str,
        columns: Columns,
        *,
        what: str = "",
        arrays: Mapping[str, str] = MappingProxyType({}),
        join: bool = True,
    ) -> None:
        """One row of the kernel that runs a stage. Its formals are bound to `<stored>'<formal>`, or to what `arrays`
        says."""
        each = {name: (value,) for name, value in columns.items()}
        _run(_Stage((self,), phase, rule, stage, what), each, {f: (a,) for f, a in arrays.items()}, join)


@dataclass(frozen=True)
class _Stage:
    """A stage of links whose kernels are one. `more`: the formals that `probability` reads."""

    links: Sequence[Link]
    phase: str
    rule: str
    name: str
    what: str
    probability: Expr | None = None
    more: tuple[l2.Formal, ...] = ()


def _run(at: _Stage, columns: ColumnsOfEach, arrays: Mapping[str, Sequence[str]], join: bool = True) -> None:
    """One row for each link. `columns`, `arrays`: by formal, of each link; other formals are bound to
    `<stored>'<formal>`."""
    first = at.links[0]
    name = f"{first.stored}: {at.name} synapses{at.what}"
    args = (at.rule, at.name, at.probability, at.more)
    kernel = first.builder.rows_of(_prototype, name, first.projection.span, 0, *args)
    bound = {f: arrays.get(f) or [x.array(f) for x in at.links] for f in kernel.arrays}
    kernel.add_rows(bound, columns, [x.stored for x in at.links]).launch(at.phase, join=join)


CSR: Final = (
    l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("col", DType.I32, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("index", DType.I32, l2.Mode.READ, l2.ByName()),
)


def make_arrays(link: Link, by: str) -> Drawing | None:
    """Makes the arrays that a walk from the end `by` reads, on first use. The result: how connections are drawn again
    at every event."""
    match link.storage:
        case "sparse":
            _rows(link, by)
        case "bitmask" if not link.has("words"):
            _mask(link)
        case "procedural":
            return _pointers(link)
    return None


def _rows(link: Link, by: str) -> None:
    """Makes `<stored>'row` and `<stored>'col`, and what a walk from the end `by` needs beside them."""
    if not link.has("row"):
        if link.in_part:
            _draw_part(link)
        elif link.rule.rows is None:
            draw_rows((link,))
        else:
            _host_rows(link)
    if link.by_target:
        _number_by_target(link)
    elif by == "post":
        _transpose(link)


def _pointers(link: Link) -> Drawing:
    """Makes `<stored>'row` alone, for connections that are drawn again at every event, as the result says."""
    drawing = _drawing_of((link,))
    if not link.has("row"):
        link.filled("row", DType.I64, (link.pre.size + 1,))
        drawing.count()
    return drawing


def _mask(link: Link) -> None:
    """Makes `<stored>.words`, the bits of Bitmask: drawn in place, or as a constant for deterministic rules."""
    shape = (link.pre.size, -(-link.post.size // 32))
    if link.rule.bits is None:
        link.filled("words", DType.U32, shape)
        _drawing_of((link,)).stage("mask")
        return
    bits = np.zeros((link.pre.size, 32 * shape[1]), np.bool_)
    bits[:, : link.post.size] = link.rule.bits(link)
    link.given("words", DType.U32, np.packbits(bits, axis=1, bitorder="little").view("<u4"))


# ------------------------------------------------------------------------------------------ drawn on the device


def _array(name: str, dtype: DType, mode: l2.Mode) -> l2.ArrayFormal:
    return l2.ArrayFormal(name, dtype, mode, l2.ByName())


_ROW: Final = _array("row", DType.I64, l2.Mode.UPDATE)
_N_PRE: Final = l2.ScalarFormal("n_pre", DType.I64)
_SIZES: Final[tuple[l2.Formal, ...]] = (_N_PRE, l2.ScalarFormal("n_post", DType.I64))
_STORED: Final[tuple[l2.Formal, ...]] = (_array("row", DType.I64, l2.Mode.READ), _array("col", DType.I32, l2.Mode.READ))


@dataclass(frozen=True)
class Drawing:
    """What every kernel that draws relations reads: formals beside those of a DRAWN rule's text, the arrays that they
    are bound to and columns, of each link, and the expression of an expression rule."""

    links: Sequence[Link]
    rule: ConnectRule
    more: tuple[l2.Formal, ...]
    arrays: Mapping[str, Sequence[str]]
    columns: ColumnsOfEach
    probability: Expr | None

    @property
    def formals(self) -> tuple[l2.Formal, ...]:
        return _drawn(self.rule, self.more)

    def stage(self, stage: str) -> None:
        """A kernel that makes something; its phase has its name, but for masks."""
        rule, phase = self.links[0].projection.rule, "init" if stage == "mask" else stage
        at = _Stage(self.links, phase, rule, stage, f" ({rule})", self.probability, self.more)
        _run(at, self.columns, self.arrays)

    def count(self) -> None:
        """Fills in row pointers."""
        self.stage("count")
        _run(_Stage(self.links, "scan", "any", "scan", ""), {"n_pre": self.columns["n_pre"]}, {})


def _drawn(rule: ConnectRule, more: tuple[l2.Formal, ...]) -> tuple[l2.Formal, ...]:
    table = () if rule.table is None else (_array("table", DType.U32, l2.Mode.READ),)
    columns = tuple(l2.ScalarFormal(c, DType.I64) for c in rule.columns)
    return (*table, *_SIZES, l2.ScalarFormal("key", DType.U64), *columns, *more)


_MADE: Final[Mapping[str, tuple[l2.Formal, ...]]] = MappingProxyType(
    {
        "count": (_ROW,),
        "fill": (_STORED[0], _array("col", DType.I32, l2.Mode.WRITE)),
        "mask": (_array("words", DType.U32, l2.Mode.UPDATE),),
    }
)
"""What stages of drawing make, and read of what has been made."""


def _prototype(rule: str, stage: str, probability: Expr | None, more: tuple[l2.Formal, ...]) -> Prototype:
    """The kernel of a stage: of every rule ("any"), of a transposition, or of a rule that draws."""
    if rule == "any":
        formals: tuple[l2.Formal, ...] = SCAN
    elif rule == "transpose":
        formals = TRANSPOSE[stage]
    else:
        formals = (*_MADE[stage], *_drawn(RULE[rule], more))
    return Prototype(formals, l2.Connect(rule, stage, probability))


_NOT_GIVEN: Final[Mapping[str, Callable[[Link], int]]] = MappingProxyType(
    {
        **dict.fromkeys(("autapses", "multapses", "h_from", "h_to"), lambda link: 1),
        "same": lambda link: int(link.pre.name == link.post.name),
        "w_from": lambda link: link.pre.size,
        "w_to": lambda link: link.post.size,
    }
)
"""Columns of rules that no argument gives."""


def _drawing_of(links: Sequence[Link]) -> Drawing:
    """The Drawing of projections of a rule whose connections are drawn or computed: of several that are `alike`."""
    first, given, more = links[0], [x.args for x in links], list[l2.Formal]()
    builder, rule = first.builder, first.rule
    columns: dict[str, Sequence[l2.ColumnValue]] = {
        "n_pre": [x.pre.size for x in links],
        "n_post": [x.post.size for x in links],
        "key": [l2.StreamKey(f"{x.stored}/connect") for x in links],
    }
    for name in rule.columns:
        columns[name] = [a[name] if name in a else _NOT_GIVEN[name](x) for x, a in zip(links, given, strict=True)]
    probability = first.projection.probability
    if probability is not None:
        args = given[0]
        bindings: dict[str, Expr] = {"n_from": Ref("n_pre"), "n_to": Ref("n_post")}
        for name in sorted((refs(probability) & args.keys()) - {*_EXTENTS, "autapses"}):
            new = derived("rule", Way.OF, name)
            bindings[name], columns[new] = Ref(new), [a[name] for a in given]
            more.append(l2.ScalarFormal(new, DType.I64 if isinstance(args[name], int) else builder.precision))
        probability = substitute(probability, bindings)
    tables = [table for x in links for table in _tables(x)]
    return Drawing(links, rule, tuple(more), {"table": tables} if tables else {}, columns, probability)


def _tables(link: Link) -> tuple[str, ...]:
    """The array of a rule's table, if it has one, which is made once; returns its name."""
    if link.rule.table is None:
        return ()
    shared, make = link.rule.table(link.args)
    if shared not in link.builder.arrays:
        table = make()
        link.builder.array(l2.Array(shared, DType.U32, table.shape, Role.CONST), table)
    return (shared,)


def _make_rows(link: Link, counted: Link) -> None:
    """The arrays of rows with as many synapses as the rows of `counted` say."""
    link.filled("row", DType.I64, (link.pre.size + 1,))
    size = l2.SizeOf(counted.array("row"))
    link.builder.vector(link.array("col"), DType.I32, size, Role.SYNAPSE, span=link.projection.span)


def alike(link: Link) -> tuple[object, ...] | None:
    """Equal for links whose stored rows `draw_rows` may make at once, as they are drawn by one kernel; None where rows
    are not drawn, or not of these links alone."""
    drawn = link.storage == "sparse" and link.rule.rows is None and link.projection.probability is None
    if not drawn or link.in_part or link.by_target or link.member.like is not None:
        return None
    return link.projection.rule, link.shared


def draw_rows(links: Sequence[Link]) -> None:
    """Count, scan, fill: of one link, or of several that are `alike`."""
    for link in links:
        _make_rows(link, link)
        _tables(link)
    drawing = _drawing_of(links)
    drawing.count()
    drawing.stage("fill")


# ------------------------------------------------------------------------------------------ parts of populations

PART: Final = own_array("", "part")
"""What the names of the arrays of a part's own relation begin with, after the projection's."""


def _draw_part(link: Link) -> None:
    """Makes `<stored>'row` and `<stored>'col` from the relation of the parts, which is drawn first; synapses keep their
    numbers, as parts are ascending."""
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    part = Link(link.projection, link.member, pre, post, link.builder, link.storage, link.shared, part=PART)
    draw_rows((part,))
    _make_rows(link, part)
    sources, targets = (
        np.arange(whole.size) if runs is None else runs.indices
        for runs, whole in zip(link.member.parts, (link.pre, link.post), strict=True)
    )
    # Row pointers of all sources: entry i is that of the number of sources of the part below i.
    link.given("rank", DType.I32, np.searchsorted(sources, np.arange(link.pre.size + 1)))
    link.given("each", DType.I64, np.arange(link.pre.size + 2))
    link.given("targets", DType.I32, targets)
    pointers = {"row": link.array("each"), "col": link.array("rank"), "whole": part.array("row")}
    _gathered(link, "row", DType.I64, pointers, link.pre.size + 1)
    ends = {"row": part.array("row"), "col": part.array("col"), "whole": link.array("targets")}
    _gathered(link, "col", DType.I32, ends, pre.size)


def _gathered(link: Link, made: str, dtype: DType, arrays: Mapping[str, str], n: int) -> None:
    """`<stored>'<made>`[t] = whole[col[t]] for every element t of a relation with `n` rows."""
    k = link.builder.kernel(f"{link.stored}: {made} of all neurons", link.projection.span)
    k.include(CSR[:2], {f.name: arrays[f.name] for f in CSR[:2]}, {})
    k.read("whole", dtype, arrays["whole"], l2.At("post"))
    k.write("made", dtype, link.array(made), l2.At("syn"))
    k.column("n", n)
    body = l2.Propagate(l2.Every("n"), l2.Csr("row", "col"), (l2.Assign("made", Ref("whole")),))
    k.add_row(body, link.stored).launch("init")


# ------------------------------------------------------------------------------------------ given by the host


def _host_rows(link: Link) -> None:
    """Row pointers and targets, as constants; with `shared`, the element that each synapse shares with others."""
    assert link.rule.rows is not None
    rows = link.rule.rows(link)
    if link.rule.form is Form.GIVEN and (rows.order[1:] < rows.order[:-1]).any():
        link.given("order", DType.I32, rows.order)
    link.given("row", DType.I64, rows.row)
    link.given("col", DType.I32, rows.col)
    if link.shared:
        link.given("element", DType.I32, rows.order)


# ------------------------------------------------------------------------------------------ by target

_WRITTEN: Final[tuple[l2.Formal, ...]] = (
    *_STORED,
    _array("to_row", DType.I64, l2.Mode.READ),
    *(_array(part, DType.I32, l2.Mode.WRITE) for part in ("to_col", "to_index")),
)
SCAN: Final[tuple[l2.Formal, ...]] = (_ROW, _N_PRE)
"""Formals of the stage that makes row pointers of numbers of synapses."""
TRANSPOSE: Final[Mapping[str, tuple[l2.Formal, ...]]] = MappingProxyType(
    {
        "count": (*_STORED, _array("to_row", DType.I64, l2.Mode.UPDATE), *_SIZES),
        "fill": (*_WRITTEN, *_SIZES),
        "refill": (*_WRITTEN, _array("to_filled", DType.I32, l2.Mode.UPDATE), *_SIZES),
    }
)
"""Formals of the stages of a transposition: of the first one ("fill"), and in a step ("refill")."""


def _transpose(link: Link, index: str = "to_index") -> None:
    """Makes `<stored>'to_row`, `<stored>'to_col` and `<stored>'<index>`, the transposed relation; the rows have been
    filled before."""
    if link.has("to_row"):
        return
    link.filled("to_row", DType.I64, (link.post.size + 1,))
    stored = link.builder.arrays[link.array("col")]
    for part in ("to_col", index):
        link.builder.array(replace(stored, name=link.array(part), role=Role.SYNAPSE))
    sizes: Columns = {"n_pre": link.pre.size, "n_post": link.post.size}
    scanned, filled = {"row": link.array("to_row")}, {"to_index": link.array(index)}
    by = " by target"
    link.kernel("init", "transpose", "count", sizes, what=by)
    link.kernel("init", "any", "scan", {"n_pre": link.post.size}, what=by, arrays=scanned)
    link.kernel("init", "transpose", "fill", sizes, what=by, arrays=filled)


def _number_by_target(link: Link) -> None:
    """Makes `<stored>'to_row` and `<stored>'to_col`, whose order numbers the synapses, and `<stored>'index`, the
    numbers of synapses in the rows by source."""
    if link.has("to_row"):
        return
    _transpose(link, "index")
    arrays = {"row": "to_row", "col": "to_col", "to_row": "row", "to_col": "col", "to_index": "index"}
    bound = {formal: link.array(array) for formal, array in arrays.items()}
    columns: Columns = {"n_pre": link.post.size, "n_post": link.pre.size}
    link.kernel("init", "transpose", "fill", columns, what=" by source", arrays=bound, join=False)
