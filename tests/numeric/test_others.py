"""Values of other populations: neurons of the step before, pools of this step, against NumPy step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import Simulated, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

RING = """language: 1
name: ring
neurons:
  unit:
    params: {gain: 0.5, bias: 0}
    others: {driver: {x: 1, v: mV, pool.mean: 1, pool.s: 1}, boss: {level: 1}}
    state: {x: self.i + bias, v: 1 mV, seen: 0, late: 0, top: 0}
    pool:
      reduce: {mean: mean(x), far: max(driver.x * boss.level)}
      state: {s: 1}
      update: [s = 0.5 * s + mean + 0.25 * driver.pool.s + boss.level]
    update:
      - x = 0.9 * x + gain * driver.x
      - seen = driver.pool.mean + pool.far
      - top = boss.level
    dynamics: {dv/dt: (driver.v - v) / (10 ms)}
    on: {trial.end: [late = driver.pool.s]}
  chief: {state: {level: 1}, others: {below: {pool.mean: 1}}, update: [level = level + 0.1 * below.pool.mean]}
phases: {trial: {every: 3 ms, events: {end: 3 ms}}}
populations:
  c: {neuron: unit, size: 4, POOLSparams: {gain: 0.1, bias: 2}, others: {driver: b, boss: top}, init: {v: 3 mV}}
  a: {neuron: unit, size: 4, POOLSothers: {driver: a, boss: top}}
  b: {neuron: unit, size: 4, POOLSparams: {gain: 0.2, bias: 1}, others: {driver: a, boss: top}, init: {v: 5 mV}}
  top: {neuron: chief, size: 1, others: {below: c}}
simulate: {dt: 1 ms, duration: 12 msEXTRA}
record:
  - trace: {from: [a, b, c], variables: [x, v, seen, late, top, pool.mean, pool.s]}
  - trace: {from: top, variables: [level]}
numerics: {precision: float64}
"""


def expected(steps: int, pools: int = 1) -> dict[tuple[str, str], np.ndarray]:
    """`a` reads itself, so that its pool is that of the step before; `b` reads `a`, `c` reads `b`, and `top` reads `c`,
    in this order within a step."""
    size = 4 // pools
    names = {"a": ("a", 0.5, 0, 1.0), "b": ("a", 0.2, 1, 5.0), "c": ("b", 0.1, 2, 3.0)}
    n = {
        p: {"x": np.arange(4.0) + bias, "v": np.full(4, v), "late": np.zeros(4)} for p, (_, _, bias, v) in names.items()
    }
    for state in n.values():
        state |= {"seen": np.zeros(4), "top": np.zeros(4), "mean": np.zeros(pools), "s": np.ones(pools)}
    level = 1.0
    found: dict[tuple[str, str], list[Any]] = {}
    for k in range(1, steps + 1):
        before = {p: {key: np.array(value) for key, value in state.items()} for p, state in n.items()}
        for p, (driver, gain, _, _) in names.items():
            state, read = n[p], before[driver]
            pooled = before[driver] if driver == p else n[driver]
            state["v"] = read["v"] + (state["v"] - read["v"]) * np.exp(-0.1)
            state["x"] = 0.9 * state["x"] + gain * read["x"]
            far = (read["x"] * level).reshape(pools, size).max(1)
            state["mean"] = state["x"].reshape(pools, size).mean(1)
            state["s"] = 0.5 * state["s"] + state["mean"] + 0.25 * pooled["s"] + level
            state["seen"] = np.repeat(pooled["mean"] + far, size)
            state["top"] = np.full(4, level)
            if k % 3 == 0:
                state["late"] = np.repeat(read["s"], size)
        if pools == 1:
            level += 0.1 * n["c"]["mean"][0]
        for p, state in n.items():
            for key, value in state.items():
                name = f"pool.{key}" if key in ("mean", "s") else key
                found.setdefault((p, name), []).append(value)
        found.setdefault(("top", "level"), []).append([level])
    return {key: np.array(values) for key, values in found.items()}


def check(r: Simulated, pools: int = 1, steps: int = 12) -> None:
    for key, values in expected(steps, pools).items():
        if key in r.traces:
            np.testing.assert_allclose(r.traces[key], values, rtol=1e-12, err_msg=str(key))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_neurons_and_pools(target: str, tmp_path: Path) -> None:
    """Populations of one model that read each other are rows of one kernel, whatever their order in the file."""
    check(simulate(RING.replace("POOLS", "").replace("EXTRA", ""), tmp_path, target))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_several_pools(target: str, tmp_path: Path) -> None:
    """Pool p reads pool p; what is computed per pool reads neurons through a reduction."""
    text = (
        RING.replace("POOLS", "pools: 2, ").replace("EXTRA", "").replace("below: {pool.mean: 1}", "below: {pool.s: 1}")
    )
    text = text.replace("below.pool.mean", "below.pool.s").replace("others: {below: c}", "others: {below: d}")
    text = text.replace("  top:", "  d: {neuron: own, size: 4}\n  top:").replace(
        "  chief:", "  own: {state: {x: 0}, pool: {reduce: {s: mean(x)}}, update: [x = 0 * pool.s]}\n  chief:"
    )
    check(simulate(text, tmp_path, target), 2)


def test_circles_are_reported(tmp_path: Path) -> None:
    """Populations whose pools wait for each other are named by `netloom explain`."""
    text = RING.replace("POOLS", "").replace("EXTRA", "").replace("driver: a, boss", "driver: b, boss", 1)
    model = model_of(text, tmp_path)
    decisions = lower(model, backend("cpu").capabilities).decisions
    assert sorted(d.subject for d in decisions if d.pass_name == "order_populations") == ["a", "b"]


def test_pieces_copies_and_checkpoints() -> None:
    text = RING.replace("POOLS", "").replace("EXTRA", ", instances: 2")
    s = netloom.load(text).simulation()
    s.run("5 ms")
    at = s.checkpoint()
    for _ in range(2):
        s.run("3 ms")
        s.run("4 ms")
        for (population, variable), values in expected(12).items():
            for copy in range(2):
                np.testing.assert_allclose(s[f"{population}_{copy}"][variable], values[-1], rtol=1e-12)
        s.restore(at)


def test_one_kernel_for_any_number(tmp_path: Path) -> None:
    """A chain of populations that read each other is one template with a row for each."""

    def text(count: int) -> str:
        chain = "".join(f"  p{k}: {{neuron: unit, size: 3, others: {{next: p{k + 1}}}}}\n" for k in range(count))
        return f"""language: 1
neurons:
  unit: {{others: {{next: {{x: 1}}}}, state: {{x: self.i}}, update: [x = 0.5 * x + next.x]}}
populations:
{chain}  p{count}: {{neuron: unit, size: 3, others: {{next: p0}}}}
simulate: {{dt: 1 ms, duration: 3 ms}}
record: [{{trace: {{from: p0, variables: [x]}}}}]
"""

    found = []
    for target in ("cpu", "cuda"):
        for count in (2, 9):
            chosen = backend(target)
            model = model_of(text(count), tmp_path)
            merged = lower(model, chosen.capabilities, verify=True).merged
            found.append([t.digest for t in merged.templates])
    assert found[0] == found[1] and found[2] == found[3]
    assert np.allclose(simulate(text(2), tmp_path).traces["p0", "x"][-1], 3.375 * np.arange(3))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("driver: a, boss: top", "boss: top", "E0103"),
        ("driver: a, boss: top", "driver: a, boss: top, more: a", "E0201"),
        ("driver: b, boss", "driver: nobody, boss", "E0201"),
        ("below: c", "below: top", "E0201"),
        ("v: mV, pool.mean", "v: ms, pool.mean", "E0401"),
        ("gain * driver.x", "gain * driver.y", "E0302"),
        ("gain * driver.x", "gain * driver.v", "E0401"),
        ("c: {neuron: unit, size: 4", "c: {neuron: unit, size: 5", "E0604"),
        ("driver: {x: 1, v", "trial: {x: 1, v", "E0107"),
        ("driver: {x: 1, v", "x: {x: 1, v", "E0212"),
        ("driver: {x: 1, v", "driver: {gain: 1, x: 1, v", "E0802"),
        ("0.25 * driver.pool.s", "0.25 * driver.x", "E0802"),
        ("x = 0.9 * x", "driver.x = 0.9 * x", "E0310"),
    ],
)
def test_mistakes(old: str, new: str, code: str) -> None:
    text = RING.replace("POOLS", "").replace("EXTRA", "")
    assert old in text
    assert code in [d.code for d in netloom.load(text.replace(old, new)).check()]
