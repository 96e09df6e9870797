"""relations: access to a projection's synapses, by source or by target, and the stored rows (CSR) behind it.

Assumes: a rule (compiler/connect) says what its kernels read and what the host knows of its connections.
Guarantees: the result is all that a Propagate needs of the relation: formals, the arrays that they are bound to,
columns, and `text`, equal for two projections exactly when formals and relation are. Stored arrays of a relation are
created here, once, drawn on the device or given by the host: every pair, one to one and convolutions store nothing.
Tables are integers, so that every backend compares integers and draws the same network. The numbering of synapses is
the same in every storage; rows are ascending by target.
Does not: create statements or deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.connect import ConnectRule, Ends, Form, rule_of
from compiler.connect.convolution import elements, planes_of
from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import ModelError
from compiler.core.names import free_name
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.expr.simplify import has_random
from compiler.ir.level2.synapse_sums import has_sums
from compiler.ir.level2.synapse_values import member_name, stored_by_target
from compiler.ir.space import DType, Role
from compiler.passes.program.build_program import ProgramBuilder

_EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")
_TAKEN: Final = frozenset(
    {"i", "j", "row", "col", "n_pre", "n_post", "key", "autapses", "same", "step", *l2.PLACES, *_EXTENTS}
    | {"skip", "k", "first", "many", "hit", "xs", "ys", "cs", "x", "y", "c", "t", "word", "probability", "source"}
    | {"bits", "words", "target", "table", "number", "multapses", "at", "pool", "draw", "run", "real", "nl_me"}
)
"""Formals of an expression rule, and what its text calls its own variables."""

Columns = dict[str, l2.ColumnValue]


@dataclass(frozen=True)
class Link(Ends):
    """One member while its relation is lowered."""

    pre: l1.Instance
    post: l1.Instance
    builder: ProgramBuilder

    @cached_property
    def stored(self) -> str:
        """The model path of the member whose synapses it uses: its own, or that of another one."""
        return member_name(self.projection, self.member)

    @cached_property
    def rule(self) -> ConnectRule:
        return rule_of(self.projection)

    def has(self, part: str) -> bool:
        """Whether the array `<stored>.<part>` has been made."""
        return f"{self.stored}.{part}" in self.builder.arrays

    def given(self, part: str, dtype: DType, contents: npt.NDArray[np.generic]) -> None:
        """Makes `<stored>.<part>` from the host: of one element at least."""
        data = (contents if len(contents) else np.zeros(1)).astype(dtype.numpy)
        self.builder.array(self._constant(part, dtype, data.shape), data)

    def filled(self, part: str, dtype: DType, shape: tuple[int, ...]) -> None:
        """Makes `<stored>.<part>`, which kernels fill in before the run."""
        self.builder.array(self._constant(part, dtype, shape))

    def _constant(self, part: str, dtype: DType, shape: tuple[int, ...]) -> l2.Array:
        return l2.Array(f"{self.stored}.{part}", dtype, shape, Role.CONST, span=self.projection.span)

    def kernel(
        self,
        phase: str,
        rule: str,
        stage: str,
        formals: tuple[l2.Formal, ...],
        columns: Columns,
        *,
        what: str = "",
        arrays: Mapping[str, str] = MappingProxyType({}),
        probability: Expr | None = None,
        given: tuple[object, ...] = (),
        join: bool = True,
    ) -> None:
        """One row of the kernel that runs a stage. Formals are bound to `<stored>.<formal>`, or to what `arrays` says;
        `given`: what tells kernels of one rule and stage apart."""
        key = ("connect", rule, stage, *given)
        bound = {f.name: f"{self.stored}.{f.name}" for f in formals} | dict(arrays)
        body, span = l2.Connect(rule, stage, probability), self.projection.span
        name = f"{self.stored}: {stage} synapses{what}"
        row = self.builder.row(key, name, l2.Kind.CONNECT, formals, body, bound, columns, self.stored, span)
        self.builder.launch(phase, key, row, row + 1, join=join)


def keeps_state(projection: l0.Projection) -> bool:
    """Whether synapses have individual state, or are accessed by target too, or (where the number that this needs is
    otherwise missing) draw random numbers."""
    synapse = projection.synapse
    if synapse is None:
        return any(m.delays is not None for m in projection.members)
    by_target = bool(synapse.on_post) or any(e.end == "post" for e in synapse.events)
    by_target = by_target or any(has_sums(e) for e in synapse.expressions)
    if rule_of(projection).form is Form.WINDOWS or projection.storage == "bitmask":
        by_target = by_target or any(has_random(e) for e in synapse.expressions)
    return bool(synapse.state) or by_target or any(m.delays is not None for m in projection.members)


def storage_of(projection: l0.Projection) -> str:
    """The storage of a family: sparse | dense | one_to_one | bitmask | procedural | toeplitz."""
    rule = rule_of(projection)
    storage = rule.implied_storage(projection.storage)
    if storage != "auto":
        return storage
    if any(m.parts != (None, None) for m in projection.members):
        return "sparse"
    if rule.form is Form.WINDOWS:
        return "sparse" if keeps_state(projection) else "toeplitz"
    return {Form.ALL: "dense", Form.DIAGONAL: "one_to_one"}.get(rule.form, "sparse")


@dataclass(frozen=True)
class LoweredRelation:
    """A relation of level 2 and the formals it adds to its kernel. `extent`: the number of elements of an array
    At("syn"): the synapses, or the elements of the kernel where synapses share them (convolutions, unless each synapse
    has a state of its own); 0 where synapses have no number (bitmasks)."""

    relation: l2.Relation
    formals: tuple[l2.Formal, ...]
    arrays: Mapping[str, str]
    columns: Mapping[str, l2.ColumnValue]
    extent: int | l2.SizeOf

    @property
    def text(self) -> object:
        return self.relation, self.formals


def _refused(projection: l0.Projection, message: str, help: str) -> ModelError:
    return ModelError([Diagnostic("E0611", f"`{projection.name}` {message}", projection.span, help)])


def relation_of(link: Link, by: str = "pre") -> LoweredRelation:
    """The relation of one projection, walked from the end `by`. Makes its stored arrays on first use, also the
    transposed rows when they are walked by target. Raises ModelError (E0611) for a storage that does not support it."""
    projection, pre, post = link.projection, link.pre, link.post
    storage = storage_of(projection)
    if by == "post" and storage in ("bitmask", "procedural", "toeplitz"):
        raise _refused(
            projection,
            f"finds its synapses from the source only (storage: {storage}), but is asked for those of a target",
            "use `storage: sparse`",
        )
    match storage:
        case "dense":
            sizes, columns = (_column("n_pre"), _column("n_post")), {"n_pre": pre.size, "n_post": post.size}
            dense = l2.Dense("n_pre", "n_post", link.hole)
            return LoweredRelation(dense, sizes, {}, columns, pre.size * (post.size - link.hole))
        case "one_to_one":
            return LoweredRelation(l2.OneToOne(), (), {}, {}, min(pre.size, post.size))
        case "toeplitz":
            return _toeplitz(link)
        case "sparse":
            return _sparse(link, by)
        case "bitmask":
            return _bitmask(link)
        case "procedural":
            return _procedural(link)
    raise _refused(projection, f"has the storage `{storage}`, which is none", "use `storage: sparse`")


def _column(name: str) -> l2.ScalarFormal:
    return l2.ScalarFormal(name, DType.I64)


def _one_for_all(link: Link, *, drawn: bool = False) -> bool:
    """Whether nothing is held per synapse: the weight may be `drawn` by number, or follow from the places of its
    ends."""
    weight, params = link.member.weight, link.member.params
    given = isinstance(weight, l0.Const | l0.Placed) or drawn
    return not keeps_state(link.projection) and given and all(isinstance(value, l0.Const) for _, value in params)


def _bitmask(link: Link) -> LoweredRelation:
    projection, form = link.projection, link.rule.form
    if not _one_for_all(link):
        raise _refused(
            projection,
            "has values of its own for each synapse, but `storage: bitmask` holds one bit for each",
            "give one number, or use `storage: sparse`",
        )
    pairs = projection.pair_lists[link.member.pairs or 0] if form is Form.GIVEN else ()
    if len(set(pairs)) < len(pairs) or link.rule.repeats or form is Form.WINDOWS:
        raise _refused(
            projection, "may connect a pair twice, which one bit cannot tell", "use `storage: sparse` for this rule"
        )
    if not link.has("words"):
        _mask(link)
    words = l2.ArrayFormal("words", DType.U32, l2.Mode.READ, l2.ByName())
    bound, columns = {"words": f"{link.stored}.words"}, {"n_post": link.post.size}
    return LoweredRelation(l2.Bitmask("words", "n_post"), (words, _column("n_post")), bound, columns, 0)


def _procedural(link: Link) -> LoweredRelation:
    projection, rule = link.projection, link.rule
    drawn = isinstance(link.member.weight, l0.Distribution) and projection.synapse is None
    if not _one_for_all(link, drawn=drawn):
        raise _refused(
            projection,
            "keeps values for each synapse, but `storage: procedural` draws its synapses again at every event",
            "use `storage: sparse`; weights may be one number or a distribution",
        )
    if not rule.redrawn:
        raise _refused(
            projection, f"cannot draw `{rule.name}` again source by source", "use `storage: sparse` for this rule"
        )
    if drawn and not rule.ordered:
        raise _refused(
            projection,
            "draws its targets in no order, so that its synapses have no numbers to draw weights by",
            "give one number as `weight`, or use `storage: sparse`",
        )
    drawing = _drawing_of(link)
    if not link.has("row"):
        link.filled("row", DType.I64, (link.pre.size + 1,))
        drawing.count(link)
    # The names that an expression reads must not collide with those of the projection's own formals.
    by_name = {"n_pre", "n_post", *rule.formals}
    new = {f.name: f"connect_{f.name}" for f in drawing.formals if f.name not in by_name}
    formals = tuple(replace(f, name=new.get(f.name, f.name)) for f in drawing.formals)
    columns = {new.get(n, n): value for n, value in drawing.columns.items()}
    bindings: dict[str, Expr] = {old: Ref(name) for old, name in new.items()}
    probability = None if drawing.probability is None else substitute(drawing.probability, bindings)
    row = l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName())
    pointers = f"{link.stored}.row"
    relation = l2.Procedural(rule.name, "row", probability)
    return LoweredRelation(relation, (row, *formals), {"row": pointers, **drawing.arrays}, columns, l2.SizeOf(pointers))


def _toeplitz(link: Link) -> LoweredRelation:
    if keeps_state(link.projection):
        raise _refused(
            link.projection,
            "has synapses with a state or a delay of their own, but `storage: toeplitz` shares them over all positions",
            "use `storage: sparse`",
        )
    at = planes_of(link)
    columns = {name: int(getattr(at, name)) for name in l2.PLANES}
    relation = l2.Toeplitz(at.kernel, at.stride, at.depthwise, at.shared)
    return LoweredRelation(relation, tuple(_column(n) for n in l2.PLANES), {}, columns, elements(at))


def _sparse(link: Link, by: str) -> LoweredRelation:
    projection = link.projection
    shared = link.rule.form is Form.WINDOWS and not keeps_state(projection)
    in_part = link.member.parts != (None, None)
    if not link.has("row"):
        if in_part:
            draw_part(link)
        elif link.rule.rows is None:
            draw_rows(link)
        else:
            _host_rows(link, shared)
    extent: int | l2.SizeOf = l2.SizeOf(f"{link.stored}{PART if in_part else ''}.row")
    if shared:
        extent = elements(planes_of(link))
    elif link.rule.rows is not None:
        extent = int(link.builder.arrays[f"{link.stored}.col"].shape[0])

    def walked(row: str, col: str, index: str = "") -> LoweredRelation:
        arrays = {"row": row, "col": col} | ({"index": index} if index else {})
        relation = l2.Csr("row", "col", "index", index == "element") if index else l2.Csr("row", "col")
        formals = _CSR if index else _CSR[:2]
        return LoweredRelation(relation, formals, {f: f"{link.stored}.{a}" for f, a in arrays.items()}, {}, extent)

    if stored_by_target(projection):
        _number_by_target(link)
        return walked("to_row", "to_col") if by == "post" else walked("row", "col", "index")
    if by == "pre":
        return walked("row", "col", "element") if shared else walked("row", "col")
    _transpose(link)
    return walked("to_row", "to_col", "to_index")


_CSR: Final = (
    l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("col", DType.I32, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("index", DType.I32, l2.Mode.READ, l2.ByName()),
)
# ------------------------------------------------------------------------------------------ drawn on the device


def _array(name: str, dtype: DType, mode: l2.Mode) -> l2.ArrayFormal:
    return l2.ArrayFormal(name, dtype, mode, l2.ByName())


_ROW: Final = _array("row", DType.I64, l2.Mode.UPDATE)
_N_PRE: Final = l2.ScalarFormal("n_pre", DType.I64)
_SIZES: Final[tuple[l2.Formal, ...]] = (_N_PRE, l2.ScalarFormal("n_post", DType.I64))
_STORED: Final[tuple[l2.Formal, ...]] = (_array("row", DType.I64, l2.Mode.READ), _array("col", DType.I32, l2.Mode.READ))


@dataclass(frozen=True)
class Drawing:
    """The signature of every kernel that draws a relation: formals, the arrays that they are bound to, columns, and the
    expression of an expression rule."""

    formals: tuple[l2.Formal, ...]
    arrays: Mapping[str, str]
    columns: Columns
    probability: Expr | None

    def stage(self, link: Link, stage: str, *made: l2.Formal) -> None:
        """A kernel that makes something; its phase has its name, but for masks."""
        rule, phase = link.projection.rule, "init" if stage == "mask" else stage
        given = () if self.probability is None else (self.probability, self.formals)
        formals, what = (*made, *self.formals), f" ({rule})"
        link.kernel(
            phase,
            rule,
            stage,
            formals,
            self.columns,
            what=what,
            arrays=self.arrays,
            probability=self.probability,
            given=given,
        )

    def count(self, link: Link) -> None:
        """Fills in row pointers."""
        self.stage(link, "count", _ROW)
        link.kernel("scan", "any", "scan", (_ROW, _N_PRE), {"n_pre": link.pre.size})


def _drawing_of(link: Link) -> Drawing:
    """The Drawing of one projection, of a rule whose connections are drawn or computed."""
    args, builder = link.args, link.builder
    known: Columns = {"autapses": 1, "multapses": 1, "same": int(link.pre.name == link.post.name)}
    known |= {"w_from": link.pre.size, "h_from": 1, "w_to": link.post.size, "h_to": 1, **args}
    columns: Columns = {"n_pre": link.pre.size, "n_post": link.post.size, "key": l2.StreamKey(f"{link.stored}/connect")}
    columns |= {c: known[c] for c in link.rule.columns}
    formals: tuple[l2.Formal, ...] = (*_SIZES, l2.ScalarFormal("key", DType.U64))
    formals += tuple(l2.ScalarFormal(c, DType.I64) for c in link.rule.columns)
    probability = link.projection.probability
    if probability is not None:
        # What the user named may not collide with formals, or with what the text calls its own variables.
        bindings: dict[str, Expr] = {"n_from": Ref("n_pre"), "n_to": Ref("n_post")}
        taken = _TAKEN
        for name in sorted((refs(probability) & args.keys()) - {*_EXTENTS, "autapses"}):
            new = free_name(name, taken)
            taken |= {new}
            bindings[name], columns[new] = Ref(new), args[name]
            dtype = DType.I64 if isinstance(args[name], int) else builder.precision
            formals = (*formals, l2.ScalarFormal(new, dtype))
        probability = substitute(probability, bindings)
    if link.rule.table is None:
        return Drawing(formals, {}, columns, probability)
    shared, make = link.rule.table(args)
    if shared not in builder.arrays:
        table = make()
        builder.array(l2.Array(shared, DType.U32, table.shape, Role.CONST), table)
    return Drawing((_array("table", DType.U32, l2.Mode.READ), *formals), {"table": shared}, columns, probability)


def draw_rows(link: Link) -> None:
    """Makes `<stored>.row` and `<stored>.col`: count, scan, fill."""
    row, span = f"{link.stored}.row", link.projection.span
    link.filled("row", DType.I64, (link.pre.size + 1,))
    link.builder.array(l2.Array(f"{link.stored}.col", DType.I32, (-1,), Role.SYNAPSE, size_from=row, span=span))
    drawing = _drawing_of(link)
    drawing.count(link)
    drawing.stage(link, "fill", _STORED[0], _array("col", DType.I32, l2.Mode.WRITE))


# ------------------------------------------------------------------------------------------ parts of populations

PART: Final = ".part"
"""What the names of the arrays of a part's own relation begin with, after the projection's."""


@dataclass(frozen=True)
class _PartLink(Link):
    """A member between parts of populations, whose neurons are numbered from 0."""

    @cached_property
    def stored(self) -> str:
        return f"{member_name(self.projection, self.member)}{PART}"


def draw_part(link: Link) -> None:
    """Makes `<stored>.row` and `<stored>.col` from the relation of the parts, which is drawn first; synapses keep their
    numbers, as parts are ascending."""
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    part = _PartLink(link.projection, link.member, pre, post, link.builder)
    draw_rows(part)
    span = link.projection.span
    link.filled("row", DType.I64, (link.pre.size + 1,))
    link.builder.array(
        l2.Array(f"{link.stored}.col", DType.I32, (-1,), Role.SYNAPSE, size_from=f"{part.stored}.row", span=span)
    )
    sources, targets = (
        np.arange(whole.size) if runs is None else np.concatenate([np.arange(a, b + 1) for a, b in runs.runs])
        for runs, whole in zip(link.member.parts, (link.pre, link.post), strict=True)
    )
    # Row pointers of all sources: entry i is that of the number of sources of the part below i.
    link.given("rank", DType.I32, np.searchsorted(sources, np.arange(link.pre.size + 1)))
    link.given("each", DType.I64, np.arange(link.pre.size + 2))
    link.given("targets", DType.I32, targets)
    pointers = {"row": f"{link.stored}.each", "col": f"{link.stored}.rank", "whole": f"{part.stored}.row"}
    _gathered(link, "row", DType.I64, pointers, link.pre.size + 1)
    ends = {"row": f"{part.stored}.row", "col": f"{part.stored}.col", "whole": f"{link.stored}.targets"}
    _gathered(link, "col", DType.I32, ends, pre.size)


def _gathered(link: Link, made: str, dtype: DType, arrays: Mapping[str, str], n: int) -> None:
    """`<stored>.<made>`[t] = whole[col[t]] for every element t of a relation with `n` rows."""
    formals = (
        *_CSR[:2],
        l2.ArrayFormal("whole", dtype, l2.Mode.READ, l2.At("post")),
        l2.ArrayFormal("made", dtype, l2.Mode.WRITE, l2.At("syn")),
        l2.ScalarFormal("n", DType.I64),
    )
    body = l2.Propagate(l2.Every("n"), l2.Csr("row", "col"), (l2.Assign("made", Ref("whole")),))
    key, title, span = ("part", made), f"{link.stored}: {made} of all neurons", link.projection.span
    bound = {**arrays, "made": f"{link.stored}.{made}"}
    row = link.builder.row(key, title, l2.Kind.PROPAGATE, formals, body, bound, {"n": n}, link.stored, span)
    link.builder.launch("init", key, row, row + 1)


# ------------------------------------------------------------------------------------------ given by the host


def _host_rows(link: Link, shared: bool) -> None:
    """Row pointers and targets, as constants; with `shared`, the value that each synapse shares with others."""
    assert link.rule.rows is not None
    rows = link.rule.rows(link)
    if link.rule.form is Form.GIVEN and (rows.order[1:] < rows.order[:-1]).any():
        link.given("order", DType.I32, rows.order)
    link.given("row", DType.I64, rows.row)
    link.given("col", DType.I32, rows.col)
    if shared:
        link.given("element", DType.I32, rows.order)


def _mask(link: Link) -> None:
    """Makes `<stored>.words`, the bits of Bitmask: drawn in place, or as a constant for deterministic rules."""
    shape = (link.pre.size, -(-link.post.size // 32))
    if link.rule.bits is None:
        link.filled("words", DType.U32, shape)
        _drawing_of(link).stage(link, "mask", _array("words", DType.U32, l2.Mode.UPDATE))
        return
    bits = np.zeros((link.pre.size, 32 * shape[1]), np.bool_)
    bits[:, : link.post.size] = link.rule.bits(link)
    link.given("words", DType.U32, np.packbits(bits, axis=1, bitorder="little").view("<u4"))


# ------------------------------------------------------------------------------------------ by target

_FILL: Final[tuple[l2.Formal, ...]] = (
    *_STORED,
    _array("to_row", DType.I64, l2.Mode.READ),
    *(_array(part, DType.I32, l2.Mode.WRITE) for part in ("to_col", "to_index")),
    *_SIZES,
)


def _transpose(link: Link, index: str = "to_index") -> None:
    """Makes `<stored>.to_row`, `<stored>.to_col` and `<stored>.<index>`, the transposed relation; the rows have been
    filled before."""
    if link.has("to_row"):
        return
    link.filled("to_row", DType.I64, (link.post.size + 1,))
    stored = link.builder.arrays[f"{link.stored}.col"]
    for part in ("to_col", index):
        link.builder.array(replace(stored, name=f"{link.stored}.{part}", role=Role.SYNAPSE))
    sizes: Columns = {"n_pre": link.pre.size, "n_post": link.post.size}
    counts = (*_STORED, _array("to_row", DType.I64, l2.Mode.UPDATE), *_SIZES)
    scanned, filled = {"row": f"{link.stored}.to_row"}, {"to_index": f"{link.stored}.{index}"}
    by = " by target"
    link.kernel("init", "transpose", "count", counts, sizes, what=by)
    link.kernel("init", "any", "scan", (_ROW, _N_PRE), {"n_pre": link.post.size}, what=by, arrays=scanned)
    link.kernel("init", "transpose", "fill", _FILL, sizes, what=by, arrays=filled)


def _number_by_target(link: Link) -> None:
    """Makes `<stored>.to_row` and `<stored>.to_col`, whose order numbers the synapses, and `<stored>.index`, the
    numbers of synapses in the rows by source."""
    if link.has("to_row"):
        return
    _transpose(link, "index")
    arrays = {"row": "to_row", "col": "to_col", "to_row": "row", "to_col": "col", "to_index": "index"}
    bound = {formal: f"{link.stored}.{array}" for formal, array in arrays.items()}
    columns: Columns = {"n_pre": link.post.size, "n_post": link.pre.size}
    link.kernel("init", "transpose", "fill", _FILL, columns, what=" by source", arrays=bound, join=False)
