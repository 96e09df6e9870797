"""Sums over instances in neurons, `sum_instances(x)`, as expressions over other populations: the copies.

Assumes: a checked NeuronDef (frontend/build/instances/neurons.py); sums stand in `on` alone and read states and
variables of pools.
Guarantees: terms are added in pairs of neighbours, then pairs of these sums, and so on, in the order of the copies, so
that the sum has the same bits in all of them; each is read as it was at the end of the step before, with one instance
too.
Does not: choose the populations (frontend/build/instances/expand.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.errors import Sink
from compiler.expr.ast import Call, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.inline import too_large
from compiler.expr.show import shorten
from compiler.ir.level0.controls import rewritten_handler
from compiler.ir.level2.synapse_sums import OVER_INSTANCES, SUMS, over_instances

_COPY: Final = l0.hidden("instance_")
"""What the names begin with under which a neuron reads the copies: no user's name does."""


def instance_of(name: str, copy: int) -> int:
    """The instance that a neuron of instance `copy` reads under this name of another population."""
    return int(name.removeprefix(_COPY)) if name.startswith(_COPY) else copy


def _in_pairs(terms: list[Expr], both: Callable[[Expr, Expr], Expr]) -> Expr:
    """All terms together, with few levels."""
    while len(terms) > 1:
        pairs = [both(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) // 2 * 2 :]
    return terms[0]


def check_size(n: l0.NeuronDef, copies: int, sink: Sink) -> None:
    """E0307 where sums over so many instances become too large."""
    for s in (s for handler in n.on for s in handler.actions):
        call = over_instances(s.value)
        if call is not None and (how := too_large(_in_pairs([call.args[0]] * copies, lambda a, b: a + b))) is not None:
            message = f"`{shorten(call)}` over {copies:,} instances {how}"
            sink.error(
                "E0307", message, s.span, "make the summand a state, which `update` or a statement before computes"
            )


def summed_over(n: l0.NeuronDef, copies: int) -> l0.NeuronDef:
    """The definition with its sums over that many instances, and the copies among its `others`."""
    values = [s.value for handler in n.on for s in handler.actions]
    if all(over_instances(e) is None for e in values):
        return n
    units, read = n.units, set[str]()

    def one(e: Expr) -> Expr:
        if not isinstance(e, Call) or e.func not in OVER_INSTANCES:
            return e
        names = refs(e) & units.keys()
        read.update(names)
        terms = [substitute(e.args[0], {x: Ref(f"{_COPY}{k}.{x}") for x in names}) for k in range(copies)]
        op = SUMS[e.func][0]
        if op in ("max", "min"):
            return _in_pairs(terms, lambda a, b: Call(op, (a, b)))
        whole = _in_pairs(terms, lambda a, b: a + b)
        return whole / Num(float(copies)) if op == "mean" else whole

    on = tuple(rewritten_handler(h, lambda e: rewrite(e, one)) for h in n.on)
    reads = tuple((x, units[x]) for x in units if x in read)
    decls = tuple(l0.OtherDecl(f"{_COPY}{k}", reads, n.span) for k in range(copies))
    return replace(n, on=on, others=(*n.others, *decls))
