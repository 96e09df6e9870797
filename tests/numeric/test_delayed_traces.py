"""Traces of both ends beside delays that differ from synapse to synapse, against plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of, start
from tests.numeric.synapse_oracle import DT, TOLERANCE, model_text, trains

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
STEPS, SIZES, TRIAL = 150, (6, 5), 30

SYNAPSE = """\
phases: {trial: {every: 3 ms, events: {end: 3 ms}}}
synapses:
  traced:
    params: {tau: 2 ms}
    state: {a: 0, b: 0, c: 0, d: 0, e: 0, f: 0, g: 0, w: 0}
    let: {twice: 2 * pre.x}
    pre: {state: {x: X0}, dynamics: {dx/dt: -x / tau}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    update: [a = pre.x - post.y]
    on_pre: [b = twice, "w = w - 0.1 * post.y"]
    on_post: [c = pre.x, "w = w + 0.1 * pre.x * post.y"]
    events:
      often: {of: post, when: post.v > -1 mV, do: [d = pre.x - post.y]}
      once: {of: post, when: trial.step == 3, do: [f = t / (1 ms), g = g + post.y], delayed: true}
    on: {trial.end: [e = max_post(twice)]}
"""
PROJECTION = """\
  traced: {from: s, to: t, connect: CONNECT, synapse: traced, delay: DELAY, back_delay: BACK}
"""
PAIRS = "pairs: {list: [[0, 0], [0, 3], [0, 4], [1, 1], [2, 0], [5, 4]]}"
DRAWN = "{uniform: {low: 0 ms, high: 2 ms, round: nearest}}"
CASES = {
    "listed": (f"{{{PAIRS}}}", "[0 ms, 0.1 ms, 3 ms, 0.7 ms, 16 ms, 0 ms]", "[0.4 ms, 0 ms, 0.1 ms, 9 ms, 0 ms, 2 ms]"),
    "drawn, dense": ("{all_to_all: {}}", DRAWN, "0.2 ms"),
    "drawn back": ("{all_to_all: {}}", "0.3 ms", DRAWN),
    "drawn back, by place": ("{all_to_all: {}}", "0.3 ms", "{value: 0.2 ms * j, round: nearest}"),
    "drawn, sparse": ("{fixed_probability: {p: 0.6}}", "{normal: {mean: 1 ms, std: 0.5 ms, round: nearest}}", DRAWN),
    "by place": (
        "{all_to_all: {}}",
        "{value: 0.3 ms * abs(i - j), round: nearest}",
        "{value: 0.2 ms * j, round: nearest}",
    ),
}


def text_of(connect: str, delay: str, back: str, numerics: str, x0: float = 0.25) -> str:
    pre, post = trains(3, SIZES[0], STEPS, 0.06), trains(4, SIZES[1], STEPS, 0.06)
    projection = PROJECTION.replace("CONNECT", connect).replace("DELAY", delay).replace("BACK", back)
    return model_text(pre, post, SIZES, projection, SYNAPSE.replace("X0", f"{x0}"), STEPS, numerics)


def stepped(text: str, folder: Path, target: str) -> tuple[dict[str, Array], list[Array], list[Array]]:
    """The states after every step; delays and neurons of synapses, of both ends."""
    simulated = start(model_of(text, folder), folder, target)
    found: dict[str, list[Array]] = {n: [] for n in "abcdefgw"}
    for step in range(1, STEPS + 1):
        simulated.instance.run("step", step, 1)
        for name, rows in found.items():
            rows.append(simulated.instance.read(f"traced[s->t].{name}").copy())
    names = {a.name for a in simulated.lowered.program.arrays}
    late = [np.full(len(found["a"][0]), steps) for steps in (3, 2)]
    for end, name in enumerate(("traced[s->t]'delay", "traced[s->t]'back_delay")):
        if name in names:
            late[end] = simulated.instance.read(name).astype(int)
    pre, post = (x.ravel() for x in np.meshgrid(*map(np.arange, SIZES), indexing="ij"))
    if "traced[s->t]'row" in names:
        pre = np.repeat(np.arange(SIZES[0]), np.diff(simulated.instance.read("traced[s->t]'row")))
        post = simulated.instance.read("traced[s->t]'col")[: len(pre)]
    return {n: np.array(rows) for n, rows in found.items()}, late, [pre, post]


def traces(spikes: Array, x0: float) -> tuple[Array, Array]:
    """(before, after) the spikes of each step, from step 0 on; `spikes` (steps + 1, neurons)."""
    before, after = np.zeros(spikes.shape), np.zeros(spikes.shape)
    before[0] = after[0] = x0
    for k in range(1, len(spikes)):
        before[k] = after[k - 1] * np.exp(-DT / 2.0)
        after[k] = before[k] + spikes[k]
    return before, after


@pytest.mark.parametrize(
    ("case", "target", "precision"),
    diagonal(list(CASES), ["cpu", "reference"], ["float32", "float64"]),
)
def test_each_synapse_sees_the_trace_with_its_delay(tmp_path: Path, target: str, precision: str, case: str) -> None:
    text = text_of(*CASES[case], f"{{precision: {precision}}}")
    found, late, (pre, post) = stepped(text, tmp_path, target)
    assert max(len(np.unique(x)) for x in late) > 3
    spikes = [np.zeros((STEPS + 1, n)) for n in SIZES]
    for end, train in enumerate((trains(3, SIZES[0], STEPS, 0.06), trains(4, SIZES[1], STEPS, 0.06))):
        for k, i in train:
            spikes[end][k, i] = 1
    x, y = traces(spikes[0], 0.25), traces(spikes[1], 0.0)
    if "drawn back" in case:  # the one delay of all: the trace itself is not late, but the spikes that reach it are
        x = traces(np.vstack([np.zeros((3, SIZES[0])), spikes[0][:-3]]), 0.25)
    expected = {n: np.zeros(len(post)) for n in found}
    for k in range(1, STEPS + 1):
        seen, back = np.maximum(k - late[0], 0), np.maximum(k - late[1], 0)
        (x_before, x_after), (y_before, y_after) = (
            [v[at, n] for v in z] for z, at, n in ((x, seen, pre), (y, back, post))
        )
        if "drawn back" in case:
            x_before, x_after = (v[k, pre] for v in x)
        came = (k - late[0] > 0) & (spikes[0][seen, pre] > 0)
        went = (k - late[1] > 0) & (spikes[1][back, post] > 0)
        once = (k - late[1] > 0) & ((k - late[1]) % TRIAL == 3)
        expected["a"] = x_before - y_before
        expected["b"] = np.where(came, 2 * x_before, expected["b"])
        expected["w"] = expected["w"] - np.where(came, 0.1 * y_before, 0)
        expected["w"] = expected["w"] + np.where(went, 0.1 * x_after * y_before, 0)
        expected["c"] = np.where(went, x_after, expected["c"])
        expected["d"] = x_after - y_after
        expected["f"] = np.where(once, k * DT, expected["f"])
        expected["g"] = expected["g"] + np.where(once, y_after, 0)
        if k % TRIAL == 0:
            expected["e"] = np.array([2 * x_after[post == j].max() for j in post])
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name][k - 1], value, rtol=10 * TOLERANCE[precision], atol=2e-6, err_msg=f"{name}, step {k}"
            )
    assert min(np.ptp(x) for n, x in expected.items() if n not in "ef") > 0


@both
def test_equal_delays_are_one_delay(tmp_path: Path, target: str) -> None:
    """Delays that are drawn and all equal give the bits of one delay, where the trace begins at rest."""
    numerics, found = "{precision: float32, order: bitwise}", []
    drawn = "{uniform: {low: 0.7 ms, high: 0.7 ms, round: nearest}}"
    for k, delays in enumerate((("0.7 ms", "0.7 ms"), (drawn, "0.7 ms"), ("0.7 ms", drawn), (drawn, drawn))):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        found.append(stepped(text_of("{fixed_probability: {p: 0.6}}", *delays, numerics, 0.0), folder, target)[0])
    for name, values in found[0].items():
        assert np.ptp(values) > 0
        for other in found[1:]:
            np.testing.assert_array_equal(values, other[name], err_msg=name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[a = pre.x - post.y]", "[a = pre.last_spike / (1 ms)]", "`pre.last_spike` is held once per source"),
        ("of: post, when: post.v > -1 mV", "of: pre, when: pre.x > 1", "is tested once per source neuron"),
        ("trial.end", "trial.start", "cannot be read when a trial starts"),
        ("back_delay: 0.2 ms", "clear: trial.end", "`pre.x` is held once per source neuron"),
        (
            "back_delay: 0.2 ms",
            "back_delay: {uniform: {low: 0 ms, high: 1 ms}}",
            "delays that are drawn are not whole steps",
        ),
        (
            "back_delay: 0.2 ms",
            "back_delay: [0 ms, 1 ms]",
            "`back_delay` needs 6 x 5 numbers, one for each pair",
        ),
        (
            "back_delay: 0.2 ms",
            "back_delay: {uniform: {low: -1 ms, high: 1 ms, round: nearest}}",
            "`low` of `back_delay` must not be negative",
        ),
        ("{all_to_all: {}}", "{all_to_all: {storage: bitmask}}", "but `traced` sums over them"),
        ("[a = pre.x - post.y]", "[a = post.previous_once / (1 ms)]", "`post.previous_once` is held once per target"),
        (
            "when: trial.step == 3",
            "when: post.y > 1",
            "`back_delay` differs from synapse to synapse, but the condition",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    case = "drawn, sparse" if "target" in message or "`back_delay` differs" in message else "drawn, dense"
    text = text_of(*CASES[case], "{precision: float32}").replace("events: {end:", "events: {start: 0 ms, end:")
    assert old in text
    with pytest.raises(ModelError) as error:
        model_of(text.replace(old, new), tmp_path)
    assert message in error.value.diagnostics[0].message
