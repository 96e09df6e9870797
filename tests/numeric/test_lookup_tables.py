"""Lookup tables: functions that are given by their values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from compiler.frontend.load import load_model
from tests.construct_runs import lowered

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
tables:
  f: {values: [0.5, 1, 4, -9], from: -1, to: 2}
  alpha: {values: {file: rates.npz, array: alpha}, from: -80 mV, to: 40 mV, unit: 1/ms}
functions: {twice(x): 2 * f(x)}
neurons:
  cell:
    inputs: {g: {}}
    state: {x: -2, y: 0, z: 0, v: -90 mV, m: 0}
    dynamics: {dm/dt: alpha(v) * (1 - m) - m / (20 ms)}
    update: [x = x + 0.0625, y = f(x), z = z + g, v = v + 2 mV]
    spike: {when: twice(x) > 7, reset: []}
synapses:
  s:
    state: {w: 0.5, n: 0}
    on_pre: ["deliver(f(w))", w = w + 0.01 * alpha(pre.v) * 1 ms]
    on: {trial.end: [n = f(n + w)]}
phases: {trial: {every: 10 ms, events: {end: 10 ms}}}
populations:
  a: {neuron: cell, size: 3}
projections:
  p: {from: a, to: a, connect: {one_to_one: {}}, synapse: s, deliver: {into: g}}
simulate: {dt: 1 ms, duration: 100 ms}
record: [{trace: {from: a, variables: [x, y, z, m, v]}}]
numerics: {precision: PRECISION}
"""
ALPHA = np.exp(np.linspace(-3, 1, 41))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(("precision", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
def test_values_of_tables(tmp_path: Path, target: str, precision: str, rtol: float) -> None:
    np.savez(tmp_path / "rates.npz", alpha=ALPHA)
    (tmp_path / "model.yaml").write_text(TEXT.replace("PRECISION", precision), encoding="utf-8")
    s = netloom.load(tmp_path / "model.yaml").simulation(target=target)
    s.run("100 ms")

    def f(x: float) -> float:
        return float(np.interp(x, [-1, 0, 1, 2], [0.5, 1, 4, -9]))

    def alpha(v: float) -> float:
        return float(np.interp(v, np.linspace(-80, 40, 41), ALPHA))

    x, z, v, m, w, n, g = -2.0, 0.0, -90.0, 0.0, 0.5, 0.0, 0.0
    traces: dict[str, list[float]] = {name: [] for name in "xyzmv"}
    for step in range(1, 101):
        rate = -alpha(v) - 1 / 20
        m += (alpha(v) + rate * m) * np.expm1(rate) / rate
        x, z, v, g = x + 0.0625, z + g, v + 2, 0.0
        if 2 * f(x) > 7:
            g, w = g + f(w), w + 0.01 * alpha(v)
        if step % 10 == 0:
            n = f(n + w)
        for name, value in zip("xyzmv", (x, f(x), z, m, v), strict=True):
            traces[name].append(value)
    for name, values in traces.items():
        np.testing.assert_allclose(s["a"].trace(name)[1][:, 1], values, rtol=rtol, atol=rtol, err_msg=name)
    assert s.projections["p"].w[0] == pytest.approx(w, rel=rtol)
    assert s.projections["p"].n[0] == pytest.approx(n, rel=rtol)
    assert z > 7
    assert traces["y"][0] == 0.5
    assert traces["y"][-1] == -9


def test_nodes_are_exact_and_what_is_no_number_stays() -> None:
    values = np.random.default_rng(1).normal(size=7).astype(np.float32)
    text = f"""language: 1
tables: {{f: {{values: [{", ".join(str(float(v)) for v in values)}], from: 3, to: 15}}}}
neurons: {{cell: {{state: {{x: 0, y: 0}}, update: [y = f(x)]}}}}
populations: {{a: {{neuron: cell, size: 12}}}}
simulate: {{dt: 1 ms, duration: 2 ms}}
"""
    for target in ("cpu", "reference"):
        s = netloom.load(text).simulation(target=target)
        s["a"].x = [3, 5, 7, 9, 11, 13, 15, 2, -1e30, 16, 1e30, 4]
        s.run("1 ms")
        expected = [
            *values,
            values[0],
            values[0],
            values[-1],
            values[-1],
            np.float32(values[0] + 0.5 * (values[1] - values[0])),
        ]
        np.testing.assert_array_equal(np.asarray(s["a"].y, np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_values_are_data(tmp_path: Path, target: str) -> None:
    text = """language: 1
tables:
  f: {values: [0, 1], from: 0, to: 1}
  g: {values: [1, 2], from: 0, to: 1}
neurons: {one: {state: {x: 0}, update: [x = f(x)]}, two: {state: {x: 0}, update: [x = g(x)]}}
populations: {a: {neuron: one, size: 12}, b: {neuron: two, size: 5}}
simulate: {dt: 1 ms, duration: 2 ms}
"""
    path = tmp_path / "model.yaml"
    digests = []
    for new in (text, text.replace("[0, 1], from: 0", "[0, 1, 4, 9, 16], from: -3")):
        path.write_text(new, encoding="utf-8")
        program = lowered(load_model(path), target)
        digests.append([t.digest for t in program.templates])
        arrays = [named for r in program.tables for named in r.arrays.values() if named[0].endswith("'table")]
        assert arrays == [("f'table", "g'table")]  # one kernel
    assert digests[0] == digests[1]
