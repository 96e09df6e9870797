"""Spiking runs end to end: files, recording, warm-up, resuming, signals, failures."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from backends.processor import processor
from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.results import RunResult
from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import Progress
from compiler.runtime.execute import run_model
from compiler.runtime.record.growing import SORTING
from netloom import load, run
from tests.cpu.models_for_runs import NOISY, without, write

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")


def datasets(path: Path) -> dict[str, np.ndarray]:
    """Every dataset of an HDF5 file, by path."""
    found: dict[str, np.ndarray] = {}

    def visit(key: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[key] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def same_records(a: RunResult, b: RunResult) -> None:
    """All datasets of both runs' records are equal, bit for bit."""
    for name in ("spikes.h5", "traces.h5"):
        left, right = datasets(a.folder / name), datasets(b.folder / name)
        assert left
        assert left.keys() == right.keys()
        for key in left:
            assert np.array_equal(left[key], right[key]), key


def final_state(result: RunResult) -> dict[str, np.ndarray]:
    (path,) = (result.folder / "checkpoints").iterdir()
    return load_file(path)


def test_the_run_directory(here: Path) -> None:
    result = run(write(here, NOISY))
    assert result.status == "ok"
    assert result.folder.parent == Path("runs")
    assert sorted(p.name for p in Path("runs").iterdir()) == [result.folder.name]
    record = json.loads((result.folder / "run.json").read_text())
    assert record["device"] == processor().name
    assert record["status"] == "ok"
    assert record["seed"] == 5
    assert record["times"]["simulation_cpu_seconds"] > 0
    assert record["times"]["simulated_ms"] == 60
    assert {"load", "lower", "emit", "compile", "init", "run"} <= set(record["times"])
    assert [c["met"] for c in record["expectations"]] == [True, True]
    times, ids = result.spikes("a")
    assert record["summary"]["spikes"]["a"] == len(times) == result.counts["a"] > 50
    assert result.rates["a"] == pytest.approx(len(times) / (60 * 0.06))
    assert times.min() > 0
    assert times.max() <= 60
    assert np.allclose(times * 10, np.round(times * 10))
    assert np.all(np.lexsort((ids, times)) == np.arange(len(times)))
    assert ids.max() < 60
    assert (result.folder / "model.yaml").exists()
    again = run(result.folder / "model.yaml", out=here / "again")
    same_records(result, again)
    assert again.record["model"]["hash"] == record["model"]["hash"]


def test_layout_of_spikes_and_traces(here: Path) -> None:
    result = run(write(here, NOISY))
    with h5py.File(result.folder / "spikes.h5") as file:
        assert set(file["spikes"]) == {"a", "b"}
        assert file["spikes/a"].attrs["sorting"] == SORTING["by_time"]
        assert file["spikes/a/timestamps"].attrs["units"] == "ms"
        assert file["spikes/a/timestamps"].dtype == np.float64
        assert file["spikes/a/node_ids"].dtype == np.uint64
    with h5py.File(result.folder / "traces.h5") as file:
        assert set(file) == {"a", "b"}
        assert file["a/v"].shape == (120, 2)
        assert file["a/v"].attrs["unit"] == "mV"
        assert list(file["a/members"]) == [0, 3]
        assert np.allclose(file["a/time"], np.arange(1, 121) * 0.5)
        assert set(file["b"]) == {"members", "time", "v"}
        assert file["b/v"].shape == (30, 5)
        assert np.allclose(file["b/time"], np.arange(1, 31) * 2.0)
    time, values = result.traces("a", "s")
    assert values.shape == (len(time), 2)


def test_the_warm_up_is_run_but_not_recorded(here: Path) -> None:
    path = write(here, NOISY)
    whole = run(path, out=here / "whole")
    text = NOISY.replace("duration: 60 ms", "duration: 40 ms, warmup: 20 ms")
    late = run(write(here, text, "late.yaml"), out=here / "late")
    for population in ("a", "b"):
        times, ids = whole.spikes(population)
        after = times > 20.05
        late_times, late_ids = late.spikes(population)
        assert np.allclose(times[after] - 20, late_times)
        assert np.array_equal(ids[after], late_ids)
    times, values = whole.traces("a", "v")
    late_times, late_values = late.traces("a", "v")
    assert np.allclose(late_times, times[times > 20.05] - 20)
    assert np.array_equal(late_values, values[times > 20.05])


def test_resuming_gives_the_bits_of_an_unbroken_run(here: Path) -> None:
    path = write(here, NOISY)
    unbroken = run(path, out=here / "unbroken")
    first = run(path, out=here / "first", duration="23.4 ms")
    second = run(path, out=here / "second", resume=first.folder)
    same_records(unbroken, second)
    a, b = final_state(unbroken), final_state(second)
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[k], b[k]) for k in a)
    assert second.rates == unbroken.rates
    assert run(path, out=here / "first2", duration="23.4 ms").counts == first.counts  # untouched by it
    with pytest.raises(RunError, match="where the simulation ends"):
        run(path, resume=second.folder)
    with pytest.raises(RunError, match="seed 5"):
        run(path, resume=first.folder, seed=6)
    with pytest.raises(RunError, match="another model"):
        run(path, set={"n": 61}, resume=first.folder)
    with pytest.raises(RunError, match="no run directory"):
        run(path, resume=here / "nothing")


def test_resuming_from_the_file_alone(here: Path) -> None:
    """A checkpoint outside its run folder: earlier records remain there."""
    path = write(here, NOISY)
    unbroken = run(path, out=here / "unbroken")
    first = run(path, out=here / "first", duration="30 ms")
    (saved,) = (first.folder / "checkpoints").iterdir()
    moved = here / "elsewhere.safetensors"
    saved.rename(moved)
    second = run(path, out=here / "second", resume=moved)
    times, ids = unbroken.spikes("a")
    late_times, late_ids = second.spikes("a")
    assert np.array_equal(times[times > 30.05], late_times)
    assert np.array_equal(ids[times > 30.05], late_ids)
    assert second.rates["a"] == pytest.approx(len(late_times) / (60 * 0.03))
    sampled, _ = second.traces("a", "v")
    assert sampled[0] == pytest.approx(30.5)


@dataclass
class Signalling(Progress):
    """A progress object that sends this process a signal at its `at`-th update."""

    at: int
    number: int = signal.SIGINT
    seen: list[float] = field(default_factory=list)

    def update(self, done: float, text: str) -> None:
        self.seen.append(done)
        if len(self.seen) == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_between_two_steps(here: Path, number: int) -> None:
    path = write(here, NOISY)
    before = signal.getsignal(number)
    stopped = run_model(path, Options(out=here / "stopped"), Signalling(3, number))
    assert signal.getsignal(number) == before
    assert stopped.status == "interrupted"
    assert stopped.signal == number
    assert json.loads((stopped.folder / "run.json").read_text())["status"] == "interrupted"
    ended = stopped.record["times"]["simulated_ms"]
    assert 0 < ended < 60
    times, _ = stopped.spikes("a")
    assert len(times) == stopped.counts["a"]
    second = run(path, out=here / "second", resume=stopped.folder)
    same_records(run(path, out=here / "unbroken"), second)


def test_full_buffers_are_drained(here: Path) -> None:
    """Every neuron fires in every step: far more events than a buffer holds."""
    text = """\
language: 1
name: busy
neurons:
  clock: {state: {x: 0}, update: [x = x + 1], spike: {when: x > 0.5, reset: [x = 0]}}
populations: {p: {neuron: clock, size: 10}}
simulate: {dt: 1 ms, duration: 3 s, seed: 0}
record:
  - spikes: {from: p}
  - trace: {from: p, variables: [x], members: all}
"""
    result = run(write(here, text))
    times, ids = result.spikes("p")
    assert result.counts["p"] == len(times) == 30000
    assert np.array_equal(ids, np.tile(np.arange(10), 3000))
    assert np.array_equal(times, np.repeat(np.arange(1, 3001), 10))
    time, values = result.traces("p", "x")
    assert values.shape == (3000, 10)
    assert time[-1] == 3000


def test_a_buffer_that_is_full_at_the_end_of_a_block(here: Path) -> None:
    """Blocks end after 8, 24, 56, ... steps; 56 samples of 4,650 members fill a buffer of 1 MiB exactly."""
    text = """\
language: 1
name: full
neurons:
  cell: {state: {v: 0}, update: [v = v + 0.25], spike: {when: v > 1, reset: [v = 0]}}
populations: {a: {neuron: cell, size: 4650}}
simulate: {dt: 1 ms, duration: 150 ms}
record: [{trace: {from: a, variables: [v], members: all, every: 1 ms}}]
"""
    time, values = run(write(here, text)).traces("a", "v")
    assert values.shape == (150, 4650) and time[-1] == 150


def test_a_state_that_is_not_finite_is_found_soon(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """x overflows around step 40; the run of 50 million steps ends within 1,000 more, before the next full check."""
    monkeypatch.setattr("compiler.runtime.health.SHARE", 1e12)
    text = """\
language: 1
name: soon
neurons: {bad: {state: {x: 1}, update: [x = 1e8 * x]}}
populations: {p: {neuron: bad, size: 4}}
simulate: {dt: 0.1 ms, duration: 5000 s, warmup: 1 s, seed: 0}
numerics: {precision: float64}
"""
    with pytest.raises(RunError, match=r"`p\.x\[0\]` is inf by step (\d+) ") as caught:
        run(write(here, text))
    found = re.search(r"by step (\d+) ", caught.value.message)
    assert found is not None
    assert int(found[1]) <= 1040


def test_a_state_that_is_not_finite_fails_the_run(here: Path) -> None:
    text = """\
language: 1
name: bursting
neurons:
  bad:
    params: {tau: 1 ms, a: 1}
    state: {x: 1, y: 0}
    dynamics: {dx/dt: a * x * x / tau, dy/dt: -y / tau}
    method: euler
populations:
  good: {neuron: bad, size: 3, params: {a: 0}}
  p: {neuron: bad, size: 4, init: {x: {uniform: {low: 0.5, high: 1}}}}
simulate: {dt: 0.1 ms, duration: 100 ms, seed: 0}
record: [{trace: {from: p, variables: [x], members: all}}]
"""
    path = write(here, text)
    with pytest.raises(RunError, match=r"`p\.x\[\d\]` is (nan|inf) by step \d+") as caught:
        run(path, out=here / "failed")
    assert caught.value.code == "E0908"
    assert caught.value.exit_code == 5
    assert caught.value.span is not None
    assert caught.value.span.line == 11  # p
    record = json.loads((here / "failed" / "run.json").read_text())
    assert record["status"] == "failed"
    assert "p.x[" in record["message"]
    with h5py.File(here / "failed" / "traces.h5") as file:
        assert len(file["p/x"]) > 5


def test_a_count_of_impossible_arguments_is_named_where_a_state_is_not_finite(here: Path) -> None:
    text = """\
language: 1
name: counted
neurons:
  cell:
    params: {p: 0.5}
    state: {n: 8, x: 0}
    let: {left: n - 2}
    update: [n = n - 1, "x = binomial(left, p)"]
populations:
  p: {neuron: cell, size: 3}
simulate: {dt: 0.1 ms, duration: 2 ms, seed: 0}
"""
    path = write(here, text)
    with pytest.raises(RunError, match=r"`p\.x\[0\]` is nan by step") as caught:
        run(path, out=here / "failed")
    why = "`n` has to be a whole number from 0 to 2**52, which `left` is not in `p`"
    assert caught.value.help == f"`binomial(left, p)` in line 8 of {path}: {why}"


def test_a_division_by_zero_is_named_where_a_state_is_not_finite(here: Path) -> None:
    text = """\
language: 1
name: divided
neurons:
  cell:
    params: {tau: 1 ms}
    state: {v: 1, u: 2}
    let: {half: u / 2}
    dynamics: {dv/dt: -v / tau}
    update: [v = v if t < 1 ms else v / half, u = u if t < 0.5 ms else 0]
populations:
  p: {neuron: cell, size: 3}
simulate: {dt: 0.1 ms, duration: 2 ms, seed: 0}
numerics: {precision: float64}
"""
    path = write(here, text)
    with pytest.raises(RunError, match=r"`p\.v\[0\]` is inf by step") as caught:
        run(path, out=here / "failed", target="reference")
    assert caught.value.help == f"`v / half` in line 9 of {path} divides by `u / 2`, which is 0 in `p`"


def test_the_reference_gives_the_same_spikes(here: Path) -> None:
    text = without(NOISY, "expect") + "numerics: {precision: float64, order: bitwise}\n"
    path = write(here, text)
    same_records(
        run(path, out=here / "cpu", duration="15 ms"), run(path, "reference", out=here / "reference", duration="15 ms")
    )


def test_options_replace_what_the_model_says(here: Path) -> None:
    path = write(here, NOISY)
    result = run(path, set={"n": 30, "weight": "1 mV"}, seed=9, duration="10 ms", precision="float64", verify=True)
    assert result.record["params"] == {"n": 30, "weight": 1.0}
    assert result.record["seed"] == 9
    assert result.record["numerics"]["precision"] == "float64"
    assert result.record["times"]["simulated_ms"] == 10
    assert result.traces("a", "v")[1].dtype == np.float64
    with pytest.raises(RunError, match="whole number of steps"):
        run(path, duration="0.25 ms")
    with pytest.raises(RunError, match="is a time such as"):
        run(path, duration="10")
    with pytest.raises(RunError, match="epochs"):
        run(path, epochs=3)
    with pytest.raises(RunError, match="not empty"):
        run(path, out=result.folder)


def test_names_of_runs_do_not_collide(here: Path) -> None:
    path = write(here, NOISY)
    folders = {run(path, duration="1 ms").folder for _ in range(3)}
    assert len(folders) == 3
    assert {p.name for p in Path("runs").iterdir()} == {f.name for f in folders}


def test_a_drawn_time_constant_has_one_sign(here: Path) -> None:
    text = """language: 1
neurons:
  leaky:
    params: {tau: 20 ms}
    state: {v: 0}
    dynamics: {dv/dt: -v / (2 * tau)}
populations:
  good: {neuron: leaky, size: 100, params: {tau: {normal: {mean: 20 ms, std: 10 ms, min: 1 ms}}}}
  p: {neuron: leaky, size: 100, params: {tau: {normal: {mean: 20 ms, std: 10 ms}}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
record: [{trace: {from: all, variables: [v]}}]
"""
    path = write(here, text)
    with pytest.raises(RunError, match=r"\d of the 100 values of `tau` of `p` are not positive") as caught:
        run(path, out=here / "failed")
    assert caught.value.code == "E0951"
    assert caught.value.span is not None
    assert caught.value.span.line == 9
    with pytest.raises(RunError, match="`tau` of `p`"):
        load(path).simulation()
    path.write_text(text.replace("{normal: {mean: 20 ms, std: 10 ms}}", "20 ms"), encoding="utf-8")
    run(path, out=here / "good")
