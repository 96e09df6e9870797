"""Every neuron and every current of the library: cpu and reference give the same bits, in both precisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.frontend.language.spiking.currents import LIBRARY_CURRENTS
from compiler.frontend.language.spiking.populations import LIBRARY_NEURONS
from tests.numeric.simulated import simulate

pytestmark = pytest.mark.usefixtures("cc")

DRIVES = {  # a current or rate that makes each fire or move soon
    "adex": "I_e: 900 pA",
    "alif": "i_e: 0.05",
    "eif": "I_e: 300 pA",
    "hodgkin_huxley": "I_e: 10 uA/cm**2",
    "if_delta": "v_thresh: 2",
    "inhomogeneous_poisson": "rate: 100 Hz",
    "izhikevich": "i_e: 14 mV/ms",
    "izhikevich_2007": "I_e: 300 pA",
    "lif": "i_e: 300 pA",
    "lif_cond_alpha": "I_e: 500 pA",
    "lif_cond_exp": "I_e: 300 pA",
    "lif_psc_alpha": "I_e: 500 pA",
    "lif_psc_exp": "I_e: 500 pA",
    "lif_psc_exp_2": "I_e: 500 pA",
    "poisson": "rate: 100 Hz",
    "qif": "i_e: 300 pA",
    "rulkov": "alpha: 6",
    "traub_miles": "I_e: 500 pA",
    "wang_buzsaki": "I_e: 3 uA/cm**2",
}
STATELESS = {"poisson", "inhomogeneous_poisson"}
SOURCES = {
    "dc": "amplitude: 1 pA",
    "from_file": "values: [1 pA, 5 pA], every: 1.2 ms",
    "gaussian_noise": "std: 3 pA",
    "ornstein_uhlenbeck": "sigma: 3 pA",
    "poisson_exp": "weight: 2 pA",
    "sine": "amplitude: 2 pA",
    "step": "amplitude: 2 pA, start: 2 ms, stop: 4 ms",
}


def test_all_are_here() -> None:
    assert sorted(DRIVES) == sorted(set(LIBRARY_NEURONS) - {"spike_times"})
    assert sorted(SOURCES) == sorted(LIBRARY_CURRENTS)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cpu_and_reference_agree_bit_for_bit(tmp_path: Path, precision: str) -> None:
    agree(tmp_path, precision)


@pytest.mark.slow
@pytest.mark.usefixtures("not_optimized")  # stays for what comes after it
def test_they_agree_with_little_optimization(tmp_path: Path) -> None:
    agree(tmp_path, "float32")


def agree(tmp_path: Path, precision: str) -> None:
    populations = "\n".join(f"  p_{n}: {{neuron: {n}, size: 4, params: {{{p}}}}}" for n, p in DRIVES.items())
    inputs = "\n".join(
        f"  {n}_{into}: {{to: p_{target}, current: {{into: {into}, source: {n}, params: {{{p}}}}}}}"
        for n, p in SOURCES.items()
        for target, into in (("lif", "i_e"), ("izhikevich_2007", "i"))
    )
    traced = ", ".join(f"p_{n}" for n in DRIVES if n not in STATELESS | {"rulkov"})
    text = f"""\
language: 1
name: library
populations:
{populations}
inputs:
{inputs}
simulate: {{dt: 0.05 ms, duration: 6 ms, seed: 6}}
record:
  - spikes: {{from: all}}
  - trace: {{from: [{traced}], variables: [v], members: all}}
  - trace: {{from: p_rulkov, variables: [x, y], members: all}}
numerics: {{precision: {precision}, order: bitwise}}
"""
    cpu, reference = (simulate(text, tmp_path, target) for target in ("cpu", "reference"))
    for key, values in cpu.traces.items():
        np.testing.assert_array_equal(values, reference.traces[key], err_msg=str(key))
        assert np.ptp(values) > 0 or key[0] == "p_if_delta"
    fired = 0
    for name, pairs in cpu.spikes.items():
        np.testing.assert_array_equal(pairs, reference.spikes[name], err_msg=name)
        fired += len(pairs) > 0
    assert fired >= 4
