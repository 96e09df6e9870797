"""Convolutions by Fourier transforms against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.ir.level1.graph import Contract, Map, Tensor, Weight
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies.choice import Problem, product
from compiler.strategies.cpu import fourier_conv, fourier_weight_gradient
from tests.cpu.contractions import Case, Conv, conv, gradient, logical, program, stored
from tests.cpu.test_strategies import DOUBLE, SINGLE, check, with_epilogue
from tests.evaluate_graph import evaluate_graph

pytestmark = pytest.mark.usefixtures("cc")


def by_fourier(
    problem: tuple[Contract, dict[str, Tensor]], real: DType, tile: int = 0, after: Map | None = None
) -> Case:
    """The case by the tile that is number `tile` by estimate, whether it is the fastest way or not."""
    found = product(*problem, LANES * 4 // real.bytes, real.bytes)
    assert isinstance(found, Problem)
    strategy = fourier_conv if problem[0].out.batched else fourier_weight_gradient
    choices = strategy.variants(found)
    assert isinstance(choices, list), choices
    return Case(*problem, choices[tile % len(choices)], after)


CONVS = [
    Conv(1, 1, 1, 7, 7, (7, 7)),
    Conv(5, 3, 5, 20, 16, (9, 9)),
    Conv(16, 2, 17, 23, 9, (7, 5), pad=3),
    Conv(17, 5, 3, 14, 31, (3, 11), pad=1),
    Conv(8, 4, 6, 13, 13, (13, 13), pad=6),
    Conv(3, 6, 9, 12, 11, (5, 5), pad=2, groups=3),
]


@pytest.mark.parametrize("real", SINGLE)
def test_convolutions(real: DType, tmp_path: Path) -> None:
    """Forward and to the input: windows, borders, groups, batches that do not fill the lanes."""
    cases = []
    for n, c in enumerate(CONVS):
        forward = conv(c)
        cases += [by_fourier(forward, real, n), by_fourier(gradient(*forward, 0), real, n + 1)]
    check(cases, real, tmp_path)


@pytest.mark.parametrize("real", DOUBLE)
def test_gradients_of_weights(real: DType, tmp_path: Path) -> None:
    check([by_fourier(gradient(*conv(c), 1), real, n) for n, c in enumerate(CONVS)], real, tmp_path)


@pytest.mark.parametrize("real", SINGLE)
def test_epilogues(real: DType, tmp_path: Path) -> None:
    cases = []
    for c in (Conv(18, 3, 5, 9, 14, (5, 7), pad=2), Conv(16, 4, 6, 11, 9, (5, 5), pad=1, groups=2)):
        grouped = c.groups > 1
        problem, after = with_epilogue(conv(c), "relu(x0 + x1)", ("b", (1, 2) if grouped else (1,)))
        cases.append(by_fourier(problem, real, 0, after))
        weights = gradient(*conv(c), 1)
        problem, after = with_epilogue(weights, "x1 - 0.5 * x0", ("q", tuple(range(len(weights[0].out.shape)))))
        cases.append(by_fourier(problem, real, 0, after))
    check(cases, real, tmp_path)


def in_order(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution of x[n, c, i, j] with w[o, c, r, s] as float32 sums in order."""
    _, channels, high, wide = w.shape
    sums = np.zeros((x.shape[0], w.shape[0], x.shape[2] - high + 1, x.shape[3] - wide + 1), np.float32)
    for c in range(channels):
        for r in range(high):
            for s in range(wide):
                part = x[:, c, r : r + sums.shape[2], s : s + sums.shape[3]]
                sums += part[:, None] * w[None, :, c, r, s, None, None]
    return sums


def no_worse_than_in_order(case: Case, positive: bool, folder: Path) -> bool:
    """Whether the error of a convolution is at most that of float32 sums in order: relative to float64, in the
    Frobenius norm."""
    merged = merge(program([case], DType.F32))
    backend = CpuBackend()
    instance = backend.load(backend.build(merged, folder / "build", {}), merged, 1)
    rng = np.random.default_rng(1)
    draw = rng.random if positive else rng.standard_normal
    arrays = {n: draw(case.tensors[n].shape).astype(np.float32) for n in ("x", "w")}
    for name, values in arrays.items():
        instance.write(f"0.{name}", stored(values, case.tensors[name], LANES))
    instance.run("train", 1, 1)
    found = logical(instance.read("0.y"), case.node.out, LANES)
    instance.close()
    inputs = tuple(Weight(case.tensors[n], "zeros") for n in arrays)
    wide = {n: v.astype(np.float64) for n, v in arrays.items()}
    exact = evaluate_graph((*inputs, case.node), wide)[case.node.out.name]
    return bool(np.linalg.norm(found - exact) <= np.linalg.norm(in_order(arrays["x"], arrays["w"]) - exact))


@pytest.mark.parametrize("positive", [False, True])
def test_the_error_is_below_that_of_a_sum_in_order(positive: bool, tmp_path: Path) -> None:
    """Where sums are as short as the rules permit."""
    assert no_worse_than_in_order(by_fourier(conv(Conv(4, 8, 4, 18, 18, (5, 5))), DType.F32), positive, tmp_path)


def test_short_sums_are_direct() -> None:
    found = product(*conv(Conv(16, 7, 64, 32, 32, (5, 5))), LANES, 4)
    assert fourier_conv.STRATEGY.choice(found) is None
