"""Consecutive data movements are composed, with equal results."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from compiler.expr.ast import Binary, Ref
from compiler.ir.level1.graph import Contract, Map, Node, Tensor, Weight
from compiler.ir.space import Affine, along
from compiler.passes.tensors.compose_moves import compose_moves
from compiler.passes.tensors.simplify_graph import simplify_graph
from tests.evaluate_graph import evaluate_graph

SUM = Binary("+", Ref("x0"), Ref("x1"))
SOURCE = Weight(Tensor("source", (3, 6)), "zeros")


def move(name: str, x: Tensor, offset: int, extent: int, sign: int = 1) -> Contract:
    """`extent` elements of the last axis, the first of which is element `offset`; zeros beside the tensor."""
    out = Tensor(name, (x.shape[0], extent))
    dims = (("d0", x.shape[0]), ("d1", extent), ("z1", 1))
    read = (along("d0"), Affine((("d1", 1), ("z1", sign)), offset))
    return Contract(out, dims, (along("d0"), along("d1")), (x.name,), (read,), Ref("x0"))


def added(name: str, a: Contract, b: Contract) -> Map:
    return Map(Tensor(name, a.out.shape), (a.out.name, b.out.name), ((0, 1), (0, 1)), SUM)


def squared(name: str, x: Contract) -> Map:
    return Map(Tensor(name, x.out.shape), (x.out.name,), ((0, 1),), Binary("*", Ref("x0"), Ref("x0")))


def composed(nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """The graph after the pass, which gives the same values."""
    found = simplify_graph(compose_moves(nodes, outputs), outputs)
    values = {"source": np.random.default_rng(1).standard_normal((3, 6))}
    before, after = evaluate_graph(nodes, values), evaluate_graph(found, values)
    for name in outputs:
        assert np.array_equal(before[name], after[name]), name
    return found


@given(st.lists(st.tuples(st.integers(-4, 7), st.integers(1, 8), st.sampled_from((1, -1))), min_size=2, max_size=5))
def test_any_moves_give_the_same(moves: list[tuple[int, int, int]]) -> None:
    nodes: list[Node] = [SOURCE]
    for n, (offset, extent, sign) in enumerate(moves):
        last = nodes[-1]
        assert isinstance(last, (Weight, Contract))
        nodes.append(move(f"m{n}", last.out, offset, extent, sign))
    last = nodes[-1]
    assert isinstance(last, Contract)
    composed((*nodes, squared("end", last)), ("end",))


def test_a_slice_of_a_slice_reads_the_whole() -> None:
    first = move("first", SOURCE.out, 1, 4)
    found = composed((SOURCE, first, move("second", first.out, 2, 2)), ("second",))
    assert [getattr(n, "ins", None) for n in found] == [None, ("source",)]


def test_what_lies_beside_a_slice_is_not_read() -> None:
    """A padded slice has zeros where its source has something."""
    first = move("first", SOURCE.out, 1, 4)
    found = composed((SOURCE, first, move("second", first.out, -1, 6)), ("second",))
    assert len(found) == 3


def test_a_move_along_another_axis_keeps_its_guard() -> None:
    """A slice of rows, of columns with zeros behind them: nothing but the window of the columns says where they end."""
    wide = move("wide", SOURCE.out, 0, 8)
    dims = (("d0", 2), ("d1", 8), ("z0", 1))
    read = (Affine((("d0", 1), ("z0", 1)), 1), along("d1"))
    rows = Contract(Tensor("rows", (2, 8)), dims, (along("d0"), along("d1")), ("wide",), (read,), Ref("x0"))
    assert len(composed((SOURCE, wide, rows), ("rows",))) == 3
    narrow = move("narrow", SOURCE.out, 0, 5)
    rows = Contract(
        Tensor("rows", (2, 5)), (("d0", 2), ("d1", 5), ("z0", 1)), rows.out_map, ("narrow",), (read,), Ref("x0")
    )
    assert len(composed((SOURCE, narrow, rows), ("rows",))) == 2


def test_two_padded_halves_are_one_join() -> None:
    left, right = move("left", SOURCE.out, 0, 8), move("right", SOURCE.out, -2, 8)
    found = composed((SOURCE, left, right, added("both", left, right)), ("both",))
    assert len(found) == 2
    assert isinstance(found[1], Contract) and found[1].body == SUM


def test_what_others_read_stays() -> None:
    left, right = move("left", SOURCE.out, 0, 8), move("right", SOURCE.out, -2, 8)
    nodes = (SOURCE, left, right, added("both", left, right))
    assert len(composed(nodes, ("both", "left"))) == 4
    assert len(composed((*nodes, squared("again", left)), ("both", "again"))) == 5
