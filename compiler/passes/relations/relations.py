"""relations: access to a projection's synapses, by source or by target.

Assumes: the frontend has rejected storages that cannot hold a family's synapses (compiler/connect/storage.py).
Guarantees: the result is all that a Propagate needs of the relation: formals, the arrays that they are bound to,
columns, and `text`, equal for two projections exactly when formals and relation are. Every pair, one to one and
convolutions store nothing; arrays of others are made on first use (stored_rows).
Does not: create statements or deliveries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from compiler.connect.convolution import Extents, planes_of
from compiler.connect.storage import STORAGES
from compiler.ir.space import DType, own_array
from compiler.passes.relations.stored_rows import CSR, PART, ColumnsOfEach, Drawing, Link, draw_rows, make_arrays


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class LoweredRelation:
    """A relation of level 2 and the formals it adds to its kernel. `extent`: the number of elements of an array
    At("syn"): the synapses, or the elements of the kernel where synapses share them (convolutions, unless each synapse
    has a state of its own); 0 where synapses have no number (bitmasks)."""

    relation: Final[l2.Relation]
    formals: Final[tuple[l2.Formal, ...]]
    arrays: Final[Mapping[str, str]]
    columns: Final[Mapping[str, l2.ColumnValue]]
    extent: Final[int | l2.SizeOf]


def relation_of(link: Link, by: str = "pre") -> LoweredRelation:
    """The relation of one projection, walked from the end `by`. Makes its stored arrays on first use, also the
    transposed rows when they are walked by target."""
    pre, post, drawing = link.pre, link.post, make_arrays(link, by)
    planes = planes_of(link) if link.projection.planes is not None else None
    reached = by == "pre" or STORAGES[link.storage].by_target
    assert reached, f"{link.stored}: `{link.storage}` finds no synapses of targets"
    match link.storage:
        case "dense":
            sizes, columns = (_column("n_pre"), _column("n_post")), {"n_pre": pre.size, "n_post": post.size}
            dense = l2.Dense("n_pre", "n_post", link.hole)
            return LoweredRelation(dense, sizes, {}, columns, pre.size * (post.size - link.hole))
        case "one_to_one":
            return LoweredRelation(l2.OneToOne(), (), {}, {}, min(pre.size, post.size))
        case "toeplitz":
            assert planes is not None
            columns = {name: int(getattr(planes, name)) for name in l2.PLANES}
            toeplitz = l2.Toeplitz(planes.kernel, planes.stride, planes.depthwise, planes.shared)
            return LoweredRelation(toeplitz, tuple(_column(n) for n in l2.PLANES), {}, columns, planes.elements)
        case "sparse":
            return _sparse(link, by, planes)
        case "bitmask":
            return _bitmask(link)
        case "procedural":
            assert drawing is not None
            return _procedural(link, drawing)
    raise AssertionError(link.storage)


def relations_of(links: Sequence[Link]) -> tuple[LoweredRelation, Mapping[str, Sequence[str]], ColumnsOfEach]:
    """The relation of a link, walked from its sources, or that of several which are `alike` (of the first one); and the
    arrays and columns of each, by formal."""
    first = links[0]
    if len(links) > 1:
        draw_rows(links)
    found = relation_of(first)
    if len(links) == 1:
        return found, {f: (a,) for f, a in found.arrays.items()}, {c: (value,) for c, value in found.columns.items()}
    assert not found.columns, f"{first.stored}: columns of {len(links)} projections"
    parts = {f: array.removeprefix(first.stored) for f, array in found.arrays.items()}
    return found, {f: [x.stored + part for x in links] for f, part in parts.items()}, {}


def _column(name: str) -> l2.ScalarFormal:
    return l2.ScalarFormal(name, DType.I64)


def _sparse(link: Link, by: str, planes: Extents | None) -> LoweredRelation:
    extent: int | l2.SizeOf = l2.SizeOf(own_array(f"{link.stored}{PART if link.in_part else ''}", "row"))
    if link.shared and planes is not None:
        extent = planes.elements
    elif link.rule.rows is not None:
        extent = int(link.builder.arrays[link.array("col")].shape[0])
    if by == "post":
        names = ("to_row", "to_col") if link.by_target else ("to_row", "to_col", "to_index")
    elif link.by_target:
        names = ("row", "col", "index")
    else:
        names = ("row", "col", "element") if link.shared else ("row", "col")
    arrays = {formal.name: link.array(array) for formal, array in zip(CSR, names, strict=False)}
    if len(names) == 2:
        return LoweredRelation(_ROWS, CSR[:2], arrays, {}, extent)
    return LoweredRelation(l2.Csr("row", "col", "index", names[-1] == "element"), CSR, arrays, {}, extent)


_ROWS: Final = l2.Csr("row", "col")


def _bitmask(link: Link) -> LoweredRelation:
    words = l2.ArrayFormal("words", DType.U32, l2.Mode.READ, l2.ByName())
    bound, columns = {"words": link.array("words")}, {"n_post": link.post.size}
    return LoweredRelation(l2.Bitmask("words", "n_post"), (words, _column("n_post")), bound, columns, 0)


def _procedural(link: Link, drawing: Drawing) -> LoweredRelation:
    pointers = link.array("row")
    new = {"key": "connect_key"}  # the statements have a key of their own
    formals = tuple(replace(f, name=new.get(f.name, f.name)) for f in drawing.formals)
    columns = {new.get(n, n): value for n, (value,) in drawing.columns.items()}
    relation = l2.Procedural(link.rule.name, "row", drawing.probability)
    arrays = {"row": pointers, **{f: array for f, (array,) in drawing.arrays.items()}}
    return LoweredRelation(relation, (CSR[0], *formals), arrays, columns, l2.SizeOf(pointers))
