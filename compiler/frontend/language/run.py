"""Execution settings of the language: simulate, expect, numerics, sweep.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example. Nothing here affects the model's hash.
Does not: check the variables of a population.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.expr.keys.kinds as k
import compiler.expr.keys.values as v
from compiler.expr.units import FREQUENCY
from compiler.frontend.language.control import FREEZE, INSTANCES, WEIGHTS

CHECKPOINT = k.Field(
    "checkpoint",
    k.Block(
        "checkpoint",
        (
            k.Field(
                "every",
                v.POSITIVE_TIME,
                "Simulated time between checkpoints, a whole number of steps: they are written at its multiples, also "
                "during the warm-up (which ends at 0).",
                example="every: 10 s",
            ),
            k.Field("every_wall", v.POSITIVE_TIME, "Real time between checkpoints.", example="every_wall: 5 min"),
            k.Field(
                "keep", v.POSITIVE, "How many checkpoints are kept, the newest ones.", default=2, example="keep: 2"
            ),
        ),
        title="simulation_checkpoint",
        at_least_one=("every", "every_wall"),
        elsewhere=k.instead(
            "`every`: interval epochs", "`every_wall`: wall", "`train: {checkpoint: {best: ...}}`: best"
        ),
        example="{every: 10 s}",
    ),
    "Writes checkpoints while the model runs, so that a run that is killed can be gone on with, bit for bit (`netloom "
    "run --resume`). With `every` and `every_wall` either is a reason to write one. Each takes the time of writing all "
    "state to disk.",
    example="checkpoint: {every: 10 s, every_wall: 5 min}",
)

STOP = k.Field(
    "stop",
    k.Block(
        "stop",
        (
            k.required(
                "when",
                k.Expression("mean(output.wrong) < 0.05"),
                "A condition over `sum`, `mean`, `min` and `max` of what the neurons of a population, or the synapses "
                "of a projection, hold then.",
            ),
            k.Field(
                "every", v.POSITIVE_TIME, "The time between two tests, a whole number of steps.", example="every: 1 s"
            ),
            k.Field(
                "at",
                v.EVENT,
                "An event of `phases`, in place of `every`: one test per trial, after everything that happens then.",
            ),
            k.Field("times", v.POSITIVE, "How often in a row it must hold.", default=1, example="times: 2"),
        ),
        title="simulation_stop",
        one_of=(("every", "at"),),
        elsewhere={"if": "`when`", "patience": "`times`", "in_a_row": "`times`"},
        example="{when: mean(output.wrong) < 0.05, at: trial.end}",
    ),
    "Ends the run before its `duration` when a condition holds.",
)

SIMULATE = k.Block(
    "simulation",
    (
        k.required("dt", v.POSITIVE_TIME, "The time step. Delays and refractory periods are whole numbers of it."),
        k.required("duration", v.DURATION, "How long is simulated, after the warm-up."),
        k.Field(
            "warmup",
            v.DURATION,
            "How long the model runs before time 0; nothing is recorded then, and `t` is below 0.",
            default="0 ms",
            example="warmup: 500 ms",
        ),
        k.Field(
            "seed",
            replace(v.COUNT, bits=63),
            "The seed of all random numbers. The same seed gives the same run.",
            default=0,
            example="seed: 1",
        ),
        FREEZE,
        INSTANCES,
        WEIGHTS,
        CHECKPOINT,
        STOP,
    ),
    doc="How a spiking network is simulated.",
    title="simulate",
    needs=(("weights", ("instances",)),),
    elsewhere=k.instead(
        "`instances`: batch copies",
        "`duration`: time t sim_time steps t_stop tstop t_end runtime until t_max",
        "`dt`: timestep resolution",
        "`seed`: random_seed",
    ),
)

_OF = k.required("of", v.POPULATIONS, "The population, with recorded spikes.")
_AT_LEAST = k.Field("at_least", v.NUMBER, "The smallest value that is good.", example="at_least: 0.96")
_AT_MOST = k.Field("at_most", v.NUMBER, "The largest value that is good.", example="at_most: 0.1")

_SPIKES = replace(v.COUNT, bits=63)

EXPECT = k.ListOf(
    k.OneKey(
        "expectation",
        (
            k.entry(
                "expectation",
                "rate",
                "The mean rate of a population over the run.",
                _OF,
                k.required(
                    "between",
                    k.ListOf(replace(v.QUANTITY, dimension=FREQUENCY), low=2, high=2, example="[3 Hz, 12 Hz]"),
                    "The lowest and the highest mean rate that are good.",
                ),
                title="expect_rate",
                elsewhere={"from": "`of`", "population": "`of`"},
            ),
            k.entry(
                "expectation",
                "metric",
                "A metric of training, or a column of a recorded table.",
                k.required(
                    "name",
                    k.Reference("metric", "validation_accuracy", rf"^{k.NAME}(\.{k.NAME})?$"),
                    "What stands in `metrics.jsonl`: `loss`, a metric, or either with "
                    "`validation_` before it; its value at the last epoch counts. Of a simulation, a column "
                    "of a recorded table (`table.error`); its last row counts.",
                ),
                _AT_LEAST,
                _AT_MOST,
                title="expect_metric",
                at_least_one=("at_least", "at_most"),
                elsewhere={"min": "`at_least`", "max": "`at_most`", "of": "`name`"},
                example="{name: validation_accuracy, at_least: 0.96}",
            ),
            k.entry(
                "expectation",
                "spikes",
                "The number of spikes of a population over the run.",
                _OF,
                k.Field("count", _SPIKES, "The exact number of spikes.", example="count: 42"),
                k.Field("at_least", _SPIKES, "The smallest number that is good.", example="at_least: 1"),
                k.Field("at_most", _SPIKES, "The largest number that is good."),
                title="expect_spikes",
                at_least_one=("count", "at_least", "at_most"),
                elsewhere={"min": "`at_least`", "max": "`at_most`", "from": "`of`"},
                example="{of: exc, at_least: 1}",
            ),
        ),
        title="expectation",
        doc="One thing that `netloom test` checks after a run.",
    ),
    example="[{rate: {of: exc, between: [3 Hz, 12 Hz]}}]",
)

NUMERICS = k.Block(
    "numerics",
    (
        k.Field(
            "precision",
            k.choice(
                "precision",
                {
                    **dict.fromkeys(("bf16", "bfloat16", "amp", "half", "fp16", "float16"), "`mixed`"),
                    **dict.fromkeys(("double", "fp64", "f64", "64"), "`float64`"),
                    **dict.fromkeys(("single", "float", "fp32", "f32", "32"), "`float32`"),
                },
                float32="32-bit floating point.",
                float64="64-bit floating point.",
                mixed="Of layers, activations and their gradients are rounded to bf16 (8 significant bits), and so "
                "are weights where they are factors, once a step; a GPU stores them so and multiplies them on "
                "matrix units. Weights, the optimizer's state, gradients of weights, statistics, sums and "
                "recurrent layers stay float32, and so does everything that has no layers.",
            ),
            "The type of expressions, state, weights and accumulators.",
            default="float32",
        ),
        k.Field(
            "order",
            k.choice(
                "order",
                fast="Sums in any order.",
                reproducible="The same bits on every run on one machine.",
                bitwise="The same bits on every backend.",
            ),
            "What is promised about the order of sums.",
            default="reproducible",
            example="order: bitwise",
        ),
        k.Field(
            "products",
            k.choice(
                "products",
                {"bfloat16": "`bf16`", "fp32": "`float32`", "single": "`float32`"},
                exact="Sums of float32 products of the factors as they are.",
                float32="However they are computed, with an error no larger than that of a float32 sum in order. Where "
                "a factor is infinite, the sum may be NaN.",
                tf32x3="Targets may leave out what is below 2^-20 of a product of float32 factors.",
                tf32="Targets may round float32 factors to 11 significant bits.",
                bf16="Targets may round float32 factors to 8 significant bits.",
            ),
            "How exactly layers must multiply: each value permits what those before it permit. All but `exact` let a "
            "GPU use its tensor cores; targets without such units multiply exactly whatever is permitted. Products of "
            "float64, and those under `order: bitwise`, are always exact.",
            default="float32",
            example="products: tf32x3",
        ),
    ),
    doc="The numbers that the model computes with.",
    elsewhere={"dtype": "`precision`", "float": "`precision`"},
    example="{precision: float64}",
)
