"""Contractions of sequences on the CPU: dense layers per step, products of attention, and all their gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.space import DType, along
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from tests.cpu.contractions import PRODUCT, Case, dense, gradient, program
from tests.cpu.test_strategies import DOUBLE, SINGLE, Problem, check, chosen, with_epilogue

pytestmark = pytest.mark.usefixtures("cc")

BACKEND = CpuBackend()


def steps_dense(batch: int, steps: tuple[int, ...], features: int, units: int) -> Problem:
    """y[n, t..., o] = sum over k of x[n, t..., k] w[o, k]."""
    tensors = {
        "x": Tensor("x", (batch, *steps, features), "real", True),
        "w": Tensor("w", (units, features)),
        "y": Tensor("y", (batch, *steps, units), "real", True),
    }
    places = [("n", batch), *((f"t{i}", e) for i, e in enumerate(steps))]
    at = tuple(along(d) for d, _ in places)
    dims = (*places, ("o", units), ("k", features))
    maps = ((*at, along("k")), (along("o"), along("k")))
    return Contract(tensors["y"], dims, (*at, along("o")), ("x", "w"), maps, PRODUCT), tensors


def attention(batch: int, heads: int, steps: int, others: int, size: int, context: bool) -> Problem:
    """Scores y[n, h, t, s] = sum over e of q[n, t, h, e] k[n, s, h, e], or the context of weights and values."""
    n, h, t, s, e = (along(d) for d in "nhtse")
    extents = {"n": batch, "h": heads, "t": steps, "s": others, "e": size}
    if context:
        order, out, ins, maps = "nthes", "nthe", ("p", "v"), ((n, h, t, s), (n, s, h, e))
    else:
        order, out, ins, maps = "nhtse", "nhts", ("q", "k"), ((n, t, h, e), (n, s, h, e))
    names = {"n": n, "h": h, "t": t, "s": s, "e": e}
    tensors = {
        name: Tensor(name, tuple(extents[a.terms[0][0]] for a in axes), "real", True)
        for name, axes in zip(ins, maps, strict=True)
    }
    tensors["y"] = Tensor("y", tuple(extents[d] for d in out), "real", True)
    dims = tuple((d, extents[d]) for d in order)
    return Contract(tensors["y"], dims, tuple(names[d] for d in out), ins, maps, PRODUCT), tensors


STEPS = [(1, (1,), 1, 1), (3, (5,), 7, 2), (16, (4,), 17, 19), (20, (9,), 33, 10), (37, (2, 3), 8, 24)]


@pytest.mark.parametrize("real", SINGLE)
def test_dense_over_steps(real: DType, tmp_path: Path) -> None:
    """Three texts, the same as without steps: forward, to the input, to the weights."""
    cases = []
    for problem in (dense(20, 9, 11), *(steps_dense(*s) for s in STEPS)):
        cases.append(chosen(problem, "lanes_dense", real))
        cases.append(chosen(gradient(*problem, 0), "lanes_dense", real))
        cases.append(chosen(gradient(*problem, 1), "dense_weight_gradient", real))
    assert len(check(cases, real, tmp_path).templates) == 3


@pytest.mark.parametrize("real", DOUBLE)
def test_epilogues_that_tell_steps_apart(real: DType, tmp_path: Path) -> None:
    """A bias for each unit, a residual, an embedding of the step, a factor for each example."""
    cases = []
    for problem in (steps_dense(20, (9,), 5, 7), steps_dense(17, (3, 4), 6, 5)):
        rank = len(problem[0].out.shape)
        every, last = tuple(range(rank)), rank - 1
        for text, others in (
            ("relu(x0 + x1)", [("b", (last,))]),
            ("tanh(x0 + x1) * x2", [("b", (last,)), ("q", every)]),
            ("x0 + x1", [("p", every[1:])]),
            ("x0 * x1 + x2", [("f", (0,)), ("p", (1, last))]),
        ):
            more, after = with_epilogue(problem, text, *others)
            cases.append(chosen(more, "lanes_dense", real, after))
    check(cases, real, tmp_path)


ATTENTION = [(1, 1, 1, 1, 1), (3, 2, 5, 7, 4), (20, 4, 8, 8, 8), (16, 3, 13, 6, 17), (33, 1, 9, 21, 5)]


@pytest.mark.parametrize("real", SINGLE)
def test_attention(real: DType, tmp_path: Path) -> None:
    """Scores, contexts and the gradients of all four operands: one text for each order of the output's axes and side
    of the tile, whatever the sizes."""

    def cases(sizes: list[tuple[int, int, int, int, int]]) -> list[Case]:
        found = []
        for size in sizes:
            for context in (False, True):
                problem = attention(*size, context)
                for p in (problem, gradient(*problem, 0), gradient(*problem, 1)):
                    found.append(chosen(p, "lanes_pairs", real))
        return found

    one = check(cases(ATTENTION[2:3]), real, tmp_path / "one")
    all_ = check(cases(ATTENTION), real, tmp_path / "all")
    assert len(one.templates) == len(all_.templates) <= 4
    assert BACKEND.emit(one) == BACKEND.emit(all_)


def test_attention_with_an_epilogue(tmp_path: Path) -> None:
    cases = []
    for context in (False, True):
        problem = attention(20, 2, 5, 7, 4, context)
        more, after = with_epilogue(problem, "x0 * 0.5 + x1 * x2", ("a", (0, 1, 2, 3)), ("b", (0, 2)))
        cases.append(chosen(more, "lanes_pairs", DType.F32, after))
    check(cases, DType.F32, tmp_path)


def test_products_of_more_dims_stay_nests() -> None:
    """Two reduction dims, or two shared by both operands, are not a matrix product."""
    node, tensors = attention(16, 2, 4, 4, 4, False)
    n, h = along("n"), along("h")
    out = Tensor("y", (16, 2), "real", True)
    both = Contract(out, node.dims, (n, h), node.ins, node.in_maps, PRODUCT)
    choice, why = choose(both, tensors, LANES, 4, BACKEND.capabilities.strategies)
    assert choice is None
    assert "lanes_pairs: it is not a product of matrices for each example" in why
    summed = Tensor("y", (16, 4, 4), "real", True)
    flat = Contract(summed, node.dims, (n, along("t"), along("s")), node.ins, node.in_maps, PRODUCT)
    assert choose(flat, tensors, LANES, 4, BACKEND.capabilities.strategies)[0] is None


def test_text_does_not_depend_on_steps() -> None:
    def text(*steps: int) -> str:
        found = []
        for count in steps:
            problem = steps_dense(16, (count,), 8, 8)
            for p in (problem, gradient(*problem, 0), gradient(*problem, 1)):
                found.append(Case(*p, choose(*p, LANES, 4, BACKEND.capabilities.strategies)[0]))
        return BACKEND.emit(merge(program(found, DType.F32)))

    assert text(10) == text(1000, 3)
