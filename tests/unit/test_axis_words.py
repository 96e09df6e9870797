"""Axes are called in emitted text as the layers that make them call them."""

from __future__ import annotations

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Ref
from compiler.ir.space import along
from compiler.passes.kernels.axis_words import axis_words, dim_words
from compiler.passes.kernels.nest_builder import Walk, build_loops

X = l1.Tensor("x", (32, 10), batched=True)
WEIGHT = l1.Tensor("w", (5, 10))
Y = l1.Tensor("y", (32, 5), batched=True)
N, OUT, K = along("n"), along("o"), along("k")
DENSE = l1.Contract(
    Y, (("n", 32), ("o", 5), ("k", 10)), (N, OUT), ("x", "w"), ((N, K), (OUT, K)), Ref("x0") * Ref("x1")
)


def variable(tensor: l1.Tensor) -> l1.Variable:
    return l1.Variable(tensor, 0.0)


def test_what_a_layer_makes_and_reads_has_its_words() -> None:
    words = axis_words([variable(X), variable(WEIGHT), DENSE])
    assert words["y"] == ("n", "o")
    assert words["x"] == ("n", "k")
    assert words["w"] == ("o", "k")


def test_maps_and_gradients_have_the_words_of_what_they_follow() -> None:
    z, of = l1.Tensor("z", (32, 5), batched=True), l1.Tensor("y.grad", (32, 5), batched=True)
    row = l1.Tensor("row", (32,), batched=True)
    total = l1.Contract(row, (("d0", 32), ("d1", 5)), (along("d0"),), ("z",), ((along("d0"), along("d1")),), Ref("x0"))
    follows = l1.Map(z, ("y",), ((0, 1),), Ref("x0"))
    grad = l1.Map(of, ("row",), ((0,),), Ref("x0"))
    words = axis_words([variable(X), variable(WEIGHT), DENSE, follows, total, grad])
    assert words["z"] == ("n", "o")
    assert words["row"] == ("n",)
    assert words["y.grad"] == ("n", "o")


def test_features_that_no_layer_names_are_f() -> None:
    assert axis_words([variable(X)])["x"] == ("n", "f")
    assert axis_words([variable(WEIGHT)])["w"] == ("", "")


def test_no_two_dims_of_a_nest_have_one_word() -> None:
    words = {"a": ("n", "n"), "b": ("k",)}
    assert dim_words([("a", ["d0", "d1"]), ("b", ["d1"])], words) == {"d0": "n", "d1": "k"}
    assert dim_words([("b", ["d0"]), ("b", ["k"])], words) == {}, "it is the next one's own"
    assert dim_words([("a", ["n", "d1"])], words) == {}, "the layer's own dim has it"


def test_a_loop_over_several_axes_is_i() -> None:
    walk = Walk("y", X, (along("d0"), along("d1")))
    flat = build_loops([walk], (("d0", 32), ("d1", 10)), ["d0", "d1"], frozenset(), 0, words={"d0": "n", "d1": "f"})
    assert [d.word for d in flat.dims] == ["i"]
    row = Walk("r", l1.Tensor("r", (32,), batched=True), (along("d0"),))
    both = build_loops([walk, row], (("d0", 32), ("d1", 10)), ["d0"], frozenset(), 0, words={"d0": "n", "d1": "f"})
    assert [d.word for d in both.dims] == ["n", "f"]
    assert [d.name for d in both.dims] == ["d0", "d1"], "a kernel is what it is without them"
    unknown = build_loops([walk, row], (("d0", 32), ("d1", 10)), ["d0"], frozenset(), 0)
    assert [d.word for d in unknown.dims] == ["i", "j"]
