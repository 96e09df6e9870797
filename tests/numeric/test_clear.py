"""`clear`: what is on its way along a projection is forgotten at an event of a phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import netloom
from tests.grids import diagonal, together

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
phases: {trial: {every: EVERY ms, events: {start: 0 ms, mid: 4 ms}}}
synapses:
  counting:
    state: {w: 1, n: 0, m: 0, last: 0 ms}
    pre: {state: {x: 0}, on_spike: [x = x + 1]}
    on_pre: [deliver(w), n = n + 1]
    on_post: [m = m + 1, last = pre.last_spike]
  driven: {state: {c: 0}, event_driven: true, dynamics: {dc/dt: -c / (5 ms)}, on_pre: [c = c + 1, deliver(c)]}
neurons:
  s: {state: {k: 0}, update: [k = k + 1], spike: {when: k % 3 == self.i % 3, reset: []}}
  t:
    inputs: {g: {}, h: {}, l: {}, d: {}, e: {}}
    state: {got: 0, kept: 0, own: 0, late: 0, sum_d: 0, sum_e: 0}
    update:
      - got = got + g
      - own = own + h
      - late = late + l
      - sum_d = sum_d + d
      - sum_e = sum_e + e
    spike: {when: trial.step == 9, reset: []}
populations:
  a: {neuron: s, size: 9}
  b: {neuron: t, size: 9}
projections:
  one: {from: a, to: b, connect: {one_to_one: {}}, deliver: {into: g, weight: 1}, delay: 3 ms, clear: trial.mid}
  two: {from: a, to: b, connect: {one_to_one: {}}, synapse: counting, deliver: {into: h}, delay: 3 ms, back_delay: 2 ms,
        clear: trial.start}
  three:
    from: a
    to: b
    connect: {pairs: {list: [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4], [5, 5], [6, 6], [7, 7], [8, 8]]}}
    deliver: {into: l, weight: 1}
    delay: [0 ms, 1 ms, 2 ms, 3 ms, 4 ms, 5 ms, 6 ms, 7 ms, 8 ms]
    clear: trial.mid
  beside: {from: a, to: b, connect: {one_to_one: {}}, deliver: {into: l, weight: 100}, delay: 2 ms}
  four: {from: a, to: b, connect: {one_to_one: {}}, synapse: driven, deliver: {into: d}, delay: 4 ms, clear: trial.mid}
  five: {from: a, to: b, connect: {one_to_one: {}}, deliver: {into: e, weight: 1}, delay: 2 ms, clear: trial.mid}
  six: {from: a, to: b, connect: {one_to_one: {}}, synapse: reading, delay: 1 ms}
simulate: {dt: 1 ms, warmup: WARM ms, duration: 40 ms}
numerics: {precision: float64}
"""
READING = "synapses:\n  reading: {state: {seen: 0}, on_pre: [seen = seen + post.e]}\n"


def arrivals(emits: Callable[[int], bool], delay: int, at: int, every: int, warm: int) -> Iterator[int]:
    """The steps, from 1 - warm to 40, in which spikes arrive."""
    for step in range(1 - warm, 41):
        cleared = any((j - at) % every == 0 for j in range(step, step + delay))
        if emits(step + warm) and step + delay <= 40 and not cleared:
            yield step + delay


@pytest.mark.parametrize(
    ("every", "warm", "target"), diagonal(together([(10, 0), (7, 13), (5, 4)]), ["cpu", "reference"])
)
def test_spikes_on_their_way_are_forgotten(target: str, every: int, warm: int) -> None:
    text = TEXT.replace("EVERY", str(every)).replace("WARM", str(warm)).replace("synapses:\n", READING)
    s = netloom.load(text).simulation(target=target)
    s.run("17 ms")
    s.run("23 ms")

    def arrived(i: int, delay: int, at: int) -> list[int]:
        return list(arrivals(lambda k: k % 3 == i % 3, delay, at, every, warm))

    def read(i: int, delay: int, at: int) -> int:
        return sum(k < 40 for k in arrived(i, delay, at))

    never = 50
    n = range(9)
    np.testing.assert_array_equal(s["b"].got, [read(i, 3, 4) for i in n])
    np.testing.assert_array_equal(s["b"].own, [read(i, 3, 0) for i in n])
    np.testing.assert_array_equal(s["b"].sum_e, [read(i, 2, 4) for i in n])
    every_spike = [sum(k % 3 == i % 3 and k - warm + 2 < 40 for k in range(1, 41 + warm)) for i in n]
    np.testing.assert_array_equal(s["b"].late, [read(i, i, 4) + 100 * every_spike[i] for i in n])
    two = s.projections["two"]
    np.testing.assert_array_equal(two.n, [len(arrived(i, 3, 0)) for i in n])
    back = list(arrivals(lambda k: (k - warm - 1) % every == 8, 2, 0, every, warm))
    np.testing.assert_array_equal(two.m, len(back))
    if back:
        np.testing.assert_array_equal(two.last, [max(k for k in arrived(i, 3, 0) if k <= back[-1]) for i in n])
    for i in n:
        c, total, at = 0.0, 0.0, never
        for k in arrived(i, 4, 4):
            c = c * np.exp((at - k) / 5) + 1 if at != never else 1.0
            at, total = k, total + (c if k < 40 else 0)
        assert s["b"].sum_d[i] == pytest.approx(total, rel=1e-12)


def test_a_delay_of_no_step_leaves_nothing_to_forget() -> None:
    text = TEXT.replace("EVERY", "10").replace("WARM", "0").replace("synapses:\n", READING)
    s = netloom.load(text.replace("delay: 3 ms, clear: trial.mid", "delay: 0 ms, clear: trial.mid")).simulation()
    s.run("40 ms")
    np.testing.assert_array_equal(s["b"].got, [13] * 9)
