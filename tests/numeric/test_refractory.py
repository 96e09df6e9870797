"""Refractory periods that a condition ends, and those that differ from neuron to neuron."""

from __future__ import annotations

import numpy as np
import pytest

import netloom
from compiler.core.diagnostics import ModelError
from tests.grids import diagonal, together

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: refractory
neurons:
  cell:
    state: {v: 0, n: 0, k: 0}
    update: [k = k + 1, "v = k % 10"]
    spike: {when: v > 3, reset: [n = n + 1], refractory: REFRACTORY}
populations: {p: {neuron: cell, size: 2}}
simulate: {dt: 1 ms, duration: 40 ms}
record: [{spikes: {from: p}}]
"""


def model(refractory: str) -> netloom.Model:
    return netloom.load(TEXT.replace("REFRACTORY", refractory))


@pytest.mark.parametrize(
    ("refractory", "values", "target"),
    diagonal(
        together(
            [
                ("0 ms", [4, 5, 6, 7, 8, 9]),
                ("{while: v > 3}", [4]),
                ("{while: v > 6}", [4, 5, 6]),  # 4 and 5 are over at once; the period of 6 goes on
                ("{while: v != 8}", None),  # the period of 8 lasts until 8 comes again
            ]
        ),
        ["cpu", "reference"],
    ),
)
def test_spikes(refractory: str, values: list[int] | None, target: str) -> None:
    """v counts from 0 to 9, and over again: the spikes of four rounds."""
    s = model(refractory).simulation(target=target)
    s.run("40 ms")
    steps = [round(float(t)) for t, i in zip(s["p"].spikes[0], s["p"].spikes[1], strict=True) if i == 0]
    assert steps == ([4, 8, 18, 28, 38] if values is None else [10 * k + v for k in range(4) for v in values])
    assert s["p"].n.tolist() == [len(steps)] * 2
    assert s["p"].variables == ("v", "n", "k")


def test_what_is_refused() -> None:
    for wrong, code in (("{while: v}", "E0306"), ("{while: v > 3, hold: [v]}", "E0108"), ("{hold: [v]}", "E0103")):
        with pytest.raises(ModelError, match=code):
            model(wrong).simulation()


EACH = """language: 1
name: each
neurons:
  cell:
    params: {t_ref: 2 ms}
    state: {v: 1, n: 0}
    update: [n = n + 1]
    spike: {when: v > 0.5, reset: [v = 1], refractory: REFRACTORY}
populations: {p: {neuron: cell, size: 6, params: {t_ref: VALUES}}, q: {neuron: cell, size: 2, params: {t_ref: 1 ms}}}
simulate: {dt: 0.5 ms, duration: 40 ms, seed: 3}
record: [{spikes: {from: [p, q]}}]
"""


def spikes_of(refractory: str, values: str, target: str, precision: str) -> tuple[list[list[int]], list[float]]:
    """The steps of the spikes of each neuron of `p`, and the values of its parameter."""
    text = EACH.replace("REFRACTORY", refractory).replace("VALUES", values)
    s = netloom.load(f"{text}numerics: {{precision: {precision}}}\n").simulation(target=target)
    s.run("15 ms")
    s.run("25 ms")
    one = 4 if "2 *" in refractory or "+ 1" in refractory else 2
    assert [round(t / 0.5) for t, i in zip(*s["q"].spikes, strict=True) if i == 0] == list(range(1, 81, one + 1))
    times, neurons = s["p"].spikes
    given = np.broadcast_to(np.asarray(s["p"].t_ref, np.float64), 6).tolist()
    return [[round(float(t) / 0.5) for t in times[neurons == i]] for i in range(6)], given


@pytest.mark.parametrize(
    ("refractory", "values", "steps", "target", "precision"),
    diagonal(
        together(
            [
                ("t_ref", "[0 ms, 0.5 ms, 1 ms, 2 ms, 3.5 ms, 60 ms]", [0, 1, 2, 4, 7, 120]),
                ("{time: 2 * t_ref}", '"self.i * 0.25 ms"', [0, 1, 2, 3, 4, 5]),
                ("{time: t_ref, round: nearest}", "{uniform: {low: 1 ms, high: 4 ms}}", None),
                ("{time: t_ref + 1 ms, round: nearest}", "{normal: {mean: 1 ms, std: 2 ms, min: -1 ms}}", None),
            ]
        ),
        ["cpu", "reference"],
        ["float32", "float64"],
    ),
)
def test_each_neuron_has_its_own(
    refractory: str, values: str, steps: list[int] | None, target: str, precision: str
) -> None:
    """A neuron that is always above its threshold spikes whenever its period is over: every r + 1 steps."""
    found, given = spikes_of(refractory, values, target, precision)
    if steps is None:
        steps = [round((x + (1.0 if "+" in refractory else 0.0)) / 0.5) for x in given]
        assert len(set(steps)) > 2
    assert found == [list(range(1, 81, r + 1)) for r in steps]


@pytest.mark.parametrize(
    ("refractory", "values", "code"),
    [
        ("t_ref", "[0 ms, 0.5 ms, 0.7 ms, 1 ms, 1 ms, 1 ms]", "E0601"),
        ("t_ref", "[0 ms, -0.5 ms, 1 ms, 1 ms, 1 ms, 1 ms]", "E0106"),
        ("t_ref", "{uniform: {low: 1 ms, high: 4 ms}}", "E0601"),
        ("{time: t_ref, round: nearest}", "{uniform: {low: -1 ms, high: 4 ms}}", "E0106"),
        ("{time: t_ref, round: nearest}", "{normal: {mean: 2 ms, std: 1 ms}}", "E0106"),
        ("{time: t_ref, round: nearest}", '"2 ms + t / 10"', "E0802"),
    ],
)
def test_periods_that_are_refused(refractory: str, values: str, code: str) -> None:
    with pytest.raises(ModelError, match=code):
        netloom.load(EACH.replace("REFRACTORY", refractory).replace("VALUES", values)).simulation()
