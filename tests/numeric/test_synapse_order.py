"""The order within a step as documented in docs/synapses.md, and the lowering of synapse models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.grids import diagonal, together
from tests.numeric.simulated import simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])

NEURONS = """language: 1
neurons:
  sink:
    params: {top: 1e9}
    state: {v: 0, seen: 0}
    inputs: {i: {}, j: {}}
    update: [seen = i + 10 * j, v = v + 1]
    spike: {when: v > top, reset: []}
populations:
  s: {neuron: spike_times, size: 1, params: {times: [PRE], indices: [ZEROS_PRE]}}
  t: {neuron: spike_times, size: 1, params: {times: [POST], indices: [ZEROS_POST]}}
  c: {neuron: sink, size: 4}
numerics: {precision: float64}
"""


def text_of(pre: list[int], post: list[int], rest: str, steps: int) -> str:
    def times(spikes: list[int]) -> str:
        return ", ".join(f"{k} ms" for k in spikes)

    text = NEURONS.replace("ZEROS_PRE", ", ".join("0" for _ in pre)).replace("ZEROS_POST", ", ".join("0" for _ in post))
    text = text.replace("PRE", times(pre)).replace("POST", times(post))
    return text + rest + f"\nsimulate: {{dt: 1 ms, duration: {steps} ms}}\n"


TRACES = """
synapses:
  order:
    state: {x_pre: -1, y_pre: -1, x_post: -1, y_post: -1, last: 0 ms, before: 0 ms}
    pre: {state: {x: 0}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, on_spike: [y = y + 1]}
    on_pre: [x_pre = pre.x, y_pre = post.y, last = pre.last_spike, before = pre.previous_spike]
    on_post: [x_post = pre.x, y_post = post.y]
projections:
  p: {from: s, to: t, connect: {all_to_all: {}}, synapse: order, delay: DELAY ms, back_delay: BACK ms}
"""


@pytest.mark.parametrize(
    ("delay", "back", "target"), diagonal(together([(0, 0), (2, 0), (0, 3)]), ["cpu", "reference"])
)
def test_the_table_of_the_documentation(tmp_path: Path, target: str, delay: int, back: int) -> None:
    """The source in steps 3 and 7, the target in 5 and 7, as they reach the synapse; with delays the spikes come
    earlier by as much, so that the table is the same."""
    expected = {  # step: x_pre, y_pre, x_post, y_post, x, y after the step
        2: (-1, -1, -1, -1, 0, 0),
        3: (0, 0, -1, -1, 1, 0),
        5: (0, 0, 1, 0, 1, 1),
        7: (1, 1, 2, 1, 2, 2),
    }
    pre, post = [k - delay for k in (3, 7)], [k - back for k in (5, 7)]
    rest = TRACES.replace("DELAY", str(delay)).replace("BACK", str(back))
    for steps, values in expected.items():
        run = simulate(text_of(pre, post, rest, steps), tmp_path, target)
        names = ("x_pre", "y_pre", "x_post", "y_post", "pre.x", "post.y")
        assert tuple(float(run.instance.read(f"p[s->t].{n}")[0]) for n in names) == values
    assert float(run.instance.read("p[s->t].last")[0]) == 3.0  # of the arrival, not of the emission
    assert float(run.instance.read("p[s->t].before")[0]) == -1e9


@both
def test_formulas_over_what_differs_between_synapses(tmp_path: Path, target: str) -> None:
    rest = """
params: {scale: {value: 3}}
synapses:
  own:
    params: {q: 1, r: q * scale}
    state: {w: {uniform: {low: 0, high: 1}}, u: w + r, z: 0}
    on_pre: [deliver(u)]
projections:
  p:
    from: c
    to: c
    connect: {all_to_all: {}}
    synapse: own
    params: {q: {uniform: {low: 1, high: n_from}}}
    init: {z: q * n_to - w}
    deliver: {into: i}
"""
    run = simulate(text_of([1], [1], rest, 1), tmp_path, target)
    q, r, w, u, z = (run.instance.read(f"p[c->c].{n}") for n in ("q", "r", "w", "u", "z"))
    assert len(np.unique(q)) == 16 and q.min() >= 1.0 and q.max() < 4.0
    assert np.array_equal(r, q * 3.0) and np.array_equal(u, w + r)
    np.testing.assert_allclose(z, q * 4.0 - w, rtol=1e-15)


@both
def test_events_and_deliveries_act_in_the_next_step(tmp_path: Path, target: str) -> None:
    """`update` delivers in every step, an event once its condition holds after the neurons' step; both act in the step
    after, and the event reads the state that `update` has left."""
    rest = """
synapses:
  own:
    state: {n: 0}
    update: [n = n + 1, "deliver(1, post.i)"]
    events:
      third: {of: pre, when: pre.v > 2.5, do: ["deliver(n, post.j)"]}
projections:
  p: {from: c, to: c, connect: {one_to_one: {}}, synapse: own}
record: [{trace: {from: c, variables: [seen]}}]
"""
    run = simulate(text_of([1], [1], rest, 6), tmp_path, target)
    assert run.trace("c", "seen").tolist() == [0.0, 1.0, 1.0, 31.0, 41.0, 51.0]


@both
def test_a_condition_on_a_trace_sees_the_spikes_of_its_step(tmp_path: Path, target: str) -> None:
    """The trace decays by a half in each step and jumps by 1 at a spike: 1, 0.5, 1.25, 0.625, 1.3125, ..."""
    rest = """
synapses:
  own:
    state: {n: 0}
    pre: {state: {x: 0}, update: [x = x / 2], on_spike: [x = x + 1]}
    events:
      high: {of: pre, when: pre.x > 1.2, do: [n = n + 1, deliver(pre.x)]}
projections:
  p: {from: s, to: c, connect: {all_to_all: {}}, synapse: own, deliver: {into: i}}
record: [{trace: {from: c, variables: [seen]}}]
"""
    run = simulate(text_of([1, 3, 5], [1], rest, 8), tmp_path, target)
    assert run.instance.read("p[s->c].n").tolist() == [2.0] * 4
    assert run.trace("c", "seen", 3).tolist() == [0, 0, 0, 1.25, 0, 1.3125, 0, 0]
