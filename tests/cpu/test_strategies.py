"""Contraction strategies on the CPU against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.expr.ast import Expr
from compiler.ir.evaluate_graph import evaluate_graph
from compiler.ir.graph import Contract, Map, Tensor, Weight
from compiler.ir.space import DType
from compiler.passes.merge import merge
from compiler.strategies import choose
from tests.cpu.contractions import Conv, conv, dense, gradient, logical, program, stored
from tests.cpu.programs import expr

pytestmark = pytest.mark.usefixtures("cc")

BACKEND = CpuBackend()
REALS = {"f32": DType.F32, "f64": DType.F64}
Problem = tuple[Contract, dict[str, Tensor]]


def check(problem: Problem, strategy: str, real: DType, tmp_path: Path, after: Map | None = None, nan: bool = True) -> None:
    """The strategy is chosen and gives the definition's numbers. Lanes without a sample hold nonsense where the
    result must not depend on them."""
    node, tensors = problem
    lanes = LANES * 4 // real.bytes
    choice, reason = choose(node, tensors, lanes, real.bytes, BACKEND.capabilities.strategies)
    assert choice is not None, reason
    assert choice.strategy == strategy
    merged = merge(program(node, tensors, choice, real, after))
    artifact = BACKEND.build(merged, tmp_path / "build", {})
    instance = BACKEND.load(artifact, merged, 1)
    rng = np.random.default_rng(1)
    given = {n: rng.standard_normal(t.shape) for n, t in tensors.items() if n != "y"}
    for name, values in given.items():
        padding = 7.0 if node.out.batched or nan else 0.0
        instance.write(name, stored(values.astype(real.numpy), tensors[name], lanes, padding))
    assert instance.run("train", 1, 1) == 1
    found = logical(instance.read("y"), node.out, lanes)
    inputs = tuple(Weight(tensors[n], "zeros") for n in given)
    values = evaluate_graph((*inputs, node, *((after,) if after else ())), given)
    exact = values[after.out.name if after else node.out.name]
    terms = np.prod([e for d, e in node.dims if d not in {a.terms[0][0] for a in node.out_map}])
    tolerance = (1e-6 if real is DType.F32 else 1e-14) * (5 + 3 * float(np.sqrt(terms)))
    np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance)
    instance.close()


def with_epilogue(problem: Problem, text: str, *others: tuple[str, tuple[int | None, ...]]) -> tuple[Problem, Map]:
    """An epilogue over x0 (the contraction) and more operands, each given by the output's axes that it follows."""
    node, tensors = problem
    body: Expr = expr(text)
    more = dict(tensors)
    for name, axes in others:
        shape = tuple(1 if a is None else node.out.shape[a] for a in axes)
        more[name] = Tensor(name, shape, "real", node.out.batched and axes[:1] == (0,))
    rank = len(node.out.shape)
    out = Tensor("z", node.out.shape, "real", node.out.batched)
    maps = (tuple(range(rank)), *(a for _, a in others))
    return (node, more), Map(out, (node.out.name, *(n for n, _ in others)), maps, body)


DENSE = [(1, 1, 1), (3, 5, 17), (16, 17, 3), (20, 33, 10), (64, 40, 24), (70, 3, 1), (130, 16, 7)]


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("sizes", DENSE, ids=str)
def test_dense(sizes: tuple[int, int, int], real: str, tmp_path: Path) -> None:
    forward = dense(*sizes)
    check(forward, "lanes_dense", REALS[real], tmp_path)
    check(gradient(*forward, 0), "lanes_dense", REALS[real], tmp_path)
    check(gradient(*forward, 1), "dense_weight_gradient", REALS[real], tmp_path)


CONVS = [
    Conv(1, 1, 1, 3, 3),
    Conv(3, 1, 5, 9, 8, (5, 5), pad=2),
    Conv(16, 3, 17, 6, 7, (3, 3), pad=1),
    Conv(20, 5, 3, 7, 5, (3, 2)),
    Conv(17, 17, 5, 4, 4, (1, 1)),
    Conv(3, 5, 6, 9, 9, (3, 3), stride=(2, 2), pad=1),
    Conv(16, 3, 4, 10, 11, (3, 5), stride=(3, 2), pad=2),
    Conv(5, 3, 3, 6, 6, (1, 1), stride=(2, 2)),
    Conv(3, 3, 5, 11, 9, (3, 3), dilate=2),
    Conv(18, 4, 3, 9, 12, (3, 2), stride=(2, 1), pad=3, dilate=2),
    Conv(16, 6, 9, 6, 6, (3, 3), pad=1, groups=3),
    Conv(20, 5, 5, 7, 7, (3, 3), stride=(2, 2), pad=1, groups=5),
    Conv(3, 1, 1, 40, 1, (7, 1), pad=3),
    Conv(2, 2, 3, 2, 2, (2, 2)),
    Conv(64, 6, 16, 14, 14, (5, 5)),
]


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("c", CONVS, ids=str)
def test_conv(c: Conv, real: str, tmp_path: Path) -> None:
    forward = conv(c)
    check(forward, "lanes_conv", REALS[real], tmp_path)
    check(gradient(*forward, 0), "lanes_conv", REALS[real], tmp_path)
    check(gradient(*forward, 1), "lanes_conv_weight_gradient", REALS[real], tmp_path)


@pytest.mark.parametrize("real", REALS)
def test_epilogues(real: str, tmp_path: Path) -> None:
    """A bias per channel and an activation, another image, and updates of gradients per element."""
    r = REALS[real]
    bias = ("b", (1,))
    check(*_after(with_epilogue(dense(20, 9, 11), "relu(x0 + x1)", bias), "lanes_dense", r, tmp_path))
    check(*_after(with_epilogue(dense(20, 9, 11), "tanh(x0) * x1", ("q", (0, 1))), "lanes_dense", r, tmp_path))
    image = conv(Conv(20, 3, 5, 6, 7, pad=1))
    two = (bias, ("q", (0, 1, 2, 3)))
    check(*_after(with_epilogue(image, "relu(x0 + x1) + x2", *two), "lanes_conv", r, tmp_path))
    grouped = conv(Conv(16, 4, 6, 6, 7, pad=1, groups=2))
    check(*_after(with_epilogue(grouped, "x0 - x1", ("b", (1, 2))), "lanes_conv", r, tmp_path))
    dw = gradient(*dense(20, 9, 11), 1)
    check(*_after(with_epilogue(dw, "x1 - 0.5 * x0", ("q", (0, 1))), "dense_weight_gradient", r, tmp_path))
    for c in (Conv(20, 3, 5, 6, 7, pad=1), Conv(16, 4, 6, 6, 7, pad=1, groups=2)):
        dw = gradient(*conv(c), 1)
        axes = tuple(range(len(dw[0].out.shape)))
        more = with_epilogue(dw, "x1 - 0.5 * x0", ("q", axes))
        check(*_after(more, "lanes_conv_weight_gradient", r, tmp_path))


def _after(
    made: tuple[Problem, Map], strategy: str, real: DType, tmp_path: Path
) -> tuple[Problem, str, DType, Path, Map]:
    return made[0], strategy, real, tmp_path, made[1]
