"""Places of the two ends of a connection: `i`, `j`, rows, columns, channels and `distance` in expressions.

Assumes: populations have been built.
Guarantees: the names, kinds and dimensions that expressions over places may use, for rules and for values alike;
`distance` is expanded to the Euclidean distance on the common grid.
Does not: evaluate them.

Positions: neuron k of a population of shape (channels, height, width) has column x = k % width, row
y = k // width % height and channel c = k // (height width). Without a shape, a population is one-dimensional. In a
shape of four extents, channels are pools: that of channel c is in column c % columns and row c // columns of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect.probability import EXPRESSION
from compiler.connect.tile import pool_place
from compiler.core.diagnostics import Related, declared_at
from compiler.expr.ast import Call, Expr, Ref, substitute
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, LENGTH, Dimension, describe
from compiler.frontend.build.shared.readers import Reader, default_of, value_of
from compiler.frontend.build.shared.scope import Scope
from compiler.frontend.build.shared.self_names import pools_of
from compiler.frontend.build.shared.values import entries_of, mapping, number_and_dimension, out_of_bounds
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.yaml import tree
from compiler.ir.level2.synapse_values import COUNTED

EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")
POOL_EXTENTS: Final = ("pw_from", "ph_from", "pw_to", "ph_to")
"""Columns and rows of pools of both populations."""
_POOLS: Final[Mapping[str, Expr]] = MappingProxyType(
    {
        name: expr
        for index, end in (("i", "from"), ("j", "to"))
        for name, expr in zip((f"py_{index}", f"px_{index}"), pool_place(index, end), strict=True)
    }
)
"""Column and row of a neuron's pool, by its channel."""
COUNTS: Final = tuple(COUNTED)
"""How many synapses lead to the target neuron and away from the source neuron, which is known when they are made."""
WHOLE: Final = ("i", "j", "x_i", "y_i", "c_i", "x_j", "y_j", "c_j", *EXTENTS, *_POOLS, *POOL_EXTENTS)
NAMES: Final = frozenset((*WHOLE, *COUNTS, "distance", "spacing"))
MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{n: f"index of the {e} neuron, from 0" for n, e in (("i", "source"), ("j", "target"))},
        **{
            f"{axis}_{index}": f"{place} of the {end} neuron"
            for index, end in (("i", "source"), ("j", "target"))
            for axis, place in (
                *(("x", "column"), ("y", "row"), ("c", "channel")),
                *(("px", "column of the pool"), ("py", "row of the pool")),
            )
        },
        **{f"n_{end}": f"number of {noun} neurons" for end, noun in (("from", "source"), ("to", "target"))},
        **{
            f"{size}_{end}": f"{extent} of the {noun} population"
            for end, noun in (("from", "source"), ("to", "target"))
            for size, extent in (
                *(("w", "width"), ("h", "height")),
                *(("pw", "number of columns of pools"), ("ph", "number of rows of pools")),
            )
        },
        "n_in": "number of synapses of the projection onto the target neuron, when the run begins",
        "n_out": "number of synapses of the projection of the source neuron, when the run begins",
        "distance": "distance between the places of both neurons, see `space`",
    }
)
"""What each name is, for editors."""


@dataclass(frozen=True)
class Space:
    """What `distance` means: grid spacing (`unit`: none, or a length), and whether opposite borders are neighbours.
    `given`: a spacing was written."""

    spacing: float
    unit: Dimension
    periodic: bool
    given: bool

    def scope(self, scope: Scope, but: Mapping[str, object] | None = None, counts: bool = False) -> Scope:
        """`scope` with the names of places; those in `but` keep their meaning. `counts`: COUNTS, too."""
        whole = (*WHOLE, *COUNTS) if counts else WHOLE
        known = () if but is None else but
        scope = scope.extended({n: DIMENSIONLESS for n in whole if n not in known}, kind=Kind.INT)
        return scope.extended({n: self.unit for n in ("distance", "spacing") if n not in known})

    def expanded(self, e: Expr) -> Expr:
        """`e` with `distance` written with places, extents and `spacing`, and places of pools with channels."""
        return substitute(e, {"distance": self.distance, **_POOLS})

    @cached_property
    def distance(self) -> Expr:
        """The Euclidean distance of the positions of source and target."""
        root: Expr = Call("sqrt", (self._squared("x", "w_to") + self._squared("y", "h_to"),))
        return root * Ref("spacing") if self.given else root

    def _squared(self, axis: str, extent: str) -> Expr:
        apart: Expr = Ref(f"{axis}_i") - Ref(f"{axis}_j")
        if self.periodic:
            apart = Call("abs", (apart,))
            apart = Call("min", (apart, Ref(extent) - apart))
        return apart * apart


def read_space(r: Reader, family: Family) -> Space | None:
    """The keys `spacing` and `periodic` of a block; None after an error."""
    node, kind = r.get("spacing"), value_of(r.of("spacing"))
    periodic = r.flag("periodic")
    if node is None:
        return Space(default_of(r.default("spacing")), DIMENSIONLESS, periodic, False)
    found = number_and_dimension(node, family.c, "`spacing`", None)
    if found is None:
        return None
    value, dimension = found[0], found[1] or DIMENSIONLESS
    problem = out_of_bounds(value, kind.low, kind.high, above=kind.above)
    if problem is not None:
        family.c.sink.error("E0106", f"`spacing` must be {problem}; it is {value:g}", node.span)
        return None
    if dimension not in (DIMENSIONLESS, LENGTH):
        message = f"`spacing` must be a length or a number; this is {describe(dimension)}"
        family.c.sink.error("E0401", message, node.span, "for example `spacing: 20 um`")
        return None
    return Space(float(value), dimension, periodic, True)


def space_of(r: Reader, family: Family) -> Space | None:
    """What `distance` means in an entry of `projections`: its `space`, or the keys of its `rule`; None on errors."""
    own = r.block("space")
    rule = next((e for e in entries_of(r.get("connect")) if e.name == EXPRESSION.keys.name), None)
    if rule is None:
        return read_space(own, family)
    of_rule = Reader(EXPRESSION.block, mapping(rule.value), r.c, family.names)
    twice = next((e for k in ("spacing", "periodic") if (e := of_rule.entry(k)) is not None), None)
    if own.node is None or twice is None:
        return read_space(of_rule if own.node is None else own, family)
    message = f"`{twice.name}` belongs to `space`, which the entry has"
    r.c.sink.error("E0107", message, twice.key.span, "leave it out here", (Related("`space` stands here", own.span),))
    return None


def extents(population: l0.Population) -> tuple[int, int]:
    """Width and height of a population; height is 1 without a shape."""
    shape = population.shape or (population.size,)
    return shape[-1], shape[-2] if len(shape) > 1 else 1


def pool_extents(a: l0.Population, b: l0.Population) -> dict[str, int]:
    """The values of POOL_EXTENTS."""
    (rows, columns), (high, wide) = pools_of(a.shape), pools_of(b.shape)
    return dict(zip(POOL_EXTENTS, (columns, rows, wide, high), strict=True))


def check_grids(a: l0.Population, b: l0.Population, node: tree.Node, family: Family) -> bool:
    """Whether two populations have a common grid, which `distance` at `node` needs; reports it if not, once per pair of
    extents."""
    (w, h), (v, g) = extents(a), extents(b)
    pooled = next((p for p in (a, b) if len(p.shape) == 4), None)
    if (w, h) == (v, g) and pooled is None:
        return True
    places = family.populations.places
    if pooled is not None:
        message = f"`distance` is between places in one plane, and `{pooled.name}` has a plane for each pool"
        help = "write it with `px_i`, `py_i`, `x_i`, `y_i` and those of `j`"
        family.c.sink.error("E0604", message, node.span, help, declared_at(places[pooled.name]))
        return False
    message = (
        f"`distance` needs populations on one grid: `{a.name}` is {h:,} high and {w:,} wide, "
        f"`{b.name}` is {g:,} high and {v:,} wide"
    )
    help = "write it with `x_i / w_from`, `x_j / w_to`, `y_i / h_from` and `y_j / h_to`"
    related = tuple(Related("declared here", places[p]) for p in dict.fromkeys((a.name, b.name)))
    family.c.sink.error("E0604", message, node.span, help, related)
    return False
