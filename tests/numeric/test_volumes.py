"""Convolutions over depth, rows and columns, and transposed ones, against sums over the taps of their windows: results
and the gradients of weights and input; and that strategies compute them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.trained import load

Array = npt.NDArray[np.float64]
Three = tuple[int, int, int]
pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """
language: 1
name: volumes
network:
  inputs: {x: {shape: SHAPE}, y: {shape: [OUT]}}
  layers:
    - scale_shift: {name: s, inputs: x}
    - KIND: {name: c, filters: 4, bias: false, SETTINGS}
    - flatten: {name: out}
train:
  data: {file: data.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 3
  epochs: 1
  seed: 1
numerics: {precision: float64}
"""
SHAPE = (4, 5, 6, 4)
CASES: dict[str, tuple[Three, Three, Three, tuple[int, ...], int]] = {
    "plain": ((2, 3, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0, 0, 0, 0), 1),
    "bordered": ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1, 1, 1, 1), 1),
    "steps": ((3, 2, 3), (2, 3, 1), (1, 1, 1), (1, 0, 1, 0, 2, 1), 1),
    "apart": ((2, 2, 2), (1, 2, 1), (2, 3, 1), (0, 2, 2, 1, 0, 0), 2),
    "depth alone": ((3, 1, 1), (2, 1, 1), (1, 1, 1), (1, 1, 0, 0, 0, 0), 1),
    "planes alone": ((1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 1, 1, 1, 1), 4),
    "far borders": ((1, 1, 2), (1, 1, 1), (1, 1, 1), (0, 1, 2, 2, 0, 0), 1),
}


def walk(
    taps: Three, step: Three, apart: Three, seen: tuple[int, ...], out: tuple[int, ...]
) -> list[tuple[slice, ...]]:
    """For each tap, what it sees of an image with its border from each position."""
    found = []
    for tap in product(*map(range, taps)):
        first = [t * a for t, a in zip(tap, apart, strict=True)]
        found.append(tuple(slice(f, f + s * (o - 1) + 1, s) for f, s, o in zip(first, step, out, strict=True)))
        assert all(f + s * (o - 1) < n for f, s, o, n in zip(first, step, out, seen, strict=True))
    return found


@pytest.mark.parametrize(("case", "transposed"), diagonal(list(CASES), {"": False, "transposed": True}))
def test_results_and_gradients(tmp_path: Path, case: str, transposed: bool) -> None:
    taps, step, apart, edges, groups = CASES[case]
    sides = [(edges[2 * a], edges[2 * a + 1]) for a in range(3)]
    reach = [(t - 1) * a + 1 for t, a in zip(taps, apart, strict=True)]
    if transposed:
        out = tuple((n - 1) * s + r - sum(p) for n, s, r, p in zip(SHAPE[1:], step, reach, sides, strict=True))
    else:
        out = tuple((n + sum(p) - r) // s + 1 for n, s, r, p in zip(SHAPE[1:], step, reach, sides, strict=True))
    if min(out) < 1:
        pytest.skip("nothing is left")
    small, large = (SHAPE[1:], out) if transposed else (out, SHAPE[1:])
    bordered = [n + sum(p) for n, p in zip(large, sides, strict=True)]
    inside = (..., *(slice(p[0], p[0] + n) for p, n in zip(sides, large, strict=True)))
    seen = walk(taps, step, apart, tuple(bordered), small)
    random = np.random.default_rng(1)
    x, y = random.normal(size=(3, *SHAPE)), random.normal(size=(3, 4 * int(np.prod(out))))
    np.savez(tmp_path / "data.npz", x=x, y=y)
    settings = f"kernel: {list(taps)}, stride: {list(step)}, dilation: {list(apart)}, padding: {list(edges)}"
    kind = "conv_transpose3d" if transposed else "conv3d"
    text = TEXT.replace("SHAPE", str(list(SHAPE))).replace("OUT", str(y.shape[1])).replace("KIND", kind)
    trained = load(text.replace("SETTINGS", f"{settings}, groups: {groups}"), tmp_path)
    scale, w = random.normal(size=4), random.normal(size=trained.read("c.weight").shape)
    trained.write("s.weight", scale)
    trained.write("c.weight", w)
    trained.step(1, range(3))

    scaled = (x * scale.reshape(-1, 1, 1, 1)).reshape(3, groups, 4 // groups, *SHAPE[1:])
    by_tap = w.reshape(
        groups, 4 // groups, 4 // groups, len(seen)
    )  # of a group: (filters, inputs), transposed (inputs, filters)
    sums = np.zeros((3, groups, 4 // groups, *(bordered if transposed else out)))
    image = np.zeros((3, groups, 4 // groups, *bordered))
    if not transposed:
        image[inside] = scaled
    for t, at in enumerate(seen):
        if transposed:
            sums[(..., *at)] += np.einsum("ngcijk,gco->ngoijk", scaled, by_tap[..., t])
        else:
            sums += np.einsum("ngcijk,goc->ngoijk", image[(..., *at)], by_tap[..., t])
    result = (sums[inside] if transposed else sums).reshape(3, -1)
    assert trained.metric("loss") / 3 == pytest.approx(np.mean((result - y) ** 2), rel=1e-12)
    back = (2 * (result - y) / result.size).reshape(3, groups, 4 // groups, *out)
    of_w, of_x = np.zeros(by_tap.shape), np.zeros(image.shape)
    if transposed:
        image[inside] = back
    for t, at in enumerate(seen):
        if transposed:
            of_w[..., t] = np.einsum("ngcijk,ngoijk->gco", scaled, image[(..., *at)])
        else:
            of_w[..., t] = np.einsum("ngoijk,ngcijk->goc", back, image[(..., *at)])
            of_x[(..., *at)] += np.einsum("ngoijk,goc->ngcijk", back, by_tap[..., t])
    np.testing.assert_allclose(trained.read("c.weight"), w - of_w.reshape(w.shape), rtol=0, atol=1e-12)
    through = (
        sum(np.einsum("ngoijk,gco->ngcijk", image[(..., *at)], by_tap[..., t]) for t, at in enumerate(seen))
        if transposed
        else of_x[inside]
    )
    slope = (np.asarray(through).reshape(x.shape) * x).sum((0, 2, 3, 4))
    np.testing.assert_allclose(trained.read("s.weight"), scale - slope, rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", ["conv3d", "conv_transpose3d"])
def test_strategies_compute_them(tmp_path: Path, kind: str, target: str) -> None:
    """Those of images, in all three directions."""
    np.savez(tmp_path / "data.npz", x=np.zeros((16, 16, 8, 8, 8)), y=np.zeros((16, 4 * 512)))
    text = TEXT.replace("SHAPE", "[16, 8, 8, 8]").replace("OUT", "2048").replace("KIND", kind)
    text = (
        text.replace("SETTINGS", "kernel: 3, padding: 1").replace("batch: 3", "batch: 16").replace("float64", "float32")
    )
    (tmp_path / "model.yaml").write_text(text)
    decisions = lower(load_model(tmp_path / "model.yaml", {}), backend(target).capabilities).decisions
    chosen = {
        d.subject: d.verdict for d in decisions if d.pass_name == "choose_strategies" and "train: c." in d.subject
    }
    assert len(chosen) == 3 and not {"nest", "implicit_gemm"} & {*chosen.values()}, chosen
