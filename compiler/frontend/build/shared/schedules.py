"""Schedules: time-dependent parameters of an optimizer, and the additional functions of their expressions.

Assumes: `train: {optimizer: {adam: {learning_rate: 1e-3 * cosine_decay(step, steps)}}}`.
Guarantees: a schedule is typed, dimensionless, and reads `step` and `epoch` (from 1), `steps` and `epochs` (of the
whole training) and model parameters only.
Does not: compute the number of steps (expand_updates does).
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.errors import Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import calls, refs
from compiler.expr.inline import Definition
from compiler.expr.parse import own_expr, parse_signature
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.values import Context
from compiler.frontend.resolve.values import expression_of
from compiler.frontend.yaml.tree import Node, Scalar

TIMES: Final = ("step", "epoch", "steps", "epochs")
"""The time variables of an optimizer."""

_TEXTS: Final = {
    "warmup(t, length)": "min(1, t / length)",
    "step_decay(t, every, factor)": "factor ** ((t - 1) // every)",
    # Loshchilov & Hutter 2017, eq. 5, without restarts
    "cosine_decay(t, length)": "0.5 * (1 + cos(pi * min(1, (t - 1) / length)))",
    "warmup_cosine(t, warmup, length)": (
        "t / warmup if t < warmup else 0.5 * (1 + cos(pi * min(1, (t - warmup) / max(1, length - warmup))))"
    ),
    # Smith & Topin 2018, in the form of PyTorch's OneCycleLR with its defaults: from 1/25 to 1 in 30 % of the steps,
    # then down to 1/250,000
    "one_cycle(t, length)": (
        "0.52 - 0.48 * cos(pi * (t - 1) / max(1, 0.3 * length - 1)) if t - 1 <= 0.3 * length - 1 else "
        "4e-6 + 0.499998 * (1 + cos(pi * min(1, (t - 0.3 * length) / (0.7 * length))))"
    ),
}


def _definitions() -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for signature, text in _TEXTS.items():
        sink = Sink()
        name, args = parse_signature(signature, NOWHERE, sink, exact=False) or ("", ())
        sink.check()
        found[name] = Definition(name, args, own_expr(text))
    return found


SCHEDULES: Final = MappingProxyType(_definitions())
"""Functions of time: factors between 0 and 1."""


def is_schedule(node: Node, c: Context) -> bool:
    """Whether a value reads the time or calls a schedule; the model's own names take precedence."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    tree = expression_of(node, Sink(), (*c.names.scope.kinds, *TIMES))
    if tree is None:
        return False
    own = c.names.scope
    return bool(refs(tree) & (set(TIMES) - own.kinds.keys()) or calls(tree) & (SCHEDULES.keys() - own.arities.keys()))


def read_schedule(node: Node, c: Context, name: str) -> l0.Set | None:
    """`name = expression`, checked; None after an error."""
    own = c.names.scope
    times = [t for t in TIMES if t not in own.kinds]
    scope = own.extended(dict.fromkeys(times, Kind.REAL), dict.fromkeys(times, DIMENSIONLESS))
    scope = replace(
        scope,
        functions={**SCHEDULES, **scope.functions},
        arities={**{n: len(d.parameters) for n, d in SCHEDULES.items()}, **scope.arities},
    )
    checked = check_expression(node, scope, Wanted(f"`{name}`", DIMENSIONLESS), c.sink)
    return None if checked is None else l0.Set(name, checked.expr, node.span)
