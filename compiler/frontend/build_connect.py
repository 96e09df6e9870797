"""Connectivity: from a resolved block of `connect` to the arguments of its rule at each member.

Assumes: populations have been built.
Guarantees: probabilities are in [0, 1], numbers whole.
Does not: draw connections, or read lists of pairs (pair_lists.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.diagnostics import Related
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend import tree
from compiler.frontend.build_populations import Populations
from compiler.frontend.family import Family, inside
from compiler.frontend.tree import Scalar
from compiler.frontend.values import (
    Context,
)
from compiler.source import Span

Arguments = Callable[[dict[str, Any]], "tuple[tuple[str, float | int], ...] | None"]


def connect_arguments(rule: str, settings: tree.Mapping, family: Family) -> Arguments:
    """The numbers of a connect rule at each member."""
    c = family.c
    autapses = settings.get("autapses")
    own = 0 if isinstance(autapses, Scalar) and autapses.value is False else 1
    if rule == "all_to_all":
        return lambda env: (("autapses", own),)
    if rule == "fixed_probability":
        node = settings.get("p")
        if node is None:
            return lambda env: None
        probability = family.per_member(node, "`p`", DIMENSIONLESS)

        def with_p(env: dict[str, Any]) -> tuple[tuple[str, float | int], ...] | None:
            p = probability(env)
            if p is None or not inside(p, 0.0, 1.0, "`p`", node, c):
                return None
            return (("p", float(p)), ("autapses", own))

        return with_p
    if rule == "fixed_total":
        node = settings.get("number")
        if node is None:
            return lambda env: None
        total = family.per_member(node, "`number`", DIMENSIONLESS)

        def with_number(env: dict[str, Any]) -> tuple[tuple[str, float | int], ...] | None:
            n = total(env)
            if n is None or not inside(n, 0.0, float(1 << 53), "`number`", node, c):
                return None
            if n != int(n):
                message = f"`number` must be a whole number; it is {n:g}"
                c.sink.error("E0102", message, node.span, "use `round(...)`")
                return None
            return (("number", int(n)),)

        return with_number
    return lambda env: ()


def same_sizes(source: str, target: str, at: Span, populations: Populations, c: Context) -> None:
    n, m = populations.built[source].size, populations.built[target].size
    if n != m:
        message = f"`one_to_one` needs populations of one size: `{source}` has {n:,}, `{target}` has {m:,}"
        related = tuple(Related("declared here", populations.places[p]) for p in dict.fromkeys((source, target)))
        c.sink.error("E0604", message, at, None, related)
