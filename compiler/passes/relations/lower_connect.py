"""lower_connect: relations in stored rows (CSR), drawn on the device or given by the host.

Assumes: IEEE float64 on the host.
Guarantees: tables are integers, so that every backend compares integers and draws the same network; explicit pairs
become constants; rows are ascending by target.
Does not: lower deliveries (lower_projections).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.ir.space import DType, Role
from compiler.passes.program.build_program import ProgramBuilder

ROW = l2.ArrayFormal("row", DType.I64, l2.Mode.UPDATE, l2.ByName())
RULE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "fixed_probability": ("autapses", "same"),
    "fixed_total": ("number", "multapses", "autapses", "same"),
    "fixed_indegree": ("number", "multapses", "autapses", "same"),
    "fixed_outdegree": ("number", "multapses", "autapses", "same"),
    "all_to_all": ("autapses", "same"),
    "one_to_one": (),
    "expression": ("autapses", "same", "w_from", "h_from", "w_to", "h_to"),
}

_EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")
_TAKEN: Final = frozenset(
    {"i", "j", "row", "col", "n_pre", "n_post", "key", "autapses", "same", "step", *l2.PLACES, *_EXTENTS}
    | {"skip", "k", "first", "many", "hit", "xs", "ys", "cs", "x", "y", "c", "t", "word", "probability", "source"}
    | {"bits", "words", "target", "table", "number", "multapses", "at", "pool", "draw", "run", "real", "nl_me"}
)
"""Formals of an expression rule, and what its text calls its own variables."""


BLOCK: Final = 256
"""Skips are drawn as whole blocks of 256 targets and a rest below 256, from one table of 256
entries each."""

_ONE: Final = 1 << 32


def _thresholds(cdf: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """A cumulative distribution as thresholds: a 32-bit word w is in the first k outcomes when w
    <= entry[k].

    P(w <= entry) = (entry + 1) / 2**32, so entry = floor(cdf * 2**32) - 1; an outcome whose
    cumulative probability is below 2**-32 is rounded up to 2**-32.
    """
    counts = np.floor(np.clip(cdf, 0.0, 1.0) * float(_ONE))
    return (np.clip(counts, 1.0, float(_ONE)) - 1.0).astype(np.uint32)


def fixed_probability_table(p: float) -> npt.NDArray[np.uint32]:
    """The table of the rule `fixed_probability`: u32[512] for 0 < p <= 1.

    A source visits its possible targets 0 .. n_pool - 1 in order; the number of targets that it
    passes over before each synapse is geometric, P(skip) = p q**skip with q = 1 - p (Devroye 1986,
    ch. X.2). It is drawn as 256 * blocks + rest, which are independent:
      entries 256..511 ("hi"): P(blocks <= k) = 1 - q**(256 (k + 1)). A word above the last entry
        means 256 blocks or more; by the lack of memory of the geometric law, 256 blocks are passed
      and the draw repeats.
      entries 0..255 ("lo"): P(rest <= k | rest <= 255) = (1 - q**(k + 1)) / (1 - q**256); the last
        entry is 2**32 - 1, so every word finds an outcome.
    A word w has outcome min {k : w <= entry[k]}.
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"a connection probability must be above 0 and at most 1, not {p}")
    log_q = math.log1p(-p) if p < 1.0 else -math.inf
    k = np.arange(1, BLOCK + 1, dtype=np.float64)
    rest = np.expm1(k * log_q) / math.expm1(BLOCK * log_q)
    rest[-1] = 1.0
    blocks = -np.expm1(BLOCK * k * log_q)
    return np.concatenate([_thresholds(rest), _thresholds(blocks)])


def pairs_of(projection: l0.Projection, member: l0.Member) -> npt.NDArray[np.int64]:
    """The explicit pairs of a member, (n, 2), as the user gave them."""
    return np.array(projection.pair_lists[member.pairs or 0], np.int64).reshape(-1, 2)


def pair_order(pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Explicit pairs (n, 2) in storage order: stored synapse k is pair `order[k]` of the user's. Where the user's order
    differs, it is kept as the array `<projection>[a->b].order`: values stored per synapse are written back in the
    user's order by `values[order] = stored`."""
    return np.lexsort((pairs[:, 1], pairs[:, 0]))


def _pairs(builder: ProgramBuilder, projection: l0.Projection, member: l0.Member, name: str, n_pre: int) -> None:
    """Row pointers and targets of explicit pairs, as constants."""
    pairs = pairs_of(projection, member)
    order = pair_order(pairs)
    if (order[1:] < order[:-1]).any():
        builder.array(l2.Array(f"{name}.order", DType.I32, (len(order),), Role.CONST), order.astype(np.int32))
    row = np.zeros(n_pre + 1, np.int64)
    np.add.at(row, pairs[:, 0] + 1, 1)
    builder.array(
        l2.Array(f"{name}.row", DType.I64, (n_pre + 1,), Role.CONST, span=projection.span),
        np.cumsum(row),
    )
    col = np.zeros(max(len(order), 1), np.int32)
    col[: len(order)] = pairs[order, 1]
    builder.array(l2.Array(f"{name}.col", DType.I32, (len(col),), Role.CONST, span=projection.span), col)


@dataclass(frozen=True)
class Drawing:
    """The signature of every kernel that draws a relation: formals, the arrays that they are bound to, columns, and the
    expression of an expression rule."""

    formals: tuple[l2.Formal, ...]
    arrays: Mapping[str, str]
    columns: Mapping[str, l2.ColumnValue]
    probability: Expr | None

    def key(self, rule: str, stage: str) -> tuple[object, ...]:
        """Equal for kernels with equal text."""
        given = () if self.probability is None else (self.probability, self.formals)
        return ("connect", rule, stage, *given)


def drawing_of(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> Drawing:
    """The Drawing of one projection, for rules other than explicit pairs."""
    rule, args = projection.rule, dict(member.args)
    probability, given, more = expression_of(projection, member, pre, post, builder.precision)
    columns: dict[str, l2.ColumnValue] = {
        "n_pre": pre.size,
        "n_post": post.size,
        "key": l2.StreamKey(f"{name}/connect"),
        "autapses": int(args.get("autapses", 1)),
        "same": int(pre.name == post.name),
        "number": int(args.get("number", 0)),
        "multapses": int(args.get("multapses", 1)),
        **more,
    }
    scalars: tuple[l2.Formal, ...] = (
        l2.ScalarFormal("n_pre", DType.I64),
        l2.ScalarFormal("n_post", DType.I64),
        l2.ScalarFormal("key", DType.U64),
        *(l2.ScalarFormal(c, DType.I64) for c in RULE_COLUMNS[rule]),
        *given,
    )
    if rule != "fixed_probability":
        return Drawing(scalars, {}, columns, probability)
    p = float(args["p"])
    shared = f"fixed_probability({p!r})"
    if shared not in builder.arrays:
        builder.array(l2.Array(shared, DType.U32, (512,), Role.CONST), fixed_probability_table(p))
    table = l2.ArrayFormal("table", DType.U32, l2.Mode.READ, l2.ByName())
    return Drawing((table, *scalars), {"table": shared}, columns, probability)


def _connect(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> None:
    """Rows of the connecting kernels: count, scan, fill."""
    span = projection.span
    builder.array(l2.Array(f"{name}.row", DType.I64, (pre.size + 1,), Role.CONST, span=span))
    builder.array(l2.Array(f"{name}.col", DType.I32, (-1,), Role.SYNAPSE, size_from=f"{name}.row", span=span))
    drawing = drawing_of(builder, projection, member, name, pre, post)
    _count(builder, projection, name, drawing)
    made = (
        l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName()),
        l2.ArrayFormal("col", DType.I32, l2.Mode.WRITE, l2.ByName()),
    )
    _stage(builder, projection, name, "fill", made, drawing)


def _count(builder: ProgramBuilder, projection: l0.Projection, name: str, drawing: Drawing) -> None:
    """Fills in row pointers."""
    _stage(builder, projection, name, "count", (ROW,), drawing)
    columns = {"n_pre": drawing.columns["n_pre"]}
    _stage(
        builder, projection, name, "scan", (ROW,), Drawing((l2.ScalarFormal("n_pre", DType.I64),), {}, columns, None)
    )


def _stage(
    builder: ProgramBuilder,
    projection: l0.Projection,
    name: str,
    stage: str,
    made: tuple[l2.Formal, ...],
    drawing: Drawing,
) -> None:
    """One row of the kernel that runs a stage; the phase has its name."""
    rule = projection.rule if stage != "scan" else "any"
    formals = (*made, *drawing.formals)
    key = drawing.key(rule if stage != "scan" else "", stage)
    row = builder.row(
        key,
        f"{name}: {stage} synapses" + (f" ({rule})" if stage != "scan" else ""),
        l2.Kind.CONNECT,
        formals,
        l2.Connect(rule, stage, drawing.probability),
        {f.name: f"{name}.{f.name}" for f in made} | dict(drawing.arrays),
        drawing.columns,
        name,
        projection.span,
    )
    builder.launch("init" if stage == "mask" else stage, key, row, row + 1)


def count_rows(builder: ProgramBuilder, projection: l0.Projection, name: str, drawing: Drawing, n_pre: int) -> None:
    """Makes `<name>.row` alone, for rows that are redrawn at every event."""
    builder.array(l2.Array(f"{name}.row", DType.I64, (n_pre + 1,), Role.CONST, span=projection.span))
    _count(builder, projection, name, drawing)


def draw_mask(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> None:
    """Makes `<name>.words`, the bits of Bitmask: drawn in place, or as a constant for deterministic rules."""
    shape = (pre.size, -(-post.size // 32))
    array = l2.Array(f"{name}.words", DType.U32, shape, Role.CONST, span=projection.span)
    if projection.rule not in ("pairs", "all_to_all", "one_to_one"):
        builder.array(array)
        drawing = drawing_of(builder, projection, member, name, pre, post)
        words = l2.ArrayFormal("words", DType.U32, l2.Mode.UPDATE, l2.ByName())
        _stage(builder, projection, name, "mask", (words,), drawing)
        return
    bits = np.zeros((pre.size, 32 * shape[1]), np.bool_)
    if projection.rule == "pairs":
        pairs = pairs_of(projection, member)
        bits[pairs[:, 0], pairs[:, 1]] = True
    else:
        bits[:, : post.size] = True if projection.rule == "all_to_all" else np.eye(pre.size, post.size, dtype=np.bool_)
        if pre.name == post.name and int(dict(member.args).get("autapses", 1)) == 0:
            np.fill_diagonal(bits[:, : post.size], False)
    builder.array(array, np.packbits(bits, axis=1, bitorder="little").view("<u4"))


def expression_of(
    projection: l0.Projection, member: l0.Member, pre: l1.Instance, post: l1.Instance, real: DType
) -> tuple[Expr | None, tuple[l2.Formal, ...], dict[str, l2.ColumnValue]]:
    """The expression of a rule over formals of its kernel, the formals that the user named, and their columns along
    with the extents of both populations."""
    args = dict(member.args)
    columns: dict[str, l2.ColumnValue] = {
        "w_from": args.get("w_from", pre.size),
        "h_from": args.get("h_from", 1),
        "w_to": args.get("w_to", post.size),
        "h_to": args.get("h_to", 1),
    }
    if projection.probability is None:
        return None, (), columns
    bindings: dict[str, Expr] = {"n_from": Ref("n_pre"), "n_to": Ref("n_post")}
    formals: list[l2.Formal] = []
    taken = _TAKEN
    for name in sorted((refs(projection.probability) & args.keys()) - {*_EXTENTS, "autapses"}):
        new = free_name(name, taken)
        taken |= {new}
        bindings[name] = Ref(new)
        columns[new] = args[name]
        formals.append(l2.ScalarFormal(new, DType.I64 if isinstance(args[name], int) else real))
    return substitute(projection.probability, bindings), tuple(formals), columns


def connect(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> None:
    """Makes `<name>.row` and `<name>.col`."""
    if projection.rule == "pairs":
        _pairs(builder, projection, member, name, pre.size)
    else:
        _connect(builder, projection, member, name, pre, post)


_STORED: Final[tuple[l2.Formal, ...]] = (
    l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("col", DType.I32, l2.Mode.READ, l2.ByName()),
)
_SIZES: Final[tuple[l2.Formal, ...]] = (l2.ScalarFormal("n_pre", DType.I64), l2.ScalarFormal("n_post", DType.I64))
_FILL: Final[tuple[l2.Formal, ...]] = (
    *_STORED,
    l2.ArrayFormal("to_row", DType.I64, l2.Mode.READ, l2.ByName()),
    *(l2.ArrayFormal(part, DType.I32, l2.Mode.WRITE, l2.ByName()) for part in ("to_col", "to_index")),
    *_SIZES,
)


def transpose(
    builder: ProgramBuilder,
    projection: l0.Projection,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
    index: str = "to_index",
) -> None:
    """Makes `<name>.to_row`, `<name>.to_col` and `<name>.<index>`, the transposed relation; `connect` and `count`,
    `scan`, `fill` run before."""
    span = projection.span
    if f"{name}.to_row" in builder.arrays:
        return
    builder.array(l2.Array(f"{name}.to_row", DType.I64, (post.size + 1,), Role.CONST, span=span))
    stored = builder.arrays[f"{name}.col"]
    for part in ("to_col", index):
        builder.array(replace(stored, name=f"{name}.{part}", role=Role.SYNAPSE))
    stages: tuple[tuple[str, tuple[l2.Formal, ...]], ...] = (
        ("count", (*_STORED, l2.ArrayFormal("to_row", DType.I64, l2.Mode.UPDATE, l2.ByName()), *_SIZES)),
        ("scan", (ROW, l2.ScalarFormal("n_pre", DType.I64))),
        ("fill", _FILL),
    )
    for stage, formals in stages:
        rule = "transpose" if stage != "scan" else "any"
        key = ("connect", "transpose", stage) if stage != "scan" else ("connect", "", stage)
        bound = {f.name: f"{name}.{f.name}" for f in formals if isinstance(f, l2.ArrayFormal)}
        if stage == "fill":
            bound["to_index"] = f"{name}.{index}"
        columns: dict[str, l2.ColumnValue] = {"n_pre": pre.size, "n_post": post.size}
        if stage == "scan":
            bound, columns = {"row": f"{name}.to_row"}, {"n_pre": post.size}
        row = builder.row(
            key,
            f"{name}: {stage} synapses by target",
            l2.Kind.CONNECT,
            formals,
            l2.Connect(rule, stage),
            bound,
            columns,
            name,
            span,
        )
        builder.launch("init", key, row, row + 1)


def number_by_target(
    builder: ProgramBuilder, projection: l0.Projection, name: str, pre: l1.Instance, post: l1.Instance
) -> None:
    """Makes `<name>.to_row` and `<name>.to_col`, whose order numbers the synapses, and `<name>.index`, the numbers of
    synapses in the rows by source."""
    if f"{name}.to_row" in builder.arrays:
        return
    transpose(builder, projection, name, pre, post, "index")
    arrays = {"row": "to_row", "col": "to_col", "to_row": "row", "to_col": "col", "to_index": "index"}
    bound = {formal: f"{name}.{array}" for formal, array in arrays.items()}
    columns: dict[str, l2.ColumnValue] = {"n_pre": post.size, "n_post": pre.size}
    key, what = ("connect", "transpose", "fill"), f"{name}: fill synapses by source"
    row = builder.row(
        key, what, l2.Kind.CONNECT, _FILL, l2.Connect("transpose", "fill"), bound, columns, name, projection.span
    )
    builder.launch("init", key, row, row + 1, join=False)
