"""models/izhikevich_patterns.yaml: each of the 20 patterns of Izhikevich (2004), by an iteration of its own and by what
the figure shows of it.

Times are those of the author's code: the iteration at time t is the step that begins at t.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from compiler.frontend.load import load_model
from tests.numeric.simulated import Array, Simulated, run, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

DT = 0.05


def during(t: float, length: float, *begins: float) -> bool:
    return any(b < t < b + length for b in begins)


Panel = tuple[float, float, float, float, float, float, float, Callable[[float], float]]
PANELS: dict[str, Panel] = {  # a, b, c, d, first v, step, end, input
    "a_tonic_spiking": (0.02, 0.2, -65, 6, -70, 0.25, 100, lambda t: 14 * (t > 10)),
    "b_phasic_spiking": (0.02, 0.25, -65, 6, -64, 0.25, 200, lambda t: 0.5 * (t > 20)),
    "c_tonic_bursting": (0.02, 0.2, -50, 2, -70, 0.25, 220, lambda t: 15 * (t > 22)),
    "d_phasic_bursting": (0.02, 0.25, -55, 0.05, -64, 0.2, 200, lambda t: 0.6 * (t > 20)),
    "e_mixed_mode": (0.02, 0.2, -55, 4, -70, 0.25, 160, lambda t: 10 * (t > 16)),
    "f_frequency_adaptation": (0.01, 0.2, -65, 8, -70, 0.25, 85, lambda t: 30 * (t > 8.5)),
    "g_class_1": (0.02, -0.1, -55, 6, -60, 0.25, 300, lambda t: 0.075 * (t - 30) if t > 30 else 0),
    "h_class_2": (0.2, 0.26, -65, 0, -64, 0.25, 300, lambda t: -0.5 + (0.015 * (t - 30) if t > 30 else 0)),
    "i_spike_latency": (0.02, 0.2, -65, 6, -70, 0.2, 100, lambda t: 7.04 * during(t, 3, 10)),
    "j_subthreshold_oscillations": (0.05, 0.26, -60, 0, -62, 0.25, 200, lambda t: 2 * during(t, 5, 20)),
    "k_resonator": (0.1, 0.26, -60, -1, -62, 0.25, 400, lambda t: 0.65 * during(t, 4, 40, 60, 280, 320)),
    "l_integrator": (
        0.02, -0.1, -55, 6, -60, 0.25, 100, lambda t: 9 * during(t, 2, 100 / 11, 100 / 11 + 5, 70, 80)
    ),
    "m_rebound_spike": (0.03, 0.25, -60, 4, -64, 0.2, 200, lambda t: -15 * during(t, 5, 20)),
    "n_rebound_burst": (0.03, 0.25, -52, 0, -64, 0.2, 200, lambda t: -15 * during(t, 5, 20)),
    "o_threshold_variability": (
        0.03, 0.25, -60, 4, -64, 0.25, 100, lambda t: during(t, 5, 10, 80) - 6 * during(t, 5, 70)
    ),
    "p_bistability": (0.1, 0.26, -60, 0, -61, 0.25, 300, lambda t: 0.24 + during(t, 5, 37.5, 216)),
    "q_depolarizing_after_potential": (1, 0.2, -60, -21, -70, 0.1, 50, lambda t: 20 * (abs(t - 10) < 1)),
    "r_accommodation": (
        0.02, 1, -55, 4, -65, 0.5, 400,
        lambda t: t / 25 if t < 200 else (t - 300) / 12.5 * 4 if 300 <= t < 312.5 else 0,
    ),
    "s_inhibition_induced_spiking": (-0.02, -1, -60, 8, -63.8, 0.5, 350, lambda t: 80 if t < 50 or t > 250 else 75),
    "t_inhibition_induced_bursting": (-0.026, -1, -45, -2, -63.8, 0.5, 350, lambda t: 80 if t < 50 or t > 250 else 75),
}  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    model = load_model(Path(__file__).parents[2] / "models" / "izhikevich_patterns.yaml", {})
    assert model.simulate is not None
    return run(start(model, tmp_path_factory.mktemp("patterns")), model.simulate.steps)


def spikes(result: Simulated, name: str, end: float | None = None) -> Array:
    """Times of spikes within the panel."""
    times = (np.array(result.steps_of(name)) - 1) * DT
    return times[times <= (PANELS[name][6] if end is None else end) + 1e-9]


def test_each_panel_is_there(result: Simulated) -> None:
    assert [p.name for p in result.model.populations] == list(PANELS)


@pytest.mark.parametrize("name", list(PANELS))
def test_pattern_is_that_of_the_published_iteration(result: Simulated, name: str) -> None:
    """Euler's rule with the panel's step; u reads the new v; both before the reset."""
    a, b, c, d, v, h, end, current = PANELS[name]
    u = -16.0 if name == "r_accommodation" else b * v
    linear, constant = (4.1, 108.0) if name in ("g_class_1", "l_integrator") else (5.0, 140.0)
    times = []
    for k in range(round(end / h) + 1):
        t = round(k * h, 10)
        v = v + h * (0.04 * v**2 + linear * v + constant - u + current(t))
        u = u + h * a * (b * (v + 65) if name == "r_accommodation" else b * v - u)
        if v > 30:
            times.append(t)
            v, u = c, u + d
    np.testing.assert_allclose(spikes(result, name), times, rtol=0, atol=1e-9)


def bursts(times: Array, gap: float) -> list[int]:
    """Numbers of spikes between silences longer than `gap`."""
    edges = np.flatnonzero(np.diff(times) > gap) + 1
    return [len(part) for part in np.split(times, edges)] if len(times) else []


def test_spiking_and_bursting(result: Simulated) -> None:
    """(a) goes on for as long as the current lasts, (b) fires once, (c) bursts again and again, (d) once, (e) bursts
    and then goes on with single spikes, (f) slows down."""
    assert 3 <= len(spikes(result, "a_tonic_spiking")) <= 7
    assert spikes(result, "a_tonic_spiking")[-1] > 80
    assert len(spikes(result, "b_phasic_spiking", 400)) == 1
    assert len(bursts(spikes(result, "c_tonic_bursting"), 15)) >= 3
    assert min(bursts(spikes(result, "c_tonic_bursting"), 15)[:-1]) >= 3
    assert bursts(spikes(result, "d_phasic_bursting", 400), 30) == [6]
    mixed = bursts(spikes(result, "e_mixed_mode", 400), 15)
    assert mixed[0] >= 3
    assert len(mixed) >= 5
    assert set(mixed[1:]) == {1}
    intervals = np.diff(spikes(result, "f_frequency_adaptation"))
    assert np.all(np.diff(intervals) > 0)
    assert intervals[-1] > 8 * intervals[0]


def test_excitability(result: Simulated) -> None:
    """Under a ramp of current, (g) begins with a low rate that grows several times; (h) begins with a high one."""
    first = np.diff(spikes(result, "g_class_1"))
    assert np.all(np.diff(first) < 0)
    assert first[0] > 2.5 * first[-1]
    second = np.diff(spikes(result, "h_class_2"))
    assert second[0] < 2.0 * second[-1]
    assert second[0] < 0.6 * first[0]


def test_latency_oscillations_resonance_integration(result: Simulated) -> None:
    """(i) fires long after its pulse, (j) rings after a spike, (k) prefers one interval of pulses, (l) a short one."""
    assert len(latency := spikes(result, "i_spike_latency")) == 1
    assert latency[0] - 13 > 8
    assert len(spikes(result, "j_subthreshold_oscillations", 400)) == 1
    v = result.trace("j_subthreshold_oscillations", "v")[300::5]  # from 30 ms on, one sample each 0.5 ms
    peaks = v[1:-1][(v[1:-1] > v[:-2]) & (v[1:-1] >= v[2:])]
    assert len(peaks) >= 3
    assert np.all(np.diff(peaks[:3]) < 0)  # damped
    assert spikes(result, "k_resonator")[0] > 320
    assert len(spikes(result, "k_resonator")) == 1
    assert len(integrator := spikes(result, "l_integrator")) == 1
    assert 14 < integrator[0] < 25


def test_rebound_variability_bistability(result: Simulated) -> None:
    """(m, n) fire after inhibition, (o) only when excitation follows inhibition, (p) is switched on and off by the
    same pulse."""
    assert len(rebound := spikes(result, "m_rebound_spike", 400)) == 1
    assert rebound[0] > 25
    assert len(burst := spikes(result, "n_rebound_burst")) >= 4
    assert burst[0] > 25
    assert len(variable := spikes(result, "o_threshold_variability")) == 1
    assert variable[0] > 80
    on = spikes(result, "p_bistability", 400)
    assert 37.5 < on[0] < 60
    assert on[-1] < 216 + 5
    assert len(on) >= 4
    assert np.ptp(np.diff(on)) < 1


def test_after_potential_accommodation_inhibition(result: Simulated) -> None:
    """(q) one spike and a depolarization that decays, (r) no spike for the slow ramp, one for the fast, (s, t) spikes
    and bursts while inhibition lasts."""
    after = spikes(result, "q_depolarizing_after_potential")
    assert len(after) == 1
    v = result.trace("q_depolarizing_after_potential", "v")
    reset = round(after[0] / 0.1) + 2
    assert v[reset : reset + 100].max() > v[-1] + 3  # the potential after the spike is above rest, where it ends
    assert abs(v[-1] + 70) < 0.5
    assert 300 < spikes(result, "r_accommodation")[0] < 313
    assert len(spikes(result, "r_accommodation")) == 1
    for name, least in (("s_inhibition_induced_spiking", 1), ("t_inhibition_induced_bursting", 3)):
        times = spikes(result, name)
        assert len(times) >= 3
        assert np.all((times > 50) & (times < 262))
        assert max(bursts(times, 20)) >= least
    assert max(bursts(spikes(result, "s_inhibition_induced_spiking"), 20)) == 1
