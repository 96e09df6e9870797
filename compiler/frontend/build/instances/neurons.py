"""Sums over instances in events of neurons, `target = target + sum_instances(change)`, and states that all instances
share.

Assumes: the handlers of a neuron are being built, or have been.
Guarantees: what is summed reads states and variables of pools; shared states are assigned to in `on` alone, with values
that are equal in all instances.
Does not: read the other instances (frontend/build/instances/expand.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Ref, children, refs, shorten, substitute
from compiler.expr.inline import named
from compiler.expr.parse import Assign
from compiler.frontend.build.instances.pool_sums import AT_EVENTS, check_nested
from compiler.frontend.build.instances.shared import read_alone
from compiler.frontend.build.instances.sums import has_own_sums, take_sums
from compiler.frontend.build.shared.definition_builder import TIMES, Draft, assigned
from compiler.frontend.build.shared.scope import Checked, Scope, Wanted
from compiler.frontend.build.shared.self_names import HIDDEN, INSTANCE, PARAMS, SELF, as_written
from compiler.frontend.yaml.tree import Node
from compiler.ir.level2.synapse_values import INSTANCES, OVER_INSTANCES

_SAME = (HIDDEN | frozenset(SELF)) - {INSTANCE, PARAMS[INSTANCE]}
"""Names that have one value in all instances."""


def assigned_at_event(
    d: Draft, statement: Assign, scope: Scope, wanted: Wanted, node: Node, local: Collection[str]
) -> Checked | None:
    """The new value of a statement's target, in which reductions over instances and over neurons may stand. `local`:
    names of these statements."""
    if not has_own_sums(statement.value, scope, AT_EVENTS):
        return assigned(d, statement, scope, wanted, node)
    value, taken = take_sums(statement.value, node.span, scope, local, d, AT_EVENTS)
    if taken.wrong:
        return None
    found = taken.back(assigned(d, replace(statement, value=value), taken.scope(scope), wanted, node), d)
    if found is None or not check_nested(found.expr, d.c.sink, node.span):
        return None
    return found if _summed(found.expr, d, node.span) else None


def _summed(e: Expr, d: Draft, at: Span) -> bool:
    """Whether sums over instances read what other instances show; E0802 if not."""
    if isinstance(e, Call) and e.func in OVER_INSTANCES:
        for name in sorted(refs(e)):
            what = _unseen(name, d)
            if what is not None:
                message = f"`{shorten(as_written(e))}` reads `{shorten(as_written(Ref(name)))}`, {what}"
                help = "of other instances, states and variables of pools are read"
                d.c.sink.error("E0802", message, at, help)
                return False
        return True
    return all(_summed(k, d, at) for k in children(e))


def _unseen(name: str, d: Draft) -> str | None:
    """What `name` is, if it is not seen by other instances and may differ between them."""
    if name in {**d.states, **d.flags, **d.past} or name.startswith(("pool.", "population.")):
        return None
    if name in (*TIMES, *_SAME, *d.c.names.numbers):
        return None
    if name.partition(".")[0] in {p.name for p in d.c.phases}:
        return None
    known = {**dict.fromkeys(d.params, "a parameter"), **dict.fromkeys(d.inputs, "an input")}
    known |= dict.fromkeys(d.others, "a variable of another population")
    return known.get(
        name, "the number of the instance" if name in (INSTANCE, PARAMS[INSTANCE]) else "a named expression"
    )


def check_shared_states(n: l0.NeuronDef, d: Draft) -> None:
    """E0310 where equations, spikes or `update` of one instance would change a shared state, E0802 for a value that
    differs between instances."""
    shared, node = set(n.shared), d.node.get("shared")
    if not shared or node is None:
        return
    related = (Related("shared here", node.span),)
    changed = [(o.state, o.span) for o in n.dynamics] + [(s.target, s.span) for s in n.update]
    changed += [] if n.spike is None else [(s.target, s.span) for s in n.spike.reset]
    for name, at in changed:
        if name in shared:
            message = f"`{name}` is shared by all instances: it changes in `on` alone"
            help = "add up changes in another state, `change = change + ...`, and apply `sum_instances(change)` in `on`"
            d.c.sink.error("E0310", message, at, help, related)
    for handler in n.on:
        known = list(n.lets)
        for s in handler.actions:
            value = substitute(s.value, named(known))
            if s.target in shared:
                _check_equal(value, s, shared, d, related)
            elif s.target not in d.states:
                known.append(s)


def _check_equal(value: Expr, s: l0.Set, shared: set[str], d: Draft, related: tuple[Related, ...]) -> None:
    differs = sorted(x for x in read_alone(value) if x not in shared and _differs(x, d))
    if differs:
        name = shorten(as_written(Ref(differs[0])))
        message = f"`{s.target}` is shared by all instances, but `{name}` differs between them"
        help = None
        if name != INSTANCE:
            help = f"write `mean_{INSTANCES}({name})` or `sum_{INSTANCES}({name})`: that is one value for all"
        d.c.sink.error("E0802", message, s.span, help, related)


def _differs(name: str, d: Draft) -> bool:
    """Whether `name` may have another value in each instance; of parameters, populations say that (`check_drawn`)."""
    own = name in d.states or name in d.inputs or name in d.others or name in (INSTANCE, PARAMS[INSTANCE])
    return own or (name.startswith(("pool.", "population.", l0.hidden(""))) and name not in _SAME)


def check_drawn(p: l0.Population, at: Span, sink: Sink) -> None:
    """E0802 where a shared state of a population depends on what is drawn for each instance."""
    shared = set(p.neuron.shared)
    drawn = {n for n, v in (*p.params, *p.init) if n not in shared and isinstance(v, l0.Distribution | l0.Driven)}
    read: dict[str, set[str] | frozenset[str]] = {}
    for n, v in (*p.params, *p.init):
        if isinstance(v, l0.Formula) and n in shared:
            read[n] = refs(v.expr)
        elif isinstance(v, l0.Formula) and refs(v.expr) & drawn:
            drawn.add(n)
    for handler in p.neuron.on:
        for s in handler.actions:
            if s.target in shared:
                read[s.target] = read.get(s.target, frozenset()) | read_alone(s.value)
    for name, names in read.items():
        if differs := sorted(names & drawn):
            message = f"`{name}` of `{p.name}` is shared by all instances, but `{differs[0]}` is drawn for each of them"
            sink.error("E0802", message, p.span, None, (Related("there are copies", at),))
            return
