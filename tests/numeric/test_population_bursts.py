"""models/population_bursts.yaml (Tsodyks, Uziel and Markram 2000) against the same equations in numpy, spike by spike,
and its bursts, which come of depression."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

Array = npt.NDArray[np.float64]
N, EXC, DT = 500, 400, 0.25
PAIRS = [(a, b) for a in ("exc", "inh") for b in ("exc", "inh")]
FIRST = {"exc": 0, "inh": EXC}


def bursts(times: Array, steps: int) -> int:
    """How often at least a fifth of the excitatory neurons begins to spike within 5 ms, after the first 200 ms."""
    counts = np.bincount((times // 5).astype(int), minlength=int(steps * DT / 5)) / EXC
    begins = (counts[1:] >= 0.2) & (counts[:-1] < 0.2)
    return int(begins[40:].sum())


def test_spikes_are_those_of_the_equations(root: Path) -> None:
    """Over 1.5 s, with a burst; connections and drawn values are taken from the simulation."""
    steps = 6000
    s = netloom.load(root / "models" / "population_bursts.yaml").simulation()
    v, current = (np.concatenate([s[p][x] for p in ("exc", "inh")]) for x in ("v", "I_b"))
    held = [s.projections[f"synapses[{a}->{b}]"] for a, b in PAIRS]
    pre = np.concatenate([p.source + FIRST[a] for p, (a, _) in zip(held, PAIRS, strict=True)])
    post = np.concatenate([p.target + FIRST[b] for p, (_, b) in zip(held, PAIRS, strict=True)])
    w, first, rec = (np.concatenate([p[x] for p in held]) for x in ("w", "U", "tau_rec"))
    facil = np.where(post < EXC, 0.01, 1000.0)
    u, x, last = np.zeros(len(w)), np.ones(len(w)), np.zeros(len(w))
    of = [np.flatnonzero(pre == k) for k in range(N)]
    leak, decay = np.exp(-DT / 30), np.exp(-DT / 3)
    coupling = (decay - leak) / (30 * (1 / 30 - 1 / 3))
    i, rest, on_the_way = np.zeros(N), np.zeros(N, int), np.zeros(0, int)
    period = np.where(np.arange(N) < EXC, 12, 8)
    spikes = []
    for k in range(1, steps + 1):
        free = rest == 0
        v = np.where(free, leak * v + coupling * i + (1 - leak) * current, v)
        i *= decay
        fired = np.flatnonzero(free & (v >= 15))
        rest = np.maximum(rest - 1, 0)
        v[fired], rest[fired] = 13.5, period[fired]
        at = on_the_way  # of the spikes of the step before
        since = k * DT - last[at]
        u[at] *= np.exp(-since / facil[at])
        x[at] = 1 + (x[at] - 1) * np.exp(-since / rec[at])
        u[at] += first[at] * (1 - u[at])
        np.add.at(i, post[at], w[at] * u[at] * x[at])
        x[at] -= u[at] * x[at]
        last[at] = k * DT
        on_the_way = np.concatenate([np.zeros(0, int), *(of[n] for n in fired)])
        spikes += [(k, int(n)) for n in fired]
    s.run(f"{steps * DT} ms")
    found = []
    for p in ("exc", "inh"):
        t, n = s[p].spikes
        found += list(zip(np.rint(t / DT).astype(int).tolist(), (n + FIRST[p]).tolist(), strict=True))
    found.sort()
    assert found == spikes and len(spikes) > 5000 and bursts(s["exc"].spikes[0], steps) >= 1


def test_bursts_need_depression(root: Path) -> None:
    """About one in a second, as in figure 1 of the paper; none where synapses recover at once."""
    steps = 24000
    found = {}
    for recovery in ("800 ms", "5 ms"):
        s = netloom.load(root / "models" / "population_bursts.yaml", set={"depression": recovery}).simulation(seed=2)
        s.run(f"{steps * DT} ms")
        found[recovery] = bursts(s["exc"].spikes[0], steps)
        assert 2 < s["exc"].spikes[0].size / EXC / (steps * DT / 1000) < 12
    assert 2 <= found["800 ms"] <= 10 and found["5 ms"] == 0
