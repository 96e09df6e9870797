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
from collections.abc import Callable
from typing import Any

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS, Dimension, describe
from compiler.frontend import tree
from compiler.frontend.build_connect import connect_arguments, same_sizes
from compiler.frontend.build_delays import delay_steps
from compiler.frontend.build_populations import Populations
from compiler.frontend.family import SIZES, Family, inside
from compiler.frontend.member_values import MemberValue, member_values
from compiler.frontend.pair_lists import read_pairs
from compiler.frontend.select import select
from compiler.frontend.tree import Node, Scalar
from compiler.frontend.values import (
    Context,
    Names,
    mapping,
)
from compiler.frontend.values_initial import initial_value
from compiler.ir.model import Const, Distribution, FromFile, Listed, Member, Projection, Value
from compiler.source import Span


def build_projections(root: tree.Mapping, c: Context, populations: Populations) -> tuple[Projection, ...]:
    """All families of the file that have no mistake."""
    blocks = mapping(root.get("projections"))
    sizes: dict[str, Dimension | None] = dict.fromkeys(SIZES, DIMENSIONLESS)
    shared = c.names.scope.extended(SIZES, sizes)
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
    family = Family(name, c, populations, names, values)
    deliver = mapping(block.get("deliver"))
    into = deliver.get("into") if deliver is not None else None
    dimension, fits = _input(into, targets, populations, c)
    _check_sources(block.get("from"), sources, populations, c)
    connect = mapping(block.get("connect"))
    if connect is None or len(connect.entries) != 1 or deliver is None:
        return None
    rule = connect.entries[0]
    settings = mapping(rule.value) or tree.Mapping((), rule.key.span)
    arguments = connect_arguments(rule.name, settings, family)
    pairs = read_pairs(settings, c) if rule.name == "pairs" else None
    weight = _weight(deliver, dimension, family, rule.name, None if pairs is None else len(pairs.pairs))
    delay = delay_steps(block.get("delay"), family)
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
                same_sizes(source, target, rule.key.span, populations, c)
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
    return Projection(name, rule.name, into.text, tuple(members), lists, span=at)


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


def _weight(
    deliver: tree.Mapping, dimension: Dimension | None, family: Family, rule: str, count: int | None
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
            if found is None or not inside(found, -float("inf"), float("inf"), "`weight`", node, c):
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
