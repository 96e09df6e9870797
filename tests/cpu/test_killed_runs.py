"""Runs killed (kill -9) at any moment resume bit for bit from their last checkpoint."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.cli.actions.doctor import examine
from compiler.core.diagnostics import RunError
from compiler.core.disk import Scratch, scratch_folder
from compiler.frontend.load import load_model
from compiler.runtime.artifacts.checkpoint import latest_checkpoint, read_position, resumable
from compiler.runtime.artifacts.run_folder import RunFolder
from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import LineProgress
from compiler.runtime.execute import run_model
from compiler.runtime.record.continued import copy_up_to
from compiler.runtime.record.superblock import lookup3, unmark
from netloom import run
from tests.construct_runs import write_construct
from tests.constructs import CONSTRUCTS
from tests.cpu.killed_runs import Snapshots, left_behind, partial_folder, same_end
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_training import same_training

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

RICH = """\
language: 1
name: rich
params: {n: {value: 40, type: int}}
neurons:
  cell:
    params: {tau: 10 ms, rest: -60 mV, drive: 8 mV}
    state: {v: {uniform: {low: -60 mV, high: -50 mV}}}
    inputs: {g: {unit: mV, decay: 5 ms}}
    pool: {reduce: {m: mean(v)}, state: {s: 0 mV}, update: [s = 0.9 * s + 0.1 * m + 0.01 * random() * 1 mV]}
    dynamics: {dv/dt: (rest - v + g + drive + kick(t)) / tau}
    on: {trial.start: [v = v - 0.5 mV]}
    spike: {when: v > -52 mV, reset: [v = rest], refractory: 2 ms}
populations: {a: {neuron: cell, size: n, pools: 4}, b: {neuron: cell, size: 20}}
phases: {trial: {every: 7 ms, events: {start: 0 ms, late: 5 ms}}}
synapses:
  rule:
    state: {w: 1, age: 0}
    on:
      trial.start: [rewire(w < 0.6)]
      trial.late: [w = 0.7 * w + 0.5 * random(), age = age + 1]
    on_pre: [deliver(0.5 mV * w)]
timed:
  kick: {values: [0 mV, 1 mV, 3 mV, 0 mV, 2 mV], every: 11 ms}
projections:
  static:
    from: a
    to: [a, b]
    connect: {fixed_probability: {p: 0.2}}
    deliver: {into: g, weight: {uniform: {low: 0 mV, high: 2 mV}}}
    delay: {uniform: {low: 1 ms, high: 5 ms, round: nearest}}
  plastic:
    from: b
    to: a
    connect: {fixed_indegree: {number: 4}}
    synapse: stdp_additive
    params: {w_max: 3 mV}
    deliver: {into: g}
    delay: 1 ms
  moved: {from: a, to: b, connect: {fixed_indegree: {number: 3}}, synapse: rule, deliver: {into: g}, delay: 2 ms}
inputs:
  noise: {to: all, poisson: {rate: 300 Hz, into: g, weight: 1 mV}}
simulate: {dt: 0.5 ms, duration: DURATION, warmup: 10 ms, seed: 2CHECKPOINT}
record:
  - spikes: {from: a, members: [1, 4, 7]}
  - spikes: {from: b, between: [10 ms, 50 ms]}
  - trace: {from: a, variables: [v, g, pool.s], members: 0..9, every: 2 ms, between: [5 ms, 45 ms]}
  - trace: {from: b, variables: [v], members: all, at: trial.late}
  - rate: {from: a, every: 5 ms}
  - rate: {from: b, at: trial.start}
  - synapses: {from: plastic, variables: [w], every: 20 ms}
  - synapses: {from: moved, variables: [w, age], at: trial.start}
  - synapses: {from: static, variables: [weight, delay]}
  - histogram: {from: plastic, variable: w, range: [0 mV, 3 mV], bins: 7, every: 20 ms}
expect:
  - spikes: {of: a, at_least: 1}
"""


def rich(folder: Path, checkpoint: str = "", duration: str = "60 ms", instances: int = 1) -> Path:
    more = f", checkpoint: {{{checkpoint}}}" if checkpoint else ""
    more += f", instances: {instances}" if instances > 1 else ""
    path = folder / "rich.yaml"
    path.write_text(RICH.replace("DURATION", duration).replace("CHECKPOINT", more), encoding="utf-8")
    return path


# ------------------------------------------------------------------------------------ really killed


class Process:
    """A run in a separate process."""

    def __init__(self, model: Path, out: Path, *options: str) -> None:
        self.out = out
        command = [sys.executable, "-m", "compiler.cli", "run", str(model), "--out", str(out), "--quiet", *options]
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)

    def kill_after(self, seconds: float, checkpoints: int = 1) -> Path | None:
        """Kill it so long after its checkpoints are there; returns what it left, None if it was finished before."""
        before = set()
        while self.process.poll() is None:
            folder = partial_folder(self.out)
            before |= {p.name for p in (folder / "checkpoints").glob("*.safetensors")} if folder is not None else set()
            if len(before) >= checkpoints:
                break
            time.sleep(0.002)
        time.sleep(seconds)
        self.process.kill()
        _, errors = self.process.communicate(timeout=60)
        if self.process.returncode != -signal.SIGKILL:
            assert self.process.returncode == 0, errors.decode()
            return None
        return partial_folder(self.out)


def kill_and_go_on(path: Path, folder: Path, rounds: int, rng: random.Random, until: float) -> tuple[Path, int]:
    """The folder of a run that was killed up to `rounds` times and resumed each time; the number of kills."""
    resume: tuple[str, ...] = ()
    killed = 0
    for number in range(rounds):
        out = folder / f"part{number}"
        left = Process(path, out, *resume).kill_after(rng.uniform(0, until), 2)
        if left is None:
            return out, killed
        killed += 1
        readable(left)
        resume = ("--resume", str(out))
    return run(path, out=folder / "last", resume=resume[1]).folder, killed


def readable(folder: Path) -> None:
    """All records up to the last checkpoint are readable in the files left by the process."""
    step = int(max((folder / "checkpoints").glob("*.safetensors")).stem.partition("-")[2])
    now = (step - 20) * 0.5  # ms
    with h5py.File(folder / "rates.h5", "r", swmr=True) as file:
        a, b = ("a", "b") if "a" in file else ("a_0", "b_0")
        times, rates = file[f"{a}/time"][:], file[f"{a}/rate"][:]
        assert len(rates) >= now // 5
        assert np.array_equal(times, 5.0 * np.arange(1, len(times) + 1))
    with h5py.File(folder / "synapses.h5", "r", swmr=True) as file:
        assert len(file[f"plastic/{b}->{a}/w"]) >= now // 20 + 1
    with h5py.File(folder / "spikes.h5", "r", swmr=True) as file:
        assert len(file[f"spikes/{a}/timestamps"]) > 0 or now < 100
        assert np.all(np.diff(file[f"spikes/{a}/timestamps"][:]) >= 0)


@pytest.mark.slow
def test_killed_at_random_moments(here: Path) -> None:
    """Processes are killed (SIGKILL), repeatedly: records are equal to those of an uninterrupted run."""
    unbroken = run(rich(here, "", "10 s"), out=here / "unbroken")
    path = rich(here, "every: 500 ms, every_wall: 40 ms", "10 s")
    last, killed = kill_and_go_on(path, here, 2, random.Random(), 0.2)
    assert killed
    same_end(unbroken.folder, last)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_many_times(here: Path, seed: int) -> None:
    instances = 1 + seed % 3
    unbroken = run(rich(here, "", "100 s", instances), out=here / "unbroken")
    path = rich(here, "every: 1700 ms, every_wall: 0.1 s, keep: 1", "100 s", instances)
    last, killed = kill_and_go_on(path, here, 8, random.Random(seed), 1.0)
    assert killed > 3
    same_end(unbroken.folder, last)


# ------------------------------------------------------------------- what is left at every moment


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    every=st.integers(1, 45),
    keep=st.integers(1, 3),
    warmup=st.sampled_from([0, 10, 17]),
    at=st.integers(2, 14),
    synced=st.booleans(),
)
def test_any_interval(tmp_path: Path, every: int, keep: int, warmup: int, at: int, synced: bool) -> None:
    """Checkpoints at an interval of steps, killed between two blocks or during a write to disk."""
    folder = tmp_path / f"warm-{warmup}"
    folder.mkdir(exist_ok=True)
    path = write_construct("records", folder, "float32", "reproducible")
    text = path.read_text().replace("warmup: 10 ms", f"warmup: {warmup} ms")
    path.write_text(text)
    if not (folder / "unbroken").exists():
        run(path, out=folder / "unbroken", build_dir=folder / "build")
    checkpoint = f"checkpoint: {{every: {every * 0.5} ms, keep: {keep}}}"
    path.write_text(text.replace("simulate: {", f"simulate: {{{checkpoint}, "))
    with pytest.MonkeyPatch.context() as patch:
        left = left_behind(path, at, folder, "cpu", (lambda s: watch_syncs(s, patch)) if synced else None)
    if not left.exists():  # the run was finished before
        return
    kept = list((left / "checkpoints").glob("*.safetensors"))
    assert len(kept) <= keep + 1  # one more while the new one is written
    out = folder / "on"
    shutil.rmtree(out, ignore_errors=True)
    if not kept:
        with pytest.raises(RunError, match="holds no checkpoints"):
            run(path, resume=left, out=out, build_dir=folder / "build")
        return
    same_end(folder / "unbroken", run(path, resume=left, out=out, build_dir=folder / "build").folder)


def watch_syncs(snapshots: Snapshots, patch: pytest.MonkeyPatch) -> None:
    """Count writes to disk, in place of blocks of steps."""
    sync = os.fsync

    def watched(place: int) -> None:
        sync(place)
        snapshots.tick()

    patch.setattr(os, "fsync", watched)
    snapshots.update = lambda done, text: None  # type: ignore[method-assign]


SOME = ("control, copies", "drives", "sums and new synapses")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((n, "cpu") if n in SOME else pytest.param(n, "cpu", marks=pytest.mark.slow) for n in CONSTRUCTS),
        *(pytest.param(n, "reference", marks=pytest.mark.slow) for n in ("records", "drives", "sums and new synapses")),
    ],
)
def test_every_construct_goes_on(tmp_path: Path, name: str, target: str) -> None:
    path = write_construct(name, tmp_path, "float32")
    unbroken = run(path, target, out=tmp_path / "unbroken", build_dir=tmp_path / "build")
    text = path.read_text()
    dt = float(text.partition("simulate: {dt: ")[2].partition(" ms")[0])
    path.write_text(text.replace("simulate: {", f"simulate: {{checkpoint: {{every: {7 * dt:.6g} ms}}, "))
    left = left_behind(path, 3, tmp_path, target)
    same_end(unbroken.folder, run(path, target, resume=left, out=tmp_path / "on", build_dir=tmp_path / "build").folder)


# --------------------------------------------------------------------------------- what a user sees


def test_where_a_killed_run_lies(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The run prints how to resume; `netloom doctor` finds it; its intended name suffices."""
    path = rich(here, "every: 5 ms")
    (here / "runs").mkdir()
    left = left_behind(path, 5, here / "runs", "cpu")
    place = here / "runs" / ".killed.1234"
    left.rename(place)
    assert resumable(place)
    examine()
    assert "netloom run MODEL --resume runs/.killed.1234` goes on from step-" in capfd.readouterr().out
    run_model(path, Options(out=here / "told", build_dir=here / "build"), LineProgress())
    assert f"--resume {here / '.told.'}" in capfd.readouterr().err
    second = run(path, resume=here / "runs" / "killed", out=here / "second")
    same_end(here / "told", second.folder)


def test_no_checkpoint_to_go_on_from(here: Path) -> None:
    path = rich(here, "every: 5 ms")
    with pytest.raises(RunError, match="there is no run directory") as caught:
        run(path, resume=here / "nothing")
    left = left_behind(path, 5, here, "cpu")
    second = left_behind(path, 5, here, "cpu", resume=left)
    assert resumable(second)  # it took the checkpoint over
    for folder, help in ((left, "every_wall"), (second, f"it went on from `{left}`")):
        shutil.rmtree(folder / "checkpoints")
        with pytest.raises(RunError, match="holds no checkpoints") as caught:
            run(path, resume=folder)
        assert caught.value.code == "E0909"
        assert caught.value.exit_code == 2
        assert help in str(caught.value.help)


def test_a_damaged_checkpoint_is_passed_over(here: Path) -> None:
    """The previous one is valid, and gives the same results; records that end before it are rejected."""
    path = rich(here, "every: 5 ms")
    left = left_behind(path, 9, here, "cpu")
    older, newest = sorted((left / "checkpoints").glob("*.safetensors"))[-2:]
    newest.write_bytes(newest.read_bytes()[:-100])
    second = run(path, resume=left, out=here / "second")
    assert second.record["resumed_from"] == str(left)
    same_end(here / "whole-life", second.folder)
    older.write_bytes(b"")
    with pytest.raises(RunError, match="no whole checkpoint"):
        run(path, resume=left)


def test_an_altered_checkpoint_is_passed_over(here: Path) -> None:
    """A bit flipped in the newest one: the run resumes from the previous one, with a message."""
    path = rich(here, "every: 5 ms")
    left = left_behind(path, 9, here, "cpu")
    older, newest = sorted((left / "checkpoints").glob("*.safetensors"))[-2:]
    data = newest.read_bytes()
    newest.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    second = run(path, resume=left, out=here / "second")
    same_end(here / "whole-life", second.folder)
    assert second.warnings == (f"`{newest}` is damaged: the run goes on from `{older.name}`",)
    with pytest.raises(RunError, match="is damaged") as caught:  # named by its path, it is what is wanted
        run(path, resume=newest)
    assert caught.value.code == "E0927"


def test_a_run_that_goes_on_is_not_resumed(here: Path) -> None:
    with scratch_folder(here / "alive", "the run directory") as alive:
        (alive.path / "checkpoints").mkdir()
        for place in (alive.path, here / "alive"):
            (alive.path / "run.json").write_text("{}")
            with pytest.raises(RunError, match="is still going on") as caught:
                latest_checkpoint(place)
            assert caught.value.code == "E0909"


def test_records_that_are_damaged(here: Path) -> None:
    path = rich(here, "every: 5 ms")
    left = left_behind(path, 9, here, "cpu")
    whole = (left / "rates.h5").read_bytes()
    for name, data in (("nothing", b""), ("start", b"x" * 100 + whole[100:]), ("half", whole[: len(whole) // 2])):
        (left / "rates.h5").write_bytes(data)
        with pytest.raises(RunError, match=r"rates\.h5` cannot be gone on with") as caught:
            run(path, resume=left, out=here / name)
        assert caught.value.code == "E0909"
        assert json.loads((here / name / "run.json").read_text())["status"] == "failed"
    (left / "rates.h5").write_bytes(whole)
    same_end(here / "whole-life", run(path, resume=left, out=here / "second").folder)


def test_records_that_end_before_the_checkpoint(here: Path) -> None:
    """As where the folder of a run that goes on is copied: each file is older than the newest checkpoint."""
    path = rich(here, "every: 5 ms")
    old, new = (left_behind(path, at, here, "cpu") for at in (5, 12))
    for name in ("spikes.h5", "rates.h5"):
        whole = (new / name).read_bytes()
        shutil.copy(old / name, new / name)
        with pytest.raises(RunError, match=rf"{name}` (ends before|cannot be gone on with)") as caught:
            run(path, resume=new, out=here / name)
        assert (caught.value.code, caught.value.exit_code) == ("E0909", 2)
        (new / name).write_bytes(whole)
    same_end(here / "whole-life", run(path, resume=new, out=here / "second").folder)


def test_records_with_damaged_blocks(here: Path) -> None:
    """Wherever a write was torn, a file is refused, or its rows are found."""
    path = rich(here, "every: 5 ms")
    left = left_behind(path, 9, here, "cpu")
    model, whole, refused = load_model(path, {}), (left / "rates.h5").read_bytes(), 0
    for name in ("spikes.h5", "traces.h5", "synapses.h5"):
        (left / name).unlink()
    for start in range(0, len(whole), 256):
        (left / "rates.h5").write_bytes(whole[:start] + bytes(256) + whole[start + 256 :])
        (here / "copy").mkdir(exist_ok=True)
        try:
            copy_up_to(left, here / "copy", model, read_position(latest_checkpoint(left).path).step)
        except RunError as error:
            refused += error.code == "E0909"
    assert refused > 5


def test_an_interrupted_run_is_not_the_end(here: Path) -> None:
    """What a signal to the tests leaves is told apart from other records, and can be resumed."""
    path = rich(here)
    unbroken = run(path, out=here / "unbroken")

    class Signalled(LineProgress):
        def update(self, done: float, text: str) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        ended = run_model(path, Options(out=here / "ended", build_dir=here / "build"), Signalled())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.status == "interrupted"
    with pytest.raises(AssertionError, match="signal 15"):
        same_end(unbroken.folder, ended.folder)
    same_end(unbroken.folder, run(path, resume=ended.folder, out=here / "on").folder)


def test_the_mark_of_a_writer(tmp_path: Path) -> None:
    """A known checksum; a file without the mark counts as foreign."""
    assert lookup3(b"Four score and seven years ago") == 0x17770551
    assert lookup3(b"") == 0xDEADBEEF
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        data = file.create_dataset("x", (0,), "i8", maxshape=(None,), chunks=(8,))
        file.swmr_mode = True
        data.resize((20,))
        data[:] = np.arange(20)
        file.flush()
        shutil.copyfile(path, tmp_path / "killed.h5")
    with pytest.raises(OSError, match="already open"):
        h5py.File(tmp_path / "killed.h5")
    unmark(tmp_path / "killed.h5")
    for mode in ("r", "a"):
        with h5py.File(tmp_path / "killed.h5", mode) as file:
            assert np.array_equal(file["x"][:], np.arange(20))
    with pytest.raises(ValueError, match="damaged"):
        (tmp_path / "no.h5").write_bytes(b"x" * 100)
        unmark(tmp_path / "no.h5")


def test_old_checkpoints_are_removed(here: Path) -> None:
    path = rich(here, "every: 5 ms, keep: 3")
    names = sorted(p.name for p in (run(path).folder / "checkpoints").iterdir())
    assert names == ["step-0000000120.safetensors", "step-0000000130.safetensors", "step-0000000140.safetensors"]
    path = rich(here, "every_wall: 1 ms")
    assert len(list((run(path).folder / "checkpoints").iterdir())) == 2


def test_rates_of_a_run_that_goes_on_twice(here: Path) -> None:
    """From a checkpoint alone, records begin there; a run that goes on with these knows that."""
    path = rich(here)
    unbroken = run(path, out=here / "unbroken")
    first = run(path, out=here / "first", duration="20 ms")
    (saved,) = (first.folder / "checkpoints").iterdir()
    (here / "alone.safetensors").write_bytes(saved.read_bytes())
    second = run(path, out=here / "second", duration="40 ms", resume=here / "alone.safetensors")
    third = run(path, out=here / "third", resume=second.folder)
    # Killed before its first own checkpoint, and resumed from the folder that is left.
    left = left_behind(path, 1, here, "cpu", resume=here / "alone.safetensors")
    fourth = run(path, out=here / "fourth", resume=left)
    assert (fourth.counts, fourth.rates) == (third.counts, third.rates)
    times, _ = unbroken.spikes("a")
    assert third.counts["a"] == np.sum(times > 20.25) > 0
    assert third.rates["a"] == pytest.approx(third.counts["a"] / (3 * 0.04))


# ------------------------------------------------------------------------- killed after the last step

END = ((RunFolder, "finish"), (Scratch, "rename"))


def killed_at_the_end(path: Path, folder: Path, patch: pytest.MonkeyPatch, kind: type, name: str) -> tuple[Path, Path]:
    """The folders of a whole run, and of one that was killed where the method `name` of `kind` is called."""
    really = getattr(kind, name)

    def watched(self: RunFolder | Scratch, *given: object) -> object:
        if self.path.parent == folder:
            shutil.copytree(self.path, folder / ".killed.0")
        return really(self, *given)

    with patch.context() as within:
        within.setattr(kind, name, watched)
        return run(path, out=folder / "unbroken").folder, folder / ".killed.0"


@pytest.mark.parametrize("stop", ["", ", stop: {when: mean(a.v) > -1000 mV, every: 7 ms, times: 3}"])
def test_killed_after_the_last_step(here: Path, monkeypatch: pytest.MonkeyPatch, stop: str) -> None:
    """What comes after it is done by the run that goes on; nothing is left to do for one that was not killed."""
    path = rich(here, "every: 5 ms", "30 ms")
    path.write_text(path.read_text().replace("seed: 2", f"seed: 2{stop}"))
    unbroken, left = killed_at_the_end(path, here, monkeypatch, *END[not stop])
    again = run(path, resume=left, out=here / "on")
    same_end(unbroken, again.folder)
    assert again.record["recorded_steps"] == [0, 42 if stop else 60]
    if not stop:
        with pytest.raises(RunError, match="where the simulation ends"):
            run(path, resume=again.folder)


@pytest.mark.parametrize("stop", ["", "  stop: {metric: loss, patience: 1, margin: 9}\n"])
def test_a_training_killed_after_its_last_epoch(
    digits: Path, here: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    text = digits.read_text().replace("epochs: 6", "epochs: 3" if stop else "epochs: 2")
    digits.write_text(text.replace("train:\n", f"train:\n{stop}"))
    unbroken, left = killed_at_the_end(digits, here, monkeypatch, *END[not stop])
    (left / "weights.safetensors").unlink()
    again = run(digits, resume=left, out=here / "on")
    for name in ("weights.safetensors", "best.safetensors"):
        assert (unbroken / name).read_bytes() == (again.folder / name).read_bytes()
    with pytest.raises(RunError, match="where `stop` ended the training" if stop else "where the training ends"):
        run(digits, resume=again.folder)


# ---------------------------------------------------------------------------------------- training


@pytest.fixture
def digits(here: Path, root: Path) -> Path:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    text = DIGITS.replace("checkpoint: {every: 3}", "checkpoint: {every: 1, best: validation_loss}")
    return write(here, text.replace("epochs: 4", "epochs: 6"))


def test_killed_trainings(digits: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed from every moment, also with a truncated last line of the metrics; twice in a row."""
    unbroken = run(digits, out=here / "unbroken")
    for at in (6, 11):
        with monkeypatch.context() as patch:
            left = left_behind(digits, at, here, "cpu", lambda s, patch=patch: watch_syncs(s, patch))
        with (left / "metrics.jsonl").open("a") as file:
            file.write('{"epoch": 7, "lo')
        again = left_behind(digits, 1, here, "cpu", resume=left)
        assert resumable(again)  # before its first own checkpoint
        second = run(digits, resume=again)
        same_training(unbroken, second)
        ours, theirs = ((r.folder / "best.safetensors").read_bytes() for r in (unbroken, second))
        assert ours == theirs
        assert latest_checkpoint(left / "checkpoints") == latest_checkpoint(left)
        first = read_position(latest_checkpoint(left).path).epoch
        assert latest_checkpoint(left / "checkpoints") == latest_checkpoint(left)
        kept = sorted(p.name for p in (second.folder / "checkpoints").iterdir())
        assert kept == [f"epoch-{k:06d}.safetensors" for k in range(first + 1, 7)]


def test_a_training_is_really_killed(digits: Path, here: Path) -> None:
    digits.write_text(digits.read_text().replace("epochs: 6", "epochs: 400"))
    left = Process(digits, here / "part").kill_after(0.1, 2)
    assert left is not None
    position = read_position(latest_checkpoint(left).path)
    assert 1 < position.epoch < 400
    epochs = position.epoch + 2
    same_training(run(digits, epochs=epochs), run(digits, epochs=epochs, resume=here / "part"))
