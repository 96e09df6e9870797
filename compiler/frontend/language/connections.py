"""What reaches neurons: projections between populations, and inputs from outside.

Assumes: kinds.py, values.py.
Guarantees: every key of these blocks, with its hover text, default and example; families of
projections are described here as one entry with values per member.
Does not: know populations, inputs or classes by name.
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
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
    Option,
    Reference,
    Text,
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
    POPULATIONS,
    POSITIVE,
    QUANTITY,
    RATE,
    TEMPLATE_KEY,
    TEMPLATE_NAME,
    USE,
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
            "order of `from` (`all` and classes: that of `populations`), or an array in a file.",
            example="by_source: {exc: 1, inh: g}",
        ),
        Field(
            "by_target",
            _MEMBER_VALUES,
            "One value per target population: a map from classes or populations, a list in the "
            "order of `to` (`all` and classes: that of `populations`), or an array in a file.",
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
                        Reference("parameter", "I_e", TEMPLATE_KEY),
                        "The parameter of the neuron that is added to.",
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


PROJECTIONS_MAP = MapOf("projection", PROJECTION, TEMPLATE_KEY, "excitation")
INPUTS_MAP = MapOf("input", STIMULUS, TEMPLATE_KEY, "background")
