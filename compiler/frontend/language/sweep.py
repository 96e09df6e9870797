"""`sweep`: the trials of a parameter study.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key, with its hover text, default and example.
Does not: check names of parameters or values (compiler/sweep/plan.py).
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
from compiler.expr.keys.values import QUANTITY

_SETTINGS = k.ListOf(QUANTITY, low=1, example="[1000, 2000]")
_BOUNDS = (
    k.required("low", QUANTITY, "The smallest value.", example="low: 0.1"),
    k.required("high", QUANTITY, "The largest value.", example="high: 10"),
)
_BETWEEN = k.Block("bounds", _BOUNDS, title="sweep_bounds")

DRAWN: k.Kind = k.OneKey(
    "distribution of a parameter",
    (
        k.Alternative("uniform", _BETWEEN, "Equally likely anywhere between.", example="{uniform: {low: 0, high: 1}}"),
        k.Alternative(
            "log_uniform",
            _BETWEEN,
            "Its logarithm is equally likely anywhere between.",
            example="{log_uniform: {low: 1e-4, high: 1e-1}}",
        ),
        k.Alternative(
            "integers", _BETWEEN, "Whole numbers, both ends included.", example="{integers: {low: 1, high: 8}}"
        ),
        k.Alternative("choice", _SETTINGS, "One of these.", example="{choice: [relu, tanh]}"),
    ),
    title="sweep_distribution",
)

_VALUES = k.required(
    "values",
    k.MapOf("distribution", DRAWN, key_example="p", low=1, example="{p: {uniform: {low: 0, high: 1}}}"),
    "What is drawn, by parameter.",
    example="values: {p: {uniform: {low: 0.01, high: 0.1}}}",
)
_TRIALS = k.required("trials", k.Value("a whole number", "50", integer=True, low=1, high=1_000_000), "How many.")
_RESULT = k.Text("a result of a run", "validation_accuracy")

SEARCH = k.Block(
    "search",
    (
        k.Field(
            "sampler",
            k.choice(
                "sampler",
                tpe="Where good trials lie more often than bad ones (tree-structured Parzen estimator).",
                random="Anywhere, as `random` does.",
            ),
            "How the values of the next trial are chosen.",
            default="tpe",
            example="sampler: tpe",
        ),
        _TRIALS,
        k.Field(
            "seed",
            k.Value("a whole number", "1", integer=True, low=0),
            "Of the sampler: what it suggests depends on this, the number of the trial and the trials before it.",
            default=0,
        ),
        k.required(
            "goal",
            k.OneKey(
                "goal",
                (
                    k.Alternative("minimize", _RESULT, "Less of it is better.", example="{minimize: validation_loss}"),
                    k.Alternative("maximize", _RESULT, "More of it is better."),
                ),
                title="sweep_goal",
            ),
            "What makes a trial a good one: a metric of the last epoch, `rate.exc` or `spikes.exc`.",
            example="goal: {maximize: validation_accuracy}",
        ),
        k.switch(
            "prune",
            "Ends a training whose best epoch so far is worse than the median of the others at the same epoch, once "
            "five trials have ended.",
        ),
        _VALUES,
    ),
    title="sweep_search",
    example="{trials: 50, goal: {maximize: accuracy}, values: {lr: {log_uniform: {low: 1e-4, high: 1e-1}}}}",
)

SWEEP_BLOCK = k.Block(
    "sweep",
    (
        k.Field(
            "grid",
            k.MapOf("list of values", _SETTINGS, key_example="n_exc", low=1, example="{n_exc: [1000, 2000]}"),
            "Values by parameter: every combination is a trial; the last parameter varies fastest.",
            example="grid: {n_exc: [1000, 2000], p: [0.01, 0.02]}",
        ),
        k.Field(
            "list",
            k.ListOf(
                k.MapOf("value", QUANTITY, key_example="n_exc", low=1, example="{n_exc: 1000}"),
                low=1,
                example="[{n_exc: 1000, p: 0.04}, {n_exc: 2000, p: 0.02}]",
            ),
            "The trials themselves.",
        ),
        k.Field(
            "random",
            k.Block(
                "random",
                (
                    _TRIALS,
                    k.Field(
                        "seed",
                        k.Value("a whole number", "1", integer=True, low=0),
                        "Of the draws; the trials of a smaller number are the first ones of a larger.",
                        default=0,
                    ),
                    _VALUES,
                ),
                title="sweep_random",
            ),
            "Trials with drawn values.",
        ),
        k.Field(
            "search",
            SEARCH,
            "Trials whose values follow from the results of those before them (needs Optuna).",
            example="search: {trials: 50, goal: {minimize: loss}, values: {lr: {log_uniform: {low: 1e-4, high: 1}}}}",
        ),
        k.Field(
            "seeds",
            k.OneOf(
                (
                    k.Value("a whole number", "10", integer=True, low=1, high=1_000_000),
                    k.ListOf(k.Value("a whole number", "1", integer=True, low=0), low=1, example="[1, 2, 3]"),
                )
            ),
            "Each trial is run with so many seeds, from the model's own on, or with these.",
        ),
    ),
    doc="Trials of `netloom sweep`: settings of `params`, and seeds. `sweep: {n: [1, 2]}` is short for a `grid`.",
    example="{grid: {n_exc: [1000, 2000]}, seeds: 10}",
)

SWEEP: k.Kind = k.OneOf(
    (SWEEP_BLOCK, k.MapOf("list of values", _SETTINGS, key_example="n_exc", low=1, example="{n_exc: [1000, 2000]}"))
)
