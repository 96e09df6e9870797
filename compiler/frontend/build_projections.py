"""Projections: from resolved blocks of `projections` to families with a table of members.

Assumes: populations have been built.
Guarantees: members stand in the order of sources, then targets, each in the order in which `from`
and `to` name them (`all` and classes: in the order of `populations`); a member whose probability or
number of connections is 0 does not exist. Weights have the dimension of the input, delays are whole
steps.
Does not: draw connections.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.ast import refs
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension, describe
from compiler.frontend import tree
from compiler.frontend.build_populations import Populations
from compiler.frontend.member_values import MemberValue, member_values
from compiler.frontend.pair_lists import read_pairs
from compiler.frontend.scope import Wanted, check_expression
from compiler.frontend.select import select
from compiler.frontend.tree import Node, Scalar
from compiler.frontend.values import (
    Context,
    Names,
    Step,
    mapping,
    number,
    out_of_bounds,
    steps_of,
    text_of,
)
from compiler.frontend.values_initial import initial_value
from compiler.ir.model import Const, Distribution, FromFile, Listed, Member, Projection, Value
from compiler.source import NOWHERE, Span

_SIZES = {"n_from": Kind.INT, "n_to": Kind.INT}
MAX_DELAY = 1 << 20
"""Steps; what is under way is held in a ring of this many slots at most."""
_WORD = re.compile(r"[A-Za-z]\w*", re.ASCII)


@dataclass
class _Family:
    """One entry of `projections` while it is built."""

    name: str
    c: Context
    populations: Populations
    names: Names
    values: dict[str, MemberValue]

    def environment(self, source: str, target: str) -> dict[str, Any]:
        """What differs from member to member."""
        env: dict[str, Any] = {
            "n_from": self.populations.built[source].size,
            "n_to": self.populations.built[target].size,
        }
        for name, value in self.values.items():
            env[name] = value.of(source, target)
        return env

    def per_member(
        self, node: Node, what: str, dimension: Dimension | None
    ) -> Callable[[dict[str, Any]], float | None]:
        """The value of a number at each member; checked once, a mistake is reported once."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not self.mentions(node):
            once = number(node, self.c, what, dimension, self.names)
            return lambda env: once
        checked = check_expression(node, self.names.scope, Wanted(what, dimension), self.c.sink)
        if checked is None:
            return lambda env: None
        expr = checked.expr
        used = tuple(n for n in refs(expr) if n in self.values or n in _SIZES)
        known: dict[tuple[Any, ...], Any] = {}
        numbers = dict(self.names.numbers)

        def value(env: dict[str, Any]) -> float | None:
            key = tuple(env[n] for n in used)
            if key not in known:
                if None in key:
                    known[key] = None
                else:
                    try:
                        known[key] = evaluate(expr, {**numbers, **env})
                    except ExprError as error:
                        at = error.span if error.span is not NOWHERE else node.span
                        self.c.sink.error("E0308", f"{what} has no value: {error.message}", at)
                        known[key] = None
            found: float | None = known[key]
            return found

        return value

    def mentions(self, node: Node) -> tuple[str, ...]:
        """The names that differ from member to member in the texts of `node`."""
        words: set[str] = set()
        stack: list[Node] = [node]
        while stack:
            match stack.pop():
                case Scalar(value=str(text)):
                    words.update(_WORD.findall(text))
                case tree.Mapping(entries=entries):
                    stack.extend(e.value for e in entries)
                case tree.Sequence(items=items):
                    stack.extend(items)
        return tuple(sorted(n for n in words if n in self.values or n in _SIZES))


def build_projections(root: tree.Mapping, c: Context, populations: Populations) -> tuple[Projection, ...]:
    """All families of the file that have no mistake."""
    blocks = mapping(root.get("projections"))
    sizes: dict[str, Dimension | None] = dict.fromkeys(_SIZES, DIMENSIONLESS)
    shared = c.names.scope.extended(_SIZES, sizes)
    names = Names(shared, c.names.numbers)
    out: list[Projection] = []
    for entry in blocks.entries if blocks is not None else ():
        block = mapping(entry.value)
        if block is None:
            continue
        built = _projection(entry.name, block, entry.key.span, c, populations, names)
        if built is not None:
            out.append(built)
    return tuple(out)


def _projection(
    name: str,
    block: tree.Mapping,
    at: Span,
    c: Context,
    populations: Populations,
    names: Names,
) -> Projection | None:
    before = len(c.sink.items)
    sources = select(block.get("from"), populations, c)
    targets = select(block.get("to"), populations, c)
    declared = mapping(block.get("values"))
    values: dict[str, MemberValue] = {}
    if declared is not None:
        values = member_values(declared, sources, targets, populations, c)
        kinds = dict.fromkeys(values, Kind.REAL)
        scope = names.scope.extended(kinds, {n: v.dimension for n, v in values.items()})
        names = Names(scope, names.numbers)
    family = _Family(name, c, populations, names, values)
    deliver = mapping(block.get("deliver"))
    into = deliver.get("into") if deliver is not None else None
    dimension, fits = _input(into, targets, populations, c)
    _check_sources(block.get("from"), sources, populations, c)
    connect = mapping(block.get("connect"))
    if connect is None or len(connect.entries) != 1 or deliver is None:
        return None
    rule = connect.entries[0]
    settings = mapping(rule.value) or tree.Mapping((), rule.key.span)
    arguments = _arguments(rule.name, settings, family)
    pairs = read_pairs(settings, c) if rule.name == "pairs" else None
    weight = _weight(deliver, dimension, family, rule.name, None if pairs is None else len(pairs.pairs))
    delay = _delay(block.get("delay"), family)
    if not fits or sources is None or targets is None or any(p not in populations.built for p in (*sources, *targets)):
        return None
    members: list[Member] = []
    for source in sources:
        for target in targets:
            env = family.environment(source, target)
            args = arguments(env)
            w = weight(env)
            d = delay(env)
            late: Distribution | None = None
            if isinstance(d, Distribution):
                late, d = d, math.ceil(dict(d.args)["max" if d.kind == "normal" else "high"])
            if rule.name == "one_to_one":
                _same_sizes(source, target, rule.key.span, populations, c)
            if pairs is not None:
                pairs.check(source, target, populations, c)
            if args is None or w is None or d is None:
                continue
            if dict(args).get("p", 1) == 0 or dict(args).get("number", 1) == 0:
                continue
            members.append(Member(source, target, args, w, d, None if pairs is None else 0, late))
    if len(c.sink.items) > before:
        return None
    assert isinstance(into, Scalar)
    lists = () if pairs is None else (pairs.pairs,)
    return Projection(name, rule.name, into.text, tuple(members), lists, at)


def _check_sources(node: Node | None, sources: tuple[str, ...] | None, populations: Populations, c: Context) -> None:
    for source in sources or ():
        neuron = populations.neuron_of.get(source)
        if neuron is not None and not neuron.spikes and node is not None:
            message = f"`{source}` never spikes: its neuron `{neuron.name}` has no `spike`"
            related = (Related("the neuron is declared here", neuron.span),)
            c.sink.error("E0604", message, node.span, "add `spike: {when: ...}` to the neuron", related)
            return


def _input(
    into: Node | None, targets: tuple[str, ...] | None, populations: Populations, c: Context
) -> tuple[Dimension | None, bool]:
    """The dimension of the input that is delivered into (None: unknown), and whether every target
    has it."""
    if not isinstance(into, Scalar):
        return None, False
    dimension: Dimension | None = None
    first: str | None = None
    seen: set[int] = set()
    for target in targets or ():
        neuron = populations.neuron_of.get(target)
        if neuron is None or id(neuron) in seen:
            continue
        seen.add(id(neuron))
        if into.text not in neuron.inputs:
            _no_input(into, target, populations, c)
            return None, False
        found = neuron.inputs[into.text]
        if found is None:
            return None, False
        if dimension is not None and found != dimension:
            message = f"`{into.text}` is {describe(dimension)} in `{first}`, but {describe(found)} in `{target}`"
            c.sink.error("E0401", message, into.span, "write one entry for each of them")
            return None, False
        dimension, first = found, first or target
    return dimension, True


def _no_input(into: Scalar, target: str, populations: Populations, c: Context) -> None:
    neuron = populations.neuron_of[target]
    help = did_you_mean(into.text, neuron.inputs)
    if help is None:
        if into.text in neuron.states or into.text in neuron.params:
            noun = "a state variable" if into.text in neuron.states else "a parameter"
            help = f"`{into.text}` is {noun}; spikes are delivered into `inputs`"
        elif neuron.inputs:
            help = "its inputs are " + ", ".join(f"`{n}`" for n in neuron.inputs)
        else:
            help = "it has no `inputs`"
    message = f"neuron `{neuron.name}` of `{target}` has no input `{into.text}`"
    related = (Related("the neuron is declared here", neuron.span),)
    c.sink.error("E0201", message, into.span, help, related)


_Arguments = Callable[[dict[str, Any]], "tuple[tuple[str, float | int], ...] | None"]


def _arguments(rule: str, settings: tree.Mapping, family: _Family) -> _Arguments:
    """The numbers of a connect rule at each member."""
    c = family.c
    autapses = settings.get("autapses")
    own = 0 if isinstance(autapses, Scalar) and autapses.value is False else 1
    if rule == "all_to_all":
        return lambda env: (("autapses", own),)
    if rule == "fixed_probability":
        node = settings.get("p")
        if node is None:
            return lambda env: None
        probability = family.per_member(node, "`p`", DIMENSIONLESS)

        def with_p(env: dict[str, Any]) -> tuple[tuple[str, float | int], ...] | None:
            p = probability(env)
            if p is None or not _inside(p, 0.0, 1.0, "`p`", node, c):
                return None
            return (("p", float(p)), ("autapses", own))

        return with_p
    if rule == "fixed_total":
        node = settings.get("number")
        if node is None:
            return lambda env: None
        total = family.per_member(node, "`number`", DIMENSIONLESS)

        def with_number(env: dict[str, Any]) -> tuple[tuple[str, float | int], ...] | None:
            n = total(env)
            if n is None or not _inside(n, 0.0, float(1 << 53), "`number`", node, c):
                return None
            if n != int(n):
                message = f"`number` must be a whole number; it is {n:g}"
                c.sink.error("E0102", message, node.span, "use `round(...)`")
                return None
            return (("number", int(n)),)

        return with_number
    return lambda env: ()


def _inside(value: float, low: float, high: float, what: str, node: Node | None, c: Context) -> bool:
    problem = out_of_bounds(value, low, high)
    if problem is None:
        return True
    c.sink.error("E0106", f"{what} must be {problem}; it is {value:g}", node.span if node else None)
    return False


def _weight(
    deliver: tree.Mapping, dimension: Dimension | None, family: _Family, rule: str, count: int | None
) -> Callable[[dict[str, Any]], Value | None]:
    """The weight at each member."""
    c, node = family.c, deliver.get("weight")
    if node is None:
        help = "for example `weight: 1.62 mV`"
        c.sink.error("E0103", "`deliver` lacks `weight`", deliver.span, help)
        return lambda env: None
    if isinstance(node, Scalar):
        at = family.per_member(node, "`weight`", dimension)

        def one(env: dict[str, Any]) -> Value | None:
            found = at(env)
            if found is None or not _inside(found, -float("inf"), float("inf"), "`weight`", node, c):
                return None
            return Const(float(found), node.span)

        return one
    used = family.mentions(node)
    known: dict[tuple[Any, ...], Value | None] = {}

    def several(env: dict[str, Any]) -> Value | None:
        key = tuple(env[n] for n in used)
        if key not in known:
            names = Names(family.names.scope, {**family.names.numbers, **{n: env[n] for n in used}})
            value = (
                None if None in key else initial_value(node, c, "`weight`", dimension, names, count, "connection")[0]
            )
            if isinstance(value, FromFile | Listed) and rule != "pairs":
                message = f"weights from a list or a file need connections that are given one by one, not `{rule}`"
                c.sink.error("E0802", message, node.span, "write `connect: {pairs: ...}`")
                value = None
            known[key] = value
        return known[key]

    return several


_Delay = Callable[[dict[str, Any]], "int | Distribution | None"]


def _drawn_delay(node: tree.Mapping, family: _Family, step: Step) -> _Delay:
    """Delays that differ from synapse to synapse: their distribution at each member, in steps."""
    c, kind = family.c, node.entries[0]
    block = mapping(kind.value)
    if block is None:
        return lambda env: None
    if kind.name not in ("normal", "uniform"):
        message = f"`{kind.name}` delays are not supported yet"
        c.sink.error("E0801", message, kind.key.span, "use `normal` or `uniform`, which are bounded")
        return lambda env: None
    if text_of(block.get("round")) != "nearest":
        message = "delays that are drawn are not whole steps"
        c.sink.error("E0601", message, kind.key.span, "add `round: nearest` to the distribution")
        return lambda env: None
    used = family.mentions(node)
    known: dict[tuple[Any, ...], Distribution | None] = {}

    def drawn(env: dict[str, Any]) -> Distribution | None:
        key = tuple(env[n] for n in used)
        if key not in known:
            names = Names(family.names.scope, {**family.names.numbers, **{n: env[n] for n in used}})
            value = None if None in key else initial_value(node, c, "`delay`", TIME, names)[0]
            known[key] = _in_steps(value, step, block, c) if isinstance(value, Distribution) else None
        return known[key]

    return drawn


def _in_steps(value: Distribution, step: Step, block: tree.Mapping, c: Context) -> Distribution | None:
    """A distribution of delays (ms) in units of the step; a normal one is cut at 0 (or its `min`) and ten
    standard deviations (or its `max`)."""
    given = dict(value.args)
    low, high = ("min", "max") if value.kind == "normal" else ("low", "high")

    def wrong(name: str, message: str, help: str | None = None) -> None:
        item = block.get(name)
        c.sink.error("E0106", message, value.span if item is None else item.span, help)

    for name in (low, high, "mean"):
        if given.get(name, 0.0) < 0:
            wrong(name, f"`{name}` of `delay` must not be negative; it is {given[name]:g} ms")
            return None
    args = {name: number / step.dt for name, number in value.args if name != "keep_sign"}
    if value.kind == "normal":
        args.setdefault("min", 0.0)
        args.setdefault("max", max(args["min"], args["mean"] + 10.0 * args["std"]))
    if args[high] > MAX_DELAY:
        longest = (
            f"`{high}` of `delay` is" if high in given else "ten standard deviations of `delay` above its `mean` are"
        )
        help = None if high in given else "give the longest delay as `max`"
        message = f"{longest} {args[high]:,.0f} steps of {step.dt:g} ms; at most {MAX_DELAY:,} are possible"
        wrong(high, message, help)
        return None
    return Distribution(value.kind, tuple(args.items()), value.span)


def _delay(node: Node | None, family: _Family) -> _Delay:
    """The delay at each member: whole steps, or a distribution of them."""
    c, step = family.c, family.populations.step
    if node is None:
        return lambda env: 0
    nearest = False
    block = mapping(node)
    if block is not None:
        inner = block.get("value")
        if inner is None:
            if len(block.entries) == 1 and step is not None:
                return _drawn_delay(block, family, step)
            return lambda env: None
        nearest = text_of(block.get("round")) == "nearest"
        node = inner
    time = family.per_member(node, "`delay`", TIME)
    at, known = node.span, dict[float, "int | None"]()

    def steps(env: dict[str, Any]) -> int | None:
        value = time(env)
        if value is None or step is None:
            return None
        if value not in known:
            count = steps_of(value, at, c.sink, "`delay`", step, nearest=nearest, roundable=True)
            if count is not None and count > MAX_DELAY:
                message = f"`delay` is {count:,} steps of {step.dt:g} ms; at most {MAX_DELAY:,} are possible"
                c.sink.error("E0106", message, at)
                count = None
            known[value] = count
        return known[value]

    return steps


def _same_sizes(source: str, target: str, at: Span, populations: Populations, c: Context) -> None:
    n, m = populations.built[source].size, populations.built[target].size
    if n != m:
        message = f"`one_to_one` needs populations of one size: `{source}` has {n:,}, `{target}` has {m:,}"
        related = tuple(Related("declared here", populations.places[p]) for p in dict.fromkeys((source, target)))
        c.sink.error("E0604", message, at, None, related)
