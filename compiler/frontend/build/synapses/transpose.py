"""`w = transpose(forward.w)`: whether the other projection has the transposed connectivity.

Assumes: all projections have been built.
Guarantees: the variable exists, has the same unit, and every synapse has its counterpart in every realization; the
source is not changed by or after another `transpose`, so that its value does not depend on the order of projections.
Does not: copy anything (passes/projections/synapse_transpose.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect import Form, rule_of
from compiler.core.diagnostics import Related, declared_at
from compiler.expr.units import describe, parse_unit
from compiler.frontend.build.shared.values import Context
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml.tree import Scalar

MIRROR: Final = "mirror"
"""The projection that the key `mirror` of a projection names, in `transpose(mirror.w)`."""


def mirrored(
    p: l0.Projection,
    mirror: Scalar | None,
    named: tuple[str, ...],
    built: Mapping[str, l0.Projection | None],
    c: Context,
) -> l0.Projection:
    """`p` with the projection that it names as its `mirror` in the statements of its synapse."""
    synapse = p.synapse
    if synapse is None:
        return p  # refused: `mirror` needs a synapse
    used = [a for h in synapse.on for a in h.actions if isinstance(a, l0.Transpose) and a.projection == MIRROR]
    related = declared_at(synapse.span, f"the synapse `{synapse.name}`")
    if mirror is None:
        if used and MIRROR not in named:
            message = f"`{p.name}` does not say which projection is the `mirror` of its synapse"
            ends = {(m.target, m.source) for m in p.members}
            backwards = (n for n, o in built.items() if o and {(m.source, m.target) for m in o.members} == ends)
            other = next(backwards, None) or next((n for n in named if n != p.name), "forward")
            c.sink.error("E0103", message, p.span, f"write `mirror: {other}`", related)
        return p
    if not used:
        message = f"`mirror` has no effect: nothing in the synapse `{synapse.name}` reads `transpose(mirror. ...)`"
        c.sink.error("E0108", message, mirror.span, "leave it out", related)
        return p
    if mirror.text not in named:
        help = suggested(mirror.text, "they are", named)
        c.sink.error("E0201", f"there is no projection `{mirror.text}`", mirror.span, help)
        return p

    def of_mirror(action: l0.Action) -> l0.Action:
        return replace(action, projection=mirror.text) if action in used else action

    on = tuple(replace(h, actions=tuple(of_mirror(a) for a in h.actions)) for h in synapse.on)
    return replace(p, synapse=replace(synapse, on=on))


def check_transposes(projections: tuple[l0.Projection, ...], named: tuple[str, ...], c: Context) -> None:
    """Reports every invalid `transpose`. `named`: the names of all projections, including those with an error."""
    known = {p.name: p for p in projections}
    for p in projections:
        for handler in () if p.synapse is None else p.synapse.on:
            for action in handler.actions:
                if isinstance(action, l0.Transpose):
                    _check(p, handler, action, known.get(action.projection), named, c)


def _check(
    p: l0.Projection,
    handler: l0.SynapseHandler,
    action: l0.Transpose,
    other: l0.Projection | None,
    named: tuple[str, ...],
    c: Context,
) -> None:
    user = Related(f"the projection `{p.name}` uses the synapse here", p.span)
    if other is None:
        if action.projection not in (*named, MIRROR):  # a mirror that is not named has its own error
            help = suggested(action.projection, "they are", named)
            c.sink.error("E0201", f"there is no projection `{action.projection}`", action.span, help)
        return
    related = (user, Related(f"`{other.name}` is declared here", other.span))
    wrong = _variable(p, action, other) or _order(handler, action, other, c) or _pairs(p, other)
    if wrong is not None:
        code, message, advice = wrong
        c.sink.error(code, message, action.span, advice, related)


Wrong = tuple[str, str, str | None]


def _variable(p: l0.Projection, action: l0.Transpose, other: l0.Projection) -> Wrong | None:
    """The problem with the variable, if any."""
    mine, theirs = p.synapse, other.synapse
    shown = f"`{other.name}.{action.variable}`"
    assert mine is not None
    if theirs is None:
        return "E0802", f"the synapses of `{other.name}` have no variables", "give them a `synapse` with `state`"
    units = {s.name: s.unit for s in theirs.state}
    if action.variable not in units:
        help = suggested(action.variable, "they are", units)
        return "E0201", f"the synapse `{theirs.name}` has no state variable `{action.variable}`", help
    unit = next(s.unit for s in mine.state if s.name == action.target)
    if unit != units[action.variable]:
        found, wanted = (parse_unit(u) for u in (units[action.variable], unit))
        assert found is not None
        assert wanted is not None
        message = f"`{action.target}` is {describe(wanted[0])}, but {shown} is {describe(found[0])}"
        return "E0401", message, None
    if theirs.event_driven and action.variable in {o.state for o in theirs.dynamics}:
        message = f"{shown} is event-driven: it is brought up to date for spikes only"
        return "E0802", message, "leave `event_driven` out: then it is integrated in every step"
    if action.target in (mine.shared or ()) and action.variable not in (theirs.shared or ()):
        message = f"`{action.target}` is shared by all instances, but {shown} differs between them"
        return "E0802", message, f"write `shared: [{action.variable}]` in the synapse `{theirs.name}`, too"
    return None


def _order(handler: l0.SynapseHandler, action: l0.Transpose, other: l0.Projection, c: Context) -> Wrong | None:
    """Whether the variable changes during this transposition."""
    events = {p.name: dict(p.events) for p in c.phases}
    at = events[handler.phase][handler.event]
    for their in () if other.synapse is None else other.synapse.on:
        if their.phase == handler.phase and events[their.phase][their.event] != at:
            continue
        first = next((k for k, a in enumerate(their.actions) if isinstance(a, l0.Transpose)), len(their.actions))
        if action.variable in {a.target for a in their.actions[first:] if isinstance(a, l0.Set | l0.Transpose)}:
            what = f"`{other.name}.{action.variable}` is changed by a `transpose` or after one"
            message = f"{what}, so that its value here depends on the order"
            return "E0802", message, "transpose at another event of the phase"
    return None


def _pairs(p: l0.Projection, other: l0.Projection) -> Wrong | None:
    """Why synapses may lack a counterpart."""
    if p.rule != other.rule or not rule_of(p).reversible:
        message = f"`{other.name}` ({other.rule}) may not have the pairs of `{p.name}` ({p.rule}), the other way round"
        return "E0802", message, "both are `all_to_all`, or `one_to_one`, or `pairs` that are given"
    if any(m.parts != (None, None) for m in (*p.members, *other.members)):
        return "E0802", f"`{p.name}` and `{other.name}` must connect whole populations for `transpose`", None
    theirs = {(m.source, m.target): m for m in other.members}
    for m in p.members:
        back = theirs.get((m.target, m.source))
        if back is None:
            message = f"`{p.name}` connects `{m.source}` to `{m.target}`, but `{other.name}` does not connect "
            return "E0802", message + f"`{m.target}` to `{m.source}`", None
        if not _same(p, m, other, back):
            what = "pairs" if rule_of(p).form is Form.GIVEN else "autapses"
            message = f"the {what} of `{p.name}` are not those of `{other.name}`, the other way round"
            return "E0802", message, None
    return None


def _same(p: l0.Projection, m: l0.Member, other: l0.Projection, back: l0.Member) -> bool:
    form = rule_of(p).form
    if form is Form.GIVEN:
        here = p.pair_lists[m.pairs or 0]
        return sorted((j, i) for i, j in here) == sorted(other.pair_lists[back.pairs or 0])
    holes = {dict(x.args).get("autapses", 1) for x in (m, back)}
    return form is Form.DIAGONAL or m.source != m.target or len(holes) == 1
