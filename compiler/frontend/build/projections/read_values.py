"""What the values of a projection read of its ends, `from.x` and `to.x`, and of other projections, `sum_into(x)`.

Assumes: populations have been built.
Guarantees: each name has a number for every member: a parameter of the source or target population, or the sum of a
parameter over all members of all families into the same input of a target. An error is one diagnostic at its text.
Does not: evaluate expressions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.units import Dimension, describe
from compiler.frontend.build.shared.scope import TOTAL, total_name
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.member_values import MemberValue
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node

_OF_AN_END: Final = re.compile(r"\b(from|to)\.([A-Za-z]\w*)", re.ASCII)
_SUMMED: Final = re.compile(rf"\b{TOTAL}\s*\(\s*([A-Za-z]\w*)\s*\)", re.ASCII)


def summed_names(*nodes: Node | None) -> set[str]:
    """What the texts below `nodes` add up over projections."""
    return {name for node in nodes for text in tree.texts(node, "description") for name in _SUMMED.findall(text.text)}


def end_values(
    block: tree.Mapping,
    sources: tuple[str, ...] | None,
    targets: tuple[str, ...] | None,
    populations: Populations,
    c: Context,
) -> dict[str, MemberValue]:
    """The parameters of both ends that the texts of a projection read, by dotted name."""
    out: dict[str, MemberValue] = {}
    rule = {id(text) for text in tree.texts(block.get("connect"))}
    for text in tree.texts(block, "description"):
        for found in _OF_AN_END.finditer(text.text):
            end, name = found.groups()
            if found[0] not in out:
                value = out[found[0]] = MemberValue()
                at_end = (sources if end == "from" else targets) or ()
                at, in_rule = text.span, id(text) in rule
                numbers = _numbers(found[0], name, at_end, at, value, populations, c, in_rule)
                (value.by_source if end == "from" else value.by_target).update(numbers)
    return out


def _numbers(
    read: str,
    name: str,
    names: tuple[str, ...],
    at: Span,
    value: MemberValue,
    populations: Populations,
    c: Context,
    in_rule: bool,
) -> dict[str, float | int]:
    """The parameter `name` of populations, and its dimension in `value`; none after an error. `in_rule`: it decides
    which neurons are connected."""
    out: dict[str, float | int] = {}
    for population in names:
        neuron, built = populations.neuron_of.get(population), populations.built.get(population)
        if neuron is None or built is None:
            return {}
        related = declared_at(neuron.span, "the neuron")
        if name not in neuron.params:
            help = did_you_mean(name, neuron.params)
            if help is None and (name in neuron.states or name in neuron.inputs):
                help = f"what changes during a run is read by statements of a synapse: `pre.{name}`, `post.{name}`"
            message = f"`{read}` reads a parameter, and the neuron `{neuron.name}` of `{population}` has no `{name}`"
            c.sink.error("E0302", message, at, help, related)
            return {}
        c.unread_params.read((neuron.places[name],))
        given = dict(built.params).get(name)
        if not isinstance(given, l0.Const):
            message = f"`{read}` is one number of a population, but `{name}` of `{population}` is not"
            ends = {"from": "pre", "to": "post"}
            help = f"statements of a synapse read that of each neuron, `{ends[read.partition('.')[0]]}.{name}`"
            if in_rule:
                help = "choose the pairs by another program: `connect: {pairs: {file: near.npz}}`"
            c.sink.error("E0802", message, at, help, related)
            return {}
        dimension = neuron.params[name]
        if dimension is None:
            return {}
        if value.dimension is not None and dimension != value.dimension:
            message = f"`{read}` is {describe(value.dimension)} in one population, but {describe(dimension)} in another"
            c.sink.error("E0401", message, at, "write one entry for each of them", related)
            return {}
        value.dimension, out[population] = dimension, given.value
    return out


Sums = Mapping[tuple[str, str], Mapping[str, float | None]]
"""Of parameters, by input and name, and then by target; None where a term is not one number."""


@dataclass
class Totals:
    """Sums over projections, while these are built. `readers`: the families that read sums, `read`: of what; `given`:
    what families have besides the parameters of their members, (target, name, value); `known`: the sums. None: not
    yet, and 1 stands in their place."""

    readers: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    given: dict[str, list[tuple[str, str, float | int | None]]] = field(default_factory=dict)
    known: Sums | None = None

    def values(
        self,
        names: Iterable[str],
        into: str,
        targets: tuple[str, ...],
        own: Mapping[str, Dimension | None],
        at: Span,
        c: Context,
    ) -> dict[str, MemberValue]:
        """The sums that a family reads, by name. `own`: dimensions of its own parameters of these names."""
        out: dict[str, MemberValue] = {}
        for name in sorted(names):
            self.read.add(name)
            sums = (self.known or {}).get((into, name), {})
            numbers: dict[str, float | int] = {}
            for target in targets:
                number = sums.get(target, 1.0)
                if number is None:
                    message = f"`{TOTAL}({name})` adds up one number of each projection into `{target}`, "
                    message += f"and one of them has a `{name}` that is not one number"
                    c.sink.error("E0802", message, at, "give it one number in each projection")
                    break
                numbers[target] = number
            out[total_name(name)] = MemberValue(own.get(name), by_target=numbers)
        return out


def add_up(built: Iterable[l0.Projection], totals: Totals, c: Context) -> Sums:
    """The sums of the parameters that are read, in the order of the file."""
    out: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)

    def add(into: str, target: str, name: str, value: float | int | None) -> None:
        sums = out[into, name]
        before = sums.get(target, 0.0)
        sums[target] = None if value is None or before is None else before + value

    for family in built:
        c.between()
        for member in family.members:
            for name, value in member.params:
                if name in totals.read:
                    add(family.into, member.target, name, value.value if isinstance(value, l0.Const) else None)
        for target, name, number in totals.given.get(family.name, ()):
            if name in totals.read:
                add(family.into, target, name, number)
    return dict(out)


def check_circles(
    built: Mapping[str, l0.Projection | None], totals: Totals, places: Mapping[str, Span], c: Context
) -> None:
    """E0802 where what is added up changes with the sum."""
    whole = [p for p in built.values() if p is not None]
    if len(whole) == len(built) and add_up(whole, totals, c) != totals.known:
        at = next(at for name, at in places.items() if name in totals.readers)
        message = f"what `{TOTAL}` adds up depends on such a sum"
        c.sink.error("E0802", message, at, "add up parameters that do not read one")
