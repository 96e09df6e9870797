"""Convolutions of float32 by split_conv against float64: every shape of tiles with and without splits, both orders of
axes, steps and gaps, sizes that fill no tile; epilogues; accuracy, scales, and what is not finite."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies.cuda.split import split_conv
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.cpu.test_strategies import with_epilogue
from tests.gpu.split_conv_cases import SHAPES, by_force, directions, last
from tests.gpu.test_contractions import program, run_products

pytestmark = pytest.mark.gpu

Reals = npt.NDArray[np.float64]


def test_numbers(tmp_path: Path) -> None:
    cases = [case for p in directions(SHAPES) for case in by_force(p)]
    found = [dict((*c.choice.columns, *c.choice.literals)) for c in cases if c.choice]
    ways = {(x["weights"], x["s_tile"], x["s_splits"] > 1) for x in found}
    assert ways == set(product((0, 1), range(len(split_conv.COLUMNS)), (False, True)))
    assert len(cases) > 100
    run_products(cases, DType.F32, 3e-7, tmp_path)


def test_epilogues(tmp_path: Path) -> None:
    forward = conv(Conv(5, 32, 72, 6, 9, pad=1))
    cases = []
    for problem, text, bias, other in (
        (forward, "relu(x0 + x1) + x2", ("b", (1,)), ("q", (0, 1, 2, 3))),
        (last(forward), "relu(x0 + x1) + x2", ("b", (3,)), ("q", (0, 1, 2, 3))),
    ):
        cases += by_force(*with_epilogue(problem, text, bias, other))
    for problem in (gradient(*forward, 0), last(gradient(*forward, 0))):
        cases += by_force(*with_epilogue(problem, "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3))))
    for problem in (gradient(*forward, 1), last(gradient(*forward, 1))):
        cases += by_force(*with_epilogue(problem, "x1 - 0.5 * x0", ("q", (0, 1, 2, 3))))
    run_products(cases, DType.F32, 3e-7, tmp_path)


def images(c: Conv, case: Case, x: npt.NDArray[np.float32], w: npt.NDArray[np.float32], folder: Path) -> Reals:
    """What a forward convolution makes of an image and weights."""
    merged, backend = merge(program([case], DType.F32, True)), CudaBackend()
    instance = backend.load(backend.build(merged, folder, {}), merged, 1)
    instance.write("0.x", x)
    instance.write("0.w", w)
    instance.run("train", 1, 1)
    found = instance.read("0.y").reshape(case.node.out.shape)
    instance.close()
    return np.asarray(found, np.float64)


def windows(x: npt.NDArray[np.float32], taps: int) -> npt.NDArray[np.float32]:
    """(n, c, i, j, r, s) of an image."""
    found = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(2, 3))
    return np.asarray(found)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("channels", "taps"), [(29, 3), (64, 3), (400, 3), (160, 1)])
def test_no_less_exact_than_a_sum_in_order(channels: int, taps: int, positive: bool, tmp_path: Path) -> None:
    c = Conv(2, channels, 40, 10, 12, (taps, taps))
    case = next(iter(by_force(conv(c))))
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((2, channels, 10, 12)).astype(np.float32)
    w = rng.standard_normal((40, channels, taps, taps)).astype(np.float32)
    if positive:
        x, w = abs(x), abs(w)
    seen = windows(x, taps)
    ordered = np.zeros((2, 40, 11 - taps, 13 - taps), np.float32)
    for k, r, s in np.ndindex(channels, taps, taps):
        ordered += seen[:, None, k, :, :, r, s] * w[None, :, k, r, s, None, None]
    exact = np.einsum("ncijrs,ocrs->noij", seen.astype(np.float64), w.astype(np.float64), optimize=True)
    found = images(c, case, x, w, tmp_path)
    error, limit = (np.linalg.norm(y - exact) / np.linalg.norm(exact) for y in (found, ordered))
    assert error <= limit, (error, limit)


def test_pixels_have_their_own_scales(tmp_path: Path) -> None:
    """Pixels of all magnitudes beside each other; what is not finite stays in the windows that see it."""
    c = Conv(2, 64, 24, 9, 12, (1, 5))
    case = next(iter(by_force(conv(c))))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 64, 9, 12)).astype(np.float32)
    x *= (10.0 ** rng.uniform(-16, 16, (2, 1, 9, 1))).astype(np.float32)  # lines do not meet in windows
    x[1, :, 4] = 0
    w = rng.standard_normal((24, 64, 1, 5)).astype(np.float32)
    seen = np.lib.stride_tricks.sliding_window_view(x, 5, axis=3)
    exact = np.einsum("ncijs,ocs->noij", seen.astype(np.float64), w[:, :, 0].astype(np.float64), optimize=True)
    found = images(c, case, x, w, tmp_path)
    error, norm = (np.linalg.norm(y, axis=(1, 3)) for y in (found - exact, exact))
    assert np.all(error <= 4e-7 * norm) and not found[1, :, 4].any()
    x[0, 7, 3, 6], x[1, 9, 4, 0] = np.inf, np.nan
    again = images(c, case, x, w, tmp_path)
    finite = np.isfinite(again).all(1)
    hit = np.zeros((2, 9, 8), bool)
    hit[0, 3, 2:7], hit[1, 4, 0] = True, True
    assert np.array_equal(~finite, hit)
    assert np.array_equal(again.transpose(0, 2, 3, 1)[~hit], found.transpose(0, 2, 3, 1)[~hit])
