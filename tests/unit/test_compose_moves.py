"""Consecutive data movements are composed, with equal results."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.expr.ast import Binary, Expr, Ref
from compiler.ir.level1.graph import Map, Move, Node, Tensor, Weight
from compiler.passes.tensors.compose_moves import MOST_JOINED, compose_moves
from compiler.passes.tensors.simplify_graph import simplify_graph
from tests.evaluate_graph import evaluate_graph

SOURCE = Weight(Tensor("source", (3, 6)), "zeros")


def move(name: str, x: Tensor, offset: int, extent: int, axis: int = 1) -> Move:
    """`extent` elements of an axis, the first of which is element `offset`; zeros beside the tensor."""
    shape, at = list(x.shape), [0, 0]
    shape[axis], at[axis] = extent, offset
    return Move(Tensor(name, tuple(shape)), (x.name,), (tuple(at),))


def added(name: str, *moves: Move) -> Map:
    """The sum of moves, one after the other."""
    refs: list[Expr] = [Ref(f"x{k}") for k in range(len(moves))]
    total = reduce(lambda a, b: Binary("+", a, b), refs)
    return Map(Tensor(name, moves[0].out.shape), tuple(m.out.name for m in moves), ((0, 1),) * len(moves), total)


def squared(name: str, x: Move) -> Map:
    return Map(Tensor(name, x.out.shape), (x.out.name,), ((0, 1),), Binary("*", Ref("x0"), Ref("x0")))


def composed(nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """The graph after the pass, which gives the same values."""
    found = simplify_graph(compose_moves(nodes, outputs), outputs)
    values = {"source": np.random.default_rng(1).standard_normal((3, 6))}
    before, after = evaluate_graph(nodes, values), evaluate_graph(found, values)
    for name in outputs:
        assert np.array_equal(before[name], after[name]), name
    return found


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-4, 7), st.integers(1, 8), st.sampled_from((0, 1))), min_size=2, max_size=5),
    st.sampled_from((0.0, 2.0)),
)
def test_any_moves_give_the_same(moves: list[tuple[int, int, int]], fill: float) -> None:
    nodes: list[Node] = [SOURCE]
    for n, (offset, extent, axis) in enumerate(moves):
        last = nodes[-1]
        assert isinstance(last, (Weight, Move))
        made = move(f"m{n}", last.out, offset, extent, axis)
        nodes.append(replace(made, fill=fill) if n == 1 else made)
    last = nodes[-1]
    assert isinstance(last, Move)
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


def test_a_slice_of_other_rows_reads_past_a_pad() -> None:
    """A slice of rows, of columns with zeros behind them: the composed one has these zeros, too."""
    wide = move("wide", SOURCE.out, 0, 8)
    found = composed((SOURCE, wide, move("rows", wide.out, 1, 2, axis=0)), ("rows",))
    assert [getattr(n, "ins", None) for n in found] == [None, ("source",)]


def test_two_padded_halves_are_one_join() -> None:
    left, right = move("left", SOURCE.out, 0, 8), move("right", SOURCE.out, -2, 8)
    found = composed((SOURCE, left, right, added("both", left, right)), ("both",))
    assert len(found) == 2
    assert isinstance(found[1], Move) and found[1].ins == ("source", "source")


def test_sums_of_several_are_one_join_up_to_a_number() -> None:
    """In their order: the planes that a window over depth sees, but not the steps of a sequence."""
    moves = [move(f"m{k}", SOURCE.out, k - 2, 6) for k in range(MOST_JOINED + 1)]
    *few, _ = moves
    found = composed((SOURCE, *few, added("all", *few)), ("all",))
    assert len(found) == 2
    assert isinstance(found[1], Move) and [at for _, at in found[1].offsets] == [-2, -1, 0, 1]
    assert len(composed((SOURCE, *moves, added("all", *moves)), ("all",))) == MOST_JOINED + 3


def test_what_others_read_stays() -> None:
    left, right = move("left", SOURCE.out, 0, 8), move("right", SOURCE.out, -2, 8)
    nodes = (SOURCE, left, right, added("both", left, right))
    assert len(composed(nodes, ("both", "left"))) == 4
    assert len(composed((*nodes, squared("again", left)), ("both", "again"))) == 5
