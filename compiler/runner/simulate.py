"""The loop of a spiking run: blocks of steps, drained as they fill.

Assumes: an instance that stands after step `first - 1`; the model has `simulate`.
Guarantees: the first `simulate.warmup` steps are not recorded; blocks are sized by time, which never changes a
result; buffers are drained when one is full, at the ends of warm-up and run, and now and then, which takes about 2 % of
a run at most, however many there are; a signal ends the loop after the step that runs, with all records on disk.
Does not: build, load or plot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from backends.protocol import Instance
from compiler.ir.model import Model
from compiler.runner.errors import RunError
from compiler.runner.health import Health
from compiler.runner.progress import Progress
from compiler.runner.record_synapses import SynapseWriter
from compiler.runner.signals import Stop

BLOCK_SECONDS = 0.1  # wall time that a block is meant to take: how long a signal may have to wait
DRAIN_SHARE = 50  # time between two drains that no buffer asks for, in units of the time that the last one took


class Writer(Protocol):
    """What takes records out of an instance and puts them on disk."""

    def drain(self, instance: Instance, keep: bool = True) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True)
class Simulated:
    """`step`: the last step that ran; seconds of the loop, draining included."""

    step: int
    cpu_seconds: float
    wall_seconds: float
    simulated_ms: float
    interrupted: int | None


def simulate(
    instance: Instance,
    model: Model,
    writers: Sequence[Writer],
    synapses: SynapseWriter | None,
    health: Health,
    stop: Stop,
    progress: Progress,
    done: int = 0,
) -> Simulated:
    """Run the steps after step `done` to the end. Raises RunError (E0908) when a state is not finite."""
    assert model.simulate is not None
    dt, warmup = model.simulate.dt, model.simulate.warmup
    last = warmup + model.simulate.steps
    begin_step = done
    progress.start(model.name, (last - done) * dt)
    cpu, wall = time.process_time(), time.perf_counter()
    block, drained, next_drain = 8, True, 0.0
    if synapses is not None:
        synapses.sample(instance, done)
    try:
        while done < last and stop.number is None:
            end = warmup if done < warmup else last
            if synapses is not None:
                end = min(end, synapses.next_sample(done))
            begin = time.perf_counter()
            wanted = min(block, end - done)
            ran = instance.run("step", done + 1, wanted)
            if ran <= 0 and drained:
                raise RunError("E0906", "the simulation does not advance", exit_code=70)
            done += ran
            if synapses is not None:
                synapses.sample(instance, done)
            now = time.perf_counter()
            if ran == wanted and now - begin < BLOCK_SECONDS:
                block = min(2 * block, 1 << 24)
            elif now - begin > 2 * BLOCK_SECONDS:
                block = max(1, block // 2)
            drained = ran < wanted or done == warmup or now >= next_drain
            if drained:
                for writer in writers:
                    writer.drain(instance, keep=done > warmup)
                next_drain = time.perf_counter() + DRAIN_SHARE * (time.perf_counter() - now)
            health.look(instance, f"by step {done} ({done * dt - warmup * dt:g} ms)")
            elapsed = max(time.perf_counter() - wall, 1e-9)
            factor = (done - begin_step) * dt / 1000 / elapsed
            progress.update(
                (done - begin_step) * dt,
                f"{(done - warmup) * dt / 1000:.3g} of {model.simulate.steps * dt / 1000:g} s, "
                f"{factor:.3g} x real time",
            )
        health.look(instance, f"by step {done} ({(done - warmup) * dt:g} ms)", force=True)
    finally:
        for writer in writers:  # after a failure, too: what led to it is worth seeing
            writer.drain(instance, keep=done > warmup)
            writer.flush()
        if synapses is not None:
            synapses.flush()
        progress.finish()
    return Simulated(
        done,
        time.process_time() - cpu,
        time.perf_counter() - wall,
        (done - begin_step) * dt,
        stop.number if done < last else None,
    )
