"""The part of the language that says how a model is run: simulate, record, plots, expect, numerics,
sweep.

Assumes: kinds.py, values.py.
Guarantees: every key of these blocks, with its hover text, default and example. Nothing here takes
part in the model's hash.
Does not: know which variables a population has.
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
    Field,
    Kind,
    ListOf,
    MapOf,
    OneKey,
    OneOf,
    Option,
    Pattern,
    Reference,
    Value,
)
from compiler.frontend.language.values import (
    COUNT,
    DURATION,
    NAMES,
    NUMBER,
    POPULATIONS,
    POSITIVE,
    POSITIVE_TIME,
    QUANTITY,
    TEMPLATE_KEY,
)

SIMULATE = Block(
    "simulation",
    (
        Field(
            "dt",
            POSITIVE_TIME,
            "The time step. Delays and refractory periods are whole numbers of it.",
            required=True,
            example="dt: 0.1 ms",
        ),
        Field(
            "duration",
            DURATION,
            "How long is simulated, after the warm-up.",
            required=True,
            example="duration: 1 s",
        ),
        Field(
            "warmup",
            DURATION,
            "How long the model runs before time 0; nothing is recorded then.",
            default="0 ms",
            example="warmup: 500 ms",
        ),
        Field(
            "seed",
            COUNT,
            "The seed of all random numbers. The same seed gives the same run.",
            default=0,
            example="seed: 1",
        ),
    ),
    doc="How a spiking network is simulated.",
    title="simulate",
    elsewhere={
        "time": "`duration`",
        "t": "`duration`",
        "timestep": "`dt`",
        "resolution": "`dt`",
        "sim_time": "`duration`",
        "random_seed": "`seed`",
        "steps": "`duration`",
    },
    example="{dt: 0.1 ms, duration: 1 s}",
)

_FROM = Field("from", POPULATIONS, "The populations that are recorded.", required=True, example="from: exc")
_EVERY = Field(
    "every",
    POSITIVE_TIME,
    "The time between two samples, a whole number of steps; without it, every step.",
    example="every: 1 ms",
)
_MEMBERS: Kind = OneOf(
    (
        Pattern("`all` or a range", r"^(?:all|\d+\.\.\d+)$", "0..9"),
        ListOf(COUNT, low=1, example="[0, 5, 7]"),
    )
)
_VARIABLE = Reference("variable", "v")

RECORD = ListOf(
    OneKey(
        "recording",
        (
            Alternative(
                "spikes",
                Block(
                    "recording",
                    (_FROM,),
                    title="record_spikes",
                    elsewhere={"of": "`from`", "population": "`from`"},
                    example="{from: exc}",
                ),
                "The spikes of populations, written to `spikes.h5`.",
                example="{spikes: {from: [exc, inh]}}",
            ),
            Alternative(
                "trace",
                Block(
                    "recording",
                    (
                        _FROM,
                        Field(
                            "variables",
                            NAMES,
                            "State variables and inputs of the neurons.",
                            required=True,
                            example="variables: [v, ge]",
                        ),
                        Field(
                            "members",
                            _MEMBERS,
                            "Which neurons: `all`, a range such as `0..9` (both ends included), "
                            "or a list of indices from 0.",
                            default="all",
                            example="members: 0..9",
                        ),
                        _EVERY,
                    ),
                    title="record_trace",
                    elsewhere={
                        "variable": "`variables: [...]`",
                        "neurons": "`members`",
                        "indices": "`members`",
                        "dt": "`every`",
                        "interval": "`every`",
                        "of": "`from`",
                        "population": "`from`",
                    },
                    example="{from: exc, variables: [v]}",
                ),
                "Variables over time, sampled at the end of a step, written to `traces.h5`.",
                example="{trace: {from: exc, variables: [v], members: 0..9}}",
            ),
            Alternative(
                "synapses",
                Block(
                    "recording",
                    (
                        Field(
                            "from",
                            Reference("projection", "plastic", TEMPLATE_KEY),
                            "The projection.",
                            required=True,
                            example="from: plastic",
                        ),
                        Field(
                            "variables",
                            NAMES,
                            "State variables of the synapses.",
                            required=True,
                            example="variables: [w]",
                        ),
                        _EVERY,
                    ),
                    title="record_synapses",
                    example="{from: plastic, variables: [w], every: 1 s}",
                ),
                "Variables of synapses over time.",
                supported=False,
                example="{synapses: {from: plastic, variables: [w], every: 1 s}}",
            ),
        ),
        title="recording",
        doc="One thing that is recorded. Recording never changes the result.",
        elsewhere={
            "traces": "`trace`",
            "state": "`trace`",
            "spike": "`spikes`",
            "voltage": "`trace: {variables: [v]}`",
        },
    ),
    example="[{spikes: {from: exc}}]",
)

PLOTS = ListOf(
    OneKey(
        "plot",
        (
            Alternative(
                "raster",
                Block(
                    "plot",
                    (
                        Field(
                            "from",
                            POPULATIONS,
                            "Populations whose spikes are recorded.",
                            required=True,
                            example="from: [exc, inh]",
                        ),
                    ),
                    title="plot_raster",
                    example="{from: exc}",
                ),
                "Spikes over time, a row per neuron, with the rates below.",
                example="{raster: {from: [exc, inh]}}",
            ),
            Alternative(
                "trace",
                Block(
                    "plot",
                    (
                        Field(
                            "from",
                            POPULATIONS,
                            "Populations with a recorded trace.",
                            required=True,
                            example="from: exc",
                        ),
                        Field(
                            "variable",
                            _VARIABLE,
                            "The recorded variable.",
                            required=True,
                            example="variable: v",
                        ),
                    ),
                    title="plot_trace",
                    elsewhere={"variables": "`variable`"},
                    example="{from: exc, variable: v}",
                ),
                "A variable over time, a line per recorded neuron.",
                example="{trace: {from: exc, variable: v}}",
            ),
            Alternative(
                "histogram",
                Block(
                    "plot",
                    (
                        Field(
                            "from",
                            Reference("projection", "plastic", TEMPLATE_KEY),
                            "The projection with recorded synapses.",
                            required=True,
                            example="from: plastic",
                        ),
                        Field(
                            "variable",
                            _VARIABLE,
                            "The recorded variable.",
                            required=True,
                            example="variable: w",
                        ),
                        Field("bins", POSITIVE, "The number of bars.", default=20, example="bins: 20"),
                    ),
                    title="plot_histogram",
                    example="{from: plastic, variable: w}",
                ),
                "How a variable is distributed at the end.",
                supported=False,
                example="{histogram: {from: plastic, variable: w}}",
            ),
            Alternative(
                "training",
                Block("plot", (), title="plot_training", example="{}"),
                "Loss and metrics over the epochs of training.",
                example="{training: {}}",
            ),
        ),
        title="plot",
        doc="One figure, written as PNG and SVG.",
        elsewhere={
            "loss": "`training`",
            "metrics": "`training`",
            "spikes": "`raster`",
            "traces": "`trace`",
        },
    ),
    example="[{raster: {from: exc}}]",
)

_AT_LEAST = Field("at_least", NUMBER, "The smallest value that is good.", example="at_least: 0.96")
_AT_MOST = Field("at_most", NUMBER, "The largest value that is good.", example="at_most: 0.1")

EXPECT = ListOf(
    OneKey(
        "expectation",
        (
            Alternative(
                "rate",
                Block(
                    "expectation",
                    (
                        Field(
                            "of",
                            POPULATIONS,
                            "The population, with recorded spikes.",
                            required=True,
                            example="of: exc",
                        ),
                        Field(
                            "between",
                            ListOf(QUANTITY, low=2, high=2, example="[3 Hz, 12 Hz]"),
                            "The lowest and the highest mean rate that are good.",
                            required=True,
                            example="between: [3 Hz, 12 Hz]",
                        ),
                    ),
                    title="expect_rate",
                    elsewhere={"from": "`of`", "population": "`of`"},
                    example="{of: exc, between: [3 Hz, 12 Hz]}",
                ),
                "The mean rate of a population over the run.",
                example="{rate: {of: exc, between: [3 Hz, 12 Hz]}}",
            ),
            Alternative(
                "metric",
                Block(
                    "expectation",
                    (
                        Field(
                            "name",
                            Reference("metric", "validation_accuracy"),
                            "What stands in `metrics.jsonl`: `loss`, a metric, or either with "
                            "`validation_` before it. Its value at the last epoch counts.",
                            required=True,
                            example="name: validation_accuracy",
                        ),
                        _AT_LEAST,
                        _AT_MOST,
                    ),
                    title="expect_metric",
                    elsewhere={"min": "`at_least`", "max": "`at_most`", "of": "`name`"},
                    example="{name: validation_accuracy, at_least: 0.96}",
                    at_least_one=("at_least", "at_most"),
                ),
                "A metric of training.",
                example="{metric: {name: validation_accuracy, at_least: 0.96}}",
            ),
            Alternative(
                "spikes",
                Block(
                    "expectation",
                    (
                        Field(
                            "of",
                            POPULATIONS,
                            "The population, with recorded spikes.",
                            required=True,
                            example="of: exc",
                        ),
                        Field("count", COUNT, "The exact number of spikes.", example="count: 42"),
                        Field(
                            "at_least",
                            COUNT,
                            "The smallest number that is good.",
                            example="at_least: 1",
                        ),
                        Field(
                            "at_most",
                            COUNT,
                            "The largest number that is good.",
                            example="at_most: 1000",
                        ),
                    ),
                    title="expect_spikes",
                    elsewhere={"min": "`at_least`", "max": "`at_most`", "from": "`of`"},
                    example="{of: exc, at_least: 1}",
                    at_least_one=("count", "at_least", "at_most"),
                ),
                "The number of spikes of a population over the run.",
                example="{spikes: {of: exc, at_least: 1}}",
            ),
        ),
        title="expectation",
        doc="One thing that `netloom test` checks after a run.",
    ),
    example="[{rate: {of: exc, between: [3 Hz, 12 Hz]}}]",
)

NUMERICS = Block(
    "numerics",
    (
        Field(
            "precision",
            Choice(
                "precision",
                (
                    Option("float32", "32-bit floating point."),
                    Option("float64", "64-bit floating point."),
                ),
            ),
            "The type of expressions, state, weights and accumulators.",
            default="float32",
            example="precision: float64",
        ),
        Field(
            "order",
            Choice(
                "order",
                (
                    Option("fast", "Sums in any order."),
                    Option("reproducible", "The same bits on every run on one machine."),
                    Option("bitwise", "The same bits on every backend."),
                ),
            ),
            "What is promised about the order of sums.",
            default="reproducible",
            example="order: bitwise",
        ),
    ),
    doc="The numbers that the model computes with.",
    title="numerics",
    elsewhere={"dtype": "`precision`", "float": "`precision`"},
    example="{precision: float64}",
)

SWEEP = MapOf(
    "list of values",
    ListOf(Value("a number or a quantity", "1000"), low=1, example="[1000, 2000]"),
    key_example="n_exc",
    example="{n_exc: [1000, 2000]}",
)
