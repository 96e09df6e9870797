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
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.source import NOWHERE, Span
from compiler.expr.functions import CONSTANTS
from compiler.expr.interp import ExprError, evaluate
from compiler.ir.level2.synapse_values import own_name
from compiler.layers import DENSE, KIND
from compiler.passes.relations.relations import keeps_state, storage_of

_SAMPLES: Final = 4096
"""Pairs at which the expression of a rule is taken: those of an even grid, so that the number is always the same."""

DRAWN: Final = ("fixed_probability", "expression")
"""Rules whose number of synapses is drawn."""


@dataclass(frozen=True)
class Least:
    """An item of memory with a lower bound on its size. `note`: its composition."""

    what: str
    bytes: int
    note: str
    span: Span


def synapse_counts(model: l0.Model) -> dict[str, float]:
    """The number of synapses (or of slots for them) of every member of every family, by its model path."""
    populations = {p.name: p for p in model.populations}
    return {own_name(f, m): n for f in model.projections for m, n in _counted(f, populations)}


def _counted(family: l0.Projection, populations: Mapping[str, l0.Population]) -> Iterator[tuple[l0.Member, float]]:
    known: dict[object, float] = {}  # members of a family have few distinct numbers
    for m in family.members:
        pre, post = populations[m.source], populations[m.target]
        key = (m.args, m.pairs, pre.size, post.size, pre.shape, post.shape, pre is post)
        count = known.get(key)
        if count is None:
            count = known[key] = _expected(family, m, pre, post)
        yield m, count


def _expected(projection: l0.Projection, member: l0.Member, pre: l0.Population, post: l0.Population) -> float:
    args = dict(member.args)
    n, m = pre.size, post.size
    without_self = pre.name == post.name and int(args.get("autapses", 1)) == 0
    pairs = n * m - (n if without_self else 0)
    match projection.rule:
        case "all_to_all":
            return pairs
        case "one_to_one":
            return min(n, m)
        case "fixed_probability":
            return float(args["p"]) * pairs
        case "fixed_total":
            return args["number"]
        case "fixed_indegree":
            return int(args["number"]) * m
        case "fixed_outdegree":
            return int(args["number"]) * n
        case "expression":
            return _mean(projection, args, pre, post) * pairs
        case "pairs":
            return len(projection.pair_lists[member.pairs or 0])
    return _of_convolution(projection, pre, post)


def _mean(projection: l0.Projection, args: Mapping[str, float | int], pre: l0.Population, post: l0.Population) -> float:
    """The mean probability of a rule's expression over its pairs; 1 where it has no value here."""
    if projection.probability is None:
        return 1.0
    known: dict[str, Any] = {**CONSTANTS, **args, "n_from": pre.size, "n_to": post.size}
    side = math.isqrt(_SAMPLES)
    sizes = {"i": ("from", pre.size), "j": ("to", post.size)}
    for k, (index, (end, size)) in enumerate(sizes.items()):
        places = np.unique(np.linspace(0, size - 1, min(side, size)).astype(np.int64))
        at = places[:, None] if k == 0 else places[None, :]
        w, h = int(args.get(f"w_{end}", size)), int(args.get(f"h_{end}", 1))
        known |= {index: at, f"x_{index}": at % w, f"y_{index}": at // w % h, f"c_{index}": at // (w * h)}
    try:
        found = np.asarray(evaluate(projection.probability, known), np.float64)
    except (ExprError, TypeError):
        return 1.0
    return float(np.mean(np.clip(np.nan_to_num(found), 0.0, 1.0)))


def overlaps(before: int, behind: int, kernel: int, stride: int, padding: int) -> int:
    """Pairs of an input and an output position that a convolution connects, along one axis; the time depends on the
    kernel, not on the extents."""
    behind = min(behind, -(-(before + padding) // stride))  # no position is reached from here on
    # positions whose kernel lies entirely inside, then those at both borders
    low = min(-(-padding // stride), behind)
    outside = min((padding - kernel) // stride, low) if padding >= kernel else 0  # these lie entirely in the padding
    high = max(min((before + padding - kernel) // stride + 1, behind), low)
    starts = [place * stride - padding for place in (*range(outside, low), *range(high, behind))]
    border: int = sum(max(min(at + kernel, before) - max(at, 0), 0) for at in starts)
    return kernel * (high - low) + border


def _of_convolution(projection: l0.Projection, pre: l0.Population, post: l0.Population) -> float:
    planes = projection.planes
    if planes is None:
        return 0
    inner, outer = _extents(pre), _extents(post)

    reached = 1
    for axis in (0, 1):
        numbers = (planes.kernel[axis], planes.stride[axis], planes.padding[axis])
        reached *= overlaps(inner[1 + axis], outer[1 + axis], *numbers)
    channels = inner[0] if planes.depthwise or planes.shared else inner[0] * outer[0]
    return channels * reached


def value_counts(model: l0.Model) -> dict[str, float]:
    """As `synapse_counts`, for values of synapses: those of a convolution belong to elements of its kernel, unless each
    synapse has a state of its own."""
    populations = {p.name: p for p in model.populations}
    counts = synapse_counts(model)
    for f in model.projections:
        if f.planes is None or keeps_state(f):
            continue
        for m in f.members:
            channels = 1 if f.planes.shared else _extents(populations[m.source])[0]
            channels *= 1 if f.planes.shared or f.planes.depthwise else _extents(populations[m.target])[0]
            counts[own_name(f, m)] = channels * math.prod(f.planes.kernel)
    return counts


def _extents(population: l0.Population) -> tuple[int, ...]:
    """(channels, height, width): leading extents that are not given are 1."""
    shape = population.shape or (population.size,)
    return (1,) * (3 - len(shape)) + shape


def expected_sizes(model: l0.Model, merged: l2.Merged) -> dict[str, int]:
    """Expected elements of every array of random size, rounded up: the argument `sizes` of `place`."""
    counts = {name: math.ceil(count) for name, count in synapse_counts(model).items()}
    return {a.name: counts.get(a.size_from.rpartition(".")[0], 0) for a in merged.arrays if a.size_from is not None}


_NAMED: Final = 8


def least_bytes(model: l0.Model, most: int = _NAMED) -> list[Least]:
    """Memory needed on every target: states of neurons, stored synapses, layers. The `most` largest parts by name,
    largest first, the others together."""
    real = 8 if model.numerics.precision == "float64" else 4
    found = [*_of_neurons(model, real), *_of_synapses(model, real)]
    if model.network is not None and model.train is not None:
        found += _of_layers(model.network, model.train.batch, real)
    named = heapq.nlargest(most, found, key=lambda x: x[0])
    out = [Least(what(), size, note(), span) for size, what, note, span in named]
    rest = sum(x[0] for x in found) - sum(x.bytes for x in out)
    return [*out, Least("all else", rest, "", NOWHERE)] if rest else out


_Part = tuple[int, Callable[[], str], Callable[[], str], Span]
"""Bytes, and what makes name and note: most are never shown."""


def _of_neurons(model: l0.Model, real: int) -> Iterator[_Part]:
    for p in model.populations:
        size = p.size * (len(p.neuron.state) + len(p.neuron.inputs)) * real
        yield size, partial(str, p.name), partial("{:,} neurons".format, p.size), p.span


def _of_synapses(model: l0.Model, real: int) -> Iterator[_Part]:
    """One part for each family."""
    populations = {p.name: p for p in model.populations}
    for f in model.projections:
        storage = storage_of(f)
        bits = storage == "bitmask"
        each = {"sparse": 4.0, "bitmask": 1 / 8}.get(storage, 0.0)
        if f.synapse is not None and not bits:
            each += real * len(f.synapse.state)
        if not each or (f.rule in l0.CONVOLUTIONS and storage != "sparse"):
            continue
        own = [m for m in f.members if m.like is None]
        if bits:
            count = sum(populations[m.source].size * populations[m.target].size for m in own)
        else:
            count = math.ceil(sum(n for m, n in _counted(f, populations) if m.like is None))
        what = "pairs" if bits else "synapses expected" if f.rule in DRAWN else "synapses"
        name = partial(own_name, f, own[0]) if len(own) == 1 else partial(str, f.name)
        yield math.ceil(each * count), name, partial(f"{{:,}} {what}".format, count), f.span


def _of_layers(network: l0.Network, batch: int, real: int) -> Iterator[_Part]:
    """Results of a batch and, for layers that know them without being lowered, weights."""
    shapes = {x.name: x.shape for x in network.inputs} | {x.name: x.shape for x in network.layers}
    for x in network.layers:
        if not KIND[x.kind].moves:
            note = partial("results of a batch of {:,}".format, batch)
            yield batch * math.prod(x.shape) * real, partial(str, x.name), note, x.span
        if KIND[x.kind] is DENSE:
            count = shapes[x.inputs[0]][-1] * x.shape[-1]
            yield count * real, partial("{}.weight".format, x.name), partial("{:,} weights".format, count), x.span
