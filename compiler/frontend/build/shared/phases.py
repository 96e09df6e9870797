"""Phases of a run, and the event handlers of definitions.

Assumes: validated blocks.
Guarantees: trials and events are integer steps, events inside their trial; handlers refer to existing events, and
assign to valid targets.
Does not: depend on neurons or pools (callers pass scopes and targets).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

import compiler.frontend.build.shared.scope as scopes
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import Ref, refs
from compiler.expr.parse import Assign
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension
from compiler.frontend.build.shared.definition_builder import TIMES, Draft, Locals, assigned, wanted_of, with_local
from compiler.frontend.build.shared.readers import in_steps, members
from compiler.frontend.build.shared.values import Context, Step, entries_of, listed, shown
from compiler.frontend.language.control import PHASES
from compiler.frontend.schema.wording import allowed, suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node
from compiler.ir.level0.pool_sums import groups, renamed_outside

Actions = TypeVar("Actions")
Made = TypeVar("Made")

COUNTERS: Final = ("count", "step")
TAKEN: Final = frozenset({"pool", "population", "pre", "post"})
"""Reserved prefixes of dotted names."""


def build_phases(node: Node | None, step: Step | None, c: Context) -> tuple[l0.PhaseDef, ...]:
    """Everything under `phases`. A phase with an error remains declared."""
    out: list[l0.PhaseDef] = []
    for name, r, place in members(PHASES, node, c):
        if name in TAKEN:
            c.sink.error("E0107", f"`{name}.` has a meaning of its own, so no phase can be called `{name}`", place)
            continue
        every_node, every = r.get("every"), r.steps("every", step, f"`every` of `{name}`")
        events: list[tuple[str, int]] = []
        for event in entries_of(r.get("events")):
            at = in_steps(r.of("events"), event.value, c, f"the event `{event.name}`", step)
            if at is not None and every is not None and at > every and step is not None:
                message = f"the event `{event.name}` comes after the end of the trial"
                help = f"a trial of `{name}` lasts {shown(every * step.dt, TIME)}"
                related = () if every_node is None else (Related("as given here", every_node.span),)
                c.sink.error("E0106", message, event.value.span, help, related)
                at = None
            events.append((event.name, -1 if at is None else at))  # a mistaken time is neither a start nor later
        out.append(l0.PhaseDef(name, every or 1, tuple(events), place))
    return tuple(out)


def counters(c: Context) -> dict[str, Dimension | None]:
    """Phase counters readable in expressions: `trial.count`, `trial.step`."""
    return {f"{p.name}.{x}": DIMENSIONLESS for p in c.phases for x in COUNTERS}


Assigner = Callable[[Draft, Assign, scopes.Scope, scopes.Wanted, Node, Collection[str]], scopes.Checked | None]
"""The new value of a statement's target, in a scope with the local names of the statements before; None: an error."""


def _plainly(
    d: Draft, statement: Assign, scope: scopes.Scope, wanted: scopes.Wanted, node: Node, _: Collection[str]
) -> scopes.Checked | None:
    return assigned(d, statement, scope, wanted, node)


def build_handlers(
    d: Draft,
    node: Node | None,
    scope: scopes.Scope,
    targets: Mapping[str, Dimension | None],
    own: Mapping[str, str],
    assigner: Assigner = _plainly,
) -> tuple[l0.Handler, ...]:
    """`on: {trial.start: [...]}` in `scope`. `own`: names in this block -> names in the model."""
    return find_handlers(node, d.c, lambda items: build_actions(d, items, scope, targets, own, assigner), l0.Handler)


def find_handlers(
    node: Node | None,
    c: Context,
    actions: Callable[[tuple[Node, ...]], Actions],
    made: Callable[[str, str, Actions, Span], Made],
) -> tuple[Made, ...]:
    """One handler (phase, event, actions, place) per key of an `on` block; keys must be existing events."""
    out: list[Made] = []
    for entry in entries_of(node):
        found = find_event(entry.key, c)
        if found is None:
            continue
        phase, event = found
        out.append(made(phase.name, event, actions(listed(entry.value)), entry.key.span))
    return tuple(out)


def find_event(node: tree.Scalar, c: Context) -> tuple[l0.PhaseDef, str] | None:
    """The phase and the event of a name such as `trial.start`; None after an error."""
    phases = {p.name: p for p in c.phases}
    phase_name, _, event = node.text.partition(".")
    phase = phases.get(phase_name)
    if phase is None:
        help = did_you_mean(phase_name, phases)
        if help is None:
            example = f"phases: {{{phase_name}: {{every: 200 ms, events: {{{event or 'start'}: 0 ms}}}}}}"
            help = allowed("there are", phases) if phases else f"declare it: `{example}`"
        c.sink.error("E0201", f"there is no phase `{phase_name}`", node.span, help)
        return None
    events = dict(phase.events)
    if event not in events:
        related = declared_at(phase.span, "the phase")
        help = suggested(event, "it has", events, "it has no `events`")
        c.sink.error("E0201", f"phase `{phase_name}` has no event `{event}`", node.span, help, related)
        return None
    return phase, event


def find_moment(node: tree.Scalar, c: Context) -> tuple[int, int] | None:
    """The steps k % every == at that end at an event, as (every, at); None after an error."""
    found = find_event(node, c)
    if found is None:
        return None
    phase, event = found
    return phase.every, dict(phase.events)[event] % phase.every


def build_actions(
    d: Draft,
    items: tuple[Node, ...],
    scope: scopes.Scope,
    targets: Mapping[str, Dimension | None],
    own: Mapping[str, str],
    assigner: Assigner = _plainly,
) -> tuple[l0.Set, ...]:
    """Assignments to `targets` and to locals, in order, each reading the latest values."""
    out: list[l0.Set] = []
    names = dict(own)
    prefix = next((v.removesuffix(k) for k, v in own.items()), "")
    found_locals: Locals = {}
    for node in items:
        statement = scopes.read_statement(node, scope, d.c.sink)
        if statement is None:
            scope = scopes.unsure_of(node, scope)
            continue
        target, at = statement.target, statement.target_span
        known = target in targets or target in found_locals
        if not known and (scopes.is_taken(scope, target, node) or "." in target or target in TIMES):
            place = scope.places.get(target)
            near = did_you_mean(target, targets)
            help = near or (allowed("assignments here may change", targets) if targets else None)
            d.c.sink.error("E0310", f"`{target}` cannot be assigned to here", at, help, declared_at(place))
            continue
        if not known and statement.op != "=":
            scopes.no_value_yet(statement, scope, d.c.sink)
            continue
        wanted = wanted_of(target, targets, found_locals)
        found = assigner(d, statement, scope, wanted, node, found_locals.keys())
        if not known:
            names[target] = prefix + target
            scope = with_local(scope, found_locals, target, found, at)
        if found is not None:
            used = refs(found.expr)
            value = renamed_outside(found.expr, {a: Ref(b) for a, b in names.items() if a in used and a != b})
            out.append(l0.Set(names.get(target, target), value, statement.span))
    _check_locals(out, {names.get(name, name) for name in found_locals}, d.c.sink)
    return tuple(out)


def _check_locals(actions: Sequence[l0.Set], local: Collection[str], sink: Sink) -> None:
    """E0302 where a local is read after a statement that waits for all neurons. `local`: names in the model."""
    parts, assigned_at = groups(actions), dict[str, Span]()
    for number, part in enumerate(parts):
        own = set[str]()
        for s in part:
            gone = sorted(refs(s.value) & assigned_at.keys() - own)
            if number and gone:
                name = gone[0]
                message = f"`{name}` was assigned before a statement that waits for all neurons, and is gone after it"
                help = f"a value that is kept meanwhile is a state: `state: {{{name.rpartition('.')[2]}: 0}}`"
                waits = () if s is part[0] else (Related("it waits here", part[0].span),)
                sink.error("E0302", message, s.span, help, (Related("assigned here", assigned_at[gone[0]]), *waits))
                return
            if s.target in local:
                own.add(s.target)
        assigned_at |= {s.target: s.span for s in part if s.target in own}
