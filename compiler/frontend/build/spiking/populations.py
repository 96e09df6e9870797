"""Populations: from resolved blocks of `populations` to Populations with all values.

Assumes: classes have been applied.
Guarantees: one NeuronDef object per distinct definition, independent of the number of populations; params and initial
values are in canonical units, with the dimensions declared by the neuron; time constants are positive and refractory
periods integer steps for every population.
Does not: build projections or records.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.expr.ast import Expr, Num, Ref, refs, substitute
from compiler.expr.units import Dimension
from compiler.frontend.build.shared.data_files import named_arrays, pick
from compiler.frontend.build.shared.definition_builder import report_missing, unknown_setting
from compiler.frontend.build.shared.definitions import Definitions, place_of
from compiler.frontend.build.shared.initial_values import initial_value
from compiler.frontend.build.shared.others import User, bind_others, check_numbers
from compiler.frontend.build.shared.random_help import words_of
from compiler.frontend.build.shared.readers import Reader, members
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.self_names import HIDDEN, param_values
from compiler.frontend.build.shared.values import (
    Context,
    Names,
    Step,
    listed,
    mapping,
    plain_number,
    steps_of,
    text_of,
    valued,
)
from compiler.frontend.build.spiking.drives import reads_time, source_of
from compiler.frontend.build.spiking.given_spikes import ROUND, Repeated, check_spike_times, in_ms
from compiler.frontend.build.spiking.neurons import BuiltNeuron, build_neuron
from compiler.frontend.build.spiking.per_neuron import Rounded, check_each, placed_value, reads_place, worked_out
from compiler.frontend.build.spiking.pools import count_pools
from compiler.frontend.language.spiking.populations import POPULATIONS_MAP
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

MAX_SIZE = (1 << 31) - 1
"""Neuron indices are 32-bit integers."""
SPIKE: Final = "add `spike: {when: ...}` to the neuron"


@dataclass
class Populations:
    """The populations built so far, by name, and the neurons behind them."""

    c: Context
    neurons: Definitions
    step: Step | None
    built: dict[str, l0.Population] = field(default_factory=dict)
    neuron_of: dict[str, BuiltNeuron] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    classes: dict[str, list[str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    repeated: dict[str, Repeated] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # populations that are reported never to spike
    drives: list[l0.Drive] = field(default_factory=list)  # into parameters that are expressions of time
    _blocks: dict[int, tuple[tree.Mapping, BuiltNeuron]] = field(default_factory=dict)
    _scopes: dict[tuple[int, int], tuple[tree.Mapping, Scope]] = field(default_factory=dict)
    _good: set[tuple[int, float | int]] = field(default_factory=set)  # matching (expression, value)

    def neuron(self, name: str, block: tree.Mapping, at: Span | None = None) -> BuiltNeuron:
        """The built definition, memoized per block."""
        known = self._blocks.get(id(block))
        if known is None:
            known = (block, build_neuron(name, block, at or place_of(name, block), self.c))
            self._blocks[id(block)] = known
        return known[1]

    def spiking(self, name: str) -> bool:
        """Whether a population may spike; one with an error may."""
        neuron = self.neuron_of.get(name)
        return neuron is None or neuron.spikes

    def variables(self, name: str) -> list[str]:
        """What can be recorded of a population in time."""
        neuron = self.neuron_of.get(name)
        return [] if neuron is None else [*neuron.states, *neuron.inputs, *neuron.shared]

    def never_spikes(
        self, names: Iterable[str], at: Span, help: str | None = None, more: tuple[Related, ...] = ()
    ) -> bool:
        """Whether one of the populations never spikes; reports the first one (E0604)."""
        for name in names:
            neuron = self.neuron_of.get(name)
            if neuron is not None and not self.spiking(name):
                message = f"`{name}` never spikes: its neuron `{neuron.name}` has no `spike`"
                related = (Related("the neuron is declared here", neuron.span), *more)
                self.c.sink.error("E0604", message, at, help, related)
                self.silent.add(name)
                return True
        return False

    def silence_told(self, name: str, at: Span) -> bool:
        """Whether a population never spikes, which is reported unless it has been."""
        return not self.spiking(name) and (name in self.silent or self.never_spikes((name,), at))

    def scope(self, neuron: BuiltNeuron, init: tree.Mapping) -> Scope:
        """What the initial values of a block may read, memoized per block, which copies share."""
        known = self._scopes.get((id(neuron), id(init)))
        if known is None:
            known = init, self.c.names.scope.extended({**neuron.params, **neuron.states}, neuron.places)
            self._scopes[id(neuron), id(init)] = known
            self.c.unread_params.read(neuron.places[w] for w in words_of(init) if w in neuron.params)
        return known[1]


def build_populations(root: tree.Mapping, c: Context, neurons: Definitions, step: Step | None) -> Populations:
    """All populations of the file; those with errors are declared but not built."""
    out = Populations(c, neurons, step)
    for entry in neurons.own():
        block = mapping(entry.value)
        if block is not None:
            out.neuron(entry.name, block, entry.key.span)
    entries = tuple(members(POPULATIONS_MAP, root.get("populations"), c))
    for name, r, at in entries:
        if name == "all":
            c.sink.error("E0107", "`all` means every population and cannot name one", at)
            continue
        out.names.append(name)
        out.places[name] = at
        classes = tuple(i.text for i in listed(r.get("classes")) if isinstance(i, Scalar))
        for k in classes:
            out.classes.setdefault(k, []).append(name)
        _population(name, r, classes, at, out)
    _bind(entries, out)
    return out


def _bind(entries: Iterable[tuple[str, Reader, Span]], out: Populations) -> None:
    """The populations that each one reads, once all are known."""
    c = out.c
    for name, r, at in entries:
        neuron, p = out.neuron_of.get(name), out.built.get(name)
        if neuron is None or neuron.definition is None or (r.get("others") is None and not neuron.definition.others):
            continue
        user = User(name, at, r.get("others"), "neuron", neuron.name, neuron.span)
        bound = bind_others(user, neuron.definition.others, out.built, out.names, c)
        if bound is not None and p is not None:
            out.built[name] = replace(p, others=bound)
            check_numbers(out.built[name], out.built, at, c)


@dataclass(frozen=True)
class _Draft:
    """A population while it is built. `size`: None after an error."""

    name: str
    neuron: BuiltNeuron
    size: int | None
    shape: tuple[int, ...]
    at: Span
    out: Populations

    @property
    def c(self) -> Context:
        return self.out.c


def following(
    formula: l0.Formula,
    values: Mapping[str, l0.Value],
    what: str,
    at: Span,
    c: Context,
    size: int | None = None,
    shape: tuple[int, ...] = (),
) -> l0.Value | None:
    """A formula over `values` as a number or a list, or as it is where what it reads differs between neurons."""
    if _varies(formula.expr, values):
        return l0.Formula(_with_numbers(formula.expr, values, c), formula.span)
    return _evaluated(formula, values, what, at, c, size, shape)


def _population(name: str, r: Reader, classes: tuple[str, ...], at: Span, out: Populations) -> None:
    c = out.c
    size = r.integer("size", what=f"`size` of `{name}`")
    shape = _shape(name, r)
    if shape:
        size = math.prod(shape)
    reference = r.get("neuron")
    if not isinstance(reference, Scalar):
        return
    definition = out.neurons.find(reference)
    if definition is None:
        return
    neuron = out.neuron(out.neurons.name_of(reference), definition)
    out.neuron_of[name] = neuron
    d, before = _Draft(name, neuron, size, shape, at, out), len(c.sink.items)
    own_params, own_init = mapping(r.get("params")), mapping(r.get("init"))
    params = _params(d, own_params)
    if neuron.definition is None:
        return
    init = _init(d, own_init, params)
    if len(c.sink.items) > before or size is None:
        return
    if neuron.source == "spike_times":
        params = in_ms(params, c.sink)
        found = check_spike_times(name, params, size, out.step, c.sink)
        if found is not None:
            out.repeated[name] = found
    else:
        _check_times(d, own_params, params)
    pools = count_pools(name, r, size, shape, neuron.definition)
    pool_init = _pool_init(d, params)
    if len(c.sink.items) > before:
        return
    out.built[name] = l0.Population(
        name,
        neuron.definition,
        size,
        tuple(params.items()),
        tuple(init.items()),
        classes,
        shape,
        pools=pools,
        pool_init=pool_init,
        span=at,
    )


def _shape(name: str, r: Reader) -> tuple[int, ...]:
    """The extents of a population; () without them or after an error."""
    node, extents = r.get("shape"), r.integers("shape", f"each extent of `{name}`")
    if node is None or extents is None:
        return ()
    if math.prod(extents) > MAX_SIZE:
        message = f"`{name}` would have {math.prod(extents):,} neurons; at most {MAX_SIZE:,} are possible"
        r.c.sink.error("E0106", message, node.span)
        return ()
    return extents


def _pool_init(d: _Draft, params: Mapping[str, l0.Value]) -> tuple[tuple[str, l0.Const], ...]:
    """The initial values of the states of pools."""
    assert d.neuron.definition is not None
    values: dict[str, l0.Const] = {}
    for pool in d.neuron.definition.pools:
        for decl in pool.state:
            what = f"the initial value of `{pool.scope}.{decl.name}` of `{d.name}`"
            value = _evaluated(decl.init, params, what, d.at, d.c) if isinstance(decl.init, l0.Formula) else decl.init
            if isinstance(value, l0.Const):
                values[f"{pool.scope}.{decl.name}"] = value
    return tuple(values.items())


def _params(d: _Draft, given: tree.Mapping | None) -> dict[str, l0.Value]:
    """A value for every parameter declared by the neuron."""
    name, neuron, c = d.name, d.neuron, d.c
    values: dict[str, l0.Value] = {}
    before = len(c.sink.items)
    if given is not None:
        if neuron.source == "spike_times" and "file" in given:
            values = _spikes_of_file(given, neuron, c)
            given = None
        else:
            own = (*neuron.params, *_GIVEN) if neuron.source == "spike_times" else neuron.params
            _refuse_unknown(given, own, "parameter", neuron, c)
            _refuse_names(given, neuron, c)
        if neuron.source == "spike_times" and len(c.sink.items) > before:
            return values
    missing: list[str] = []
    declared = neuron.definition.params if neuron.definition is not None else ()
    for decl in declared:
        entry = None if given is None else given.entry(decl.name)
        value: l0.Value | None = values.get(decl.name, decl.default)
        if decl.name in HIDDEN:
            value = None if d.size is None else param_values(frozenset({decl.name}), d.size, d.shape)[decl.name]
        elif entry is not None:
            value = _given(d, decl.name, entry.value, values)
        elif value is None:
            missing.append(decl.name)
        elif isinstance(value, l0.Formula):
            value = following(value, values, f"parameter `{decl.name}` of `{name}`", d.at, c, d.size, d.shape)
        if value is not None:
            values[decl.name] = value
    report_missing(missing, name, neuron, d.at, c)
    return values


def _given(d: _Draft, parameter: str, node: Node, before: Mapping[str, l0.Value]) -> l0.Value | None:
    """The value that a population gives to a parameter, which may follow from those `before` it; an expression of the
    time becomes a drive."""
    c, dimension = d.c, d.neuron.params[parameter]
    equations, size, shape = d.neuron.source == "equations", d.size, d.shape
    if not equations and parameter == ROUND:
        return _rounding(node, c)
    literal = plain_number(node)
    if literal is not None and literal[1] == dimension:
        return l0.Const(literal[0], node.span)
    what = f"parameter `{parameter}` of `{d.name}`"
    changes = equations and literal is None and reads_time(node, c)
    others = _others_read(d, parameter, node) if equations and literal is None and not changes else set()
    if others:
        return _following_others(d, parameter, node, others, before)
    if equations and literal is None and reads_place(node) and not changes:
        return placed_value(node, what, dimension, c.names, {}, size, shape, c)
    if not changes:
        return initial_value(node, c, what, dimension, None, size if equations else None)[0]
    # Without a size, its mistake was reported.
    made = None if size is None else source_of(parameter, node, what, dimension, c, c.names, size, shape)
    if made is None:
        return None
    d.out.drives.append(l0.Drive(f"{d.name}.{parameter}", d.name, parameter, made[0], made[1], (), node.span))
    return l0.Driven(node.span)


def _others_read(d: _Draft, parameter: str, node: Node) -> set[str]:
    """The parameters of the same neuron that a value reads: names that the model does not know."""
    words = words_of(node) if isinstance(node, Scalar) else set()
    return words & d.neuron.params.keys() - d.c.names.scope.kinds.keys() - {parameter} - HIDDEN


def _following_others(
    d: _Draft, parameter: str, node: Node, read: set[str], before: Mapping[str, l0.Value]
) -> l0.Value | None:
    """A value that follows from parameters of the same neuron; E0302 where one is declared after it."""
    c, neuron, what = d.c, d.neuron, f"parameter `{parameter}` of `{d.name}`"
    declared = list(neuron.params)
    late = next((n for n in declared[declared.index(parameter) :] if n in read), None)
    if late is not None:
        message = f"{what} follows from `{late}`, which the neuron `{neuron.name}` declares after it"
        help = f"declare `{late}` first: a parameter follows from those before it"
        c.sink.error("E0302", message, node.span, help, (Related("declared here", neuron.places[late]),))
        return None
    scope = c.names.scope.extended({n: neuron.params[n] for n in read}, neuron.places)
    c.unread_params.read(neuron.places[n] for n in read)
    if not read <= before.keys():
        return None  # that parameter has its own error
    known, dimension = {n: before[n] for n in read}, neuron.params[parameter]
    if reads_place(node):
        return placed_value(node, what, dimension, Names(scope, _numbers(known, c)), known, d.size, d.shape, c)
    checked = check_expression(node, scope, Wanted(what, dimension), c.sink)
    if checked is None:
        return None
    return following(l0.Formula(checked.expr, node.span), known, what, node.span, c, d.size, d.shape)


def _rounding(node: Node, c: Context) -> l0.Value | None:
    """`round: nearest` of given spikes."""
    if text_of(node) == "nearest":
        return l0.Const(1, node.span)
    c.sink.error("E0105", "`round` of given spikes is `nearest`, or is left out", node.span, "write `round: nearest`")
    return None


def _refuse_names(given: tree.Mapping, neuron: BuiltNeuron, c: Context) -> None:
    """E0103 where `times` or `indices` are names of arrays without a file."""
    if neuron.source != "spike_times":
        return
    named = [e for e in given.entries if isinstance(e.value, Scalar) and isinstance(e.value.value, str)]
    if not named or named[0].value.span.file is not given.span.file:
        return
    text = named[0].value.text if isinstance(named[0].value, Scalar) else ""
    if named[0].name in ("times", "indices") and text.isidentifier() and text not in c.names.scope.kinds:
        message = f"`{text}` is the name of an array, but no file is given"
        help = f"write `{{file: spikes.npz, {named[0].name}: {text}, ...}}`"
        c.sink.error("E0103", message, named[0].value.span, help)


def _refuse_unknown(given: tree.Mapping, known: Collection[str], noun: str, neuron: BuiltNeuron, c: Context) -> None:
    for entry in given.entries:
        if entry.name not in known:
            unknown_setting(entry.key, noun, known, "neuron", neuron, c)


def _numbers(values: Mapping[str, l0.Value], c: Context) -> dict[str, Any]:
    """The scalar parameters of a population, over those of the model."""
    env = dict(c.names.numbers)
    for name, value in values.items():
        if isinstance(value, l0.Const):
            env[name] = value.value
        else:
            env.pop(name, None)
    return env


def _evaluated(
    formula: l0.Formula,
    values: Mapping[str, l0.Value],
    what: str,
    at: Span,
    c: Context,
    size: int | None = None,
    shape: tuple[int, ...] = (),
) -> l0.Value | None:
    """A formula over parameters of a population as a number, or as a list where it reads the neuron's place."""
    expr = formula.expr
    if refs(expr) & HIDDEN and size is not None:
        arrays = {n: np.array(v.values) for n, v in values.items() if isinstance(v, l0.Listed)}
        return worked_out(expr, {**_numbers(values, c), **arrays}, what, formula.span, size, shape, c)
    if isinstance(expr, Ref) and isinstance(values.get(expr.name), l0.Const):
        known = values[expr.name]
        assert isinstance(known, l0.Const)
        return l0.Const(known.value, formula.span)
    several = [n for n in sorted(refs(expr)) if n in values and not isinstance(values[n], l0.Const)]
    if several:
        why = "changes in time" if isinstance(values[several[0]], l0.Driven) else "differs from neuron to neuron"
        message = f"{what} follows from `{several[0]}`, which {why}"
        related = (Related("by this formula", formula.span),)
        c.sink.error("E0802", message, at, "give it a value or a distribution of its own", related)
        return None
    if any(n not in values and n not in c.names.numbers for n in refs(expr) - {"pi", "e", "inf"}):
        return None  # that parameter has its own error
    found = valued(expr, _numbers(values, c), what, at, c.sink, (Related("by this formula", formula.span),))
    return None if found is None else l0.Const(found, formula.span)


def _init(d: _Draft, given: tree.Mapping | None, params: Mapping[str, l0.Value]) -> dict[str, l0.Value]:
    """An initial value for every state."""
    neuron, size, c = d.neuron, d.size, d.c
    values: dict[str, l0.Value] = {}
    assert neuron.definition is not None
    names: Names | None = None
    decaying = {i.name: neuron.inputs[i.name] for i in neuron.definition.inputs if i.decay is not None}
    if given is not None:
        _refuse_unknown(given, {**neuron.states, **decaying}, "state variable", neuron, c)
        # Per-neuron values have no single number here.
        names = Names(d.out.scope(neuron, given), _numbers(params, c))
    for decl in neuron.definition.state:
        entry = None if given is None else given.entry(decl.name)
        what = f"the initial value of `{decl.name}`"
        value: l0.Value | None
        if entry is not None and names is not None:
            value = _first_value(d, entry.value, what, neuron.states[decl.name], names, {**params, **values})
            if isinstance(value, l0.Const):
                names = Names(names.scope, {**names.numbers, decl.name: value.value})
        elif isinstance(decl.init, l0.Formula):
            value = following(decl.init, {**params, **values}, f"{what} of `{d.name}`", d.at, c, size, d.shape)
        else:
            value = decl.init
            if isinstance(value, l0.Listed) and size is not None and len(value.values) != size:
                given_count = f"the list has {len(value.values):,}"
                message = f"{what} of `{d.name}` needs {size:,} numbers, one for each neuron; {given_count}"
                c.sink.error("E0703", message, decl.span)
        if value is not None:
            values[decl.name] = value
    if given is None or names is None:
        return values
    for entry in (e for e in given.entries if e.name in decaying):
        what, known = f"the initial value of the input `{entry.name}`", {**params, **values}
        value = _first_value(d, entry.value, what, decaying[entry.name], names, known)
        if value is not None:
            values[entry.name] = value
    return values


def _first_value(
    d: _Draft,
    node: Node,
    what: str,
    dimension: Dimension | None,
    names: Names,
    known: Mapping[str, l0.Value],
) -> l0.Value | None:
    """The initial value that a population gives, over the values before it."""
    if reads_place(node):
        return placed_value(node, what, dimension, names, known, d.size, d.shape, d.c)
    value = _varied(node, what, dimension, names, known, d.c)
    return initial_value(node, d.c, what, dimension, names, d.size)[0] if value is None else value


def _varies(expr: Expr, values: Mapping[str, l0.Value]) -> bool:
    """Whether a value follows from what differs from neuron to neuron, by more than its place."""
    read = [values[n] for n in refs(expr) if n in values and not isinstance(values[n], l0.Const)]
    return bool(read) and not refs(expr) & HIDDEN and not any(isinstance(v, l0.Driven) for v in read)


def _with_numbers(expr: Expr, values: Mapping[str, l0.Value], c: Context) -> Expr:
    """The expression with the parameters of the model as numbers."""
    known = {"pi": math.pi, "e": math.e, "inf": math.inf, **c.names.numbers}
    return substitute(expr, {n: Num(known[n]) for n in refs(expr) if n in known and n not in values})


def _varied(
    node: Node,
    what: str,
    dimension: Dimension | None,
    names: Names | None,
    values: Mapping[str, l0.Value],
    c: Context,
) -> l0.Value | None:
    """The expression of a population's `init` that follows from what differs from neuron to neuron, if it is one; it
    reads no state that comes later."""
    text = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    if names is None or not any(n in text for n, v in values.items() if not isinstance(v, l0.Const)):
        return None
    checked = check_expression(node, names.scope, Wanted(what, dimension), Sink())
    if checked is None or not _varies(checked.expr, values):
        return None
    expr = _with_numbers(checked.expr, values, c)
    return l0.Formula(expr, node.span) if refs(expr) <= values.keys() else None


# ------------------------------------------------------------------------------ checks of values


def _check_times(d: _Draft, given: tree.Mapping | None, params: Mapping[str, l0.Value]) -> None:
    """Decays must be positive and refractory periods integer steps, with this population's values."""
    neuron, out = d.neuron, d.out
    for what, expr, place in neuron.times:
        value = params.get(expr.name) if isinstance(expr, Ref) else None
        if isinstance(value, l0.Const) and (id(expr), value.value) in out._good:
            continue
        used = refs(expr)
        several = [n for n in sorted(used) if not isinstance(params.get(n, l0.Const(0)), l0.Const)]
        blame, related = _blame(used, given, neuron, place)
        moving = [n for n in several if isinstance(params[n], l0.Driven | l0.Formula)]
        if several and not moving and not what.startswith("`decay`"):
            if out.step is not None:
                check_each(expr, params, Rounded(out.step, neuron.nearest, blame, related), what, out.c)
            continue
        if several:
            several = moving or several
            why = "changes in time" if isinstance(params[several[0]], l0.Driven) else "differs from neuron to neuron"
            message = f"{what} of `{d.name}` follows from `{several[0]}`, which {why}"
            out.c.sink.error("E0802", message, blame, "give one number per population", related)
            continue
        time: float | int | None = value.value if isinstance(value, l0.Const) else None
        if time is None:
            time = valued(expr, _numbers(params, out.c), what, blame, out.c.sink, related)
        if time is None:
            continue
        if what.startswith("`decay`"):
            good = 0 < time < float("inf")
            if not good:
                message = f"{what} must be a positive time; it is {time:g} ms"
                out.c.sink.error("E0106", message, blame, None, related)
        else:
            good = out.step is None or None is not steps_of(
                time, blame, out.c.sink, what, out.step, high=l0.MOST_STEPS, nearest=neuron.nearest, related=related
            )
        if good and isinstance(value, l0.Const):
            out._good.add((id(expr), value.value))


def _blame(
    used: set[str], given: tree.Mapping | None, neuron: BuiltNeuron, place: Span | None
) -> tuple[Span, tuple[Related, ...]]:
    """The source of the value of an expression: a population's setting, a default, or the expression itself."""
    related = (Related("which is used here", place),) if place is not None else ()
    for name in sorted(used):
        entry = given.entry(name) if given is not None else None
        if entry is not None:
            return entry.value.span, related
    for name in sorted(used):
        if name in neuron.origins:
            return neuron.origins[name], related
    return place or neuron.span, ()


_GIVEN = ("file", "times", "indices")
"""What a population of neurons with given spikes says."""


def _spikes_of_file(given: tree.Mapping, neuron: BuiltNeuron, c: Context) -> dict[str, l0.Value]:
    """`{file: spikes.npz, times: t, indices: i}`: the two arrays of one file."""
    out: dict[str, l0.Value] = {}
    file = given.get("file")
    for entry in given.entries:
        if entry.name == ROUND and ROUND in neuron.params:
            rounding = _rounding(entry.value, c)
            out |= {} if rounding is None else {ROUND: rounding}
        elif entry.name not in _GIVEN:
            help = "with `file`, the other keys are `times` and `indices`, names of its arrays, and `round`"
            message = f"neuron `{neuron.name}` has no parameter `{entry.name}`"
            c.sink.error("E0201", message, entry.key.span, help)
    if not isinstance(file, Scalar):
        return out
    help = "an .npz, a .csv with a line of names, or an .h5 such as a run's own `spikes.h5`"
    read = named_arrays(file, "must be a file that holds two arrays by name", help, c)
    if read is None:
        return out
    path, found = read
    for name in ("times", "indices"):
        node = given.get(name)
        array = node.text if isinstance(node, Scalar) else name
        at = node.span if node is not None else file.span
        if pick(found, array, at, file, c) is not None:
            out[name] = l0.FromFile(str(path), array, 1.0, at)
    return out
