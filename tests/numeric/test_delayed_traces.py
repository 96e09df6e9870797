"""Traces of sources beside delays that differ from synapse to synapse, against plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.core.errors import ModelError
from tests.numeric.simulated import Array, model_of, start
from tests.numeric.synapse_oracle import DT, TOLERANCE, model_text, trains

pytestmark = pytest.mark.usefixtures("cc")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
STEPS, SIZES, TRIAL = 150, (6, 5), 30

SYNAPSE = """\
phases: {trial: {every: 3 ms, events: {end: 3 ms}}}
synapses:
  traced:
    params: {tau: 2 ms}
    state: {a: 0, b: 0, c: 0, d: 0, e: 0, w: 0}
    let: {twice: 2 * pre.x}
    pre: {state: {x: X0}, dynamics: {dx/dt: -x / tau}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    update: [a = pre.x]
    on_pre: [b = twice, "w = w - 0.1 * post.y"]
    on_post: [c = pre.x, "w = w + 0.1 * pre.x * post.y"]
    events: {often: {of: post, when: post.v > -1 mV, do: [d = pre.x]}}
    on: {trial.end: [e = max_post(twice)]}
"""
PROJECTION = """\
  traced: {from: s, to: t, connect: CONNECT, synapse: traced, delay: DELAY, back_delay: 0.2 ms}
"""
PAIRS = "pairs: {list: [[0, 0], [0, 3], [0, 4], [1, 1], [2, 0], [5, 4]]}"
CASES = {
    "listed": (f"{{{PAIRS}}}", "[0 ms, 0.1 ms, 3 ms, 0.7 ms, 16 ms, 0 ms]"),
    "drawn, dense": ("{all_to_all: {}}", "{uniform: {low: 0 ms, high: 2 ms, round: nearest}}"),
    "drawn, sparse": ("{fixed_probability: {p: 0.6}}", "{normal: {mean: 1 ms, std: 0.5 ms, round: nearest}}"),
    "by place": ("{all_to_all: {}}", "{value: 0.3 ms * abs(i - j), round: nearest}"),
}


def text_of(connect: str, delay: str, numerics: str, x0: float = 0.25) -> str:
    pre, post = trains(3, SIZES[0], STEPS, 0.06), trains(4, SIZES[1], STEPS, 0.06)
    projection = PROJECTION.replace("CONNECT", connect).replace("DELAY", delay)
    return model_text(pre, post, SIZES, projection, SYNAPSE.replace("X0", f"{x0}"), STEPS, numerics)


def stepped(text: str, folder: Path, target: str) -> tuple[dict[str, Array], Array, Array, Array]:
    """The states after every step; delays, sources and targets of synapses."""
    simulated = start(model_of(text, folder), folder, target)
    found: dict[str, list[Array]] = {n: [] for n in "abcdew"}
    for step in range(1, STEPS + 1):
        simulated.instance.run("step", step, 1)
        for name, rows in found.items():
            rows.append(simulated.instance.read(f"traced[s->t].{name}").copy())
    names = {a.name for a in simulated.lowered.program.arrays}
    late = np.zeros(len(found["a"][0]), int)
    if "traced[s->t].delay" in names:
        late = simulated.instance.read("traced[s->t].delay").astype(int)
    pre, post = (x.ravel() for x in np.meshgrid(*map(np.arange, SIZES), indexing="ij"))
    if "traced[s->t].row" in names:
        pre = np.repeat(np.arange(SIZES[0]), np.diff(simulated.instance.read("traced[s->t].row")))
        post = simulated.instance.read("traced[s->t].col")[: len(pre)]
    return {n: np.array(rows) for n, rows in found.items()}, late, pre, post


def traces(spikes: Array, x0: float) -> tuple[Array, Array]:
    """(before, after) the spikes of each step, from step 0 on; `spikes` (steps + 1, neurons)."""
    before, after = np.zeros(spikes.shape), np.zeros(spikes.shape)
    before[0] = after[0] = x0
    for k in range(1, len(spikes)):
        before[k] = after[k - 1] * np.exp(-DT / 2.0)
        after[k] = before[k] + spikes[k]
    return before, after


@both
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_each_synapse_sees_the_trace_with_its_delay(tmp_path: Path, target: str, precision: str, case: str) -> None:
    text = text_of(*CASES[case], f"{{precision: {precision}}}")
    found, late, pre, post = stepped(text, tmp_path, target)
    assert len(np.unique(late)) > 3
    spikes = [np.zeros((STEPS + 1, n)) for n in SIZES]
    for end, train in enumerate((trains(3, SIZES[0], STEPS, 0.06), trains(4, SIZES[1], STEPS, 0.06))):
        for k, i in train:
            spikes[end][k, i] = 1
    before, after = traces(spikes[0], 0.25)
    arrived = np.vstack([np.zeros((2, SIZES[1])), spikes[1][:-2]])  # with the back delay
    y_before, _ = traces(arrived, 0.0)
    expected = {n: np.zeros(len(late)) for n in found}
    for k in range(1, STEPS + 1):
        seen = np.maximum(k - late, 0)
        x_before, x_after = before[seen, pre], after[seen, pre]
        came = (k - late > 0) & (spikes[0][seen, pre] > 0)
        went = arrived[k, post] > 0
        expected["a"] = x_before
        expected["b"] = np.where(came, 2 * x_before, expected["b"])
        expected["w"] = expected["w"] - np.where(came, 0.1 * y_before[k, post], 0)
        expected["w"] = expected["w"] + np.where(went, 0.1 * x_after * y_before[k, post], 0)
        expected["c"] = np.where(went, x_after, expected["c"])
        expected["d"] = x_after
        if k % TRIAL == 0:
            expected["e"] = np.array([2 * x_after[post == j].max() for j in post])
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name][k - 1], value, rtol=10 * TOLERANCE[precision], atol=1e-6, err_msg=f"{name}, step {k}"
            )
    assert min(np.ptp(x) for x in expected.values()) > 0


@both
def test_equal_delays_are_one_delay(tmp_path: Path, target: str) -> None:
    """Delays that are drawn and all equal give the bits of one delay, where the trace begins at rest."""
    numerics, found = "{precision: float32, order: bitwise}", []
    for k, delay in enumerate(("0.7 ms", "{uniform: {low: 0.7 ms, high: 0.7 ms, round: nearest}}")):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        found.append(stepped(text_of("{fixed_probability: {p: 0.6}}", delay, numerics, 0.0), folder, target)[0])
    for name, values in found[0].items():
        np.testing.assert_array_equal(values, found[1][name], err_msg=name)
        assert np.ptp(values) > 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("update: [a = pre.x]", "update: [a = pre.last_spike / (1 ms)]", "`pre.last_spike` is held once per source"),
        ("of: post, when: post.v > -1 mV", "of: pre, when: pre.x > 1", "is tested once per source neuron"),
        ("trial.end", "trial.start", "cannot be read when a trial starts"),
        ("back_delay: 0.2 ms", "clear: trial.end", "`pre.x` is held once per source neuron"),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = text_of(*CASES["drawn, dense"], "{precision: float32}").replace(
        "events: {end:", "events: {start: 0 ms, end:"
    )
    assert old in text
    with pytest.raises(ModelError, match="E0802") as error:
        model_of(text.replace(old, new), tmp_path)
    assert message in error.value.diagnostics[0].message
