"""Horizontal fusion of elementwise nodes: what is fused, what is not and why, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from compiler.expr.ast import Binary, Expr, Num, Ref
from compiler.ir.level1.graph import Feed, Map, Node, Tensor
from compiler.ir.level2.program import ArrayFormal, Mode
from compiler.passes.fusion.fuse_epilogues import Epilogue
from compiler.passes.fusion.horizontal_fusion import MOST_ARRAYS, NEAR, siblings
from compiler.passes.kernels import lower_tensors
from compiler.passes.pipeline.lower import lower
from tests.cpu.test_layers import HEAD, NETS, TAIL, write
from tests.numeric.simulated import model_of
from tests.numeric.trained import load

TWICE = Binary("*", Ref("x0"), Num(2.0))


def tensor(name: str, shape: tuple[int, ...] = (4, 5)) -> Tensor:
    return Tensor(name, shape)


def feed(name: str, shape: tuple[int, ...] = (4, 5)) -> Feed:
    return Feed(tensor(name, shape), name, 1.0)


def made(name: str, *ins: str, axes: tuple[int | None, ...] = (0, 1), shape: tuple[int, ...] = (4, 5)) -> Map:
    """The sum of operands that are read along the same axes, twice the only one."""
    body: Expr = TWICE
    for k in range(1, len(ins)):
        body = Binary("+", Ref("x0") if k == 1 else body, Ref(f"x{k}"))
    return Map(tensor(name, shape), ins, (axes,) * len(ins), body)


def groups(*nodes: Node, outputs: tuple[str, ...] = ()) -> dict[str, Epilogue]:
    return siblings(nodes, outputs, {}, {})[0]


def names(group: Epilogue) -> list[str]:
    return [m.out.name for m in group.maps]


def test_two_that_read_the_same() -> None:
    found, decisions = siblings((feed("x"), made("y", "x"), made("z", "x")), ("y", "z"), {}, {})
    assert names(found["y"]) == ["y", "z"] and found["y"].kept == {"y", "z"}
    assert [(d.subject, d.verdict, d.reason) for d in decisions] == [("z", "shares the kernel of y", "both read x")]


def test_a_value_that_others_read_too_is_stored_and_read_from_where_it_is() -> None:
    nodes = (feed("x"), made("y", "x"), made("z", "y"), made("far", "y", axes=(1, 0), shape=(5, 4)))
    found = groups(*nodes, outputs=("z", "far"))
    assert names(found["y"]) == ["y", "z"] and found["y"].kept == {"y", "z"}


def test_a_value_for_the_kernel_alone_is_not_stored() -> None:
    found = groups(feed("x"), made("y", "x"), made("z", "y"), made("w", "y"), outputs=("z", "w"))
    assert names(found["y"]) == ["y", "z", "w"] and found["y"].kept == {"z", "w"}


@pytest.mark.parametrize(
    "other",
    [
        made("z", "x", axes=(1, 0), shape=(5, 4)),  # reads x across
        made("z", "row", axes=(None, 1)),  # shares nothing
        made("z", "x", "late"),
    ],
)
def test_what_cannot_join(other: Map) -> None:
    nodes = (feed("x"), feed("row", (1, 5)), made("y", "x"), feed("late"), other)
    assert groups(*nodes, outputs=("y", "z")) == {}


def test_a_small_operand_that_both_read_is_no_reason() -> None:
    row = (feed("row", (1, 5)), made("y", "row", axes=(None, 1)), made("z", "row", axes=(None, 1)))
    assert groups(*row, outputs=("y", "z")) == {}


def between(count: int) -> tuple[Node, ...]:
    return tuple(feed(f"other{k}") for k in range(count))


@pytest.mark.parametrize(
    ("distance", "also", "joins"), [(NEAR, True, True), (NEAR + 1, True, False), (99, False, True)]
)
def test_no_result_is_kept_for_longer_than_before(distance: int, also: bool, joins: bool) -> None:
    """From afar only what reads something for the last time: then that ends where the result begins."""
    late = (made("last", "x", axes=(1, 0), shape=(5, 4)),) if also else ()
    nodes = (feed("x"), made("y", "x"), *between(distance - 1), made("z", "x"), *late)
    found, decisions = siblings(nodes, ("y", "z", "last"), {}, {})
    assert (list(found) == ["y"]) == joins
    if not joins:
        assert [d.reason for d in decisions] == ["with y: its result would be kept for longer"]


def test_not_too_many_arrays() -> None:
    """Another pair of operand and result for each map: five of them, which read `x` too, and the first."""
    many = range(MOST_ARRAYS // 2)
    nodes = (feed("x"), *(feed(f"x{k}") for k in many), *(made(f"y{k}", "x", f"x{k}") for k in many))
    found, decisions = siblings(nodes, tuple(f"y{k}" for k in many), {}, {})
    assert len(found["y0"].maps) == (MOST_ARRAYS - 1) // 2
    assert [d.reason for d in decisions if d.verdict == "not fused"] == [
        "with y0: the kernel would touch too many arrays"
    ]


def test_a_variable_that_is_written_in_place() -> None:
    """`z` writes `x` where it stands, which `y` of the same kernel reads."""
    nodes = (feed("x"), made("y", "x"), made("z", "x"))
    found, decisions = siblings(nodes, ("y",), {"z": "x"}, {})
    assert found == {} and decisions[0].reason == "with y: it writes x, which something else reads"


def test_one_kernel_and_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the same network without: fewer kernels; losses and weights to the bit, on the reference."""
    shape, layers = NETS["branches"]
    write(tmp_path, shape)
    text = HEAD.replace("SHAPE", str(list(shape))) + layers + TAIL
    joined = lower(model_of(text, tmp_path), CpuBackend().capabilities, verify=True).merged
    written = {
        t.name.partition(":")[0]: sum(isinstance(f, ArrayFormal) and f.mode is not Mode.READ for f in t.formals)
        for t in joined.templates
        if t.name.endswith(": elementwise")
    }
    assert [n for n, outputs in written.items() if outputs > 1] == ["loss.rows.grad", "a.activated", "dropout.mask"]
    ours = load(text, tmp_path, "reference")
    monkeypatch.setattr(lower_tensors, "siblings", lambda *_: ({}, []))
    apart = lower(model_of(text, tmp_path), CpuBackend().capabilities, verify=True).merged
    assert len(apart.templates) > len(joined.templates)
    theirs = load(text, tmp_path, "reference")
    for step in (1, 2):
        ours.step(step, range(6))
        theirs.step(step, range(6))
    for name, values in theirs.weights().items():
        np.testing.assert_array_equal(ours.weights()[name], values)
