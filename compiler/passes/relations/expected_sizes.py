"""expected_sizes: expected numbers of synapses, before connecting.

Assumes: a checked model.
Guarantees: numbers are exact for deterministic rules, and the mean for random ones; `least_bytes` is a lower bound for
every target, and is known without lowering.
Does not: place arrays (plan_memory) or compare with available memory.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.connect import Ends, rule_of
from compiler.connect.convolution import planes_of
from compiler.connect.storage import shares_elements, storage_of
from compiler.core.source import NOWHERE, Span
from compiler.ir.level2.synapse_values import own_name
from compiler.ir.space import OWN
from compiler.layers import DENSE, KIND
from compiler.passes.relations.stored_rows import PART


@dataclass(frozen=True)
class Part:
    """Something that takes memory, or place in a `file` of a run. `note`: its composition; `sure`: whether it is known
    before the run how much."""

    what: str
    bytes: int
    note: str = ""
    span: Span = NOWHERE
    sure: bool = True
    file: str = ""


def synapse_counts(model: l0.Model) -> dict[str, float]:
    """The number of synapses (or of slots for them) of every member of every family, by its model path."""
    populations = {p.name: p for p in model.populations}
    known: dict[object, float] = {}
    return {own_name(f, m): n for f in model.projections for m, n in _counted(f, populations, known)}


def _counted(
    family: l0.Projection, populations: Mapping[str, l0.Population], known: dict[object, float]
) -> Iterator[tuple[l0.Member, float]]:
    """`known`: the numbers of other members, of which few differ."""
    alike: object = family.rule
    if family.probability is not None or family.planes is not None or family.pair_lists:
        alike = id(family)
    for m in family.members:
        pre, post = populations[m.source], populations[m.target]
        key = (alike, m.args, m.pairs, pre.size, post.size, pre.shape, post.shape, pre is post, m.parts)
        count = known.get(key)
        if count is None:
            count = known[key] = rule_of(family).count(Ends(family, m, *l0.as_drawn(m.parts, pre, post)))
        yield m, count


def value_counts(model: l0.Model) -> dict[str, float]:
    """As `synapse_counts`, for values of synapses: those of a convolution belong to elements of its kernel, unless each
    synapse has a state of its own."""
    populations = {p.name: p for p in model.populations}
    counts = synapse_counts(model)
    for f in model.projections:
        if not shares_elements(f):
            continue
        for m in f.members:
            at = planes_of(Ends(f, m, populations[m.source], populations[m.target]))
            counts[own_name(f, m)] = at.elements
    return counts


def expected_sizes(model: l0.Model, merged: l2.Merged) -> dict[str, int]:
    """Expected elements of every array of random size, rounded up: the argument `sizes` of `place`."""
    counts = {name: math.ceil(count) for name, count in synapse_counts(model).items()}
    owners = {a.name: a.size_from.rpartition(OWN)[0] for a in merged.arrays if a.size_from is not None}
    return {name: counts.get(owner.removesuffix(PART), 0) for name, owner in owners.items()}


_NAMED: Final = 8


def least_bytes(model: l0.Model, most: int = _NAMED) -> list[Part]:
    """Memory needed on every target: states of neurons, stored synapses, layers. The `most` largest parts by name,
    largest first, the others together."""
    real = 8 if model.numerics.precision == "float64" else 4
    found = [*_of_neurons(model, real), *_of_synapses(model, real)]
    if model.network is not None and model.train is not None:
        found += _of_layers(model.network, model.train.batch, real)
    named = heapq.nlargest(most, found, key=lambda x: x[0])
    out = [Part(what(), size, note(), span) for size, what, note, span in named]
    rest = sum(x[0] for x in found) - sum(x.bytes for x in out)
    return [*out, Part("all else", rest)] if rest else out


_Item = tuple[int, Callable[[], str], Callable[[], str], Span]
"""Bytes, and what makes name and note: most are never shown."""


def _of_neurons(model: l0.Model, real: int) -> Iterator[_Item]:
    for p in model.populations:
        size = p.size * (len(p.neuron.state) + len(p.neuron.inputs)) * real
        yield size, partial(str, p.name), partial("{:,} neurons".format, p.size), p.span


def _of_synapses(model: l0.Model, real: int) -> Iterator[_Item]:
    """One part for each family."""
    populations, known = {p.name: p for p in model.populations}, dict[object, float]()
    for f in model.projections:
        storage = storage_of(f)
        bits = storage == "bitmask"
        each = {"sparse": 4.0, "bitmask": 1 / 8}.get(storage, 0.0)
        if f.synapse is not None and not bits:
            each += real * len(f.synapse.state)
        if not each or (f.planes is not None and storage != "sparse"):
            continue
        own = [m for m in f.members if m.like is None]
        if bits:
            count = sum(populations[m.source].size * populations[m.target].size for m in own)
        else:
            count = math.ceil(sum(n for m, n in _counted(f, populations, known) if m.like is None))
        what = "pairs" if bits else "synapses expected" if rule_of(f).random else "synapses"
        name = partial(own_name, f, own[0]) if len(own) == 1 else partial(str, f.name)
        yield math.ceil(each * count), name, partial(f"{{:,}} {what}".format, count), f.span


def _of_layers(network: l0.Network, batch: int, real: int) -> Iterator[_Item]:
    """Results of a batch and, for layers that know them without being lowered, weights."""
    shapes = {x.name: x.shape for x in network.inputs} | {x.name: x.shape for x in network.layers}
    for x in network.layers:
        if not KIND[x.kind].moves:
            note = partial("results of a batch of {:,}".format, batch)
            yield batch * math.prod(x.shape) * real, partial(str, x.name), note, x.span
        if KIND[x.kind] is DENSE:
            count = shapes[x.inputs[0]][-1] * x.shape[-1]
            yield count * real, partial("{}.weight".format, x.name), partial("{:,} weights".format, count), x.span
