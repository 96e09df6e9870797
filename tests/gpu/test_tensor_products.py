"""Products on matrix units against float64, and no less exact than a float32 sum in order where that is promised."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies.cuda import stored_products
from compiler.strategies.cuda.split import split_products
from compiler.strategies.cuda.tensor_products import BF16, FLOAT32, TF32
from tests.cpu.contractions import program
from tests.gpu.tensor_cases import (
    by_force,
    in_bf16,
    split_cases,
    stored_by_force,
    stored_cases,
    stored_tf32_cases,
    tensor_cases,
    transposed,
)
from tests.gpu.test_contractions import run_products

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("kind", "unit"), [(FLOAT32, 1e-6), (TF32, 6e-4), (BF16, 5e-3)])
def test_sums(kind: str, unit: float, tmp_path: Path) -> None:
    run_products(tensor_cases(kind), DType.F32, unit, tmp_path)


def test_sums_of_split_factors(tmp_path: Path) -> None:
    run_products(split_cases(), DType.F32, 1e-6, tmp_path)


def test_sums_of_what_is_stored_in_bf16(tmp_path: Path) -> None:
    """Products are exact, and sums those of the units, which truncate."""
    run_products(stored_cases(), DType.F32, 3e-6, tmp_path)


def test_sums_of_float32_that_the_copy_engine_rounds(tmp_path: Path) -> None:
    run_products(stored_tf32_cases(), DType.F32, 6e-4, tmp_path)


def test_rounding_is_to_the_nearest(tmp_path: Path) -> None:
    """Positive factors show what would be cut off: sums were too small by about 2^-12 of each."""
    case = next(iter(stored_by_force(transposed(128, 128, 512, False, False), None, stored_products.TF32)))
    merged, backend = merge(program([case], DType.F32, True)), CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    x, w = (np.random.default_rng(n).uniform(1, 2, (128, 512)).astype(np.float32) for n in (1, 2))
    instance.write("0.x", x)
    instance.write("0.w", w)
    instance.run("train", 1, 1)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    assert abs(np.mean(instance.read("0.y").reshape(exact.shape) / exact) - 1) < 2e-5
    instance.close()


def test_small_products_of_what_is_stored(tmp_path: Path) -> None:
    """Each tile and transpose once, and a split: few enough for compute-sanitizer."""
    problems = [transposed(136, 72, k, r, c) for r in (False, True) for c in (False, True) for k in (136, 264)]
    cases = [case for p in problems for case in stored_by_force(in_bf16(p))]
    cases += [case for p in problems for case in stored_by_force(p, None, stored_products.TF32)]
    run_products(cases, DType.F32, 6e-4, tmp_path)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(
    ("kind", "terms"),
    [*product((FLOAT32,), (64, 128, 1000, 4096)), *product((split_products.NAME,), (160, 256, 1000, 4096))],
)
def test_float32_is_no_less_exact_than_a_sum_in_order(kind: str, terms: int, positive: bool, tmp_path: Path) -> None:
    cases = list(by_force(transposed(132, 128, terms, False, True), kind))
    merged = merge(program(cases, DType.F32, True))
    backend = CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    rng = np.random.default_rng(terms)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((132, terms), (terms, 128)))
    if positive:
        x, w = abs(x), abs(w)
    ordered = np.zeros((132, 128), np.float32)
    for k in range(terms):
        ordered += x[:, k, None] * w[None, k]
    exact = x.astype(np.float64) @ w.astype(np.float64)
    for number in range(len(cases)):
        instance.write(f"{number}.x", x)
        instance.write(f"{number}.w", w)
    instance.run("train", 1, 1)
    for number, case in enumerate(cases):
        found = instance.read(f"{number}.y").reshape(exact.shape)
        error, limit = (np.linalg.norm(y - exact) / np.linalg.norm(exact) for y in (found, ordered))
        assert error <= limit, (error, case.choice)
    instance.close()


def test_blocks_of_split_factors_have_their_own_scales(tmp_path: Path) -> None:
    """Rows are as exact as float32 sums, though they lie beside others 1,000 times larger, in blocks of all magnitudes
    and of zeros; what is not finite stays in its row."""
    (case,) = list(by_force(transposed(256, 128, 256, False, False), split_products.NAME))[:1]
    merged, backend = merge(program([case], DType.F32, True)), CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((256, 256), (128, 256)))
    x *= (10.0 ** np.repeat(rng.uniform(-16, 16, 4), 64) * 1000.0 ** rng.integers(0, 2, 256))[:, None].astype(
        np.float32
    )
    x[64:128] = 0
    instance.write("0.x", x)
    instance.write("0.w", w)
    instance.run("train", 1, 1)
    found = instance.read("0.y").reshape(256, 128)
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    error, norm = (np.linalg.norm(y, axis=1) for y in (found - exact, exact))
    assert np.all(error <= 4e-7 * norm) and not found[64:128].any()
    x[7, 200], x[70, 3] = np.inf, np.nan
    instance.write("0.x", x)
    instance.run("train", 2, 1)
    again = instance.read("0.y").reshape(256, 128)
    assert not np.isfinite(again[[7, 70]]).any()
    assert np.array_equal(np.delete(again, [7, 70], 0), np.delete(found, [7, 70], 0))
    instance.close()
