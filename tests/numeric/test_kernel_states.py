"""Kernels of convolutions that events of phases change, `storage: toeplitz`, against numbers worked out apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

KERNEL = [round(0.1 * k + 0.1, 1) for k in range(18)]
TEXT = f"""language: 1
name: kernels
phases: {{trial: {{every: 7 ms, events: {{start: 0 ms, end: 7 ms}}}}}}
neurons:
  dot: {{state: {{n: 0}}, update: [n = n + 1], spike: {{when: n % (2 + self.i % 5) == 0}}}}
  cell: {{inputs: {{g: {{}}}}, state: {{v: 0}}, update: [v = g]}}
synapses:
  scaled:
    params: {{rate: 0.9}}
    state: {{w: 1, n: 0}}
    let: {{less: rate * w}}
    on_pre: [deliver(w * (1 + n))]
    on: {{trial.end: [w = less + 0.5 * trial.count, n = n + 1], trial.start: ["w = min(w, 1.5)"]}}
populations: {{image: {{neuron: dot, shape: [1, 6, 6]}}, maps: {{neuron: cell, shape: [2, 4, 4]}}}}
projections:
  p:
    from: image
    to: maps
    connect: {{conv2d: {{kernel: 3, storage: STORAGE}}}}
    synapse: scaled
    init: {{w: {KERNEL}}}
    deliver: {{into: g}}
simulate: {{dt: 1 ms, duration: 30 ms}}
numerics: {{precision: float64}}
"""


def expected() -> npt.NDArray[np.float64]:
    """What arrives in each step: a spike of step k acts in step k + 1."""
    w, n, out = np.array(KERNEL).reshape(2, 3, 3), 0, [np.zeros((2, 4, 4))]
    period = (2 + np.arange(36) % 5).reshape(6, 6)
    for k in range(1, 30):
        if (k - 1) % 7 == 0:
            w = np.minimum(w, 1.5)
        image = (k % period == 0).astype(float)
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
        out.append(np.einsum("yxab,oab->oyx", windows, w * (1 + n)))
        if k % 7 == 0:
            w, n = 0.9 * w + 0.5 * ((k - 1) // 7), n + 1
    return np.array(out)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("storage", ["toeplitz", "sparse"])
def test_events_change_kernels(storage: str, target: str) -> None:
    s = netloom.load(TEXT.replace("STORAGE", storage)).simulation(target=target)
    found = []
    for _ in range(30):
        s.run("1 ms")
        found.append(np.asarray(s["maps"].v).reshape(2, 4, 4))
    np.testing.assert_allclose(np.array(found), expected(), rtol=1e-12)
    assert np.asarray(s.projections["p"].w).size == (18 if storage == "toeplitz" else 288)
