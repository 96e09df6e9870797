"""Reductions over the same elements: what shares a kernel, what does not and why, and that results stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.registry import backend
from compiler.expr.ast import Binary, Expr, Num, Ref
from compiler.frontend.load import load_model
from compiler.ir.level1.graph import Contract, Feed, Map, Node, Store, Tensor, Variable
from compiler.ir.level2.program import Merged, Nest
from compiler.ir.space import along
from compiler.passes.fusion.fuse_epilogues import Epilogue, epilogues
from compiler.passes.fusion.fuse_sums import JoinedSums, joined_sums
from compiler.passes.fusion.horizontal_fusion import MOST_ARRAYS
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal

SHAPE = (4, 5)
X0, X1 = Ref("x0"), Ref("x1")
ROWS = (along("d0"),)


def feed(name: str, shape: tuple[int, ...] = SHAPE, dtype: str = "real") -> Feed:
    return Feed(Tensor(name, shape, dtype), name, 1.0)


def total(name: str, *ins: str, combine: str = "add", kept: str = "d0", body: Expr | None = None) -> Contract:
    """Of the product of operands over the rows, or over the columns (`kept`: d1)."""
    product: Expr = X0
    for k in range(1, len(ins)):
        product = Binary("*", product, Ref(f"x{k}"))
    dims = tuple((f"d{a}", n) for a, n in enumerate(SHAPE))
    walk = (along("d0"), along("d1"))
    shape = (dict(dims)[kept],)
    walks = tuple(walk if n != "row" else (along("d1"),) for n in ins)
    return Contract(Tensor(name, shape), dims, (along(kept),), ins, walks, body or product, combine)


def scaled(name: str, *ins: str) -> Map:
    body: Expr = Binary("*", X0, Num(2.0)) if len(ins) == 1 else Binary("+", X0, X1)
    return Map(Tensor(name, (SHAPE[0],)), ins, ((0,),) * len(ins), body)


def joined(*nodes: Node, plain: bool = True, store: dict[str, str] | None = None) -> tuple[JoinedSums, list[str]]:
    fused, _ = epilogues(nodes, ("y", "z"), store or {})
    found, decisions = joined_sums(nodes, ("y", "z"), store or {}, fused, lambda _: plain)
    return found, [d.reason for d in decisions if d.verdict == "not fused"]


def test_two_sums_over_the_same_elements() -> None:
    found, _ = joined(feed("x"), feed("w"), total("y", "x"), total("z", "w", "x"))
    assert [n.out.name for n in found.groups["y"]] == ["z"]
    assert found.fused["y"] == Epilogue((), frozenset({"y", "z"}))


def test_they_have_one_epilogue() -> None:
    nodes = (feed("x"), total("a", "x"), scaled("y", "a"), total("b", "x", "x"), scaled("z", "b", "y"))
    found, _ = joined(*nodes)
    assert [m.out.name for m in found.fused["a"].maps] == ["y", "z"] and "b" not in found.fused
    assert found.fused["a"].kept == {"y", "z"}


@pytest.mark.parametrize(
    "other",
    [
        total("z", "x", kept="d1"),
        total("z", "x", combine="max"),
        total("z", "row"),  # whose elements others read too
        total("z", "w"),
        total("z", "x", body=Binary("*", X0, Ref("d1"))),
    ],
    ids=["columns", "maximum", "row", "another", "index"],
)
def test_what_is_not_over_the_same_elements(other: Contract) -> None:
    nodes = (feed("x"), feed("w"), feed("row", (5,)), total("y", "x"), other)
    assert joined(*nodes)[0].groups == {}


def test_integers_and_what_a_strategy_computes_stay_apart() -> None:
    assert joined(feed("x", dtype="int"), total("y", "x"), total("z", "x", "x"))[0].groups == {}
    assert joined(feed("x"), total("y", "x"), total("z", "x", "x"), plain=False)[0].groups == {}


def test_one_that_reads_the_other_waits_for_it() -> None:
    reads = replace(total("z", "x", "y"), in_maps=((along("d0"), along("d1")), ROWS))
    found, reasons = joined(feed("x"), total("y", "x"), reads)
    assert found.groups == {} and reasons == ["with y: it needs y, which is made later"]


def test_one_whose_epilogue_needs_what_is_made_later() -> None:
    nodes = (feed("x"), total("y", "x"), feed("late", (4,)), total("b", "x", "x"), scaled("z", "b", "late"))
    found, reasons = joined(*nodes)
    assert found.groups == {} and reasons == ["with y: it needs late, which is made later"]


@pytest.mark.parametrize(("axes", "fused"), [((0, 1), True), ((1, 0), False)])
def test_one_whose_epilogue_reads_other_elements(axes: tuple[int, int], fused: bool) -> None:
    """Of a matrix of sums, turned."""
    walk, out = tuple(along(f"d{a}") for a in range(3)), (along("d0"), along("d1"))
    dims = tuple((f"d{a}", 4) for a in range(3))
    sums = [Contract(Tensor(n, (4, 4)), dims, out, ("x",), (walk,), X0) for n in ("y", "b")]
    end = Map(Tensor("z", (4, 4)), ("b", "y"), ((0, 1), axes), Binary("+", X0, X1))
    found, _ = joined(feed("x", (4, 4, 4)), *sums, end)
    assert bool(found.groups) is fused


def test_one_that_writes_a_variable_which_is_read_between() -> None:
    """The running mean, if something else read its old value."""
    variable = Variable(Tensor("v", (4,)), 0.0)
    more = (total("b", "x", "x"), scaled("n", "b", "v"), Store("v", "n"))
    between = Map(Tensor("z", (4,)), ("v",), ((0,),), X0)
    found, reasons = joined(feed("x"), variable, total("y", "x"), between, *more, store={"n": "v"})
    assert found.groups == {} and reasons == ["with y: it writes v, which something else reads"]
    assert joined(feed("x"), variable, total("y", "x"), *more, store={"n": "v"})[0].groups


def test_not_too_many_arrays() -> None:
    many = range(MOST_ARRAYS)
    sums = (total(f"y{k}", "x", f"x{k}") for k in many)
    found, reasons = joined(feed("x"), *(feed(f"x{k}") for k in many), *sums)
    assert len(found.groups["y0"]) == (MOST_ARRAYS - 1) // 2 - 1
    assert "with y0: the kernel would touch too many arrays" in reasons


def program(root: Path, name: str, target: str) -> Merged:
    return lower(load_model(root / "models" / f"{name}.yaml", {}), backend(target).capabilities, verify=True).merged


@pytest.mark.parametrize(("of", "target"), diagonal([("resnet20", 19), ("transformer", 10)], ["cpu", "cuda"]))
def test_gradients_of_a_normalisation_are_summed_at_once(root: Path, of: tuple[str, int], target: str) -> None:
    """Those of scale and shift; of a layer's, those of mean and variance too."""
    name, sums = of
    found = program(root, name, target)
    train = next(p for p in found.phases if p.name == "train")
    bodies = [found.templates[x.template].body for x in train.launches]
    assert sum(isinstance(b, Nest) and bool(b.beside) for b in bodies) == sums
