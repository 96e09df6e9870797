"""Synapses with state of their own: plasticity rules, short-term dynamics, graded and gap-junction coupling.

Assumes: expr/keys/kinds.py, expr/keys/values.py, neurons.py (keys shared by all definitions with dynamics).
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: resolve neurons or projections; check names, dimensions or expressions.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.expr.keys.kinds as k
from compiler.core.resources import library_names
from compiler.expr.keys.values import (
    DEFINITION,
    DESCRIPTION,
    FOR,
    QUANTITY,
    TEMPLATE_KEY,
    USE,
    handlers,
    statements,
    values_map,
)
from compiler.frontend.language.control import SYNAPSE_ON, SYNAPSE_OTHERS
from compiler.frontend.language.spiking.neurons import DYNAMICS, INPUT, LET, METHOD_KEY, PARAMS, STATE

LIBRARY_SYNAPSES = library_names("synapses")
"""Which editors offer."""

SYNAPSE_REFERENCE = k.Reference(
    "synapse",
    "library/synapses/stdp_additive",
    DEFINITION,
    tuple(f"library/synapses/{name}" for name in LIBRARY_SYNAPSES),
)

_ASSIGNMENTS = statements("x = x + 1", "[x = x + 1]")
_ACTIONS = statements("w = w + pre.x", "[deliver(w), w = w + post.y]")
_DELIVER = (
    "`deliver(w)` adds to the input that the projection's `deliver: {into: ...}` names, `deliver(w, post.ge)` to an "
    "input of the target, `deliver(w, pre.ge)` to one of the source."
)

_ELSEWHERE_OF_TRACES = k.instead(
    "`on_spike`: on_pre on_post spike pre_spike_code post_spike_code",
    "`dynamics: {dx/dt: ...}`: equations model",
    "`params` of the synapse: params",
)
_TRACE_FIELDS = (
    k.Field(
        "dynamics",
        DYNAMICS,
        "Their equations, integrated in every step. They read these variables and the synapse's parameters.",
        example="dynamics: {dx/dt: -x / tau_pre}",
    ),
    k.Field(
        "update",
        _ASSIGNMENTS,
        "Assignments that run once per step, after `dynamics`.",
        example="update: [x = x * decay]",
    ),
    k.Field(
        "on_spike",
        _ASSIGNMENTS,
        "Runs at a spike of that neuron, after the synapses' `on_pre` (or `on_post`) have read the variables.",
        example="on_spike: [x = x + a_pre]",
    ),
    k.Field(
        "on",
        handlers(_ASSIGNMENTS, "trial.end", "[x = 0]"),
        "Assignments that run at events of `phases`, after all that synapses do at that event.",
    ),
)
_TRACE_STATE = k.required(
    "state",
    values_map("state variable", QUANTITY, "{x: 0}"),
    "Variables, one of each per neuron, with their initial values.",
)

_TRACE = k.Block(
    "trace",
    (_TRACE_STATE, *_TRACE_FIELDS),
    doc="Variables that are held once per neuron and shared by all of its synapses of one projection.",
    title="synapse_trace",
    elsewhere=_ELSEWHERE_OF_TRACES
    | {
        "inputs": "`post: {inputs: {g: {decay: tau}}}`: what is delivered is held at the target",
        "deliver": "`post: {deliver: g}`: what is delivered in every step is held at the target",
    },
    example="{state: {x: 0}, dynamics: {dx/dt: -x / tau}}",
)

_POST = k.Block(
    "target",
    (
        replace(_TRACE_STATE, required=False),
        k.Field(
            "inputs",
            k.MapOf("input", INPUT, example="{g: {unit: nS, decay: tau_g}}"),
            "Inputs of the projection's own, one of each per target neuron: `deliver(w, post.g)` of its synapses adds "
            "to them, and what is delivered in a step is in them from the end of that step on.",
        ),
        *_TRACE_FIELDS,
        k.Field(
            "deliver",
            k.OneOf(
                (
                    k.Expression("g * (e_rev - post.v)"),
                    k.MapOf("input", k.Expression("g"), example="{ge: g, ie: g * e_rev}"),
                )
            ),
            "What is added in every step, at its end, to the input that the projection's `deliver: {into: ...}` names, "
            "or to several inputs of the target. It reads these variables, the synapse's parameters, and the target's "
            "variables (`post.v`).",
        ),
    ),
    doc="What one projection holds once per target neuron: traces, shared by all of its synapses there, and "
    "conductances of its own.",
    title="synapse_target",
    at_least_one=("state", "inputs"),
    elsewhere=_ELSEWHERE_OF_TRACES
    | k.instead(
        "`deliver: g * (e_rev - post.v)`: apply_input apply_input_code",
        "`inputs: {g: {decay: tau}}`: inSyn decay_code decay",
    ),
    example="{inputs: {g: {decay: tau_g}}, deliver: g}",
)

SYNAPSE_EVENT = k.Block(
    "synapse event",
    (
        k.required(
            "of",
            k.choice(
                "end", pre="The condition is about the source neuron.", post="The condition is about the target neuron."
            ),
            "Which neuron the condition is about.",
        ),
        k.required(
            "when",
            k.Expression("pre.v > -20 mV"),
            "The condition, tested for every such neuron in every step, after the neurons have run. It reads that "
            "neuron's variables and parameters as `pre.v` (or `post.v`), variables of `pre` (or `post`), and "
            "parameters of the synapse.",
            example="when: pre.v > v_release",
        ),
        k.required(
            "do",
            k.ListOf(k.Statement("deliver(w)"), low=1, example="[deliver(w)]"),
            "Statements that run at all synapses of a neuron for which the condition holds, after `on_pre` and "
            "`on_post`. " + _DELIVER,
            example="do: [deliver(w * (pre.v - v_release))]",
        ),
        k.switch(
            "delayed",
            "`do` runs `delay` after the condition held (`of: post`: `back_delay`), as a spike would arrive. The times "
            "of an event `release`, `pre.last_release` and `pre.previous_release`, are those at which `do` ran.",
        ),
    ),
    doc="A spike-like event with a condition of its own.",
    elsewhere=k.instead(
        "`when`: condition threshold if event_threshold_condition_code",
        "`do`: then code statements",
        "`of`: end",
        "`delayed: true`, and `delay` of the projection: delay",
    ),
    example="{of: pre, when: pre.v > v_release, do: [deliver(w)]}",
)

_ELSEWHERE = k.instead(
    "`params`, `state` and `dynamics`: model",
    "`dynamics: {dw/dt: ...}`: equations eqs ode",
    "`events: {name: {of: pre, when: ..., do: [...]}}`: on_event event_code pre_event_syn_code "
    "event_threshold_condition_code",
    "`events`: event",
    "`delay` of the projection: delay",
    "`state: {w: ...}`, or `params: {w: ...}` where it does not change: weight",
    "`shared: [w]`: var_access",
    "`on: {trial.end: [w = transpose(forward.w)]}`: custom_update_transpose",
    "`on: {trial.end: [...]}`: custom_update",
    "`on_pre: [...]`: sim_code pre_spike_syn_code",
    "`on_post: [...]`: learn_post_code post_learn postLearn post_spike_syn_code",
    "`update: [...]`: synapse_dynamics_code synapseDynamics step",
    "`pre: {on_spike: [...]}`: pre_spike_code",
    "`post: {on_spike: [...]}`: post_spike_code",
    "`pre: {dynamics: ...}`: pre_dynamics_code",
    "`post: {dynamics: ...}`: post_dynamics_code",
    "`pre: {state: {...}}`: pre_vars",
    "`post: {state: {...}}`: post_vars",
    "`let`: derived_params internals",
    "`on_pre: [...]`, or `on_post: [...]`: onReceive",
    "`deliver(w, post.ge)`: receptor_type",
    "`use: library/synapses/...`: synapse_model",
    "`post: {inputs: {g: {decay: tau}}, deliver: g}`: post_synapse_model psm",
    "`on_pre`: pre_code",
    "`on_post`: post_code",
    "`params`: parameters",
    "`state`: variables vars",
    "`pre: {state: {x: 0}, ...}`: trace",
    "`pre: {state: {x: 0}, ...}` and `post: {...}`: traces",
    "`method`: integrator",
)

SYNAPSE = k.Block(
    "synapse",
    (
        USE,
        FOR,
        DESCRIPTION,
        k.Field(
            "params",
            PARAMS,
            "Parameters with their default values; a projection's `params` may give others. They do not change "
            "during a run.",
            example="params: {tau_pre: 20 ms}",
        ),
        k.Field(
            "state",
            STATE,
            "Variables, one of each per synapse, with their initial values; a projection's `init` may give others.",
            example="state: {w: {uniform: {low: 0, high: w_max}}}",
        ),
        LET,
        k.Field(
            "pre",
            _TRACE,
            "Variables of the presynaptic neuron, held once per neuron and read as `pre.x`.",
            example="pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau_pre}, on_spike: [x = x + 1]}",
        ),
        k.Field(
            "post",
            _POST,
            "Variables and inputs of the postsynaptic neuron, held once per neuron and read as `post.y`.",
            example="post: {state: {y: 0}, dynamics: {dy/dt: -y / tau_post}, on_spike: [y = y + 1]}",
        ),
        k.Field(
            "dynamics",
            DYNAMICS,
            "Equations of the synapse's own variables, integrated in every step unless `event_driven` is set.",
            example="dynamics: {dx/dt: (1 - x) / tau_rec}",
        ),
        METHOD_KEY,
        k.switch(
            "event_driven",
            "Applies `dynamics` exactly for the time that has passed, right before a spike uses the synapse, and not "
            "in every step. Each equation must be linear in its own variable, and in ones that "
            "decay by themselves, with parameters as coefficients.",
        ),
        k.Field(
            "update",
            _ACTIONS,
            "Runs at every synapse in every step, after `dynamics`: graded and gap-junction coupling. It may read "
            "`sum_post(w)` and its kin, and `rewire(...)`, as `on`. " + _DELIVER,
            example="update: [deliver(g * (pre.v - post.v))]",
        ),
        k.Field("on_pre", _ACTIONS, "Runs when a presynaptic spike arrives, that is `delay` after it. " + _DELIVER),
        k.Field(
            "on_post",
            _ACTIONS,
            "Runs when the postsynaptic neuron spikes, or `back_delay` after that. " + _DELIVER,
            example="on_post: [w = w + pre.x]",
        ),
        k.Field(
            "events",
            k.MapOf("event", SYNAPSE_EVENT, example="{release: {of: pre, when: pre.v > v_release, do: [deliver(w)]}}"),
            "Spike-like events with conditions of their own, in order.",
        ),
        SYNAPSE_OTHERS,
        SYNAPSE_ON,
        k.Field(
            "shared",
            k.ListOf(k.Reference("state variable", "w"), example="[w]"),
            "The variables that all instances of the network have in common (`simulate: {instances: 8, weights: "
            "shared}`): learned weights. `update` and `on` alone assign to them, and read what differs between "
            "instances in sums over these: `w = w + rate * mean_instances(dw)`. `[]`: connections and parameters only.",
        ),
    ),
    doc="A synapse model with state of its own, such as a plasticity rule. Expressions read the synapse's parameters, "
    "state and named expressions, `t`, `dt`, counters of phases (`trial.step`), and as `pre.x` and `post.x` variables "
    "of the two neurons; `delayed(pre.v)` is what `pre.v` was `delay` ago, `delayed(post.v)` what `post.v` was "
    "`back_delay` ago. `n_in` and `n_out` are how many synapses its neurons have, `sum_into(x)` is the sum of x over "
    "all projections into the same input.",
    needs=(("event_driven", ("dynamics",)),),
    at_least_one=("on_pre", "on_post", "update", "events", "on"),
    elsewhere=_ELSEWHERE,
    open_with=("use",),
    example="{state: {w: 0.5}, on_pre: [deliver(w)]}",
)

SYNAPSES = k.MapOf("synapse", SYNAPSE, TEMPLATE_KEY, "stdp", example="{stdp: {state: {w: 0.5}, ...}}")
