"""Values by index and place: expressions over `self.i` and the others, worked out for each neuron.

Assumes: the size and the shape of the population are known.
Guarantees: a list with one value per neuron, or one number where all are equal by definition (`self.n`).
Does not: know equations, which read hidden parameters (frontend/build/shared/self_names.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.expr.ast import Expr, refs
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.types import Kind
from compiler.expr.units import Dimension
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.self_names import HIDDEN, INSTANCE, PARAMS, SELF, place_values
from compiler.frontend.build.shared.values import Context, Names
from compiler.frontend.yaml.tree import Node, Scalar


def reads_place(node: Node) -> bool:
    """Whether a value reads the place of its neuron."""
    return isinstance(node, Scalar) and isinstance(node.value, str) and any(n in node.value for n in SELF)


def placed_value(
    node: Node,
    what: str,
    dimension: Dimension | None,
    names: Names,
    listed: Mapping[str, l0.Value],
    size: int,
    shape: tuple[int, ...],
    c: Context,
) -> l0.Value | None:
    """The value of each neuron; None after an error. `listed`: values of parameters and states, of which those given as
    lists may be read, too."""
    scope = names.scope.extended(dict.fromkeys(SELF, Kind.REAL), SELF)
    checked = check_expression(node, scope, Wanted(what, dimension), c.sink)
    if checked is None:
        return None
    arrays = {n: np.array(v.values) for n, v in listed.items() if isinstance(v, l0.Listed)}
    return worked_out(checked.expr, {**names.numbers, **arrays}, what, node.span, size, shape, c)


def worked_out(
    e: Expr, env: Mapping[str, Any], what: str, at: Span, size: int, shape: tuple[int, ...], c: Context
) -> l0.Value | None:
    """A checked expression for each neuron; None after an error."""
    read = refs(e)
    if PARAMS[INSTANCE] in read:
        help = "equations read it: `update: [v = v + self.instance * 1 mV]`"
        c.sink.error("E0802", f"{what} is the same in all copies: it cannot read `{INSTANCE}`", at, help)
        return None
    unknown = next((n for n in sorted(read - HIDDEN) if n not in env and n not in ("pi", "e", "inf")), None)
    if unknown is not None:
        message = f"{what} reads the place of the neuron and `{unknown}`, which is drawn, or read from a file"
        c.sink.error("E0802", message, at, "write it without one of them")
        return None
    try:
        found = evaluate(e, {**env, **place_values(size, shape)})
    except ExprError as error:
        c.sink.error("E0308", f"{what} has no value: {error.message}", at)
        return None
    if np.ndim(found) == 0:
        return l0.Const(float(found), at)
    values = np.asarray(found, np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        c.sink.error("E0308", f"{what} is {values[bad]} for neuron {bad}", at)
        return None
    return l0.Listed(tuple(values.tolist()), at)
