"""Kernels of rows: what follows reductions in their kernel, what does not and why."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.expr.ast import Binary, Cond, Expr, Num, Ref
from compiler.frontend.load import load_model
from compiler.ir.level1.graph import Contract, Feed, Map, Node, Store, Tensor, Variable
from compiler.ir.level2.program import DimKind, Merged, Nest
from compiler.ir.space import Affine, along
from compiler.passes.fusion.fuse_epilogues import Epilogue, epilogues
from compiler.passes.fusion.fuse_rows import Row, elements_of, fits, rows
from compiler.passes.fusion.fuse_sums import joined_sums
from compiler.passes.fusion.horizontal_fusion import siblings
from compiler.passes.pipeline.lower import lower
from compiler.strategies.cost.devices import H200
from tests.numeric.trained import load
from tests.unit.test_fuse_sums import ROWS, SHAPE, X0, X1, feed, scaled, total

SQUARE: Expr = Binary("*", Binary("-", X0, X1), Binary("-", X0, X1))


def centred(name: str, x: str, mean: str) -> Contract:
    """The sum of squares of the differences from the mean of a row."""
    walk = (along("d0"), along("d1"))
    return replace(total(name, x), ins=(x, mean), in_maps=(walk, ROWS), body=SQUARE)


def standard(name: str, *ins: str) -> Map:
    """The sum of a tensor and of values for each row."""
    body: Expr = X0
    for k in range(1, len(ins)):
        body = Binary("+", body, Ref(f"x{k}"))
    return Map(Tensor(name, SHAPE), ins, ((0, 1), *[(0,)] * (len(ins) - 1)), body)


def found(*nodes: Node, store: dict[str, str] | None = None) -> tuple[dict[str, Row], list[str]]:
    outputs, in_place = ("y", "z"), store or {}
    fused, _ = epilogues(nodes, outputs, in_place)
    joined, _ = joined_sums(nodes, outputs, in_place, fused, lambda _: True)
    groups, _ = siblings(nodes, outputs, in_place, joined.fused)
    shared = {m.out.name for e in (*joined.fused.values(), *groups.values()) for m in e.maps}
    alone = (n for n in nodes if isinstance(n, Map) and n.out.name not in shared)
    groups |= {n.out.name: Epilogue((n,), frozenset({n.out.name})) for n in alone}
    made, decisions = rows(nodes, outputs, in_place, joined, groups, lambda _: True, lambda _: True)
    return made, [d.reason for d in decisions if d.verdict == "not fused"]


def test_a_normalisation() -> None:
    nodes = (feed("x"), total("mean", "x"), centred("square", "x", "mean"), scaled("inverse", "square"))
    made, _ = found(*nodes, standard("y", "x", "mean", "inverse"))
    (row,) = made.values()
    assert [[n.out.name for n in s.sums] for s in row.stages] == [["mean"], ["square"]]
    assert [m.out.name for m in row.all_maps] == ["inverse", "y"] and row.kept == {"y"}


def test_what_others_read_is_kept() -> None:
    later = total("z", "y", kept="d1")
    made, _ = found(feed("x"), total("mean", "x"), standard("y", "x", "mean"), scaled("twice", "mean"), later)
    assert made["mean"].kept == {"y"}, "what is made of the mean alone is in its epilogue"
    made, _ = found(feed("x"), total("mean", "x"), standard("y", "x", "mean"), total("z", "y", "x"))
    assert made["mean"].kept >= {"y"}


def test_rows_are_read_along_their_own_axes() -> None:
    """Where rows are as many as their elements, too: element (i, j) of the result reads the mean of row j."""
    square = (4, 4)
    mean = replace(total("mean", "x"), dims=(("d0", 4), ("d1", 4)))
    for axes, fused in (((0,), True), ((1,), False)):
        turned = Map(Tensor("y", square), ("x", "mean"), ((0, 1), axes), Binary("+", X0, X1))
        made, _ = found(feed("x", square), mean, turned)
        assert ("mean" in made) is fused
    centre = centred("square", "x", "mean")
    for dim, fused in (("d0", True), ("d1", False)):
        turned_sum = replace(centre, dims=mean.dims, in_maps=(centre.in_maps[0], (along(dim),)))
        made, _ = found(feed("x", square), mean, turned_sum)
        assert ("mean" in made) is fused


TURNED = """
language: 1
name: turned
network:
  inputs: {x: {shape: [3, 12, 3, 4]}, y: {shape: [2]}}
  layers:
    - reshape: {inputs: x, shape: [3, 12, 12]}
    - conv2d: {filters: 12, kernel: [1, 3]}
    - batch_norm: {}
    - permute: {axes: [1, 0, 2]}
    - flatten: {}
    - dense: {name: out, units: 2}
train:
  data: {file: data.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {sgd: {learning_rate: 0.05}}
  batch: 8
  epochs: 1
  seed: 1
numerics: {precision: float64}
"""


def test_a_normalisation_whose_result_is_turned(tmp_path: Path) -> None:
    """As many channels as rows: the program for a GPU, run by the interpreter, computes what the definition does."""
    random = np.random.default_rng(1)
    np.savez(tmp_path / "data.npz", x=random.normal(size=(8, 3, 12, 3, 4)), y=random.normal(size=(8, 2)))
    weights = []
    for lowered_for in ("", "cuda"):
        trained = load(TURNED, tmp_path, "reference", lowered_for=lowered_for)
        trained.step(1, range(8))
        weights.append(trained.weights())
    for name, expected in weights[0].items():
        np.testing.assert_allclose(weights[1][name], expected, rtol=1e-9, atol=1e-12, err_msg=name)


def test_work_on_other_elements_stays_apart() -> None:
    across = Map(Tensor("y", (5, 4)), ("w", "mean"), ((0, 1), (1,)), Binary("+", X0, X1))
    assert found(feed("x"), feed("w", (5, 4)), total("mean", "x"), across)[0] == {}
    assert found(feed("x"), total("mean", "x"), standard("y", "x"))[0] == {}, "it reads no result"


def test_work_that_needs_what_is_made_later() -> None:
    made, reasons = found(feed("x"), total("mean", "x"), feed("late"), standard("y", "late", "mean"))
    assert made == {} and reasons == ["with mean: it needs late, which is made later"]


def test_work_that_reads_a_variable_written_in_the_kernel() -> None:
    """Threads beside the one that writes it might find the new value."""
    variable = Variable(Tensor("v", (4,)), 0.0)
    moved = Map(Tensor("n", (4,)), ("mean", "v"), ((0,), (0,)), Binary("+", X0, X1))
    nodes = (feed("x"), variable, total("mean", "x"), moved, standard("y", "x", "n"), Store("v", "n"))
    made, reasons = found(*nodes, store={"n": "v"})
    assert made == {} and reasons == ["with mean: it reads n, which is written where its old value was"]


def picked(name: str, *ins: str) -> Contract:
    """The element of a row that a class names."""
    walk = (along("d0"), along("d1"))
    return replace(total(name, ins[0]), ins=ins, in_maps=(walk, ROWS), body=Cond(Ref("d1").eq(X1), X0, Num(0.0)))


def one_hot(name: str, *ins: str) -> Contract:
    """A value of the row where a class names the element, else 0: nothing is summed."""
    walk = (along("d0"), along("d1"))
    dims = tuple((f"d{a}", n) for a, n in enumerate(SHAPE))
    body = Cond(Ref("d1").eq(X1), X0, Num(0.0))
    return Contract(Tensor(name, SHAPE), dims, walk, ins, (ROWS, ROWS), body)


def test_a_loss_and_its_gradient() -> None:
    """The largest element, the sum of differences from it and what a class picks, which shares its loop; then
    a choice by class with what is computed of it."""
    largest = replace(total("largest", "x", combine="max"), fill=-math.inf)
    shifted = replace(total("total", "x"), ins=("x", "largest"), in_maps=(*largest.in_maps, ROWS), body=X0 - X1)
    nodes = (
        feed("x"),
        feed("label", (4,), "int"),
        feed("seed", (4,)),
        largest,
        shifted,
        picked("z", "x", "label"),
    )
    made, reasons = found(*nodes, one_hot("hot", "seed", "label"), standard("y", "hot", "x", "total"))
    (row,) = made.values()
    assert [[n.out.name for n in s.sums] for s in row.stages] == [["largest"], ["total", "z"]]
    assert row.choice is not None and row.choice.out.name == "hot" and [m.out.name for m in row.maps] == ["y"]
    assert row.kept == {"z", "y"} and reasons == []
    late = (*nodes[:2], *nodes[3:], feed("seed", (4,)), one_hot("hot", "seed", "label"))
    made, reasons = found(*late, standard("y", "hot", "x", "total"))
    assert made["largest"].choice is None and reasons == ["with largest: it needs seed, which is made later"]


WINDOWS = (("n", 2), ("i", 3), ("r", 2))


def pooling(size: int = 2, extent: int = 6) -> tuple[Node, ...]:
    """Where the largest element of each window is, and the gradient that goes to it alone, with an activation's."""
    window = (along("n"), Affine((("i", size), ("r", 1))))
    tensor, whole, grad = Tensor("x", (2, extent)), (along("n"), along("i")), Affine((("o", 1), ("r", -1)), 0, size)
    here = Cond(X0.eq(X1), Ref("r"), Num(1e9))
    first = Contract(Tensor("first", (2, 3)), WINDOWS, whole, ("x", "top"), (window, whole), here, "min")
    dims = (("n", 2), ("o", extent), ("r", 2))
    reads = ((along("n"), grad), (along("n"), grad))
    body = Cond(X1.eq(Ref("r")), X0, Num(0.0))
    out = Contract(Tensor("spread", (2, extent)), dims, (along("n"), along("o")), ("dy", "first"), reads, body)
    back = Map(Tensor("y", (2, extent)), ("spread", "x"), ((0, 1), (0, 1)), Binary("*", X0, X1))
    return Feed(tensor, "x", 1.0), feed("top", (2, 3)), feed("dy", (2, 3)), first, out, back


def test_a_gradient_of_pooling_is_written_window_by_window() -> None:
    made, _ = found(*pooling())
    (row,) = made.values()
    assert [n.out.name for n in row.contracts] == ["first", "spread"] and row.kept == {"y"}
    assert row.choice is not None and row.choice.dims == WINDOWS
    assert row.choice.out_map == elements_of(row) == (along("n"), Affine((("i", 2), ("r", 1))))
    assert row.choice.in_maps == ((along("n"), along("i")),) * 2


@pytest.mark.parametrize(
    ("size", "extent"), [(1, 6), (3, 9), (2, 7)], ids=["windows that overlap", "gaps between", "an element beside"]
)
def test_windows_that_do_not_meet_every_element_once(size: int, extent: int) -> None:
    assert found(*pooling(size, extent))[0] == {}


def test_a_gradient_that_adds_something_outside_its_window() -> None:
    *before, out, back = pooling()
    assert isinstance(out, Contract)
    assert found(*before, replace(out, body=X0 + Num(1.0)), back)[0] == {}


@pytest.mark.parametrize(
    ("extents", "kept", "yes"),
    [
        ((4096, 512), "d0", True),
        ((4, 8193), "d0", False),
        ((4096, 31), "d0", False),
        ((32, 10), "d0", True),  # a launch costs more
        ((512, 4096), "d1", False),  # columns
        ((32, 16, 64), "d1", True),  # channels of all samples
        ((33, 16, 64), "d1", False),  # which blocks share
    ],
)
def test_rows_that_threads_share(extents: tuple[int, ...], kept: str, yes: bool) -> None:
    dims = tuple((f"d{a}", n) for a, n in enumerate(extents))
    walk: tuple[Affine, ...] = tuple(along(d) for d, _ in dims)
    assert fits(Contract(Tensor("y", (dict(dims)[kept],)), dims, (along(kept),), ("x",), (walk,), X0), H200) is yes


def launches(root: Path, name: str, target: str, order: str = "reproducible") -> tuple[Merged, list[Nest]]:
    model = load_model(root / "models" / f"{name}.yaml", {})
    model = replace(model, numerics=replace(model.numerics, order=order))
    merged = lower(model, backend(target).capabilities, verify=True).merged
    train = next(p for p in merged.phases if p.name == "train")
    bodies = [merged.templates[x.template].body for x in train.launches]
    return merged, [b for b in bodies if isinstance(b, Nest) and b.staged]


def test_a_normalisation_of_rows_is_one_launch_forward_and_one_backward(root: Path) -> None:
    """Of each of the five, and what is left of the loss."""
    _, staged = launches(root, "transformer", "cuda")
    assert sum(bool(n.then and n.each) for n in staged) >= 5
    assert sum(bool(n.beside and n.each) for n in staged) == 5


def test_losses_and_maxima_of_pooling_are_one_launch_each(root: Path) -> None:
    """The sums of a cross-entropy and the best class with the gradient of its scores; the count of samples; two
    maxima of windows, with the choice of an element in each."""
    _, staged = launches(root, "lenet_digits", "cuda")
    assert sorted((len(n.stages), bool(n.each)) for n in staged) == [(1, True), (2, False), (2, False), (3, True)]
    assert sum(all(isinstance(d.extent, int) for d in n.dims if d.kind is DimKind.RED) for n in staged) == 2


@pytest.mark.parametrize(
    ("target", "order"), [("cpu", "reproducible"), ("opencl", "reproducible"), ("cuda", "bitwise")]
)
def test_where_threads_share_no_row_nothing_follows(root: Path, target: str, order: str) -> None:
    assert launches(root, "transformer", target, order)[1] == []
