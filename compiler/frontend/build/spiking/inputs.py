"""External inputs, from resolved blocks of `inputs`.

Assumes: populations have been built (a constant current changes their params).
Guarantees: one PoissonInput per target population; a constant current is added to the named parameter of every target
where that is one number, any other current becomes a drive.
Does not: simulate source neurons.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at, did_you_mean
from compiler.expr.ast import Ref
from compiler.expr.units import FREQUENCY
from compiler.frontend.build.shared.readers import Reader, members
from compiler.frontend.build.shared.values import Context, Names, entries_of, mapping, number, out_of_bounds, shown
from compiler.frontend.build.spiking.currents import Aim, Currents, drive, target_dimension
from compiler.frontend.build.spiking.drives import reads_time, source_of
from compiler.frontend.build.spiking.member_values import member_values
from compiler.frontend.build.spiking.per_neuron import reads_place
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.select import select_parts
from compiler.frontend.language.spiking.connections import INPUTS_MAP
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

_NO_SOURCE = ("",)
"""The name of the sources of an input in its `values`."""
CONSTANT: Final = l0.SourceDef(
    l0.NeuronDef("dc", (l0.ParamDecl("amplitude", "1", None),), (), (), (), (), (), None, l0.Method.AUTO),
    Ref("amplitude"),
)
"""A constant current, as library/currents/dc."""
MAX_EVENTS = 1 << 52
"""Largest mean number of events of one neuron in a step that can be sampled."""


def build_inputs(
    node: Node | None, populations: Populations, currents: Currents, c: Context
) -> tuple[l0.PoissonInput, ...]:
    """The Poisson inputs of the file; constant currents are added to the populations' parameters, others are drives."""
    out: list[l0.PoissonInput] = []
    for name, r, at in members(INPUTS_MAP, node, c):
        targets, parts = select_parts(r.get("to"), populations, c.names, c)
        declared = mapping(r.get("values"))
        if not _by_target(declared, c):
            continue
        values = {} if declared is None else member_values(declared, _NO_SOURCE, targets, populations, c)
        scope = c.names.scope.extended({n: v.dimension for n, v in values.items()})
        for target in targets or ():
            if target not in populations.built:
                continue
            here: dict[str, Any] = {n: v.row(_NO_SOURCE[0])(target) for n, v in values.items()}
            if None in here.values():
                continue
            names = Names(scope, {**c.names.numbers, **here}) if values else c.names
            before = len(c.sink.items)
            current = mapping(r.get("current"))
            aim = Aim(name, target, parts.get(target), populations, currents, at)
            poisson = replace(r, names=names).block("poisson")
            if poisson.node is not None:
                made = _poisson(aim, poisson)
                out += [] if made is None else [made]
            if current is not None:
                _current(aim, current, names)
            if len(c.sink.items) > before:
                break  # the same error would be reported for every target
    return tuple(out)


def _by_target(declared: tree.Mapping | None, c: Context) -> bool:
    """Whether all values are per target: an input has no sources."""
    before = len(c.sink.items)
    for entry in entries_of(declared):
        block = mapping(entry.value)
        for way in ("by_source", "by_pair"):
            found = None if block is None else block.entry(way)
            if found is not None:
                message = f"`{entry.name}` cannot be given `{way}`: an input has no sources"
                c.sink.error("E0101", message, found.key.span, "use `by_target`")
    return len(c.sink.items) == before


def _missing(kind: str, into: Scalar, aim: Aim, known: tuple[str, ...]) -> None:
    """Report a missing target of the delivery, and the candidates."""
    neuron = aim.neuron
    message = f"neuron `{neuron.name}` of `{aim.target}` has no {kind} `{into.text}`"
    several = "parameters and inputs" if kind != "input" else "inputs"
    help = f"its {several} are {', '.join(f'`{n}`' for n in known)}" if known else f"it has no {several}"
    if kind == "input" and into.text in neuron.params:
        help = f"`{into.text}` is a parameter: a constant is added to it by `current`; {help}"
    elif into.text in neuron.states:
        help = f"`{into.text}` is a state variable; {help}"
    else:
        help = did_you_mean(into.text, known) or help
    aim.currents.c.sink.error("E0201", message, into.span, help, declared_at(neuron.span, "the neuron"))


def _poisson(aim: Aim, r: Reader) -> l0.PoissonInput | None:
    name, target, at, population = aim.name, aim.target, aim.at, aim.population
    c, into, rate_node = r.c, r.get("into"), r.get("rate")
    if not isinstance(into, Scalar) or rate_node is None:
        return None
    inputs = aim.neuron.inputs
    if into.text not in inputs:
        _missing("input", into, aim, tuple(inputs))
        return None
    dimension = inputs[into.text]
    if reads_time(rate_node, c) or reads_place(rate_node):
        names = r.names or c.names
        made = source_of(name, rate_node, "`rate`", FREQUENCY, c, names, population.size, population.shape)
        size = r.real("weight", dimension=dimension)
        if made is None or size is None:
            return None
        return l0.PoissonInput(name, target, into.text, 0.0, size, aim.drive(into, *made), at)
    rate, weight = r.real("rate"), r.real("weight", dimension=dimension)
    if rate is None or weight is None:
        return None
    step = aim.populations.step
    if step is not None and rate * step.dt > MAX_EVENTS:
        message = f"`rate` is {shown(rate, FREQUENCY)}: more events in a step of {step.dt:g} ms than can be drawn"
        c.sink.error("E0106", message, rate_node.span, f"at most {MAX_EVENTS:,} can")
        return None
    if aim.part is not None:
        of_part = aim.drive(into, CONSTANT, (("amplitude", l0.Const(rate, rate_node.span)),))
        return l0.PoissonInput(name, target, into.text, 0.0, weight, of_part, at)
    return l0.PoissonInput(name, target, into.text, rate, weight, None, at)


def _current(aim: Aim, block: tree.Mapping, names: Names) -> None:
    into, node, c = block.get("into"), block.get("amplitude"), aim.currents.c
    if not isinstance(into, Scalar):
        return
    population, neuron = aim.population, aim.neuron
    if into.text not in neuron.params and into.text not in neuron.inputs:
        definition = neuron.definition
        held = [i.name for i in definition.inputs if i.decay is None] if definition is not None else []
        _missing("parameter or input", into, aim, (*neuron.params, *held))
        return
    if node is None:
        drive(aim, block, names)
        return
    dimension = neuron.params.get(into.text, neuron.inputs.get(into.text))
    if reads_time(node, c) or reads_place(node):
        if not target_dimension(into, neuron, aim.target, c)[0]:
            return
        made = source_of(aim.name, node, "`amplitude`", dimension, c, names, population.size, population.shape)
        if made is not None:
            aim.add(into, *made)
        return
    amplitude = number(node, c, "`amplitude`", dimension, names)
    if amplitude is None:
        return
    problem = out_of_bounds(amplitude, None, None)
    if problem is not None:
        c.sink.error("E0106", f"`amplitude` must be {problem}", node.span)
        return
    params = dict(population.params)
    before = params.get(into.text)
    if isinstance(before, l0.Const) and aim.part is None:
        params[into.text] = l0.Const(before.value + amplitude, node.span)
        aim.populations.built[aim.target] = replace(population, params=tuple(params.items()))
    elif target_dimension(into, neuron, aim.target, c)[0]:
        aim.add(into, CONSTANT, (("amplitude", l0.Const(float(amplitude), node.span)),))
