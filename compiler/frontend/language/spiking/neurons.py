"""Neurons, and the keys shared by all definitions with dynamics.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check names, dimensions or expressions.
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
import compiler.expr.keys.values as v
from compiler.frontend.language.control import ON, OTHERS, POOL, POPULATION_POOL

PARAMS: k.Kind = k.MapOf("parameter", k.OneOf((v.QUANTITY, v.PARAMETER)), example="{tau_m: 20 ms}")
"""Parameters of a definition, with their defaults."""

SETTINGS: k.Kind = k.MapOf("parameter", v.INITIAL, example="{tau_m: 10 ms}")
"""Values for the parameters of a definition."""

STATE = v.values_map("state variable", v.INITIAL, "{v: v_rest}")
STATEMENTS = v.statements()

DYNAMICS = k.MapOf(
    "differential equation",
    k.Expression("(v_rest - v) / tau_m"),
    key=r"^d[A-Za-z][A-Za-z0-9_]*/dt$",
    key_example="dv/dt",
    low=1,
    example="{dv/dt: (v_rest - v) / tau_m}",
)

LET = k.Field(
    "let",
    k.MapOf("named expression", k.Expression("0.32 * (v + 54 mV)"), example="{alpha: 0.32 * (v + 54 mV)}"),
    "Names for subexpressions, in order; each may use those before it. They are put in where they "
    "are used and cost no state.",
    example="let: {i_total: g_l * (e_l - v) + i_syn}",
)

METHOD = k.choice(
    "integration method",
    auto="`exact` where the equations are linear, `exponential_euler` where each is in its own "
    "variable, `rk4` otherwise.",
    exact="The solution itself; for linear equations, coupled ones too.",
    exponential_euler="Exact in a variable's own linear part, others held for the step, `t` in its middle.",
    euler="Forward Euler, first order.",
    rk2="The midpoint rule, second order.",
    rk4="The classical Runge-Kutta rule, fourth order.",
)

METHOD_KEY = k.Field(
    "method",
    METHOD,
    "How `dynamics` are integrated. The method that is taken is reported.",
    default="auto",
    example="method: rk4",
)

INPUT = k.Block(
    "input",
    (
        k.Field(
            "unit", k.Text("a unit", "mV"), "The unit of the accumulated value; without it the input is a bare number."
        ),
        k.Field(
            "decay",
            v.TIME,
            "The time constant with which the input decays by itself, exactly. Without it, the "
            "input holds what arrived in the last step and starts from zero again in each.",
            example="decay: tau_e",
        ),
        v.DESCRIPTION,
    ),
    doc="What projections deliver into; several may deliver into one input, and their contributions add up.",
    title="neuron_input",
    elsewhere={"tau": "`decay`", "time_constant": "`decay`", "units": "`unit`"},
    example="{unit: mV, decay: tau_e}",
)

_REFRACTORY: k.Kind = k.OneOf(
    (
        v.TIME,
        k.Block(
            "refractory period",
            (
                k.Field(
                    "time",
                    v.TIME,
                    "How long the period lasts, a whole number of steps. A parameter in it may differ from neuron to "
                    "neuron; where it is drawn, with `round: nearest`.",
                    example="time: 2 ms",
                ),
                k.Field(
                    "while",
                    k.Expression("v > -40 mV"),
                    "In place of a time, the condition that lets it go on: it ends when the condition does not hold "
                    "after `update`. Nothing is held.",
                ),
                k.Field(
                    "hold",
                    k.ListOf(k.Name("v"), example="[v]"),
                    "The state variables that keep their value during the period, `[]`: none. Without it, "
                    "those in the condition `when`.",
                ),
                v.ROUND,
            ),
            title="refractory",
            one_of=(("time", "while"),),
            needs=(("hold", ("time",)), ("round", ("time",))),
            example="{time: 2 ms, hold: [v]}",
        ),
    )
)

SPIKE = k.Block(
    "spike",
    (
        k.required("when", k.Expression("v > v_thresh"), "The condition for a spike, tested at the end of each step."),
        k.Field(
            "reset",
            STATEMENTS,
            "Assignments that run at a spike, in order. Without it, a neuron spikes in every step in which the "
            "condition holds, unless it is refractory; `[]` says that this is meant.",
        ),
        k.Field(
            "refractory",
            _REFRACTORY,
            "For this long after a spike the held state does not change and no spike is emitted; "
            "inputs keep decaying. A time, or `{time: ..., hold: [...]}` to say which variables "
            "are held, or a condition, `{while: v > -40 mV}`, as long as which no further spike is emitted.",
            default="0 ms",
            example="refractory: 2 ms",
        ),
    ),
    doc="When a neuron spikes and what happens then.",
    elsewhere=k.instead(
        "`when`: threshold condition if",
        "`refractory`: t_ref",
        "a smaller `dt`: spikes are at ends of steps; given times are rounded by `round: nearest`: precise",
    ),
    example="{when: v > v_thresh, reset: [v = v_reset]}",
)

NEURON_EVENT = k.Block(
    "neuron event",
    (
        k.required(
            "when",
            k.Expression("x > x_gate"),
            "The condition, tested for every neuron in every step when that for a spike is: after `update`, before "
            "resets.",
        ),
        k.Field(
            "do",
            STATEMENTS,
            "Assignments that run for the neurons for which it holds, in order, after resets.",
            example="do: [held = x]",
        ),
    ),
    doc="A condition, and what happens in each step in which it holds.",
    elsewhere={"condition": "`when`", "if": "`when`", "actions": "`do`", "reset": "`do`", "then": "`do`"},
    example="{when: x > x_gate, do: [held = x]}",
)

HISTORY = k.Block(
    "history",
    (
        k.required(
            "of", k.Expression("ca"), "What is kept: an expression of the neuron's parameters, states and inputs."
        ),
        k.required("at", v.EVENT, "The event of a phase at which it is taken.", example="at: bin.end"),
        k.required(
            "keep", k.Value("a whole number", "20", integer=True, low=1, high=1000), "How many values are kept."
        ),
    ),
    doc="The last values of an expression.",
    elsewhere={"every": "`at: phase.event`", "steps": "`keep`", "value": "`of`"},
)

_EQUATIONS_ELSEWHERE = k.instead(
    "`dynamics: {dv/dt: ...}`: equations eqs model ode derivatives",
    "`spike: {when: ...}`: threshold",
    "`spike: {reset: [...]}`: reset",
    "`spike: {refractory: ...}`: refractory",
    "`params`: parameters",
    "`state`: variables vars",
    "`update: [...]`: sim_code step",
    "`method`: integrator",
    "`events: {name: {when: ..., do: [...]}}`: run_on_event event",
)

NEURON = k.Block(
    "neuron",
    (
        v.USE,
        v.FOR,
        v.DESCRIPTION,
        k.Field(
            "params",
            PARAMS,
            "Parameters with their default values; a population may give others. They do not change during a run. "
            "A default may follow from parameters before it, also where they differ between neurons: `tau: C / g`.",
            example="params: {tau_m: 20 ms, v_rest: -65 mV}",
        ),
        k.Field(
            "state",
            STATE,
            "State variables, one of each per neuron, with their initial values; a population's "
            "`init` may give others. An expression may read parameters, and states before it, also "
            "where they differ from neuron to neuron: `u: b * v`. A value with a unit also says "
            "which dimension the variable has.",
        ),
        k.Field(
            "inputs",
            k.MapOf("input", INPUT, example="{ge: {unit: mV, decay: 5 ms}}"),
            "Named accumulators that projections deliver into.",
        ),
        LET,
        k.Field(
            "dynamics",
            DYNAMICS,
            "Differential equations, one for each variable that changes by itself. They are integrated over a step by "
            "`method`, before `update` runs. `xi` is Gaussian white noise of unit 1/sqrt(time), drawn for each neuron, "
            "the same process wherever it stands (`xi_name` is another one): `-v / tau + sigma * sqrt(2 / tau) * xi` "
            "has the standard deviation `sigma`. It is constant in each step; where its factor reads state variables, "
            "the method is `euler`, which gives Ito's integral. `drive(t)` reads a timed array, at the "
            "start of the step.",
            example="dynamics: {dv/dt: (v_rest - v + ge) / tau_m}",
        ),
        k.Field(
            "update",
            STATEMENTS,
            "Assignments that run once per step, in order, each reading the newest values.",
            example="update: [v = v + dt * (v_rest - v) / tau_m]",
        ),
        k.Field("spike", SPIKE, "When the neuron spikes, and what happens then.", example="spike: {when: v > 30 mV}"),
        k.Field(
            "events",
            k.MapOf("event", NEURON_EVENT, example="{gate: {when: x > 0.5, do: [held = x]}}"),
            "Events with conditions of their own, in order. Each is a variable too, with its name: 1 in a step in "
            "which the condition holds and 0 otherwise, for synapses (`pre.gate`), `others` and traces; the neuron's "
            "own equations read that of the step before.",
        ),
        k.Field(
            "history",
            k.MapOf("history", HISTORY, example="{tr: {of: ca, at: bin.end, keep: 20}}"),
            "Past values: the history `tr` is kept in the variables `tr_1`, the newest, to `tr_20`, 0 at first. "
            "`dot(pre.tr, post.tr)` adds up the products of two histories, and `dot(pre.tr, post.tr, 0.9 ** k)` those "
            "times an expression of `k`, 1 for the newest.",
        ),
        POOL,
        POPULATION_POOL,
        OTHERS,
        ON,
        k.Field(
            "shared",
            k.ListOf(k.Reference("state variable", "target"), example="[target]"),
            "The variables that have one value in all instances of the network (`simulate: {instances: 8}`), beside "
            "shared weights: initial values are drawn once, and events of `on` alone assign to them, what is equal in "
            "all instances: `target = target + sum_instances(change)`.",
        ),
        k.Field(
            "source",
            k.choice(
                "source",
                spike_times="Spikes at given times, as `library/neurons/spike_times` has them. The neuron declares the "
                "parameters `times`, `indices` and, for `round: nearest`, `round`.",
            ),
            "For neurons that have no equations: where their spikes come from.",
        ),
        METHOD_KEY,
    ),
    doc="A neuron model: the state of one neuron, how it changes, and when it spikes.",
    elsewhere=_EQUATIONS_ELSEWHERE,
    open_with=("use",),
    example="{state: {v: -65 mV}, dynamics: {dv/dt: ...}}",
)

NEURONS = k.MapOf("neuron", NEURON, v.TEMPLATE_KEY, "lif", example="{lif: {state: {v: -65 mV}, ...}}")
