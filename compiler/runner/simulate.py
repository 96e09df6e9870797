"""The loop of a spiking run: blocks of steps, drained as they fill.

Assumes: an instance that stands after step `first - 1`; the model has `simulate`.
Guarantees: the first `simulate.warmup` steps are not recorded; blocks are sized by time, which never changes a
result; a signal ends the loop after the step that runs, with all records on disk.
Does not: build, load or plot.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from backends.protocol import Instance
from compiler.ir.model import Model
from compiler.runner.errors import RunError
from compiler.runner.health import Health
from compiler.runner.progress import Progress
from compiler.runner.record import SpikeWriter, TraceWriter
from compiler.runner.record_rates import RateWriter
from compiler.runner.record_synapses import SynapseWriter
from compiler.runner.signals import Stop

BLOCK_SECONDS = 0.1  # wall time that a block is meant to take: how long a signal may have to wait


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
    spikes: SpikeWriter | None,
    traces: TraceWriter | None,
    rates: RateWriter | None,
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
    writers = tuple(w for w in (spikes, traces, rates) if w is not None)
    progress.start(model.name, (last - done) * dt)
    cpu, wall = time.process_time(), time.perf_counter()
    block = 8
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
            if ran <= 0:
                raise RunError("E0906", "the simulation does not advance", exit_code=70)
            done += ran
            if synapses is not None:
                synapses.sample(instance, done)
            seconds = time.perf_counter() - begin
            if ran == wanted and seconds < BLOCK_SECONDS:
                block = min(2 * block, 1 << 24)
            elif seconds > 2 * BLOCK_SECONDS:
                block = max(1, block // 2)
            # after every block: a buffer may be full although all wanted steps ran, and then takes no other step
            for writer in writers:
                writer.drain(instance, keep=done > warmup)
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
