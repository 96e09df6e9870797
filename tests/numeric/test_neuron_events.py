"""Events of neurons with conditions, against a numpy simulation of the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
SIZE, STEPS = 12, 40
START = [round(float(x), 3) for x in np.random.default_rng(5).uniform(0.1, 1.0, SIZE)]
MODEL = f"""\
language: 1
name: gates
phases: {{trial: {{every: 8 ms, events: {{end: 8 ms}}}}}}
neurons:
  cell:
    params: {{high: 0.9}}
    state: {{x: 0, held: 0, n: 0, seen: 0, left: 0}}
    let: {{twice: 2 * x}}
    inputs: {{g: {{}}}}
    update: [x = x + 0.125 + g, seen = seen + gate]
    spike: {{when: x > 2, reset: [x = x - 2]}}
    events:
      gate:
        when: x > high + 1 or x - pool.mean > 0.75
        do: [half = 0.5 * twice, held = half, n += 1]
      late: {{when: gate > 0 and n > 2}}
    pool: {{reduce: {{mean: mean(x)}}}}
    on: {{trial.end: [left = sum_pool(gate)]}}
synapses: {{pass: {{update: [deliver(0.03125 * pre.gate)]}}}}
populations:
  a: {{neuron: cell, size: {SIZE}, pools: 2, init: {{x: {START}}}}}
projections: {{p: {{from: a, to: a, connect: {{one_to_one: {{}}}}, synapse: pass, deliver: {{into: g}}}}}}
simulate: {{dt: 1 ms, duration: {STEPS} ms, seed: 2}}
record:
  - trace: {{from: a, variables: [x, held, n, seen, gate, late, left], members: all}}
  - events: {{from: a, events: [late, gate]}}
  - spikes: {{from: a}}
numerics: {{precision: float64, order: bitwise}}
"""


def expected() -> dict[str, list[np.ndarray]]:
    x, held, n, seen, gate, left, g = np.array(START), *(np.zeros(SIZE) for _ in range(6))
    out: dict[str, list[np.ndarray]] = {k: [] for k in ("x", "held", "n", "seen", "gate", "late", "left")}
    for step in range(1, STEPS + 1):
        x, seen = x + 0.125 + g, seen + gate
        mean = np.repeat(x.reshape(2, -1).mean(1), SIZE // 2)
        gate = ((x > 1.9) | (x - mean > 0.75)) * 1.0
        late = ((gate > 0) & (n > 2)) * 1.0
        x = np.where(x > 2, x - 2, x)
        held, n = np.where(gate > 0, x, held), n + gate  # `do` sees what resets did
        if step % 8 == 0:
            left = np.repeat(gate.reshape(2, -1).sum(1), SIZE // 2)
        g = 0.03125 * gate
        for name, value in (("x", x), ("held", held), ("n", n), ("seen", seen), ("gate", gate), ("late", late)):
            out[name].append(value)
        out["left"].append(left)
    return out


@both
def test_conditions_and_what_they_do(tmp_path: Path, target: str) -> None:
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    s = netloom.load(tmp_path / "m.yaml").simulation(target=target)
    s.run(f"{STEPS} ms")
    values = expected()
    for name, known in values.items():
        np.testing.assert_allclose(s["a"].trace(name)[1], known, rtol=1e-12, atol=1e-12, err_msg=name)
    assert sum(map(np.sum, values["gate"])) > 20 and sum(map(np.sum, values["late"])) > 5
    for name in ("gate", "late"):
        times, neurons = s["a"].events(name)
        steps, ids = np.nonzero(np.array(values[name]))
        np.testing.assert_array_equal(times, steps + 1.0)
        np.testing.assert_array_equal(neurons, ids)


def test_recorded_in_a_file(tmp_path: Path) -> None:
    """Of two instances, and between two times."""
    text = MODEL.replace("seed: 2}", "seed: 2, instances: 2}").replace(
        "[late, gate]", "[gate], between: [10 ms, 20 ms]"
    )
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    result = netloom.run(tmp_path / "m.yaml", out=tmp_path / "run", build_dir=tmp_path / "build")
    steps, ids = np.nonzero(np.array(expected()["gate"])[10:20])
    for copy in ("a_0", "a_1"):
        times, neurons = result.events(copy, "gate")[copy]
        np.testing.assert_array_equal(times, steps + 11.0)
        np.testing.assert_array_equal(neurons, ids)
    assert set(result.to_pandas("events")["event"]) == {"gate"}
