"""Integration methods on nonlinear problems, and the library's neurons against independent solutions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import netloom
from compiler.core.diagnostics import ModelError
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

FLOAT64 = "numerics: {precision: float64}\n"


def solution(f: Callable[[float, Array], Array], start: list[float], times: Array) -> Array:
    """(times, states) of x' = f(t, x), far more exact than what is compared with it."""
    found = solve_ivp(f, (0.0, float(times[-1])), start, method="DOP853", rtol=1e-12, atol=1e-14, t_eval=times)
    assert found.success
    states: Array = found.y.T
    return states


# -------------------------------------------------------------------------------------------- convergence

METHODS = ("exponential_euler", "euler", "rk2", "rk4")
ORDER = {"exponential_euler": 1, "euler": 1, "rk2": 2, "rk4": 4}


def methods_side_by_side(neuron: str, init: str, dt: float, variables: str, extra: str = "") -> str:
    """A model with one population per method, all of the same equations."""
    neurons = "\n".join(f"  {m}: {{use: problem, method: {m}}}" for m in METHODS)
    populations = "\n".join(f"  p_{m}: {{neuron: {m}, size: 1, init: {init}}}" for m in METHODS)
    return f"""\
language: 1
name: methods
neurons:
{neuron}
{neurons}
populations:
{populations}
{extra}
simulate: {{dt: {dt} ms, duration: 8 ms, seed: 1}}
record: [{{trace: {{from: [{", ".join(f"p_{m}" for m in METHODS)}], variables: [{variables}], members: all}}}}]
numerics: {{precision: float64}}
"""


def errors(text: Callable[[float], str], dts: tuple[float, ...], exact: Array, folder: Path) -> dict[str, list[float]]:
    """Per method: the largest error over the states at the last step, for each dt."""
    found: dict[str, list[float]] = {m: [] for m in METHODS}
    for dt in dts:
        result = simulate(text(dt), folder)
        for method in METHODS:
            last = [result.traces[f"p_{method}", v][-1, 0] for p, v in result.traces if p == f"p_{method}"]
            found[method].append(float(np.max(np.abs(np.array(last) - exact))))
    return found


def assert_orders(found: dict[str, list[float]]) -> None:
    for method, values in found.items():
        slopes = [math.log2(a / b) for a, b in pairwise(values)]
        assert all(s == pytest.approx(ORDER[method], abs=0.15) for s in slopes), (method, values, slopes)


def test_order_of_convergence(tmp_path: Path) -> None:
    """Lotka and Volterra: each equation is linear in its own variable, the system is not."""
    neuron = """\
  problem:
    state: {x: 0, y: 0}
    let: {birth: 1.1 / (1 ms), meals: 0.4 * y / (1 ms)}
    dynamics: {dx/dt: x * (birth - meals), dy/dt: y * (0.1 * x - 0.4) / (1 ms)}"""

    def text(dt: float) -> str:
        return methods_side_by_side(neuron, "{x: 5, y: 3}", dt, "x, y")

    def f(t: float, s: Array) -> Array:
        return np.array([s[0] * (1.1 - 0.4 * s[1]), s[1] * (0.1 * s[0] - 0.4)])

    exact = solution(f, [5, 3], np.array([8.0]))[-1]
    found = errors(text, (0.08, 0.04, 0.02), exact, tmp_path)
    assert_orders(found)
    assert found["rk4"][-1] < 1e-9


def test_order_of_convergence_with_decaying_inputs(tmp_path: Path) -> None:
    """A conductance that decays while the membrane is integrated: it is advanced exactly to every stage. The event
    of 0.08 ms arrives at that time; equations that use t keep their order as well."""
    neuron = """\
  problem:
    state: {v: 0 mV}
    inputs: {g: {decay: 3 ms}}
    let: {drive: g * (70 mV - v) / (1 ms), wave: 4 mV/ms * sin(t / (1.3 ms))}
    dynamics: {dv/dt: -v / (9 ms) + drive + wave - 0.05 * v * cos(t / (1 ms)) / (1 ms)}"""
    extra = f"""\
  source: {{neuron: library/neurons/spike_times, size: 1, params: {{times: [0.08 ms], indices: [0]}}}}
projections:
  kick: {{from: source, to: [{", ".join(f"p_{m}" for m in METHODS)}], connect: {{all_to_all: {{}}}},
         deliver: {{into: g, weight: 0.8}}}}"""

    def text(dt: float) -> str:
        return methods_side_by_side(neuron, "{v: 0 mV}", dt, "v", extra)

    def f(t: float, s: Array, g0: float) -> Array:
        v = s[0]
        g = g0 * math.exp(-(t - 0.08) / 3)
        return np.array([-v / 9 + g * (70 - v) + 4 * math.sin(t / 1.3) - 0.05 * v * math.cos(t)])

    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13}
    before = solve_ivp(f, (0, 0.08), [0.0], args=(0.0,), **options).y[:, -1]
    exact = solve_ivp(f, (0.08, 8), before, args=(0.8,), **options).y[:, -1]
    found = errors(text, (0.04, 0.02, 0.01), exact, tmp_path)
    assert_orders(found)


def test_exponential_euler_is_exact_where_the_equation_is_linear(tmp_path: Path) -> None:
    """An equation that is linear in its variable and reads nothing that moves has no error, however large dt is."""
    text = """\
language: 1
name: relaxation
neurons:
  relaxing: {state: {x: 4, y: 1}, method: exponential_euler, dynamics: {dx/dt: (1 - x) / (0.7 ms), dy/dt: 0.5 / (1 ms)}}
populations: {p: {neuron: relaxing, size: 1}}
simulate: {dt: 2 ms, duration: 20 ms, seed: 1}
record: [{trace: {from: p, variables: [x, y], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path)
    t = 2.0 * np.arange(1, 11)
    np.testing.assert_allclose(result.trace("p", "x"), 1 + 3 * np.exp(-t / 0.7), rtol=1e-14)
    np.testing.assert_allclose(result.trace("p", "y"), 1 + 0.5 * t, rtol=1e-14)


# -------------------------------------------------------------------------------------------------- auto


@pytest.mark.parametrize(
    ("dynamics", "chosen"),
    [
        ("dv/dt: (w - v) / tau, dw/dt: -w / (2 * tau)", "exact"),
        ("dv/dt: (w - v) / tau, dw/dt: -w * v / tau", "exponential_euler"),
        ("dv/dt: (w - v) / tau, dw/dt: -w * t / (tau * 1 ms)", "exponential_euler"),
        ("dv/dt: v * (1 - v) / tau, dw/dt: -w / tau", "rk4"),
    ],
)
def test_the_method_that_auto_chooses_is_reported(tmp_path: Path, dynamics: str, chosen: str) -> None:
    text = f"""\
language: 1
name: choice
neurons: {{cell: {{params: {{tau: 10 ms}}, state: {{v: 0.5, w: 1}}, dynamics: {{{dynamics}}}}}}}
populations: {{p: {{neuron: cell, size: 1}}}}
simulate: {{dt: 0.1 ms, duration: 1 ms, seed: 1}}
record: [{{trace: {{from: p, variables: [v, w], members: all}}}}]
"""
    result = simulate(text + FLOAT64, tmp_path)
    assert [d.verdict for d in result.lowered.decisions if d.pass_name == "integrate_odes"] == [chosen]
    asked = simulate(text.replace("state:", f"method: {chosen}, state:") + FLOAT64, tmp_path)
    for variable in ("v", "w"):
        np.testing.assert_array_equal(result.trace("p", variable), asked.trace("p", variable))


@pytest.mark.parametrize(
    ("method", "dynamics"),
    [("exact", "v * w / tau"), ("exact", "-v * t / tau ** 2"), ("exponential_euler", "v ** 2 / tau")],
)
def test_methods_that_do_not_fit_are_refused(tmp_path: Path, method: str, dynamics: str) -> None:
    text = f"""\
language: 1
name: refused
neurons: {{cell: {{params: {{tau: 10 ms}}, state: {{v: 1, w: 1}}, method: {method},
          dynamics: {{dv/dt: {dynamics}, dw/dt: -w / tau}}}}}}
populations: {{p: {{neuron: cell, size: 1}}}}
simulate: {{dt: 0.1 ms, duration: 1 ms, seed: 1}}
"""
    with pytest.raises(ModelError) as caught:
        simulate(text, tmp_path)
    assert [d.code for d in caught.value.diagnostics] == ["E0602"]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parameters_that_differ_from_neuron_to_neuron(tmp_path: Path, target: str) -> None:
    """A current or a time constant per neuron keeps the integration exact, also of what fades on its way to v."""
    text = """\
language: 1
name: heterogeneous
neurons:
  cell:
    params: {tau: 10 ms, drive: 5 mV, v_rest: -65 mV}
    state: {v: v_rest, y: 0 mV}
    inputs: {g: {unit: mV, decay: 4 ms}}
    dynamics: {dv/dt: (v_rest - v + drive + g + y) / tau, dy/dt: -y / (4 ms)}
populations:
  currents:
    neuron: cell
    size: 4
    params: {drive: [0 mV, 3 mV, -2 mV, 7.5 mV]}
    init: {v: [-60 mV, -70 mV, -65 mV, -50 mV]}
  constants: {neuron: cell, size: 4, params: {tau: [4 ms, 5 ms, 10 ms, 20 ms]}, init: {y: 6 mV}}
simulate: {dt: 0.5 ms, duration: 10 ms, seed: 1}
record: [{trace: {from: [currents, constants], variables: [v], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path, target)
    t = 0.5 * np.arange(1, 21)[:, None]
    rest = -65 + np.array([0, 3, -2, 7.5])
    expected = rest + (np.array([-60, -70, -65, -50]) - rest) * np.exp(-t / 10)
    np.testing.assert_allclose(result.traces["currents", "v"], expected, rtol=0, atol=1e-10)
    tau = np.array([5, 10, 20])
    through = np.hstack([t / 4 * np.exp(-t / 4), (np.exp(-t / 4) - np.exp(-t / tau)) / (1 - tau / 4)])
    expected = -60 - 5 * np.exp(-t / np.array([4, *tau])) + 6 * through
    np.testing.assert_allclose(result.traces["constants", "v"], expected, rtol=0, atol=1e-10)
    methods = [d.verdict for d in result.lowered.decisions if d.pass_name == "integrate_odes"]
    assert methods == ["exact", "exact"]


def test_it_is_said_where_parameters_of_each_neuron_cost_the_exact_solution(tmp_path: Path) -> None:
    """The library's alpha-shaped currents: exact with one time constant, else of first order, as the reason says."""
    text = """\
language: 1
populations: {a: {neuron: library/neurons/lif_psc_alpha, size: 2, params: {tau_m: TAU, I_e: [0 pA, 1 pA]}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
"""
    for tau, verdict, reason in (
        ("10 ms", "exact", "linear with constant coefficients"),
        ("[10 ms, 12 ms]", "exponential_euler", "linear equations, but coefficients differ .* (`tau_m`): first order"),
    ):
        lowered = simulate(text.replace("TAU", tau), tmp_path).lowered
        (found,) = (d for d in lowered.decisions if d.pass_name == "integrate_odes")
        assert found.verdict == verdict
        assert re.search(reason.replace("(`tau_m`)", r"\(`tau_m`\)"), found.reason)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_event_driven_states_that_drive_others(precision: str) -> None:
    """Depression with an inactive state (Tsodyks, Uziel and Markram 2000), solved at spikes and in each step."""
    text = """\
language: 1
neurons:
  cell: {inputs: {g: {}}, state: {v: 0}, update: [v = v + g]}
synapses:
  depressing:
    params: {tau_in: 2 ms, tau_rec: 40 ms}
    state: {y: 0, z: 0}
    let: {x: 1 - y - z}
    dynamics: {dz/dt: y / tau_in - z / tau_rec, dy/dt: -y / tau_in}
    SOLVED
    on_pre: [deliver(0.5 * x), y = y + 0.5 * x]
populations:
  a:
    neuron: library/neurons/spike_times
    size: 2
    params: {times: [1 ms, 4 ms, 30 ms, 31 ms, 300 ms], indices: [0, 1, 0, 1, 0]}
  b: {neuron: cell, size: 2}
projections:
  p:
    {from: a, to: b, connect: {all_to_all: {}}, synapse: depressing, deliver: {into: g},
     params: {tau_rec: [20 ms, 30 ms, 2 ms, 50 ms]}}
simulate: {dt: 1 ms, duration: 300 ms}
"""
    found = []
    for solved in ("event_driven: true", "method: rk4"):
        dt = "1 ms" if solved.startswith("event") else "0.05 ms"
        s = netloom.load(text.replace("SOLVED", solved).replace("dt: 1 ms", f"dt: {dt}")).simulation(
            precision=precision
        )
        s.run("300 ms")
        found.append(np.asarray(s["b"].v))
    np.testing.assert_allclose(*found, rtol=1e-7 if precision == "float64" else 1e-5)


# ----------------------------------------------------------------------------------------------- library


def hodgkin_huxley(t: float, s: Array) -> Array:
    """Hodgkin & Huxley (1952) in the modern sign convention, 10 uA/cm2."""
    v, m, h, n = s

    def x_over_expm1(x: float) -> float:
        return 1.0 if x == 0 else x / math.expm1(x)

    alpha_m, beta_m = x_over_expm1(-(v + 40) / 10), 4 * math.exp(-(v + 65) / 18)
    alpha_h, beta_h = 0.07 * math.exp(-(v + 65) / 20), 1 / (1 + math.exp(-(v + 35) / 10))
    alpha_n, beta_n = 0.1 * x_over_expm1(-(v + 55) / 10), 0.125 * math.exp(-(v + 65) / 80)
    current = 10 - 120 * m**3 * h * (v - 50) - 36 * n**4 * (v + 77) - 0.3 * (v + 54.387)
    return np.array(
        [current, alpha_m * (1 - m) - beta_m * m, alpha_h * (1 - h) - beta_h * h, alpha_n * (1 - n) - beta_n * n]
    )


SQUID = """\
language: 1
name: squid
populations: {p: {neuron: library/neurons/hodgkin_huxley, size: 1, params: {I_e: 10 uA/cm**2}}}
simulate: {dt: DT ms, duration: LENGTH ms, seed: 1}
record: [{spikes: {from: p}}, {trace: {from: p, variables: [v, m, h, n], members: all, every: 0.04 ms}}]
"""


@pytest.fixture(scope="module")
def squid() -> tuple[Array, Array]:
    """Times and states of Hodgkin and Huxley's neuron over two spikes, by an adaptive method of order 8."""
    times = 0.04 * np.arange(1, 501)
    start = [-65, 0.0529, 0.5961, 0.3177]
    found = solve_ivp(hodgkin_huxley, (0, 20), start, method="DOP853", rtol=1e-10, atol=1e-10, t_eval=times)
    return times, found.y.T


@pytest.mark.parametrize(("target", "samples"), [("cpu", 500), ("reference", 100)])
def test_hodgkin_huxley(tmp_path: Path, squid: tuple[Array, Array], target: str, samples: int) -> None:
    """RK4 against the adaptive method; the error falls with the fourth power of dt."""
    times, exact = squid[0][:samples], squid[1][:samples]
    largest = []
    for dt in (0.02, 0.01) if target == "cpu" else (0.02,):
        text = SQUID.replace("DT", str(dt)).replace("LENGTH", f"{0.04 * samples:g}")
        result = simulate(text + FLOAT64, tmp_path, target)
        for column, variable in enumerate(("v", "m", "h", "n")):
            tolerance = (3e-3 if variable == "v" else 3e-5) * (dt / 0.02) ** 4
            np.testing.assert_allclose(result.trace("p", variable), exact[:, column], rtol=0, atol=tolerance)
        largest.append(np.max(np.abs(result.trace("p", "v") - exact[:, 0])))
        crossings = times[1:][(exact[1:, 0] > 0) & (exact[:-1, 0] <= 0)]
        assert len(crossings) == (2 if target == "cpu" else 1)
        assert np.all(np.abs(np.array(result.steps_of("p")) * dt - crossings) <= 0.04)
    if len(largest) == 2:
        assert math.log2(largest[0] / largest[1]) == pytest.approx(4, abs=0.4)


IZHIKEVICH = """\
language: 1
name: izhikevich_types
neurons: {cell: {use: library/neurons/izhikevich}}
populations:
  regular: {neuron: cell, size: 1, params: {i_e: 10 mV/ms}}
  chattering: {neuron: cell, size: 1, params: {i_e: 10 mV/ms, c: -50 mV, d: 2 mV/ms}}
  fast: {neuron: cell, size: 1, params: {i_e: 10 mV/ms, a: 0.1 / (1 ms), d: 2 mV/ms}}
  kicked: {neuron: cell, size: 1}
  source: {neuron: library/neurons/spike_times, size: 1, params: {times: [10 ms, 40 ms], indices: [0, 0]}}
projections:
  kick: {from: source, to: kicked, connect: {all_to_all: {}}, deliver: {into: i, weight: 60 mV/ms}}
simulate: {dt: 0.5 ms, duration: 200 ms, seed: 1}
record:
  - spikes: {from: [regular, chattering, fast, kicked]}
  - trace: {from: [regular, chattering, fast, kicked], variables: [v, u], members: all}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_izhikevich(tmp_path: Path, target: str) -> None:
    """The published equations as a plain loop: explicit Euler, both variables from their old values."""
    result = simulate(IZHIKEVICH + FLOAT64, tmp_path, target)
    cells = {
        "regular": (0.02, -65.0, 8.0, 10.0),
        "chattering": (0.02, -50.0, 2.0, 10.0),
        "fast": (0.1, -65.0, 2.0, 10.0),
        "kicked": (0.02, -65.0, 8.0, 0.0),
    }
    for name, (a, c, d, current) in cells.items():
        v, u = -65.0, 0.2 * -65.0
        spikes, values = [], []
        for step in range(1, 401):
            i = 60.0 if name == "kicked" and step in (21, 81) else 0.0
            slope_v = 0.04 * v * v + 5 * v + 140 - u + i + current
            slope_u = a * (0.2 * v - u)
            v, u = v + 0.5 * slope_v, u + 0.5 * slope_u
            if v >= 30:
                spikes.append(step)
                v, u = c, u + d
            values.append((v, u))
        assert result.steps_of(name) == spikes
        assert len(spikes) >= 1
        for steps, tolerance in ((60, 1e-10), (400, 1e-4)):  # upstrokes magnify rounding
            for column, variable in enumerate(("v", "u")):
                wanted = np.array(values)[:steps, column]
                np.testing.assert_allclose(result.trace(name, variable)[:steps], wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_adex(tmp_path: Path, target: str) -> None:
    """Brette & Gerstner (2005) as a plain loop, with a synaptic current that decays exactly and refractoriness."""
    text = """\
language: 1
name: adaptive
populations:
  p: {neuron: library/neurons/adex, size: 1, params: {I_e: 900 pA, t_ref: 1.5 ms}}
  source: {neuron: library/neurons/spike_times, size: 1, params: {times: [30 ms, 31 ms], indices: [0, 0]}}
projections:
  kick: {from: source, to: p, connect: {all_to_all: {}}, deliver: {into: I_syn, weight: 800 pA}, delay: 1 ms}
simulate: {dt: 0.1 ms, duration: 200 ms, seed: 1}
record: [{spikes: {from: p}}, {trace: {from: p, variables: [v, w, I_syn], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path, target)
    v, w, current, left = -70.6, 0.0, 0.0, 0
    spikes, values = [], []
    for step in range(1, 2001):
        x = min(v, 0.0)
        slope_v = (30 * (-70.6 - v) + 30 * 2 * math.exp((x + 50.4) / 2) - w + current + 900) / 281
        slope_w = (4 * (x + 70.6) - w) / 144
        if left == 0:
            v += 0.1 * slope_v
        w += 0.1 * slope_w
        current *= math.exp(-0.1 / 5)
        if left:
            left -= 1
        elif v >= 0:
            spikes.append(step)
            v, w, left = -70.6, w + 80.5, 15
        if step in (310, 320):
            current += 800
        values.append((v, w, current))
    assert result.steps_of("p") == spikes
    assert len(spikes) > 3
    for column, variable in enumerate(("v", "w", "I_syn")):
        np.testing.assert_allclose(result.trace("p", variable), np.array(values)[:, column], rtol=0, atol=1e-8)


def test_library_neurons_in_one_model(tmp_path: Path) -> None:
    """Driven so that they spike, alike on both backends (test_library_bits.py has every neuron by itself)."""
    drive = {
        "lif": "i_e: 300 pA", "lif_psc_exp": "I_e: 600 pA", "lif_psc_exp_2": "I_e: 600 pA",
        "lif_psc_alpha": "I_e: 600 pA", "lif_cond_exp": "I_e: 300 pA", "izhikevich": "i_e: 12 mV/ms",
        "adex": "I_e: 1000 pA", "poisson": "rate: 200 Hz",
        "spike_times": "times: [3 ms], indices: [1]",
    }  # fmt: skip
    names = sorted(drive)
    populations = "\n".join(f"  {n}: {{neuron: library/neurons/{n}, size: 2, params: {{{drive[n]}}}}}" for n in names)
    text = f"""\
language: 1
name: library
populations:
{populations}
simulate: {{dt: 0.05 ms, duration: 30 ms, seed: 3}}
record: [{{spikes: {{from: all}}}}]
numerics: {{precision: float64}}
"""
    here = simulate(text, tmp_path)
    there = simulate(text, tmp_path, "reference")
    for name in names:
        assert len(here.spikes[name]) > 0, name
        np.testing.assert_array_equal(here.spikes[name], there.spikes[name], err_msg=name)


@pytest.mark.parametrize(("method", "most"), [("exact", 1e-13), ("rk4", 1e-6), ("rk2", 5e-3)])
def test_a_held_state_stands_still_for_what_reads_it(tmp_path: Path, method: str, most: float) -> None:
    """A dendrite while its soma is refractory: its equation alone, in each stage of a step, too."""
    text = f"""\
language: 1
name: compartments
neurons:
  cell:
    state: {{v: -49 mV, d: -50 mV}}
    let: {{drop: v - d}}
    method: {method}
    dynamics: {{dv/dt: -drop / (1 ms), dd/dt: drop / (3 ms)}}
    spike: {{when: v > -55 mV, reset: [v = -70 mV], refractory: 5 ms}}
populations: {{p: {{neuron: cell, size: 1}}}}
simulate: {{dt: 0.1 ms, duration: 5 ms}}
record: [{{trace: {{from: p, variables: [v, d]}}}}]
{FLOAT64}"""
    traces = simulate(text, tmp_path, "reference").traces
    soma, dendrite = traces["p", "v"].ravel(), traces["p", "d"].ravel()
    np.testing.assert_array_equal(soma, -70)
    expected = -70 + (dendrite[0] + 70) * np.exp(-0.1 / 3 * np.arange(50))
    np.testing.assert_allclose(dendrite, expected, rtol=0, atol=most)


# ------------------------------------------------------------------------------------------------- names

CLASHES = """\
language: 1
name: clashes
params: {<n>: {value: 3, type: int}, <slots>: {value: 2 mV}}
neurons:
  cell:
    params: {<step>: 1 mV, <key>: 0.5 mV, <spikes>: 10 ms, <e>: 2 ms, <pi>: 1 mV, <int>: 1 mV}
    state: {<i>: 1 mV, <held>: 0 mV, v: 2 mV, <v_next>: 0.25 mV, <k1_v>: 0.5 mV, <double>: 0 mV, <ring_slots>: 0 mV}
    inputs: {<weight>: {unit: mV, decay: <e>}, <row>: {unit: mV}}
    let: {<spiked>: <v_next> + <k1_v>, <v_2>: 2 * <spiked>, <decay_weight>: <v_2> - <spiked>}
    method: METHOD
    dynamics: {dv/dt: (<decay_weight> - v + <weight>) / <spikes>, d<i>/dt: (v - <i>) / <spikes>}
    update:
      - <slot> = <row> + <pi>
      - <held> = <held> + <slot> + <slots>
      - <refractory_left> = <held> + <key>
      - <double> = <double> + (<refractory_left> - <held>) * 2 + <int> - <step> * 0.5
    spike:
      when: <held> > 100.5 mV
      reset: [<ring_slots> = <ring_slots> + <key> * 2, <held> = <ring_slots>]
      refractory: {time: 0.2 ms, hold: [<held>]}
populations:
  p: {neuron: cell, size: <n>}
  source: {neuron: library/neurons/spike_times, size: 3, params: {times: [1 ms], indices: [1]}}
projections:
  col: {from: source, to: p, connect: {one_to_one: {}}, deliver: {into: <row>, weight: 3 mV}}
  delay: {from: source, to: p, connect: {one_to_one: {}}, deliver: {into: <weight>, weight: 3 mV}}
simulate: {dt: 0.1 ms, duration: 10 ms, seed: 1}
record:
  - spikes: {from: p}
  - trace: {from: p, variables: [<i>, <held>, v, <double>, <weight>, <row>, <ring_slots>], members: all}
"""


@pytest.mark.parametrize(("order", "method"), diagonal(["reproducible", "bitwise"], ["exact", "rk4"]))
def test_any_name_may_be_used(tmp_path: Path, method: str, order: str) -> None:
    """Names also used by the compiler, C or Python: the model runs as with ordinary names."""
    text = CLASHES.replace("METHOD", method) + f"numerics: {{precision: float64, order: {order}}}\n"
    odd = simulate(re.sub(r"<(\w+)>", r"\1", text), tmp_path)
    usual = simulate(re.sub(r"<(\w+)>", r"plain_\1_x", text), tmp_path)
    np.testing.assert_array_equal(odd.spikes["p"], usual.spikes["p"])
    assert len(odd.spikes["p"]) > 0
    for variable in ("i", "held", "double", "weight", "row", "ring_slots"):
        mine = odd.traces["p", variable]
        np.testing.assert_array_equal(mine, usual.traces["p", f"plain_{variable}_x"])
        assert np.ptp(mine) > 0, variable
    np.testing.assert_array_equal(odd.traces["p", "v"], usual.traces["p", "v"])


def test_a_period_that_is_no_whole_number_of_steps_is_refused(tmp_path: Path) -> None:
    text = """\
language: 1
name: uneven
populations: {p: {neuron: library/neurons/lif, size: 1, params: {t_ref: 0.25 ms}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
"""
    with pytest.raises(ModelError):
        model_of(text, tmp_path)
