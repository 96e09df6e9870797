"""The spiking part of the language: neurons, synapses, populations, projections, inputs.

Assumes: kinds.py, values.py.
Guarantees: every key of these blocks, with its hover text, default and example; what a later stage
cannot lower yet is marked `supported=False` here and nowhere else.
Does not: check names, dimensions or expressions.
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
    Expression,
    Field,
    Flag,
    Kind,
    ListOf,
    MapOf,
    Name,
    OneKey,
    OneOf,
    Option,
    Reference,
    Statement,
    Text,
    Value,
)
from compiler.frontend.language.values import (
    COUNT,
    DEFINITION,
    DELAY,
    DESCRIPTION,
    FILE,
    FILE_ARRAY,
    FOR,
    FRACTION,
    INITIAL,
    PARAMETER,
    POPULATIONS,
    POSITIVE,
    QUANTITY,
    RATE,
    ROUND,
    TEMPLATE_KEY,
    TEMPLATE_NAME,
    TIME,
    USE,
    values_map,
)

PARAMS: Kind = MapOf("parameter", OneOf((QUANTITY, PARAMETER)), example="{tau_m: 20 ms}")
"""Parameters of a definition, with their defaults."""

SETTINGS: Kind = MapOf("parameter", INITIAL, example="{tau_m: 10 ms}")
"""Values for the parameters of a definition."""

STATE = values_map("state variable", INITIAL, "{v: v_rest}")
STATEMENTS = ListOf(Statement(), example="[v = v_reset]")

DYNAMICS = MapOf(
    "differential equation",
    Expression("(v_rest - v) / tau_m"),
    key=r"^d[A-Za-z][A-Za-z0-9_]*/dt$",
    key_example="dv/dt",
    low=1,
    example="{dv/dt: (v_rest - v) / tau_m}",
)

LET = Field(
    "let",
    MapOf("named expression", Expression("0.32 * (v + 54 mV)"), example=("{alpha: 0.32 * (v + 54 mV)}")),
    "Names for subexpressions, in order; each may use those before it. They are put in where they "
    "are used and cost no state.",
    example="let: {i_total: g_l * (e_l - v) + i_syn}",
)

_METHOD = Choice(
    "integration method",
    (
        Option(
            "auto",
            "`exact` where the equations are linear, `exponential_euler` where each is in its own "
            "variable, `rk4` otherwise.",
        ),
        Option("exact", "The solution itself; for linear equations, coupled ones too."),
        Option("exponential_euler", "Exact in a variable's own linear part, others held over the step."),
        Option("euler", "Forward Euler, first order."),
        Option("rk2", "The midpoint rule, second order."),
        Option("rk4", "The classical Runge-Kutta rule, fourth order."),
    ),
)

INPUT = Block(
    "input",
    (
        Field(
            "unit",
            Text("a unit", "mV"),
            "The unit of the accumulated value; without it the input is a bare number.",
            example="unit: mV",
        ),
        Field(
            "decay",
            TIME,
            "The time constant with which the input decays by itself, exactly. Without it, the "
            "input holds what arrived in the last step and starts from zero again in each.",
            example="decay: tau_e",
        ),
        DESCRIPTION,
    ),
    doc=("What projections deliver into; several may deliver into one input, and their contributions add up."),
    title="neuron_input",
    elsewhere={"tau": "`decay`", "time_constant": "`decay`", "units": "`unit`"},
    example="{unit: mV, decay: tau_e}",
)

_REFRACTORY: Kind = OneOf(
    (
        TIME,
        Block(
            "refractory period",
            (
                Field(
                    "time",
                    TIME,
                    "How long the period lasts; a whole number of steps.",
                    required=True,
                    example="time: 2 ms",
                ),
                Field(
                    "hold",
                    ListOf(Name("v"), low=1, example="[v]"),
                    "The state variables that keep their value during the period. Without it, "
                    "those in the condition `when`.",
                    example="hold: [v]",
                ),
                ROUND,
            ),
            title="refractory",
            example="{time: 2 ms, hold: [v]}",
        ),
    )
)

SPIKE = Block(
    "spike",
    (
        Field(
            "when",
            Expression("v > v_thresh"),
            "The condition for a spike, tested at the end of each step.",
            required=True,
            example="when: v > v_thresh",
        ),
        Field(
            "reset",
            STATEMENTS,
            "Assignments that run at a spike, in order.",
            example="reset: [v = v_reset]",
        ),
        Field(
            "refractory",
            _REFRACTORY,
            "For this long after a spike the held state does not change and no spike is emitted; "
            "inputs keep decaying. A time, or `{time: ..., hold: [...]}` to say which variables "
            "are held.",
            default="0 ms",
            example="refractory: 2 ms",
        ),
    ),
    doc="When a neuron spikes and what happens then.",
    title="spike",
    elsewhere={
        "threshold": "`when`",
        "condition": "`when`",
        "if": "`when`",
        "t_ref": "`refractory`",
    },
    example="{when: v > v_thresh, reset: [v = v_reset]}",
)

_EQUATIONS_ELSEWHERE = {
    "equations": "`dynamics: {dv/dt: ...}`",
    "eqs": "`dynamics: {dv/dt: ...}`",
    "model": "`dynamics: {dv/dt: ...}`",
    "ode": "`dynamics: {dv/dt: ...}`",
    "derivatives": "`dynamics: {dv/dt: ...}`",
    "threshold": "`spike: {when: ...}`",
    "reset": "`spike: {reset: [...]}`",
    "refractory": "`spike: {refractory: ...}`",
    "parameters": "`params`",
    "variables": "`state`",
    "vars": "`state`",
    "sim_code": "`update: [...]`",
    "step": "`update: [...]`",
    "integrator": "`method`",
}

NEURON = Block(
    "neuron",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "params",
            PARAMS,
            "Parameters with their default values; a population may give others. They do not change during a run.",
            example="params: {tau_m: 20 ms, v_rest: -65 mV}",
        ),
        Field(
            "state",
            STATE,
            "State variables, one of each per neuron, with their initial values; a population's "
            "`init` may give others. A value with a unit also says which dimension the variable "
            "has.",
            example="state: {v: v_rest}",
        ),
        Field(
            "inputs",
            MapOf("input", INPUT, example="{ge: {unit: mV, decay: 5 ms}}"),
            "Named accumulators that projections deliver into.",
            example="inputs: {ge: {unit: mV, decay: 5 ms}}",
        ),
        LET,
        Field(
            "dynamics",
            DYNAMICS,
            "Ordinary differential equations, one for each variable that changes by itself. They "
            "are integrated over a step by `method`, before `update` runs.",
            example="dynamics: {dv/dt: (v_rest - v + ge) / tau_m}",
        ),
        Field(
            "update",
            STATEMENTS,
            "Assignments that run once per step, in order, each reading the newest values.",
            example="update: [v = v + dt * (v_rest - v) / tau_m]",
        ),
        Field(
            "spike",
            SPIKE,
            "When the neuron spikes, and what happens then.",
            example="spike: {when: v > 30 mV}",
        ),
        Field(
            "source",
            Choice(
                "source",
                (
                    Option(
                        "spike_times",
                        "Spikes at given times; the parameters are `times` and `indices`.",
                    ),
                ),
            ),
            "For neurons that have no equations: where their spikes come from.",
            example="source: spike_times",
        ),
        Field(
            "method",
            _METHOD,
            "How `dynamics` are integrated. The method that is taken is reported.",
            default="auto",
            example="method: rk4",
        ),
    ),
    doc="A neuron model: the state of one neuron, how it changes, and when it spikes.",
    title="neuron",
    elsewhere=_EQUATIONS_ELSEWHERE,
    open_with=("use",),
    example="{state: {v: -65 mV}, dynamics: {dv/dt: ...}}",
)

_TRACE = Block(
    "trace",
    (
        Field(
            "state",
            STATE,
            "Variables, one of each per neuron.",
            required=True,
            example="state: {x: 0}",
        ),
        Field("dynamics", DYNAMICS, "Their equations.", example="dynamics: {dx/dt: -x / tau_pre}"),
        Field(
            "on_spike",
            STATEMENTS,
            "Runs when that neuron spikes.",
            example="on_spike: [x = x + a_pre]",
        ),
    ),
    doc="Variables that are held once per neuron and shared by all of its synapses.",
    title="synapse_trace",
    example="{state: {x: 0}, dynamics: {dx/dt: -x / tau}}",
)

SYNAPSE = Block(
    "synapse",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "params",
            PARAMS,
            "Parameters with their default values.",
            example="params: {tau_pre: 20 ms}",
        ),
        Field(
            "state",
            STATE,
            "Variables, one of each per synapse, with their initial values.",
            example="state: {w: 0.5}",
        ),
        Field(
            "pre",
            _TRACE,
            "Variables of the presynaptic neuron, read as `pre.x`.",
            example="pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau_pre}, on_spike: [x = x + 1]}",
        ),
        Field(
            "post",
            _TRACE,
            "Variables of the postsynaptic neuron, read as `post.y`.",
            example=("post: {state: {y: 0}, dynamics: {dy/dt: -y / tau_post}, on_spike: [y = y + 1]}"),
        ),
        Field(
            "on_pre",
            STATEMENTS,
            "Runs when a presynaptic spike arrives; `deliver(w)` adds to the target's input.",
            example="on_pre: [deliver(w), w = w + post.y]",
        ),
        Field(
            "on_post",
            STATEMENTS,
            "Runs when the postsynaptic neuron spikes.",
            example="on_post: [w = w + pre.x]",
        ),
    ),
    doc="A synapse model with state of its own, such as a plasticity rule.",
    title="synapse",
    elsewhere={
        "pre_code": "`on_pre`",
        "post_code": "`on_post`",
        "model": "`state` and `pre`/`post`",
    },
    open_with=("use",),
    example="{state: {w: 0.5}, on_pre: [deliver(w)]}",
)

CLASS_NAMES = ListOf(Reference("class", "exc", TEMPLATE_KEY), low=1, example="[cortical, exc]")

LIBRARY_NEURONS = (
    "adex",
    "hodgkin_huxley",
    "izhikevich",
    "lif",
    "lif_cond_exp",
    "lif_psc_alpha",
    "lif_psc_exp",
    "lif_psc_exp_2",
    "poisson",
    "spike_times",
)
"""The files of models/library/neurons, which editors offer; a test compares the two."""

NEURON_REFERENCE = Reference(
    "neuron",
    "library/neurons/lif",
    DEFINITION,
    tuple(f"library/neurons/{name}" for name in LIBRARY_NEURONS),
)

_POPULATION_VALUES = (
    Field(
        "neuron",
        NEURON_REFERENCE,
        "The neuron model: a name of `neurons`, `library/neurons/...` or `other_file.yaml#name`.",
        example="neuron: library/neurons/adex",
    ),
    Field(
        "size",
        Value("a whole number", "1000", integer=True, low=1),
        "The number of neurons.",
        example="size: 1000",
    ),
    Field(
        "shape",
        ListOf(POSITIVE, low=1, example="[1, 64, 64]"),
        "The extents of a population that is laid out in space, in place of `size`: channels, height, width.",
        example="shape: [1, 64, 64]",
        supported=False,
    ),
    Field(
        "params",
        SETTINGS,
        "Values for parameters of the neuron model, in place of its defaults: one for all "
        "neurons, a distribution, or one for each neuron, as a list or in a file.",
        example="params: {tau_m: 10 ms}",
    ),
    Field(
        "init",
        STATE,
        "Initial values of state variables, in place of the model's: one for all neurons, a "
        "distribution, or one for each neuron, as a list or in a file.",
        example="init: {v: {uniform: {low: -60 mV, high: -50 mV}}}",
    ),
)

_POPULATION_ELSEWHERE = {
    "N": "`size`",
    "n": "`size`",
    "count": "`size`",
    "num": "`size`",
    "number": "`size`",
    "neurons": "`neuron` (a name) and `size` (their number)",
    "model": "`neuron`",
    "type": "`neuron`",
    "cell": "`neuron`",
    "parameters": "`params`",
    "initial": "`init`",
    "class": "`classes: [...]`",
    "initialize": "`init`",
}

CLASS = Block(
    "class",
    (USE, FOR, DESCRIPTION, *_POPULATION_VALUES),
    doc="Settings for all populations that name this class.",
    title="class",
    elsewhere=_POPULATION_ELSEWHERE,
    open_with=("use",),
    example="{neuron: library/neurons/lif, params: {tau_m: 10 ms}}",
)

POPULATION = Block(
    "population",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "classes",
            CLASS_NAMES,
            "The classes that the population belongs to. Settings of `classes` are applied in "
            "this order, later ones win, and the population's own win over all; a class without "
            "settings groups populations, for `from`, `to` and `by_source`.",
            example="classes: [cortical, exc]",
        ),
        *(
            Field(f.name, f.kind, f.doc, f.name == "neuron", f.default, f.example, f.supported)
            for f in _POPULATION_VALUES
        ),
    ),
    doc="Neurons of one model.",
    title="population",
    one_of=(("size", "shape"),),
    elsewhere=_POPULATION_ELSEWHERE,
    open_with=("use", "classes"),
    example="{neuron: library/neurons/lif, size: 1000}",
)

_AUTAPSES = Field(
    "autapses",
    Flag(),
    "Whether a neuron may connect to itself, where source and target are one population.",
    default=True,
    example="autapses: false",
)

_PAIR = ListOf(COUNT, low=2, high=2, example="[0, 3]")

CONNECT = OneKey(
    "connectivity",
    (
        Alternative(
            "all_to_all",
            Block("connectivity", (_AUTAPSES,), title="all_to_all"),
            "Every source neuron to every target neuron.",
            example="{all_to_all: {}}",
        ),
        Alternative(
            "one_to_one",
            Block("connectivity", (), title="one_to_one"),
            "Neuron i to neuron i; both populations have one size.",
            example="{one_to_one: {}}",
        ),
        Alternative(
            "fixed_probability",
            Block(
                "connectivity",
                (
                    Field(
                        "p",
                        FRACTION,
                        "The probability of each connection, drawn independently.",
                        required=True,
                        example="p: 0.02",
                    ),
                    _AUTAPSES,
                ),
                title="fixed_probability",
                elsewhere={"probability": "`p`", "prob": "`p`", "rate": "`p`"},
                example="{p: 0.02}",
            ),
            "Each pair with one probability, independently (Bernoulli).",
            example="{fixed_probability: {p: 0.02}}",
        ),
        Alternative(
            "fixed_total",
            Block(
                "connectivity",
                (
                    Field(
                        "number",
                        COUNT,
                        "The number of connections. `n_from` and `n_to` are the sizes of the two populations.",
                        required=True,
                        example="number: 10000",
                    ),
                ),
                title="fixed_total",
                elsewhere={
                    "n": "`number`",
                    "N": "`number`",
                    "total": "`number`",
                    "count": "`number`",
                },
                example="{number: 10000}",
            ),
            "A fixed number of connections, drawn with replacement: a pair may be connected "
            "several times, a neuron with itself too.",
            example="{fixed_total: {number: 10000}}",
        ),
        Alternative(
            "pairs",
            Block(
                "connectivity",
                (
                    Field(
                        "list",
                        ListOf(_PAIR, low=1, example="[[0, 1], [0, 2]]"),
                        "The connections as [source, target], counted from 0. Their order is kept.",
                        example="list: [[0, 1], [0, 2]]",
                    ),
                    Field(
                        "file",
                        FILE,
                        "The file that holds the connections: an `.npz`, or a `.csv` with one named column each.",
                        example="file: data/edges.npz",
                    ),
                    Field(
                        "sources",
                        Text("the name of an array", "sources"),
                        "The array of source indices in `file`; without it, `sources`.",
                        example="sources: pre",
                    ),
                    Field(
                        "targets",
                        Text("the name of an array", "targets"),
                        "The array of target indices in `file`; without it, `targets`.",
                        example="targets: post",
                    ),
                ),
                title="pairs",
                one_of=(("list", "file"),),
                needs=(("sources", ("file",)), ("targets", ("file",))),
                example="{list: [[0, 1], [0, 2]]}",
            ),
            "Given pairs, inline or from a file.",
            example="{pairs: {list: [[0, 1], [0, 2]]}}",
        ),
        Alternative(
            "conv2d",
            Block(
                "connectivity",
                (
                    Field(
                        "kernel",
                        OneOf((POSITIVE, ListOf(POSITIVE, low=2, high=2, example="[3, 3]"))),
                        "The kernel's height and width.",
                        required=True,
                        example="kernel: [3, 3]",
                    ),
                    Field(
                        "padding",
                        OneOf((COUNT, ListOf(COUNT, low=2, high=2, example="[1, 1]"))),
                        "Rows and columns of zeros around the source.",
                        default=0,
                        example="padding: 1",
                    ),
                    Field(
                        "stride",
                        OneOf((POSITIVE, ListOf(POSITIVE, low=2, high=2, example="[2, 2]"))),
                        "The step of the kernel.",
                        default=1,
                        example="stride: 2",
                    ),
                    Field(
                        "storage",
                        Choice(
                            "storage",
                            (
                                Option("auto", "The compiler chooses."),
                                Option("sparse", "Stored connections."),
                                Option("procedural", "Computed from the positions, never stored."),
                                Option("toeplitz", "The doubly blocked Toeplitz product, never stored."),
                            ),
                        ),
                        "How the connections are held; the result is the same.",
                        default="auto",
                        example="storage: toeplitz",
                    ),
                ),
                title="connect_conv2d",
            ),
            "A convolution between populations with a `shape`; the weight is a kernel that all positions share.",
            supported=False,
            example="{conv2d: {kernel: [3, 3]}}",
        ),
    ),
    title="connect",
    doc="Which source neurons are connected to which target neurons.",
    elsewhere={
        "fixed_prob": "`fixed_probability: {p: ...}`",
        "bernoulli": "`fixed_probability: {p: ...}`",
        "pairwise_bernoulli": "`fixed_probability: {p: ...}`",
        "random": "`fixed_probability: {p: ...}`",
        "probability": "`fixed_probability: {p: ...}`",
        "p": "`fixed_probability: {p: ...}`",
        "dense": "`all_to_all: {}`",
        "full": "`all_to_all: {}`",
        "list": "`pairs: {list: [...]}`",
        "fixed_total_number": "`fixed_total: {number: ...}`",
    },
)

_MEMBER_VALUES: Kind = OneOf(
    (
        ListOf(QUANTITY, low=1, example="[1600, 1500]"),
        FILE_ARRAY,
        MapOf(
            "value by class or population",
            QUANTITY,
            # A map with one of these keys is an array in a file.
            key=rf"^(?!(?:file|array|sha256)$){TEMPLATE_NAME}$",
            key_example="exc",
            low=1,
            example="{exc: 1, inh: -4}",
        ),
    )
)

MEMBER_VALUE = Block(
    "member value",
    (
        Field(
            "by_source",
            _MEMBER_VALUES,
            "One value per source population: a map from classes or populations, a list in the "
            "order of `populations`, or an array in a file.",
            example="by_source: {exc: 1, inh: g}",
        ),
        Field(
            "by_target",
            _MEMBER_VALUES,
            "One value per target population: a map from classes or populations, a list in the "
            "order of `populations`, or an array in a file.",
            example="by_target: [1600, 1500]",
        ),
        Field(
            "by_pair",
            OneOf(
                (
                    ListOf(
                        ListOf(QUANTITY, low=1, example="[0.1, 0.2]"),
                        low=1,
                        example="[[0.1, 0.2], [0.3, 0]]",
                    ),
                    FILE_ARRAY,
                )
            ),
            "One value per pair of populations: a matrix with a row per target and a column per "
            "source, inline or from a file.",
            example="by_pair: [[0.1, 0.2], [0.3, 0]]",
        ),
        Field(
            "except",
            ListOf(
                Block(
                    "exception",
                    (
                        Field("from", POPULATIONS, "The source.", example="from: L4E"),
                        Field("to", POPULATIONS, "The target.", example="to: L23E"),
                        Field(
                            "value",
                            QUANTITY,
                            "The value of these members.",
                            required=True,
                            example="value: 2",
                        ),
                    ),
                    title="exception",
                    example="{from: L4E, to: L23E, value: 2}",
                ),
                low=1,
                example="[{from: L4E, to: L23E, value: 2}]",
            ),
            "Members with another value, in order, later wins.",
            example="except: [{from: L4E, to: L23E, value: 2}]",
        ),
    ),
    doc="A value that differs between the members of a family.",
    title="member_value",
    one_of=(("by_source", "by_target", "by_pair"),),
    example="{by_source: {exc: 1, inh: -4}}",
)

VALUES = Field(
    "values",
    MapOf("member value", MEMBER_VALUE, example="{strength: {by_source: {exc: 1, inh: -4}}}"),
    "Named values, one per member of the family, for use in the expressions of this entry.",
    example="values: {strength: {by_source: {exc: 1, inh: -4}}}",
)

DELIVER = Block(
    "delivery",
    (
        Field(
            "into",
            Reference("input", "ge", TEMPLATE_KEY),
            "The input of the target that is added to.",
            required=True,
            example="into: ge",
        ),
        Field(
            "weight",
            INITIAL,
            "What one spike adds, in the unit of the input: one value, a distribution (drawn per "
            "connection), or one for each connection, as a list or in a file. Needed unless a "
            "`synapse` says what is delivered.",
            example="weight: 1.62 mV",
        ),
    ),
    doc="What a spike does to the target.",
    title="deliver",
    elsewhere={
        "w": "`weight`",
        "weights": "`weight`",
        "target": "`into`",
        "input": "`into`",
        "to": "`into`",
    },
    example="{into: ge, weight: 1.62 mV}",
)

PROJECTION = Block(
    "projection",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "from",
            POPULATIONS,
            "The source: a population, a list, `all`, or a class. Several make a family with one member per pair.",
            required=True,
            example="from: exc",
        ),
        Field(
            "to",
            POPULATIONS,
            "The target: a population, a list, `all`, or a class.",
            required=True,
            example="to: [exc, inh]",
        ),
        Field(
            "connect",
            CONNECT,
            "Which neurons are connected.",
            required=True,
            example="connect: {fixed_probability: {p: 0.02}}",
        ),
        Field(
            "synapse",
            Reference("synapse", "library/synapses/stdp", DEFINITION),
            "The synapse model; without it, synapses are static.",
            example="synapse: stdp_additive",
            supported=False,
        ),
        VALUES,
        Field(
            "deliver",
            DELIVER,
            "Which input a spike is delivered into, and with which weight.",
            required=True,
            example="deliver: {into: ge, weight: 1.62 mV}",
        ),
        Field(
            "delay",
            DELAY,
            "The time from a spike to its delivery, a whole number of steps.",
            default="0 ms",
            example="delay: 1.5 ms",
        ),
    ),
    doc="Connections from neurons of one population to those of another.",
    title="projection",
    elsewhere={
        "source": "`from`",
        "pre": "`from`",
        "target": "`to`",
        "post": "`to`",
        "weight": "`deliver: {into: ..., weight: ...}`",
        "weights": "`deliver: {into: ..., weight: ...}`",
        "w": "`deliver: {into: ..., weight: ...}`",
        "into": "`deliver: {into: ..., weight: ...}`",
        "connectivity": "`connect`",
        "connection": "`connect`",
        "rule": "`connect`",
        "p": "`connect: {fixed_probability: {p: ...}}`",
        "delays": "`delay`",
        "model": "`synapse`",
    },
    open_with=("use",),
    example="{from: exc, to: inh, connect: {...}, deliver: {...}}",
)

STIMULUS = Block(
    "input",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "to",
            POPULATIONS,
            "The target: a population, a list, `all`, or a class.",
            required=True,
            example="to: all",
        ),
        VALUES,
        Field(
            "poisson",
            Block(
                "Poisson input",
                (
                    Field(
                        "rate",
                        RATE,
                        "The rate of the train of each neuron.",
                        required=True,
                        example="rate: 8 Hz",
                    ),
                    Field(
                        "into",
                        Reference("input", "ge", TEMPLATE_KEY),
                        "The input that is added to.",
                        required=True,
                        example="into: ge",
                    ),
                    Field(
                        "weight",
                        QUANTITY,
                        "What one event adds.",
                        required=True,
                        example="weight: 0.5 mV",
                    ),
                ),
                title="poisson_input",
                example="{rate: 8 Hz, into: ge, weight: 0.5 mV}",
            ),
            "Independent Poisson trains, one per neuron; no source neurons are simulated.",
            example="poisson: {rate: 8 Hz, into: ge, weight: 0.5 mV}",
        ),
        Field(
            "current",
            Block(
                "current input",
                (
                    Field(
                        "into",
                        Reference("input", "I_e", TEMPLATE_KEY),
                        "The input that is added to.",
                        required=True,
                        example="into: I_e",
                    ),
                    Field(
                        "amplitude",
                        QUANTITY,
                        "What is added in every step.",
                        required=True,
                        example="amplitude: 100 pA",
                    ),
                ),
                title="current_input",
                example="{into: I_e, amplitude: 100 pA}",
            ),
            "A constant current.",
            example="current: {into: I_e, amplitude: 100 pA}",
        ),
    ),
    doc="What reaches neurons from outside the network.",
    title="stimulus",
    one_of=(("poisson", "current"),),
    open_with=("use",),
    example="{to: all, poisson: {rate: 8 Hz, into: ge, weight: 0.5 mV}}",
)

NEURONS = MapOf("neuron", NEURON, TEMPLATE_KEY, "lif", example="{lif: {state: {v: -65 mV}, ...}}")
SYNAPSES = MapOf("synapse", SYNAPSE, TEMPLATE_KEY, "stdp")
CLASSES = MapOf("class", CLASS, TEMPLATE_KEY, "cortical")
POPULATIONS_MAP = MapOf("population", POPULATION, TEMPLATE_KEY, "exc", example=("{exc: {neuron: lif, size: 1000}}"))
PROJECTIONS_MAP = MapOf("projection", PROJECTION, TEMPLATE_KEY, "excitation")
INPUTS_MAP = MapOf("input", STIMULUS, TEMPLATE_KEY, "background")
