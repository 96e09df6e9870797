"""relations: access to a projection's synapses, by source or by target.

Assumes: `lower_connect` draws stored rows; populations of conv2d and avg_pool2d have shapes (channels, height, width).
Guarantees: the result is all that a Propagate needs of the relation: formals, the arrays that they are bound to,
columns, and `text`, equal for two projections exactly when formals and relation are. Stored arrays of a relation are
created here, once: every pair, one to one and convolutions store nothing. The numbering of synapses is the same in
every storage.
Does not: create statements or deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import ModelError
from compiler.expr.ast import Expr, Ref, substitute
from compiler.expr.simplify import has_random
from compiler.ir.level2.synapse_sums import has_sums
from compiler.ir.level2.synapse_values import stored_by_target
from compiler.ir.space import DType, Role
from compiler.passes.model.synapse_names import expressions_of
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.init_values import read_file
from compiler.passes.relations.lower_connect import (
    connect,
    count_rows,
    draw_mask,
    drawing_of,
    number_by_target,
    pair_order,
    pairs_of,
    transpose,
)
from compiler.passes.relations.planes import Extents, elements, planes_of, stored_rows

_BY_NAME: Final = frozenset(
    {"n_pre", "n_post", "table", "autapses", "same", "number", "multapses", "w_from", "h_from", "w_to", "h_to"}
)
"""What Procedural finds by Connect's names."""


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


def keeps_state(projection: l0.Projection) -> bool:
    """Whether synapses have individual state, or are accessed by target too, or (where the number that this needs is
    otherwise missing) draw random numbers."""
    synapse = projection.synapse
    if synapse is None:
        return any(m.delays is not None for m in projection.members)
    by_target = bool(synapse.on_post) or any(e.end == "post" for e in synapse.events)
    by_target = by_target or any(has_sums(e) for e in expressions_of(synapse))
    if projection.rule in l0.CONVOLUTIONS or projection.storage == "bitmask":
        by_target = by_target or any(has_random(e) for e in expressions_of(synapse))
    return bool(synapse.state) or by_target or any(m.delays is not None for m in projection.members)


def storage_of(projection: l0.Projection) -> str:
    """The storage of a family, with `auto` decided: sparse | dense | one_to_one | bitmask | procedural | toeplitz."""
    storage = l0.implied_storage(projection.rule, projection.storage)
    if storage != "auto":
        return storage
    if projection.rule in l0.CONVOLUTIONS:
        return "sparse" if keeps_state(projection) else "toeplitz"
    return {"all_to_all": "dense", "one_to_one": "one_to_one"}.get(projection.rule, "sparse")


def _refused(projection: l0.Projection, message: str, help: str) -> ModelError:
    return ModelError([Diagnostic("E0611", f"`{projection.name}` {message}", projection.span, help)])


def in_stored_order(
    projection: l0.Projection, member: l0.Member, value: l0.Value, pre: l1.Instance, post: l1.Instance
) -> l0.Value:
    """A value per synapse in the order in which synapses are numbered: explicit pairs are given in the user's order,
    convolutions by element of the kernel, copied to every synapse with individual state."""
    if not isinstance(value, l0.Listed | l0.FromFile):
        return value
    data = read_file(value) if isinstance(value, l0.FromFile) else np.array(value.values)
    if projection.rule == "pairs":
        pairs = pairs_of(projection, member)
        if len(data) != len(pairs):
            return value
        return l0.Listed(tuple(data[pair_order(pairs)].tolist()), value.span)
    if projection.rule in l0.CONVOLUTIONS and storage_of(projection) == "sparse" and keeps_state(projection):
        planes = planes_of(projection, pre, post)
        if len(data) != elements(planes):
            return value
        return l0.Listed(tuple(data[stored_rows(planes)[2]].tolist()), value.span)
    return value


def relation_of(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
    by: str = "pre",
) -> LoweredRelation:
    """The relation of one projection, walked from the end `by`. Makes its stored arrays on first use, also the
    transposed rows when they are walked by target. Raises ModelError (E0611) for a storage that does not support it."""
    storage = storage_of(projection)
    if by == "post" and storage in ("bitmask", "procedural", "toeplitz"):
        raise _refused(
            projection,
            f"finds its synapses from the source only (storage: {storage}), but is asked for those of a target",
            "use `storage: sparse`",
        )
    match storage:
        case "dense":
            return _dense(member, pre, post)
        case "one_to_one":
            return LoweredRelation(l2.OneToOne(), (), {}, {}, min(pre.size, post.size))
        case "toeplitz":
            return _toeplitz(projection, pre, post)
        case "sparse":
            return _sparse(builder, projection, member, name, pre, post, by)
        case "bitmask":
            return _bitmask(builder, projection, member, name, pre, post)
        case "procedural":
            return _procedural(builder, projection, member, name, pre, post)
    raise _refused(projection, f"has the storage `{storage}`, which is none", "use `storage: sparse`")


def _bitmask(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> LoweredRelation:
    if keeps_state(projection) or not isinstance(member.weight, l0.Const) or not _shared(member):
        raise _refused(
            projection,
            "has values of its own for each synapse, but `storage: bitmask` holds one bit for each",
            "give one number, or use `storage: sparse`",
        )
    twice = projection.rule == "pairs" and len(set(projection.pair_lists[member.pairs or 0])) < len(
        projection.pair_lists[member.pairs or 0]
    )
    if twice or projection.rule not in ("fixed_probability", "expression", "all_to_all", "one_to_one", "pairs"):
        raise _refused(
            projection, "may connect a pair twice, which one bit cannot tell", "use `storage: sparse` for this rule"
        )
    if f"{name}.words" not in builder.arrays:
        draw_mask(builder, projection, member, name, pre, post)
    words = l2.ArrayFormal("words", DType.U32, l2.Mode.READ, l2.ByName())
    columns = {"n_post": post.size}
    relation = l2.Bitmask("words", "n_post")
    return LoweredRelation(
        relation, (words, l2.ScalarFormal("n_post", DType.I64)), {"words": f"{name}.words"}, columns, 0
    )


def _shared(member: l0.Member) -> bool:
    """Whether all values of a synapse model are uniform over the synapses."""
    return all(isinstance(value, l0.Const) for _, value in member.params)


def _procedural(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
) -> LoweredRelation:
    drawn = isinstance(member.weight, l0.Distribution) and projection.synapse is None
    if keeps_state(projection) or not _shared(member) or not (drawn or isinstance(member.weight, l0.Const)):
        raise _refused(
            projection,
            "keeps values for each synapse, but `storage: procedural` draws its synapses again at every event",
            "use `storage: sparse`; weights may be one number or a distribution",
        )
    if projection.rule not in ("fixed_probability", "fixed_outdegree", "expression"):
        raise _refused(
            projection, f"cannot draw `{projection.rule}` again source by source", "use `storage: sparse` for this rule"
        )
    if projection.rule == "fixed_outdegree" and drawn:
        raise _refused(
            projection,
            "draws its targets in no order, so that its synapses have no numbers to draw weights by",
            "give one number as `weight`, or use `storage: sparse`",
        )
    drawing = drawing_of(builder, projection, member, name, pre, post)
    if f"{name}.row" not in builder.arrays:
        count_rows(builder, projection, name, drawing, pre.size)
    # The names that an expression reads must not collide with those of the projection's own formals.
    new = {f.name: f"connect_{f.name}" for f in drawing.formals if f.name not in _BY_NAME}
    formals = tuple(replace(f, name=new.get(f.name, f.name)) for f in drawing.formals)
    columns = {new.get(n, n): value for n, value in drawing.columns.items()}
    bindings: dict[str, Expr] = {old: Ref(name) for old, name in new.items()}
    probability = None if drawing.probability is None else substitute(drawing.probability, bindings)
    row = l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName())
    return LoweredRelation(
        l2.Procedural(projection.rule, "row", probability),
        (row, *formals),
        {"row": f"{name}.row", **drawing.arrays},
        columns,
        l2.SizeOf(f"{name}.row"),
    )


def _dense(member: l0.Member, pre: l1.Instance, post: l1.Instance) -> LoweredRelation:
    hole = pre.name == post.name and int(dict(member.args).get("autapses", 1)) == 0
    sizes = (l2.ScalarFormal("n_pre", DType.I64), l2.ScalarFormal("n_post", DType.I64))
    columns = {"n_pre": pre.size, "n_post": post.size}
    return LoweredRelation(l2.Dense("n_pre", "n_post", hole), sizes, {}, columns, pre.size * (post.size - hole))


def _toeplitz(projection: l0.Projection, pre: l1.Instance, post: l1.Instance) -> LoweredRelation:
    if keeps_state(projection):
        raise _refused(
            projection,
            "has synapses with a state or a delay of their own, but `storage: toeplitz` shares them over all positions",
            "use `storage: sparse`",
        )
    assert projection.planes is not None
    at = planes_of(projection, pre, post)
    columns = {name: int(getattr(at, name)) for name in l2.PLANES}
    relation = l2.Toeplitz(at.kernel, at.stride, at.depthwise, at.shared)
    return LoweredRelation(relation, tuple(l2.ScalarFormal(n, DType.I64) for n in l2.PLANES), {}, columns, elements(at))


def _sparse(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
    by: str,
) -> LoweredRelation:
    shared = projection.rule in l0.CONVOLUTIONS and not keeps_state(projection)
    extent: int | l2.SizeOf = l2.SizeOf(f"{name}.row")
    if projection.rule in l0.CONVOLUTIONS:
        planes = planes_of(projection, pre, post)
        if f"{name}.row" not in builder.arrays:
            _constants(builder, projection, name, planes, shared)
        extent = elements(planes) if shared else int(builder.arrays[f"{name}.col"].shape[0])
    else:
        if f"{name}.row" not in builder.arrays:
            connect(builder, projection, member, name, pre, post)
        if projection.rule == "pairs":
            extent = max(len(projection.pair_lists[member.pairs or 0]), 1)
    row = l2.ArrayFormal("row", DType.I64, l2.Mode.READ, l2.ByName())
    col = l2.ArrayFormal("col", DType.I32, l2.Mode.READ, l2.ByName())
    index = l2.ArrayFormal("index", DType.I32, l2.Mode.READ, l2.ByName())
    if stored_by_target(projection):
        number_by_target(builder, projection, name, pre, post)
        bound = {"row": f"{name}.to_row", "col": f"{name}.to_col"}
        if by == "post":
            return LoweredRelation(l2.Csr("row", "col"), (row, col), bound, {}, extent)
        bound = {f: f"{name}.{f}" for f in ("row", "col", "index")}
        return LoweredRelation(l2.Csr("row", "col", "index"), (row, col, index), bound, {}, extent)
    if by == "pre" and shared:
        bound = {"row": f"{name}.row", "col": f"{name}.col", "index": f"{name}.element"}
        return LoweredRelation(l2.Csr("row", "col", "index", True), (row, col, index), bound, {}, extent)
    if by == "pre":
        return LoweredRelation(
            l2.Csr("row", "col"), (row, col), {"row": f"{name}.row", "col": f"{name}.col"}, {}, extent
        )
    transpose(builder, projection, name, pre, post)
    bound = {"row": f"{name}.to_row", "col": f"{name}.to_col", "index": f"{name}.to_index"}
    return LoweredRelation(l2.Csr("row", "col", "index"), (row, col, index), bound, {}, extent)


def _constants(builder: ProgramBuilder, projection: l0.Projection, name: str, planes: Extents, shared: bool) -> None:
    """Stored rows of a convolution; with `shared`, the kernel's element of each synapse."""
    row, col, element = stored_rows(planes)
    made: list[tuple[str, DType, npt.NDArray[np.generic]]] = [("row", DType.I64, row), ("col", DType.I32, col)]
    if shared:
        made.append(("element", DType.I32, element.astype(np.int32)))
    for part, dtype, data in made:
        contents = data if len(data) else np.zeros(1, data.dtype)
        array = l2.Array(f"{name}.{part}", dtype, (len(contents),), Role.CONST, span=projection.span)
        builder.array(replace(array, role=Role.CONST), contents)
