"""Histories of neurons, and products of them in synapses, against a numpy simulation of the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

SIZE, STEPS, KEEP = 5, 40, 4
START = [0.5, 1.0, 0.25, 0.125, 0.75]
MODEL = f"""\
language: 1
name: past
phases: {{bin: {{every: 3 ms, events: {{end: 3 ms, mid: 1 ms}}}}, trial: {{every: 12 ms, events: {{end: 12 ms}}}}}}
functions: {{weight(k): 1 / (1 + k)}}
neurons:
  cell:
    params: {{gain: 2}}
    state: {{ca: 0, sum: 0, own: 0, newest: 0}}
    update: [ca = 0.75 * ca + 0.25 * (self.i + trial.step / 12), sum = sum + ca]
    history:
      tr: {{of: gain * sum, at: bin.end, keep: {KEEP}}}
      last: {{of: ca, at: bin.mid, keep: 1}}
    on:
      bin.end: [newest = tr_1, sum = 0]
      trial.end: ["own = dot(tr, tr) + last_1"]
synapses:
  learns:
    state: {{w: 0, v: 0, seen: 0}}
    on:
      trial.end:
        - w = w + dot(pre.tr, post.tr)
        - v = dot(pre.tr, post.tr, weight(k))
        - seen = pre.tr_{KEEP} - post.tr_1
populations: {{a: {{neuron: cell, size: {SIZE}, init: {{ca: {START}}}}}}}
projections: {{p: {{from: a, to: a, connect: {{all_to_all: {{}}}}, synapse: learns}}}}
simulate: {{dt: 1 ms, duration: {STEPS} ms, seed: 2}}
record:
  - trace: {{from: a, variables: [tr_1, tr_{KEEP}, newest, own], members: all}}
numerics: {{precision: float64, order: bitwise}}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_products_of_histories(tmp_path: Path, target: str) -> None:
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    s = netloom.load(tmp_path / "m.yaml").simulation(target=target)
    s.run(f"{STEPS} ms")
    i = np.arange(SIZE)
    ca, total, own, last = np.array(START), np.zeros(SIZE), np.zeros(SIZE), np.zeros(SIZE)
    tr, w, v, seen = np.zeros((KEEP, SIZE)), *(np.zeros((SIZE, SIZE)) for _ in range(3))  # tr: the newest first
    for step in range(1, STEPS + 1):
        ca = 0.75 * ca + 0.25 * (i + ((step - 1) % 12 + 1) / 12)
        total = total + ca
        if step % 3 == 1:
            last = ca
        if step % 3 == 0:
            tr, total = np.vstack([2 * total, tr[:-1]]), np.zeros(SIZE)
        if step % 12 == 0:
            own = (tr * tr).sum(0) + last
            w = w + tr.T @ tr
            v = np.einsum("k,ki,kj->ij", 1 / (1 + np.arange(1, KEEP + 1)), tr, tr)
            seen = tr[-1][:, None] - tr[0]
        for name, value in (("tr_1", tr[0]), (f"tr_{KEEP}", tr[-1]), ("newest", tr[0]), ("own", own)):
            np.testing.assert_allclose(s["a"].trace(name)[1][step - 1], value, rtol=1e-12, err_msg=name)
    p = s.projections["p"]
    for name, expected in (("w", w), ("v", v), ("seen", seen)):
        np.testing.assert_allclose(getattr(p, name), expected[p.source, p.target], rtol=1e-12, err_msg=name)
    assert np.ptp(w) > 1


def test_a_synapse_alone(tmp_path: Path) -> None:
    """A file of definitions, in which nothing is known of the neurons."""
    path = tmp_path / "lib.yaml"
    path.write_text(
        """language: 1
phases: {trial: {every: 12 ms, events: {end: 12 ms}}}
synapses: {learns: {state: {w: 0}, on: {trial.end: ["w = w + dot(pre.tr, post.tr, 0.5 ** k)"]}}}
""",
        encoding="utf-8",
    )
    netloom.load(path).check()


def test_beside_a_parameter_that_changes_in_time() -> None:
    """Parameters that a projection gives as expressions of counters stay so where products are written out."""
    text = MODEL.replace("state: {w: 0, v: 0", "params: {rate: 1}\n    state: {w: 0, v: 0")
    text = text.replace("w = w + dot(pre.tr", "w = w + rate * dot(pre.tr")
    moving = text.replace("synapse: learns}", "synapse: learns, params: {rate: 0 if trial.count < 2 else 1}}")
    found = []
    for given, steps in ((text, 24), (text, 36), (moving, 36)):
        s = netloom.load(given).simulation()
        s.run(f"{steps} ms")
        found.append(np.asarray(s.projections["p"].w))
    np.testing.assert_allclose(found[2], found[1] - found[0], rtol=1e-12)
    assert found[2].max() > 0
