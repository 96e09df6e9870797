"""models/brunel.yaml reproduces the states of the paper: rate, irregularity, oscillation (Brunel 2000, J Comput
Neurosci 8:183)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.signal import welch
from scipy.special import erfcx

from tests.numeric.simulated import model_of, run, start

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cc")]

Array = npt.NDArray[np.float64]
TAU, T_REF, THETA, V_RESET, J, C_EXC, C_INH = 0.02, 0.002, 20.0, 10.0, 0.1, 1000, 250  # s, mV
NEURONS, STEP, BIN = 10_000, 1e-4, 5  # of `exc`; s; steps of a bin of the population's activity


@dataclass(frozen=True)
class Case:
    """The parameters of a network in the plane of figure 2, and its duration (ms); `delay` replaces the model's."""

    g: float
    eta: float
    warmup: int
    duration: int
    delay: str = "1.5 ms"


CASES = {
    "SR": Case(3, 2, 100, 200),  # figure 8 A
    "SI fast": Case(6, 4, 200, 500),  # figure 8 B
    "AI": Case(5, 2, 200, 1000),  # figure 8 C
    "SI slow": Case(4.5, 0.9, 500, 3000),  # figure 8 D
    "AR": Case(3, 2, 300, 200, "{uniform: {low: 0 ms, high: 3 ms, round: nearest}}"),  # figure 2 B: delays differ
}


@dataclass(frozen=True)
class Measured:
    """`rate` in Hz; `cv` of intervals, averaged over neurons. Of the number of all spikes in 0.5 ms: `fano`, its
    variance relative to that of independent Poisson neurons; `modulation`, its standard deviation relative to its
    mean; `peak` of its spectrum in Hz, above 5 Hz."""

    rate: float
    cv: float
    fano: float
    modulation: float
    peak: float


@cache
def measured(root: Path, folder: Path, name: str) -> Measured:
    case = CASES[name]
    text = (root / "models" / "brunel.yaml").read_text(encoding="utf-8")
    text = text[: text.index("\nrecord:")]
    text, found = re.subn(
        r"duration: .*, warmup: .*,", f"duration: {case.duration} ms, warmup: {case.warmup} ms,", text
    )
    assert found == 1
    text, found = re.subn(r"delay: 1.5 ms", f"delay: {case.delay}", text)
    assert found == 2
    model = model_of(text + "record: [{spikes: {from: exc}}]\n", folder, {"g": str(case.g), "eta": str(case.eta)}, "m")
    assert model.simulate is not None and model.populations[0].size == NEURONS
    spikes = run(start(model, folder), model.simulate.warmup + model.simulate.steps).spikes["exc"]
    return measure(spikes[spikes[:, 0] > case.warmup * 10] - [case.warmup * 10, 0], case.duration * 10)


def measure(spikes: Array, steps: int) -> Measured:
    """Of (k, 2) steps from 1 and neurons, in order of steps."""
    counts = np.bincount((spikes[:, 0].astype(int) - 1) // BIN, minlength=steps // BIN).astype(float)
    order = np.lexsort((spikes[:, 0], spikes[:, 1]))
    step, neuron = spikes[order, 0].astype(float), spikes[order, 1].astype(int)
    same = neuron[1:] == neuron[:-1]
    of, interval = neuron[1:][same], np.diff(step)[same]
    number = np.bincount(of, minlength=NEURONS)
    enough = number >= 5
    total, squares = (np.bincount(of, w, minlength=NEURONS)[enough] for w in (interval, interval**2))
    mean = total / number[enough]
    variance = (squares - number[enough] * mean**2) / (number[enough] - 1)
    frequency, power = welch(counts, 1 / (BIN * STEP), nperseg=min(len(counts), 400), detrend="constant")
    return Measured(
        rate=len(spikes) / NEURONS / (steps * STEP),
        cv=float(np.mean(np.sqrt(variance) / mean)),
        fano=float(counts.var() / counts.mean()),
        modulation=float(counts.std() / counts.mean()),
        peak=float(frequency[np.argmax(np.where(frequency > 5, power, 0))]),
    )


def drive(rate: float, case: Case) -> tuple[float, float]:
    """Mean and standard deviation of the input in mV (equations 4 and 5, with the external rate of the model)."""
    external = case.eta * THETA / (J * C_EXC * TAU)
    mean = C_EXC * J * TAU * (external + rate * (1 - case.g * C_INH / C_EXC))
    return mean, np.sqrt(C_EXC * J**2 * TAU * (external + rate * (1 + case.g**2 * C_INH / C_EXC)))


def mean_field(case: Case) -> float:
    """The rate in Hz of stationary, asynchronous activity of neurons that fire irregularly (equation 21)."""

    def difference(rate: float) -> float:
        mean, sigma = drive(rate, case)
        passage = quad(lambda u: erfcx(-u), (V_RESET - mean) / sigma, (THETA - mean) / sigma)[0]
        return float(1 / (T_REF + TAU * np.sqrt(np.pi) * passage)) - rate  # erfcx(-u) = exp(u^2) (1 + erf u)

    return float(brentq(difference, 0.01, 450))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("brunel")


@pytest.mark.parametrize(
    ("name", "regular", "synchronous"),
    [("SR", True, True), ("AR", True, False), ("AI", False, False), ("SI fast", False, True), ("SI slow", False, True)],
)
def test_states_by_irregularity_and_synchrony(
    root: Path, folder: Path, name: str, regular: bool, synchronous: bool
) -> None:
    """Neurons are clocks or not. Activity that a sine modulates down to zero has the `modulation` sqrt(1/2): above,
    the population falls silent between its waves."""
    found = measured(root, folder, name)
    assert found.cv < 0.1 if regular else found.cv > 0.35, found
    assert (found.modulation > np.sqrt(0.5)) == synchronous, found
    if name == "AR":  # regular neurons out of phase: their sum varies less than that of Poisson neurons
        assert found.fano < 1, found
    if name == "SR":  # all neurons in one wave, each in every one or in every second one
        assert found.modulation > 1.2, found
        assert found.peak / found.rate == pytest.approx(round(found.peak / found.rate), rel=0.05), found


@pytest.mark.parametrize(("name", "rate"), [("SI fast", 60.7), ("AI", 37.7), ("SI slow", 5.5)])
def test_rates_of_the_paper(root: Path, folder: Path, name: str, rate: float) -> None:
    """Table 1, simulations."""
    assert measured(root, folder, name).rate == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize(("name", "frequency"), [("SI fast", 180), ("SI slow", 22)])
def test_rhythms_of_the_paper(root: Path, folder: Path, name: str, frequency: float) -> None:
    """Table 1, simulations; the spectrum has a resolution of 5 Hz. Neurons take part in some of the waves only."""
    found = measured(root, folder, name)
    assert found.peak == pytest.approx(frequency, abs=15 if name == "SI fast" else 5)
    assert found.rate < 0.5 * found.peak


@pytest.mark.parametrize(
    ("name", "within"), [("AI", 0.05), ("SI fast", 0.15), ("SI slow", 0.2), ("SR", 0.1), ("AR", 0.05)]
)
def test_rates_of_the_theory(root: Path, folder: Path, name: str, within: float) -> None:
    """Equation 21 is for stationary activity; the paper gives it beside states with a rhythm too (table 1)."""
    assert measured(root, folder, name).rate == pytest.approx(mean_field(CASES[name]), rel=within)


@pytest.mark.parametrize(("name", "rate"), [("SI fast", 55.8), ("AI", 38.0), ("SI slow", 6.5)])
def test_the_theory_is_that_of_the_paper(name: str, rate: float) -> None:
    """Table 1, theory."""
    assert mean_field(CASES[name]) == pytest.approx(rate, abs=0.06)


def test_asynchronous_irregular_as_in_nest(root: Path, folder: Path) -> None:
    """NEST 3.10 (iaf_psc_delta, the same rule, 500 ms after 200): 38.04 Hz, CV 0.399, Fano factor 62.7."""
    found = measured(root, folder, "AI")
    assert found.rate == pytest.approx(38.04, rel=0.03)
    assert found.cv == pytest.approx(0.399, rel=0.05)
    assert found.fano == pytest.approx(62.7, rel=0.25)
