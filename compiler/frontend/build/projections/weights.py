"""Weights of static deliveries, per member of a family.

Assumes: the input of the targets is known.
Guarantees: numbers are finite and have the dimension of the input; members with equal numbers share their value.
Does not: sample them, or put lists into the order of connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import compiler.ir.level0.model as l0
from compiler.expr.units import Dimension
from compiler.frontend.build.places.names import Space
from compiler.frontend.build.places.values import placed_value, reads_places
from compiler.frontend.build.shared.initial_values import initial_value
from compiler.frontend.build.shared.values import Names
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar

Env = dict[str, Any]
"""The values of the names that differ from member to member (Family.members)."""


def weight_of(
    deliver: tree.Mapping,
    dimension: Dimension | None,
    space: Space,
    family: Family,
    rule: str | None,
    count: int | None,
) -> Callable[[Env], l0.Value | None]:
    """The weight at each member. `rule`: the rule, if it draws connections, which have no order for a list."""
    c, node = family.c, deliver.get("weight")
    if node is None:
        help = "for example `weight: 1.62 mV`"
        c.sink.error("E0103", "`deliver` lacks `weight`", deliver.span, help)
        return lambda env: None
    if reads_places(node, family.names.scope):
        return placed_value(node, "`weight`", dimension, family.names, space, family)
    if isinstance(node, Scalar):
        at = family.per_member(node, "`weight`", dimension)

        span, once = node.span, dict[float, l0.Value]()

        def one(env: Env) -> l0.Value | None:
            found = at(env)
            if found is None:
                return None
            const = once.get(found) if found else None  # 0.0 and -0.0 are equal
            if const is None:
                if not math.isfinite(found):
                    c.sink.error("E0106", f"`weight` must be finite; it is {found:g}", span)
                    return None
                const = once[found] = l0.Const(float(found), span)
            return const

        return one

    def several(names: Names) -> l0.Value | None:
        value = initial_value(node, c, "`weight`", dimension, names, count, "connection")[0]
        if isinstance(value, l0.FromFile | l0.Listed) and rule is not None:
            message = f"weights from a list or a file need connections that are given one by one, not `{rule}`"
            c.sink.error("E0802", message, node.span, "write `connect: {pairs: ...}`, or `all_to_all`")
            return None
        return value

    return family.once(node, several)
