"""A spiking run in its folder: records, loop, checkpoint, rates.

Assumes: a session whose model has `simulate`.
Guarantees: the folder of a resumed run begins with the records of the run that it continues, so it ends as the
folder of an unbroken one.
Does not: build or plot.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from compiler.disk import copy_file
from compiler.runner.checkpoint import Position, save_checkpoint
from compiler.runner.errors import RunError
from compiler.runner.growing import recording
from compiler.runner.health import Health
from compiler.runner.rates import mean_rates
from compiler.runner.record import SpikeWriter, TraceWriter, cut_records
from compiler.runner.record_rates import RateWriter
from compiler.runner.record_synapses import SynapseWriter
from compiler.runner.session import Outcome, Session
from compiler.runner.simulate import simulate


def run_spiking(session: Session) -> Outcome:
    """Simulate to the end, or to a signal; rates are over all that is recorded in the folder."""
    model, program = session.prepared.model, session.prepared.lowered.merged
    assert model.simulate is not None
    warmup, dt = model.simulate.warmup, model.simulate.dt
    last = warmup + model.simulate.steps
    done, recorded_from = 0, 0
    if session.resumed is not None:
        position, path = session.resumed
        done = position.step
        if done >= last:
            raise RunError(
                "E0909",
                f"`{path}` stands at {(done - warmup) * dt:g} ms, where the simulation ends",
                "give a longer `--duration`",
                exit_code=2,
            )
        if not _copy_records(session, path, done):
            recorded_from = max(done - warmup, 0)
    health = Health(program)
    with recording(session.folder), ExitStack() as opened:
        spikes, traces, rates, synapses = _writers(session, done, opened)
        result = simulate(
            session.instance,
            model,
            [w for w in (spikes, traces, rates) if w is not None],
            synapses,
            health,
            session.stop,
            session.progress,
            done,
        )
    position = Position("spiking", result.step, session.prepared.seed, session.hash)
    name = f"step-{result.step:010d}.safetensors"
    path, frozen = session.folder / "checkpoints" / name, bool(model.simulate.freeze)
    save_checkpoint(path, session.instance, program, position, frozen=frozen)
    counts = dict(spikes.counts) if spikes is not None else {}
    window = recorded_from, max(result.step - warmup, 0)
    cpu = result.cpu_seconds
    return Outcome(
        mean_rates(model, counts, window),
        counts,
        {},
        result.interrupted,
        (cpu, result.wall_seconds),
        {
            "simulation_cpu_seconds": cpu,
            "simulated_ms": result.simulated_ms,
            "real_time_factor": result.simulated_ms / 1000 / max(result.wall_seconds, 1e-9),
        },
        window,
    )


def _writers(
    session: Session, done: int, opened: ExitStack
) -> tuple[SpikeWriter | None, TraceWriter | None, RateWriter | None, SynapseWriter | None]:
    """What writes the records that the model asks for; each is closed with `opened`, whatever the others do."""
    model, program, folder = session.prepared.model, session.prepared.lowered.merged, session.folder
    spikes = SpikeWriter(folder / "spikes.h5", model) if model.spikes else None
    traces = TraceWriter(folder / "traces.h5", model, program, start=done) if model.traces else None
    rates = RateWriter(folder / "rates.h5", model, done) if model.rates else None
    synapses: SynapseWriter | None = None
    if model.synapses or model.histograms:
        synapses = SynapseWriter(folder / "synapses.h5", model, program, session.instance, done)
    for writer in (spikes, traces, rates, synapses):
        if writer is not None:
            opened.callback(writer.close)
    return spikes, traces, rates, synapses


def _copy_records(session: Session, checkpoint: Path, step: int) -> bool:
    """Begin with the records of the run that `checkpoint` belongs to; False when it belongs to none."""
    source = checkpoint.parent.parent
    if not (source / "run.json").exists():
        return False
    found = False
    for name in ("spikes.h5", "traces.h5", "rates.h5", "synapses.h5"):
        if (source / name).exists():
            copy_file(source / name, session.folder / name, "the recording")
            found = True
    with recording(session.folder):
        cut_records(session.folder, session.prepared.model, step)
    return found
