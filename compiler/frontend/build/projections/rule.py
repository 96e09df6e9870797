"""`connect: {rule: ...}`: connections defined by an expression over indices, positions and distance.

Assumes: populations have been built; the values of the family are known.
Guarantees: one expression for the family, a Boolean or a probability, over `i`, `j`, sizes, positions and extents of
both populations, and numbers among the arguments of each member; `distance` is expanded.
Does not: evaluate it (connections are generated at run time), or check that probabilities are at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import compiler.ir.level0.model as l0
from compiler.connect.rule import Args
from compiler.core.diagnostics import Related
from compiler.expr.ast import Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.places.names import EXTENTS, MEANINGS, NAMES, Space, check_grids, extents, pool_extents
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.family import SIZES, WORD, Family
from compiler.frontend.yaml import tree


@dataclass(frozen=True)
class Rule:
    """`probability`: the expression of level 0. `used`: names of the model and the family that it reads, with their
    kinds. `near`: where `distance` stands, if it reads that."""

    probability: Expr
    own: int
    space: Space
    used: Mapping[str, Kind]
    near: tree.Node | None
    family: Family

    def arguments(self, source: str, target: str, env: dict[str, Any]) -> Args | None:
        """See connect.py."""
        a, b = self.family.populations.built[source], self.family.populations.built[target]
        if self.near is not None and not check_grids(a, b, self.near, self.family):
            return None
        out = place_arguments(a, b, self.own, self.probability)
        if "spacing" in refs(self.probability):
            out.append(("spacing", self.space.spacing))
        for name, kind in self.used.items():
            value = env[name] if name in env else self.family.names.numbers[name]
            if value is None:
                return None
            out.append((name, float(value) if kind is Kind.REAL else int(value)))
        return tuple(out)


def place_arguments(a: l0.Population, b: l0.Population, own: int, e: Expr) -> list[tuple[str, float | int]]:
    """What a rule with the expression `e` is told about two populations. `own`: autapses are allowed."""
    sizes = dict(zip(EXTENTS, (*extents(a), *extents(b)), strict=True))
    sizes |= {n: v for n, v in pool_extents(a, b).items() if n in refs(e)}
    return [("autapses", own), *sizes.items()]


def read_rule(r: Reader, own: int, space: Space, family: Family) -> Rule | None:
    """The rule of a validated block; None after an error."""
    c = family.c
    hidden = next((name for name in family.values if name in NAMES), None)
    if hidden is not None:
        message = f"`{hidden}` has a meaning of its own in a `rule`, which a value of that name would hide"
        c.sink.error("E0107", message, r.span, "give the value another name")
        return None
    whole = _whole(r, space.scope(family.names.scope), c)
    if whole is None or _ambiguous(r, whole, c):
        return None
    near = (r.get("probability") or r.get("when")) if "distance" in refs(whole) else None
    names = refs(whole) & (family.names.numbers.keys() | family.values.keys())
    kinds = family.names.scope.kinds
    used = {name: kinds[name] for name in sorted(names - {*NAMES, *SIZES})}
    # Truth values are 0 and 1 among the arguments.
    bindings: dict[str, Expr] = {name: Ref(name).ne(0) for name, kind in used.items() if kind is Kind.BOOL}
    return Rule(substitute(space.expanded(whole), bindings), own, space, used, near, family)


def _ambiguous(r: Reader, whole: Expr, c: Context) -> bool:
    """Whether the rule reads a name of places that a parameter of the model has, too; reports it."""
    scope = c.names.scope
    name = min(refs(whole) & {*NAMES, *SIZES} & scope.kinds.keys(), default=None)
    if name is None:
        return False
    places = [
        (n, m)
        for k in ("when", "probability")
        for n in (r.get(k),)
        if isinstance(n, tree.Scalar)
        for m in WORD.finditer(n.text)
        if m[0] == name
    ]
    span = tree.within(places[0][0], *places[0][1].span()) if places else r.span
    message = f"`{name}` is the {MEANINGS.get(name, '`spacing` of places')} in a `rule`, and a parameter of the model"
    related = (Related("the parameter is declared here", scope.places[name]),) if name in scope.places else ()
    c.sink.error("E0107", message, span, "give the parameter another name", related)
    return True


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
