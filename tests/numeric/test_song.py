"""models/stdp.yaml reproduces the paper (Song, Miller & Abbott 2000, Nature Neuroscience 3:919): weights end at
their bounds, the output's rate settles and stays irregular, and inputs with twice the rate get half the weight."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import kurtosis, skew

from netloom import run
from tests.construct_runs import compare, results, stored_results
from tests.numeric.simulated import model_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cc")]

SECONDS, EVERY = 600, 100


@dataclass(frozen=True)
class Learned:
    """`weights` (samples, synapses) as parts of the largest one, every 100 s; `times` of output spikes in s."""

    weights: npt.NDArray[np.float64]
    times: npt.NDArray[np.float64]

    def rate(self, low: float, high: float) -> float:
        return float(((self.times > low) & (self.times <= high)).sum() / (high - low))

    def shares(self, sample: int) -> npt.NDArray[np.float64]:
        """Shares of the weights in each fifth of their range."""
        return np.histogram(self.weights[sample], 5, (0.0, 1.0))[0] / self.weights.shape[1]


def text_of(root: Path, rate: int, duration: str, record: str) -> str:
    text = (root / "models" / "stdp.yaml").read_text(encoding="utf-8")
    text = text[: text.index("\nrecord:")]
    text, found = re.subn(r"rate: 15 Hz", f"rate: {rate} Hz", text)
    assert found == 1
    text, found = re.subn(r"duration: [^,}]*", f"duration: {duration}", text)
    assert found == 1
    return f"{text}\nrecord: [{{spikes: {{from: output}}}}, {record}]\n"


@pytest.fixture(scope="module")
def learned(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Learned]:
    """By the rate of the inputs in Hz."""
    found = {}
    for rate in (15, 30):
        folder = tmp_path_factory.mktemp(f"song{rate}")
        path = folder / "stdp.yaml"
        record = f"{{synapses: {{from: plastic, variables: [w], every: {EVERY} s}}}}"
        path.write_text(text_of(root, rate, f"{SECONDS} s", record), encoding="utf-8")
        run(path, "cpu", out=folder / "run", build_dir=folder / "build")
        stored = stored_results(folder / "run")
        weights = stored["synapses/plastic/input->output/w"] / 0.01
        found[rate] = Learned(weights.astype(float), stored["spikes/spikes/output/timestamps"] / 1000)
    return found


def bimodality(x: npt.NDArray[np.float64]) -> float:
    """Sarle's coefficient: 5/9 for a uniform distribution, 1/3 for a normal one, 1 for two points."""
    return float((skew(x) ** 2 + 1) / kurtosis(x, fisher=False))


def test_weights_become_bimodal(learned: dict[int, Learned]) -> None:
    found = learned[15]
    assert bimodality(found.weights[0]) == pytest.approx(5 / 9, abs=0.02)  # they begin uniform
    assert bimodality(found.weights[-1]) > 0.7
    shares = found.shares(-1)
    assert shares[0] > 0.3 and shares[4] > 0.25  # figure 2: peaks at both bounds
    assert shares[2] < 0.1 and shares[2] == min(shares)
    assert np.all((found.weights >= 0) & (found.weights <= 1 + 1e-6))


def test_the_distribution_stays(learned: dict[int, Learned]) -> None:
    """Single weights go on wandering, their distribution does not."""
    found = learned[15]
    for sample in (3, 4, 5):
        assert np.abs(found.shares(sample) - found.shares(-1)).sum() / 2 < 0.05
    assert np.corrcoef(found.weights[2], found.weights[-1])[0, 1] < 0.9


def test_the_output_settles(learned: dict[int, Learned]) -> None:
    found = learned[15]
    early, late = found.rate(200, 400), found.rate(400, 600)
    assert found.rate(0, 5) > 1.8 * late  # the uniform weights that it begins with drive it harder
    assert early == pytest.approx(late, rel=0.15)
    assert 10 < late < 35
    intervals = np.diff(found.times[found.times > 200])
    assert intervals.std() / intervals.mean() > 0.7  # inputs are balanced at threshold: spikes come irregularly


def test_faster_inputs_get_less_weight(learned: dict[int, Learned]) -> None:
    """Figure 3: what excites the output hardly depends on the rate of its inputs."""
    slow, fast = learned[15], learned[30]
    drives = [15 * slow.weights[-1].mean(), 30 * fast.weights[-1].mean()]
    assert drives[1] == pytest.approx(drives[0], rel=0.15)
    assert fast.rate(0, 5) > 2.5 * fast.rate(200, 600)
    assert fast.shares(-1)[4] < 0.5 * slow.shares(-1)[4]
    assert bimodality(fast.weights[-1]) > 0.7


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_short_run_has_the_bits_of_the_reference(root: Path, tmp_path: Path, precision: str) -> None:
    text = text_of(root, 15, "200 ms", "{trace: {from: output, variables: [v, ge], members: all}}")
    model = model_of(f"{text}numerics: {{precision: {precision}, order: bitwise}}\n", tmp_path)
    compare("stdp", results(model, tmp_path, "cpu"), results(model, tmp_path, "reference"))
