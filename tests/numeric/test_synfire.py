"""models/synfire.yaml (Diesmann, Gewaltig and Aertsen 1999): how many neurons of a group answer a packet, against the
same equations with random numbers of numpy, and which packets travel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

Array = npt.NDArray[np.float64]
DT, TAU, TAU_M, C, W = 0.1, 0.3258, 10.0, 250.0, 45.613  # ms, pF, pA
GROUPS, SIZE, SENT, DELAY = 10, 100, 50.0, 5.0


def potential(t: Array) -> Array:
    """What one weight does to a membrane at rest, in mV."""
    rate = 1 / TAU - 1 / TAU_M
    return W * np.e / (TAU * C) * np.exp(-t / TAU_M) * (1 - np.exp(-rate * t) * (1 + rate * t)) / rate**2


def answers(sent: int, neurons: int, seed: int) -> tuple[float, float]:
    """The part of the neurons that `sent` simultaneous spikes make spike within 5 ms, and the rate before, in Hz."""
    rng = np.random.default_rng(seed)
    decay, leak = np.exp(-DT / TAU), np.exp(-DT / TAU_M)
    rate = 1 / TAU - 1 / TAU_M
    # the solution of a step: v from the current and its rise, the current from its rise
    once = (1 - np.exp(-rate * DT)) / rate * leak / C
    twice = np.e / TAU * leak / C * (1 - np.exp(-rate * DT) * (1 + rate * DT)) / rate**2
    v, current, rise = rng.normal(8.4, 2.8, neurons), np.zeros(neurons), np.zeros(neurons)
    v = np.minimum(v, 15)
    rest = np.zeros(neurons, int)
    begin, arrive = 20.0, 60.0
    answered, before = np.zeros(neurons, bool), 0
    for k in range(1, round((arrive + 5) / DT) + 1):
        free = rest == 0
        v = np.where(free, leak * v + once * current + twice * rise, v)
        current = decay * current + np.e * DT / TAU * decay * rise
        rise = decay * rise + W * (rng.poisson(3.5, neurons) - rng.poisson(3.0, neurons))
        rise += W * sent * (k == round(arrive / DT))
        fired = free & (v >= 15)
        v[fired], rest = 0, np.where(fired, 10, np.maximum(rest - 1, 0))
        answered |= fired & (k * DT > arrive)
        before += int(fired.sum()) if begin < k * DT <= arrive else 0
    return float(answered.mean()), before / neurons / (arrive - begin) * 1000


def test_potentials_of_the_paper() -> None:
    """0.14 mV high, after 1.7 ms, 8.5 ms wide at half of that; fluctuations of 2.85 mV (the paper's methods)."""
    t = np.arange(0, 100, 1e-3)
    psp = potential(t)
    assert psp.max() == pytest.approx(0.14, rel=1e-4) and t[psp.argmax()] == pytest.approx(1.7, abs=0.01)
    assert np.ptp(t[psp > 0.07]) == pytest.approx(8.5, abs=0.05)
    assert np.sqrt((35.2 + 30) * np.sum(psp**2) * 1e-3) == pytest.approx(2.85, abs=0.01)


@pytest.fixture(scope="module")
def chains(root: Path) -> dict[str, list[list[Array]]]:
    """By the packet, for each seed: the times of spikes of each group, from when the packet arrives there."""
    found: dict[str, list[list[Array]]] = {}
    for a, sigma in ((45, 0), (60, 0), (60, 3), (100, 3)):
        chain = netloom.load(root / "models" / "synfire.yaml", set={"a": a, "sigma": f"{sigma} ms"})
        for seed in (1, 2, 3):
            t, n = chain.run(seed=seed).spikes("chain")
            late = t - SENT - DELAY * (n // SIZE + 1)
            found.setdefault(f"{a}, {sigma}", []).append([late[n // SIZE == k] for k in range(GROUPS)])
    return found


@pytest.mark.parametrize("sent", [45, 60])
def test_a_group_answers_as_the_equations_do(chains: dict[str, list[list[Array]]], sent: int) -> None:
    p, rate = answers(sent, 4000, sent)
    firsts = [chain[0] for chain in chains[f"{sent}, 0"]]
    many = 3 * SIZE
    found = sum(int(((late > 0) & (late <= 5)).sum()) for late in firsts) / many
    assert abs(found - p) < 4 * np.sqrt(p * (1 - p) * (1 / many + 1 / 4000)), (found, p)
    waiting = sum(int(((late > -35) & (late <= 0)).sum()) for late in firsts)
    expected = rate * many * 0.035
    assert abs(waiting - expected) < 4 * np.sqrt(expected) and 1.5 < rate < 3.5


def test_packets_travel_or_die_out(chains: dict[str, list[list[Array]]]) -> None:
    """Enough spikes, close enough together, become a narrow packet of a spike of each neuron; others vanish in the
    background of about 2 Hz."""
    for packet, travels in (("45, 0", False), ("60, 0", True), ("60, 3", False), ("100, 3", True)):
        for chain in chains[packet]:
            last = chain[-1]
            arrived = last[(last > -1) & (last < 8)]
            if travels:
                assert 0.95 * SIZE <= len(arrived) <= 1.1 * SIZE and arrived.std() < 1, packet
            else:
                assert len(arrived) < 0.1 * SIZE, packet
