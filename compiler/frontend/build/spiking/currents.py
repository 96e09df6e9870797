"""Current definitions, and inputs that use them: drives into parameters and inputs of neurons.

Assumes: the blocks have been validated; populations and timed arrays have been built.
Guarantees: a definition is checked for each dimension that it goes into (`unit: into` is that); a drive has a value
for each parameter and state of its source. Invalid targets are errors: an input that decays (it would integrate the
current), a parameter that determines a time constant or a refractory period.
Does not: add a constant to a parameter that is one number (build_inputs does).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import compiler.frontend.build.shared.definition_builder as parts
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.expr.simplify import simplify
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension, canonical_name
from compiler.frontend.build.shared.definitions import Definitions, place_of
from compiler.frontend.build.shared.initial_values import initial_value
from compiler.frontend.build.shared.phases import build_handlers, counters
from compiler.frontend.build.shared.readers import Reader, in_steps
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.values import Context, Names, entries_of, mapping, text_of
from compiler.frontend.build.spiking.drives import Drives, hide_noise, noise_method, restricted, timed_reads, with_noise
from compiler.frontend.build.spiking.neurons import BuiltNeuron, finished
from compiler.frontend.build.spiking.populations import Populations, following
from compiler.frontend.build.spiking.timed import values_of
from compiler.frontend.language.spiking.currents import CURRENT, TIMED_ARRAY
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Entry, Scalar

VALUE = l0.hidden("value")
Values = tuple[tuple[str, l0.Value], ...]
_INTO = re.compile(r"\binto\b")


@dataclass
class BuiltCurrent:
    """A definition for one dimension of its target; `source` None: an array, or an error."""

    name: str
    source: l0.SourceDef | None
    array: bool
    neuron: l0.NeuronDef | None
    params: dict[str, Dimension | None]
    span: Span


LayerCurrent = Callable[[str, tree.Mapping, Dimension | None], l0.TimedArray | None]
"""The timed array of a layer as a current: its name, `{layer: ..., unit: ...}`, and the dimension that is driven."""


@dataclass
class Currents:
    """Built current definitions, memoized per block and dimension."""

    c: Context
    definitions: Definitions
    drives: Drives
    layers: LayerCurrent
    _built: dict[tuple[int, Dimension | None], tuple[tree.Mapping, BuiltCurrent]] = field(default_factory=dict)

    def built(self, name: str, block: tree.Mapping, at: Span, into: Dimension | None) -> BuiltCurrent:
        key = (id(block), into)
        if key not in self._built:
            self._built[key] = (block, build_current(name, block, at, into, self.c))
        return self._built[key][1]

    def check_others(self) -> None:
        """Reports the errors of the file's unused definitions, as far as they can be determined."""
        used = {id(block) for block, _ in self._built.values()}
        for entry in self.definitions.own():
            block = mapping(entry.value)
            if block is not None and id(block) not in used and not _mentions_into(block):
                self.built(entry.name, block, entry.key.span, None)


def _mentions_into(block: tree.Mapping) -> bool:
    units = [mapping(e.value) for e in entries_of(block.get("params"))]
    return any(u is not None and _INTO.search(text_of(u.get("unit"))) for u in units)


def _with_units(node: tree.Mapping, into: Dimension | None) -> tree.Mapping:
    """The block with `into` in units of parameters replaced by the unit of the current's target."""
    params = node.entry("params")
    block = None if params is None else mapping(params.value)
    if params is None or block is None or into is None:
        return node
    unit = f"({canonical_name(into)})"

    def with_unit(e: Entry) -> Entry:
        inner = mapping(e.value)
        entry = None if inner is None else inner.entry("unit")
        if inner is None or entry is None or not isinstance(entry.value, Scalar):
            return e
        text = _INTO.sub(unit, entry.value.text)
        value = replace(entry.value, value=text, text=text)
        entries = tuple(replace(x, value=value) if x is entry else x for x in inner.entries)
        return replace(e, value=replace(inner, entries=entries))

    changed = replace(params, value=replace(block, entries=tuple(with_unit(e) for e in block.entries)))
    return replace(node, entries=tuple(changed if e is params else e for e in node.entries))


def build_current(name: str, node: tree.Mapping, at: Span, into: Dimension | None, c: Context) -> BuiltCurrent:
    """The current `node`; with `source` None after an error (reported), and for an array."""
    before = len(c.sink.items)
    d = parts.Draft(
        name, _with_units(node, into), c, "current", "random numbers can be drawn in `value` and `update` only"
    )
    params, states = parts.build_params(d), parts.build_states(d)
    times: dict[str, Dimension | None] = {"t": TIME, "dt": TIME, **counters(c)}
    scope = d.scope(d.params, d.states, times)
    lets, scope = parts.build_lets(d, scope)
    value_node = node.get("value")
    noisy, noise = with_noise((value_node or node, *(e.value for e in entries_of(node.get("dynamics")))), scope)
    dynamics = parts.build_dynamics(d, noisy)
    value = None
    if value_node is not None:
        value = check_expression(value_node, noisy, Wanted(f"`value` of `{name}`", into, False, None), c.sink)
    if value is not None:
        d.read |= refs(value.expr)
    update = parts.build_update(d, scope)[0]
    on = build_handlers(d, node.get("on"), replace(scope, timed={}), d.states, {})
    method = noise_method(d, dynamics, lets, noise, l0.Method(Reader(CURRENT, node, c).word("method")))
    array = text_of(node.get("source")) == "array"
    if array:
        equations = ("state", "let", "dynamics", "update", "on", "method")
        parts.without_equations(d, "array", equations, {"values": "{unit: into}", "every": "{unit: ms}"})
    built = BuiltCurrent(name, None, array, None, d.params, at)
    if c.sink.failed(before) or (value is None and not array):
        return built
    whole = (
        (*lets, l0.Set(VALUE, value.expr, value_node.span)) if value is not None and value_node is not None else lets
    )
    neuron = l0.NeuronDef(name, params, states, (), whole, dynamics, update, None, method, on=on, span=at)
    neuron = hide_noise(finished(d, neuron), noise)
    built.neuron = neuron
    if not array:
        parts.note_unread(d, params, "current")
        taken = neuron.lets[-1]
        names: dict[str, Expr] = {n: Ref(l0.hidden(n)) for n in noise}
        body = substitute(taken.value, names)
        built.source = l0.SourceDef(replace(neuron, lets=neuron.lets[:-1]), body, timed_reads(d), noise, at)
    return built


# -------------------------------------------------------------------------------------------- drives


def target_dimension(into: Scalar, neuron: BuiltNeuron, target: str, c: Context) -> tuple[bool, Dimension | None]:
    """Whether this parameter or input can be driven by a current, and its dimension; reports why not (E0314)."""
    name, definition = into.text, neuron.definition
    dimension = neuron.params.get(name, neuron.inputs.get(name))
    if definition is None:
        return False, dimension
    message = help = None
    if neuron.source != "equations":
        message, help = f"`{name}` of `{target}` does not change in time: its spikes are given", None
    decay = next((i.decay for i in definition.inputs if i.name == name), None)
    if decay is not None:
        message = f"the input `{name}` of `{target}` decays by itself; a current into it would be summed up over time"
        inputs = (i.name for i in definition.inputs if i.decay is None and neuron.inputs[i.name] == dimension)
        zero = [p.name for p in definition.params if isinstance(p.default, l0.Const) and p.default.value == 0]
        alone = [*inputs, *(n for n in zero if neuron.params.get(n) == dimension)]
        where = " or ".join(f"`{n}`" for n in alone[:3])
        example = f"a parameter such as `I_e: 0 {canonical_name(dimension or DIMENSIONLESS)}`"
        help = f"add it to {where}" if alone else f"give the neuron {example} that its equations add"
    fixed = [(f"the decay of `{i.name}`", i.decay) for i in definition.inputs if i.decay is not None]
    if definition.spike is not None and definition.spike.refractory is not None:
        fixed.append(("the refractory period", definition.spike.refractory))
    for what, expr in fixed:
        if name in neuron.params and name in refs(expr):
            message = f"`{name}` of `{target}` gives {what}, which is computed once"
            help = "write the decay in `dynamics`" if "decay" in what else None
    if message is not None:
        c.sink.error("E0314", message, into.span, help, declared_at(neuron.places.get(name), "it"))
    return message is None, dimension


@dataclass(frozen=True)
class Aim:
    """What an input acts on: one population, or a `part` of it."""

    name: str
    target: str
    part: l0.Subset | None
    populations: Populations
    currents: Currents
    at: Span

    @property
    def population(self) -> l0.Population:
        return self.populations.built[self.target]

    @property
    def neuron(self) -> BuiltNeuron:
        return self.populations.neuron_of[self.target]

    def drive(self, into: Scalar, source: l0.SourceDef, params: Values = (), init: Values = ()) -> l0.Drive:
        whole = l0.Drive(self.name, self.target, into.text, source, params, init, self.at)
        return restricted(whole, self.part, self.population)

    def add(self, into: Scalar, source: l0.SourceDef, params: Values = (), init: Values = ()) -> None:
        self.currents.drives.add(self.drive(into, source, params, init), self.population.size)


def drive(aim: Aim, block: tree.Mapping, names: Names) -> None:
    """The drive of `current: {into: ..., source: ..., params: {...}}`."""
    into, reference, currents = block.get("into"), block.get("source"), aim.currents
    if not isinstance(into, Scalar) or reference is None:
        return
    possible, dimension = target_dimension(into, aim.neuron, aim.target, currents.c)
    if isinstance(reference, tree.Mapping) and possible:
        _layer_drive(aim, block, reference, into, dimension)
    if not isinstance(reference, Scalar):
        return
    definition = currents.definitions.find(reference)
    if definition is None or not possible:
        return
    called = currents.definitions.name_of(reference)
    built = currents.built(called, definition, place_of(called, definition), dimension or DIMENSIONLESS)
    if built.neuron is None:
        return
    given = mapping(block.get("params"))
    if given is not None and not _known(given, built, currents.c):
        return
    if built.array:
        _array_drive(aim, given, built, into, dimension)
        return
    assert built.source is not None
    params = _params(given, built, aim.target, aim.population.size, currents.c, names, block.span)
    if params is None:
        return
    init: list[tuple[str, l0.Value]] = []
    for state in built.neuron.state:
        what = f"the initial value of `{state.name}` of `{built.name}`"
        value: l0.Value | None = state.init
        if isinstance(state.init, l0.Formula):
            value = following(_simple(state.init), params | dict(init), what, aim.at, currents.c)
        if value is None:
            return
        init.append((state.name, value))
    aim.add(into, built.source, tuple(params.items()), tuple(init))


def _known(given: tree.Mapping, built: BuiltCurrent, c: Context) -> bool:
    wrong = [e for e in given.entries if e.name not in built.params]
    for entry in wrong:
        known = ", ".join(f"`{n}`" for n in built.params)
        help = did_you_mean(entry.name, built.params) or (f"it has {known}" if known else "it has no parameters")
        c.sink.error("E0201", f"current `{built.name}` has no parameter `{entry.name}`", entry.key.span, help)
    return not wrong


def _params(
    given: tree.Mapping | None, built: BuiltCurrent, target: str, size: int, c: Context, names: Names, at: Span
) -> dict[str, l0.Value] | None:
    """A value for every parameter of the current; None after an error."""
    values: dict[str, l0.Value] = {}
    missing: list[str] = []
    assert built.neuron is not None
    before = len(c.sink.items)
    for decl in built.neuron.params:
        entry = None if given is None else given.entry(decl.name)
        value: l0.Value | None = decl.default
        what = f"parameter `{decl.name}` of `{built.name}`"
        if entry is not None:
            value, _ = initial_value(entry.value, c, what, built.params[decl.name], names, size)
        elif decl.default is None:
            missing.append(decl.name)
        elif isinstance(decl.default, l0.Formula):
            value = following(_simple(decl.default), values, what, at, c)
        if value is not None:
            values[decl.name] = value
    if missing:
        several = ", ".join(f"`{m}`" for m in missing)
        message = f"the current `{built.name}` into `{target}` lacks the parameter{'s' * (len(missing) > 1)} {several}"
        c.sink.error("E0103", message, at, f"write `params: {{{missing[0]}: ...}}`")
    return values if len(c.sink.items) == before else None


def _simple(formula: l0.Formula) -> l0.Formula:
    """Simplified: `0 * weight` is 0 for all weights."""
    return replace(formula, expr=simplify(formula.expr, finite=True))


def _array_drive(
    aim: Aim, given: tree.Mapping | None, built: BuiltCurrent, into: Scalar, dimension: Dimension | None
) -> None:
    """A current given by an array: a separate timed array, for the populations of one input."""
    name, timed, c = aim.name, aim.currents.drives.timed, aim.currents.c
    entries = {n: None if given is None else given.entry(n) for n in ("values", "every")}
    missing = [f"`{n}`" for n, e in entries.items() if e is None]
    values_entry, every_entry = entries["values"], entries["every"]
    example = "for example `params: {values: {file: data/current.npy}, every: 1 ms}`"
    if values_entry is None or every_entry is None:
        message = f"the current `{built.name}` into `{aim.target}` lacks {' and '.join(missing)}"
        c.sink.error("E0103", message, aim.at, example)
        return
    array = f"{name}.values"
    if array not in timed:
        unit = canonical_name(dimension or DIMENSIONLESS)
        from_file = mapping(values_entry.value) is not None
        found = values_of(values_entry.value, dimension, unit if from_file else "", f"the values of `{name}`", c)
        if found is None or aim.populations.step is None:
            return
        kind = TIMED_ARRAY.by_name["every"].kind
        every = in_steps(kind, every_entry.value, c, f"`every` of `{name}`", aim.populations.step)
        if every is None:
            return
        values, rows, columns, _ = found
        timed[array] = l0.TimedArray(array, values, rows, columns, every, False, unit, span=aim.at)
    aim.add(into, _values_of(array, built.name, built.span))


def _layer_drive(
    aim: Aim, block: tree.Mapping, source: tree.Mapping, into: Scalar, dimension: Dimension | None
) -> None:
    """A current that is the values of a layer: a timed array, for the populations of one input."""
    given, array, currents = block.entry("params"), f"{aim.name}.values", aim.currents
    if array not in currents.drives.timed:
        made = currents.layers(array, source, dimension)
        if made is None:
            return
        currents.drives.timed[array] = made
    if given is not None:
        help = "give the layer a name, `timed: {x: {layer: ...}}`, and write `amplitude: 2 * x(t, i)`"
        currents.c.sink.error("E0108", "the values of a layer have no parameters", given.key.span, help)
        return
    aim.add(into, _values_of(array, "layer", source.span))


def _values_of(array: str, called: str, place: Span) -> l0.SourceDef:
    """A timed array as a source."""
    neuron = l0.NeuronDef(called, (), (), (), (), (), (), None, l0.Method.AUTO, span=place)
    return l0.SourceDef(neuron, Ref(l0.hidden(array)), (array,), (), place)
