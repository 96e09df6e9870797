"""Updates of synapses at events of phases, against a simulation of every synapse in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: trials
neurons:
  source:
    state: {v: 0.3, act: {uniform: {low: 0, high: 1}}}
    update: [v = v + 0.15]
    spike: {when: v >= 1, reset: [v = 0]}
  target:
    state: {act: 0, got: 0, sent: 0}
    inputs: {g: {}, s: {}}
    update: [act = 0.5 * act + g, got = got + s]
synapses:
  learning:
    params: {rate: 0.1}
    state: {w: 0.5, change: 0, count: 0}
    on_pre:
      - deliver(w, post.g)
      - count = count + 1
    on:
      trial.start: [count = 0]
      trial.minus: [change = change - rate * pre.act * post.act]
      trial.plus:
        - change = change + rate * pre.act * post.act
        - w = w + change
        - change = 0
        - deliver(w, post.s)
phases: {trial: {every: 10 ms, events: {start: 0 ms, minus: 7 ms, plus: 10 ms}}}
populations:
  a: {neuron: source, size: 4}
  b: {neuron: target, size: 3}
projections:
  p: {from: a, to: b, connect: {all_to_all: {}}, synapse: learning}
simulate: {dt: 1 ms, duration: 44 ms, seed: 3}
record: [{trace: {from: b, variables: [act, got], members: all}}]
numerics: {precision: float64, order: ORDER}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_weights_change_at_the_end_of_trials(tmp_path: Path, target: str, order: str) -> None:
    """Contrastive learning: minus what the activities were at the end of the minus phase, plus what they are at the
    end of the trial; as in Leabra and Axon, weights change between trials only."""
    result = simulate(TEXT.replace("ORDER", order), tmp_path, target)
    pre_act = result.instance.read("a.act")
    v, act, got = np.full(4, 0.3), np.zeros(3), np.zeros(3)
    w, change, count = np.full((4, 3), 0.5), np.zeros((4, 3)), np.zeros((4, 3))
    g, s = np.zeros(3), np.zeros(3)
    for k in range(1, 45):
        v = v + 0.15
        spiked = v >= 1
        v = np.where(spiked, 0, v)
        act, got = 0.5 * act + g, got + s
        if k % 10 == 1:
            count[:] = 0
        g = (w * spiked[:, None]).sum(0)
        count += spiked[:, None]
        product = 0.1 * pre_act[:, None] * act[None, :]
        s = np.zeros(3)
        if k % 10 == 7:
            change -= product
        if k % 10 == 0:
            change += product
            w, change = w + change, np.zeros((4, 3))
            s = w.sum(0)
        assert np.allclose(result.traces["b", "act"][k - 1], act, rtol=1e-9)
        # counts of the fixed-point accumulator are worth 2^-26 here: what is delivered has no bound
        assert np.allclose(result.traces["b", "got"][k - 1], got, rtol=1e-9, atol=5e-7 if order == "bitwise" else 0)
    assert np.allclose(result.instance.read("p[a->b].w").reshape(4, 3), w, rtol=1e-9)
    assert np.array_equal(result.instance.read("p[a->b].count").reshape(4, 3), count)
    assert np.ptp(w) > 0.01


def test_bits_agree(tmp_path: Path) -> None:
    runs = []
    for target in ("cpu", "reference"):
        (tmp_path / target).mkdir()
        runs.append(simulate(TEXT.replace("ORDER", "bitwise"), tmp_path / target, target))
    assert np.array_equal(runs[0].instance.read("p[a->b].w"), runs[1].instance.read("p[a->b].w"))
    assert np.array_equal(runs[0].traces["b", "got"], runs[1].traces["b", "got"])


def test_frozen(tmp_path: Path) -> None:
    """Deliveries at events go on, with the weight as it stands."""
    result = simulate(TEXT.replace("ORDER", "bitwise").replace("seed: 3", "seed: 3, freeze: learning"), tmp_path)
    assert np.all(result.instance.read("p[a->b].w") == 0.5)
    assert np.allclose(result.traces["b", "got"][-1], 4 * 4 * 0.5)


@pytest.mark.nvrtc
def test_cuda_text_compiles(tmp_path: Path) -> None:
    for order in ("fast", "bitwise"):
        merged = lower(model_of(TEXT.replace("ORDER", order), tmp_path), CudaBackend().capabilities, True).merged
        compile_text(emit_cuda(merged), "trials", order == "bitwise", "sm_90")


TRACES = """\
language: 1
name: traces
phases: {trial: {every: 6 ms, events: {start: 0 ms, mid: 3 ms, end: 6 ms}}}
neurons:
  source: {params: {period: 2}, state: {k: 0}, update: [k = k + 1], spike: {when: k >= period, reset: [k = 0]}}
  target: {state: {k: 0}, update: [k = k + 1], spike: {when: k >= 5, reset: [k = 0]}}
synapses:
  counting:
    state: {w: 0, seen: 0, at_start: 0}
    pre:
      state: {x: 0, n: 0}
      on_spike: [x = x + 1]
      on: {trial.start: [n = n + 0.5 * x], trial.end: [x = 0.25 * x + trial.count]}
    post: {state: {y: 1}, on_spike: [y = y + 2], on: {trial.mid: [y = 0]}}
    on_pre: [w = w + post.y]
    on_post: [w = w + 100 * pre.x]
    on:
      trial.start: [at_start = pre.n]
      trial.end: [seen = pre.x + 10 * post.y + 1000 * pre.n]
populations: {a: {neuron: source, size: 2, params: {period: [2, 3]}}, b: {neuron: target, size: 2}}
projections: {p: {from: a, to: b, connect: {one_to_one: {}}, synapse: counting}}
simulate: {dt: 1 ms, duration: 21 ms}
numerics: {precision: float64, order: bitwise}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_traces_change_at_events(tmp_path: Path, target: str) -> None:
    """After what synapses do at the event; at the start before the step."""
    done = simulate(TRACES, tmp_path, target)
    for i, period in enumerate((2, 3)):
        x, n, y, w, seen, at_start, k, m = 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0, 0
        for step in range(1, 22):
            at = (step - 1) % 6 + 1
            if at == 1:
                at_start, n = n, n + 0.5 * x
            k, m = k + 1, m + 1
            spikes, fires = k >= period, m >= 5
            k, m = (0 if spikes else k), (0 if fires else m)
            w += y if spikes else 0
            x += 1 if spikes else 0
            w += 100 * x if fires else 0
            y += 2 if fires else 0
            if at == 6:
                seen = x + 10 * y + 1000 * n
                x = 0.25 * x + (step - 1) // 6
            if at == 3:
                y = 0.0
        for name, value in (
            ("w", w),
            ("seen", seen),
            ("at_start", at_start),
            ("pre.x", x),
            ("pre.n", n),
            ("post.y", y),
        ):
            assert done.instance.read(f"p[a->b].{name}")[i] == value, name
