"""`connect: {rule: ...}`: connections that an expression over indices, positions and distance decides.

Assumes: populations have been built; the values of the family are known.
Guarantees: one expression for the family, a truth value or a probability, over `i`, `j`, sizes, positions and extents
of both populations, and numbers that stand among the arguments of each member; `distance` is written out.
Does not: evaluate it (the connections are drawn where the network is), or check that probabilities are at most 1.

Positions: neuron k of a population of shape (channels, height, width) is in column x = k % width, row
y = k // width % height and channel c = k // (height width). Without a shape, a population is a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, LENGTH, Dimension, describe
from compiler.frontend.build.shared.readers import Reader, default_of, value_of
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.values import number_and_dimension, out_of_bounds
from compiler.frontend.build.spiking.family import SIZES, Family
from compiler.frontend.yaml import tree

_WHOLE: Final = ("i", "j", "x_i", "y_i", "c_i", "x_j", "y_j", "c_j", "w_from", "h_from", "w_to", "h_to")
_NAMES: Final = (*_WHOLE, "distance", "spacing")
_EXTENTS: Final = ("w_from", "h_from", "w_to", "h_to")

Args = tuple[tuple[str, float | int], ...]


@dataclass(frozen=True)
class Rule:
    """`probability`: the expression of level 0. `arguments`: see connect.py."""

    probability: Expr
    arguments: Callable[[str, str, dict[str, Any]], Args | None]


def extents(population: l0.Population) -> tuple[int, int]:
    """Width and height of a population; one without a shape is a line."""
    shape = population.shape or (population.size,)
    return shape[-1], shape[-2] if len(shape) > 1 else 1


def read_rule(r: Reader, own: int, family: Family) -> Rule | None:
    """The rule of a validated block; None after an error."""
    c = family.c
    for name in family.values:
        if name in _NAMES:
            message = f"`{name}` has a meaning of its own in a `rule`, which a value of that name would hide"
            c.sink.error("E0107", message, r.span, "give the value another name")
            return None
    spacing, unit = _spacing(r, family)
    if spacing is None:
        return None
    kinds = dict.fromkeys(_WHOLE, Kind.INT) | {"distance": Kind.REAL, "spacing": Kind.REAL}
    dimensions: dict[str, Dimension | None] = dict.fromkeys(_WHOLE, DIMENSIONLESS)
    scope = family.names.scope.extended(kinds, dimensions | {"distance": unit, "spacing": unit})
    parts: dict[str, Expr] = {}
    for key, condition in (("probability", False), ("when", True)):
        node = r.get(key)
        if node is None:
            continue
        wanted = Wanted(
            f"`{key}`",
            None if condition else DIMENSIONLESS,
            condition,
            "random numbers cannot stand here; pairs are drawn with `probability`",
        )
        checked = check_expression(node, scope, wanted, c.sink)
        if checked is None:
            return None
        parts[key] = checked.expr
    if not parts:
        return None
    whole = parts.get("probability") or parts["when"]
    if len(parts) == 2:
        whole = Cond(parts["when"], parts["probability"], Num(0.0))
    far = "distance" in refs(whole)
    given = r.get("spacing") is not None
    own_names = {*_NAMES, *SIZES}
    used = sorted((refs(whole) - own_names) & (family.names.numbers.keys() | family.values.keys()))
    bindings: dict[str, Expr] = {"distance": _distance(r.flag("periodic"), given)}
    for name in used:  # truth values are 0 and 1 among the arguments
        if scope.kinds[name] is Kind.BOOL:
            bindings[name] = Ref(name).ne(0)
    whole = substitute(whole, bindings)
    measured = "spacing" in refs(whole)
    node = r.get("probability") or r.get("when")
    assert node is not None

    def arguments(source: str, target: str, env: dict[str, Any]) -> Args | None:
        a, b = family.populations.built[source], family.populations.built[target]
        w, h, v, g = (*extents(a), *extents(b))
        if far and (w, h) != (v, g):
            _grids_differ(a, b, node, family)
            return None
        out: list[tuple[str, float | int]] = [("autapses", own), *zip(_EXTENTS, (w, h, v, g), strict=True)]
        if measured:
            out.append(("spacing", float(spacing)))
        for name in used:
            value = env[name] if name in env else family.names.numbers[name]
            if value is None:
                return None
            out.append((name, float(value) if scope.kinds[name] is Kind.REAL else int(value)))
        return tuple(out)

    return Rule(whole, arguments)


def _spacing(r: Reader, family: Family) -> tuple[float | None, Dimension]:
    """The distance between neighbours of the grid, and its dimension: none, or a length."""
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
    """Report that two populations have no common grid; once for each pair of extents is enough."""
    (w, h), (v, g) = extents(a), extents(b)
    message = (
        f"`distance` needs populations on one grid: `{a.name}` is {h:,} high and {w:,} wide, "
        f"`{b.name}` is {g:,} high and {v:,} wide"
    )
    help = "write it with `x_i / w_from`, `x_j / w_to`, `y_i / h_from` and `y_j / h_to`"
    places = family.populations.places
    related = tuple(Related("declared here", places[p]) for p in dict.fromkeys((a.name, b.name)))
    family.c.sink.error("E0604", message, node.span, help, related)
