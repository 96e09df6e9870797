"""Phases: counters and event handlers, against explicit simulations in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])


def text(cell: str, phases: str, variables: str, extra: str = "", steps: int = 50, size: int = 3) -> str:
    return f"""\
language: 1
name: phases
neurons:
  cell:
{cell}
phases: {phases}
populations:
  a: {{neuron: cell, size: {size}}}
{extra}
simulate: {{dt: 0.5 ms, duration: {steps / 2} ms, seed: 2}}
record: [{{trace: {{from: a, variables: [{variables}], members: all}}}}]
"""


@both
def test_counters(tmp_path: Path, target: str) -> None:
    """Step k belongs to trial (k - 1) // every, in equations as in updates."""
    cell = """\
    state: {c: 0, s: 0, w: 0, v: 0}
    dynamics: {dv/dt: (trial.count * 100 + trial.step - v) / (1 ms)}
    update: [c = trial.count, s = trial.step, w = wide.step + 100 * wide.count]
    method: euler
"""
    result = simulate(text(cell, "{trial: {every: 6 ms}, wide: {every: 0.5 ms * 17}}", "c, s, w, v"), tmp_path, target)
    v = 0.0
    for k in range(1, 51):
        assert result.trace("a", "c")[k - 1] == (k - 1) // 12
        assert result.trace("a", "s")[k - 1] == (k - 1) % 12 + 1
        assert result.trace("a", "w")[k - 1] == (k - 1) % 17 + 1 + 100 * ((k - 1) // 17)
        v += 0.5 * ((k - 1) // 12 * 100 + (k - 1) % 12 + 1 - v)
        assert result.trace("a", "v")[k - 1] == pytest.approx(v, rel=1e-5)


EVENTS = """\
    state: {x: 0, at_start: -1, at_minus: -1, at_end: -1, later: -1}
    update: [x = x + 1]
    spike: {when: x >= 7, reset: [x = 0]}
    on:
      trial.start: [old = x, x = 100 * trial.step, at_start = old]
      trial.minus: [at_minus = x, x = x - trial.step]
      trial.end: [at_end = t / 1 ms]
      other.start: [later = x]
"""


@both
def test_events(tmp_path: Path, target: str) -> None:
    """Events at the start run before the first step's updates, others at the end of their step, after resets."""
    trial = "{every: 5 ms, events: {start: 0 ms, minus: 2 ms, end: 5 ms}}"
    phases = f"{{trial: {trial}, other: {{every: 4 ms, events: {{start: 0 ms}}}}}}"
    result = simulate(text(EVENTS, phases, "x, at_start, at_minus, at_end, later"), tmp_path, target)
    x, seen = 0.0, {"at_start": -1.0, "at_minus": -1.0, "at_end": -1.0, "later": -1.0}
    for k in range(1, 51):
        if k % 10 == 1:
            seen["at_start"], x = x, 100.0
        if k % 8 == 1:
            seen["later"] = x
        x += 1
        if x >= 7:
            x = 0.0
        if k % 10 == 4:
            seen["at_minus"] = x
            x -= 4
        if k % 10 == 0:
            seen["at_end"] = k / 2
        assert result.trace("a", "x")[k - 1] == x
        for name, value in seen.items():
            assert result.trace("a", name)[k - 1] == value, (k, name)


def test_every_step_can_be_a_trial(tmp_path: Path) -> None:
    cell = "    state: {x: 0}\n    on: {trial.start: [x = x + 1], trial.end: [x = x + 10]}\n"
    phases = "{trial: {every: 0.5 ms, events: {start: 0 ms, end: 0.5 ms}}}"
    result = simulate(text(cell, phases, "x"), tmp_path)
    assert result.trace("a", "x").tolist() == [11.0 * k for k in range(1, 51)]


@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_inputs_at_events(tmp_path: Path, order: str) -> None:
    """An event at the start sees what was delivered in the step before, however deliveries are added up."""
    cell = """\
    state: {seen: 0, now: 0}
    inputs: {g: {}, h: {decay: 5 ms}}
    update: [now = g]
    on:
      trial.start: [seen = g + h, g = 0, h = 0]
      trial.minus: [h = h + 1]
"""
    extra = """\
  src:
    neuron: library/neurons/spike_times
    size: 1
    params: {times: [2.5 ms, 3 ms, 5 ms, 10 ms], indices: [0, 0, 0, 0]}
projections:
  p: {from: src, to: a, connect: {all_to_all: {}}, deliver: {into: g, weight: 2}}
  q: {from: src, to: a, connect: {all_to_all: {}}, deliver: {into: h, weight: 3}}
"""
    phases = "{trial: {every: 5 ms, events: {start: 0 ms, minus: 2 ms}}}"
    model = text(cell, phases, "seen, now, g, h", extra) + f"numerics: {{precision: float64, order: {order}}}\n"
    result = simulate(model, tmp_path)
    g = h = seen = 0.0
    spikes = {5, 6, 10, 20}
    for k in range(1, 51):
        if k % 10 == 1:
            seen, g, h = g + h, 0.0, 0.0
        h *= np.exp(-0.1)
        now, g = g, 0.0
        if k % 10 == 4:
            h += 1
        if k in spikes:
            g, h = g + 2, h + 3
        for name, value in (("seen", seen), ("now", now), ("g", g), ("h", h)):
            assert result.trace("a", name)[k - 1] == pytest.approx(value, abs=1e-9), (k, name)


@both
def test_pools_at_events(tmp_path: Path, target: str) -> None:
    """Pools have events of their own, and events of neurons read them: normalising over a population."""
    cell = """\
    state: {x: 1, g: 0}
    pool:
      reduce: {total: sum(x)}
      state: {age: 0}
      update: [age = age + 1]
      on: {trial.start: [age = 0]}
    update: [x = x * (1.1 + 0.1 * sin(t / 1 ms)), g = pool.age]
    on: {trial.end: [x = x / pool.total]}
"""
    phases = "{trial: {every: 5 ms, events: {start: 0 ms, end: 5 ms}}}"
    result = simulate(text(cell, phases, "x, g"), tmp_path, target)
    for k in range(1, 51):
        assert result.trace("a", "g")[k - 1] == (k - 1) % 10 + 1
        if k % 10 == 0:
            assert result.traces["a", "x"][k - 1].sum() == pytest.approx(1, rel=1e-5)


RANDOM = """\
    state: {x: 0, y: 0}
    inputs: {g: {decay: 3 ms}}
    update: [x = x + 0.2 * random() + g]
    spike: {when: x > 1, reset: [x = x - 1]}
    on: {trial.start: [x = random(), y = random()], trial.mid: [y = y + random() * trial.count, g = 0]}
"""
LOOP = """\
projections:
  p: {from: a, to: a, connect: {fixed_probability: {p: 0.2}}, deliver: {into: g, weight: 0.1}}
"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bits_agree(tmp_path: Path, precision: str) -> None:
    phases = "{trial: {every: 5 ms, events: {start: 0 ms, mid: 2 ms}}}"
    numerics = f"numerics: {{precision: {precision}, order: bitwise}}\n"
    model = text(RANDOM, phases, "x, y, g", LOOP, size=50) + numerics
    runs = []
    for target in ("cpu", "reference"):
        (tmp_path / target).mkdir()
        runs.append(simulate(model, tmp_path / target, target))
    for key, values in runs[0].traces.items():
        assert np.array_equal(values, runs[1].traces[key]), key
        assert np.ptp(values) > 0


CURRENT = """\
language: 1
name: currents
phases: {trial: {every: 5 ms, events: {start: 0 ms, mid: 2 ms, end: 5 ms}}}
currents:
  ramp:
    params: {a: 1}
    state: {x: 0, y: 0, n: 0}
    update: [x = x + a, y = y + 1]
    value: x + 100 * y + 10000 * n + 0.5 * trial.step
    on:
      trial.start: [x = 0.25 * x]
      trial.mid: [n = n + trial.step]
      trial.end: [z = y / 2, y = z + t / (1 ms), n = n + trial.count]
neurons: {cell: {params: {I: 0, J: 0}, state: {v: 0, w: 0}, update: [v = I, w = J]}}
populations:
  p: {neuron: cell, size: 2, params: {J: 10 * trial.count + trial.step + self.i}}
  q: {neuron: cell, size: 1}
inputs:
  c: {to: p, current: {into: I, source: ramp}}
  d: {to: q, current: {into: I, source: ramp, params: {a: 2}}}
simulate: {dt: 1 ms, duration: 16 ms, warmup: 3 ms}
numerics: {precision: float64}
record:
  - trace: {from: p, variables: [v, w], members: all, every: 1 ms}
  - trace: {from: q, variables: [v], members: all, every: 1 ms}
"""


@both
def test_currents_change_at_events(tmp_path: Path, target: str) -> None:
    """A current's statements at events, and parameters that read counters of phases; the warm-up has 3 steps."""
    run = simulate(CURRENT, tmp_path, target)
    for population, a in (("p", 1.0), ("q", 2.0)):
        x = y = n = 0.0
        expected = []
        for k in range(-2, 17):
            trial, step = (k - 1) // 5, (k - 1) % 5 + 1
            if step == 1:
                x = 0.25 * x
            expected.append(x + 100 * y + 10000 * n + 0.5 * step)
            x, y = x + a, y + 1
            if step == 2:
                n += step
            if step == 5:
                y, n = y / 2 + k, n + trial
        np.testing.assert_allclose(run.trace(population, "v"), expected, rtol=1e-15)
    for i in range(2):
        counted = [10 * (k // 5) + k % 5 + 1 + i for k in range(-3, 16)]
        np.testing.assert_allclose(run.trace("p", "w", i), counted, rtol=1e-15)


@pytest.mark.nvrtc
def test_lengths_are_data(tmp_path: Path) -> None:
    """Other lengths of trials and times of events: the same text, for the CPU and for CUDA, which compiles."""
    texts, programs = [], []
    for length, mid in ((5, 2), (7, 3)):
        phases = f"{{trial: {{every: {length} ms, events: {{start: 0 ms, mid: {mid} ms}}}}}}"
        model = model_of(text(RANDOM, phases, "x, y", LOOP), tmp_path)
        cpu, cuda = backend("cpu"), CudaBackend()
        programs.append(lower(model, cuda.capabilities, True).merged)
        texts.append((cpu.emit(lower(model, cpu.capabilities, True).merged), emit_cuda(programs[-1]).text))
    assert texts[0] == texts[1]
    compile_text(emit_cuda(programs[0]), "phases", False, "sm_90")
