"""The balanced network: its published rates, and a small deterministic one with equal results on every backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.reference.load import ReferenceInstance
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from tests.numeric.simulated import Simulated, model_of, run, simulate, start

pytestmark = pytest.mark.usefixtures("cc")


# ----------------------------------------------------------------------------------------- published rates


@pytest.fixture(scope="module")
def cuba(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Path]:
    return load_model(root / "models" / "cuba.yaml"), tmp_path_factory.mktemp("cuba")


@pytest.mark.parametrize("seed", range(1, 11))
def test_rates_at_the_published_size(cuba: tuple[Model, Path], seed: int) -> None:
    """Both populations fire at 3 to 12 Hz over 1 s (Vogels & Abbott 2005; Brette et al. 2007: about 5 to 6 Hz)."""
    model, folder = cuba
    assert [p.size for p in model.populations] == [3200, 800]
    result = run(start(replace(model, traces=()), folder, seed=seed), 10_000)
    for population in model.populations:
        rate = len(result.spikes[population.name]) / population.size
        assert 3 <= rate <= 12, (population.name, rate)
    late = result.spikes["exc"]
    assert np.sum(late[:, 0] > 8000) / 3200 / 0.2 > 1  # it goes on by itself


def test_seeds_are_different_networks(cuba: tuple[Model, Path]) -> None:
    model, folder = cuba
    short = [run(start(replace(model, traces=()), folder, seed=s), 1000).spikes["exc"] for s in (1, 2, 1)]
    np.testing.assert_array_equal(short[0], short[2])
    assert not np.array_equal(short[0][:100], short[1][:100])


# ---------------------------------------------------------------------------- a deterministic small network


def small_network() -> str:
    """20 neurons, explicit pairs with individual weights, a delay per pair of populations, no random numbers."""
    rng = np.random.default_rng(11)
    blocks = []
    for source, size, sign in (("exc", 15, 1.0), ("inh", 5, -2.5)):
        for target, other in (("exc", 15), ("inh", 5)):
            chosen = [(i, j) for i in range(size) for j in range(other) if rng.random() < 0.4]
            chosen = [chosen[k] for k in rng.permutation(len(chosen))]
            weights = ", ".join(f"{sign * (0.5 + rng.random()):.4f} mV" for _ in chosen)
            pairs = ", ".join(f"[{i}, {j}]" for i, j in chosen)
            delay = {"exc": 0.4, "inh": 0.8}[source] + {"exc": 0.1, "inh": 1.9}[target]
            blocks.append(
                f"  {source}_{target}: {{from: {source}, to: {target}, connect: {{pairs: {{list: [{pairs}]}}}},\n"
                f"    deliver: {{into: {'ge' if sign > 0 else 'gi'}, weight: [{weights}]}}, delay: {delay:.1f} ms}}"
            )
    exc = ", ".join(f"{-60 + 0.63 * i:.2f} mV" for i in range(15))
    drive = ", ".join(f"{8 + 0.31 * i:.2f} mV" for i in range(15))
    return f"""\
language: 1
name: small
neurons:
  lif:
    params: {{tau_m: 20 ms, tau_e: 5 ms, tau_i: 10 ms, v_rest: -55 mV, v_thresh: -50 mV, v_reset: -60 mV, drive: 12 mV}}
    state: {{v: v_rest}}
    inputs: {{ge: {{unit: mV, decay: tau_e}}, gi: {{unit: mV, decay: tau_i}}}}
    dynamics: {{dv/dt: (v_rest - v + ge + gi + drive) / tau_m}}
    spike: {{when: v > v_thresh, reset: [v = v_reset], refractory: 2 ms}}
populations:
  exc: {{neuron: lif, size: 15, init: {{v: [{exc}]}}, params: {{drive: [{drive}]}}}}
  inh: {{neuron: lif, size: 5, init: {{v: [-58 mV, -57.1 mV, -55.4 mV, -53.3 mV, -51.2 mV]}}}}
projections:
{chr(10).join(blocks)}
simulate: {{dt: 0.1 ms, duration: 120 ms, seed: 1}}
record:
  - spikes: {{from: all}}
  - trace: {{from: exc, variables: [v, ge, gi], members: all, every: 0.5 ms}}
"""


NUMERICS = [(p, o) for p in ("float32", "float64") for o in ("fast", "reproducible", "bitwise")]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, str], Simulated]:
    """The small network in every precision and order, on both backends."""
    text, folder = small_network(), tmp_path_factory.mktemp("small")
    return {
        (precision, order, target): simulate(
            f"{text}numerics: {{precision: {precision}, order: {order}}}\n", folder, target
        )
        for precision, order in NUMERICS
        for target in ("cpu", "reference")
        if (order, target) != ("fast", "reference")  # the interpreter has one order of sums for both
    }


@pytest.mark.parametrize(("precision", "order"), NUMERICS)
def test_identical_spikes(small: dict[tuple[str, str, str], Simulated], precision: str, order: str) -> None:
    here = small[precision, order, "cpu"]
    there = small[precision, "reproducible" if order == "fast" else order, "reference"]
    for population in ("exc", "inh"):
        assert len(here.spikes[population]) > 20
        np.testing.assert_array_equal(here.spikes[population], there.spikes[population])
    counts = np.bincount(here.spikes["exc"][:, 1], minlength=15)
    assert len(set(counts.tolist())) > 3  # neurons differ


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_bitwise_means_equal_bits(small: dict[tuple[str, str, str], Simulated], precision: str) -> None:
    """Every array of the program, and every sample of every trace, after 1,200 steps."""
    here, there = small[precision, "bitwise", "cpu"], small[precision, "bitwise", "reference"]
    assert here.traces.keys() == there.traces.keys()
    for key, samples in here.traces.items():
        assert samples.dtype == np.dtype(precision)
        assert samples.tobytes() == there.traces[key].tobytes(), key
    for array in here.lowered.merged.arrays:
        if not array.name.endswith(("'spikes", "'record")) and "'record." not in array.name:
            a, b = here.instance.read(array.name), there.instance.read(array.name)
            assert a.tobytes() == b.tobytes(), array.name


def test_orders_agree(small: dict[tuple[str, str, str], Simulated]) -> None:
    """The summation order changes rounding only: in float64 no spike moves, in float32 no early one."""
    wanted = small["float64", "fast", "cpu"].spikes["exc"]
    for (precision, _, _), result in small.items():
        count = len(wanted) if precision == "float64" else 15
        np.testing.assert_array_equal(result.spikes["exc"][:count], wanted[:count])


def test_a_program_before_merging_runs_alike(tmp_path: Path) -> None:
    """The reference interprets the unmerged kernels too: the same bits as from the merged form."""
    model = model_of(small_network() + "numerics: {precision: float64, order: bitwise}\n", tmp_path)
    merged = start(model, tmp_path, "reference")
    unmerged = ReferenceInstance(merged.lowered.program, 1)
    run(merged, 600)
    apart = run(Simulated(model, merged.lowered, merged.artifact, unmerged), 600)
    np.testing.assert_array_equal(apart.spikes["exc"], merged.spikes["exc"])
    assert len(apart.spikes["exc"]) > 20
    for name in ("exc.v", "exc.ge", "exc.ge'delivered", "inh.v", "inh.gi"):
        assert unmerged.read(name).tobytes() == merged.instance.read(name).tobytes()


RANDOM_NETWORK = """\
language: 1
name: noisy
populations:
  a: {neuron: library/neurons/lif_psc_exp_2, size: 30, init: {v: {normal: {mean: -62 mV, std: 4 mV, max: -56 mV}}},
      params: {I_e: 420 pA}}
  b: {neuron: library/neurons/lif_psc_exp_2, size: 12, init: {v: {uniform: {low: -70 mV, high: -55 mV}}},
      params: {I_e: {normal: {mean: 400 pA, std: 30 pA}}}}
  noise: {neuron: library/neurons/poisson, size: 40, params: {rate: 60 Hz}}
projections:
  shower: {from: noise, to: [a, b], connect: {fixed_probability: {p: 0.2}},
           deliver: {into: I_ex, weight: {lognormal: {mean: 40 pA, std: 15 pA}}}, delay: 0.5 ms}
  recurrent: {from: [a, b], to: [a, b], connect: {fixed_total: {number: round(n_from * n_to / 8)}},
              deliver: {into: I_in, weight: {normal: {mean: -30 pA, std: 10 pA, keep_sign: true}}},
              delay: {normal: {mean: 1.5 ms, std: 0.7 ms, min: 0.1 ms, round: nearest}}}
inputs:
  rain: {to: a, poisson: {rate: 2 kHz, into: I_ex, weight: 3 pA}}
simulate: {dt: 0.1 ms, duration: 30 ms, seed: 4}
record: [{spikes: {from: [a, b, noise]}}]
"""


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_random_networks_agree_bit_for_bit(tmp_path: Path, precision: str) -> None:
    """Random connections, weights, delays, initial values and events: equal draws on both backends."""
    text = RANDOM_NETWORK + f"numerics: {{precision: {precision}, order: bitwise}}\n"
    here, there = simulate(text, tmp_path), simulate(text, tmp_path, "reference")
    for population in ("a", "b", "noise"):
        assert len(here.spikes[population]) > 10, population
        np.testing.assert_array_equal(here.spikes[population], there.spikes[population])
    for array in here.lowered.merged.arrays:
        if array.name.endswith((".v", ".I_ex", ".I_in", "'col", ".weight", "'delay", "'delivered", ".I_e")):
            a, b = here.instance.read(array.name), there.instance.read(array.name)
            assert a.tobytes() == b.tobytes(), array.name
