"""What a run writes: the bytes of its records, checkpoints and weights, before it begins.

Assumes: a checked model; the formats of the writers in compiler/runtime/record and of
compiler/runtime/artifacts/checkpoint.py.
Guarantees: the numbers in the files are counted exactly where they follow from the model; spikes and events are counted
at SPIKE_RATE, and synapses of random rules as expected, which `note` says. What HDF5 adds (a few kB a file, and the
rest of a last chunk) is not counted.
Does not: look at the disk (room.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.connect import rule_of
from compiler.connect.storage import shares_elements
from compiler.ir.level2.synapse_values import own_name, recorded_events
from compiler.ir.space import Role
from compiler.passes.relations.expected_sizes import Part, synapse_counts, value_counts
from compiler.runtime.common.arrays import persistent_arrays

SPIKE_RATE: Final = 10.0
"""Hz of a neuron whose spikes are recorded: no model says before it runs what it will be."""

_TIME: Final = 8  # bytes of the time of a sample
_SPIKE: Final = 16  # bytes of a spike: its time and its neuron


Sized = tuple[l2.Merged, Mapping[str, int]]
"""A program, and the elements of its arrays whose number is drawn."""


def written_by(model: l0.Model, lowered: Sized | None = None) -> list[Part]:
    """What a run of the model writes, largest first. Checkpoints and weights are those of `lowered`, and left out
    without it."""
    written: list[Part] = []
    if model.simulate is not None and model.train is None:
        written = [*_spikes(model), *_events(model), *_traces(model), *_rates(model), *_synapses(model)]
    if lowered is not None:
        written += _kept(model, *lowered)
    return sorted(written, key=lambda w: (-w.bytes, w.what))


def _steps(run: l0.Simulate, between: tuple[int, int] | None) -> tuple[int, int]:
    """The first step and the last one within a run, or within `between`."""
    first, last = between or (0, run.steps)
    return first, min(last, run.steps)


def _samples(model: l0.Model, every: int, at: int | None, between: tuple[int, int] | None = None) -> int:
    """Samples at the ends of steps n * every - shift within the run, or within `between`."""
    assert model.simulate is not None
    shift = l0.shift_of(every, at)
    first, last = ((step + shift) // every for step in _steps(model.simulate, between))
    return max(last - first, 0)


def _spikes(model: l0.Model) -> Iterator[Part]:
    sizes = {p.name: p.size for p in model.populations}
    for record in model.spikes:
        names = record.populations
        what = f"spikes of {names[0] if len(names) == 1 else f'{len(names):,} populations'}"
        count = sum(len(record.members) or sizes[n] for n in names)
        yield _guessed(model, record, what, "spikes.h5", count, f"fires at {SPIKE_RATE:g} Hz")


def _events(model: l0.Model) -> Iterator[Part]:
    sizes = {p.name: p.size for p in model.populations}
    for record in model.events:
        count = sum(sizes[population] for _, population in recorded_events(model, record))
        each = f"has {SPIKE_RATE:g} events a second"
        yield _guessed(model, record, f"events of {record.source}", "events.h5", count, each)


def _guessed(
    model: l0.Model,
    record: l0.RecordSpikes | l0.RecordOwnEvents,
    what: str,
    file: str,
    neurons: int,
    each: str,
) -> Part:
    """What so many neurons write, if each does so."""
    assert model.simulate is not None
    steps = _steps(model.simulate, record.between)
    seconds = max(steps[1] - steps[0], 0) * model.simulate.dt / 1000
    size = math.ceil(neurons * seconds * SPIKE_RATE) * _SPIKE
    return Part(what, size, f"{neurons:,} neurons, {seconds:g} s, if each {each}", record.span, False, file)


def _traces(model: l0.Model) -> Iterator[Part]:
    groups: set[str] = set()
    for record in model.traces:
        samples, members = _samples(model, record.every, record.at, record.between), len(record.members)
        times = 0 if record.group in groups else samples * _TIME + members * 8
        groups.add(record.group)
        size = samples * members * _real(model) * len(record.variables) + times
        what = f"trace of {', '.join(record.variables)} of {record.population}"
        yield Part(what, size, f"{members:,} members, {samples:,} samples", record.span, file="traces.h5")


def _rates(model: l0.Model) -> Iterator[Part]:
    for record in model.rates:
        bins = _samples(model, record.every, record.at)
        what, size = f"rate of {record.population}", bins * (8 + _TIME)
        yield Part(what, size, f"{bins:,} bins", record.span, file="rates.h5")


def _synapses(model: l0.Model) -> Iterator[Part]:
    if not (model.synapses or model.histograms):
        return
    file, families = "synapses.h5", {f.name: f for f in model.projections}
    counts, values = synapse_counts(model), value_counts(model)
    places = {h.projection: h.span for h in model.histograms} | {r.projection: r.span for r in model.synapses}
    for name, span in places.items():
        family = families[name]
        if shares_elements(family):
            continue  # its values belong to elements of a kernel, which have no ends
        count = sum(math.ceil(counts[own_name(family, m)]) for m in family.members)
        ends = 8 if _moves(family) else 16
        yield Part(f"ends of {name}", count * ends, _shown(count, family), span, file=file)
    for h in model.histograms:
        samples, members = _sampled(model, h), len(families[h.projection].members)
        size = samples * (8 * h.bins + _TIME) * members
        what = f"histogram of {h.variable} of {h.projection}"
        yield Part(what, size, f"{samples:,} samples", h.span, file=file)
    for record in model.synapses:
        family, samples = families[record.projection], _sampled(model, record)
        moving = 4 if _moves(family) else 0
        count, size = 0, samples * _TIME * len(family.members)
        for m in family.members:
            here = math.ceil(values[own_name(family, m)])
            each = sum(_value(model, family, m, v) for v in record.variables) + moving
            count, size = count + here, size + here * samples * each
        what = f"{', '.join(record.variables)} of {record.projection}"
        yield Part(what, size, f"{_shown(count, family)}, {samples:,} samples", record.span, file=file)


def _shown(count: int, family: l0.Projection) -> str:
    return f"{count:,} synapses{' expected' if rule_of(family).random else ''}"


def _moves(family: l0.Projection) -> bool:
    """Whether rewiring changes an end of the synapses, which is then sampled with their values."""
    return family.synapse is not None and family.synapse.rewired is not None


def _value(model: l0.Model, family: l0.Projection, member: l0.Member, variable: str) -> int:
    """Bytes of a value: what has no array, and delays, are written as float64."""
    plain = family.synapse is None and (variable == "delay" or isinstance(member.weight, l0.Const))
    return 8 if plain else _real(model)


def _sampled(model: l0.Model, record: l0.RecordSynapses | l0.RecordHistogram) -> int:
    """Samples of synapses, which are taken between steps: time 0 is one of the times, if it is due."""
    assert model.simulate is not None
    if not record.every:
        return 1
    due = not l0.shift_of(record.every, record.at)
    return _samples(model, record.every, record.at) + due


def _kept(model: l0.Model, merged: l2.Merged, sizes: Mapping[str, int]) -> Iterator[Part]:
    """Checkpoints and weights."""

    def bytes_of(arrays: Iterable[l2.Array]) -> int:
        return sum(sizes.get(a.name, math.prod(a.shape)) * a.dtype.bytes for a in arrays)

    one = bytes_of(persistent_arrays(merged, model.simulate is not None and bool(model.simulate.freeze)))
    if model.train is None:
        assert model.simulate is not None
        wanted, held = model.simulate.checkpoints, 1
        if wanted is not None:
            last = model.simulate.steps // wanted.every + 1 if wanted.every and not wanted.wall else wanted.keep
            held = min(wanted.keep, last) + 1  # the oldest goes when the newest is there
        what = "the checkpoint at the end" if held == 1 else f"{held:,} checkpoints at a time"
        yield Part(what, held * one, span=model.span, file="checkpoints/")
        return
    t = model.train
    weights = bytes_of(a for a in merged.arrays if a.role is Role.WEIGHT)
    count = t.epochs // t.checkpoint_every + bool(t.epochs % t.checkpoint_every) if t.checkpoint_every else 1
    best = weights if t.best is not None else 0
    what = "the checkpoint at the end" if count == 1 else f"{count:,} checkpoints"
    yield Part(what, count * (one + best), span=t.span, file="checkpoints/")
    yield Part("weights", weights + best, span=t.span, file="weights.safetensors")


def _real(model: l0.Model) -> int:
    return 8 if model.numerics.precision == "float64" else 4
