"""Shared builder of definitions with dynamics (neurons, synapses).

Assumes: the block has been validated; `use` has been expanded.
Guarantees: the scope of params is the preceding params, that of states all that precedes them; that of named
expressions and equations is the caller's; every error is one diagnostic, and names whose declaration has one remain
declared.
Does not: depend on the kind of definition.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

import compiler.frontend.build.shared.scope as scopes
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import Binary, Expr, Ref, refs, substitute
from compiler.expr.parse import Assign, parse_derivative
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, TIME, UNITS, Dimension, canonical_name, parse_unit, unit_meant
from compiler.frontend.build.shared.initial_values import explain_draws, initial_value
from compiler.frontend.build.shared.random_help import with_distribution
from compiler.frontend.build.shared.self_names import HIDDEN, SELF
from compiler.frontend.build.shared.values import Context, entries_of, listed, mapping, text_of, valued
from compiler.frontend.resolve.values import exact_span
from compiler.frontend.schema.wording import allowed, count, taken_word
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.ir.level0.controls import rewritten

TIMES: Final = ("t", "dt")
Locals = dict[str, tuple[Kind, Dimension | None]]
"""Names that statements gave a value, with kind and dimension (None: unknown)."""


@dataclass
class Draft:
    """A definition being built. `noun`: its name in messages; `no_random`: why its equations must be deterministic;
    `given`: dimensions of parameters and states that the use site provides in place of those of the defaults; `late`:
    names that have a value at each use only; `totals`: what `sum_into` may add up (None: it cannot stand here)."""

    name: str
    node: tree.Mapping
    c: Context
    noun: str = "neuron"
    no_random: str = "random numbers can be drawn in `update` and `spike` only"
    params: dict[str, Dimension | None] = field(default_factory=dict)
    states: dict[str, Dimension | None] = field(default_factory=dict)
    inputs: dict[str, Dimension | None] = field(default_factory=dict)
    others: dict[str, Dimension | None] = field(default_factory=dict)  # variables of other populations
    flags: dict[str, Dimension | None] = field(default_factory=dict)  # events with conditions
    past: dict[str, Dimension | None] = field(default_factory=dict)  # variables of histories
    histories: dict[str, int] = field(default_factory=dict)  # how many each has; 0: not known
    locals: Locals = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    nouns: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Span] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    given: Mapping[str, Dimension] = field(default_factory=dict)
    late: Mapping[str, Dimension | None] = field(default_factory=dict)
    totals: Mapping[str, Dimension | None] | None = None

    def declare(self, key: Scalar, noun: str) -> bool:
        """Whether `key` may be the name of a new `noun`; reports it if not."""
        name = key.text
        if name in TIMES:
            meaning = "the time" if name == "t" else "the time step"
            self.c.sink.error("E0107", f"`{name}` is {meaning} and cannot name {noun}", key.span)
            return False
        if keyword.iskeyword(name):
            self.c.sink.error("E0107", *taken_word(name, noun, key.span))
            return False
        if name in self.places:
            message = f"`{name}` is {self.nouns[name]} already and cannot be {noun} too"
            self.c.sink.error("E0212", message, key.span, "choose another name", declared_at(self.places[name]))
            return False
        self.places[name] = key.span
        self.nouns[name] = noun
        return True

    def scope(self, *groups: Mapping[str, Dimension | None]) -> scopes.Scope:
        dimensions: dict[str, Dimension | None] = dict(SELF) if self.noun == "neuron" else dict(self.late)
        for group in groups:
            dimensions.update(group)
        scope = replace(self.c.names.scope.extended(dimensions, self.places), totals=self.totals)
        return replace(scope, histories=self.histories) if self.histories else scope

    def check(self, node: Node, scope: scopes.Scope, wanted: scopes.Wanted) -> scopes.Checked | None:
        found = scopes.check_expression(node, scope, wanted, self.c.sink)
        if found is not None:
            self.read |= refs(found.expr)
        return found


def build_params(d: Draft) -> tuple[l0.ParamDecl, ...]:
    out: list[l0.ParamDecl] = []
    for entry in entries_of(d.node.get("params")):
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
                out.append(l0.ParamDecl(name, unit_name(dimension), None, doc, entry.key.span))
                continue
            value = block.get("value")
            if value is None:
                continue
            node = value
        scope = d.scope(d.params)
        d.origins[name] = node.span
        before = len(d.c.sink.items)
        found = d.check(node, scope, scopes.Wanted(f"parameter `{name}`"))
        if found is None and isinstance(node, Scalar):
            user = {"neuron": "population", "synapse": "projection", "current": "input"}.get(d.noun, d.noun)
            lead = f"give it in the {user}: "
            d.c.sink.items[before:] = [with_distribution(i, node.text, None, lead) for i in d.c.sink.items[before:]]
        if found is None:
            d.params[name] = None
            continue
        dimension = d.given.get(name, found.dimension or DIMENSIONLESS)
        default = constant_or_formula(found.expr, node, d)  # before `name` is known: it may be a model parameter's, too
        d.params[name] = dimension
        out.append(l0.ParamDecl(name, unit_name(dimension), default, doc, entry.key.span))
    return tuple(out)


def constant_or_formula(e: Expr, node: Node, d: Draft) -> l0.Value | None:
    """A number where the expression reads only model parameters, else a formula."""
    used = refs(e)
    if used & (d.params.keys() | d.states.keys() | HIDDEN | d.late.keys()) or any("." in name for name in used):
        return l0.Formula(e, node.span)
    found = valued(e, d.c.names.numbers, "this", node.span, d.c.sink)
    return None if found is None else l0.Const(found, node.span)


Drawn = Callable[[Node, str], "tuple[l0.Value | None, Dimension | None]"]
"""Value and dimension of an initial value other than an expression (a distribution, a list, an array); `what`: its
name in messages.
"""


def build_states(d: Draft, drawn: Drawn | None = None) -> tuple[l0.StateDecl, ...]:
    out: list[l0.StateDecl] = []
    for entry in entries_of(d.node.get("state")):
        name = entry.name
        if not d.declare(entry.key, "a state variable"):
            continue
        if isinstance(entry.value, Scalar):
            scope = d.scope(d.params, d.states)  # the initial values of preceding states
            before = len(d.c.sink.items)
            found = d.check(entry.value, scope, scopes.Wanted(f"the initial value of `{name}`"))
            explain_draws(d.c.sink, before, entry.value, None)
            dimension = None if found is None else found.dimension or DIMENSIONLESS
            value = None if found is None else constant_or_formula(found.expr, entry.value, d)
        elif drawn is not None:
            value, dimension = drawn(entry.value, f"the initial value of `{name}`")
        else:
            value, dimension = initial_value(entry.value, d.c, f"the initial value of `{name}`", None)
        dimension = d.given.get(name, dimension)
        d.states[name] = dimension
        if value is not None and dimension is not None:
            out.append(l0.StateDecl(name, unit_name(dimension), value, entry.key.span))
    return tuple(out)


def unit_dimension(node: Node, c: Context) -> Dimension | None:
    """The dimension of an explicit unit; None after an error."""
    found = parse_unit(text_of(node))
    if found is None:
        text = text_of(node)
        meant = unit_meant(text)
        help = f"write `{meant}`" if meant else did_you_mean(text, UNITS) or "for example `mV`, `pA`, `nS` or `1/ms`"
        c.sink.error("E0403", f"`{text}` is not a known unit", node.span, help)
        return None
    return found[0]


def build_lets(d: Draft, scope: scopes.Scope) -> tuple[tuple[l0.Set, ...], scopes.Scope]:
    out: list[l0.Set] = []
    for entry in entries_of(d.node.get("let")):
        name = entry.name
        if not d.declare(entry.key, "a named expression"):
            continue
        found = d.check(entry.value, scope, scopes.Wanted(f"`{name}`", None, None, d.no_random))
        scope = scopes.with_value(scope, name, found, entry.key.span)
        if found is not None:
            out.append(l0.Set(name, found.expr, entry.key.span))
    return tuple(out), scope


def build_dynamics(d: Draft, scope: scopes.Scope) -> tuple[l0.Ode, ...]:
    out: list[l0.Ode] = []
    for entry in entries_of(d.node.get("dynamics")):
        span, exact = exact_span(entry.key)
        name = parse_derivative(entry.key.text, span, d.c.sink, exact=exact)
        if name is None:
            continue
        if name not in d.states:
            not_a_state(d, name, entry.key.span, "has no derivative")
            continue
        dimension = d.states[name]
        why = d.no_random if d.noun == "synapse" else f"{d.no_random}; white noise is `xi`"
        wanted = scopes.Wanted(f"`d{name}/dt`", None if dimension is None else dimension / TIME, False, why)
        found = d.check(entry.value, scope, wanted)
        if found is not None:
            out.append(l0.Ode(name, found.expr, entry.value.span))
    return tuple(out)


def not_a_state(d: Draft, name: str, span: Span, consequence: str) -> None:
    noun = d.nouns.get(name)
    help: str | None
    if noun is None:
        message = f"`{name}` is no state variable"
        missing = f"declare it: `state: {{{name}: ...}}` with its initial value"
        help = did_you_mean(name, d.states) or ("this one assigns to its own only" if "." in name else missing)
    else:
        message = f"`{name}` is {noun} and {consequence}"
        help = "an input decays by itself; write `decay: ...`" if noun == "an input" else None
        if noun == "a parameter":
            help = "what changes during a run belongs into `state`"
    d.c.sink.error("E0310", message, span, help, declared_at(d.places.get(name)))


def not_assignable(d: Draft, target: str, at: Span, scope: scopes.Scope) -> None:
    noun = d.nouns.get(target)
    if target in TIMES:
        noun = "the time" if target == "t" else "the time step"
    elif noun is None:
        noun = "a parameter of the model" if target in scope.kinds else f"no name of this {d.noun}"
    place = scope.places.get(target)
    help = "what changes during a run belongs into `state`" if "parameter" in noun else None
    d.c.sink.error("E0310", f"`{target}` is {noun} and cannot be assigned to", at, help, declared_at(place))


def assigned(
    d: Draft, statement: Assign, scope: scopes.Scope, wanted: scopes.Wanted, node: Node
) -> scopes.Checked | None:
    """The new value of a statement's target: `x += a` is `x = x + a`."""
    value = statement.value
    if statement.op != "=":
        value = Binary(statement.op[0], Ref(statement.target, statement.target_span), value, statement.span)
    found = scopes.check_tree(value, node.span, scope, wanted, d.c.sink)
    if found is not None:
        d.read |= refs(found.expr)
    return found


def wanted_of(target: str, states: Mapping[str, Dimension | None], local: Locals) -> scopes.Wanted:
    """What may be assigned: the dimension of a state, kind and dimension of a local, anything to a new name."""
    kind, dimension = (Kind.REAL, states[target]) if target in states else local.get(target, (None, None))
    return scopes.Wanted(f"`{target}`", dimension, None if kind is None else kind is Kind.BOOL, None)


def with_local(scope: scopes.Scope, local: Locals, target: str, found: scopes.Checked | None, at: Span) -> scopes.Scope:
    """`scope` with a name that a statement gives its first value (None: it has a mistake); it joins `local`."""
    kind = Kind.REAL if found is None or found.kind is Kind.INT else found.kind
    local[target] = (kind, None if found is None else found.dimension)
    return scopes.with_value(scope, target, found, at)


def build_update(
    d: Draft, scope: scopes.Scope, enter: Callable[[Node, scopes.Scope], scopes.Scope] = lambda node, scope: scope
) -> tuple[tuple[l0.Set, ...], scopes.Scope]:
    """The assignments of `update` to states, inputs and locals, and what is known after them. `enter`: what is known at
    a statement."""
    out: list[l0.Set] = []
    states = {**d.inputs, **d.states}
    for node in listed(d.node.get("update")):
        scope = enter(node, scope)
        statement = scopes.read_statement(node, scope, d.c.sink)
        if statement is None:
            scope = scopes.unsure_of(node, scope)
            continue
        target, at = statement.target, statement.target_span
        known = target in states or target in d.locals
        if not known and (
            target in d.places or scopes.is_taken(scope, target, node) or "." in target or target in TIMES
        ):
            not_assignable(d, target, at, scope)
            continue
        if not known and statement.op != "=":
            scopes.no_value_yet(statement, scope, d.c.sink)
            continue
        found = assigned(d, statement, scope, wanted_of(target, states, d.locals), node)
        if not known:
            scope = with_local(scope, d.locals, target, found, at)
        if found is not None:
            out.append(l0.Set(target, found.expr, statement.span))
    return tuple(out), scope


def without_equations(d: Draft, source: str, refused: Iterable[str], needed: Mapping[str, str]) -> None:
    """Reports keys of equations beside a `source` that has none (E0108), and parameters that it lacks (E0103), with an
    example of each that is `needed`."""
    for key in refused:
        entry = d.node.entry(key)
        if entry is not None:
            message = f"a {d.noun} with `source: {source}` has no equations, so no `{key}`"
            d.c.sink.error("E0108", message, entry.key.span)
    for name, example in needed.items():
        if name not in d.params:
            message = f"a {d.noun} with `source: {source}` needs the parameter `{name}`"
            d.c.sink.error("E0103", message, d.node.span, f"write `params: {{{name}: {example}}}`")


def note_unread(d: Draft, params: tuple[l0.ParamDecl, ...], noun: str) -> None:
    """Note parameters declared by the user that no expression of the definition reads."""
    d.c.unread_params.read(p.span for p in params if d.read & {p.name, scopes.total_name(p.name)})
    if any(p.span.via is not None or p.span.file.path.startswith("library/") for p in params):
        return
    d.c.unread_params.candidates += [(f"`{p.name}` of {noun} `{d.name}`", p.span) for p in params]


class Built(Protocol):
    """The interface of a definition to its users."""

    name: str
    params: dict[str, Dimension | None]
    states: dict[str, Dimension | None]
    places: dict[str, Span]
    span: Span


def unknown_setting(key: Scalar, noun: str, known: Collection[str], of: str, built: Built, c: Context) -> None:
    """E0201 for a value of a parameter or state variable (`noun`) that the definition (`of`: "neuron") does not
    declare."""
    name = key.text
    help = did_you_mean(name, known)
    if help is None:
        place = "params" if name in built.params else "init" if name in built.states else None
        if place is not None:
            help = f"it stands under `{place}`"
        elif name in getattr(built, "inputs", ()):
            help = "it is an input, which holds what arrives in a step; one with `decay` has an initial value"
        else:
            help = allowed(f"it has the {count(noun, len(known))}", known) if known else f"it has no {noun}s"
    related = declared_at(built.span, f"the {of}") if built.span.via is None else ()
    c.sink.error("E0201", f"{of} `{built.name}` has no {noun} `{name}`", key.span, help, related)


def report_missing(missing: Sequence[str], user: str, built: Built, at: Span, c: Context) -> None:
    """E0103 for parameters of a definition to which its `user` gives no value."""
    if missing:
        names = ", ".join(f"`{m}`" for m in missing)
        related = tuple(Related("declared here", built.places[m]) for m in missing[:2])
        message = f"`{user}` gives no value for the parameter{'s' * (len(missing) > 1)} {names} of `{built.name}`"
        c.sink.error("E0103", message, at, f"write `params: {{{missing[0]}: ...}}`", related)


D = TypeVar("D", l0.NeuronDef, l0.SynapseDef)


def with_model_params(d: Draft, definition: D, own: Collection[str]) -> D:
    """The definition with the model parameters that it reads, apart from names of its own; Booleans among them are
    numbers at run time, so `flag` is read as `flag != 0`."""
    numbers = d.c.names.numbers
    model_params = tuple(p for p in numbers if p in d.read and p not in own)
    flags: dict[str, Expr] = {p: Ref(p).ne(0.0) for p in model_params if isinstance(numbers[p], bool)}
    whole = rewritten(definition, lambda e: substitute(e, flags)) if flags else definition
    return replace(whole, model_params=model_params)


def unit_name(dimension: Dimension | None) -> str:
    return canonical_name(dimension or DIMENSIONLESS)
