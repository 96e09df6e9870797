"""Drives of neurons: currents, timed arrays, white noise, time-dependent parameters and rates.

A source's value in step k is that at (k-1) dt. `meter` shows what an input or a parameter is in each step.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

FLOAT64 = "numerics: {precision: float64}\n"
both = pytest.mark.parametrize("target", ["cpu", "reference"])
METER = "{params: {p: 0 pA}, state: {x: 0 pA, y: 0 pA}, inputs: {c: {unit: pA}}, update: [x = c, y = p]}"


def model(body: str, steps: int, dt: float = 0.5, size: int = 1, record: str = "x, y") -> str:
    """Populations of meters `p`, driven as `body` says."""
    return f"""\
language: 1
name: driven
neurons: {{meter: {METER}}}
populations: {{p: {{neuron: meter, size: {size}}}}}
{body}
simulate: {{dt: {dt} ms, duration: {steps * dt} ms, seed: 7}}
record: [{{trace: {{from: p, variables: [{record}], members: all}}}}]
"""


# ------------------------------------------------------------------------------------------- timed arrays


@both
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_timed_array_in_each_step(tmp_path: Path, target: str, precision: str) -> None:
    """Row (k-1) // every in step k, the last one to the end; columns per neuron; linear in between if asked for."""
    text = f"""\
language: 1
name: rows
timed:
  one: {{values: [3 pA, -1 pA, 7 pA], every: 0.3 ms}}
  many: {{values: [[1, 2, 3], [4, 5, 6]], every: 0.2 ms, unit: nA}}
  line: {{values: [0, 10, -10], every: 0.4 ms, interpolate: true}}
neurons:
  meter:
    params: {{rest: 0 pA}}
    state: {{x: 0 pA, y: 0 pA, z: 0, w: 0 pA}}
    let: {{twice: 2 * one(t)}}
    update: [x = one(t), "y = many(t, i)", z = line(t), w = twice + rest]
populations: {{p: {{neuron: meter, size: 3}}}}
simulate: {{dt: 0.1 ms, duration: 1.5 ms, seed: 1}}
record: [{{trace: {{from: p, variables: [x, y, z, w], members: all}}}}]
numerics: {{precision: {precision}}}
"""
    result = simulate(text, tmp_path, target)
    k = np.arange(15)
    one = np.array([3.0, -1, 7])[np.minimum(k // 3, 2)]
    rows = np.array([[1e3, 2e3, 3e3], [4e3, 5e3, 6e3]])[np.minimum(k // 2, 1)]
    line = np.interp(k / 4, [0, 1, 2], [0.0, 10, -10])
    for neuron in range(3):
        np.testing.assert_array_equal(result.trace("p", "x", neuron), one)
        np.testing.assert_array_equal(result.trace("p", "y", neuron), rows[:, neuron])
        np.testing.assert_array_equal(result.trace("p", "w", neuron), 2 * one)
        np.testing.assert_allclose(result.trace("p", "z", neuron), line, rtol=0, atol=1e-5)


def test_timed_arrays_from_files(tmp_path: Path) -> None:
    """The same values in .npy, .npz and .csv, with a unit."""
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(size=(4, 2)), 3)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "b.npz", two=values, one=values[:, 0])
    np.savetxt(tmp_path / "c.csv", values[:, 1], delimiter=",")
    text = """\
language: 1
name: files
timed:
  a: {values: {file: a.npy}, every: 1 ms, unit: nA}
  b: {values: {file: b.npz, array: one}, every: 1 ms, unit: pA}
  c: {values: {file: c.csv}, every: 1 ms, unit: pA}
neurons:
  meter:
    state: {x: 0 pA, y: 0 pA, z: 0 pA}
    update: ["x = a(t, i)", y = b(t), z = c(t)]
populations: {p: {neuron: meter, size: 2}}
simulate: {dt: 1 ms, duration: 4 ms, seed: 1}
record: [{trace: {from: p, variables: [x, y, z], members: all}}]
numerics: {precision: float64}
"""
    result = simulate(text, tmp_path)
    np.testing.assert_allclose(result.traces["p", "x"], values * 1000, rtol=1e-14)
    np.testing.assert_array_equal(result.trace("p", "y"), values[:, 0])
    np.testing.assert_array_equal(result.trace("p", "z", 1), values[:, 1])


@both
def test_timed_array_in_exact_dynamics(tmp_path: Path, target: str) -> None:
    """A membrane driven by a timed array is integrated exactly: the array is constant within each step."""
    text = """\
language: 1
name: membrane
timed: {drive: {values: [0 pA, 100 pA, -50 pA], every: 4 ms}}
neurons:
  membrane: {params: {tau: 7 ms, R: 0.1 GOhm}, state: {v: 0 mV}, dynamics: {dv/dt: (R * drive(t) - v) / tau}}
populations: {p: {neuron: membrane, size: 1}}
simulate: {dt: 0.5 ms, duration: 12 ms, seed: 1}
record: [{trace: {from: p, variables: [v], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path, target)
    assert any(d.verdict == "exact" for d in result.lowered.decisions if d.subject == "membrane")
    v, expected = 0.0, []
    for k in range(24):
        target_v = 0.1 * [0, 100, -50][k // 8]
        v = target_v + (v - target_v) * math.exp(-0.5 / 7)
        expected.append(v)
    np.testing.assert_allclose(result.trace("p", "v"), expected, rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------- deterministic currents


@pytest.mark.parametrize(("target", "into"), diagonal(["cpu", "reference"], ["c", "p"]))
def test_currents_as_functions_of_time(tmp_path: Path, target: str, into: str) -> None:
    """Each source by its formula at (k-1) dt, into an input and into a parameter; several add up."""
    sources = {
        "dc": ("amplitude: 3 pA", lambda t: 3.0 + 0 * t),
        "step": ("amplitude: 5 pA, start: 3 ms, stop: 7 ms", lambda t: 5.0 * ((t >= 3) & (t < 7))),
        "sine": (
            "amplitude: 2 pA, offset: 1 pA, frequency: 100 Hz, phase: 0.4",
            lambda t: 1 + 2 * np.sin(2 * np.pi * 0.1 * t + 0.4),
        ),
        "from_file": (
            "values: [1 pA, 4 pA, 2 pA], every: 2 ms",
            lambda t: np.array([1.0, 4, 2])[np.minimum(t // 2, 2).astype(int)],
        ),
        "ramp": ("slope: 0.5 pA/ms", lambda t: 0.5 * t),
    }
    t = np.arange(40) * 0.25
    shown = "x" if into == "c" else "y"
    own = "currents: {ramp: {params: {slope: 1 pA/ms}, let: {rise: slope * t}, value: rise}}\n"
    expected = []
    for number, (name, (params, f)) in enumerate(sources.items()):
        body = f"{own}inputs: {{s: {{to: p, current: {{into: {into}, source: {name}, params: {{{params}}}}}}}}}"
        result = simulate(model(body, 40, 0.25, record=shown) + FLOAT64, tmp_path / "", target)
        expected.append(f(t))
        np.testing.assert_allclose(result.trace("p", shown), expected[number], rtol=0, atol=1e-12)
    items = [
        f"  {name}: {{to: p, current: {{into: {into}, source: {name}, params: {{{params}}}}}}}"
        for name, (params, _) in sources.items()
    ]
    items += [
        f"  fixed: {{to: p, current: {{into: {into}, amplitude: 10 pA}}}}",
        f"  formula: {{to: p, current: {{into: {into}, amplitude: 1 pA * (t / (1 ms)) ** 2}}}}",
    ]
    body = own + "inputs:\n" + "\n".join(items)
    result = simulate(model(body, 40, 0.25, record=shown) + FLOAT64, tmp_path, target)
    np.testing.assert_allclose(result.trace("p", shown), sum(expected) + 10 + t**2, rtol=0, atol=1e-11)


def test_step_begins_and_ends_on_time_in_single_precision(tmp_path: Path) -> None:
    """Start and stop are exact in spite of rounding, for any multiple of dt."""
    for dt in (0.1, 0.025, 0.3):
        for k in (1, 7, 33, 1111):
            params = f"amplitude: 1 pA, start: {k * dt!r} ms, stop: {(k + 5) * dt!r} ms"
            body = f"inputs: {{s: {{to: p, current: {{into: c, source: step, params: {{{params}}}}}}}}}"
            result = simulate(model(body, k + 10, dt, record="x"), tmp_path)
            assert np.flatnonzero(result.trace("p", "x")).tolist() == [k + n for n in range(5)]


def test_dc_is_the_constant_current(tmp_path: Path) -> None:
    """`amplitude`, library/currents/dc and a parameter of that value do the same."""
    text = """\
language: 1
name: same
populations:
  a: {neuron: lif, size: 2, params: {i_e: 170 pA}}
  b: {neuron: lif, size: 2}
  c: {neuron: lif, size: 2, params: {i_e: 70 pA}}
  d: {neuron: lif, size: 2, params: {i_e: [70 pA, 70 pA]}}
  e: {neuron: lif, size: 2, params: {i_e: 170 pA + 0 pA * sin(t / 1 ms)}}
inputs:
  b: {to: b, current: {into: i_e, amplitude: 170 pA}}
  c: {to: [c, d], current: {into: i_e, source: dc, params: {amplitude: 100 pA}}}
simulate: {dt: 0.1 ms, duration: 200 ms, seed: 1}
record: [{spikes: {from: all}}, {trace: {from: all, variables: [v], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path)
    assert len(result.steps_of("a")) > 5
    for other in "bcde":
        np.testing.assert_array_equal(result.spikes["a"], result.spikes[other])
        np.testing.assert_allclose(result.traces["a", "v"], result.traces[other, "v"], rtol=0, atol=1e-11)


@both
def test_drive_on_top_of_values_per_neuron(tmp_path: Path, target: str) -> None:
    """A parameter that differs from neuron to neuron keeps its values, drawn as without the drive."""
    text = """\
language: 1
name: base
neurons: {meter: {params: {p: 0 pA}, state: {y: 0 pA}, update: [y = p]}}
populations:
  a: {neuron: meter, size: 50, params: {p: {normal: {mean: 10 pA, std: 3 pA}}}}
DRIVE
simulate: {dt: 1 ms, duration: 6 ms, seed: 9}
record: [{trace: {from: a, variables: [y], members: all}}]
numerics: {precision: float64}
"""
    one = "inputs: {s: {to: a, current: {into: p, source: sine, params: {amplitude: 1 pA, frequency: 125 Hz}}}}"
    plain = simulate(text.replace("DRIVE", ""), tmp_path, target).traces["a", "y"]
    driven = simulate(text.replace("DRIVE", one), tmp_path, target).traces["a", "y"]
    assert plain[0].std() > 1
    wave = np.sin(2 * np.pi * 0.125 * np.arange(6))
    np.testing.assert_allclose(driven - plain, np.broadcast_to(wave[:, None], (6, 50)), rtol=0, atol=1e-12)


# --------------------------------------------------------------------------------------------------- noise


def agrees(values: Array, variance: float, independent: float) -> None:
    """The variance of samples of which so many are independent, within 4.5 standard errors."""
    assert abs(values.mean()) < 4.5 * math.sqrt(variance / independent)
    assert values.var() == pytest.approx(variance, abs=4.5 * variance * math.sqrt(2 / independent))


MEMBRANE = """\
language: 1
name: noisy
neurons:
  by_current:
    params: {C: 200 pF, g: 20 nS, I: 0 pA}
    state: {v: 0 mV}
    dynamics: {dv/dt: (I - g * v) / C}
  by_equation:
    params: {tau: 10 ms, sigma: 4 mV}
    state: {v: 0 mV}
    METHOD
    dynamics: {dv/dt: -v / tau + sigma * sqrt(2 / tau) * xi}
populations:
  a: {neuron: by_current, size: 1500}
  b: {neuron: by_equation, size: 1500}
inputs: {s: {to: a, current: {into: I, source: gaussian_noise, params: {std: 100 pA, interval: 2 ms}}}}
simulate: {dt: DT ms, duration: 160 ms, seed: 3}
record: [{trace: {from: [a, b], variables: [v], members: all, every: 2 ms}}]
"""


@pytest.mark.parametrize("dt", [0.1, 2.0])
def test_variance_of_a_membrane_does_not_depend_on_dt(tmp_path: Path, dt: float) -> None:
    """Ornstein and Uhlenbeck: C dv/dt = -g v + white noise has the variance std^2 interval / (2 g C); with the noise
    constant in each step, that times tanh(x) / x, x = dt / (2 tau), which is 0.997 at dt = tau / 5."""
    result = simulate(MEMBRANE.replace("DT", str(dt)).replace("METHOD", ""), tmp_path)
    x = dt / 20
    factor = math.tanh(x) / x
    for population, variance in (("a", 100**2 * 2 / (2 * 20 * 200)), ("b", 4.0**2)):
        values = result.traces[population, "v"][25:]  # 50 ms are 5 time constants
        # Samples 2 ms apart are correlated by exp(-0.2): of their squares, exp(-0.4).
        r = math.exp(-0.4)
        agrees(values, variance * factor, values.size * (1 - r) / (1 + r) / 2.0)


@pytest.mark.parametrize("method", ["euler", "exponential_euler", "rk4"])
def test_noise_in_each_method(tmp_path: Path, method: str) -> None:
    """Euler-Maruyama has the variance sigma^2 / (1 - dt / (2 tau)); the others hold the noise over the step."""
    result = simulate(MEMBRANE.replace("DT", "2").replace("METHOD", f"method: {method}"), tmp_path)
    x = 2 / 20
    factor = 1 / (1 - x) if method == "euler" else math.tanh(x) / x
    values = result.traces["b", "v"][25:]
    r = math.exp(-0.4)
    agrees(values, 16 * factor, values.size * (1 - r) / (1 + r) / 2.0)


@both
def test_noise_is_one_process_per_name(tmp_path: Path, target: str) -> None:
    """Equations that read `xi` share one process, `xi_2` is another; neurons are independent."""
    text = """\
language: 1
name: shared
neurons:
  walk:
    state: {x: 0, y: 0, z: 0}
    dynamics: {dx/dt: xi / sqrt(1 ms), dy/dt: 2 * xi / sqrt(1 ms), dz/dt: xi_2 / sqrt(1 ms)}
populations: {p: {neuron: walk, size: 400}}
simulate: {dt: 0.25 ms, duration: 10 ms, seed: 5}
record: [{trace: {from: p, variables: [x, y, z], members: all}}]
"""
    result = simulate(text + FLOAT64, tmp_path, target)
    x, y, z = (np.diff(result.traces["p", v], axis=0, prepend=0) for v in "xyz")
    np.testing.assert_allclose(y, 2 * x, rtol=0, atol=1e-12)
    n = x.size
    assert x.var() == pytest.approx(0.25, abs=4.5 * 0.25 * math.sqrt(2 / n))
    assert abs(np.corrcoef(x.ravel(), z.ravel())[0, 1]) < 4.5 / math.sqrt(n)
    assert abs(np.corrcoef(x[:, :-1].ravel(), x[:, 1:].ravel())[0, 1]) < 4.5 / math.sqrt(n)
    assert abs(np.corrcoef(x[:-1].ravel(), x[1:].ravel())[0, 1]) < 4.5 / math.sqrt(n)


def test_multiplicative_noise_is_ito(tmp_path: Path) -> None:
    """Geometric Brownian motion dv = mu v dt + s v dW: the mean grows as exp(mu t); the mean of log v, by Ito's
    formula, as (mu - s^2/2) t (Stratonovich's integral would have mu t)."""
    text = """\
language: 1
name: geometric
neurons:
  brown:
    params: {mu: 0.02 / (1 ms), s: 0.3 / sqrt(1 ms)}
    state: {v: 1}
    dynamics: {dv/dt: mu * v + s * v * xi}
populations: {p: {neuron: brown, size: 20000}}
simulate: {dt: 0.01 ms, duration: 5 ms, seed: 2}
record: [{trace: {from: p, variables: [v], members: all, every: 5 ms}}]
"""
    result = simulate(text + FLOAT64, tmp_path)
    assert any(d.verdict == "euler" for d in result.lowered.decisions if d.subject == "brown")
    logs = np.log(result.traces["p", "v"][-1])
    error = 0.3 * math.sqrt(5 / 20000)
    assert abs(logs.mean() - (0.02 - 0.045) * 5) < 4.5 * error + 5e-4
    assert logs.var() == pytest.approx(0.45, rel=0.05)


@pytest.mark.parametrize("dt", [0.5, 4.0])
def test_ornstein_uhlenbeck_is_exact(tmp_path: Path, dt: float) -> None:
    """Variance and autocorrelation of the process itself, at a step of a tenth of and of most of its time constant."""
    steps = int(200 / dt)
    body = (
        "inputs: {s: {to: p, current: {into: c, source: ornstein_uhlenbeck, "
        "params: {sigma: 3 pA, mean: 10 pA, tau: 5 ms}}}}"
    )
    result = simulate(model(body, steps, dt, 1000, "x"), tmp_path)
    x = result.traces["p", "x"].astype(np.float64)
    assert np.all(x[0] == 10)  # it starts at its mean
    x = x[int(40 / dt) :] - 10
    r = math.exp(-2 * dt / 5)
    agrees(x, 9.0, x.size * (1 - r) / (1 + r) / 2.0)
    lag = (x[:-1] * x[1:]).mean() / (x**2).mean()
    assert lag == pytest.approx(math.exp(-dt / 5), abs=0.02)


def test_poisson_exp_by_campbell(tmp_path: Path) -> None:
    """Mean w r tau, variance w^2 r tau / 2, up to terms of dt / (2 tau)."""
    body = (
        "inputs: {s: {to: p, current: {into: p, source: poisson_exp, params: {weight: 2 pA, rate: 3 kHz, tau: 4 ms}}}}"
    )
    result = simulate(model(body, 2000, 0.05, 500, "y"), tmp_path)
    y = result.traces["p", "y"].astype(np.float64)[800:]
    decay = math.exp(-0.05 / 4)
    mean, variance = 2 * 3 * 0.05 / (1 - decay), 4 * 3 * 0.05 / (1 - decay**2)
    assert mean == pytest.approx(24, rel=0.01)
    assert variance == pytest.approx(24, rel=0.02)
    independent = 500 * 60 / 8
    assert y.mean() == pytest.approx(mean, abs=4.5 * math.sqrt(variance / independent))
    assert y.var() == pytest.approx(variance, rel=4.5 * math.sqrt(2 / independent) * 1.2)


# ----------------------------------------------------------------------------------- rates and parameters


@both
def test_rates_of_the_time(tmp_path: Path, target: str) -> None:
    """A Poisson input and a Poisson population whose rates are timed arrays, with one value per target."""
    text = """\
language: 1
name: rates
timed: {rates: {values: [0 Hz, 400 Hz, 100 Hz], every: 20 ms}}
neurons: {counter: {state: {n: 0}, inputs: {c: {}}, update: [n = c]}}
populations:
  a: {neuron: counter, size: 300}
  b: {neuron: counter, size: 300}
  trains: {neuron: poisson, size: 600, params: {rate: rates(t)}}
inputs:
  s:
    to: [a, b]
    values: {factor: {by_target: [1, 5]}}
    poisson: {into: c, rate: factor * rates(t), weight: 2}
simulate: {dt: 0.5 ms, duration: 60.5 ms, seed: 8}
record:
  - trace: {from: [a, b], variables: [n], members: all}
  - spikes: {from: trains}
"""
    result = simulate(text, tmp_path, target)
    for name, factor in (("a", 1), ("b", 5)):
        counts = result.traces[name, "n"][1:] / 2  # an event of step k acts in step k+1
        for part, rate in enumerate((0.0, 0.4, 0.1)):
            mean = rate * factor * 0.5
            values = counts[40 * part : 40 * (part + 1)]
            assert abs(values.sum() - mean * values.size) <= 4.5 * math.sqrt(mean * values.size)
            assert abs(values.var() - mean) <= 5 * math.sqrt((mean + 2 * mean**2) / values.size)
    steps = result.spikes["trains"][:, 0]
    for part, rate in enumerate((0.0, 0.4, 0.1)):
        count = np.count_nonzero((steps > 40 * part) & (steps <= 40 * (part + 1)))
        p = rate * 0.5
        assert abs(count - p * 40 * 600) <= 4.5 * math.sqrt(p * (1 - p) * 40 * 600)


def test_adding_a_drive_changes_no_other(tmp_path: Path) -> None:
    """Random streams of noise are keyed by drive and population."""

    def run(extra: str) -> Simulated:
        noise = "current: {into: c, source: gaussian_noise, params: {std: 1 pA}}"
        body = f"inputs: {{{extra}s: {{to: p, {noise}}}}}"
        return simulate(model(body, 20, size=5, record="x"), tmp_path)

    alone = run("").traces["p", "x"]
    other = run("q: {to: p, current: {into: p, source: gaussian_noise, params: {std: 1 pA}}}, ").traces["p", "x"]
    np.testing.assert_array_equal(alone, other)
    assert alone.std() > 0.5
