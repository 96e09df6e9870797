"""`connect`: connectivity rules between source and target neurons.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every rule with its keys, hover texts, defaults and examples; keys have one meaning across rules. Does not:
check populations, shapes or files.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Choice,
    Expression,
    Field,
    Flag,
    ListOf,
    OneKey,
    OneOf,
    Option,
    Text,
)
from compiler.expr.keys.values import COUNT, FILE, FRACTION, POSITIVE, QUANTITY

_AUTAPSES = Field(
    "autapses",
    Flag(),
    "Whether a neuron may connect to itself, where source and target are one population.",
    default=True,
    example="autapses: false",
)

_NOT_ITSELF = Field(
    "autapses",
    Flag(),
    "Whether a population connects to itself, so that each of its neurons has an autapse. With `false` a projection "
    "between several populations leaves these pairs of populations out.",
    default=True,
    example="autapses: false",
)

_MULTAPSES = Field(
    "multapses",
    Flag(),
    "Whether a pair of neurons may be connected several times. With `false` partners are drawn without replacement.",
    default=True,
    example="multapses: false",
)

_STORAGE = Field(
    "storage",
    Choice(
        "storage",
        (
            Option("auto", "The compiler chooses."),
            Option("sparse", "A list of targets for each source."),
            Option("dense", "Every pair, without a list: for `all_to_all`."),
            Option("bitmask", "One bit for each pair; all connections have one weight and one delay."),
            Option("procedural", "Drawn again at every spike, never stored."),
            Option("toeplitz", "The doubly blocked Toeplitz matrix of a convolution, never stored."),
        ),
    ),
    "How the connections are held: the network and its results are the same, memory and time differ.",
    default="auto",
    example="storage: sparse",
)

_PAIR = ListOf(COUNT, low=2, high=2, example="[0, 3]")

_NUMBERS = {"n": "`number`", "N": "`number`", "total": "`number`", "count": "`number`"}
_FLAGS = {
    "allow_autapses": "`autapses`",
    "self": "`autapses`",
    "allow_self": "`autapses`",
    "allow_multapses": "`multapses`",
    "replace": "`multapses`",
}


def _two(name: str, positive: bool, doc: str, default: int | None, example: str) -> Field:
    """One number for both height and width, or a pair."""
    item = POSITIVE if positive else COUNT
    kind = OneOf((item, ListOf(item, low=2, high=2, example="[3, 3]")))
    return Field(name, kind, doc, required=default is None, default=default, example=example)


def _degree(name: str, of: str, word: str) -> Alternative:
    """`fixed_indegree` and `fixed_outdegree`."""
    number = Field(
        "number",
        COUNT,
        f"The number of connections of each {of} neuron. `n_from` and `n_to` are the sizes of the two populations.",
        required=True,
        example="number: 100",
    )
    return Alternative(
        name,
        Block(
            "connectivity",
            (number, _MULTAPSES, _AUTAPSES, _STORAGE),
            title=name,
            elsewhere=_NUMBERS | _FLAGS | {"indegree": "`number`", "outdegree": "`number`", "k": "`number`"},
            example="{number: 100}",
        ),
        f"A fixed number of {word} connections of every {of} neuron, whose partners are drawn uniformly.",
        example=f"{{{name}: {{number: 100}}}}",
    )


_RULE = Block(
    "connectivity",
    (
        Field(
            "probability",
            Expression("exp(-distance / 3)"),
            "The probability of the connection from neuron `i` of the source to neuron `j` of the target, drawn "
            "independently for each pair; above 1 counts as 1. It may use `i`, `j`, the sizes `n_from` and `n_to`, "
            "the columns, rows and channels `x_i`, `y_i`, `c_i`, `x_j`, `y_j`, `c_j` of both in the `shape` of their "
            "populations, widths and heights `w_from`, `h_from`, `w_to`, `h_to`, their `distance`, the parameters "
            "of the model, and the `values` of this entry.",
            example="probability: exp(-distance / 3)",
        ),
        Field(
            "when",
            Expression("abs(i - j) < 3"),
            "A condition over the same names: pairs for which it does not hold are not connected.",
            example="when: abs(i - j) < 3",
        ),
        Field(
            "spacing",
            replace(QUANTITY, low=0, above=True),
            "The distance between neighbours of the grid, which `distance` is measured in.",
            default=1,
            example="spacing: 20 um",
        ),
        Field(
            "periodic",
            Flag(),
            "Whether `distance` is measured on a torus: opposite borders of the grid are neighbours.",
            default=False,
            example="periodic: true",
        ),
        _AUTAPSES,
        _STORAGE,
    ),
    title="rule",
    at_least_one=("probability", "when"),
    elsewhere=_FLAGS
    | {
        "p": "`probability`",
        "prob": "`probability`",
        "condition": "`when`",
        "if": "`when`",
        "kernel": "`probability: exp(-distance / 3)`",
        "wrap": "`periodic`",
        "edge_wrap": "`periodic`",
    },
    example="{probability: exp(-distance / 3)}",
)

_PAIRS = Block(
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
            "The file that holds the connections: an `.npz`, a `.csv` with one named column each, or a SONATA `.h5`.",
            example="file: data/edges.npz",
        ),
        Field(
            "sources",
            Text("the name of an array", "sources"),
            "The array of source indices in `file`; without it, `sources` (SONATA: `source_node_id`).",
            example="sources: pre",
        ),
        Field(
            "targets",
            Text("the name of an array", "targets"),
            "The array of target indices in `file`; without it, `targets` (SONATA: `target_node_id`).",
            example="targets: post",
        ),
        Field(
            "population",
            Text("the name of a population of edges", "exc_to_inh"),
            "The population of edges in a SONATA file; needed when it has several.",
            example="population: exc_to_inh",
        ),
        _STORAGE,
    ),
    title="pairs",
    one_of=(("list", "file"),),
    needs=(("sources", ("file",)), ("targets", ("file",)), ("population", ("file",))),
    example="{list: [[0, 1], [0, 2]]}",
)

CONNECT = OneKey(
    "connectivity",
    (
        Alternative(
            "all_to_all",
            Block("connectivity", (_AUTAPSES, _STORAGE), title="all_to_all", elsewhere=_FLAGS),
            "Every source neuron to every target neuron.",
            example="{all_to_all: {}}",
        ),
        Alternative(
            "one_to_one",
            Block("connectivity", (_NOT_ITSELF, _STORAGE), title="one_to_one", elsewhere=_FLAGS),
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
                    _STORAGE,
                ),
                title="fixed_probability",
                elsewhere={"probability": "`p`", "prob": "`p`", "rate": "`p`"} | _FLAGS,
                example="{p: 0.02}",
            ),
            "Each pair with one probability, independently (Bernoulli).",
            example="{fixed_probability: {p: 0.02}}",
        ),
        _degree("fixed_indegree", "target", "incoming"),
        _degree("fixed_outdegree", "source", "outgoing"),
        Alternative(
            "fixed_total",
            Block(
                "connectivity",
                (
                    Field(
                        "number",
                        replace(COUNT, bits=53),
                        "The number of connections. `n_from` and `n_to` are the sizes of the two populations.",
                        required=True,
                        example="number: 10000",
                    ),
                    _MULTAPSES,
                    _AUTAPSES,
                    _STORAGE,
                ),
                title="fixed_total",
                elsewhere=_NUMBERS | _FLAGS,
                example="{number: 10000}",
            ),
            "A fixed number of connections, whose pairs are drawn uniformly. By default with replacement: a pair may "
            "be connected several times, a neuron with itself too.",
            example="{fixed_total: {number: 10000}}",
        ),
        Alternative(
            "rule",
            _RULE,
            "Pairs for which an expression over their indices, positions or distance says so.",
            example="{rule: {probability: exp(-distance / 3)}}",
        ),
        Alternative(
            "pairs",
            _PAIRS,
            "Given pairs, inline or from a file.",
            example="{pairs: {list: [[0, 1], [0, 2]]}}",
        ),
        Alternative(
            "conv2d",
            Block(
                "connectivity",
                (
                    _two("kernel", True, "The kernel's height and width.", None, "kernel: [3, 3]"),
                    _two("padding", False, "Rows and columns of zeros around the source.", 0, "padding: 1"),
                    _two("stride", True, "The step of the kernel, down and to the right.", 1, "stride: 2"),
                    Field(
                        "depthwise",
                        Flag(),
                        "Whether each channel has a kernel of its own and reaches that channel only.",
                        default=False,
                        example="depthwise: true",
                    ),
                    _STORAGE,
                ),
                title="connect_conv2d",
                elsewhere={"size": "`kernel`", "kernel_size": "`kernel`", "strides": "`stride`", "pad": "`padding`"},
                example="{kernel: [3, 3]}",
            ),
            "A convolution between populations with a `shape`. The weight is a kernel that all positions share: one "
            "number, or an array (out channels, in channels, height, width) in a file, or its numbers as a list.",
            example="{conv2d: {kernel: [3, 3]}}",
        ),
        Alternative(
            "avg_pool2d",
            Block(
                "connectivity",
                (
                    _two("size", True, "The window's height and width.", None, "size: 2"),
                    Field(
                        "stride",
                        OneOf((POSITIVE, ListOf(POSITIVE, low=2, high=2, example="[2, 2]"))),
                        "The step of the window; without it, its size.",
                        example="stride: 2",
                    ),
                    _STORAGE,
                ),
                title="connect_avg_pool2d",
                elsewhere={"kernel": "`size`", "kernel_size": "`size`", "window": "`size`", "strides": "`stride`"},
                example="{size: 2}",
            ),
            "The mean over windows, channel by channel, between populations with a `shape`: each connection has the "
            "weight divided by the number of neurons in the window.",
            example="{avg_pool2d: {size: 2}}",
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
        "indegree": "`fixed_indegree: {number: ...}`",
        "outdegree": "`fixed_outdegree: {number: ...}`",
        "expression": "`rule: {when: ...}` or `rule: {probability: ...}`",
        "condition": "`rule: {when: ...}`",
        "distance": "`rule: {probability: exp(-distance / 3)}`",
        "conv": "`conv2d: {kernel: ...}`",
        "convolution": "`conv2d: {kernel: ...}`",
        "toeplitz": "`conv2d: {kernel: ..., storage: toeplitz}`",
        "sonata": "`pairs: {file: edges.h5}`",
        "fixed_probability_connector": "`fixed_probability: {p: ...}`",
        "erdos_renyi": "`fixed_probability: {p: ...}`",
        "pairwise_bernoulli_on_source": "`fixed_probability: {p: ...}`",
        "fixed_number_pre": "`fixed_indegree: {number: ...}`",
        "fixed_number_post": "`fixed_outdegree: {number: ...}`",
    },
)
