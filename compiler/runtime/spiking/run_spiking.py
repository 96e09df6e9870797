"""A spiking run in its folder: records, loop, checkpoints, rates.

Assumes: a session whose model has `simulate`.
Guarantees: the folder of a resumed run begins with the records of the run that it continues, so it ends equal to the
folder of an uninterrupted one. A checkpoint is written after all earlier records are on disk: a run that is killed at
any moment can be resumed from the last one.
Does not: build or plot.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.checkpoint import Position, cut_short, save_checkpoint
from compiler.runtime.common.rates import mean_rates
from compiler.runtime.health import Health
from compiler.runtime.record.continued import ALONE, adopt_checkpoint, copy_records
from compiler.runtime.record.growing import recording
from compiler.runtime.record.tables import Criterion
from compiler.runtime.record.writers import Writers, open_writers
from compiler.runtime.session import Outcome, Session
from compiler.runtime.signs import check_signs
from compiler.runtime.spiking.begun import Begun, begun, read_begun
from compiler.runtime.spiking.simulate import simulate


def run_spiking(session: Session) -> Outcome:
    """Simulate to the end, or to a signal; rates are over all records in the folder."""
    model, program = session.prepared.model, session.prepared.lowered.merged
    assert model.simulate is not None
    start = _begin(session)
    check_signs(model, program, session.instance)
    with recording(session.folder), ExitStack() as opened:
        writers = open_writers(session.folder, model, program, session.instance, start.step, start.begun.rates, opened)
        criterion = None if model.simulate.stop is None else Criterion(model, program, start.begun.held)
        checkpoints = SpikingCheckpoints(session, start, writers, criterion)
        if start.checkpoint is not None:
            _check_rows(start, writers, model.simulate.warmup)
            checkpoints.adopt(start.checkpoint)
        if model.simulate.checkpoints is not None:
            session.progress.tell(f"should this run be killed, go on with `--resume {session.folder}`")
        health = Health(program, model)
        result = simulate(session, writers, health, start.step, checkpoints, criterion, start.ended)
    checkpoints.write(result.step)
    counts = dict(writers.spikes.counts) if writers.spikes is not None else {}
    window = start.begun.recorded_from, max(result.step - model.simulate.warmup, 0)
    cpu = result.cpu_seconds
    return Outcome(
        mean_rates(model, counts, window),
        counts,
        {} if writers.tables is None else dict(writers.tables.last),
        result.interrupted,
        (cpu, result.wall_seconds),
        {
            "simulation_cpu_seconds": cpu,
            "simulated_ms": result.simulated_ms,
            "real_time_factor": result.simulated_ms / 1000 / max(result.wall_seconds, 1e-9),
        },
        window,
        None,
        window[1] * model.simulate.dt if result.ended else None,
    )


# ------------------------------------------------------------------------------------------- going on


@dataclass(frozen=True)
class _Start:
    """Where a run begins: the step before its first one, its checkpoint, what its records have begun, and whether they
    begin with those of the run that it continues; `ended`: that was killed after its criterion was met."""

    step: int = 0
    checkpoint: Path | None = None
    begun: Begun = field(default_factory=Begun)
    copied: bool = False
    ended: bool = False


def _begin(session: Session) -> _Start:
    """Copy the records and return the position of the run that is resumed, if any. Raises RunError (E0909)."""
    if session.resumed is None:
        return _Start()
    simulate = session.prepared.model.simulate
    assert simulate is not None
    position, path = session.resumed
    done = position.step
    ended = cut_short(path)
    if done > (last := simulate.warmup + simulate.steps) or (done == last and not ended):
        raise RunError(
            "E0909",
            f"`{path}` stands at {(done - simulate.warmup) * simulate.dt:g} ms, where the simulation ends",
            "give a longer `--duration`",
        )
    found = read_begun(path)
    copied = copy_records(path.parent.parent, session.folder, session.prepared.model, done)
    if not copied:
        found = replace(found, recorded_from=max(done - simulate.warmup, 0))
    times = None if simulate.stop is None else simulate.stop.times
    return _Start(done, path, found, copied, ended and times is not None and found.held >= times)


def _check_rows(start: _Start, writers: Writers, warmup: int) -> None:
    """Compare the records with what the checkpoint says of them. Raises RunError (E0909) where some are missing."""
    assert start.checkpoint is not None
    if not start.copied or start.step <= warmup:
        return
    for name, rows in writers.rows.items():
        before = start.begun.rows.get(name)
        if before is not None and not np.array_equal(before, rows):
            message = f"`{start.checkpoint.parent.parent / name}` ends before the checkpoint `{start.checkpoint}`"
            raise RunError("E0909", message, ALONE)


# ---------------------------------------------------------------------------------------- checkpoints


class SpikingCheckpoints:
    """The checkpoints of a run: when one is due, and writing it; old ones are removed."""

    def __init__(self, session: Session, start: _Start, writers: Writers, criterion: Criterion | None) -> None:
        assert session.prepared.model.simulate is not None
        self._session, self._start, self._writers, self._criterion = session, start, writers, criterion
        self._simulate = session.prepared.model.simulate
        self._wanted = self._simulate.checkpoints or l0.Checkpoints(keep=1)
        self._folder = session.folder / "checkpoints"
        self._kept: list[Path] = []
        self._written = time.perf_counter()

    def adopt(self, path: Path) -> None:
        """Begin with the checkpoint of the run that is resumed; where its records are not there, with one that says
        so."""
        if self._start.copied:
            self._kept.append(adopt_checkpoint(path, self._session.folder))
        else:
            self.write(self._start.step)

    def next_step(self, done: int) -> int | None:
        """The first step after `done` at whose end one is due by simulated time."""
        every, warmup = self._wanted.every, self._simulate.warmup
        return l0.next_sample(done - warmup, every, 0) + warmup if every else None

    def due(self, done: int) -> bool:
        """Whether one is to be written at the end of step `done`."""
        every, wall = self._wanted.every, self._wanted.wall
        if every and (done - self._simulate.warmup) % every == 0:
            return True
        return bool(wall) and time.perf_counter() - self._written >= wall

    def write(self, done: int) -> None:
        """Write the state at the end of step `done`, whose records are on disk, and keep the newest ones."""
        session, start = self._session, self._start.begun.recorded_from
        now = replace(begun(start, self._writers.rates, self._criterion), rows=self._writers.rows)
        path = self._folder / f"step-{done:010d}.safetensors"
        save_checkpoint(
            path,
            session.instance,
            session.prepared.lowered.merged,
            Position("spiking", done, session.prepared.seed, session.hash),
            frozen=bool(self._simulate.freeze),
            begun=now.arrays(),
        )
        self._kept = [*(p for p in self._kept if p != path), path]
        while len(self._kept) > self._wanted.keep:
            self._kept.pop(0).unlink(missing_ok=True)
        self._written = time.perf_counter()
