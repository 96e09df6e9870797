"""A simulation that a caller runs piece by piece, changes between the pieces, and takes back.

Assumes: a spiking model; one thread at a time uses a Stepper.
Guarantees: pieces end bit for bit where one long run does. Records go to the same files as those of a run, in a folder
of the Stepper. Ctrl-C ends a piece between two steps, with everything consistent, and then raises KeyboardInterrupt.
Does not: know callbacks (netloom/simulation.py) or plots.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import add
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.runtime.artifacts.checkpoint as checkpoint
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.core.disk import make_folder
from compiler.ir.space import own_array
from compiler.runtime.build import build_prepared
from compiler.runtime.common.arrays import persistent_arrays
from compiler.runtime.common.hashes import model_hash
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.health import STEPS, Health
from compiler.runtime.prepare import Prepared, prepare_to_run
from compiler.runtime.record.continued import copy_up_to
from compiler.runtime.record.record import SpikeWriter
from compiler.runtime.record.tables import TABLES, Criterion, table_rows
from compiler.runtime.record.writers import Writers, open_writers
from compiler.runtime.signs import check_signs
from compiler.runtime.spiking.begun import begun, read_begun
from compiler.runtime.spiking.quantities import Variable, refused
from compiler.runtime.spiking.simulate import Samples, next_block

NEVER: Final = 1 << 62


@dataclass(frozen=True)
class State:
    """Everything that determines how a simulation goes on, in memory. `rests`: incomplete bins of rates; `held`: how
    often in a row the model's criterion was met; `number`: of
    the checkpoint, within its Stepper."""

    done: int
    arrays: Mapping[str, AnyArray]
    rests: Mapping[str, npt.NDArray[np.float64]]
    number: int
    held: int = 0


class Stepper:
    """A loaded simulation after step `done`. `folder`: for its records; it is the Stepper's."""

    def __init__(self, path: Path, options: Options, folder: Path) -> None:
        self._path, self._options, self._folder = path, options, folder
        self._files = ExitStack()
        self._part = 0
        self._block = 64
        self._saved: dict[int, int] = {}
        self._numbers = 0
        self._written: dict[str, Variable] = {}
        self._steps = [0]
        """The last one is the step after which the simulation stands."""
        self._load(*self._prepared(options))
        self._open_records(0, {}, None)

    def _prepared(self, options: Options) -> tuple[Prepared, Instance]:
        prepared = prepare_to_run(self._path, options, Times())
        if prepared.model.simulate is None:
            raise refused("the model has no `simulate`: there is nothing to step", "`fit` trains a network")
        if prepared.model.in_trials:
            help = "`fit` trains it, `predict` gives what the network reads"
            raise refused("the samples of the model's training are trials: there is no one simulation to step", help)
        artifact = build_prepared(prepared, options, Times())
        return prepared, prepared.backend.load(artifact, prepared.lowered.merged, prepared.seed)

    def _load(self, prepared: Prepared, instance: Instance) -> None:
        assert prepared.model.simulate is not None
        self.prepared, self.instance = prepared, instance
        self.program = prepared.lowered.merged
        self.simulate = prepared.model.simulate
        # Records without an end: the duration of the model's file does not bind a simulation.
        endless = replace(self.simulate, steps=l0.MOST_STEPS - self.simulate.warmup)
        self.model = replace(prepared.model, simulate=endless)
        check_signs(self.model, self.program, instance)
        self._health = Health(self.program, self.model)
        self._criterion = None if self.simulate.stop is None else Criterion(self.model, self.program)
        self._quick = instance.uninterrupted("step")

    def close(self) -> None:
        self._files.close()
        self.instance.close()

    # --------------------------------------------------------------------------------------------- steps

    def advance(self, steps: int) -> None:
        """Run `steps` steps (the first time, after those of the warm-up). Raises RunError (E0908 where a state is not
        finite). Ctrl-C ends it between two steps."""
        done = self._steps[-1]
        end = done + steps
        self._samples.ended = False
        if self._quick is not None and steps <= self._block and end < self._next and done >= self.simulate.warmup:
            # One call from C to C, so that a signal cannot come between the steps and their being counted: a piece of
            # a millisecond may take 20 us, and to hold a signal takes 10.
            self._steps.extend(map(add, (done,), map(self._quick, (done + 1,), (steps,))))
            if self._steps[-1] == end:
                return
        if self.done < self.simulate.warmup:
            end += self.simulate.warmup - self.done
        if end > l0.MOST_STEPS:
            raise refused(f"a simulation has at most {l0.MOST_STEPS:,} steps of {self.simulate.dt:g} ms")
        with _Held() as held:
            self._advance(end, held)

    def _advance(self, end: int, held: _Held) -> None:
        run, drained = self.instance.run, False
        del self._steps[:-1]
        while self.done < end and not held.came and not self.ended:
            wanted = min(self._block, end - self.done, self._next - self.done)
            begin = time.perf_counter()
            ran = run("step", self.done + 1, wanted)
            if ran <= 0 and drained:
                raise RunError("E0906", "the simulation does not advance", exit_code=70)
            self._steps.append(self.done + ran)
            self._block = next_block(self._block, time.perf_counter() - begin, ran == self._block)
            drained = ran < wanted
            if drained:
                self._drain()
            if self.done >= self._next:
                self._due()

    def _due(self) -> None:
        """What is to be done at the end of step `done`: the end of the warm-up, samples of synapses, checks."""
        done = self.done
        if done == self.simulate.warmup:
            self._drain()
        self._samples.take(self.instance, done)
        if done % STEPS == 0:
            self._health.look_at_step(self.instance, f"by step {done} ({self.time:g} ms)", True)
        self._next = self._next_stop()
        del self._steps[:-1]

    def _next_stop(self) -> int:
        stops = [(self.done // STEPS + 1) * STEPS]
        if self.done < self.simulate.warmup:
            stops.append(self.simulate.warmup)
        return min([*stops, *self._samples.next(self.done)])

    def _drain(self) -> None:
        self._writers.drain(self.instance, keep=self.done > self.simulate.warmup)

    @property
    def ended(self) -> bool:
        """Whether the model's criterion ended the last piece."""
        return self._samples.ended

    @property
    def done(self) -> int:
        """The step after which the simulation stands, counted from 1, warm-up included."""
        return self._steps[-1]

    @property
    def time(self) -> float:
        """ms since the end of the warm-up (negative before it)."""
        return (self.done - self.simulate.warmup) * self.simulate.dt

    # ------------------------------------------------------------------------------------------- records

    def _open_records(self, done: int, rests: Mapping[str, npt.NDArray[np.float64]], before: Path | None) -> None:
        """Records from step `done` on, in a new folder, behind those of the folder `before` up to then."""
        self._part += 1
        self._records = self._folder / f"records-{self._part}"
        make_folder(self._records, "the records of a simulation")
        if before is not None and done > self.simulate.warmup:
            copy_up_to(before, self._records, self.model, done)
        opened = ExitStack()
        with ExitStack() as guarded:
            guarded.callback(opened.close)
            self._writers: Writers = open_writers(
                self._records, self.model, self.program, self.instance, done, rests, opened
            )
            self._samples = Samples(self._writers.sampled, self._criterion)
            if done >= self.simulate.warmup:
                self._samples.begin(self.instance, done)
            guarded.pop_all()
        self._files = opened
        self._next = self._next_stop()

    def spikes(self, population: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """(times in ms, neurons) of all recorded spikes so far. Raises RunError (E0935)."""
        if self._writers.spikes is None or population not in self._writers.spikes.counts:
            help = f"write `record: [spikes: {{from: {population}}}]` in the model"
            raise refused(f"the model does not record the spikes of `{population}`", help)
        return self._listed(self._writers.spikes, population)

    def events(self, owner: str, event: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """(times in ms, neurons) of all recorded events so far, of a population or a projection, this with its
        populations: `p[a->b]`. Raises RunError (E0935)."""
        name, writer = f"{owner}.{event}", self._writers.events
        if writer is None or name not in writer.counts:
            help = f"write `record: [events: {{from: {owner.partition('[')[0]}, events: [{event}]}}]` in the model"
            raise refused(f"the model does not record the events `{event}` of `{owner}`", help)
        return self._listed(writer, name)

    def _listed(self, writer: SpikeWriter, name: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        with _Held():
            self._drain()
            times = writer.read(f"spikes/{name}/timestamps")
            return times, writer.read(f"spikes/{name}/node_ids").astype(np.int64)

    def trace(self, population: str, variable: str) -> tuple[npt.NDArray[np.float64], AnyArray]:
        """(times in ms, values (samples, members)) recorded so far. Raises RunError (E0935)."""
        recorded = [r for r in self.model.traces if r.population == population and variable in r.variables]
        if self._writers.traces is None or not recorded:
            help = f"write `record: [trace: {{from: {population}, variables: [{variable}]}}]` in the model"
            raise refused(f"the model does not record `{variable}` of `{population}`", help)
        with _Held():
            self._drain()
            group = recorded[0].group
            values = self._writers.traces.read(f"{group}/{variable.rpartition('.')[2]}")
            return self._writers.traces.read(f"{group}/time"), values

    def rate(self, population: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """(times in ms, Hz) of the recorded bins so far. Raises RunError (E0935)."""
        if self._writers.rates is None or all(r.population != population for r in self.model.rates):
            help = f"write `record: [rate: {{from: {population}}}]` in the model"
            raise refused(f"the model does not record the rate of `{population}`", help)
        with _Held():
            self._drain()
            return self._writers.rates.read(f"{population}/time"), self._writers.rates.read(f"{population}/rate")

    def table(self, name: str) -> Mapping[str, Sequence[float]]:
        """The columns of a recorded table so far. Raises RunError (E0935)."""
        if self._writers.tables is None or all(t.name != name for t in self.model.tables):
            help = "write `record: [table: {columns: {error: mean(output.wrong)}, every: 100 ms}]` in the model"
            raise refused(f"the model does not record a table `{name}`", help)
        with _Held():
            self._writers.tables.flush()
            return table_rows(self._records / TABLES / f"{name}.csv")

    # --------------------------------------------------------------------------------- values and state

    def write(self, variable: Variable, values: npt.ArrayLike) -> None:
        """Replace the values of a variable. Raises RunError (E0935)."""
        with _Held():
            variable.write(self.instance, values)
            self._written[variable.name] = variable

    def state(self) -> State:
        """A copy of everything that determines how the simulation goes on."""
        with _Held():
            self._drain()
            self._numbers += 1
            self._saved[self._numbers] = self.done
            now = begun(0, self._writers.rates, self._criterion)
            arrays = {n: self.instance.read(n) for n in self._kept()}
            return State(self.done, arrays, now.rates, self._numbers, now.held)

    def _kept(self) -> list[str]:
        own = (v.array.name for v in self._written.values() if v.array is not None)
        return list(
            dict.fromkeys([*(a.name for a in persistent_arrays(self.program, bool(self.simulate.freeze))), *own])
        )

    def restore(self, state: State) -> None:
        """Go back to a state, or on to it. Records go back with it where the simulation has come through that state;
        otherwise they begin there. Raises RunError (E0935)."""
        with _Held():
            try:
                for name, values in state.arrays.items():
                    self.instance.write(name, values)
            except (KeyError, ValueError) as error:
                raise refused(f"the checkpoint does not fit this simulation: {error}") from None
            passed = self._saved.get(state.number) == state.done
            self._moved(state.done, state.rests, passed, state.held)

    def _moved(self, done: int, rests: Mapping[str, npt.NDArray[np.float64]], passed: bool, held: int) -> None:
        before = self._records if passed else None
        self._writers.drain(self.instance, keep=False)  # what comes after the state that is restored
        self._files.close()
        self._steps = [done]
        self._saved = {n: at for n, at in self._saved.items() if at <= done and passed}
        self._open_records(done, rests, before)
        self._hold(held)

    def _hold(self, held: int) -> None:
        """The criterion was met so often in a row."""
        if self._criterion is not None:
            self._criterion.held = held

    def save(self, path: Path) -> None:
        """Write a checkpoint, as a run does, which `netloom run --resume` reads. Raises RunError (E0930)."""
        position = checkpoint.Position("spiking", self.done, self.prepared.seed, model_hash(self.prepared.model))
        with _Held():
            self._drain()
            found = begun(max(self.done - self.simulate.warmup, 0), self._writers.rates, self._criterion).arrays()
            checkpoint.save_checkpoint(
                path, self.instance, self.program, position, frozen=bool(self.simulate.freeze), begun=found
            )

    def load(self, path: Path) -> None:
        """Go on from a checkpoint file, or the last one of a run directory. Raises RunError (E0909, E0927)."""
        latest = checkpoint.latest_checkpoint(path).path
        position = checkpoint.read_position(latest)
        checkpoint.check_origin(latest, position, "spiking", self.prepared.seed, model_hash(self.prepared.model))
        found = read_begun(latest)
        with _Held():
            checkpoint.restore_checkpoint(latest, self.instance, self.program, bool(self.simulate.freeze))
            self._moved(position.step, found.rates, False, found.held)

    def change(self, settings: Mapping[str, str]) -> None:
        """Other values of parameters, from the next step on. Raises RunError (E0935) for one that changes sizes, time
        steps or connections; ModelError."""
        options = replace(self._options, set={**self._options.set, **settings})
        prepared, instance = self._prepared(options)
        with _Held():
            try:
                self._adopt(prepared, instance)
            except BaseException:
                instance.close()
                raise
            self._options = options

    def _adopt(self, prepared: Prepared, instance: Instance) -> None:
        simulate = prepared.model.simulate
        assert simulate is not None
        if (simulate.dt, simulate.warmup) != (self.simulate.dt, self.simulate.warmup):
            raise refused("`set` cannot change `dt` or `warmup` of a simulation", "make another simulation")
        self._drain()
        kept = [(n, self.instance.read(n)) for n in self._kept()]
        try:
            for name, values in self._connections():
                if not np.array_equal(instance.read(name), values):
                    raise ValueError(f"`{name}` differs")
            for name, values in kept:
                instance.write(name, values)
        except (KeyError, ValueError) as error:
            help = "make another simulation: sizes and connections are drawn once"
            raise refused(f"these settings change more than values: {_text(error)}", help) from None
        now = begun(0, self._writers.rates, self._criterion)
        old, before = self.instance, self._records
        self._files.close()
        self._load(prepared, instance)
        old.close()
        self._open_records(self.done, now.rates, before)
        self._hold(now.held)

    def _connections(self) -> list[tuple[str, AnyArray]]:
        """The arrays that say which neurons are connected, and with which delays."""
        ends = tuple(own_array("", part) for part in ("row", "col", "to_row", "to_col", "delay"))
        return [(a.name, self.instance.read(a.name)) for a in self.program.arrays if a.name.endswith(ends)]


def _text(error: Exception) -> str:
    return f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else str(error)


class _Held:
    """Ctrl-C waits until the block ends, and is delivered then; `came` says that it is waiting. In the main thread
    only, as signals are; where Ctrl-C is ignored or ends the process, it stays so."""

    __slots__ = ("_before", "came")

    def __enter__(self) -> _Held:
        self.came = False
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            if self.came:
                signal.raise_signal(signal.SIGINT)
