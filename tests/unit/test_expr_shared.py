"""Shared subexpressions: every stage takes time linear in the text, not in the number of paths, and results equal
those of the expanded expression."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler.ir.level0.model as l0
from backends.registry import backend
from compiler.core.diagnostics import ModelError, Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import Call, Expr, Num, Ref, calls, children, extent, refs, show, substitute, with_children
from compiler.expr.check import erase, infer_dimension
from compiler.expr.diff import NotDifferentiable, diff, linear_in
from compiler.expr.inline import Definition, expand, inline, named, reads_through, too_large
from compiler.expr.interp import evaluate
from compiler.expr.parse import parse_expr
from compiler.expr.simplify import has_random, simplify
from compiler.expr.types import Kind, check_types
from compiler.expr.units import DIMENSIONLESS
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal, together
from tests.numeric.simulated import model_of, simulate
from tests.work import at_most

DEPTH = 60
BODIES = (
    "{a} + {b}",
    "{a} * {b}",
    "{a} - 0.5 * {b}",
    "max({a}, {b})",
    "{a} if {b} > 0.5 else -{a}",
    "tanh({a}) / (2 + {b})",
)


def tree_of(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, exact=False)
    sink.check()
    assert tree is not None
    return tree


def unshared(e: Expr) -> Expr:
    """A copy in which no node stands twice."""
    return with_children(e, tuple(unshared(k) for k in children(e))) if children(e) else e


@st.composite
def dags(draw: st.DrawFn, most: int = DEPTH, least: int = 1) -> list[str]:
    """Texts of named expressions over `x`, `y` and those before them, `a0`, `a1`, ..."""
    texts: list[str] = []
    for k in range(draw(st.integers(least, most))):
        known = ["x", "y", *(f"a{i}" for i in range(max(0, k - 3), k))]
        parts = [draw(st.sampled_from(known[-3:] if k else known)) for _ in range(2)]
        texts.append(draw(st.sampled_from(BODIES)).format(a=parts[0], b=parts[1]))
    return texts


def whole_of(texts: Sequence[str]) -> Expr:
    return named(l0.Set(f"a{k}", tree_of(t)) for k, t in enumerate(texts))[f"a{len(texts) - 1}"]


@settings(max_examples=40, deadline=None)
@given(dags(7))
def test_small_ones_are_as_written_out(texts: list[str]) -> None:
    shared = whole_of(texts)
    plain = unshared(shared)
    assert shared == plain
    assert hash(shared) == hash(plain)
    assert show(shared) == show(plain)
    assert extent(shared) == extent(plain)
    assert refs(shared) == refs(plain)
    assert calls(shared) == calls(plain)
    lets = [l0.Set(f"a{k}", tree_of(t)) for k, t in enumerate(texts)]
    assert reads_through((lets[-1].value,), lets) >= refs(shared)
    for stage in (simplify, expand, erase):
        assert show(stage(shared)) == show(stage(plain))
    at = {"x": Ref("y"), "y": Num(2.0)}
    assert show(substitute(shared, at)) == show(substitute(plain, at))
    assert show(diff(shared, "x")) == show(diff(plain, "x"))
    assert linear_in(shared, ["x"]) == linear_in(plain, ["x"])
    env = {"x": np.linspace(-1, 1, 7), "y": np.float64(0.3)}
    np.testing.assert_array_equal(evaluate(shared, env), evaluate(plain, env))


@settings(max_examples=25, deadline=None)
@given(dags(least=DEPTH))
def test_deep_ones_take_no_time(texts: list[str]) -> None:
    with at_most(60_000):
        shared, again = whole_of(texts), whole_of(texts)
    with at_most(12_000):
        assert shared == again
        assert hash(shared) == hash(again)
        assert refs(shared) <= {"x", "y"}
        assert not has_random(shared)
    env = {"x": Kind.REAL, "y": Kind.REAL}
    sink = Sink()
    with at_most(15_000):
        assert check_types(shared, env, sink).numeric
        infer_dimension(shared, dict.fromkeys(env, DIMENSIONLESS), sink)
    assert sink.items == []
    with at_most(60_000):
        assert extent(simplify(erase(shared)))[0] <= extent(shared)[0]
        linear_in(shared, ["x"])
        too_large(expand(shared))
    with at_most(200_000):
        try:
            assert extent(diff(shared, "x"))[0] <= 100_000
        except NotDifferentiable as refused:
            assert "parts" in refused.message or "deeply" in refused.message


@settings(max_examples=20, deadline=None)
@given(dags(), st.integers(0, 2))
def test_functions(texts: list[str], at: int) -> None:
    """Functions that call functions: put in as written out, or refused at once."""
    own: dict[str, Definition] = {}
    for k, text in enumerate(texts):
        body = substitute(tree_of(text), {f"a{i}": Call(f"f{i}", (Ref("x"), Ref("y"))) for i in range(k)})
        own[f"f{k}"] = Definition(f"f{k}", ("x", "y"), body)
    sink = Sink()
    e = Call(f"f{len(texts) - 1}", (tree_of(("x", "y + 1", "x * y")[at]), Ref("y")))
    with at_most(2_000_000):
        found = inline(e, own, sink)
    if found is None:
        assert [d.code for d in sink.items] == ["E0307"]
        return
    assert extent(found)[0] <= 20_000
    assert show(found) == show(substitute(whole_of(texts), {"x": e.args[0]}))


def model(lets: Sequence[str], rhs: str, functions: str = "", method: str = "auto") -> str:
    lines = ", ".join(f"a{k}: '{t}'" for k, t in enumerate(lets))
    return (
        "language: 1\nname: m\n"
        f"functions: {{{functions}}}\n"
        "neurons:\n  cell:\n    params: {tau: 10 ms, y: 0.25}\n    state: {x: 0}\n"
        f"    let: {{{lines}}}\n    method: {method}\n    dynamics: {{dx/dt: '{rhs}'}}\n"
        "    spike: {when: x > 1, reset: [x = 0]}\n"
        "populations: {a: {neuron: cell, size: 3}}\n"
        "simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}\n"
    )


def doubled(op: str, depth: int, first: str) -> list[str]:
    return [first, *(f"a{k} {op} a{k}" for k in range(depth))]


@pytest.mark.parametrize(
    ("method", "op", "first", "rhs"),
    diagonal(
        ["auto", "exact", "exponential_euler", "euler", "rk2", "rk4"],
        together(
            [
                ("+", "x", "-{a} / tau"),
                ("*", "x + 1", "{a} / tau"),
                ("+", "y", "(1 - x * {a}) / tau"),
                ("+", "y * x", "{a} / tau"),
            ]
        ),
    ),
)
def test_deep_models(method: str, op: str, first: str, rhs: str, tmp_path: Path) -> None:
    """Checked and lowered at once, or refused where an expression would have to be written out."""
    text = model(doubled(op, DEPTH, first), rhs.format(a=f"a{DEPTH}"), method=method)
    with at_most(100_000):
        checked = model_of(text, tmp_path)
    with at_most(2_000_000):
        try:
            lowered = lower(checked, backend("cpu").capabilities, verify=True)
            backend("cpu").emit(lowered.merged)
        except ModelError as refused:
            (found,) = refused.diagnostics
            assert found.code == "E0307" or (found.code == "E0602" and op == "*")


@settings(max_examples=10, deadline=None)
@given(texts=dags(5), method=st.sampled_from(["auto", "euler", "rk2", "rk4"]))
def test_same_bits(texts: list[str], method: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A model with named expressions and the one with these written out give the same bits."""
    folder = tmp_path_factory.mktemp("same")
    last = f"a{len(texts) - 1}"
    record = "record: [{trace: {from: a, variables: [x]}}]\nnumerics: {order: bitwise, precision: float64}\n"
    shared = model(texts, f"({last} - x) / tau", method=method) + record
    plain = model([], f"(({show(whole_of(texts))}) - x) / tau", method=method) + record
    pair = [simulate(t, folder, "reference") for t in (shared, plain)]
    np.testing.assert_array_equal(pair[0].traces["a", "x"], pair[1].traces["a", "x"])


def test_many_functions(tmp_path: Path) -> None:
    """600 functions, each of which calls the one before: each body is put in once, and the one that is nested too
    deeply is the only one that is named."""
    own = ", ".join(["f0(x): x + 1", *(f"f{k}(x): f{k - 1}(x) + 1" for k in range(1, 600))])
    with at_most(12_000_000), pytest.raises(ModelError) as refused:
        model_of(model([], "f599(x) / tau", own), tmp_path)
    assert [d.code for d in refused.value.diagnostics if d.code[0] == "E"] == ["E0307"]


def test_functions_that_never_end(tmp_path: Path) -> None:
    """Each cycle is told once, and what only leads to it is not."""
    own = "a(x): b(x), b(x): a(x) + 1, c(x): a(x), d(x): d(x), g(x): x"
    with pytest.raises(ModelError) as refused:
        model_of(model([], "c(x) / tau", own), tmp_path)
    told = [d.message for d in refused.value.diagnostics if d.code == "E0307"]
    assert told == ["the function `a` calls itself (a -> b -> a)", "the function `d` calls itself (d -> d)"]


def test_derivative_too_large(tmp_path: Path) -> None:
    """The gradient of an activation that would be too large is told at the function, not a crash."""
    own = ", ".join(["f0(x): x + 1", *(f"f{k}(x): f{k - 1}(x) * f{k - 1}(x)" for k in range(1, 13))])
    text = (
        f"language: 1\nname: m\nfunctions: {{{own}}}\n"
        "network:\n  inputs: {x: {shape: [4]}, y: {shape: [4]}}\n"
        "  layers: [dense: {name: out, inputs: x, units: 4, activation: f12}]\n"
        "train:\n  data: {file: d.npz, inputs: {x: x, y: y}}\n"
        "  loss: {mean_squared_error: {prediction: out, target: y}}\n"
        "  optimizer: {sgd: {learning_rate: 0.1}}\n  batch: 2\n  epochs: 1\n  seed: 1\n"
    )
    np.savez(tmp_path / "d.npz", x=np.ones((8, 4), np.float32), y=np.ones((8, 4), np.float32))
    checked = model_of(text, tmp_path)
    with pytest.raises(ModelError) as refused:
        lower(checked, backend("cpu").capabilities)
    (found,) = refused.value.diagnostics
    assert found.code == "E0305" and "100,000 parts" in found.message
    assert found.span is not None and found.span.file.text
