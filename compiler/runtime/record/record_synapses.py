"""Recording of synapses: variables of projections, sampled between steps, into synapses.h5.

Assumes: arrays named by model path (`plastic[input->output].w`), as compiler/passes makes them.
Guarantees: samples are taken at the end of the steps that the model names, by reading only. synapses.h5 has for each
projection and member /<projection>/<source>-><target>/ with `source` and `target` (neurons of each synapse), <variable>
(samples, synapses), <variable>.histogram (samples, bars) with the attributes `low` and `high`, and `time` or
<variable>.histogram.time in ms. Synapses stand source by source, targets ascending; explicit pairs in the user's order;
elements of a convolution's kernel as (out channel, in channel, y, x), without ends. Where synapses are rewired there is
`targets` (samples, synapses) in place of `target`: a new synapse takes the slot of an old one of the same source. Where
their in-degrees are kept it is `sources`, and synapses stand target by target. -1 is a vacant slot; histograms exclude
these.
Does not: buffer on the device: a sample of every step would be slow (samples are meant to be far apart).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.connect import Form, rule_of
from compiler.connect.pairs import pair_order, pairs_of
from compiler.ir.level2.synapse_values import member_name, own_name, stored_by_target, synapse_unit, variable_array
from compiler.ir.space import own_array
from compiler.runtime.record.growing import Growing, RecordFile, growing, publish

Order = npt.NDArray[np.int64] | None
"""Storage order of the synapses in the order that is shown; None where they are the same."""


def user_order(projection: l0.Projection, member: l0.Member) -> Order:
    """The storage index of each of the user's pairs."""
    if rule_of(projection).form is not Form.GIVEN:
        return None
    return np.argsort(pair_order(pairs_of(projection, member)))


def synapse_ends(
    instance: Instance, arrays: frozenset[str], projection: l0.Projection, member: l0.Member, n_pre: int, n_post: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """(source, target) of every synapse in storage order; None where synapses are shared by positions."""
    name = member_name(projection, member)
    if stored_by_target(projection):
        row = instance.read(own_array(name, "to_row")).astype(np.int64)
        target = np.repeat(np.arange(n_post, dtype=np.int64), np.diff(row))
        return instance.read(own_array(name, "to_col"))[: len(target)].astype(np.int64), target
    if own_array(name, "element") in arrays:  # a convolution in stored rows, whose weights are the kernel's elements
        return None
    if own_array(name, "col") in arrays:
        row = instance.read(own_array(name, "row")).astype(np.int64)
        source = np.repeat(np.arange(n_pre, dtype=np.int64), np.diff(row))
        return source, instance.read(own_array(name, "col"))[: len(source)].astype(np.int64)
    form = rule_of(projection).form
    if form is Form.DIAGONAL:
        each = np.arange(n_pre, dtype=np.int64)
        return each, each
    if form is Form.ALL:
        source = np.repeat(np.arange(n_pre, dtype=np.int64), n_post)
        target = np.tile(np.arange(n_post, dtype=np.int64), n_pre)
        if member.source == member.target and not dict(member.args).get("autapses", 1):
            other = source != target
            source, target = source[other], target[other]
        return source, target
    return None


def moving(projection: l0.Projection) -> str | None:
    """The end of synapses that rewiring changes: "source" or "target"."""
    if projection.synapse is None or projection.synapse.rewired is None:
        return None
    return "source" if stored_by_target(projection) else "target"


def _count(group: Any) -> int | None:
    """The number of synapses of a projection, where that is written."""
    return next((len(group[end]) for end in ("source", "target") if end in group), None)


@dataclass
class _Sampled:
    """One variable of one member. `every` and `shift` as shift_of says; `constant`: of a variable without an array;
    `exists`: the array that marks the slots with a synapse, where some may be vacant; `edges`: of a histogram."""

    array: str
    scale: float
    unit: str
    every: int
    shift: int
    times: Growing
    group: Any
    variable: str
    order: Order = None
    constant: float | None = None
    exists: str | None = None
    edges: npt.NDArray[np.float64] | None = None
    values: Growing | None = None


class SynapseWriter(RecordFile):
    """synapses.h5 of one run; a file that is there is continued. `start`: the step before the first one."""

    def __init__(self, path: Path, model: l0.Model, program: l2.Merged, instance: Instance, start: int = 0) -> None:
        assert model.simulate is not None
        self._model, self._dt, self._warmup = model, model.simulate.dt, model.simulate.warmup
        self._last = model.simulate.warmup + model.simulate.steps
        self._sampled_until = -1 if start <= self._warmup else start - self._warmup
        super().__init__(path)
        self._sampled: list[_Sampled] = []
        self._arrays = frozenset(a.name for a in program.arrays)
        for record in model.synapses:
            for projection, member, group in self._groups(record.projection, instance):
                times, end = growing(group, "time", "float64", (), 256, {"unit": "ms"}), moving(projection)
                self._sampled += [self._one(record, projection, member, group, v, times) for v in record.variables]
                if end is not None and not any(x.group == group for x in self._sampled if x.variable == f"{end}s"):
                    shift, exists = l0.shift_of(record.every, record.at), self._exists(projection, member)
                    ends = own_array(member_name(projection, member), "col" if end == "target" else "to_col")
                    made = _Sampled(ends, 1.0, "1", record.every, shift, times, group, f"{end}s", exists=exists)
                    self._sampled.append(made)
        for h in model.histograms:
            for projection, member, group in self._groups(h.projection, instance):
                name = f"{h.variable}.histogram"
                times = growing(group, f"{name}.time", "float64", (), 256, {"unit": "ms"})
                made = self._one(h, projection, member, group, h.variable, times)
                made.exists = self._exists(projection, member)
                made.edges = np.linspace(h.low, h.high, h.bins + 1)
                made.values = growing(group, name, "int64", (h.bins,), 64, {"unit": made.unit})
                group[name].attrs["low"], group[name].attrs["high"] = h.low, h.high
                self._sampled.append(made)
        for s in self._sampled:
            if s.values is None:
                s.values = self._dataset(s, instance)
        publish(self._file)

    def _groups(self, name: str, instance: Instance) -> Iterator[tuple[l0.Projection, l0.Member, Any]]:
        """The members of a projection, each with its group, in which its synapses stand."""
        sizes = {p.name: p.size for p in self._model.populations}
        projection = next(p for p in self._model.projections if p.name == name)
        for member in projection.members:
            group = self._file.require_group(name).require_group(f"{member.source}->{member.target}")
            if _count(group) is None:
                of = sizes[member.source], sizes[member.target]
                ends = synapse_ends(instance, self._arrays, projection, member, *of)
                order = user_order(projection, member)
                for end, values in zip(("source", "target"), ends or (), strict=False):
                    if end != moving(projection):
                        group.create_dataset(end, data=values if order is None else values[order])
            yield projection, member, group

    def _exists(self, projection: l0.Projection, member: l0.Member) -> str | None:
        array = own_array(own_name(projection, member), "exists")
        return array if array in self._arrays else None

    def _one(
        self,
        record: l0.RecordSynapses | l0.RecordHistogram,
        projection: l0.Projection,
        member: l0.Member,
        group: Any,
        variable: str,
        times: Growing,
    ) -> _Sampled:
        array, constant = variable_array(projection, member, variable), None
        if array not in self._arrays:
            value = member.weight if variable == "weight" else dict(member.init).get(variable)
            assert isinstance(value, l0.Const) or variable == "delay", f"{array} has no array"
            constant = float(value.value) if isinstance(value, l0.Const) else float(member.delay)
        unit = synapse_unit(projection, variable, self._model.populations)
        scale = self._dt if variable == "delay" and projection.synapse is None else 1.0
        shift, order = l0.shift_of(record.every, record.at), user_order(projection, member)
        return _Sampled(array, scale, unit, record.every, shift, times, group, variable, order, constant)

    def next_sample(self, done: int) -> int:
        """The step after which the next sample is due; the last step when there is none before."""
        if done < self._warmup:
            return self._warmup
        now = done - self._warmup
        due = (l0.next_sample(now, s.every, s.shift) for s in self._sampled if s.every)
        return min([self._last, *(self._warmup + k for k in due)])

    def sample(self, instance: Instance, done: int) -> None:
        """Samples what is due at the end of step `done`; time 0 is one of the times."""
        now = done - self._warmup
        if now < 0 or now <= self._sampled_until:
            return
        self._sampled_until = now
        stamped: set[int] = set()
        for s in self._sampled:
            due = (now + s.shift) % s.every == 0 if s.every else done == self._last
            if not due:
                continue
            self._append(s, self._values(s, instance))
            if id(s.times) not in stamped:  # variables of one record share their times
                s.times.append(np.array([now * self._dt]))
                stamped.add(id(s.times))

    def _values(self, s: _Sampled, instance: Instance) -> npt.NDArray[Any]:
        count = _count(s.group)
        if s.constant is not None:
            return np.full(1 if count is None else count, s.constant * s.scale)
        values: npt.NDArray[Any] = instance.read(s.array)
        if count is not None:
            values = values[:count]
        if s.exists is not None:
            held = instance.read(s.exists)[: len(values)] != 0
            values = values[held] if s.edges is not None else np.where(held, values, -1)
        if s.scale != 1.0:
            values = values * s.scale
        return values if s.order is None else values[s.order]

    def _dataset(self, s: _Sampled, instance: Instance) -> Growing:
        values = self._values(s, instance)
        dtype = "float64" if values.dtype.kind != "f" else values.dtype.name
        dtype = "int32" if s.variable in ("sources", "targets") else dtype
        rows = max(1, (1 << 17) // max(values.nbytes, 1))
        return growing(s.group, s.variable, dtype, (len(values),), min(rows, 256), {"unit": s.unit})

    def _append(self, s: _Sampled, values: npt.NDArray[Any]) -> None:
        if s.edges is not None:
            values = np.histogram(values, s.edges)[0].astype(np.int64)
        assert s.values is not None
        s.values.append(values[None].astype(np.float64) if values.dtype.kind == "u" else values[None])

    @property
    def rows(self) -> list[int]:
        """Without what is sampled at the end of a run: it will be sampled again."""
        return [data.rows for s in self._sampled if s.every for data in (s.values, s.times) if data is not None]

    def _datasets(self) -> list[Growing]:
        return [data for s in self._sampled for data in (s.values, s.times) if data is not None]
