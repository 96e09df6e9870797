"""Trials: the samples of a batch are simulated, and what populations did in them becomes input of the network.

Assumes: a lowered model with `in_trials`; the instance has just been loaded, so that states are initial ones. The
phase "drive" computes the layers that drive populations for the samples in the windows of the data; instance k of the
network runs sample k of the batch.
Guarantees: every trial begins with the initial state and with nothing on its way. Trial number n runs the steps
n * steps + 1 .. (n + 1) * steps of the simulation, so that what is drawn depends on the seed, the number of the trial
and the place in the batch alone. Validation has the numbers from 0, the same in each epoch; those of training follow.
Does not: read samples (compiler/runtime/training/feed.py) or train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.frontend.build.trials.copies import COUNTER
from compiler.ir.space import Role, array_name, own_array
from compiler.layout.plan_memory import written
from compiler.passes.layers.load_data import trial_data
from compiler.passes.pipeline.lower import Lowered
from compiler.passes.pipeline.manager import DRIVE
from compiler.runtime.common.arrays import read_logical

KEPT = (Role.STATE, Role.EVENT, Role.SYNAPSE)
"""Roles of what a trial leaves to the next one."""


@dataclass(frozen=True)
class _Read:
    """A network input: the recording of each instance, in their order, and how its frames become numbers."""

    name: str
    buffers: tuple[str, ...]
    neurons: int
    frames: int
    counted: bool
    factor: float


class Trials:
    """The trials of one loaded program. `steps`: of each; `first`: the row of the first sample in the windows of the
    data (behind the one that padding reads, but for predictions)."""

    def __init__(self, model: l0.Model, lowered: Lowered, instance: Instance, first: int = 1) -> None:
        assert model.simulate is not None and model.train is not None and model.network is not None
        self._instance, self._first, batch = instance, first, model.train.batch
        self.steps = model.simulate.steps
        self._arrays: Mapping[str, l2.Array] = {a.name: a for a in lowered.merged.arrays}
        changed = written(lowered.merged, ("step",))
        self._initial = {n: instance.read(n) for n in changed if self._arrays[n].role in KEPT}
        self._driven = [(a, lowered.driving[a.layer]) for a in model.timed if a.layer]
        self._reads = [_read(model, i, i.activity) for i in model.network.inputs if i.activity is not None]
        if self._driven:
            places = np.full(self._arrays[f"{DRIVE}.order"].shape, -1, np.int32)
            places[0, :batch] = np.arange(first, first + batch)
            instance.write(f"{DRIVE}.order", places.reshape(-1))

    def run(self, number: int) -> None:
        """Simulate the samples that are in the windows of the data, and write what the network reads of them. Raises
        RunError (E0906)."""
        instance = self._instance
        if self._driven:
            instance.run(DRIVE, 1, 1)
            for array, source in self._driven:
                name = own_array(array.name, "timed")
                real = self._arrays[name].dtype.numpy  # those of the layer may be whole
                values = read_logical(instance, self._arrays[source]).reshape(-1).astype(real)
                instance.write(name, values * values.dtype.type(array.scale))
        for name, initial in self._initial.items():
            instance.write(name, initial)
        for read in self._reads:
            for buffer in read.buffers:
                instance.write(own_array(buffer, "used"), np.zeros(1, np.int64))
        first, done = number * self.steps + 1, 0
        while done < self.steps:
            ran = instance.run("step", first + done, self.steps - done)
            if ran <= 0:
                raise RunError("E0906", "the trial does not advance", exit_code=70)
            done += ran
        for read in self._reads:
            self._write(read)

    def _write(self, read: _Read) -> None:
        array = self._arrays[trial_data(read.name)]
        out = np.zeros(array.shape, array.dtype.numpy)
        for k, buffer in enumerate(read.buffers):
            out[self._first + k] = self._frames(read, buffer).reshape(-1)
        self._instance.write(array.name, out.reshape(-1))

    def _frames(self, read: _Read, buffer: str) -> npt.NDArray[np.floating]:
        """What an instance recorded, (frames, neurons)."""
        used = int(self._instance.read(own_array(buffer, "used"))[0])
        if used != read.frames:
            raise RunError("E0906", f"a trial has {used} frames, not {read.frames}", exit_code=70)
        rows = _reals(self._instance.read(buffer))[: used * read.neurons].reshape(used, read.neurons)
        if read.counted:
            rows = np.diff(rows, axis=0, prepend=np.zeros((1, read.neurons), rows.dtype))
        return np.asarray(rows * rows.dtype.type(read.factor))


def _reals(values: AnyArray) -> npt.NDArray[np.floating]:
    assert isinstance(values.dtype.type(0), np.floating)
    return values.reshape(-1)  # type: ignore[return-value]


def _read(model: l0.Model, item: l0.TensorInput, activity: l0.Activity) -> _Read:
    """The recordings behind a network input: with_trials made them, one for each instance."""
    assert model.simulate is not None
    made = [(k, t) for k, t in enumerate(model.traces) if t.input == item.name]
    counted = made[0][1].variables == (COUNTER,)
    factor = 1000 / (activity.every * model.simulate.dt) if activity.variable == l0.RATE and counted else 1.0
    buffers = tuple(own_array(array_name(t.population, t.variables[0]), f"record.{k}") for k, t in made)
    frames = model.simulate.steps // activity.every
    return _Read(item.name, buffers, len(made[0][1].members), frames, counted, factor)


def refuse_many(steps: int, batches: int, epochs: int, kept: int) -> None:
    """RunError (E0912) where a training has more steps than a simulation can count."""
    if (kept + epochs * batches) * steps > l0.MOST_STEPS:
        message = f"{epochs:,} epochs of {batches:,} trials are more than {l0.MOST_STEPS:,} steps"
        raise RunError("E0912", message, "give fewer epochs, larger batches or shorter trials")
