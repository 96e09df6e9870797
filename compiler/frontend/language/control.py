"""Structure and control: pools of neurons, phases of a run and their event handlers.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check names, dimensions or expressions.
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
from compiler.expr.keys.values import (
    DESCRIPTION,
    FOR,
    POSITIVE_TIME,
    QUANTITY,
    TEMPLATE_KEY,
    TIME,
    USE,
    handlers,
    statements,
)

_ACTIONS = statements(shown="[v = v_rest]", low=1)

ON = k.Field(
    "on",
    handlers(_ACTIONS, "trial.start", "[v = v_rest]"),
    "Assignments that run at events of `phases`, in order. At an event 0 ms after a trial's start they run before the "
    "first step's equations, at a later one at the end of the step that ends then, after spikes and resets. Names "
    "that are new are local to the list. `sum_instances(x)` adds up x of this neuron in all instances of the network, "
    "as it was at the end of the step before (`mean_`, `max_`, `min_` too); `sum_pool(x)` is over the neurons of its "
    "pool and `sum_population(x)` over all, when they are done with the statements before (`mean_`, `max_`, `min_`, "
    "`argmax_` too). In `on` of a pool, `sum(x)`, `mean(x)`, `min(x)`, `max(x)` and `argmax(x)` are over its neurons.",
    example="on: {trial.start: [v = v_rest], trial.minus: [v_minus = v]}",
)

SYNAPSE_ON = k.Field(
    "on",
    handlers(statements("w = w + change", "[w = w + change]", 1), "trial.end", "[w = w + change, change = 0]"),
    "What every synapse does at events of `phases`: at 0 ms before everything else that synapses do in a trial's first "
    "step, later ones after everything in the step that ends then. "
    "`deliver(x)` adds to an input of the target. `sum_post(w)` is the sum over all synapses onto the same target, "
    "`sum_pre(w)` over those of the same source, `sum_instances(dw)` over the same synapse in all instances of the "
    "network, and `sum_kernel(dw)` over those of a `conv2d` with the same element of the kernel (`mean_`, `max_`, "
    "`min_` too, and `first_kernel`). `rewire(w < 0)` gives synapses for "
    "which the condition holds new targets (with `rewire(w < 0, indegree)` new sources), drawn at random, and initial "
    "values; `remove(w < 0)` leaves its place vacant, and `form(random() < 0.1)` gives vacant places a synapse. "
    "`w = transpose(forward.w)` takes a variable of another projection, from the synapses that lead the other way.",
    example="on: {trial.end: [w = w * w_total / sum_post(w)]}",
)

_REDUCE = k.Field(
    "reduce",
    k.MapOf("reduction", k.Expression("mean(ge)"), key_example="ge_mean", low=1, example="{ge_mean: mean(ge)}"),
    "What is computed over the neurons, by name: `sum`, `mean`, `min` or `max` of an expression, or `argmax` of a "
    "variable (the index of the first neuron where it is largest). In order; each may read those before it.",
    example="reduce: {ge_mean: mean(ge), ge_max: max(ge)}",
)


def _pool(noun: str, scope: str) -> k.Block:
    return k.Block(
        noun,
        (
            DESCRIPTION,
            _REDUCE,
            k.Field(
                "state",
                k.MapOf("state variable", QUANTITY, key_example="gi", example="{gi: 0}"),
                f"Variables, one of each per {noun}, with their initial values.",
            ),
            k.Field(
                "update",
                statements("gi = gain * ge_mean", "[gi = gain * ge_mean]"),
                f"Assignments that run once per step and {noun}, after the reductions, in order. They read the "
                "reductions and states by their names, and parameters of the neuron that are one number.",
            ),
            ON,
        ),
        doc=f"Variables that the neurons of a {noun} share, read as `{scope}.gi`. They are computed in each step "
        f"right before the first statement of `update` or `spike` that reads one; `dynamics` read those of the step "
        "before.",
        title=f"neuron_{scope}",
        elsewhere={"reductions": "`reduce`", "variables": "`state`"},
        example="{reduce: {ge_mean: mean(ge)}, state: {gi: 0}, update: [gi = gain * ge_mean]}",
    )


POOL = k.Field(
    "pool",
    _pool("pool", "pool"),
    "What the neurons of a pool have in common: reductions over them, and equations on these. A population has one "
    "pool, or as many as its `pools` says.",
)

POPULATION_POOL = k.Field(
    "population",
    _pool("population", "population"),
    "The same over the whole population, whatever its number of pools; computed before `pool`, which may read it.",
    example="population: {reduce: {act_mean: mean(act)}}",
)

POOLS = k.Field(
    "pools",
    k.Value("a whole number", "4", integer=True, low=1),
    "The number of pools: equal parts of the population, of neurons that follow each other.",
    default=1,
)

_READ = k.MapOf(
    "variable",
    k.OneOf((k.Text("a unit", "mV"), k.Constant(1))),
    key=rf"^(?:(?:pool|population)\.)?{k.NAME}$",
    key_example="burst",
    low=1,
    example="{burst: 1, pool.act: 1}",
)

OTHERS = k.Field(
    "others",
    k.MapOf("population that is read", _READ, key_example="driver", example="{driver: {burst: 1, pool.act: 1}}"),
    "Other populations that the equations read, by names of their own, with the variables that are read and their "
    "units: `driver.burst` is a state of the neuron with the same index, or of the only neuron, at the end of the step "
    "before; `driver.pool.act` a variable of a pool, of this step. Which population that is, the populations of the "
    "neuron say: `others: {driver: V1}`.",
)

SYNAPSE_OTHERS = k.Field(
    "others",
    k.MapOf("population that is read", _READ, key_example="dopamine", example="{dopamine: {level: 1}}"),
    "Other populations that all synapses read, by names of their own, with the variables that are read and their "
    "units: `dopamine.level` is a state of a population of one neuron, or a variable of the pool of any, after the "
    "neurons' part of the step. Which population that is, the projection says: `others: {dopamine: VTA}`.",
)

CHOSEN_OTHERS = k.Field(
    "others",
    k.MapOf("population that is read", k.Reference("population", "V1", TEMPLATE_KEY), key_example="driver"),
    "The populations that the neuron or synapse model reads, by the names that it has for them.",
    example="others: {driver: V1}",
)

PHASE = k.Block(
    "phase",
    (
        USE,
        FOR,
        DESCRIPTION,
        k.required(
            "every",
            POSITIVE_TIME,
            "How long one trial lasts; trials follow each other from time 0 on, and before it in the warm-up. A "
            "whole number of steps.",
            example="every: 200 ms",
        ),
        k.Field(
            "events",
            k.MapOf("event", TIME, key_example="start", example="{start: 0 ms, minus: 150 ms, plus: 200 ms}"),
            "Times after the start of a trial, by name, for `on`.",
        ),
    ),
    doc="A cycle of the run, such as trials. Expressions of neurons and synapses read `<name>.count` (trials since "
    "time 0, from 0) and `<name>.step` (steps since the start of the trial, from 1).",
    elsewhere={"period": "`every`", "length": "`every`", "duration": "`every`"},
    open_with=("use",),
    example="{every: 200 ms, events: {start: 0 ms, minus: 150 ms}}",
)

PHASES = k.MapOf("phase", PHASE, key_example="trial", example="{trial: {every: 200 ms, events: {start: 0 ms}}}")

FREEZE = k.Field(
    "freeze",
    k.OneOf(
        (
            k.choice("part", learning="The synapses of all projections."),
            k.ListOf(k.Reference("projection", "feedforward"), low=1, example="[feedforward]"),
        )
    ),
    "What stands still, for test runs: state variables and traces of these synapses keep their values; deliveries go "
    "on. `learning` means every projection; a list names some (so that short-term plasticity, a state too, goes on). "
    "The command line says it for one run: `--freeze learning`.",
)

INSTANCES = k.Field(
    "instances",
    k.Value("a whole number", "8", integer=True, low=1, high=1 << 16),
    "Independent copies of the network that run side by side, each with random numbers of its own. With more than "
    "one, the copies of a population `exc` are recorded as `exc_0`, `exc_1`, ...",
    default=1,
)

WEIGHTS = k.Field(
    "weights",
    k.choice(
        "kind of copies",
        separate="Every copy of the network has synapses of its own, drawn independently.",
        shared="All copies have the same synapses: connections, weights, and of a synapse model its parameters and "
        "the variables that its `shared` names.",
    ),
    "Whether the copies of `instances` have synapses of their own.",
    default="separate",
)
