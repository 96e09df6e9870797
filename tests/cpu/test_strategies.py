"""Contraction strategies on the CPU against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.expr.ast import Expr
from compiler.ir.level1.graph import Contract, Map, Tensor, Weight
from compiler.ir.level2.program import Merged
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.choice import NotApplicable, product, rounded
from compiler.strategies.cost import cpu as cost
from compiler.strategies.cost.tiles import ROWS_GRADIENTS, TILES
from compiler.strategies.cpu import rows_conv, rows_conv_weight_gradient
from compiler.strategies.cpu.depthwise import rows_depthwise
from compiler.strategies.layout import row_major
from tests.cpu.contractions import Case, Conv, conv, dense, gradient, logical, program, stored
from tests.cpu.programs import expr
from tests.evaluate_graph import evaluate_graph
from tests.grids import slow

pytestmark = pytest.mark.usefixtures("cc")

BACKEND = CpuBackend()
REALS = {"f32": DType.F32, "f64": DType.F64}
SINGLE = [DType.F32, *slow(DType.F64)]
DOUBLE = [*slow(DType.F32), DType.F64]
"""Of costly tests one type is quick."""
Problem = tuple[Contract, dict[str, Tensor]]


def chosen(problem: Problem, strategy: str, real: DType, after: Map | None = None) -> Case:
    """The case by the strategy that `choose` must take."""
    lanes = LANES * 4 // real.bytes
    choice, reason = choose(*problem, lanes, real.bytes, BACKEND.capabilities.strategies)
    assert choice is not None, reason
    assert choice.strategy == strategy
    return Case(*problem, choice, after)


def check(cases: list[Case], real: DType, tmp_path: Path, row_major: bool = False, infinite: str = "") -> Merged:
    """One program of all cases agrees with the definition. Lanes without a sample hold garbage: the result must not
    depend on them. `infinite`: an operand of which the first element is."""
    lanes = 0 if row_major else LANES * 4 // real.bytes
    merged = merge(program(cases, real, row_major))
    instance = BACKEND.load(BACKEND.build(merged, tmp_path / "build", {}), merged, 1)
    rng = np.random.default_rng(1)
    given = []
    for number, case in enumerate(cases):
        given.append({n: rng.standard_normal(t.shape) for n, t in case.tensors.items() if n != "y"})
        if infinite:
            given[-1][infinite].flat[0] = np.inf
        for name, values in given[-1].items():
            instance.write(f"{number}.{name}", stored(values.astype(real.numpy), case.tensors[name], lanes, 7.0))
    assert instance.run("train", 1, 1) == 1
    for number, (case, arrays) in enumerate(zip(cases, given, strict=True)):
        node, last = case.node, case.after or case.node
        inputs = tuple(Weight(case.tensors[n], "zeros") for n in arrays)
        exact = evaluate_graph((*inputs, node, *((case.after,) if case.after else ())), arrays)[last.out.name]
        terms = np.prod([e for d, e in node.dims if d not in {a.terms[0][0] for a in node.out_map}])
        tolerance = (1e-6 if real is DType.F32 else 1e-14) * (5 + 3 * float(np.sqrt(terms)))
        found = logical(instance.read(f"{number}.y"), node.out, lanes)
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance, err_msg=f"{number}: {node}")
    instance.close()
    return merged


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


@pytest.mark.parametrize("real", SINGLE)
def test_dense(real: DType, tmp_path: Path) -> None:
    """Every size; three texts: forward, to the input, to the weights."""
    cases = []
    for sizes in DENSE:
        forward = dense(*sizes)
        cases.append(chosen(forward, "lanes_dense", real))
        cases.append(chosen(gradient(*forward, 0), "lanes_dense", real))
        cases.append(chosen(gradient(*forward, 1), "dense_weight_gradient", real))
    assert len(check(cases, real, tmp_path).templates) == 3


def test_chunks_of_rows(tmp_path: Path) -> None:
    """Sums over more rows than the cache holds: the last chunk is a short one. Any tile has room for what it keeps."""
    case = chosen(gradient(*dense(3003, 40, 24), 1), "dense_weight_gradient", DType.F32)
    columns = dict(case.choice.columns)
    assert columns["s_blocks"] % columns["s_chunk"] and columns["s_blocks"] > 1.5 * columns["s_chunk"]
    check([case], DType.F32, tmp_path)
    vectors = -(-columns["s_ins"] // LANES)
    assert columns["s_sums"] >= max(rounded(columns["s_outs"], t.outs) * rounded(vectors, t.vectors) for t in TILES)


CONVS = [
    Conv(1, 1, 1, 3, 3),
    Conv(3, 1, 5, 9, 8, (5, 5), pad=2),
    Conv(16, 3, 17, 6, 7, (3, 3), pad=1),
    Conv(20, 5, 3, 7, 5, (3, 2)),
    Conv(17, 17, 5, 4, 4, (1, 1)),
    Conv(3, 5, 6, 9, 9, (3, 3), stride=(2, 2), pad=1),
    Conv(16, 3, 4, 10, 11, (3, 5), stride=(3, 2), pad=2),
    Conv(5, 3, 3, 6, 6, (1, 1), stride=(2, 2)),
    Conv(3, 2, 3, 2, 1, (2, 1), stride=(3, 3)),
    Conv(16, 3, 2, 9, 9, (5, 5), stride=(2, 2)),
    Conv(3, 3, 5, 11, 9, (3, 3), dilate=2),
    Conv(18, 4, 3, 9, 12, (3, 2), stride=(2, 1), pad=3, dilate=2),
    Conv(16, 6, 9, 6, 6, (3, 3), pad=1, groups=3),
    Conv(20, 5, 5, 7, 7, (3, 3), stride=(2, 2), pad=1, groups=5),
    Conv(3, 1, 1, 40, 1, (7, 1), pad=3),
    Conv(2, 2, 3, 2, 2, (2, 2)),
    Conv(64, 3, 8, 7, 7, (5, 5)),
]


@pytest.mark.parametrize("real", DOUBLE)
def test_conv(real: DType, tmp_path: Path) -> None:
    cases = []
    for c in CONVS:
        forward = conv(c)
        cases.append(chosen(forward, "lanes_conv", real))
        cases.append(chosen(gradient(*forward, 0), "lanes_conv", real))
        cases.append(chosen(gradient(*forward, 1), "lanes_conv_weight_gradient", real))
    check(cases, real, tmp_path)


WINDOWS = [
    *CONVS,
    Conv(2, 3, 5, 12, 32, pad=1),
    Conv(1, 2, 2, 13, 35, (5, 5), stride=(2, 2), pad=2),
    Conv(1, 2, 3, 9, 99, (1, 9), pad=4),
    Conv(1, 2, 1, 101, 90, pad=1),
]
"""Also rows of whole vectors, and more vectors of pixels than are summed at a time."""


@pytest.mark.parametrize("real", SINGLE)
def test_weights_of_rows(real: DType, tmp_path: Path) -> None:
    """Gradients of weights of row-major images, in every tile; infinite pixels reach what sees them alone."""
    problems = [gradient(*conv(c), 1) for c in WINDOWS]
    found = [rows_conv_weight_gradient.variants(product(*q, 0, real.bytes)) for q in problems]
    assert all(len(ways) == len(ROWS_GRADIENTS) for ways in found)
    cases = [Case(*q, way) for q, ways in zip(problems, found, strict=True) for way in ways]
    merged = check(cases, real, tmp_path, row_major=True, infinite="x")
    assert len(merged.templates) == len(merge(program(cases[:: len(ROWS_GRADIENTS)], real, True)).templates)
    with pytest.raises(NotApplicable, match="row-major"):
        rows_conv_weight_gradient.STRATEGY.match(product(*problems[0], LANES, 4))


STRIDED = [
    Conv(3, 5, 6, 9, 9, (3, 3), stride=(2, 2), pad=1),
    Conv(2, 3, 4, 10, 11, (3, 5), stride=(3, 2), pad=2),
    Conv(3, 2, 3, 3, 2, (3, 1), stride=(3, 3)),
    Conv(2, 4, 3, 9, 12, (3, 2), stride=(2, 1), pad=3, dilate=2),
    Conv(5, 6, 10, 7, 7, (3, 3), stride=(2, 2), pad=1, groups=2),
    Conv(1, 40, 5, 15, 17, (3, 3), stride=(2, 2), pad=1),
    Conv(2, 33, 4, 32, 32, (4, 4), stride=(2, 2), pad=1),
    Conv(1, 33, 6, 16, 15, (2, 2), stride=(3, 3)),
    Conv(1, 4, 4, 1, 9, (1, 3), stride=(2, 2)),
]
"""Also without a whole grid of pixels, and windows that do not see all of them."""


@pytest.mark.parametrize("real", DOUBLE)
def test_classes_of_pixels(real: DType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of row-major images that windows see in steps: in place, and packed wherever there are enough channels.
    The rules take them."""
    monkeypatch.setattr(cost, "ROWS_NEAR_BYTES", 0)
    problems = [gradient(*conv(c), 0) for c in STRIDED]
    cases = [Case(*q, rows_conv.match(product(*q, 0, real.bytes))) for q in problems]
    assert any(dict(c.choice.columns)["s_packed"] for c in cases)
    assert any(dict(c.choice.columns)["s_copies"] == 1 for c in cases)
    check(cases, real, tmp_path, row_major=True)
    found, _ = choose(*problems[6], 0, real.bytes, row_major(BACKEND.capabilities).strategies)
    assert found == cases[6].choice


DEPTHWISE = [
    Conv(2, 5, 5, 9, 11, pad=1, groups=5),
    Conv(3, 4, 4, 7, 7, (5, 5), pad=2, groups=4),
    Conv(1, 3, 3, 33, 33, stride=(3, 3), groups=3),
    Conv(1, 2, 2, 40, 40, (7, 7), stride=(2, 2), pad=3, groups=2),
    Conv(1, 2, 2, 14, 14, (3, 2), pad=2, dilate=2, groups=2),
    Conv(2, 2, 2, 30, 120, stride=(4, 4), pad=1, groups=2),
    Conv(2, 3, 3, 2, 2, stride=(2, 2), pad=1, groups=3),
    Conv(1, 2, 2, 101, 100, pad=1, groups=2),
    Conv(1, 2, 2, 60, 101, stride=(1, 2), pad=1, groups=2),
]
FEW = [Conv(2, 3, 6, 12, 17, (3, 5), stride=(2, 3), pad=2, groups=3), Conv(1, 1, 3, 20, 50, stride=(1, 2), pad=1)]
"""Several outputs of a channel."""


@pytest.mark.parametrize("real", REALS.values())
def test_depthwise_rows(real: DType, tmp_path: Path) -> None:
    """Channel by channel, and to the input; an infinite pixel reaches what sees it alone. Lines of steps of four are
    woven one by one, those of two and three by vectors; an image of 101 rows is taken in strips."""
    problems = [q for c in DEPTHWISE for q in (conv(c), gradient(*conv(c), 0))] + [conv(c) for c in FEW]
    cases = [Case(*q, rows_depthwise.STRATEGY.match(product(*q, 0, real.bytes))) for q in problems]
    assert any(dict(c.choice.columns)["s_strip"] < dict(c.choice.columns)["s_out_rows"] for c in cases)
    check(cases, real, tmp_path / "finite", row_major=True)
    infinite = [c for c in cases if "x" in c.tensors]
    assert infinite
    check(infinite, real, tmp_path / "infinite", row_major=True, infinite="x")
    with pytest.raises(NotApplicable, match="several channels"):
        rows_depthwise.STRATEGY.match(product(*gradient(*conv(FEW[0]), 0), 0, real.bytes))


@pytest.mark.parametrize("real", SINGLE)
def test_depthwise_epilogues(real: DType, tmp_path: Path) -> None:
    """A bias per channel and an activation, and a column of the image, which is not one run of pixels."""
    cases = []
    for c in (DEPTHWISE[0], DEPTHWISE[3]):
        for problem in (conv(c), gradient(*conv(c), 0)):
            for text, other in (("relu(x0 + x1)", ("b", (1, 2))), ("x0 * x1", ("p", (4,)))):
                more, after = with_epilogue(problem, text, other)
                cases.append(Case(*more, rows_depthwise.STRATEGY.match(product(*more, 0, real.bytes)), after))
    check(cases, real, tmp_path, row_major=True)


@pytest.mark.parametrize("real", SINGLE)
def test_epilogues(real: DType, tmp_path: Path) -> None:
    """A bias per channel and an activation, another image, a row or column of it, and updates of weights."""
    bias = ("b", (1,))
    cases = []

    def add(strategy: str, problem: Problem, text: str, *others: tuple[str, tuple[int | None, ...]]) -> None:
        more, after = with_epilogue(problem, text, *others)
        cases.append(chosen(more, strategy, real, after))

    add("lanes_dense", dense(20, 9, 11), "relu(x0 + x1)", bias)
    add("lanes_dense", dense(20, 9, 11), "tanh(x0) * x1", ("q", (0, 1)))
    image = conv(Conv(20, 3, 5, 6, 7, pad=1))
    add("lanes_conv", image, "relu(x0 + x1) + x2", bias, ("q", (0, 1, 2, 3)))
    add("lanes_conv", image, "x0 * x1 + x2", ("p", (3,)), ("q", (1, 2)))
    add("lanes_conv", conv(Conv(16, 4, 6, 6, 7, pad=1, groups=2)), "x0 - x1", ("b", (1, 2)))
    strided = conv(Conv(16, 4, 6, 7, 7, stride=(2, 2), pad=1))
    add("lanes_conv", gradient(*strided, 0), "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3)))
    add("dense_weight_gradient", gradient(*dense(20, 9, 11), 1), "x1 - 0.5 * x0", ("q", (0, 1)))
    for c in (Conv(20, 3, 5, 6, 7, pad=1), Conv(16, 4, 6, 6, 7, pad=1, groups=2)):
        weights = gradient(*conv(c), 1)
        axes = tuple(range(len(weights[0].out.shape)))
        add("lanes_conv_weight_gradient", weights, "x1 - 0.5 * x0", ("q", axes))
    check(cases, real, tmp_path)
    rows = []
    for c in (Conv(3, 3, 5, 6, 7, pad=1), Conv(2, 4, 6, 6, 7, pad=1, groups=2)):
        node, tensors = gradient(*conv(c), 1)
        problem, after = with_epilogue((node, tensors), "x1 - 0.5 * x0", ("q", tuple(range(len(node.out.shape)))))
        rows.append(Case(*problem, rows_conv_weight_gradient.STRATEGY.match(product(*problem, 0, real.bytes)), after))
    check(rows, real, tmp_path / "rows", row_major=True)


def test_text_does_not_depend_on_sizes() -> None:
    """Forward, input and weights are one text for each strategy, whatever the sizes, windows and tiles."""

    def text(*sizes: Conv) -> str:
        cases = []
        for c in sizes:
            forward = conv(c)
            for problem in (forward, gradient(*forward, 0), gradient(*forward, 1)):
                choice, _ = choose(*problem, LANES, 4, BACKEND.capabilities.strategies)
                cases.append(Case(*problem, choice))
        return BACKEND.emit(merge(program(cases, DType.F32)))

    few, many = Conv(8, 1, 3, 9, 9, pad=1), Conv(32, 32, 32, 16, 16, pad=1)
    more = Conv(64, 16, 32, 20, 28, pad=1), Conv(3, 32, 5, 4, 4, (5, 5), pad=2)
    assert text(few, many) == text(few, many, *more)


REFUSED = [
    ("x0 + x1", "add", "not a sum of products"),
    ("x0 * x1", "max", "not a sum of products"),
    ("x0 * exp(x1)", "add", "not a product of two operands"),
]


@pytest.mark.parametrize(("body", "combine", "reason"), REFUSED)
def test_other_contractions_stay_nests(body: str, combine: str, reason: str) -> None:
    node, tensors = dense(16, 4, 4)
    choice, why = choose(replace(node, body=expr(body), combine=combine), tensors, LANES, 4, frozenset({"lanes_dense"}))
    assert choice is None
    assert reason in why


def test_transposed_output_stays_a_nest() -> None:
    """Strategies do not support layouts whose batch axis is not the first."""
    node, tensors = dense(16, 4, 4)
    flipped = replace(node, out=replace(node.out, batched=False))
    choice, why = choose(flipped, tensors, LANES, 4, BACKEND.capabilities.strategies)
    assert choice is None
    assert "lanes_dense: the output is not (batch, units)" in why
