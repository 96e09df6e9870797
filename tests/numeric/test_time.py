"""The value of `t`, and the integration of non-autonomous equations; deliveries directly into a state against NEST."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

# ---------------------------------------------------------------------------------- equations that read t

CELL = "{state: {x: 0.5, y: 0.2}, dynamics: {dx/dt: DX, dy/dt: DY}METHOD}"
MODEL = """\
language: 1
name: timed
neurons: {cell: CELL}
populations: {a: {neuron: cell, size: 1}}
simulate: {dt: DT ms, duration: 8 ms, seed: 1}
record: [{trace: {from: a, variables: [x, y], members: all}}]
numerics: {precision: float64}
"""
APART = ("(cos(t / (1 ms)) - x) / (2 ms)", "-y * (1 + sin(t / (1 ms))) / (3 ms)")
COUPLED = ("(y * cos(t / (1 ms)) - x) / (2 ms)", "-y / (3 ms)")
CURVED = ("(cos(t / (1 ms)) - x * x) / (2 ms)", "-y / (3 ms)")


def text_of(rates: tuple[str, str], dt: float, method: str = "") -> str:
    cell = CELL.replace("DX", f"'{rates[0]}'").replace("DY", f"'{rates[1]}'")
    cell = cell.replace("METHOD", f", method: {method}" if method else "")
    return MODEL.replace("CELL", cell).replace("DT", f"{dt}")


def decided(text: str, folder: Path) -> tuple[str, str]:
    lowered = lower(model_of(text, folder), backend("reference").capabilities, verify=True)
    (found,) = (d for d in lowered.decisions if d.pass_name == "integrate_odes")
    return found.verdict, found.reason


def test_auto_is_of_second_order_in_t(tmp_path: Path) -> None:
    def slopes(t: float, x: np.ndarray) -> list[float]:
        return [(np.cos(t) - x[0]) / 2, -x[1] * (1 + np.sin(t)) / 3]

    exact = solve_ivp(slopes, (0, 8), [0.5, 0.2], rtol=1e-12, atol=1e-14, method="DOP853").y[:, -1]
    errors: dict[str, list[float]] = {"": [], "euler": []}
    for method, found in errors.items():
        for dt in (0.2, 0.1):
            result = simulate(text_of(APART, dt, method), tmp_path)
            found.append(max(abs(result.trace("a", v)[-1] - exact[k]) for k, v in enumerate("xy")))
    assert 3.7 < errors[""][0] / errors[""][1] < 4.3
    assert errors[""][1] < 1e-3
    assert 1.8 < errors["euler"][0] / errors["euler"][1] < 2.2


def test_the_choice_is_explained(tmp_path: Path) -> None:
    """Whatever `auto` takes for an equation that reads t says of which order it is."""
    verdict, reason = decided(text_of(APART, 0.1), tmp_path)
    assert verdict == "exponential_euler"
    assert "second order in t" in reason and "first order" not in reason
    verdict, reason = decided(text_of(COUPLED, 0.1), tmp_path)
    assert verdict == "exponential_euler"
    assert "first order in what equations read of each other (`y`)" in reason
    assert decided(text_of(CURVED, 0.1), tmp_path)[0] == "rk4"
    noisy = text_of(("(cos(t / (1 ms)) - x) / (2 ms) + 0.1 * x * xi / sqrt(1 ms)", "-y / (3 ms)"), 0.1)
    verdict, reason = decided(noisy, tmp_path)
    assert verdict == "euler"
    assert "Ito" in reason and "first order in t" in reason


def test_the_dynamics_of_a_current_are_explained(tmp_path: Path) -> None:
    text = """\
language: 1
name: current
neurons: {cell: {params: {i: 0}, state: {x: 0}, update: [x = i]}}
currents: {drift: {state: {s: 0}, dynamics: {ds/dt: (cos(t / (1 ms)) - s) / (2 ms)}, value: s}}
populations: {a: {neuron: cell, size: 1}}
inputs: {c: {to: a, current: {into: i, source: drift}}}
simulate: {dt: 0.1 ms, duration: 1 ms}
record: [{trace: {from: a, variables: [x]}}]
"""
    verdict, reason = decided(text, tmp_path)
    assert verdict == "exponential_euler" and "second order in t" in reason


# ----------------------------------------------------------------- deliveries straight into a state

DELTA = """\
language: 1
name: delta
populations:
  s: {neuron: library/neurons/spike_times, size: 1, params: {times: [TIMES], indices: [ZEROS]}}
  cell: {neuron: library/neurons/lif, size: 1, params: {i_e: 140 pA}}
projections: {p: {from: s, to: cell, connect: {one_to_one: {}}, deliver: {into: jump, weight: 4 mV}, delay: DELAY ms}}
simulate: {dt: 0.1 ms, duration: 100 ms, seed: 1}
record: [{spikes: {from: cell}}, {trace: {from: cell, variables: [v], members: all}}]
numerics: {precision: float64}
"""


def iaf_psc_delta(arrivals: list[int], steps: int, weight: float) -> tuple[list[int], np.ndarray]:
    """(steps of spikes, v after each step) in the order of NEST's iaf_psc_delta: in a step v is propagated, what
    arrives in it is added (not while the neuron is refractory), then v is compared with the threshold."""
    decay = np.exp(-0.1 / 10.0)
    v, left = 0.0, 0  # relative to rest
    spikes, trace = [], []
    for k in range(1, steps + 1):
        if left == 0:
            v = (1 - decay) * 14.0 + decay * v + weight * arrivals.count(k)
        else:
            left -= 1
        if v >= 15.0:
            v, left = 0.0, 20
            spikes.append(k)
        trace.append(v - 65.0)
    return spikes, np.array(trace)


@pytest.mark.parametrize("delay", [0.0, 0.1, 1.5])
def test_a_jump_acts_one_step_later_than_in_nest(tmp_path: Path, delay: float) -> None:
    """With a delay of d steps library/neurons/lif is NEST's iaf_psc_delta with d + 1: v jumps in the step after the
    delivery, and is compared with the threshold there."""
    given = sorted(np.random.default_rng(3).choice(np.arange(1, 900), 60, replace=False).tolist())
    text = DELTA.replace("TIMES", ", ".join(f"{k / 10:g} ms" for k in given)).replace("DELAY", f"{delay:g}")
    result = simulate(text.replace("ZEROS", ", ".join("0" for _ in given)), tmp_path)
    d = round(delay * 10)
    spikes, trace = iaf_psc_delta([k + d + 1 for k in given], 1000, 4.0)
    assert result.steps_of("cell") == spikes and len(spikes) > 5
    assert np.allclose(result.trace("cell", "v"), trace)
    assert spikes != iaf_psc_delta([k + d for k in given], 1000, 4.0)[0]
