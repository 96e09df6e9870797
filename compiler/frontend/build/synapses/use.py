"""Values of a synapse's parameters and states in a projection, and the dimensions inferred from them.

Assumes: the definition and the populations have been built.
Guarantees: every parameter and state of the synapse has a value for each member of the family, in canonical units and
of the declared dimension. Values are computed once per distinct environment of the projection's expressions, not once
per member.
Does not: check the definition's expressions (synapses.py), or compatibility (fits.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink, declared_at
from compiler.core.source import Span
from compiler.expr.ast import Ref, refs
from compiler.expr.units import Dimension
from compiler.frontend.build.places.names import Space
from compiler.frontend.build.places.values import place_numbers, placed_value, reads_places
from compiler.frontend.build.shared.definition_builder import report_missing, unknown_setting
from compiler.frontend.build.shared.initial_values import OneByOne, initial_value
from compiler.frontend.build.shared.random_help import words_of
from compiler.frontend.build.shared.scope import TOTAL, Wanted, check_expression, total_name
from compiler.frontend.build.shared.values import Names, entries_of, valued, with_numbers
from compiler.frontend.build.spiking.family import ENDS, SIZES, Family
from compiler.frontend.build.synapses.checks import end_reads, without_a_dot
from compiler.frontend.build.synapses.synapses import BuiltSynapse
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

Settings = tuple[tuple[tuple[str, l0.Value], ...], tuple[tuple[str, l0.Value], ...]]
"""Values of parameters and of states."""


@dataclass
class _Reader:
    """The values of one family's synapse. `given_each`: whether values may be one for each synapse."""

    synapse: BuiltSynapse
    definition: l0.SynapseDef
    family: Family
    at: Span
    given_each: OneByOne
    space: Space
    params: dict[str, Node] = field(default_factory=dict)
    init: dict[str, Node] = field(default_factory=dict)
    wrong: bool = False

    def settings(self, env: Mapping[str, Any]) -> Settings | None:
        """All values where the family's own values are `env`; None after an error."""
        before = len(self.family.c.sink.items)
        params = self.all_params(env)
        init = None if params is None else self.all_states(env, params)
        if params is None or init is None or len(self.family.c.sink.items) > before:
            return None
        return tuple(params.items()), tuple(init.items())

    def names(self, env: Mapping[str, Any], params: Mapping[str, l0.Value] | None = None) -> Names:
        """The scope of `params`, or with `params` that of `init`, which also reads them."""
        scope, numbers = self.family.names.scope, {**self.family.names.numbers, **env}
        if params is not None:
            for name, value in params.items():
                numbers.pop(name, None)  # per-synapse values have no single number here
                if isinstance(value, l0.Const):
                    numbers[name] = value.value
            declared = {**self.synapse.params, **self.synapse.states}
            scope = scope.extended({n: declared[n] for n in params}, self.synapse.places)
        return Names(scope, numbers)

    def all_params(self, env: Mapping[str, Any]) -> dict[str, l0.Value] | None:
        c, out, missing = self.family.c, dict[str, l0.Value](), list[str]()
        names = self.names(env)
        for decl in self.definition.params:
            node = self.params.get(decl.name)
            what = f"parameter `{decl.name}` of `{self.family.name}`"
            value: l0.Value | None
            if node is not None:
                value = self.given(node, what, self.synapse.params[decl.name], names, {}, env)
            elif isinstance(decl.default, l0.Formula):
                value = self.evaluated(decl.default, what, out, env)
            else:
                value = decl.default
                if value is None:
                    missing.append(decl.name)
            place = self.at if node is None else node.span
            if value is not None and (isinstance(value, l0.Const) or not self.shared(decl.name, place)):
                out[decl.name] = value
        report_missing(missing, self.family.name, self.synapse, self.at, c)
        whole = len(out) == len(self.definition.params) and self.decays(out, env)
        return out if whole else None

    def decays(self, params: Mapping[str, l0.Value], env: Mapping[str, Any]) -> bool:
        """Whether inputs that the projection holds decay with positive times; reports it if not."""
        c, own = self.family.c, {n: v.value for n, v in params.items() if isinstance(v, l0.Const)}
        numbers = {**c.names.numbers, **{n: env[n] for n in env.keys() & self.late}, **own}
        blocks = [b for b in (self.definition.pre, self.definition.post) if b is not None]
        for i in (i for block in blocks for i in block.inputs if i.decay is not None):
            assert i.decay is not None
            time = valued(i.decay, numbers, f"`decay` of the input `{i.name}`", i.span, c.sink)
            if time is None:
                return False
            if not 0 < time < math.inf:
                message = f"`decay` of the input `{i.name}` must be a positive time; it is {time:g} ms"
                user = Related(f"the projection `{self.family.name}` uses the synapse here", self.at)
                c.sink.error("E0106", message, i.span, None, (user,))
                return False
        return True

    def all_states(self, env: Mapping[str, Any], params: Mapping[str, l0.Value]) -> dict[str, l0.Value] | None:
        out: dict[str, l0.Value] = {}
        for decl in self.definition.state:
            node, own = self.init.get(decl.name), self.synapse.drawn.get(decl.name)
            what = f"the initial value of `{decl.name}`"
            value: l0.Value | None
            before = {**params, **out}
            if node is not None:
                value = self.given(node, what, self.synapse.states[decl.name], self.names(env, before), before, env)
            elif own is not None:
                late = {n: env[n] for n in env.keys() & self.late}
                value = self.given(own, what, self.synapse.states[decl.name], self.names(late, before), before, env)
            elif isinstance(decl.init, l0.Formula):
                value = self.evaluated(decl.init, f"{what} of `{self.family.name}`", before, env)
            else:
                value = decl.init
            if value is not None:
                out[decl.name] = value
        return out if len(out) == len(self.definition.state) else None

    def given(
        self,
        node: Node,
        what: str,
        dimension: Dimension | None,
        names: Names,
        before: Mapping[str, l0.Value],
        env: Mapping[str, Any],
    ) -> l0.Value | None:
        """A value set in the model; a formula if it reads per-synapse values `before` it."""
        c = self.family.c
        several = {n for n, value in before.items() if not isinstance(value, l0.Const)}
        mentioned = sorted(several & words_of(node))
        if mentioned and isinstance(node, Scalar):
            checked = check_expression(node, names.scope, Wanted(what, dimension), c.sink)
            if checked is None:
                return None
            if refs(checked.expr) & several:
                return l0.Formula(with_numbers(checked.expr, names.numbers), node.span)
        elif mentioned:
            message = f"{what} follows from `{mentioned[0]}`, which differs from synapse to synapse"
            help = "numbers in it are the same for all synapses; an expression is worked out for each"
            user = Related(f"the projection `{self.family.name}` uses the synapse here", self.at)
            of_the_synapse = any(node is drawn for drawn in self.synapse.drawn.values())
            c.sink.error("E0802", message, node.span, help, (user,) if of_the_synapse else ())
            return None
        if self.family.placed and reads_places(node, names.scope):
            return placed_value(node, what, dimension, names, self.space, self.family)(env)
        value, _ = initial_value(node, c, what, dimension, names, self.given_each.count, "synapse")
        if isinstance(value, l0.Listed | l0.FromFile) and not self.given_each.allowed:
            message = f"{what} from a list or a file needs connections that are given one by one"
            c.sink.error("E0802", message, node.span, "write `connect: {pairs: ...}`, or `all_to_all`")
            return None
        return value

    def shared(self, name: str, at: Span) -> bool:
        """Whether a parameter must be one number, because something is stored or tested once per neuron; reports it."""
        s = self.definition
        for end, block in (("pre", s.pre), ("post", s.post)):
            why = f"the variables of `{end}` are held once per neuron" if name in end_reads(block) else None
            for event in s.events:
                if event.end == end and name in without_a_dot(event.when):
                    why = f"the condition of `{event.name}` is tested once per neuron"
            if why is not None:
                message = f"parameter `{name}` cannot differ from synapse to synapse: {why}"
                self.family.c.sink.error("E0802", message, at, "give one number per projection")
                return True
        return False

    @property
    def late(self) -> set[str]:
        """What the definition's own values may read of the member."""
        return {*SIZES, *(total_name(name) for name in self.synapse.params)}

    def evaluated(
        self, formula: l0.Formula, what: str, values: Mapping[str, l0.Value], env: Mapping[str, Any]
    ) -> l0.Const | l0.Formula | None:
        """A formula of the definition as a number, or a formula if it reads per-synapse values."""
        c, used = self.family.c, refs(formula.expr)
        known = {n: v.value for n, v in values.items() if isinstance(v, l0.Const)}
        if any(n in self.synapse.places and n not in values for n in used):
            return None  # that parameter has its own error
        late = {n: env[n] for n in env.keys() & self.late}
        numbers = {**late, **{n: x for n, x in c.names.numbers.items() if n not in values}, **known}
        if used & (values.keys() - known.keys()):
            return l0.Formula(with_numbers(formula.expr, numbers), formula.span)
        if isinstance(formula.expr, Ref) and formula.expr.name in known:
            return l0.Const(known[formula.expr.name], formula.span)
        found = valued(formula.expr, numbers, what, self.at, c.sink, (Related("by this formula", formula.span),))
        return None if found is None else l0.Const(found, formula.span)


def read_settings(
    block: tree.Mapping, synapse: BuiltSynapse, space: Space, family: Family, at: Span, given: OneByOne
) -> Callable[[Mapping[str, Any]], Settings | None]:
    """The values of the synapse's parameters and states for each member; computed once per distinct environment."""
    definition = synapse.definition
    if definition is None:
        return lambda env: None
    reader = _Reader(synapse, definition, family, at, given, space)
    for key, noun, declared, into in (
        ("params", "parameter", synapse.params, reader.params),
        ("init", "state variable", synapse.states, reader.init),
    ):
        for entry in entries_of(block.get(key)):
            if entry.name in synapse.moving:
                continue
            if entry.name in declared:
                into[entry.name] = entry.value
            else:
                reader.wrong = True
                unknown_setting(entry.key, noun, declared, "synapse", synapse, family.c)
    used = sorted({n for node in (*reader.params.values(), *reader.init.values()) for n in family.mentions(node)})
    used += [ENDS] if family.placed else []
    own = [d.default for d in definition.params] + [d.init for d in definition.state]
    texts = (*(refs(x.expr) for x in own if isinstance(x, l0.Formula)), *map(words_of, synapse.drawn.values()))
    read_late = set[str]().union(*texts)
    if TOTAL in read_late or any(n.startswith(f"{TOTAL}.") for n in read_late):
        read_late |= family.values.keys() & reader.late
    used = sorted({*used, *(read_late & {*SIZES, *family.values} & reader.late)})
    for node in reader.init.values():
        both = [n for n in family.mentions(node) if n in synapse.params and n in family.values]
        if both:
            message = f"`{both[0]}` is a value of this projection and a parameter of `{synapse.name}`: which is meant?"
            related = declared_at(synapse.places[both[0]], "the parameter")
            family.c.sink.error("E0212", message, node.span, "give the value under `values` another name", related)
            reader.wrong = True
    read = set[str]().union(*(words_of(node) for node in reader.init.values())) & synapse.params.keys()
    family.c.unread_params.read(synapse.places[name] for name in read)
    known: dict[tuple[Any, ...], Settings | None] = {}

    def at_member(env: Mapping[str, Any]) -> Settings | None:
        key = tuple(env[n] for n in used)
        if key not in known:
            mistaken = reader.wrong or None in key
            known[key] = None if mistaken else reader.settings({n: env[n] for n in used})
            reader.wrong = reader.wrong or known[key] is None
        return known[key]

    return at_member


def given_dimensions(
    block: tree.Mapping, synapse: BuiltSynapse, space: Space, family: Family, moving: Collection[str]
) -> tuple[dict[str, Dimension], bool]:
    """Dimensions inferred from the projection's values for parameters and states declared without a unit: the
    definition is checked again with them, so that one definition serves inputs of every unit. And whether all of them
    are known: a value with an error may have any."""
    sure = True
    out: dict[str, Dimension] = {}
    scope = space.scope(family.names.scope, family.names.scope.kinds, True)
    numbers = {**place_numbers(), **family.names.numbers, **dict.fromkeys((*family.values, *SIZES), 1.0)}
    for key, declared in (("params", synapse.params), ("init", synapse.states)):
        if key == "init":
            own = {n: out.get(n, dimension) for n, dimension in synapse.params.items()}
            scope = scope.extended(own)
            numbers.update(dict.fromkeys(own, 1.0))
        for entry in entries_of(block.get(key)):
            if key == "params" and entry.name in moving:
                continue
            dimension = declared.get(entry.name)
            sure = sure and entry.name in declared
            if dimension is None or not dimension.dimensionless:
                continue
            # Values of the members are not known here: only the dimension is of interest, errors are reported later.
            scratch = replace(family.c, sink=Sink())
            _, found = initial_value(entry.value, scratch, entry.name, None, Names(scope, numbers))
            sure = sure and not scratch.sink.items
            if found is not None and not found.dimensionless:
                out[entry.name] = found
    return out, sure
