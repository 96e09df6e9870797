"""Histories of neurons, `history: {tr: {of: ca, at: bin.end, keep: 20}}`: the last values of an expression.

Assumes: parameters, states and inputs of the neuron are declared.
Guarantees: a history `tr` is kept in the variables `tr_1`, the newest, to `tr_20`, which statements do not assign to;
at the event they move on before anything else that the neuron does then.
Does not: expand `dot(pre.tr, post.tr)` (frontend/build/shared/delayed.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at
from compiler.core.source import Span
from compiler.expr.ast import Expr, Ref
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.shared.definition_builder import Draft, unit_name
from compiler.frontend.build.shared.phases import find_event
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import Scope, Wanted
from compiler.frontend.build.shared.values import entries_of, mapping
from compiler.frontend.language.spiking.neurons import HISTORY
from compiler.frontend.yaml.tree import Entry, Scalar


@dataclass(frozen=True)
class History:
    """`name` of the `value` at each event of a phase; its variables are `states`, the newest first."""

    value: Expr
    phase: str
    event: str
    states: tuple[l0.StateDecl, ...]
    span: Span


def build_histories(d: Draft, scope: Scope) -> tuple[History, ...]:
    """The histories of a neuron, whose variables are declared. `scope`: its parameters, states and inputs."""
    out: list[History] = []
    for entry in entries_of(d.node.get("history")):
        block = mapping(entry.value)
        if block is None or not d.declare(entry.key, "a history"):
            continue
        r = Reader(HISTORY, block, d.c)
        keep, at, of = r.integer("keep"), r.get("at"), r.get("of")
        found = None if of is None else d.check(of, scope, Wanted(f"`of` of `{entry.name}`"))
        moment = find_event(at, d.c) if isinstance(at, Scalar) else None
        dimension = None if found is None else found.dimension or DIMENSIONLESS
        names = _names(d, entry, keep or 1)  # so that what reads it has something to read
        d.past |= dict.fromkeys(names, dimension)
        d.histories[entry.name] = len(names)
        if found is not None and moment is not None and keep and names:
            unit = unit_name(dimension)
            states = tuple(l0.StateDecl(n, unit, l0.Const(0.0), entry.key.span) for n in names)
            out.append(History(found.expr, moment[0].name, moment[1], states, entry.key.span))
    return tuple(out)


def _names(d: Draft, entry: Entry, keep: int) -> tuple[str, ...]:
    """The variables of a history, which must be free; E0212 if not."""
    names = tuple(f"{entry.name}_{k}" for k in range(1, keep + 1))
    taken = next((n for n in names if n in d.places), None)
    if taken is not None:
        message = f"`{taken}` is {d.nouns[taken]}, and a variable of the history `{entry.name}`"
        d.c.sink.error("E0212", message, entry.key.span, "choose another name", declared_at(d.places[taken]))
        return ()
    d.places |= dict.fromkeys(names, entry.key.span)
    d.nouns |= dict.fromkeys(names, f"a variable of the history `{entry.name}`")
    return names


def with_histories(on: tuple[l0.Handler, ...], histories: tuple[History, ...]) -> tuple[l0.Handler, ...]:
    """The handlers of a neuron, in which histories move on first."""
    moved: dict[tuple[str, str], list[l0.Set]] = {}
    spans = {(h.phase, h.event): h.span for h in reversed(histories)}
    for h in histories:
        names = [s.name for s in h.states]
        values: list[Expr] = [h.value, *map(Ref, names)]
        sets = [l0.Set(name, value, h.span) for name, value in zip(names, values, strict=False)]
        moved.setdefault((h.phase, h.event), []).extend(reversed(sets))
    out = [replace(h, actions=(*moved.pop((h.phase, h.event), ()), *h.actions)) for h in on]
    return (*out, *(l0.Handler(*key, tuple(sets), spans[key]) for key, sets in moved.items()))
