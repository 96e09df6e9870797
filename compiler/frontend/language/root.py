"""The language as a whole: the keys of a model file.

Assumes: the parts beside this module.
Guarantees: ROOT describes every file that the compiler reads, a model or a file of definitions.
Does not: describe nested blocks.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.expr.keys.kinds as k
from compiler.expr.keys.values import DESCRIPTION, FOR, QUANTITY, TEMPLATE_KEY, USE
from compiler.frontend.language.control import PHASES
from compiler.frontend.language.network import NETWORK
from compiler.frontend.language.plots import PLOTS
from compiler.frontend.language.recording import RECORD
from compiler.frontend.language.run import EXPECT, NUMERICS, SIMULATE
from compiler.frontend.language.spiking.connections import INPUTS_MAP, PROJECTION_VALUES, PROJECTIONS_MAP
from compiler.frontend.language.spiking.currents import CURRENTS, TABLES, TIMED
from compiler.frontend.language.spiking.neurons import NEURONS
from compiler.frontend.language.spiking.populations import POPULATION_ELSEWHERE, POPULATION_VALUES, POPULATIONS_MAP
from compiler.frontend.language.spiking.synapses import SYNAPSES
from compiler.frontend.language.sweep import SWEEP
from compiler.frontend.language.training.training import FUNCTIONS, OPTIMIZERS, TRAIN


def _values() -> tuple[k.Field, ...]:
    """The keys of both, each once: `params` and `init` are of one kind in both."""
    found = {f.name: replace(f, required=False) for f in (*PROJECTION_VALUES, *POPULATION_VALUES)}
    for name, of in (("params", "neuron or synapse model"), ("init", "state variables, in place of the model's")):
        first = "Values for parameters of the " if name == "params" else "Initial values of "
        found[name] = replace(found[name], doc=f"{first}{of}, as populations and projections give them.")
    return tuple(found.values())


CLASS = k.Block(
    "class",
    (USE, FOR, DESCRIPTION, *_values()),
    doc="Settings for all populations, or all projections, that name this class.",
    elsewhere=POPULATION_ELSEWHERE,
    open_with=("use",),
    example="{neuron: library/neurons/lif, params: {tau_m: 10 ms}}",
)

CLASSES = k.MapOf("class", CLASS, TEMPLATE_KEY, "cortical")


PARAMETER = k.Block(
    "parameter",
    (
        k.required(
            "value",
            k.OneOf((QUANTITY, k.Flag())),
            "The value, unless `--set` gives another: a number, a quantity, or an expression over "
            "the parameters before.",
            example="value: 3200",
        ),
        k.Field(
            "type",
            k.choice(
                "parameter type",
                float="A number or a quantity.",
                int="A whole number.",
                bool="`true` or `false`.",
                choice="A word of `choices`; it may stand for an activation, a neuron, an optimizer.",
            ),
            "What the values are. `true` and `false` need no type.",
            default="float",
        ),
        k.Field("min", QUANTITY, "The smallest value that is allowed.", example="min: 1"),
        k.Field("max", QUANTITY, "The largest value that is allowed.", example="max: 1"),
        k.Field(
            "choices",
            k.ListOf(k.Text("a word", "relu"), low=1, example="[relu, tanh]"),
            "The words of a `choice`. A value or key in the file that is the name of the parameter becomes the word.",
        ),
        k.Field(
            "description",
            k.Text("a description", "Excitatory neurons"),
            "What the parameter means; `netloom show` lists it.",
        ),
    ),
    doc="A value that may be changed from outside.",
    elsewhere=k.instead(
        "`value`: default",
        "`min`: minimum",
        "`max`: maximum",
        "`type`: dtype",
        "`description`: doc",
        "the unit after the value, `value: 5 ms`: unit units",
    ),
    example="{value: 3200, type: int, min: 1}",
)

ROOT = k.Block(
    "model file",
    (
        k.required(
            "language",
            k.Constant(1),
            "The version of the language that the file is written in. It stands in every file.",
            example="language: 1",
        ),
        k.Field(
            "name",
            k.Name("cuba"),
            "The model's name, used for its build and run directories; without it, the file's name.",
        ),
        k.Field(
            "description",
            k.Text("a description", "Balanced network of integrate-and-fire neurons"),
            "What the model is, for readers.",
        ),
        k.Field(
            "params",
            k.MapOf("parameter", PARAMETER, key_example="n_exc", example="{n_exc: {value: 3200, type: int}}"),
            "The values that `--set` and sweeps may change; typed, bounded and documented. "
            "Expressions anywhere in the file may use them. Changing one compiles nothing.",
            example="params: {n_exc: {value: 3200, type: int, min: 1}}",
        ),
        k.Field(
            "functions",
            FUNCTIONS,
            "Functions of the file, for use in any expression; they are differentiated where that is needed.",
        ),
        k.Field(
            "tables",
            TABLES,
            "Lookup tables, by name: functions that are given by their values, called as `name(x)`.",
            example="tables: {gain: {values: [0, 0.2, 1], from: 0, to: 2}}",
        ),
        k.Field(
            "neurons",
            NEURONS,
            "Neuron models, by name.",
            example="neurons: {lif: {state: {v: -65 mV}, dynamics: {dv/dt: (-65 mV - v) / 20 ms}}}",
        ),
        k.Field(
            "currents",
            CURRENTS,
            "Currents as functions of time, by name, for use in `inputs: {drive: {to: exc, current: {source: ...}}}`.",
            example="currents: {ramp: {params: {slope: 1 pA/ms}, value: slope * t}}",
        ),
        k.Field(
            "timed",
            TIMED,
            "Timed arrays, by name: values that change at given times, read as `name(t)`.",
            example="timed: {drive: {values: [0 pA, 100 pA], every: 10 ms}}",
        ),
        k.Field(
            "synapses",
            SYNAPSES,
            "Synapse models with state of their own, by name.",
            example="synapses: {plastic: {state: {w: 0.5}, on_pre: [deliver(w)]}}",
        ),
        k.Field(
            "optimizers",
            OPTIMIZERS,
            "Optimizers, by name, for use in `train: {optimizer: ...}`.",
            example=("optimizers: {descent: {params: {rate: 0.1}, update: [param = param - rate * gradient]}}"),
        ),
        k.Field(
            "classes",
            CLASSES,
            "Settings for all populations and projections that name the class.",
            example="classes: {cortical: {neuron: library/neurons/lif}}",
        ),
        k.Field(
            "populations",
            POPULATIONS_MAP,
            "Populations of neurons, by name.",
            example="populations: {exc: {neuron: library/neurons/lif, size: 1000}}",
        ),
        k.Field(
            "projections",
            PROJECTIONS_MAP,
            "Connections between populations, by name.",
            example=(
                "projections: {e: {from: exc, to: exc, connect: {one_to_one: {}}, deliver: {into: ge, weight: 1 mV}}}"
            ),
        ),
        k.Field(
            "inputs",
            INPUTS_MAP,
            "What reaches neurons from outside, by name.",
            example="inputs: {noise: {to: all, poisson: {rate: 8 Hz, into: ge, weight: 0.5 mV}}}",
        ),
        k.Field(
            "network",
            NETWORK,
            "A network of layers.",
            example="network: {inputs: {image: {shape: [64]}}, layers: [{dense: {units: 10}}]}",
        ),
        k.Field("train", TRAIN, "How the network is trained."),
        k.Field("simulate", SIMULATE, "How the spiking network is simulated."),
        k.Field(
            "phases", PHASES, "Cycles of the run, such as trials, with named events at which neurons do something."
        ),
        k.Field("record", RECORD, "What is recorded while simulating."),
        k.Field("plots", PLOTS, "Figures that are drawn after the run."),
        k.Field("expect", EXPECT, "What must hold after a run; `netloom test` checks it."),
        k.Field("numerics", NUMERICS, "Precision and reproducibility; the command line may override them."),
        k.Field("sweep", SWEEP, "A parameter study: the trials of `netloom sweep`."),
    ),
    doc="A model: a network, how it learns, and how it is run.",
    title="model",
    elsewhere=k.instead(
        "`language: 1`: version",
        "`params`: parameters",
        "`network`, or `populations` and `projections`: model",
        "`network: {layers: [...]}`: layers",
        "`train`: training",
        "`simulate`: simulation run",
        "`simulate: {dt: ...}`: dt",
        "`projections`: connections",
        "`synapses`: synapse",
        "`train: {data: ...}`: data",
        "`record`: recording",
        "`plots`: plot",
        "`populations`: groups neuron_groups",
        "`use` inside of a definition, such as `neurons: {cell: {use: library/neurons/adex}}`: use",
    ),
)
