"""Refractory periods that a condition ends."""

from __future__ import annotations

import pytest

import netloom
from compiler.core.errors import ModelError

pytestmark = pytest.mark.usefixtures("cc")

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


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("refractory", "values"),
    [
        ("0 ms", [4, 5, 6, 7, 8, 9]),
        ("{while: v > 3}", [4]),
        ("{while: v > 6}", [4, 5, 6]),  # 4 and 5 are over at once; the period of 6 goes on
        ("{while: v != 8}", None),  # the period of 8 lasts until 8 comes again
    ],
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
    for wrong, code in (("{while: v}", "E0306"), ("{while: v > 3, hold: [v]}", "E0103"), ("{hold: [v]}", "E0103")):
        with pytest.raises(ModelError, match=code):
            model(wrong).simulation()
