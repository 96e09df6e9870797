"""Kinds that every part of the language uses: quantities, names, distributions, arrays in files.

Assumes: kinds.py.
Guarantees: one definition per notion, with the wording that messages and hover texts show.
Does not: describe a block of the file (see the modules beside this one).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.expr.keys.kinds as k
from compiler.expr import units
from compiler.expr.keys.kinds import Choice as ChoiceOf

TEMPLATE_NAME = r"(?:[A-Za-z]|\{[^{}]*\})(?:[A-Za-z0-9_]|\{[^{}]*\})*"
"""A name that may hold expressions in braces, as members that are made by `for` do."""

TEMPLATE_KEY = rf"^{TEMPLATE_NAME}$"

DEFINITION = rf"^(?:{TEMPLATE_NAME}|(?:[^#\s]+/)+{k.NAME}(?:#{k.NAME})?|[^#]+\.ya?ml(?:#{k.NAME})?)$"
"""`name`, `library/neurons/adex`, `library/axon#name` or `other_file.yaml#name` (without `#name`: refused by
resolve)."""

NUMBER = k.Value()
COUNT = k.Value("a whole number", "1000", integer=True, low=0)
POSITIVE = k.Value("a whole number", "3", integer=True, low=1)
TIME = k.Value("a time", "20 ms", dimension=units.TIME)
POSITIVE_TIME = k.Value("a time", "0.1 ms", low=0, above=True, dimension=units.TIME)
DURATION = k.Value("a time", "1 s", low=0, dimension=units.TIME)
RATE = k.Value("a rate", "8 Hz", low=0, dimension=units.FREQUENCY)
FRACTION = k.Value("a number from 0 to 1", "0.2", low=0, high=1)
PART = k.Value("a number from 0 to 1", "0.2", low=0, high=1, below=True)
QUANTITY = k.Value("a number or a quantity", "1.62 mV", dimension=None)

DESCRIPTION = k.Field(
    "description",
    k.Text("a description", "Excitatory neurons"),
    "What this is, for readers. It is kept in the run directory and has no other effect.",
)

USE = k.Field(
    "use",
    k.Reference("definition", "library/neurons/adex", DEFINITION),
    "Starts from another definition: all of its keys are taken over, and keys that stand here win. "
    "A name of this file, `library/...` or `other_file.yaml#name`.",
)

FOR = k.Field(
    "for",
    k.MapOf(
        "loop variable",
        k.OneOf(
            (
                k.Value("a whole number or a range", "0..9", integer=True, low=0),
                k.ListOf(QUANTITY, low=1, example="[1, 2, 4]"),
            )
        ),
        key_example="i",
        low=1,
        example="{i: 0..9}",
    ),
    "Makes one copy per value of the loop variable: a range `0..9` (both ends included), a number "
    "n (0 to n - 1), or a list of numbers or names. Several variables make every combination. In "
    "expressions a variable is a number; in names, that of the entry too, it stands in braces, "
    "alone or in an expression: `p{(i + 1) % n}`.",
)

EVENT = k.Pattern("an event", rf"^{k.NAME}\.{k.NAME}$", "trial.end")


def handlers(actions: k.Kind, event: str, done: str) -> k.MapOf:
    """What is done at events of phases. `event`, `done`: an example of each."""
    return k.MapOf("event", actions, EVENT.pattern, event, example=f"{{{event}: {done}}}")


CLASS_NAMES = k.ListOf(k.Reference("class", "exc", DEFINITION), low=1, example="[cortical, exc]")

FILE = k.Reference("file", "data/weights.npz", r"^.+\.(?:npy|npz|csv|h5|hdf5)$")

FILE_ARRAY = k.Block(
    "array in a file",
    (
        k.required(
            "file",
            FILE,
            "The file that holds the array: `.npy`, `.npz`, `.csv` or `.h5` (HDF5), relative to the model file.",
        ),
        k.Field(
            "array",
            k.Text("the name of an array", "weights"),
            "The name of the array inside an `.npz` file, of a column of a `.csv` whose first line names its columns, "
            "or the path of a data set in an `.h5` file; the other formats hold one array.",
        ),
        k.Field(
            "sha256",
            k.Pattern("a SHA-256 sum (64 hexadecimal digits)", r"^[0-9a-f]{64}$", "9f86d0...(64 digits)"),
            "The file's SHA-256 sum; the model is refused when the file has another one.",
        ),
    ),
    doc="An array that stands in a file; big arrays never stand in YAML.",
    title="file_array",
    example="{file: data/weights.npz, array: w}",
)

ROUND = k.Field(
    "round",
    ChoiceOf("rounding", (k.Option("nearest", "To the nearest whole number of steps of `dt`."),)),
    "How a time becomes a whole number of steps. Without it, a value that is not a whole number of steps is an error.",
)


def _distribution(title: str, quantity: k.Value, *, rounding: bool) -> k.OneKey:
    """The distributions over `quantity`; times may be rounded to steps."""

    def of(name: str, doc: str, required: bool = True) -> k.Field:
        return k.Field(name, quantity, doc, required=required)

    def one(name: str, doc: str, example: str, *fields: k.Field) -> k.Alternative:
        block = k.Block(
            f"{name} distribution",
            (*fields, ROUND) if rounding else fields,
            title=f"{title}_{name}",
            one_of=(("std", "relative_std"),) if relative in fields else (),
            elsewhere=k.instead("`std`: sigma stddev", "`mean`: mu", "`low`: a", "`high`: b"),
            example=example,
        )
        return k.Alternative(name, block, doc)

    low, high = of("min", "Values below are raised to it.", False), of("max", "Values above are lowered to it.", False)
    longest = of("max", "Values above are lowered to it: the longest delay.") if rounding else high
    mean = of("mean", "The mean.")
    std = k.Field("std", replace(quantity, low=0), "The standard deviation. Give this or `relative_std`.")
    relative = k.Field(
        "relative_std",
        k.Value("a number", "0.1", low=0),
        "The standard deviation as a part of the size of the mean. Give this or `std`.",
    )
    sign = k.switch("keep_sign", "Values whose sign is not that of the mean become 0, as weights need it.")
    q = quantity.example
    late = f", max: {q}, round: nearest" if rounding else ""
    permutation = one(
        "permutation",
        "Of neurons: values spread evenly from `low` to `high`, each once, in a random order.",
        "{low: 0.5, high: 2}",
        of("low", "The lowest value."),
        of("high", "The highest value."),
    )
    return k.OneKey(
        title.replace("_", " "),
        (
            one(
                "uniform",
                "Every value from `low` to `high` is equally likely.",
                "{low: 0.5 ms, high: 2 ms}" if rounding else "{low: -60 mV, high: -50 mV}",
                of("low", "The lowest value."),
                of("high", "The highest value (not reached)."),
            ),
            one(
                "normal",
                "The normal distribution; `min`, `max` and `keep_sign` bound it.",
                f"{{mean: {q}, relative_std: 0.1}}",
                *(mean, std, relative, low, high, sign),
            ),
            one(
                "exponential",
                "The exponential distribution; `min` and `max` bound it.",
                f"{{mean: {q}{late}}}",
                *(mean, low, longest),
            ),
            one(
                "lognormal",
                "The log-normal distribution; `mean` and `std` are those of the value, not of its logarithm, before "
                "`min` and `max` bound it.",
                f"{{mean: {q}, std: {q}{late}}}",
                *(mean, std, relative, low, longest),
            ),
            *(() if rounding else (permutation,)),
        ),
        title=title,
        doc="A value that is drawn anew for each element, from a stream of its own.",
        elsewhere=k.instead(
            "`normal`: gaussian gauss",
            "a projection from `library/neurons/poisson`: poisson",
            "`values: {x: {by_pair: ...}}` at the projection, and `x` here: by_pair",
            "`values: {x: {by_source: ...}}` at the projection, and `x` here: by_source",
            "`values: {x: {by_target: ...}}` at the projection, and `x` here: by_target",
        ),
    )


DISTRIBUTION = _distribution("distribution", QUANTITY, rounding=False)
DELAY_DISTRIBUTION = _distribution("delay_distribution", TIME, rounding=True)

PARAMETER = k.Block(
    "parameter",
    (
        k.Field("value", QUANTITY, "The default value; its unit is that of the parameter.", example="value: 20 ms"),
        k.Field(
            "unit",
            k.Text("a unit", "ms"),
            "The unit of a parameter without a default, which every user of the definition must give.",
        ),
        k.Field("description", k.Text("a description", "Membrane time constant"), "What the parameter means."),
    ),
    doc="A parameter of a definition, with a description.",
    title="definition_parameter",
    one_of=(("value", "unit"),),
    elsewhere={"default": "`value`", "doc": "`description`", "units": "`unit`"}
    | dict.fromkeys(
        ("uniform", "normal", "lognormal", "exponential", "file"),
        "`value`, what all have in common; what differs is given in `params` of a population or a projection",
    ),
    example="{value: 20 ms, description: Membrane time constant}",
)

INITIAL: k.Kind = k.OneOf((QUANTITY, DISTRIBUTION, k.ListOf(QUANTITY, low=1, example="[1 mV, 2 mV]"), FILE_ARRAY))
"""An initial value, a weight: one for all, a distribution, or one for each, as a list or in a file."""

_TIMES = k.ListOf(TIME, low=1, example="[1 ms, 1.5 ms]")

_ROUNDED_TIME = k.Block(
    "rounded time",
    (
        k.required(
            "value",
            k.OneOf((TIME, _TIMES)),
            "The delay, or for given pairs one for each, as a list.",
            example="value: 1.37 ms",
        ),
        ROUND,
    ),
    doc="A delay that may be rounded to whole steps.",
    example="{value: 1.37 ms, round: nearest}",
)

_DELAYS_IN_A_FILE = k.Block(
    "delays in a file",
    (*FILE_ARRAY.fields, ROUND),
    doc="One delay for each connection, in ms, which may be rounded to whole steps.",
    example="{file: data/edges.npz, array: delay, round: nearest}",
)

DELAY: k.Kind = k.OneOf((TIME, _ROUNDED_TIME, DELAY_DISTRIBUTION, _TIMES, _DELAYS_IN_A_FILE))
"""One delay, a distribution, or for given pairs one for each, as a list or in a file (ms)."""

POPULATION_REFERENCE = k.Reference("population", "exc", TEMPLATE_KEY, ("all",))

POPULATIONS: k.Kind = k.OneOf((POPULATION_REFERENCE, k.ListOf(POPULATION_REFERENCE, low=1, example="[exc, inh]")))
"""One population, several, `all`, or the members of a class."""

_PARTS = k.Reference("population", "exc", rf"^{TEMPLATE_NAME}(?:\s*\[[^\[\]]*\]\s*)?$", ("all",))

POPULATION_PARTS: k.Kind = k.OneOf((_PARTS, k.ListOf(_PARTS, low=1, example="[exc, inh]")))
"""As POPULATIONS, or parts of populations: `exc[0..399]`, `exc[x < w / 2]`."""

NAMES: k.Kind = k.ListOf(k.Name("v"), low=1, example="[v, ge]")


def values_map(noun: str, value: k.Kind, example: str) -> k.MapOf:
    """A map from names (parameters, state variables) to values."""
    return k.MapOf(noun, value, example=example)


def statements(example: str = "v = v_reset", shown: str = "[v = v_reset]", low: int = 0) -> k.Kind:
    """A list of statements, in which some may be grouped under names; a map replaces such parts of a list that `use`
    takes over. `shown`: an example of the list."""
    part = k.MapOf("part", k.ListOf(k.Statement(example), example=shown), key_example="membrane", low=1)
    return k.OneOf((k.ListOf(k.OneOf((k.Statement(example), part)), low=low, example=shown), part))
