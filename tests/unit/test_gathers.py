"""Gather, ScatterAdd and Move at level 1: their values, their gradients, their text and what is not legal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Num, Ref
from compiler.ir.level1.builder import GraphBuilder, identity
from compiler.ir.text import print_ir
from compiler.passes.tensors.differentiate import differentiate
from compiler.verify.graph import graph_violations
from tests.evaluate_graph import evaluate_graph
from tests.parse_ir import parse_ir

Array = npt.NDArray[np.float64]

TABLE, ROWS = (5, 3), (4, 2)
INDEX = np.array([[1, 4], [1, 0], [7, 2], [-1, 1]])
"""Of rows that occur twice, of one that is never read, and of two that the table does not have."""


def _known(g: GraphBuilder) -> tuple[l1.Tensor, l1.Tensor]:
    table = g.add(l1.Weight(l1.Tensor("table", TABLE), "ones"))
    index = g.add(l1.Feed(l1.Tensor("index", ROWS, "int", True), "data.index", 1.0))
    return table, index


def _sum(g: GraphBuilder, name: str, body: Expr, x: l1.Tensor) -> l1.Tensor:
    return g.reduce(name, body, (identity(x),), x, ())


def _gathered(g: GraphBuilder) -> l1.Tensor:
    table, index = _known(g)
    read = g.gather("y", table, index)
    return _sum(g, "loss", Ref("x0") * Ref("x0") * Ref("x0"), read)


def _picked(g: GraphBuilder) -> l1.Tensor:
    """Of each of 4 rows of 5 two elements, one of which may be the other, or none."""
    weight = g.add(l1.Weight(l1.Tensor("table", (*ROWS, 5)), "ones"))
    index = g.add(l1.Constant(l1.Tensor("index", ROWS, "int"), tuple(map(float, INDEX.ravel()))))
    return _sum(g, "loss", Ref("x0") * Ref("x0") * Ref("x0"), g.pick("y", weight, index))


def _scattered(g: GraphBuilder) -> l1.Tensor:
    """Rows that a weight gives, squared, are added up by the index."""
    weight = g.add(l1.Weight(l1.Tensor("table", (*ROWS, 3)), "ones"))
    index = g.add(l1.Constant(l1.Tensor("index", ROWS, "int"), tuple(map(float, INDEX.ravel()))))
    square = g.map("square", Ref("x0") * Ref("x0"), (identity(weight),))
    total = g.add(l1.ScatterAdd(l1.Tensor("total", TABLE), square.name, index.name))
    return _sum(g, "loss", Ref("x0") * Ref("x0") + Num(2.0) * Ref("x0"), total)


def _moved(g: GraphBuilder) -> l1.Tensor:
    """A slice, padded by 2, beside the whole, which is cropped; some elements occur twice, some never."""
    weight = g.add(l1.Weight(l1.Tensor("table", TABLE), "ones"))
    part = g.add(l1.Move(l1.Tensor("part", (3, 2)), (weight.name,), ((1, 1),)))
    padded = g.add(l1.Move(l1.Tensor("padded", (5, 4)), (part.name,), ((-1, -1),), 2.0))
    both = g.add(l1.Move(l1.Tensor("both", (4, 6)), (padded.name, weight.name), ((1, 0), (0, -4))))
    return _sum(g, "loss", Ref("x0") * Ref("x0") * Ref("x0"), both)


def _loss(g: GraphBuilder, weight: Array) -> float:
    return float(evaluate_graph(g.nodes, {"table": weight, "index": INDEX})["loss"])


@pytest.mark.parametrize(
    ("make", "shape", "kind"),
    [
        (_gathered, TABLE, l1.ScatterAdd),
        (_scattered, (*ROWS, 3), l1.Gather),
        (_picked, (*ROWS, 5), l1.Contract),
        (_moved, TABLE, l1.Move),
    ],
)
def test_the_gradient_is_that_of_small_differences(make: object, shape: tuple[int, ...], kind: type[l1.Node]) -> None:
    assert callable(make)
    g = GraphBuilder()
    loss = make(g)
    forward = GraphBuilder(list(g.nodes), dict(g.tensors))
    gradient = differentiate(g, loss, frozenset())["table"]
    assert any(isinstance(n, kind) for n in g.nodes[len(forward.nodes) :])
    assert graph_violations(l1.TensorGraph("train", tuple(g.nodes), (gradient.name,))) == []
    weight = np.random.default_rng(2).normal(size=shape)
    found = evaluate_graph(g.nodes, {"table": weight, "index": INDEX})[gradient.name]
    wanted, step = np.zeros(shape), 1e-5
    for at in np.ndindex(*shape):
        high, low = weight.copy(), weight.copy()
        high[at] += step
        low[at] -= step
        wanted[at] = (_loss(forward, high) - _loss(forward, low)) / (2 * step)
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def test_rows_that_are_not_there_read_as_zero() -> None:
    g = GraphBuilder()
    g.gather("y", *_known(g))
    y = evaluate_graph(g.nodes, {"table": np.ones(TABLE), "index": INDEX})["y"]
    assert y.sum(-1).tolist() == [[3, 3], [3, 3], [0, 3], [0, 3]]


def test_elements_that_are_not_there_read_as_zero() -> None:
    g = GraphBuilder()
    _picked(g)
    y = evaluate_graph(g.nodes, {"table": np.arange(40.0).reshape(*ROWS, 5)})["y"]
    assert y.tolist() == [[1, 9], [11, 15], [0, 27], [0, 36]]


NODES = (
    l1.Gather(l1.Tensor("y", (4, 2, 3), batched=True), "table", "index"),
    l1.ScatterAdd(l1.Tensor("grad", TABLE), "y", "index"),
    l1.Move(l1.Tensor("slice", (4, 2, 2), batched=True), ("y",), ((0, 0, 1),), 0.5),
    l1.Gather(l1.Tensor("one", (4, 2), batched=True), "y", "index", own=True),
)


def _graph(*nodes: l1.Node) -> l1.TensorGraph:
    g = GraphBuilder()
    _known(g)
    return l1.TensorGraph("train", (*g.nodes, *nodes))


def test_their_text_parses_back() -> None:
    graph = _graph(*NODES)
    assert parse_ir(print_ir(graph)) == graph
    assert graph_violations(graph) == []


@pytest.mark.parametrize(
    ("node", "breach"),
    [
        (l1.Gather(l1.Tensor("z", (4, 2, 3, 3), batched=True), "table", "y"), "holds no integers"),
        (l1.Gather(l1.Tensor("z", (4, 2, 2, 3), batched=True), "y", "index"), "no rows without a batch"),
        (l1.Gather(l1.Tensor("z", (4, 3), batched=True), "table", "index"), "no row of `table` for each element"),
        (l1.Gather(l1.Tensor("z", (4, 3), batched=True), "y", "index", own=True), "no element of a row of `y`"),
        (l1.Gather(l1.Tensor("z", (4, 2), batched=True), "table", "index", own=True), "no element of a row of `table`"),
        (l1.ScatterAdd(l1.Tensor("z", (5, 2)), "y", "index"), "no row of `z` for each element"),
        (l1.Move(l1.Tensor("z", (3, 2)), ("table",), ()), "1 operands have 0 offsets"),
        (l1.Move(l1.Tensor("z", (3, 2)), ("table",), ((1,),)), "has other axes"),
        (l1.Move(l1.Tensor("z", (3, 2, 3), batched=True), ("y",), ((1, 0, 0),)), "has other samples"),
        (l1.Move(l1.Tensor("z", (4, 2, 3)), ("y",), ((0, 0, 0),)), "has other samples"),
    ],
)
def test_breaches(node: l1.Node, breach: str) -> None:
    found = graph_violations(_graph(*NODES, node))
    assert len(found) == 1 and breach in found[0]
