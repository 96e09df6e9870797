"""`connect: {rule: ...}`: connections defined by an expression over indices, positions and distance.

Assumes: populations have been built; the values of the family are known.
Guarantees: one expression for the family, a Boolean or a probability, over `i`, `j`, sizes, positions and extents of
both populations, and numbers among the arguments of each member; `distance` is expanded.
Does not: evaluate it (connections are generated at run time), or check that probabilities are at most 1.

Positions: neuron k of a population of shape (channels, height, width) has column x = k % width, row
y = k // width % height and channel c = k // (height width). Without a shape, a population is one-dimensional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.connect.rule import Args
from compiler.core.diagnostics import Related
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, LENGTH, Dimension, describe
from compiler.frontend.build.shared.readers import Reader, default_of, value_of
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.values import Context, number_and_dimension, out_of_bounds
from compiler.frontend.build.spiking.family import SIZES, Family
from compiler.frontend.yaml import tree

_WHOLE: Final = ("i", "j", "x_i", "y_i", "c_i", "x_j", "y_j", "c_j", "w_from", "h_from", "w_to", "h_to")
_NAMES: Final = (*_WHOLE, "distance", "spacing")
_EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")


@dataclass(frozen=True)
class Rule:
    """`probability`: the expression of level 0. `used`: names of the model and the family that it reads, with their
    kinds. `near`: where `distance` stands, if it reads that."""

    probability: Expr
    own: int
    spacing: float
    used: Mapping[str, Kind]
    near: tree.Node | None
    family: Family

    def arguments(self, source: str, target: str, env: dict[str, Any]) -> Args | None:
        """See connect.py."""
        a, b = self.family.populations.built[source], self.family.populations.built[target]
        if self.near is not None and extents(a) != extents(b):
            _grids_differ(a, b, self.near, self.family)
            return None
        sizes = zip(_EXTENTS, (*extents(a), *extents(b)), strict=True)
        out: list[tuple[str, float | int]] = [("autapses", self.own), *sizes]
        if "spacing" in refs(self.probability):
            out.append(("spacing", self.spacing))
        for name, kind in self.used.items():
            value = env[name] if name in env else self.family.names.numbers[name]
            if value is None:
                return None
            out.append((name, float(value) if kind is Kind.REAL else int(value)))
        return tuple(out)


def extents(population: l0.Population) -> tuple[int, int]:
    """Width and height of a population; height is 1 without a shape."""
    shape = population.shape or (population.size,)
    return shape[-1], shape[-2] if len(shape) > 1 else 1


def read_rule(r: Reader, own: int, family: Family) -> Rule | None:
    """The rule of a validated block; None after an error."""
    c = family.c
    hidden = next((name for name in family.values if name in _NAMES), None)
    if hidden is not None:
        message = f"`{hidden}` has a meaning of its own in a `rule`, which a value of that name would hide"
        c.sink.error("E0107", message, r.span, "give the value another name")
        return None
    spacing, unit = _spacing(r, family)
    if spacing is None:
        return None
    kinds = dict.fromkeys(_WHOLE, Kind.INT) | {"distance": Kind.REAL, "spacing": Kind.REAL}
    dimensions: dict[str, Dimension | None] = dict.fromkeys(_WHOLE, DIMENSIONLESS)
    scope = family.names.scope.extended(kinds, dimensions | {"distance": unit, "spacing": unit})
    whole = _whole(r, scope, c)
    if whole is None:
        return None
    near = (r.get("probability") or r.get("when")) if "distance" in refs(whole) else None
    names = refs(whole) & (family.names.numbers.keys() | family.values.keys())
    used = {name: scope.kinds[name] for name in sorted(names - {*_NAMES, *SIZES})}
    bindings: dict[str, Expr] = {"distance": _distance(r.flag("periodic"), r.get("spacing") is not None)}
    # Truth values are 0 and 1 among the arguments.
    bindings |= {name: Ref(name).ne(0) for name, kind in used.items() if kind is Kind.BOOL}
    return Rule(substitute(whole, bindings), own, float(spacing), used, near, family)


def _whole(r: Reader, scope: Scope, c: Context) -> Expr | None:
    """The condition, the probability, or where both stand the probability under the condition; None after an error."""
    parts: dict[str, Expr] = {}
    no_random = "random numbers cannot stand here; pairs are drawn with `probability`"
    for key, dimension in (("probability", DIMENSIONLESS), ("when", None)):
        node = r.get(key)
        if node is None:
            continue
        checked = check_expression(node, scope, Wanted(f"`{key}`", dimension, key == "when", no_random), c.sink)
        if checked is None:
            return None
        parts[key] = checked.expr
    if len(parts) == 2:
        return Cond(parts["when"], parts["probability"], Num(0.0))
    return next(iter(parts.values()), None)


def _spacing(r: Reader, family: Family) -> tuple[float | None, Dimension]:
    """The grid spacing, and its dimension: none, or a length."""
    node, kind = r.get("spacing"), value_of(r.of("spacing"))
    if node is None:
        return default_of(r.default("spacing")), DIMENSIONLESS
    found = number_and_dimension(node, family.c, "`spacing`", None)
    if found is None:
        return None, DIMENSIONLESS
    value, dimension = found[0], found[1] or DIMENSIONLESS
    problem = out_of_bounds(value, kind.low, kind.high, above=kind.above)
    if problem is not None:
        family.c.sink.error("E0106", f"`spacing` must be {problem}; it is {value:g}", node.span)
        return None, dimension
    if dimension not in (DIMENSIONLESS, LENGTH):
        message = f"`spacing` must be a length or a number; this is {describe(dimension)}"
        family.c.sink.error("E0401", message, node.span, "for example `spacing: 20 um`")
        return None, dimension
    return float(value), dimension


def _distance(periodic: bool, spaced: bool) -> Expr:
    """The Euclidean distance of the positions of source and target."""

    def squared(axis: str, extent: str) -> Expr:
        apart: Expr = Ref(f"{axis}_i") - Ref(f"{axis}_j")
        if periodic:
            apart = Call("abs", (apart,))
            apart = Call("min", (apart, Ref(extent) - apart))
        return apart * apart

    root: Expr = Call("sqrt", (squared("x", "w_to") + squared("y", "h_to"),))
    return root * Ref("spacing") if spaced else root


def _grids_differ(a: l0.Population, b: l0.Population, node: tree.Node, family: Family) -> None:
    """Report that two populations have no common grid, once per pair of extents."""
    (w, h), (v, g) = extents(a), extents(b)
    message = (
        f"`distance` needs populations on one grid: `{a.name}` is {h:,} high and {w:,} wide, "
        f"`{b.name}` is {g:,} high and {v:,} wide"
    )
    help = "write it with `x_i / w_from`, `x_j / w_to`, `y_i / h_from` and `y_j / h_to`"
    places = family.populations.places
    related = tuple(Related("declared here", places[p]) for p in dict.fromkeys((a.name, b.name)))
    family.c.sink.error("E0604", message, node.span, help, related)
