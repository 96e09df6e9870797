"""Convolutions by Fourier transforms against float64: no less exact than a float32 sum in order, and what is not
finite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from tests.cpu.contractions import Conv, conv, program
from tests.gpu.fft_cases import SHAPES, by_force, epilogue_cases, fft_cases
from tests.gpu.test_contractions import run_products

pytestmark = pytest.mark.gpu
EXACT = Conv(4, 3, 8, 24, 25, (7, 7)), Conv(4, 64, 32, 12, 12), Conv(4, 32, 8, 20, 15, (9, 9))


@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape: Conv, tmp_path: Path) -> None:
    run_products(fft_cases(shape), DType.F32, 1e-6, tmp_path)


def test_epilogues(tmp_path: Path) -> None:
    run_products(epilogue_cases(), DType.F32, 1e-6, tmp_path)


def _run(shape: Conv, x: np.ndarray, w: np.ndarray, tmp_path: Path) -> tuple[list[np.ndarray], list[str]]:
    cases = list(by_force(conv(shape)))
    assert cases
    merged = merge(program(cases, DType.F32, True))
    backend = CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    for number in range(len(cases)):
        instance.write(f"{number}.x", x)
        instance.write(f"{number}.w", w)
    instance.run("train", 1, 1)
    found = [instance.read(f"{n}.y").reshape(c.node.out.shape) for n, c in enumerate(cases)]
    instance.close()
    return found, [str(c.choice and c.choice.literals) for c in cases]


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("shape", EXACT)
def test_it_is_no_less_exact_than_a_sum_in_order(shape: Conv, positive: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    (r, s), (oh, ow) = shape.kernel, shape.out
    x = rng.standard_normal((shape.batch, shape.channels, shape.rows, shape.cols)).astype(np.float32)
    w = rng.standard_normal((shape.filters, shape.channels, r, s)).astype(np.float32)
    if positive:
        x, w = abs(x), abs(w)
    ordered, exact = (np.zeros((shape.batch, shape.filters, oh, ow), real) for real in (np.float32, np.float64))
    for c in range(shape.channels):
        for u in range(r):
            for v in range(s):
                image, weight = x[:, None, c, u : u + oh, v : v + ow], w[None, :, c, u, v, None, None]
                ordered += image * weight
                exact += image.astype(np.float64) * weight
    limit = np.linalg.norm(ordered - exact) / np.linalg.norm(exact)
    for y, what in zip(*_run(shape, x, w, tmp_path), strict=True):
        error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
        assert error <= limit, (error, limit, what)


def test_what_is_not_finite_stays_in_its_pair_of_samples(tmp_path: Path) -> None:
    shape = Conv(6, 60, 9, 20, 20)
    x = np.ones((6, 60, 20, 20), np.float32)
    x[2, 3, 4, 5], x[5, 0, 0, 0] = np.nan, np.inf
    for y, what in zip(*_run(shape, x, np.ones((9, 60, 3, 3), np.float32), tmp_path), strict=True):
        assert np.isnan(y[2, :, 2:5, 3:6]).all() and not np.isfinite(y[5, :, 0, 0]).any(), what
        np.testing.assert_allclose(y[:2], 540.0, rtol=1e-5, err_msg=what)
