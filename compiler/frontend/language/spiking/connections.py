"""Sources of input to neurons: projections between populations, and external inputs.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example; a family of projections is one entry
with per-member values.
Does not: resolve names of populations, inputs or classes.
"""

from __future__ import annotations

import compiler.expr.keys.values as v
from compiler.connect import CONNECT
from compiler.connect.probability import PERIODIC, SPACING
from compiler.expr.keys.kinds import Block, Field, Kind, ListOf, MapOf, OneOf, Reference, instead, required
from compiler.frontend.language.control import CHOSEN_OTHERS
from compiler.frontend.language.spiking.currents import CURRENT_INPUT
from compiler.frontend.language.spiking.neurons import SETTINGS, STATE
from compiler.frontend.language.spiking.synapses import SYNAPSE_REFERENCE

_MEMBER_VALUES: Kind = OneOf(
    (
        ListOf(v.QUANTITY, low=1, example="[1600, 1500]"),
        v.FILE_ARRAY,
        MapOf(
            "value by class or population",
            v.QUANTITY,
            # A map with one of these keys is an array in a file.
            key=rf"^(?!(?:file|array|sha256)$){v.TEMPLATE_NAME}$",
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
        ),
        Field(
            "by_pair",
            OneOf(
                (
                    ListOf(ListOf(v.QUANTITY, low=1, example="[0.1, 0.2]"), low=1, example="[[0.1, 0.2], [0.3, 0]]"),
                    v.FILE_ARRAY,
                )
            ),
            "One value per pair of populations: a matrix with a row per target and a column per "
            "source, inline or from a file.",
        ),
        Field(
            "except",
            ListOf(
                Block(
                    "exception",
                    (
                        Field("from", v.POPULATIONS, "The source.", example="from: L4E"),
                        Field("to", v.POPULATIONS, "The target.", example="to: L23E"),
                        required("value", v.QUANTITY, "The value of these members.", example="value: 2"),
                    ),
                    example="{from: L4E, to: L23E, value: 2}",
                ),
                low=1,
                example="[{from: L4E, to: L23E, value: 2}]",
            ),
            "Members with another value, in order, later wins.",
        ),
    ),
    doc="A value that differs between the members of a family.",
    one_of=(("by_source", "by_target", "by_pair"),),
    example="{by_source: {exc: 1, inh: -4}}",
)

VALUES = Field(
    "values",
    MapOf("member value", MEMBER_VALUE, example="{strength: {by_source: {exc: 1, inh: -4}}}"),
    "Named values, one per member of the family, for use in the expressions of this entry.",
)

DELIVER = Block(
    "delivery",
    (
        required("into", Reference("input", "ge", v.TEMPLATE_KEY), "The input of the target that is added to."),
        Field(
            "weight",
            v.INITIAL,
            "What one spike adds, in the unit of the input: one value, a distribution (drawn per connection), or one "
            "for each connection, as a list or in a file. An expression may read places (`distance`), parameters of "
            "both populations (`from.x`, `to.x`), the number of synapses of a neuron (`n_in`, `n_out`), and sums over "
            "all projections into that input (`sum_into(x)`). Needed unless a `synapse` says what is delivered.",
        ),
    ),
    doc="What a spike does to the target.",
    title="deliver",
    elsewhere=instead("`weight`: w weights", "`into`: target input to"),
    example="{into: ge, weight: 1.62 mV}",
)

PROJECTION_VALUES = (
    required("connect", CONNECT, "Which neurons are connected.", example="connect: {fixed_probability: {p: 0.02}}"),
    Field(
        "synapse",
        SYNAPSE_REFERENCE,
        "The synapse model: a name of `synapses`, `library/synapses/...` or `other_file.yaml#name`. Without it, "
        "synapses are static: a spike delivers a weight.",
        example="synapse: stdp_additive",
    ),
    Field(
        "params",
        SETTINGS,
        "Values for parameters of the synapse model, in place of its defaults: one for all synapses, a "
        "distribution, or for `pairs` and `all_to_all` one for each, as a list or in a file. What the model declares "
        "without a unit takes that of its value here. An expression of the time `t`, or of counters of phases "
        "(`trial.count`), stands wherever the synapse reads the parameter.",
        example="params: {tau_pre: 17 ms}",
    ),
    Field(
        "init",
        STATE,
        "Initial values of the synapses' state variables, in place of the model's: one for all synapses, a "
        "distribution, or for `pairs` and `all_to_all` one for each, as a list or in a file.",
        example="init: {w: {uniform: {low: 0, high: w_max}}}",
    ),
    VALUES,
    Field(
        "deliver",
        DELIVER,
        "Which input a spike is delivered into, and with which weight. With a `synapse` there is no weight, and "
        "nothing to say here when the synapse names all of its inputs.",
    ),
    Field(
        "space",
        Block(
            "space",
            (SPACING, PERIODIC),
            doc="What `distance` means in `connect: {rule: ...}`, weights, delays, `params` and `init` of the entry.",
            example="{spacing: 20 um, periodic: true}",
        ),
        "How far apart neurons are: weights, delays, `params` and `init` may read `distance`, `i`, `j`, and the rows "
        "and columns of both ends (see `connect: {rule: ...}`).",
    ),
    Field(
        "delay",
        v.DELAY,
        "The time from a spike to its delivery, a whole number of steps. A synapse reads what was so long ago as "
        "`delayed(pre.v)`.",
        default="0 ms",
        example="delay: 1.5 ms",
    ),
    Field(
        "back_delay",
        v.DELAY,
        "The time from a spike of the target to the synapse's `on_post`, a whole number of steps. A synapse reads "
        "what was so long ago as `delayed(post.v)`.",
        default="0 ms",
        example="back_delay: 1 ms",
    ),
    Field(
        "clear",
        v.EVENT,
        "An event of `phases` at which what is on its way is forgotten: spikes with a `delay` or a `back_delay` that "
        "were emitted before it and have not arrived.",
        example="clear: trial.start",
    ),
    CHOSEN_OTHERS,
    Field(
        "mirror",
        Reference("projection", "forward", v.TEMPLATE_KEY),
        "The projection that connects the same neurons the other way round: its variables are what the synapse reads "
        "as `transpose(mirror.w)`.",
    ),
    Field(
        "occupied",
        v.FRACTION,
        "Where the synapse says `remove(...)` or `form(...)`: the probability that a place holds a synapse at the "
        "start. What `connect` draws are the places: there are never more synapses.",
        default=1,
        example="occupied: 0.3",
    ),
)

PROJECTION = Block(
    "projection",
    (
        v.USE,
        v.FOR,
        v.DESCRIPTION,
        required(
            "from",
            v.POPULATION_PARTS,
            "The source: a population, a list, `all`, or a class. Several make a family with one member per pair. A "
            "part of a population is `exc[0..399]`, `exc[0, 3, 7]` or `exc[x < w / 2]`, a condition over index `i`, "
            "column `x`, row `y` and channel `c` of its neurons, their number `n`, its width `w` and height `h`.",
        ),
        required(
            "to",
            v.POPULATION_PARTS,
            "The target: a population, a list, `all`, or a class, or a part of a population.",
            example="to: [exc, inh]",
        ),
        Field(
            "classes",
            v.CLASS_NAMES,
            "Classes whose settings the projection takes over, in this order; later ones win, its own win over all.",
            example="classes: [forward]",
        ),
        *PROJECTION_VALUES,
    ),
    doc="Connections from neurons of one population to those of another.",
    elsewhere=instead(
        "`from`: source pre",
        "`to`: target post",
        "`deliver: {into: ..., weight: ...}`: weight weights w into",
        "`connect`: connectivity connection rule",
        "`connect: {fixed_probability: {p: ...}}`: p",
        "`delay`: delays",
        "`synapse`: model synapse_model",
        "`synapse`, `params` and `delay`: syn_spec",
        "`back_delay`: dendritic_delay back_prop_delay backprop_delay",
        "`init`: initial",
        "`params`: parameters",
        "`synapse`: such keys stand in a definition under `synapses`: on_pre on_post dynamics state",
    ),
    at_least_one=("deliver", "synapse"),
    needs=(
        ("params", ("synapse",)),
        ("init", ("synapse",)),
        ("back_delay", ("synapse",)),
        ("occupied", ("synapse",)),
        ("mirror", ("synapse",)),
    ),
    open_with=("use", "classes"),
    example="{from: exc, to: inh, connect: {...}, deliver: {...}}",
)

STIMULUS = Block(
    "input",
    (
        v.USE,
        v.FOR,
        v.DESCRIPTION,
        required(
            "to",
            v.POPULATION_PARTS,
            "The target: a population, a list, `all`, or a class, or a part of a population, `exc[0..99]`: the others "
            "get nothing.",
            example="to: all",
        ),
        VALUES,
        Field(
            "poisson",
            Block(
                "Poisson input",
                (
                    required(
                        "rate",
                        v.RATE,
                        "The rate of the train of each neuron; it may read `t`, timed arrays (which then have their "
                        "value at the start of each step) and the place of the neuron, `self.i` and others.",
                    ),
                    required("into", Reference("input", "ge", v.TEMPLATE_KEY), "The input that is added to."),
                    required("weight", v.QUANTITY, "What one event adds.", example="weight: 0.5 mV"),
                ),
                title="poisson_input",
            ),
            "Independent Poisson trains, one per neuron; no source neurons are simulated.",
        ),
        Field(
            "current",
            CURRENT_INPUT,
            "A current: a constant, or one of `currents` or of the library. It is added in every step, and several "
            "into one parameter or input add up.",
        ),
    ),
    doc="What reaches neurons from outside the network.",
    title="stimulus",
    one_of=(("poisson", "current"),),
    open_with=("use",),
    example="{to: all, poisson: {rate: 8 Hz, into: ge, weight: 0.5 mV}}",
)


PROJECTIONS_MAP = MapOf("projection", PROJECTION, v.TEMPLATE_KEY, "excitation")
INPUTS_MAP = MapOf("input", STIMULUS, v.TEMPLATE_KEY, "background")
