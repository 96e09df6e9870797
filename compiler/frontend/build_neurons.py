"""Neuron definitions: from a resolved block of `neurons` to a NeuronDef.

Assumes: the block has been validated; `use` is taken over.
Guarantees: every expression is typed and dimension-checked in the scope that the language gives it:
params see params before them; lets, dynamics, updates, the spike condition and resets see params,
state, inputs, `t` and `dt`; updates and what follows see locals that were assigned before.
Does not: choose integrators, or know populations (their values are checked in build_populations).
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.ast import Binary, Expr, Num, Ref, refs, substitute
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.parse import Assign, parse_derivative
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, TIME, UNITS, Dimension, canonical_name, parse_unit
from compiler.frontend import tree
from compiler.frontend.resolve_values import exact_span
from compiler.frontend.scope import Checked, Scope, Wanted, check_expression, check_tree, read_statement
from compiler.frontend.tree import Entry, Node, Scalar
from compiler.frontend.values import Context, mapping, text_of
from compiler.frontend.values_initial import initial_value
from compiler.ir.model import (
    Const,
    Formula,
    InputDecl,
    Method,
    NeuronDef,
    Ode,
    ParamDecl,
    Set,
    Spike,
    StateDecl,
    Value,
)
from compiler.source import Span

_TIMES: Final = ("t", "dt")
NO_RANDOM: Final = "random numbers can be drawn in `update` and `spike` only"


@dataclass
class BuiltNeuron:
    """A definition with what its users are checked against. `definition` is None after an error."""

    name: str
    definition: NeuronDef | None
    params: dict[str, Dimension | None]
    states: dict[str, Dimension | None]
    inputs: dict[str, Dimension | None]
    places: dict[str, Span]
    span: Span
    spikes: bool
    source: str
    refractory: Span | None = None
    nearest: bool = False
    origins: dict[str, Span] = field(default_factory=dict)  # where defaults of params stand


@dataclass
class _Draft:
    """A definition being built."""

    name: str
    node: tree.Mapping
    c: Context
    params: dict[str, Dimension | None] = field(default_factory=dict)
    states: dict[str, Dimension | None] = field(default_factory=dict)
    inputs: dict[str, Dimension | None] = field(default_factory=dict)
    locals: dict[str, tuple[Kind, Dimension | None]] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    nouns: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Span] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def declare(self, key: Scalar, noun: str) -> bool:
        """Whether `key` may be the name of a new `noun`; reports it if not."""
        name = key.text
        if name in _TIMES:
            meaning = "the time" if name == "t" else "the time step"
            self.c.sink.error("E0107", f"`{name}` is {meaning} and cannot name {noun}", key.span)
            return False
        if keyword.iskeyword(name):
            message = f"`{name}` is a word of the expression language and cannot name {noun}"
            self.c.sink.error("E0107", message, key.span)
            return False
        if name in self.places:
            message = f"`{name}` is {self.nouns[name]} already and cannot be {noun} too"
            related = (Related("declared here", self.places[name]),)
            self.c.sink.error("E0212", message, key.span, "choose another name", related)
            return False
        self.places[name] = key.span
        self.nouns[name] = noun
        return True

    def scope(self, *groups: Mapping[str, Dimension | None]) -> Scope:
        dimensions: dict[str, Dimension | None] = {}
        for group in groups:
            dimensions.update(group)
        kinds = dict.fromkeys(dimensions, Kind.REAL)
        return self.c.names.scope.extended(kinds, dimensions, self.places)

    def check(self, node: Node, scope: Scope, wanted: Wanted) -> Checked | None:
        found = check_expression(node, scope, wanted, self.c.sink)
        if found is not None:
            self.read |= refs(found.expr)
        return found


def build_neuron(name: str, node: tree.Mapping, at: Span, c: Context) -> BuiltNeuron:
    """The neuron definition `node`, declared at `at`; with `definition` None when it has mistakes
    (reported)."""
    before = len(c.sink.items)
    d = _Draft(name, node, c)
    source = text_of(node.get("source")) or "equations"
    params = _params(d)
    state = _states(d)
    inputs = _inputs(d)
    times: dict[str, Dimension | None] = {"t": TIME, "dt": TIME}
    scope = d.scope(d.params, d.states, d.inputs, times)
    lets, scope = _lets(d, scope)
    dynamics = _dynamics(d, scope)
    update, scope = _update(d, scope)
    spike = _spike(d, scope, lets, update)
    spike_node = mapping(node.get("spike"))
    if source != "equations":
        _only_source(d, source)
    definition: NeuronDef | None = None
    if not any(i.severity == "error" for i in c.sink.items[before:]):
        method = Method(text_of(node.get("method")) or "auto")
        definition = _finished(
            d, NeuronDef(name, params, state, inputs, lets, dynamics, update, spike, method, source, (), at)
        )
        _unused(d, params, definition)
    refractory = spike_node.get("refractory") if spike_node is not None else None
    return BuiltNeuron(
        name,
        definition,
        d.params,
        d.states,
        d.inputs,
        d.places,
        at,
        spike_node is not None or source != "equations",
        source,
        None if refractory is None else refractory.span,
        definition is not None and definition.spike is not None and definition.spike.round_refractory,
        d.origins,
    )


# ---------------------------------------------------------------------------------- declarations


def _params(d: _Draft) -> tuple[ParamDecl, ...]:
    out: list[ParamDecl] = []
    for entry in _entries(d.node, "params"):
        name = entry.name
        if not d.declare(entry.key, "a parameter"):
            continue
        node, doc = entry.value, ""
        block = mapping(node)
        if block is not None:
            doc = text_of(block.get("description")).strip()
            unit = block.get("unit")
            if unit is not None:
                dimension = unit_dimension(unit, d.c)
                d.params[name] = dimension
                out.append(ParamDecl(name, _unit(dimension), None, doc, entry.key.span))
                continue
            value = block.get("value")
            if value is None:
                continue
            node = value
        scope = d.scope(d.params)
        d.origins[name] = node.span
        found = d.check(node, scope, Wanted(f"parameter `{name}`"))
        if found is None:
            d.params[name] = None
            continue
        dimension = found.dimension or DIMENSIONLESS
        d.params[name] = dimension
        default = _constant_or_formula(found.expr, node, d)
        out.append(ParamDecl(name, _unit(dimension), default, doc, entry.key.span))
    return tuple(out)


def _constant_or_formula(e: Expr, node: Node, d: _Draft) -> Value | None:
    """A number where the expression reads parameters of the model only, else a formula."""
    if refs(e) & (d.params.keys() | d.states.keys()):
        return Formula(e, node.span)
    try:
        return Const(evaluate(e, d.c.names.numbers), node.span)
    except ExprError as error:
        d.c.sink.error("E0308", f"this has no value: {error.message}", node.span)
        return None


def _states(d: _Draft) -> tuple[StateDecl, ...]:
    out: list[StateDecl] = []
    for entry in _entries(d.node, "state"):
        name = entry.name
        if not d.declare(entry.key, "a state variable"):
            continue
        if isinstance(entry.value, Scalar):
            scope = d.scope(d.params, d.states)  # the initial values of states before it
            found = d.check(entry.value, scope, Wanted(f"the initial value of `{name}`"))
            dimension = None if found is None else found.dimension or DIMENSIONLESS
            value = None if found is None else _constant_or_formula(found.expr, entry.value, d)
        else:
            value, dimension = initial_value(entry.value, d.c, f"the initial value of `{name}`", None)
        d.states[name] = dimension
        if value is not None and dimension is not None:
            out.append(StateDecl(name, _unit(dimension), value, entry.key.span))
    return tuple(out)


def _inputs(d: _Draft) -> tuple[InputDecl, ...]:
    out: list[InputDecl] = []
    scope = d.scope(d.params)
    for entry in _entries(d.node, "inputs"):
        name, block = entry.name, mapping(entry.value)
        if not d.declare(entry.key, "an input") or block is None:
            continue
        unit = block.get("unit")
        dimension = DIMENSIONLESS if unit is None else unit_dimension(unit, d.c)
        d.inputs[name] = dimension
        decay = block.get("decay")
        tau: Expr | None = None
        if decay is not None:
            found = d.check(decay, scope, Wanted(f"`decay` of `{name}`", TIME))
            tau = None if found is None else found.expr
            d.origins[f"{name}.decay"] = decay.span
        out.append(InputDecl(name, _unit(dimension), tau, entry.key.span))
    return tuple(out)


def unit_dimension(node: Node, c: Context) -> Dimension | None:
    """The dimension of a unit that is written out; None after an error."""
    found = parse_unit(text_of(node))
    if found is None:
        text = text_of(node)
        help = did_you_mean(text, UNITS) or "for example `mV`, `pA`, `nS` or `1/ms`"
        c.sink.error("E0403", f"`{text}` is not a known unit", node.span, help)
        return None
    return found[0]


# ------------------------------------------------------------------------------------- equations


def _lets(d: _Draft, scope: Scope) -> tuple[tuple[Set, ...], Scope]:
    out: list[Set] = []
    for entry in _entries(d.node, "let"):
        name = entry.name
        if not d.declare(entry.key, "a named expression"):
            continue
        found = d.check(entry.value, scope, Wanted(f"`{name}`", None, None, NO_RANDOM))
        kind = Kind.REAL if found is None else found.kind
        dimension = None if found is None else found.dimension
        scope = scope.extended({name: kind}, {name: dimension}, {name: entry.key.span})
        if found is not None:
            out.append(Set(name, found.expr, entry.key.span))
    return tuple(out), scope


def _dynamics(d: _Draft, scope: Scope) -> tuple[Ode, ...]:
    out: list[Ode] = []
    for entry in _entries(d.node, "dynamics"):
        span, exact = exact_span(entry.key)
        name = parse_derivative(entry.key.text, span, d.c.sink, exact=exact)
        if name is None:
            continue
        if name not in d.states:
            _not_a_state(d, name, entry.key.span, "has no derivative")
            continue
        dimension = d.states[name]
        wanted = Wanted(f"`d{name}/dt`", None if dimension is None else dimension / TIME, False, NO_RANDOM)
        found = d.check(entry.value, scope, wanted)
        if found is not None:
            out.append(Ode(name, found.expr, entry.value.span))
    return tuple(out)


def _not_a_state(d: _Draft, name: str, span: Span, consequence: str) -> None:
    noun = d.nouns.get(name)
    related = (Related("declared here", d.places[name]),) if name in d.places else ()
    help: str | None
    if noun is None:
        message = f"`{name}` is no state variable"
        near = did_you_mean(name, d.states)
        help = near or f"declare it: `state: {{{name}: ...}}` with its initial value"
    else:
        message = f"`{name}` is {noun} and {consequence}"
        help = "an input decays by itself; write `decay: ...`" if noun == "an input" else None
        if noun == "a parameter":
            help = "what changes during a run belongs into `state`"
    d.c.sink.error("E0310", message, span, help, related)


def _update(d: _Draft, scope: Scope) -> tuple[tuple[Set, ...], Scope]:
    out: list[Set] = []
    for node in _items(d.node, "update"):
        statement = read_statement(node, scope, d.c.sink)
        if statement is None:
            continue
        target, at = statement.target, statement.target_span
        if target in d.states or target in d.inputs:
            dimension = d.states[target] if target in d.states else d.inputs[target]
            found = _assigned(d, statement, scope, Wanted(f"`{target}`", dimension, False, None), node)
        elif target in d.locals:
            kind, dimension = d.locals[target]
            condition = kind is Kind.BOOL
            found = _assigned(d, statement, scope, Wanted(f"`{target}`", dimension, condition, None), node)
        elif target in d.places or target in scope.kinds or "." in target or target in _TIMES:
            _not_assignable(d, target, at, scope)
            continue
        else:
            if statement.op != "=":
                message = f"`{target}` has no value yet that `{statement.op}` could change"
                d.c.sink.error("E0302", message, at, did_you_mean(target, scope.kinds))
                continue
            found = _assigned(d, statement, scope, Wanted(f"`{target}`", None, None, None), node)
            kind = Kind.REAL if found is None else found.kind
            kind = Kind.REAL if kind is Kind.INT else kind
            dimension = None if found is None else found.dimension
            d.locals[target] = (kind, dimension)
            scope = scope.extended({target: kind}, {target: dimension}, {target: at})
        if found is not None:
            out.append(Set(target, found.expr, statement.span))
    return tuple(out), scope


def _not_assignable(d: _Draft, target: str, at: Span, scope: Scope) -> None:
    noun = d.nouns.get(target)
    if target in _TIMES:
        noun = "the time" if target == "t" else "the time step"
    elif noun is None:
        noun = "a parameter of the model" if target in scope.kinds else "no name of this neuron"
    place = scope.places.get(target)
    related = (Related("declared here", place),) if place is not None else ()
    help = "what changes during a run belongs into `state`" if "parameter" in noun else None
    d.c.sink.error("E0310", f"`{target}` is {noun} and cannot be assigned to", at, help, related)


def _assigned(d: _Draft, statement: Assign, scope: Scope, wanted: Wanted, node: Node) -> Checked | None:
    """The new value of a statement's target: `x += a` is `x = x + a`."""
    value = statement.value
    if statement.op != "=":
        value = Binary(statement.op[0], Ref(statement.target, statement.target_span), value, statement.span)
    found = check_tree(value, node.span, scope, wanted, d.c.sink)
    if found is not None:
        d.read |= refs(found.expr)
    return found


# ---------------------------------------------------------------------------------------- spikes


def _spike(d: _Draft, scope: Scope, lets: tuple[Set, ...], update: tuple[Set, ...]) -> Spike | None:
    block = mapping(d.node.get("spike"))
    if block is None:
        return None
    when_node = block.get("when")
    when: Checked | None = None
    if when_node is not None:
        when = d.check(when_node, scope, Wanted("`when`", None, True, None))
    reset: list[Set] = []
    for node in _items(block, "reset"):
        statement = read_statement(node, scope, d.c.sink)
        if statement is None:
            continue
        target = statement.target
        if target not in d.states:
            _not_a_state(d, target, statement.target_span, "cannot be reset")
            continue
        found = _assigned(d, statement, scope, Wanted(f"`{target}`", d.states[target], False, None), node)
        if found is not None:
            reset.append(Set(target, found.expr, statement.span))
    refractory, hold, nearest = _refractory(d, block)
    if when is None:
        return None
    if refractory is not None and hold is None:
        hold = _states_in(when.expr, d, (*lets, *update))
    return Spike(when.expr, tuple(reset), refractory, hold or (), nearest, block.span)


def _refractory(d: _Draft, block: tree.Mapping) -> tuple[Expr | None, tuple[str, ...] | None, bool]:
    node = block.get("refractory")
    if node is None:
        return None, None, False
    hold: tuple[str, ...] | None = None
    nearest = False
    inner = mapping(node)
    if inner is not None:
        if inner.get("hold") is not None:
            names = [i for i in _items(inner, "hold") if isinstance(i, Scalar)]
            for item in names:
                if item.text not in d.states:
                    _not_a_state(d, item.text, item.span, "cannot be held")
            hold = tuple(dict.fromkeys(i.text for i in names if i.text in d.states))
        nearest = text_of(inner.get("round")) == "nearest"
        time = inner.get("time")
        if time is None:
            return None, hold, nearest
        node = time
    found = d.check(node, d.scope(d.params), Wanted("`refractory`", TIME))
    if found is None:
        return None, hold, nearest
    zero = isinstance(found.expr, Num) and found.expr.value == 0
    return None if zero else found.expr, hold, nearest


def _states_in(when: Expr, d: _Draft, definitions: tuple[Set, ...]) -> tuple[str, ...]:
    """The states that a condition reads, also through lets and locals."""
    seen = refs(when)
    for statement in reversed(definitions):
        if statement.target in seen and statement.target not in d.states:
            seen |= refs(statement.value)
    return tuple(s for s in d.states if s in seen)


# ---------------------------------------------------------------------------------------- finish


def _only_source(d: _Draft, source: str) -> None:
    for key in ("state", "inputs", "let", "dynamics", "update", "spike", "method"):
        entry = d.node.entry(key)
        if entry is not None:
            message = f"a neuron with `source: {source}` has no equations, so no `{key}`"
            d.c.sink.error("E0108", message, entry.key.span)
    for name in ("times", "indices"):
        if name not in d.params:
            example = "{unit: ms}" if name == "times" else '{unit: "1"}'
            message = f"a neuron with `source: {source}` needs the parameter `{name}`"
            d.c.sink.error("E0103", message, d.node.span, f"write `params: {{{name}: {example}}}`")


def _finished(d: _Draft, n: NeuronDef) -> NeuronDef:
    """`n` with the parameters of the model that it reads; truth values among them are numbers at
    run time, so `flag` is read as `flag != 0`."""
    own = d.places.keys() | d.locals.keys()
    numbers = d.c.names.numbers
    model_params = tuple(p for p in numbers if p in d.read and p not in own)
    flags: dict[str, Expr] = {p: Binary("!=", Ref(p), Num(0.0)) for p in model_params if isinstance(numbers[p], bool)}

    def put(e: Expr) -> Expr:
        return substitute(e, flags) if flags else e

    def sets(items: tuple[Set, ...]) -> tuple[Set, ...]:
        return tuple(Set(s.target, put(s.value), s.span) for s in items)

    spike = n.spike
    if spike is not None:
        refractory = None if spike.refractory is None else put(spike.refractory)
        spike = Spike(put(spike.when), sets(spike.reset), refractory, spike.hold, spike.round_refractory, spike.span)
    return NeuronDef(
        n.name,
        n.params,
        n.state,
        tuple(InputDecl(i.name, i.unit, None if i.decay is None else put(i.decay), i.span) for i in n.inputs),
        sets(n.lets),
        tuple(Ode(o.state, put(o.rhs), o.span) for o in n.dynamics),
        sets(n.update),
        spike,
        n.method,
        n.source,
        model_params,
        n.span,
    )


def _unused(d: _Draft, params: tuple[ParamDecl, ...], n: NeuronDef) -> None:
    """Warn of parameters that no expression reads, where a user wrote them."""
    taken_over = any(p.span.via is not None or p.span.file.path.startswith("library/") for p in params)
    if n.source != "equations" or taken_over:
        return
    for p in params:
        if p.name not in d.read:
            d.c.sink.warning("W0002", f"nothing reads parameter `{p.name}` of neuron `{d.name}`", p.span)


def _unit(dimension: Dimension | None) -> str:
    return canonical_name(dimension or DIMENSIONLESS)


def _entries(node: tree.Mapping, name: str) -> tuple[Entry, ...]:
    block = mapping(node.get(name))
    return () if block is None else block.entries


def _items(node: tree.Mapping, name: str) -> tuple[Node, ...]:
    items = node.get(name)
    return items.items if isinstance(items, tree.Sequence) else ()
