"""The loop of a spiking run: blocks of steps between drains of the record buffers.

Assumes: an instance that stands after step `first - 1`; the model has `simulate`.
Guarantees: the first `simulate.warmup` steps are not recorded; blocks are sized by time, which never changes a
result; buffers are drained when one is full, at the ends of warm-up and run, and at intervals, when all records are
flushed, too, which takes at most about 2 % of a run, whatever their number; a state that is not finite ends the run
within 1,000 steps; a signal, or the model's
criterion, ends the loop after the step that runs, with all records on disk. A checkpoint is written
when all records are on disk, of a state that is finite.
Does not: build, load or plot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backends.protocol import Instance
from compiler.core.diagnostics import RunError
from compiler.runtime.health import STEPS, Health
from compiler.runtime.record.record_synapses import SynapseWriter
from compiler.runtime.record.tables import Criterion, TableWriter
from compiler.runtime.record.writers import Writers
from compiler.runtime.session import Session

BLOCK_SECONDS = 0.1  # target wall time of a block: the longest delay of a signal
FLUSH_SECONDS = 1.0  # least time between two flushes: what a killed run may lose
FLUSH_SHARE = 50  # the same in units of the duration of the last flush


class Checkpoints(Protocol):
    """When checkpoints are due, and writing them."""

    def next_step(self, done: int) -> int | None: ...

    def due(self, done: int) -> bool: ...

    def write(self, done: int) -> None: ...


@dataclass(frozen=True)
class SimulationResult:
    """`step`: the last step that ran; seconds of the loop, draining included; `ended`: the model's criterion was met
    before the last step."""

    step: int
    cpu_seconds: float
    wall_seconds: float
    simulated_ms: float
    interrupted: int | None
    ended: bool = False


def simulate(
    session: Session,
    writers: Writers,
    health: Health,
    done: int = 0,
    checkpoints: Checkpoints | None = None,
    criterion: Criterion | None = None,
    ended: bool = False,
) -> SimulationResult:
    """Run the steps after step `done` to the end; none when the criterion has `ended` the run. Raises RunError (E0908)
    when a state is not finite."""
    model, instance, stop, progress = session.prepared.model, session.instance, session.stop, session.progress
    assert model.simulate is not None
    dt, warmup = model.simulate.dt, model.simulate.warmup
    begin_step, last = done, warmup + model.simulate.steps
    progress.start(model.name, (last - done) * dt)
    cpu, wall = time.process_time(), time.perf_counter()
    block, drained, next_look = 8, True, done + STEPS
    next_flush, samples = time.perf_counter() + FLUSH_SECONDS, Samples(writers.sampled, criterion)
    samples.begin(instance, done)
    samples.ended = ended
    try:
        while done < last and stop.number is None and not samples.ended:
            end = _next_stop(done, warmup, last, samples, checkpoints)
            begin = time.perf_counter()
            wanted = min(block, end - done, next_look - done)
            ran = instance.run("step", done + 1, wanted)
            if ran <= 0 and drained:
                raise RunError("E0906", "the simulation does not advance", exit_code=70)
            done += ran
            samples.take(instance, done)
            now = time.perf_counter()
            block = next_block(block, now - begin, ran == wanted)
            saved = checkpoints is not None and done < last and checkpoints.due(done)
            flushed = now >= next_flush or saved
            drained = ran < wanted or done == warmup or flushed
            if drained:
                writers.drain(instance, keep=done > warmup)
            if flushed:
                writers.flush(durable=saved)
                flushed_at = time.perf_counter()
                next_flush = flushed_at + max(FLUSH_SECONDS, FLUSH_SHARE * (flushed_at - now))
            where = f"by step {done} ({done * dt - warmup * dt:g} ms)"
            health.look_at_step(instance, where, done == next_look)
            next_look += STEPS if done == next_look else 0
            if saved and checkpoints is not None:
                health.look(instance, where)
                checkpoints.write(done)
            simulated, factor = _speed(done - begin_step, dt, wall)
            total = f"{(done - warmup) * dt / 1000:.3g} of {model.simulate.steps * dt / 1000:g} s"
            progress.update(simulated, f"{total}, {factor:.3g} x real time")
        health.look(instance, f"by step {done} ({(done - warmup) * dt:g} ms)")
    finally:
        writers.drain(instance, keep=done > warmup)  # also after a failure, for diagnosis
        writers.flush()
        progress.finish()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    interrupted = None if samples.ended or done == last else stop.number
    return SimulationResult(done, cpu, wall, (done - begin_step) * dt, interrupted, samples.ended)


def next_block(block: int, seconds: float, complete: bool) -> int:
    """The steps to ask for next, after `block` of them took `seconds`; `complete`: all of them were done."""
    if complete and seconds < BLOCK_SECONDS:
        return min(2 * block, STEPS)
    return max(1, block // 2) if seconds > 2 * BLOCK_SECONDS else block


def _speed(steps: int, dt: float, begin: float) -> tuple[float, float]:
    """(ms simulated, in how many times real time) since the wall time `begin`."""
    return steps * dt, steps * dt / 1000 / max(time.perf_counter() - begin, 1e-9)


def _next_stop(done: int, warmup: int, last: int, samples: Samples, checkpoints: Checkpoints | None) -> int:
    """The step after `done` at whose end there is something to do, at the latest."""
    stops = [warmup if done < warmup else last, *samples.next(done)]
    if checkpoints is not None and (due := checkpoints.next_step(done)) is not None:
        stops.append(due)
    return min(stops)


class Samples:
    """What reads the instance at the ends of certain steps. `ended`: the criterion was met."""

    def __init__(self, samplers: Sequence[SynapseWriter | TableWriter], criterion: Criterion | None) -> None:
        self._samplers, self._criterion = samplers, criterion
        self.ended = False

    def next(self, done: int) -> list[int]:
        """The steps at whose ends the next samples are due."""
        criterion = () if self._criterion is None else (self._criterion,)
        return [x.next_sample(done) for x in (*self._samplers, *criterion)]

    def begin(self, instance: Instance, done: int) -> None:
        """What is sampled before the first step (the criterion was tested by the run that came so far)."""
        for sampler in self._samplers:
            sampler.sample(instance, done)

    def take(self, instance: Instance, done: int) -> None:
        """What is due at the end of step `done`."""
        self.begin(instance, done)
        self.ended = self._criterion is not None and self._criterion.met(instance, done)
