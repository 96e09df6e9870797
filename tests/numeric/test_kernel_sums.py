"""Sums over the synapses of a convolution with one element of its kernel, against plain Python."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

IN, OUT, KERNEL, PAD, STRIDE = (2, 5, 6), (3, 3, 3), 3, 1, 2
MODEL = f"""\
language: 1
name: tied
phases: {{trial: {{every: 5 ms, events: {{start: 0 ms, end: 5 ms}}}}}}
neurons:
  pre: {{state: {{x: 0}}, update: [x = self.i + 1]}}
  post: {{state: {{y: 0}}, inputs: {{g: {{}}}}, update: [y = 0.5 * self.i - 3, z = g]}}
synapses:
  tied:
    state: {{w: {{uniform: {{low: 0, high: 1}}}}, own: 0, n: 0, total: 0, most: 0, mean: 0, first: 0}}
    on:
      trial.start: [own = w, w = first_kernel(w), first = w]
      trial.end:
        - n = sum_kernel(1)
        - total = sum_kernel(pre.x * post.y)
        - most = max_kernel(pre.x) - min_kernel(post.y)
        - mean = mean_kernel(own)
        - w = w + 0.001 * mean_kernel(pre.x * post.y)
populations: {{a: {{neuron: pre, shape: {list(IN)}}}, b: {{neuron: post, shape: {list(OUT)}}}}}
projections:
  p: {{from: a, to: b, connect: {{CONNECT}}, synapse: tied}}
simulate: {{dt: 1 ms, duration: 5 ms, seed: 4}}
numerics: {{precision: float64, order: bitwise}}
"""


def elements(depthwise: bool) -> dict[tuple[int, int], int]:
    """The element of the kernel of every connected pair."""
    found = {}
    for c, y, x, o in product(*map(range, IN), range(OUT[0])):
        if depthwise and c != o:
            continue
        for ky, kx in product(range(KERNEL), range(KERNEL)):
            up, left = y + PAD - ky, x + PAD - kx
            if up % STRIDE or left % STRIDE or not (0 <= up // STRIDE < OUT[1] and 0 <= left // STRIDE < OUT[2]):
                continue
            i, j = (c * IN[1] + y) * IN[2] + x, (o * OUT[1] + up // STRIDE) * OUT[2] + left // STRIDE
            found[i, j] = ((c if depthwise else o * IN[0] + c) * KERNEL + ky) * KERNEL + kx
    return found


@pytest.mark.parametrize(("target", "depthwise"), diagonal(["cpu", "reference"], [False, True]))
def test_sums_over_positions(tmp_path: Path, target: str, depthwise: bool) -> None:
    text = MODEL.replace(
        "CONNECT", f"conv2d: {{kernel: 3, padding: 1, stride: 2, depthwise: {str(depthwise).lower()}}}"
    )
    if depthwise:
        text = text.replace(f"shape: {list(OUT)}", f"shape: {[IN[0], *OUT[1:]]}")
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    s = netloom.load(tmp_path / "m.yaml").simulation(target=target)
    s.run("5 ms")
    p, known = s.projections["p"], elements(depthwise)
    pairs = list(zip(p.source.tolist(), p.target.tolist(), strict=True))
    assert sorted(pairs) == sorted((i, j) for i, j in known if j < len(s["b"]))
    which = np.array([known[pair] for pair in pairs])
    x, y = p.source + 1.0, 0.5 * p.target - 3
    of = [which == e for e in which]
    expected = {
        "n": [m.sum() for m in of],
        "total": [(x * y)[m].sum() for m in of],
        "most": [x[m].max() - y[m].min() for m in of],
        "mean": [p.own[m].mean() for m in of],
        "first": [p.own[m][0] for m in of],
    }
    expected["w"] = [f + 0.001 * t / n for f, t, n in zip(*(expected[k] for k in ("first", "total", "n")), strict=True)]
    for name, values in expected.items():
        np.testing.assert_allclose(getattr(p, name), values, rtol=1e-12, err_msg=name)
    assert len(np.unique(p.w)) == len(np.unique(which)) > 15  # one weight for each element of the kernel
