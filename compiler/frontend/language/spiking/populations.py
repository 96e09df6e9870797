"""Populations of neurons.

Assumes: expr/keys/kinds.py, expr/keys/values.py, neurons.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check the parameters of a neuron model.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.core.resources import library_names
from compiler.expr.keys.kinds import Block, Field, ListOf, MapOf, Reference, Value, instead
from compiler.expr.keys.values import CLASS_NAMES, DEFINITION, DESCRIPTION, FOR, POSITIVE, TEMPLATE_KEY, USE
from compiler.frontend.language.control import CHOSEN_OTHERS, POOLS
from compiler.frontend.language.spiking.neurons import SETTINGS, STATE

LIBRARY_NEURONS = library_names("neurons")
"""Which editors offer."""

NEURON_REFERENCE = Reference(
    "neuron", "library/neurons/lif", DEFINITION, tuple(f"library/neurons/{name}" for name in LIBRARY_NEURONS)
)

POPULATION_VALUES = (
    Field(
        "neuron",
        NEURON_REFERENCE,
        "The neuron model: a name of `neurons`, `library/neurons/...` or `other_file.yaml#name`.",
        example="neuron: library/neurons/adex",
    ),
    Field("size", Value("a whole number", "1000", integer=True, low=1), "The number of neurons."),
    Field(
        "shape",
        ListOf(POSITIVE, low=1, high=4, example="[1, 64, 64]"),
        "The extents of a population that is laid out in space, in place of `size`: rows and columns of pools, height "
        "and width of each; or channels, height, width; or height and width; or the length of a line. Neurons are "
        "numbered with the last of them running fastest.",
    ),
    POOLS,
    CHOSEN_OTHERS,
    Field(
        "params",
        SETTINGS,
        "Values for parameters of the neuron model, in place of its defaults: one for all neurons, a distribution, or "
        "one for each neuron, as a list or in a file. An expression may read parameters that the neuron declares "
        "before, also where they differ between neurons: `c: -65 + 15 * r ** 2`. One of the time `t` is taken anew at "
        "the start of each step; it may read timed arrays, as `drive(t)`.",
    ),
    Field(
        "init",
        STATE,
        "Initial values of state variables, in place of the model's, and of inputs with `decay`, in place of 0: one "
        "for all neurons, a distribution, or one for each neuron: an expression over `self.i` and other places, a "
        "list, or a file.",
        example="init: {v: {uniform: {low: -60 mV, high: -50 mV}}}",
    ),
)

POPULATION_ELSEWHERE = instead(
    "`size`: N n count num number",
    "`neuron` (a name) and `size` (their number): neurons",
    "`neuron`: model type cell",
    "`params`: parameters",
    "`init`: initial initialize",
    "`classes: [...]`: class",
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
        ),
        *(replace(f, required=f.name == "neuron") for f in POPULATION_VALUES),
    ),
    doc="Neurons of one model.",
    one_of=(("size", "shape"),),
    elsewhere=POPULATION_ELSEWHERE,
    open_with=("use", "classes"),
    example="{neuron: library/neurons/lif, size: 1000}",
)


POPULATIONS_MAP = MapOf("population", POPULATION, TEMPLATE_KEY, "exc", example="{exc: {neuron: lif, size: 1000}}")
