"""Learning by a global signal that synapses read: Rescorla and Wagner (1972), temporal differences (Sutton and Barto
1990; Schultz, Dayan and Montague 1997), both in Axon too (models/axon/rl_*.yaml)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.numeric.simulated import simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

RESCORLA_WAGNER = """language: 1
name: rescorla_wagner
neurons:
  cue: {params: {since: 0}, state: {x: 0}, on: {trial.start: [x = 1 if trial.count >= since else 0]}}
  value: {state: {v: 0}, inputs: {g: {}}, update: [v = g]}
  dopamine:
    others: {value: {v: 1}}
    state: {error: 0}
    update: [error = 1 - value.v]
synapses:
  learned:
    others: {dopamine: {error: 1}}
    params: {rate: 0.2}
    state: {w: 0}
    update: [deliver(w * pre.x)]
    on: {trial.end: [w = w + rate * dopamine.error * pre.x]}
phases: {trial: {every: 5 ms, events: {start: 0 ms, end: 5 ms}}}
populations:
  cues: {neuron: cue, size: 2, params: {since: [0, 20]}}
  value: {neuron: value, size: 1}
  dopamine: {neuron: dopamine, size: 1, others: {value: value}}
projections:
  p:
    from: cues
    to: value
    connect: {all_to_all: {}}
    synapse: learned
    deliver: {into: g}
    others: {dopamine: dopamine}
simulate: {dt: 1 ms, duration: 200 ms}
record: [{synapses: {from: p, variables: [w], every: 5 ms}}]
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_rescorla_wagner_blocks(target: str, tmp_path: Path) -> None:
    """Both cues are presented from trial 20 on: what the first predicts, the second does not learn."""
    r = simulate(RESCORLA_WAGNER, tmp_path, target)
    w = np.zeros(2)
    for trial in range(40):
        x = np.array([1.0, trial >= 20])
        w = w + 0.2 * (1 - w @ x) * x
    np.testing.assert_allclose(r.instance.read("p[cues->value].w"), w, rtol=1e-12)
    assert w[0] > 0.98 and w[1] < 0.01
    alone = simulate(RESCORLA_WAGNER.replace("[0, 20]", "[20, 20]"), tmp_path, target)
    np.testing.assert_allclose(alone.instance.read("p[cues->value].w"), 0.5, rtol=1e-4)  # without the first


TD = """language: 1
name: temporal_differences
neurons:
  place: {state: {x: 0}, update: [x = 1 if trial.step == 5 + self.i else 0]}   # time since the cue, in steps
  value: {state: {v: 0}, inputs: {g: {}}, update: [v = g]}
  dopamine:
    others: {value: {v: 1}}
    params: {gamma: 1, at: 15}
    state: {error: 0, last: 0}
    update:
      - error = (1 if trial.step == at + 2 else 0) + gamma * value.v - last    # of two steps before
      - last = value.v
synapses:
  learned:
    others: {dopamine: {error: 1}}
    params: {rate: 0.3}
    state: {w: 0}
    update: [deliver(w * pre.x), w = w + rate * dopamine.error * delayed(pre.x)]
phases: {trial: {every: 20 ms}}
populations:
  time: {neuron: place, size: 10}
  value: {neuron: value, size: 1}
  dopamine: {neuron: dopamine, size: 1, others: {value: value}}
projections:
  p:
    from: time
    to: value
    connect: {all_to_all: {}}
    synapse: learned
    deliver: {into: g}
    delay: 3 ms
    others: {dopamine: dopamine}
simulate: {dt: 1 ms, duration: 2 s}
record: [{trace: {from: dopamine, variables: [error]}}]
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_dopamine_moves_from_reward_to_cue(target: str, tmp_path: Path) -> None:
    r = simulate(TD, tmp_path, target)
    found = r.trace("dopamine", "error").reshape(100, 20)
    w, errors, v_before, values = np.zeros(10), [], 0.0, [0.0, 0.0]
    pasts = [np.zeros(10)] * 3
    for k in range(1, 2001):
        step = (k - 1) % 20 + 1
        x = (step == 5 + np.arange(10)).astype(float)
        v = values[-1]  # what was delivered at the end of the step before
        error = (step == 17) + v_before - values[-3] if k > 2 else 0.0
        errors.append(error)
        values.append(float(w @ x))
        v_before = v
        w = w + 0.3 * error * pasts[-3]
        pasts.append(x)
    np.testing.assert_allclose(found, np.array(errors).reshape(100, 20), rtol=1e-10, atol=1e-14)
    cue, reward = 4 + 2, 14 + 2  # places in a trial: what is of step k is seen two steps later
    assert found[0, reward] == 1 and found[0, cue] == 0
    assert found[-1, cue] > 0.95 and abs(found[-1, reward]) < 0.05
    middle = found[15, cue + 1 : reward]
    assert middle.max() > 0.1  # on its way


def learned_in_trials(root: Path, name: str, target: str, trials: int) -> list[tuple[float, float]]:
    """Dopamine at the end of each trial of a model of Axon's, and how much a weight has changed. The weights after
    a trial are those before it and what Axon's equations make of dopamine and of the input's calcium."""
    s = netloom.load(root / "models" / "axon" / f"{name}.yaml").simulation(target=target)
    weights, before, found = np.zeros((60, 2)), np.zeros(60), []
    for _ in range(trials):
        s.run("200 ms")
        da, act, ge = float(s["DA"].da[0]), np.asarray(s["Pred"].act), np.asarray(s["Pred"].g_e)
        sign = np.array([1, -1])
        sender = before if name == "rl_td" else np.asarray(s["Input"].ca_p, float)
        change = 0.1 * da * np.outer(sender, sign)
        beyond = np.sign(ge - act) * sign * np.sign(da) > 0  # where a bound is reached, weights do not go further
        expected = np.maximum(weights + np.where(beyond, 0, change), 0)
        weights_now = np.asarray(s.projections["Input_Pred"].wt, float).reshape(60, 2)
        np.testing.assert_allclose(weights_now, expected, atol=1e-6)
        found.append((da, float(np.abs(weights_now - weights).max())))
        weights, before = weights_now, np.asarray(s["Input"].ca_d, float)
    return found


@pytest.mark.parametrize(("target", "trials"), [("cpu", 30), pytest.param("reference", 5, marks=pytest.mark.slow)])
def test_axon_rescorla_wagner_learns(root: Path, target: str, trials: int) -> None:
    found = learned_in_trials(root, "rl_rw", target, trials)
    assert found[0][0] == 1 and found[0][1] > 0.01  # a first reward
    if target == "cpu":
        rewarded = [change for da, change in found if da > 0.01]
        assert rewarded[-1] == 0  # the prediction has reached its bound


@pytest.mark.parametrize("target", ["cpu", pytest.param("reference", marks=pytest.mark.slow)])
def test_axon_temporal_differences_learn(root: Path, target: str) -> None:
    """In the first sequence dopamine is the reward; one trial before, what dopamine meets of the cue learns."""
    found = learned_in_trials(root, "rl_td", target, 16)
    np.testing.assert_allclose([da for da, _ in found], [0] * 15 + [1], atol=1e-3)
    assert found[15][1] > 0.01 and max(change for _, change in found[:15]) < 1e-3


def trials_of(root: Path, name: str, seed: int) -> dict[str, np.ndarray]:
    table = netloom.load(root / "models" / "axon" / f"{name}.yaml").run(seed=seed).table("trials")
    return {column: np.asarray(values) for column, values in table.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_axon_dopamine_is_blocked(root: Path, seed: int) -> None:
    """Waelti, Dickinson and Schultz (2001, Nature 412:43): dopamine neurons are depressed where the reward of the
    control Y is omitted, and not after the blocked X. Reward that is predicted causes none, one that is not, 1."""
    found = trials_of(root, "rl_rw", seed)
    dopamine, k = found["dopamine"], np.arange(110)
    a, y = (found["control"] == kind for kind in (0, 1))
    pretraining, pairing, test = k < 50, (k >= 50) & (k < 100), k >= 100
    assert dopamine[pretraining & a][0] == 1 and abs(dopamine[pretraining & a][-1]) < 0.1
    assert np.abs(dopamine[pairing & a]).max() < 0.2 and dopamine[pairing & y][0] == pytest.approx(1, abs=0.05)
    assert dopamine[test & y][0] == pytest.approx(-0.5, abs=0.1)
    assert np.abs(dopamine[test & a]).max() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_axon_dopamine_moves_from_reward_to_cue(root: Path, seed: int) -> None:
    """Schultz, Dayan and Montague (1997), figure 1: before learning dopamine is at the reward, after it at the cue,
    discounted five times; it dips at the time of a reward that is omitted."""
    found = {column: values.reshape(100, 20) for column, values in trials_of(root, "rl_td", seed).items()}
    dopamine, came = found["dopamine"], found["reward"][:, 15] > 0
    assert dopamine[came][0, 15] == pytest.approx(1, abs=0.01) and abs(dopamine[0, 10]) < 0.01
    late = np.arange(100) >= 20
    assert np.median(dopamine[late & came, 10]) == pytest.approx(0.9**5, abs=0.06)
    assert np.median(dopamine[late & came, 15]) == pytest.approx(0, abs=0.05)
    assert np.median(dopamine[late & ~came, 15]) == pytest.approx(-1, abs=0.05)
