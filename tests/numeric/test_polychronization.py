"""models/polychronization.yaml against the author's program (spnet.m of Izhikevich 2006), written here with numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import netloom

Array = npt.NDArray[np.float64]
N, EXC, LATEST = 1000, 800, 20
MS = 2200


class Spnet:
    """A step of 1 ms is: integrate, find who fires, deliver what arrives now. `pre`, `post`, `delay` (steps), `w` and
    `dw` are of excitatory synapses, `inh_pre` and `inh_post` of the others, without a delay and of weight -5."""

    def __init__(self, pre: Array, post: Array, delay: Array, inh_pre: Array, inh_post: Array) -> None:
        self.pre, self.post, self.delay, self.inh_pre, self.inh_post = pre, post, delay, inh_pre, inh_post
        self.w, self.dw = np.full(len(pre), 6.0), np.zeros(len(pre))
        self.of = np.lexsort((pre, delay)).reshape(LATEST, EXC, -1)
        excitatory = np.arange(N) < EXC
        self.a, self.d = np.where(excitatory, 0.02, 0.1), np.where(excitatory, 8.0, 2.0)
        self.v, self.u, self.i = np.full(N, -65.0), np.full(N, -13.0), np.zeros(N)
        self.trace = np.zeros((LATEST + 1, N))
        self.fired = [np.zeros(0, int)] * (LATEST + 1)

    def step(self, k: int, chosen: int) -> Array:
        """Who fires in step k, in which thalamus excites one neuron."""
        self.i[chosen] += 20
        for _ in range(2):
            self.v += 0.5 * ((0.04 * self.v + 5) * self.v + 140 - self.u + self.i)
        self.u += self.a * (0.2 * self.v - self.u)
        fire = self.v >= 30
        self.v[fire], self.u[fire] = -65, self.u[fire] + self.d[fire]
        now = k % (LATEST + 1)
        self.fired[now] = np.flatnonzero(fire[:EXC])
        self.trace[now] = np.where(fire, 0.1, 0.95 * self.trace[now - 1])
        self.i[:] = 0
        arrive = np.concatenate([self.of[late, self.fired[now - late]].ravel() for late in range(LATEST)])
        np.add.at(self.i, self.post[arrive], self.w[arrive])
        self.dw[arrive] -= 1.2 * self.trace[now][self.post[arrive]]
        np.add.at(self.i, self.inh_post[fire[self.inh_pre]], -5)
        after = np.flatnonzero(fire[self.post])
        self.dw[after] += self.trace[now - self.delay[after] - 1, self.pre[after]]
        if k % 1000 == 999:
            self.w = np.clip(self.w + 0.01 + self.dw, 0, 6)
            self.dw *= 0.9
        return np.flatnonzero(fire)


@pytest.mark.usefixtures("cc", "not_optimized")
def test_spikes_and_weights_are_those_of_spnet(root: Path) -> None:
    """Over more than two seconds, in which weights change twice."""
    s = netloom.load(root / "models" / "polychronization.yaml").simulation()
    s.run(f"{MS} ms")
    plastic = [s.projections[f"excitation{k}"] for k in range(LATEST)]
    pre, post = (np.concatenate([getattr(p, end) for p in plastic]) for end in ("source", "target"))
    inhibition = s.projections["inhibition"]
    assert (np.bincount(pre) == 100).all() and (np.bincount(inhibition.source)[EXC:] == 100).all()
    delay = np.concatenate([np.full(len(p.source), k) for k, p in enumerate(plastic)])
    spnet = Spnet(pre, post, delay, inhibition.source, inhibition.target)
    chosen = [0, *s["thalamus"].trace("chosen")[1].ravel().astype(int)]
    fired = [(k, n) for k in range(1, MS + 1) for n in spnet.step(k, chosen[k - 1])]
    t, n = s["cells"].spikes
    assert sorted(zip(np.rint(t).astype(int).tolist(), n.tolist(), strict=True)) == fired and len(fired) > 10_000
    np.testing.assert_allclose(np.concatenate([p.w for p in plastic]), spnet.w, rtol=0, atol=1e-12)
    assert 5.8 < spnet.w.mean() < 5.95 and spnet.w.std() > 0.1
