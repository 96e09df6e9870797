"""Weights, delays, parameters and initial values as matrices (`all_to_all`) and lists (`one_to_one`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.grids import diagonal, together

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: given
neurons:
  clock: {inputs: {g: {}}, state: {x: 0, got: 0}, update: [x = x + 1, got = got + g], spike: {when: x == 2}}
synapses:
  scaled: {params: {gain: 1}, state: {w: 0}, on_pre: [deliver(gain * w)]}
populations:
  a: {neuron: clock, size: 4}
  b: {neuron: clock, size: 6}
projections:
  p: {from: a, to: TO, connect: {CONNECT}, VALUES}
simulate: {dt: 1 ms, duration: 20 ms}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""
STATIC = "deliver: {into: g, weight: {file: w.npz, array: w}}, delay: {file: w.npz, array: d}"
PLASTIC = (
    "synapse: scaled, deliver: {into: g}, params: {gain: {file: w.npz, array: d}}, init: {w: {file: w.npz, array: w}}"
)


@pytest.mark.parametrize(
    ("connect", "to", "target", "values"),
    diagonal(
        together(
            [
                ("all_to_all: {}", "b"),
                ("all_to_all: {storage: sparse}", "b"),
                ("all_to_all: {autapses: false}", "a"),
                ("all_to_all: {autapses: false, storage: sparse}", "a"),
                ("one_to_one: {}", "a"),
                ("one_to_one: {storage: sparse}", "a"),
            ]
        ),
        ["cpu", "reference"],
        [STATIC, PLASTIC],
    ),
)
def test_arrays(connect: str, to: str, values: str, target: str, tmp_path: Path) -> None:
    n = 6 if to == "b" else 4
    alone = connect.startswith("one")
    rng = np.random.default_rng(3)
    shape = (4,) if alone else (4, n)
    w, d = rng.normal(size=shape), rng.integers(0, 6, shape).astype(float)
    np.savez(tmp_path / "w.npz", w=w, d=d)
    (tmp_path / "m.yaml").write_text(
        TEXT.replace("CONNECT", connect).replace("TO", to).replace("VALUES", values), encoding="utf-8"
    )
    if alone:
        w, d = np.diag(w), np.diag(d)
    there = np.eye(4) if alone else ~np.eye(4, dtype=bool) if "false" in connect else np.ones((4, n))
    s = netloom.load(tmp_path / "m.yaml").simulation(target=target)
    s.run("3 ms")
    for late in range(6):
        sent = w * (d <= late) if values is STATIC else w * d
        np.testing.assert_allclose(s[to].got, (sent * there).sum(0), rtol=1e-12, atol=1e-14)
        s.run("1 ms")


def test_lists_of_a_family() -> None:
    """A list fits each member, or is refused."""
    text = TEXT.replace("CONNECT", "one_to_one: {}").replace("from: a, to: TO", "from: [a, b], to: [a]")
    values = "deliver: {into: g, weight: [1, 2, 3, 4]}, delay: [0 ms, 1 ms, 2 ms, 0 ms]"
    with pytest.raises(netloom.ModelError, match="needs populations of one size"):
        netloom.load(text.replace("VALUES", values)).simulation()
    s = netloom.load(text.replace("VALUES", values).replace("from: [a, b]", "from: a")).simulation()
    s.run("4 ms")
    assert s["a"].got.tolist() == [1, 2, 0, 4]
