"""`sweep`: the trials of a parameter study.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key, with its hover text, default and example.
Does not: check names of parameters or values (compiler/sweep/plan.py).
"""

from __future__ import annotations

from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Choice,
    Field,
    Flag,
    Kind,
    ListOf,
    MapOf,
    OneKey,
    OneOf,
    Text,
    Value,
    options,
)
from compiler.expr.keys.values import QUANTITY

_SETTINGS = ListOf(QUANTITY, low=1, example="[1000, 2000]")
_BOUNDS = (
    Field("low", QUANTITY, "The smallest value.", required=True, example="low: 0.1"),
    Field("high", QUANTITY, "The largest value.", required=True, example="high: 10"),
)
_BETWEEN = Block("bounds", _BOUNDS, title="sweep_bounds", example="{low: 0.1, high: 10}")

DRAWN: Kind = OneKey(
    "distribution of a parameter",
    (
        Alternative("uniform", _BETWEEN, "Equally likely anywhere between.", example="{uniform: {low: 0, high: 1}}"),
        Alternative(
            "log_uniform",
            _BETWEEN,
            "Its logarithm is equally likely anywhere between.",
            example="{log_uniform: {low: 1e-4, high: 1e-1}}",
        ),
        Alternative(
            "integers", _BETWEEN, "Whole numbers, both ends included.", example="{integers: {low: 1, high: 8}}"
        ),
        Alternative("choice", _SETTINGS, "One of these.", example="{choice: [relu, tanh]}"),
    ),
    title="sweep_distribution",
)

_VALUES = Field(
    "values",
    MapOf("distribution", DRAWN, key_example="p", low=1, example="{p: {uniform: {low: 0, high: 1}}}"),
    "What is drawn, by parameter.",
    required=True,
    example="values: {p: {uniform: {low: 0.01, high: 0.1}}}",
)
_TRIALS = Field(
    "trials", Value("a whole number", "50", integer=True, low=1, high=1_000_000), "How many.", required=True
)
_RESULT = Text("a result of a run", "validation_accuracy")

SEARCH = Block(
    "search",
    (
        Field(
            "sampler",
            Choice(
                "sampler",
                options(
                    tpe="Where good trials lie more often than bad ones (tree-structured Parzen estimator).",
                    random="Anywhere, as `random` does.",
                ),
            ),
            "How the values of the next trial are chosen.",
            default="tpe",
            example="sampler: tpe",
        ),
        _TRIALS,
        Field(
            "seed",
            Value("a whole number", "1", integer=True, low=0),
            "Of the sampler: what it suggests depends on this, the number of the trial and the trials before it.",
            default=0,
        ),
        Field(
            "goal",
            OneKey(
                "goal",
                (
                    Alternative("minimize", _RESULT, "Less of it is better.", example="{minimize: validation_loss}"),
                    Alternative("maximize", _RESULT, "More of it is better."),
                ),
                title="sweep_goal",
            ),
            "What makes a trial a good one: a metric of the last epoch, `rate.exc` or `spikes.exc`.",
            required=True,
            example="goal: {maximize: validation_accuracy}",
        ),
        Field(
            "prune",
            Flag(),
            "Ends a training whose best epoch so far is worse than the median of the others at the same epoch, once "
            "five trials have ended.",
            default=False,
        ),
        _VALUES,
    ),
    title="sweep_search",
    example="{trials: 50, goal: {maximize: accuracy}, values: {lr: {log_uniform: {low: 1e-4, high: 1e-1}}}}",
)

SWEEP_BLOCK = Block(
    "sweep",
    (
        Field(
            "grid",
            MapOf("list of values", _SETTINGS, key_example="n_exc", low=1, example="{n_exc: [1000, 2000]}"),
            "Values by parameter: every combination is a trial; the last parameter varies fastest.",
            example="grid: {n_exc: [1000, 2000], p: [0.01, 0.02]}",
        ),
        Field(
            "list",
            ListOf(
                MapOf("value", QUANTITY, key_example="n_exc", low=1, example="{n_exc: 1000}"),
                low=1,
                example="[{n_exc: 1000, p: 0.04}, {n_exc: 2000, p: 0.02}]",
            ),
            "The trials themselves.",
        ),
        Field(
            "random",
            Block(
                "random",
                (
                    _TRIALS,
                    Field(
                        "seed",
                        Value("a whole number", "1", integer=True, low=0),
                        "Of the draws; the trials of a smaller number are the first ones of a larger.",
                        default=0,
                    ),
                    _VALUES,
                ),
                title="sweep_random",
                example="{trials: 50, values: {p: {uniform: {low: 0.01, high: 0.1}}}}",
            ),
            "Trials with drawn values.",
        ),
        Field(
            "search",
            SEARCH,
            "Trials whose values follow from the results of those before them (needs Optuna).",
            example="search: {trials: 50, goal: {minimize: loss}, values: {lr: {log_uniform: {low: 1e-4, high: 1}}}}",
        ),
        Field(
            "seeds",
            OneOf(
                (
                    Value("a whole number", "10", integer=True, low=1, high=1_000_000),
                    ListOf(Value("a whole number", "1", integer=True, low=0), low=1, example="[1, 2, 3]"),
                )
            ),
            "Each trial is run with so many seeds, from the model's own on, or with these.",
        ),
    ),
    doc="Trials of `netloom sweep`: settings of `params`, and seeds. `sweep: {n: [1, 2]}` is short for a `grid`.",
    title="sweep",
    example="{grid: {n_exc: [1000, 2000]}, seeds: 10}",
)

SWEEP: Kind = OneOf(
    (
        SWEEP_BLOCK,
        MapOf("list of values", _SETTINGS, key_example="n_exc", low=1, example="{n_exc: [1000, 2000]}"),
    )
)
