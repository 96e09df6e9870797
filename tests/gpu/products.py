"""Contractions for the CUDA backend: every product of tests/cpu/test_strategies.py and more, by implicit_gemm or,
where applicable, by the direct strategies."""

from __future__ import annotations

from compiler.expr.ast import Binary, Ref
from compiler.ir.level1.graph import Contract, Map, Tensor
from compiler.ir.space import DType, along
from compiler.strategies import choose
from tests.cpu.contractions import Case, Conv, conv, dense, gradient
from tests.cpu.test_strategies import CONVS, DENSE, with_epilogue

STRATEGY = frozenset({"implicit_gemm"})
DIRECT = frozenset({"direct_conv", "direct_conv_weights", "matmul"})
Problem = tuple[Contract, dict[str, Tensor]]
WIDE = [
    Conv(70, 1, 6, 28, 28, (5, 5), pad=2),
    Conv(64, 6, 16, 14, 14, (5, 5)),
    Conv(5, 20, 40, 16, 150, (3, 3), pad=1),
    Conv(3, 70, 9, 8, 9, (3, 7), stride=(1, 2), pad=2),
    Conv(600, 2, 3, 6, 6, (2, 2)),
    Conv(7, 5, 12, 9, 32, (3, 3)),
    Conv(2, 5, 8, 12, 300, (11, 11), pad=5),
]
GROUPED = frozenset({"grouped_conv", "grouped_conv_weights"})
IN_GROUPS = [
    Conv(5, 12, 12, 9, 11, (3, 3), pad=1, groups=12),
    Conv(3, 40, 40, 28, 30, (3, 3), stride=(2, 2), pad=1, groups=40),
    Conv(70, 6, 6, 8, 8, (5, 5), pad=2, groups=6),
    Conv(2, 3, 3, 60, 61, (7, 7), pad=3, groups=3),
    Conv(9, 8, 16, 7, 7, (3, 3), pad=1, groups=8),
    Conv(9, 16, 8, 7, 6, (3, 3), stride=(2, 1), groups=8),
    Conv(4, 24, 12, 13, 12, (2, 3), stride=(1, 2), pad=1, groups=4),
    Conv(300, 2, 2, 20, 20, (3, 3), stride=(2, 2), groups=2),
    Conv(1, 600, 600, 1, 1, (3, 3), pad=1, groups=600),
]
LARGE = [Conv(40, 3, 20, 30, 31, (5, 5), pad=2), Conv(33, 32, 70, 13, 9, (3, 3), stride=(2, 2), pad=1)]
LARGE_DENSE = [(300, 500, 260), (5, 3000, 7), (1000, 64, 64)]


def chosen(problem: Problem, real: DType, after: Map | None = None, first: frozenset[str] = STRATEGY) -> Case:
    """By the best strategy of `first`, or by implicit_gemm where none of them fits."""
    choice, reason = choose(*problem, 0, real.bytes, first)
    if choice is None:
        choice, reason = choose(*problem, 0, real.bytes, STRATEGY)
    assert choice is not None, reason
    return Case(*problem, choice, after)


def batched_product(transposed: bool) -> Problem:
    """y[n, h, i, j] = sum over k of x[n, h, i, k] w[n, h, j, k] (or w[n, h, k, j]): attention."""
    n, h, i, j, k = (along(d) for d in "nhijk")
    tensors = {
        "x": Tensor("x", (3, 2, 37, 19), "real", True),
        "w": Tensor("w", (3, 2, 19, 45) if transposed else (3, 2, 45, 19), "real", True),
        "y": Tensor("y", (3, 2, 37, 45), "real", True),
    }
    dims = (("n", 3), ("h", 2), ("i", 37), ("j", 45), ("k", 19))
    maps = ((n, h, i, k), (n, h, k, j) if transposed else (n, h, j, k))
    return Contract(tensors["y"], dims, (n, h, i, j), ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))), tensors


def outer() -> Problem:
    """A matrix by a vector: N is empty, which no strategy supports."""
    i, k = along("i"), along("k")
    tensors = {"x": Tensor("x", (70, 90)), "w": Tensor("w", (90,)), "y": Tensor("y", (70,))}
    dims = (("i", 70), ("k", 90))
    return Contract(tensors["y"], dims, (i,), ("w", "x"), ((k,), (i, k)), Binary("*", Ref("x0"), Ref("x1"))), tensors


def dense_cases(real: DType, first: frozenset[str] = STRATEGY) -> list[Case]:
    cases = [chosen(batched_product(t), real) for t in (False, True)]
    for sizes in (*DENSE, *LARGE_DENSE):
        forward = dense(*sizes)
        cases += [chosen(p, real, None, first) for p in (forward, gradient(*forward, 0), gradient(*forward, 1))]
    return cases


def matmul_cases(real: DType) -> list[Case]:
    return dense_cases(real, DIRECT)


def conv_cases(real: DType, first: frozenset[str] = STRATEGY) -> list[Case]:
    cases = []
    for c in (*CONVS, *LARGE, *(WIDE if first is DIRECT else ())):
        forward = conv(c)
        products = (forward, gradient(*forward, 0), gradient(*forward, 1))
        cases += [chosen(p, real, None, first) for p in products]
    return cases


def direct_cases(real: DType) -> list[Case]:
    """Those alone that a direct strategy takes."""
    return [x for x in conv_cases(real, DIRECT) if x.choice is not None and x.choice.strategy in DIRECT]


def grouped_cases(real: DType) -> list[Case]:
    """With few channels in a group, forwards and both gradients; some with an epilogue."""
    cases = list[Case]()
    for c in IN_GROUPS:
        forward = conv(c)
        cases += [chosen(p, real, None, GROUPED) for p in (forward, gradient(*forward, 0), gradient(*forward, 1))]
    first, strided = IN_GROUPS[:2]
    bias, other = ("b", (1, 2)), ("q", (0, 1, 2, 3, 4))
    for problem, after in (
        with_epilogue(conv(first), "relu(x0 + x1) + x2", bias, other),
        with_epilogue(gradient(*conv(strided), 0), "x0 * x1 if x1 > 0 else 0.0", other),
        with_epilogue(gradient(*conv(first), 1), "x1 - 0.5 * x0", other),
    ):
        cases.append(chosen(problem, real, after, GROUPED))
    assert all(x.choice is not None and x.choice.strategy in GROUPED for x in cases)
    return cases


def direct_epilogue_cases(real: DType) -> list[Case]:
    return epilogue_cases(real, DIRECT)


def epilogue_cases(real: DType, first: frozenset[str] = STRATEGY) -> list[Case]:
    bias = ("b", (1,))
    image, grouped = Conv(20, 3, 5, 6, 7, pad=1), Conv(16, 4, 6, 6, 7, pad=1, groups=2)
    strided = gradient(*conv(Conv(16, 4, 6, 7, 7, stride=(2, 2), pad=1)), 0)
    texts = [
        with_epilogue(dense(20, 9, 11), "relu(x0 + x1)", bias),
        with_epilogue(dense(20, 9000, 11), "tanh(x0) * x1", ("q", (0, 1))),
        with_epilogue(conv(image), "relu(x0 + x1) + x2", bias, ("q", (0, 1, 2, 3))),
        with_epilogue(conv(image), "x0 * x1 + x2", ("p", (3,)), ("q", (1, 2))),
        with_epilogue(conv(grouped), "x0 - x1", ("b", (1, 2))),
        with_epilogue(strided, "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3))),
        with_epilogue(gradient(*conv(image), 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3))),
    ]
    return [chosen(problem, real, after, first) for problem, after in texts]
