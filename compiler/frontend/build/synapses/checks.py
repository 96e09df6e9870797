"""Checks of synapse definitions beyond types and dimensions: event-driven equations, conditions of events and of
`form`, states that instances share.

Assumes: expressions are checked.
Guarantees: equations of an event-driven synapse have an exact solution for any elapsed time, and nothing reads their
variables between events; the condition of an event is testable once per neuron, that of `form` at a vacant place.
Shared states have no equations, and are assigned to in `update` and `on` only, with values that are equal in all
instances.
Does not: check names or dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink, declared_at
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Call, Expr, children, refs, substitute
from compiler.expr.ast import Ref as Name
from compiler.expr.diff import driven_by
from compiler.expr.functions import CONSTANTS
from compiler.expr.inline import named, reads_through, too_large
from compiler.frontend.build.instances.shared import read_alone
from compiler.frontend.build.synapses.statements import ENDS, SynapseDraft
from compiler.frontend.yaml import tree
from compiler.ir.level2.synapse_values import COUNTED, INSTANCES, SUMS, read_delayed


def check_event(when: Expr, end: str, at: Span, d: SynapseDraft) -> bool:
    """Whether a condition (named expressions inlined) depends only on one neuron of `end`; reports it if not."""
    side = "source" if end == "pre" else "target"
    for ref in _refs_in_order(when):
        name = ref.name
        span = at if ref.span is NOWHERE else ref.span
        where, dot, _ = name.partition(".")
        help: str | None = f"it is tested once per {side} neuron, in every step; move the test into `do`"
        if dot and where not in ENDS:
            continue  # a counter of a phase, or of another population
        if dot and where != end:
            other = "target" if end == "pre" else "source"
            message = f"the condition is about the {side} neuron, but `{name}` is of the {other}"
            help = f"write `of: {where}`"
        elif not dot and name in COUNTED and name not in d.places and COUNTED[name] != end:
            message = f"the condition is about the {side} neuron, but `{name}` is a number of synapses of the other end"
        elif not dot and name in d.states:
            message = f"the condition is about one neuron, but `{name}` differs from synapse to synapse"
        else:
            continue
        d.c.sink.error("E0302", message, span, help)
        return False
    return True


def _refs_in_order(e: Expr) -> Iterator[Name]:
    if isinstance(e, Name):
        yield e
    for k in children(e):
        yield from _refs_in_order(k)


# ----------------------------------------------------------------------------------- event-driven


def check_event_driven(s: l0.SynapseDef, flag: Span, node: tree.Mapping, d: SynapseDraft) -> None:
    """E0602 where the equations have no exact solution on their own, E0802 where their variables are needed in every
    step."""
    sink = d.c.sink
    if s.method not in (l0.Method.AUTO, l0.Method.EXACT):
        place = node.get("method")
        message = f"event-driven equations are solved exactly, not by `{s.method}`"
        sink.error("E0602", message, flag if place is None else place.span, "leave `method` out, or `event_driven`")
    if not s.on_pre and not s.on_post:
        message = "without `on_pre` and `on_post` there is no event that could drive the equations"
        sink.error("E0802", message, flag, "leave `event_driven` out")
    driven = {ode.state for ode in s.dynamics}
    given = {o.state: with_lets(o.rhs, s.lets, f"`d{o.state}/dt`", sink) for o in s.dynamics}
    solved = driven_by({state: rhs for state, rhs in given.items() if rhs is not None})
    for ode in s.dynamics:
        if given[ode.state] is None:
            continue
        found = solved.get(ode.state)
        at = ode.rhs.span if ode.rhs.span is not NOWHERE else ode.span
        if found is None:
            message = f"`event_driven` needs equations that are linear in their own variable; `d{ode.state}/dt` is not"
            sink.error("E0602", message, at, "leave `event_driven` out: then it is integrated in every step")
            continue
        allowed = {*d.params, *d.c.names.scope.kinds, *CONSTANTS} - d.states.keys() - {"t", "dt"}
        allowed -= {let.target for let in s.lets}
        others = set().union(*(refs(c) for c in found[0].values())) | refs(found[1])
        wrong = sorted(others - allowed)
        if wrong:
            what = "another variable" if wrong[0] in d.states else "not a parameter"
            message = f"`event_driven` needs constant coefficients, but `{wrong[0]}` in `d{ode.state}/dt` is {what}"
            help = "only the variable itself, parameters and variables that decay by themselves may stand there; "
            help += "or leave `event_driven` out"
            sink.error("E0602", message, at, help)
    _check_readers(s, driven, d)


def _check_readers(s: l0.SynapseDef, driven: set[str], d: SynapseDraft) -> None:
    """E0802 for statements that run in steps without an event of the synapse and use a variable that is stale then."""
    places = [("update", a) for a in s.update] + [(f"events: {e.name}", a) for e in s.events for a in e.actions]
    places += [(f"on: {h.phase}.{h.event}", a) for h in s.on for a in h.actions]
    for place, action in places:
        used = reads_through(l0.values_of([action]), s.lets) & driven
        if isinstance(action, l0.Set | l0.Transpose) and action.target in driven:
            used.add(action.target)
        if used:
            name = min(used)
            message = f"`{name}` is event-driven: it is brought up to date for spikes only, not for `{place}`"
            help = "leave `event_driven` out: then it is integrated in every step"
            d.c.sink.error("E0802", message, action.span, help)
            return


def with_lets(e: Expr, lets: tuple[l0.Set, ...], what: str, sink: Sink) -> Expr | None:
    """`e` with named expressions inlined; None with an error (E0307) where `what` becomes too large."""
    whole = substitute(e, named(lets))
    if (how := too_large(whole)) is None:
        return whole
    sink.error("E0307", f"{what} {how} when its named expressions are put in", e.span)
    return None


# ------------------------------------------------------------------------------------------ uses


def reads(s: l0.SynapseDef) -> set[str]:
    """Every name that the synapse's own equations and statements read."""
    return set().union(*(refs(v) for v in s.values))


def reads_delayed(s: l0.SynapseDef, end: str) -> bool:
    """Whether they read a delayed variable of that end."""
    return any(name.startswith(f"{end}.") for v in s.values for name in read_delayed(v))


def end_reads(end: l0.EndDef | None) -> set[str]:
    """Every name that a `pre:` or `post:` block reads."""
    if end is None:
        return set()
    values: Iterable[Expr] = (
        *end.values,
        *(x.init.expr for x in end.state if isinstance(x.init, l0.Formula)),
    )
    return set().union(*(refs(v) for v in values))


def takes_spikes(s: l0.SynapseDef, end: str) -> bool:
    """Whether spikes of that end have an effect: run statements, change a trace, or are read as times."""
    block, statements = (s.pre, s.on_pre) if end == "pre" else (s.post, s.on_post)
    of_a_block = block is not None and bool(block.on_spike)
    return bool(statements) or of_a_block or any(f"{end}.{n}" in reads(s) for n in l0.times_of(l0.SPIKE))


def delayed_events(s: l0.SynapseDef, end: str) -> tuple[l0.SynapseEvent, ...]:
    """The events of that end whose statements run with the delay."""
    return tuple(e for e in s.events if e.end == end and e.delayed)


def late_times(s: l0.SynapseDef, end: str) -> list[str]:
    """The times of spikes and events of that end that are read, and depend on when these arrive."""
    late = (l0.SPIKE, *(e.name for e in delayed_events(s, end)))
    return sorted(name for e in late for n in l0.times_of(e) if (name := f"{end}.{n}") in reads(s))


def without_a_dot(e: Expr) -> set[str]:
    """The names of an expression that are the synapse's own."""
    return {n for n in refs(e) if "." not in n}


def check_timed(s: l0.SynapseDef, d: SynapseDraft) -> None:
    """E0801 for a timed array in an expression of a synapse."""
    arrays = {l0.hidden(n): n for n in d.c.names.scope.timed}
    for ref in (r for value in s.expressions for r in _refs_in_order(value)):
        if ref.name in arrays:
            message = f"the timed array `{arrays[ref.name]}` in a synapse is not supported yet"
            help = "read it in an equation of the neuron, and that variable here"
            d.c.sink.error("E0801", message, ref.span, help)
            return


def check_formed(s: l0.SynapseDef, d: SynapseDraft) -> None:
    """E0302 for a condition of `form` that reads variables of an existing synapse."""
    for action in s.actions:
        if isinstance(action, l0.Rewire) and action.how == "form":
            end = "post" if action.keep == "indegree" else "pre"
            whole = with_lets(action.value, s.lets, "the condition of `form`", d.c.sink)
            wrong = sorted(_of_a_synapse(whole, end, d)) if whole is not None else ()
            if wrong:
                message = f"`form` tests vacant places, which have no `{wrong[0]}`"
                side = "source" if end == "pre" else "target"
                help = f"it may read the {side} (`{end}.v`), sums over its synapses (`sum_{end}(1)`), and draw"
                d.c.sink.error("E0302", message, action.span, help, declared_at(d.places.get(wrong[0])))


def _of_a_synapse(e: Expr, end: str, d: SynapseDraft) -> set[str]:
    """The names of variables of a synapse or its other end."""
    if isinstance(e, Call) and e.func in SUMS:
        return set() if SUMS[e.func][1] == end else {e.func}
    kids = children(e)
    if kids:
        return set().union(*(_of_a_synapse(k, end, d) for k in kids))
    return {n for n in refs(e) if n in d.states or (n.partition(".")[0] in ENDS and n.partition(".")[0] != end)}


def check_shared(s: l0.SynapseDef, d: SynapseDraft) -> None:
    """E0310 where the spikes or the equations of one instance would change a shared state, E0802 for a value that
    differs between instances."""
    shared = set(s.shared or ())
    node = d.node.get("shared")
    if not shared or node is None:
        return
    related = (Related("shared here", node.span),)
    for ode in s.dynamics:
        if ode.state in shared:
            message = f"`{ode.state}` is shared by all instances, and follows no equation"
            help = f"change it in `update`: `{ode.state} = ...`"
            d.c.sink.error("E0310", message, _key_of(d.node, ode.state, ode.span), help, related)
    for x in s.state:
        if x.name in shared and isinstance(x.init, l0.Formula):
            others = sorted((refs(x.init.expr) & d.states.keys()) - shared)
            if others:
                message = f"`{x.name}` is shared by all instances, but `{others[0]}` differs between them"
                d.c.sink.error("E0802", message, x.init.span, None, related)
    of_one: list[tuple[l0.Action, ...]] = [s.on_pre, s.on_post, *(e.actions for e in s.events)]
    for action in (a for actions in of_one for a in actions):
        if isinstance(action, l0.Set) and action.target in shared:
            message = f"`{action.target}` is shared by all instances: a spike of one of them cannot change it"
            help = "add up the changes in another state, `dw = dw + ...`, and apply `mean_instances(dw)` in `on`"
            d.c.sink.error("E0310", message, action.span, help, related)
    of_all = [s.update, *(h.actions for h in s.on)]
    for action in (a for actions in of_all for a in actions):
        if not isinstance(action, l0.Set) or action.target not in shared:
            continue
        whole = with_lets(action.value, s.lets, f"`{action.target}`", d.c.sink)
        alone = read_alone(whole) if whole is not None else ()
        differs = sorted(n for n in alone if n not in shared and _of_one(n, d))
        if differs:
            name = differs[0]
            message = f"`{action.target}` is shared by all instances, but `{name}` differs between them"
            what = f"`mean_{INSTANCES}({name})` or `sum_{INSTANCES}({name})`"
            d.c.sink.error("E0802", message, action.span, f"write {what}: that is one value for all", related)


def _key_of(node: tree.Mapping, state: str, otherwise: Span) -> Span:
    """The span of `dw/dt`."""
    block = node.get("dynamics")
    entries = block.entries if isinstance(block, tree.Mapping) else ()
    return next((e.key.span for e in entries if e.key.text == f"d{state}/dt"), otherwise)


def _of_one(name: str, d: SynapseDraft) -> bool:
    """Whether `name` is a state of the synapse, of one of its neurons, or of another population."""
    end, dot, _ = name.partition(".")
    return name in d.states or (dot != "" and end in ENDS) or name in d.others
