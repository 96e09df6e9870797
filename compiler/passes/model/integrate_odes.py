"""integrate_odes: a cell's ODEs become straight-line code for one step of length dt.

Assumes: a Cell with `dynamics`, expressions in canonical units (ms), random() nowhere inside `dynamics` or lets.
Guarantees: `dynamics` is empty afterwards and `step` is the whole step: integration, `update`, the spike test
(local `spiked`), resets and the refractory counter, all as unconditional assignments with conditional
expressions, so that the loop over neurons has no branch. Columns that depend only on params (propagators,
decays) are in `derived` and computed per row. The method chosen by `auto` is a Decision.
Does not: decide per population; per-neuron params (`array_params`) cannot be part of a propagator: as additive terms (a
current) they enter as constant states. As factors they leave `auto` and `exact` the solution of equations that are
driven by what decays by itself (inputs, states); else `auto` falls back to exponential Euler, and `exact` is refused.

Methods. exact: x' = A x + b solved by the matrix exponential (Rotter & Diesmann 1999). exponential_euler: each equation
is linear in its own variable, the others are held constant (Brette et al. 2007, section 2); t is the middle of the step
(the exponential midpoint rule: second order in t). euler, rk2 (midpoint), rk4 (classical): decaying inputs are advanced
exactly to each stage. Otherwise, in `dynamics`, `t` is the start of the step (plus the stage's fraction); in `update`
and `when`, `t` is its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.source import NOWHERE, Span
from compiler.core.symbols import Way, derived, model_name
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.diff import fading_rate, linear_in
from compiler.expr.inline import named, reads_through, too_deep, too_large
from compiler.expr.simplify import has_random, simplify
from compiler.passes.model.linear_system import (
    ZERO,
    Linear,
    Plan,
    decays,
    exact_plan,
    is_zero,
    linear_system,
    product,
    reads_table,
    response,
    total,
)
from compiler.passes.program.clock import DT, STEP_END, STEP_MIDDLE, STEP_START, counter
from compiler.passes.program.decisions import Decision

COUNTER = "refractory_left"
"""The int state that counts the steps a neuron still has to be refractory."""
PERIOD = "refractory_steps"
"""The column of its first value."""


def _inline(cell: l1.Cell) -> tuple[l0.Ode, ...]:
    """The ODEs with lets substituted: for analysis (the emitted text keeps lets as locals where it can)."""
    known = named(cell.lets)
    return tuple(l0.Ode(o.state, substitute(o.rhs, known), o.span) for o in cell.dynamics)


def _input_decays(cell: l1.Cell, half: bool = False) -> tuple[dict[str, Expr], tuple[l1.DerivedScalar, ...]]:
    """Each decaying input after the whole step, or after half of it."""
    after: dict[str, Expr] = {}
    columns: list[l1.DerivedScalar] = []
    for name, tau in decays(cell):
        step: Expr = product(Num(0.5), DT) if half else DT
        column = derived(name, Way.HALF if half else Way.DECAY)
        columns.append(l1.DerivedScalar(column, Call("exp", (-(step / tau),))))
        after[name] = product(Ref(column), Ref(name))
    return after, tuple(columns)


def _at_time(e: Expr, t: Expr) -> Expr:
    return substitute(e, {"t": t})


def _lets(cell: l1.Cell, bindings: dict[str, Expr], t: Expr, stage: int) -> tuple[list[l0.Set], dict[str, Expr]]:
    """The lets as locals of one stage, reading states through `bindings`; returns them and the new bindings."""
    out: list[l0.Set] = []
    seen = dict(bindings)
    used = reads_through((o.rhs for o in cell.dynamics), cell.lets)
    for let in cell.lets:
        if let.target not in used:
            continue
        local = let.target if stage == 1 else derived(let.target, Way.STAGE, str(stage))
        out.append(l0.Set(local, _at_time(substitute(let.value, seen), t), let.span))
        seen[let.target] = Ref(local)
    return out, seen


def _constant(cell: l1.Cell, e: Expr) -> bool:
    """Whether `e` has one value throughout a step."""
    moving = {"t", *(o.state for o in cell.dynamics), *(name for name, _ in decays(cell))}
    return not refs(e) & moving and not has_random(e) and not reads_table(e)


def _fading(cell: l1.Cell) -> dict[str, tuple[Expr, Expr]]:
    """Inputs and states that decay by themselves, x' = k x: k, and by which factor in a step."""
    found: dict[str, tuple[Expr, Expr]] = {n: (-(1.0 / tau), Ref(derived(n, Way.DECAY))) for n, tau in decays(cell)}
    held = cell.hold if cell.refractory is not None else ()
    for ode in _inline(cell):
        rate = fading_rate(ode.rhs, ode.state)
        if rate is not None and ode.state not in held and _constant(cell, rate):
            found[ode.state] = (rate, Call("exp", (product(rate, DT),)))
    return found


def _followed(cell: l1.Cell, plan: Plan) -> tuple[Plan, bool]:
    """`plan`, of exponential Euler, with what fades followed through the step, in place of held, where it drives an
    equation with constant coefficients: x' = a x + c y + b and y' = k y (linear_system.response). And whether all
    equations are solved so, without an error."""
    fading, after, spans, whole = _fading(cell), dict(plan.after), list[l0.Set](), True
    for ode in _inline(cell):
        drivers = [name for name in fading if name != ode.state]
        affine = linear_in(ode.rhs, (ode.state, *drivers))
        if affine is None or not all(_constant(cell, simplify(e)) for e in affine[0].values()):
            whole = False
            continue
        factors = {name: simplify(e) for name, e in affine[0].items()}
        rate, rest, state = factors.pop(ode.state, ZERO), simplify(affine[1]), Ref(ode.state)
        whole = whole and _constant(cell, rest)
        if all(is_zero(e) for e in factors.values()):
            continue
        span = Ref(derived(ode.state, Way.SPAN))
        spans.append(l0.Set(span.name, _at_time(product(DT, Call("exprel", (product(rate, DT),))), STEP_MIDDLE)))
        parts: list[Expr] = [state, product(total([product(rate, state), rest]), span)]
        for name, factor in factors.items():
            k, faded = fading[name]
            most = Call("max", (1.0 + product(rate, span), faded))
            parts.append(product(product(factor, Ref(name)), response(rate, k, most, DT)))
        after[ode.state] = _at_time(total(parts), STEP_MIDDLE)
    return Plan((*plan.statements, *spans), after, plan.derived), whole


def _exponential_euler(cell: l1.Cell) -> Plan | None:
    """x += (a x + b) dt exprel(a dt) for each equation x' = a x + b with the others held constant, `t` in the middle of
    the step."""
    statements, _ = _lets(cell, {}, STEP_MIDDLE, 1)
    after: dict[str, Expr] = {}
    let_map = named(cell.lets)
    reads = {let.target: reads_through((let.value,), cell.lets[:k]) for k, let in enumerate(cell.lets)}
    for ode in cell.dynamics:
        # A let that reads the variable itself must be inlined; others stay locals.
        own = {k: v for k, v in let_map.items() if ode.state in reads[k]}
        rhs = substitute(ode.rhs, own)
        affine = linear_in(rhs, (ode.state,))
        if affine is None or has_random(rhs):
            return None
        rate = _at_time(simplify(affine[0].get(ode.state, ZERO)), STEP_MIDDLE)
        constant = _at_time(simplify(affine[1]), STEP_MIDDLE)
        if is_zero(rate):
            after[ode.state] = Ref(ode.state) + product(DT, constant)
            continue
        slope = product(rate, Ref(ode.state)) + constant
        relative = product(DT, Call("exprel", (product(rate, DT),)))
        after[ode.state] = Ref(ode.state) + product(slope, relative)
    decayed, columns = _input_decays(cell)
    after.update(decayed)
    return Plan(tuple(statements), after, columns)


def _stage(cell: l1.Cell, number: int, bindings: dict[str, Expr], t: Expr) -> tuple[list[l0.Set], dict[str, Expr]]:
    """Slopes of one Runge-Kutta stage as locals."""
    statements, seen = _lets(cell, bindings, t, number)
    slopes: dict[str, Expr] = {}
    for ode in cell.dynamics:
        local = derived(ode.state, Way.SLOPE, str(number))
        statements.append(l0.Set(local, _at_time(substitute(ode.rhs, seen), t), ode.span))
        slopes[ode.state] = Ref(local)
    return statements, slopes


def _runge_kutta(cell: l1.Cell, order: int) -> Plan:
    """Explicit Euler (1), midpoint (2) or classical Runge-Kutta (4)."""
    full, whole = _input_decays(cell)
    columns = list(whole)
    statements, slope = _stage(cell, 1, {}, STEP_START)
    slope_of: dict[str, Expr] = dict(slope)
    if order > 1:
        half, half_columns = _input_decays(cell, True)
        used = reads_through((o.rhs for o in cell.dynamics), cell.lets)
        columns += [c for c in half_columns if any(c.name == derived(n, Way.HALF) for n in used)]
        end = STEP_START + DT
        halfway: Expr = product(Num(0.5), DT)
        plan: list[tuple[int, Expr, Expr, dict[str, Expr]]] = [(2, halfway, STEP_MIDDLE, half)]
        if order == 4:
            plan += [(3, halfway, STEP_MIDDLE, half), (4, DT, end, full)]
        others = (o for o in cell.dynamics if o.state not in cell.hold)
        read = reads_through((o.rhs for o in others), cell.lets)
        slopes = [slope]
        for number, length, t, inputs in plan:
            bindings: dict[str, Expr] = {n: e for n, e in inputs.items()}
            previous = slopes[-1]
            for ode in cell.dynamics:
                local = derived(ode.state, Way.STATE, str(number))
                value: Expr = Ref(ode.state) + product(length, previous[ode.state])
                if ode.state in read:  # a clamped state is constant to the states that it drives
                    value = _gated(cell, ode.state, value)
                statements.append(l0.Set(local, value, ode.span))
                bindings[ode.state] = Ref(local)
            more, slope = _stage(cell, number, bindings, t)
            statements += more
            slopes.append(slope)
        for ode in cell.dynamics:
            k = [s[ode.state] for s in slopes]
            slope_of[ode.state] = (
                k[1] if order == 2 else total([k[0], product(Num(2.0), k[1]), product(Num(2.0), k[2]), k[3]]) / 6.0
            )
    after: dict[str, Expr] = {ode.state: Ref(ode.state) + product(DT, slope_of[ode.state]) for ode in cell.dynamics}
    after.update(full)
    return Plan(tuple(statements), after, tuple(columns))


def _refuse(cell: l1.Cell, message: str, help: str) -> ModelError:
    return ModelError([Diagnostic("E0602", message, cell.span, help)])


NOISE = re.compile(r"_xi(_[A-Za-z0-9_]+)?")
"""White noise, as the frontend calls the parameters that hold it."""
ITO = "white noise whose factor reads states (the integral is Ito's), or asked for; first order in t"


def _of_order(cell: l1.Cell, odes: tuple[l0.Ode, ...]) -> str:
    """The order of the exponential method for equations that read `t`."""
    moving = {o.state for o in odes} | {name for name, _ in decays(cell)}
    held = sorted(set().union(*((refs(o.rhs) & moving) - {o.state} for o in odes)))
    text = "each equation is linear in its own variable; `t` is taken in the middle of the step: second order in t"
    if not held:
        return text
    names = ", ".join(f"`{model_name(n)}`" for n in held)
    return f"{text}, but first order in what equations read of each other ({names}); `method: rk2` or `rk4` is higher"


def _inexact(cell: l1.Cell, odes: tuple[l0.Ode, ...], arrays: tuple[str, ...]) -> str:
    """Why equations, each linear in its own variable, are not solved exactly: with the same coefficients for all
    neurons they might be."""
    alike = linear_system(cell, odes, ())
    own = set() if alike is None else set().union(*(refs(e) for row in alike.matrix for e in row)) & set(arrays)
    if not own:
        return "each equation is linear in its own variable, but the system is not linear"
    names = ", ".join(f"`{model_name(n)}`" for n in sorted(own))
    text = f"linear equations, but coefficients differ from neuron to neuron ({names}): first order"
    return f"{text} in what equations read of each other; `method: rk2` or `rk4` is higher"


def _refuse_large(cell: l1.Cell, what: str, values: Iterable[Expr], span: Span) -> None:
    """Raises ModelError E0307 where an expression is too large when it is expanded."""
    for value in values:
        if (how := too_large(value)) is not None:
            message = f"`{cell.name}`: {what} {how} when its named expressions are put in"
            raise ModelError([Diagnostic("E0307", message, cell.span if span is NOWHERE else span)])


def _solved(cell: l1.Cell, arrays: tuple[str, ...]) -> tuple[Linear | None, Plan | None, bool]:
    """The equations as one linear system, or else as a plan of exponential Euler, as far as the method asks for them,
    and whether that plan is the solution itself: all inline named expressions. Raises ModelError E0307 where these grow
    too large."""
    whole = False
    if cell.method not in (l0.Method.AUTO, l0.Method.EXACT, l0.Method.EXPONENTIAL_EULER):
        return None, None, whole
    odes = _inline(cell)
    for ode in odes:
        if (how := too_deep(ode.rhs)) is not None:
            message = f"`d{ode.state}/dt` {how} when its named expressions are put in"
            help = "`method: rk4` takes them as they stand"
            raise ModelError([Diagnostic("E0307", message, ode.span, help)])
    system = plan = None
    if cell.method is not l0.Method.EXPONENTIAL_EULER:
        system = linear_system(cell, odes, arrays)
        if system is not None:
            parts = (x for row in system.matrix for x in row)
            _refuse_large(cell, "a coefficient", (*parts, *system.offset), cell.span)
    if system is None:
        plan = _exponential_euler(cell)
        if plan is not None and cell.method is not l0.Method.EXPONENTIAL_EULER:
            plan, whole = _followed(cell, plan)
        if plan is not None:
            _refuse_large(cell, "a solution", plan.after.values(), cell.span)
    return system, plan, whole


def _choose(cell: l1.Cell, arrays: tuple[str, ...]) -> tuple[Plan, Decision]:
    system, plan, whole = _solved(cell, arrays)
    apart = "each equation is linear, with coefficients that differ from one to another"

    def decided(method: str, reason: str) -> Decision:
        return Decision("integrate_odes", cell.name, method, reason)

    match cell.method:
        case l0.Method.EXACT:
            if system is None and plan is not None and whole:
                return plan, decided("exact", "asked for")
            if system is None:
                raise _refuse(
                    cell,
                    f"`{cell.name}` cannot be integrated with `method: exact`",
                    "exact needs equations that are linear in the states, with coefficients that are the same "
                    "for every neuron of a population and do not depend on t; use `method: auto`",
                )
            return exact_plan(cell, system), decided("exact", "asked for")
        case l0.Method.EXPONENTIAL_EULER:
            if plan is None:
                raise _refuse(
                    cell,
                    f"`{cell.name}` cannot be integrated with `method: exponential_euler`",
                    "each equation must be linear in its own variable; use `method: auto` or rk4",
                )
            return plan, decided("exponential_euler", "asked for")
        case l0.Method.EULER | l0.Method.RK2 | l0.Method.RK4:
            order = {l0.Method.EULER: 1, l0.Method.RK2: 2, l0.Method.RK4: 4}[cell.method]
            noisy = cell.method is l0.Method.EULER and any(NOISE.fullmatch(model_name(p)) for p in cell.params)
            return _runge_kutta(cell, order), decided(cell.method.value, ITO if noisy else "asked for")
        case l0.Method.AUTO:
            if system is not None:
                return exact_plan(cell, system), decided("exact", "the equations are linear with constant coefficients")
            timed = any("t" in refs(ode.rhs) for ode in _inline(cell))
            if plan is not None and whole:
                return plan, decided("exact", apart)
            if plan is not None:
                odes = _inline(cell)
                reason = _of_order(cell, odes) if timed else _inexact(cell, odes, arrays)
                return plan, decided("exponential_euler", reason)
            return _runge_kutta(cell, 4), decided("rk4", "an equation is not linear in its own variable")


def _gated(cell: l1.Cell, target: str, value: Expr) -> Expr:
    """The new value of `target`, or the old one while it is held."""
    if cell.refractory is not None and target in cell.hold:
        return Cond(Ref("held"), Ref(target), value)
    return value


def integrate_odes(cell: l1.Cell, arrays: tuple[str, ...]) -> tuple[l1.Cell, Decision | None]:
    """The cell with `step` filled in, and the decision about the method (None without equations).

    Raises ModelError E0602 when the method asked for does not fit the equations.
    """
    decision: Decision | None = None
    plan = Plan((), {}, ())
    if cell.dynamics or decays(cell):
        plan, decision = _choose(cell, arrays)
    columns = list(plan.derived)
    step: list[l0.Set] = list(counter_locals(cell, _reads(cell)))
    if cell.refractory is not None:
        if not refs(cell.refractory) & set(arrays):
            columns.append(l1.DerivedScalar(PERIOD, _steps(cell.refractory)))
        step.append(l0.Set("held", Ref(COUNTER) > 0))
    step += [*plan.statements, *_stored(cell, plan.after)]
    integrated = len(step)
    now = _lets_now(cell)
    renamed: dict[str, Expr] = {let.target: Ref(derived(let.target, Way.NOW)) for let in now}

    def after(e: Expr) -> Expr:
        return _at_time(substitute(e, renamed), STEP_END)

    # A let reads earlier ones only.
    step += [l0.Set(derived(let.target, Way.NOW), after(let.value), let.span) for let in now]
    step += [l0.Set(x.target, _gated(cell, x.target, after(x.value)), x.span) for x in cell.update]
    updated = len(step)
    acted = [l0.Set(name, ZERO) for name, tau in cell.inputs if tau is None]  # the deliveries of the last step have
    spiking: list[l0.Set] = []
    if cell.when is not None:
        reset = [replace(x, value=after(x.value)) for x in cell.reset]
        spiking = _spiking(cell, after(cell.when), reset, arrays)
    spiking += [replace(x, value=_whole(cell, x.value, STEP_END)) for x in cell.after]
    tested = {x.target for x in acted} & set().union(*(refs(x.value) for x in spiking))
    step += [*spiking, *acted] if tested else [*acted, *spiking]
    done = replace(
        cell,
        dynamics=(),
        int_state=() if cell.refractory is None else (COUNTER,),
        derived=tuple(columns),
        step=tuple(step),
        integrated=integrated,
        updated=updated,
        pools=tuple(_timed_pool(cell, p) for p in cell.pools),
        on=tuple(_timed_event(cell, e) for e in cell.on),
    )
    return done, decision


def _stored(cell: l1.Cell, after: Mapping[str, Expr]) -> list[l0.Set]:
    """States after integration; all new values are computed from old ones before any is stored."""
    written = {ode.state: ode.span for ode in cell.dynamics}
    if len(after) == 1:
        return [l0.Set(name, _gated(cell, name, value), written.get(name, NOWHERE)) for name, value in after.items()]
    following = {name: derived(name, Way.NEXT) for name in after}
    computed = [l0.Set(following[name], value, written.get(name, NOWHERE)) for name, value in after.items()]
    return computed + [l0.Set(name, _gated(cell, name, Ref(following[name]))) for name in after]


def _lets_now(cell: l1.Cell) -> list[l0.Set]:
    """Lets that update or the spike test read; they are evaluated again, on the states after integration."""
    tested = () if cell.when is None else (cell.when,)
    used = reads_through((*tested, *(s.value for s in (*cell.update, *cell.reset))), cell.lets)
    return [let for let in cell.lets if let.target in used]


def _steps(time: Expr) -> Expr:
    """The whole number of steps of a time [ms]."""
    return Call("int", (Call("round", (time / DT,)),))


def _spiking(cell: l1.Cell, when: Expr, reset: Sequence[l0.Set], arrays: tuple[str, ...]) -> list[l0.Set]:
    """The spike test, the reset and the count of the refractory period, which may differ from neuron to neuron."""
    period = cell.refractory
    out = [l0.Set("spiked", when if period is None else ~Ref("held") & when, cell.when_span)]
    out += [replace(x, value=Cond(Ref("spiked"), x.value, Ref(x.target))) for x in reset]
    if period is not None:
        steps = _steps(period) if refs(period) & set(arrays) else Ref(PERIOD)
        less = Cond(Ref("held"), Ref(COUNTER) - 1, Num(0))
        out.append(l0.Set(COUNTER, Cond(Ref("spiked"), steps, less)))
    return out


# ------------------------------------------------------------------------------------ pools and events


def counter_locals(cell: l1.Cell, used: set[str]) -> tuple[l0.Set, ...]:
    """The counters of phases among `used` as locals."""
    return tuple(l0.Set(c.name, counter(c.of, c.every)) for c in cell.counters if c.name in used)


def _reads(cell: l1.Cell) -> set[str]:
    """Names that the equations of the neurons read."""
    tested = () if cell.when is None else (cell.when,)
    values = (s.value for s in (*cell.update, *cell.reset, *cell.after))
    return reads_through((*tested, *(o.rhs for o in cell.dynamics), *values), cell.lets)


def _whole(cell: l1.Cell, e: Expr, t: Expr) -> Expr:
    """`e` with the named expressions substituted, at the time `t`."""
    whole = substitute(e, named(cell.lets))
    _refuse_large(cell, "an expression that reads named ones", (whole,), e.span)
    return _at_time(whole, t)


def _timed_event(cell: l1.Cell, event: l1.AtEvent, of_pool: bool = False) -> l1.AtEvent:
    """Statements and reductions of an event at its time; those `of_pool` read no named expressions themselves."""
    t = STEP_START if event.start else STEP_END
    return replace(
        event,
        actions=tuple(
            l0.Set(s.target, _at_time(s.value, t) if of_pool else _whole(cell, s.value, t), s.span)
            for s in event.actions
        ),
        reductions=tuple((scope, replace(r, value=_whole(cell, r.value, t))) for scope, r in event.reductions),
    )


def _timed_pool(cell: l1.Cell, pool: l1.Pool) -> l1.Pool:
    return replace(
        pool,
        reductions=tuple(replace(r, value=_whole(cell, r.value, STEP_END)) for r in pool.reductions),
        update=tuple(l0.Set(s.target, _at_time(s.value, STEP_END), s.span) for s in pool.update),
        on=tuple(_timed_event(cell, e, True) for e in pool.on),
    )
