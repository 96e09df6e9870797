"""The cortical microcircuit of Potjans & Diesmann (2014), scaled down: numbers of synapses, text, rates."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from netloom import run

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

PATH = Path(__file__).parents[2] / "models" / "microcircuit.yaml"
POPULATIONS = ("L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")
SIZES = np.array([20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948])
PROBABILITIES = np.array(
    [
        [0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0],
        [0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0],
        [0.0077, 0.0059, 0.0497, 0.1350, 0.0067, 0.0003, 0.0453, 0.0],
        [0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0],
        [0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0],
        [0.0548, 0.0269, 0.0257, 0.0022, 0.0600, 0.3158, 0.0086, 0.0],
        [0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252],
        [0.0364, 0.0010, 0.0034, 0.0005, 0.0277, 0.0080, 0.0658, 0.1443],
    ]
)
"""Table 5 of the paper: rows are targets, columns sources."""
RATES = np.array([0.45, 2.1, 3.97, 4.99, 6.7, 7.76, 0.81, 7.0])
"""Hz, with the Poisson input and the currents that compensate for reduced in-degrees."""


def lowered(scale_n: float, scale_k: float) -> Merged:
    model = load_model(PATH, {"scale_n": str(scale_n), "scale_k": str(scale_k)})
    return lower(model, backend("cpu").capabilities, verify=True).merged


def synapses(n_from: int, n_to: int, p: float, scale_n: float, scale_k: float) -> int:
    """Equation 1 of the paper for the sizes as they are, times what is left of the in-degrees beyond them."""
    pairs = float(n_from * n_to)
    return round(scale_k / scale_n * math.log(1 - p) / math.log((pairs - 1) / pairs))


@pytest.mark.parametrize("scales", [(0.02, 0.02), (0.05, 0.02)])
def test_numbers_of_synapses(tmp_path: Path, scales: tuple[float, float]) -> None:
    cpu = backend("cpu")
    program = lowered(*scales)
    instance = cpu.load(cpu.build(program, tmp_path, {}), program, 55)
    sizes = np.round(SIZES * scales[0]).astype(int)
    relations = {a.name for a in program.arrays if a.name.endswith("'row")}
    delays = {"E": 0.0, "I": 0.0}
    for j, source in enumerate(POPULATIONS):
        for i, target in enumerate(POPULATIONS):
            name = f"recurrent[{source}->{target}]"
            if PROBABILITIES[i, j] == 0:
                assert f"{name}'row" not in relations
                continue
            row = instance.read(f"{name}'row").astype(np.int64)
            number = synapses(int(sizes[j]), int(sizes[i]), float(PROBABILITIES[i, j]), *scales)
            assert len(row) == sizes[j] + 1
            assert row[-1] == number
            col = instance.read(f"{name}'col").astype(np.int64)
            weight = instance.read(f"{name}.weight").astype(np.float64)
            late = instance.read(f"{name}'delay").astype(np.int64)
            assert len(col) == len(weight) == len(late) == number
            if number:
                assert 0 <= col.min() <= col.max() < sizes[i]
                assert late.min() >= 1
            if number > 5000:
                mean = 87.808493529 / np.sqrt(scales[1]) * (-4 if source[-1] == "I" else 1)
                mean *= 2 if (source, target) == ("L4E", "L23E") else 1
                assert abs(weight.mean() / mean - 1) < 5 * 0.1 / np.sqrt(number)
                assert abs(weight.std() / abs(mean) - 0.1) < 5 * 0.1 / np.sqrt(number)
                # 1.5 +- 0.75 ms and 0.75 +- 0.375 ms, cut at 0.1 ms and rounded.
                steps = 15 if source[-1] == "E" else 7.5
                assert abs(late.mean() / steps - 1) < 0.03
                delays[source[-1]] = float(late.mean())
    assert delays["E"] > 1.8 * delays["I"] > 0


def test_text_is_independent_of_the_scale() -> None:
    """From 1,540 neurons to 7,700: the same C, of which 64 pairs of populations are rows."""
    emit = backend("cpu").emit
    small, large = lowered(0.02, 0.02), lowered(0.1, 0.1)
    assert emit(small) == emit(large) == emit(lowered(0.05, 1))
    assert len(large.templates) < 25


def test_rates(here: Path) -> None:
    """Two biological seconds at a tenth of the size: rates of 0.4 to 8 Hz, each within 20 %."""
    result = run(PATH, set={"scale_n": 0.1, "scale_k": 0.1}, duration="2 s")
    assert result.status == "ok"
    found = np.array([result.rates[name] for name in POPULATIONS])
    np.testing.assert_allclose(found, RATES, rtol=0.2)
    assert all(c["met"] for c in result.record["expectations"])
    # Asynchronous and irregular: intervals as variable as those of the paper (its figure 6), no population in step.
    times, ids = result.spikes("L4I")
    variability = [np.std(gaps) / np.mean(gaps) for i in np.unique(ids) if len(gaps := np.diff(times[ids == i])) >= 5]
    assert len(variability) > 300
    assert 0.6 < np.mean(variability) < 1.1
    counts = np.histogram(times, bins=np.arange(0, 2001, 3))[0]
    assert counts.var() / counts.mean() < 15  # as measured below 8; lockstep would give hundreds


@pytest.mark.slow
def test_rates_over_five_seeds(tmp_path: Path) -> None:
    """The mean rates of five seeds of 10 s each lie within 20 % of those that NEST 3.10 and Brian2 2.9 give."""
    rates = []
    for seed in range(5):
        settings = {"scale_n": "0.1", "scale_k": "0.1"}
        folders = {"build_dir": tmp_path / "build", "runs_dir": tmp_path / "runs"}
        result = run(PATH, set=settings, seed=seed, duration="10 s", **folders)
        rates.append([result.rates[name] for name in POPULATIONS])
    mean = np.mean(rates, axis=0)
    assert np.all(np.abs(mean / RATES - 1) < 0.2), mean
