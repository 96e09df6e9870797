"""Time-dependent external signals: timed arrays, and currents.

Assumes: expr/keys/kinds.py, expr/keys/values.py, neurons.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check their targets.
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
import compiler.expr.keys.values as v
from compiler.core.resources import library_names
from compiler.frontend.language.spiking.neurons import DYNAMICS, LET, METHOD, PARAMS, SETTINGS, STATE, STATEMENTS
from compiler.layers.shared.keys import LAYER_REFERENCE

LIBRARY_CURRENTS = library_names("currents")
"""Which editors offer."""

_ROW = k.ListOf(v.QUANTITY, low=1, example="[0 pA, 10 pA]")

TIMED_ARRAY = k.Block(
    "timed array",
    (
        k.Field(
            "values",
            k.OneOf((k.ListOf(k.OneOf((v.QUANTITY, _ROW)), low=1, example="[0 pA, 100 pA, 50 pA]"), v.FILE_ARRAY)),
            "The values, one after the other: a list, or an array in a file. With two axes, rows are times and columns "
            "are neurons.",
        ),
        k.Field(
            "layer",
            LAYER_REFERENCE,
            "In place of `values`, in a model whose training reads a population: the layer, or the input of the "
            "network, whose values for the sample of a trial drive it. A shape [neurons] holds through the trial, the "
            "frames of a shape [frames, neurons] follow one another and fill it.",
            example="layer: encoder",
        ),
        k.Field(
            "every",
            v.POSITIVE_TIME,
            "How long each value holds; a whole number of steps. The last one holds to the end.",
            example="every: 10 ms",
        ),
        k.Field(
            "each",
            k.Reference("phase", "trial"),
            "In place of `every`: the phase whose trials take one value (or row) each, over again after the last one.",
        ),
        k.Field(
            "order",
            k.choice(
                "order",
                sequential="As they stand.",
                shuffled="In another random order in each pass through them.",
                dealt="Shuffled; the instances of the network share a pass, and take values in turn.",
            ),
            "The order of the trials' values. All arrays of a phase with as many rows have the same; each instance of "
            "the network has its own, unless they are dealt.",
            default="sequential",
        ),
        k.Field(
            "unit", k.Text("a unit", "pA"), "The unit of bare numbers, of arrays in files and of the values of a layer."
        ),
        k.switch(
            "interpolate",
            "Whether values in between are linear from one to the next (taken at the start of each step).",
        ),
    ),
    doc="A value for each time, or for each trial of a phase, read as `name(t)`, or with a column for each neuron as "
    "`name(t, i)`, in equations of neurons and currents, in the rate of a Poisson input and in a population's "
    "`params`. In step k, everywhere in it, it is the value at (k-1) dt.",
    one_of=(("values", "layer"), ("every", "each", "layer")),
    needs=(("order", ("each",)), ("interpolate", ("every",))),
    elsewhere={"dt": "`every`", "file": "`values: {file: ...}`", "times": "`every`", "units": "`unit`"},
    example="{values: [0 pA, 100 pA], every: 10 ms}",
)

CURRENT = k.Block(
    "current",
    (
        v.USE,
        v.FOR,
        v.DESCRIPTION,
        k.Field(
            "params",
            PARAMS,
            "Parameters with their default values. `unit: into` means the unit of what the current goes into.",
            example="params: {amplitude: {unit: into}, frequency: 10 Hz}",
        ),
        k.Field(
            "state",
            STATE,
            "State variables, one of each per target neuron, with their initial values.",
            example="state: {x: mean}",
        ),
        LET,
        k.Field(
            "dynamics",
            DYNAMICS,
            "Differential equations of the state variables; `xi` is white noise, as in neurons.",
            example="dynamics: {dx/dt: -x / tau}",
        ),
        k.Field(
            "update",
            STATEMENTS,
            "Assignments that run once per step, in order, after `value` was taken and `dynamics` ran.",
            example="update: [x = x * exp(-dt / tau)]",
        ),
        k.Field(
            "on",
            v.handlers(STATEMENTS, "trial.start", "[x = 0]"),
            "Assignments that run at events of `phases`: at 0 ms before `value` is taken in the trial's first step, at "
            "later ones after `update`, at the end of the step that ends then.",
            example="on: {trial.start: [x = amplitude * random()]}",
        ),
        k.Field("method", METHOD, "How `dynamics` are integrated.", default="auto", example="method: rk4"),
        k.Field(
            "value",
            k.Expression("amplitude * sin(2 * pi * frequency * t)"),
            "What is added in a step: it is taken at the start of the step, (k-1) dt in step k, and stands still in "
            "it. It may draw random numbers and read white noise `xi`.",
        ),
        k.Field(
            "source",
            k.choice("source", array="An array of values; the parameters are `values` and `every`."),
            "For currents without an expression: where their values come from.",
        ),
    ),
    doc="A current as a function of time, with a state of its own for each target neuron.",
    one_of=(("value", "source"),),
    elsewhere={"current": "`value`", "expression": "`value`", "amplitude": "`params: {amplitude: ...}`"},
    open_with=("use",),
    example="{params: {a: 10 pA, f: 5 Hz}, value: a * sin(2 * pi * f * t)}",
)

CURRENT_REFERENCE = k.Reference(
    "current", "library/currents/sine", v.DEFINITION, tuple(f"library/currents/{name}" for name in LIBRARY_CURRENTS)
)

LAYER_CURRENT = k.Block(
    "current of a layer",
    (
        k.required(
            "layer",
            LAYER_REFERENCE,
            "The layer, or the input of the network, whose values for the sample of a trial are the current: of a "
            "shape [neurons] through the trial, of [frames, neurons] one frame after the other, which fill it.",
            example="layer: encoder",
        ),
        k.Field("unit", k.Text("a unit", "pA"), "The unit of the layer's values."),
    ),
    title="layer_current",
    elsewhere={"units": "`unit`", "input": "`layer`"},
    example="{layer: encoder, unit: pA}",
)

CURRENT_INPUT = k.Block(
    "current input",
    (
        k.required(
            "into",
            k.Reference("parameter or input", "I_e", v.TEMPLATE_KEY),
            "What is added to: a parameter of the neuron, or an input that does not decay.",
        ),
        k.Field("amplitude", v.QUANTITY, "What is added in every step.", example="amplitude: 100 pA"),
        k.Field(
            "source",
            k.OneOf((CURRENT_REFERENCE, LAYER_CURRENT)),
            "The current: a name of `currents`, `library/currents/...` or `other_file.yaml#name`; or the values of a "
            "layer, `{layer: encoder, unit: pA}`, in a model whose training reads a population.",
        ),
        k.Field(
            "params",
            SETTINGS,
            "Values for parameters of the current: one for all neurons, a distribution, or one for each neuron.",
            example="params: {amplitude: 10 pA}",
        ),
    ),
    one_of=(("amplitude", "source"),),
    needs=(("params", ("source",)),),
    elsewhere={"value": "`amplitude`", "current": "`source`", "target": "`into`", "unit": "the unit of the value"},
    example="{into: I_e, amplitude: 100 pA}",
)

TIMED = k.MapOf("timed array", TIMED_ARRAY, key_example="drive", example="{drive: {values: [0 pA, 1 pA], every: 1 ms}}")
LOOKUP_TABLE = k.Block(
    "lookup table",
    (
        k.required(
            "values",
            k.OneOf((k.ListOf(v.QUANTITY, low=2, example="[0, 0.2, 1]"), v.FILE_ARRAY)),
            "The values at evenly spaced arguments, the first at `from`, the last at `to`: a list, or an array with "
            "one axis in a file.",
        ),
        k.required("from", v.QUANTITY, "The argument of the first value.", example="from: -80 mV"),
        k.required("to", v.QUANTITY, "The argument of the last value.", example="to: 40 mV"),
        k.Field("unit", k.Text("a unit", "1/ms"), "The unit of bare numbers and of arrays in files."),
    ),
    doc="A function of one number, given by its values and linear between them, called as `name(x)` in equations and "
    "statements of neurons and synapses, in currents and in rates of Poisson inputs. Below `from` it has its first "
    "value, above `to` its last.",
    elsewhere=k.instead(
        "`values: {file: ...}`: file",
        "`values: {file: ..., array: ...}`: array",
        "`unit`: units",
        "`from`: low",
        "`to`: high",
        "`from` and `to`: range",
    ),
    example="{values: [0, 0.2, 1], from: 0, to: 2}",
)
TABLES = k.MapOf("lookup table", LOOKUP_TABLE, key_example="gain", example="{gain: {values: [0, 1], from: 0, to: 2}}")
CURRENTS = k.MapOf("current", CURRENT, v.TEMPLATE_KEY, "wave")
