"""Kinds of expressions and the calls in them; inlining of user-defined functions."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile, Span
from compiler.expr.ast import Expr, show
from compiler.expr.check import erase, infer_dimension
from compiler.expr.diff import NotDifferentiable, diff, linear_in
from compiler.expr.inline import Definition, expand, inline
from compiler.expr.interp import evaluate
from compiler.expr.parse import parse_expr
from compiler.expr.simplify import simplify
from compiler.expr.types import Kind, check_types
from compiler.expr.units import DIMENSIONLESS

ENV = {"v": Kind.REAL, "n": Kind.INT, "ok": Kind.BOOL, "tau_m": Kind.REAL}


def tree_of(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, Span(SourceFile("m.yaml", text), 0, len(text)), sink)
    assert tree is not None, sink.items
    return tree


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", Kind.INT),
        ("1.0", Kind.REAL),
        ("2 mV", Kind.REAL),
        ("n + 1", Kind.INT),
        ("n / 2", Kind.REAL),
        ("n // 2 % 3", Kind.INT),
        ("n ** 2", Kind.INT),
        ("n ** -1", Kind.REAL),
        ("n ** n", Kind.REAL),
        ("v * n", Kind.REAL),
        ("round(0.1 * n)", Kind.INT),
        ("v > 1 and not ok", Kind.BOOL),
        ("ok == (n > 2)", Kind.BOOL),
        ("1 if ok else 2", Kind.INT),
        ("1 if ok else 2.0", Kind.REAL),
        ("ok if n > 1 else false", Kind.BOOL),
        ("where(ok, n, v)", Kind.REAL),
        ("max(1, n)", Kind.INT),
        ("max(1, v)", Kind.REAL),
        ("float(ok) + int(ok)", Kind.REAL),
        ("isnan(v)", Kind.BOOL),
        ("exp(n)", Kind.REAL),
        ("pi", Kind.REAL),
        ("own(n)", Kind.REAL),
        ("poisson(v)", Kind.INT),
        ("binomial(7, v)", Kind.INT),
    ],
)
def test_kinds(text: str, kind: Kind) -> None:
    sink = Sink()
    assert check_types(tree_of(text), ENV, sink, {"own": 1}) is kind
    assert sink.items == []


@pytest.mark.parametrize(
    ("text", "code", "at", "message", "help"),
    [
        ("tau + 1", "E0302", "tau", "unknown name `tau`", "did you mean `tau_m`?"),
        (
            "1 / ms",
            "E0302",
            "ms",
            "unknown name `ms`",
            "`ms` is a unit: divide by a quantity, `/ (1 ms)`",
        ),
        ("exp + 1", "E0302", "exp", "unknown name `exp`", "`exp` is a function: write `exp(...)`"),
        ("sqr(v)", "E0303", "sqr(v)", "unknown function `sqr`", "did you mean `sqrt`?"),
        ("ln(v)", "E0303", "ln(v)", "unknown function `ln`", "did you mean `log`?"),
        ("v(n)", "E0303", "v(n)", "unknown function `v`", "to multiply, write `v * (...)`"),
        (
            "exp(1, 2)",
            "E0304",
            "exp(1, 2)",
            "`exp` takes 1 argument, 2 given",
            "`exp(x)`: exponential",
        ),
        ("max(1)", "E0304", "max(1)", "`max` takes at least 2 arguments, 1 given", None),
        ("clip(v)", "E0304", "clip(v)", "`clip` takes 3 arguments, 1 given", None),
        ("own(1, 2)", "E0304", "own(1, 2)", "`own` takes 1 argument, 2 given", None),
        ("ok + 1", "E0306", "ok", "`+` needs numbers; `ok` is a condition", "write `float(ok)`"),
        ("(v > 1) * 2", "E0306", "v > 1", "`*` needs numbers", "write `1 if v > 1 else 0`"),
        (
            "1 if n else 2",
            "E0306",
            "n",
            "`if` needs a condition; `n` is a whole number",
            "write `n != 0`",
        ),
        ("not v", "E0306", "v", "`not` needs a condition", None),
        ("v and ok", "E0306", "v", "`and` needs conditions", None),
        ("ok < 1", "E0306", "ok < 1", "`<` cannot compare these", None),
        ("ok if ok else 1", "E0306", "ok if ok else 1", "both arms must be of one kind", None),
        ("exp(ok)", "E0306", "ok", "`exp` needs numbers", None),
        ("where(v, 1, 2)", "E0306", "v", "`where` needs a condition", None),
        ("-ok", "E0306", "ok", "`-` needs a number", None),
        ("1 if bogus else 2", "E0302", "bogus", "unknown name", None),
    ],
)
def test_mistakes(text: str, code: str, at: str, message: str, help: str | None) -> None:
    sink = Sink()
    check_types(tree_of(text), ENV, sink, {"own": 1})
    (found,) = sink.items
    assert found.span is not None
    assert (found.code, text[found.span.start : found.span.end]) == (code, at)
    assert message in found.message
    if help is not None:
        assert found.help == help


def definitions(**functions: str) -> dict[str, Definition]:
    return {name: Definition(name, ("x",), tree_of(body)) for name, body in functions.items()}


def test_inline() -> None:
    own = definitions(swish="x * half(x) / (1 + exp(-x))", half="x / 2")
    sink = Sink()
    result = inline(tree_of("swish(a + b) + x"), own, sink)
    assert sink.items == []
    assert result is not None
    assert show(result) == "(a + b) * ((a + b) / 2) / (1 + exp(-(a + b))) + x"


@pytest.mark.parametrize(
    ("functions", "text", "message"),
    [
        ({"f": "g(x)", "g": "f(x) + 1"}, "f(1)", "calls itself (f -> g -> f)"),
        ({"f": "x * x"}, "f(random())", "draws random numbers"),
        (
            {f"f{i}": f"(f{i + 1}(x) + 1) * 2 / 3 - 1 + 2 - 3" for i in range(30)},
            "f0(f0(a))",
            "deeply",
        ),
        ({f"f{i}": f"f{i + 1}(x) * f{i + 1}(x)" for i in range(30)}, "f0(a)", "grows beyond"),
    ],
)
def test_inline_refuses(functions: dict[str, str], text: str, message: str) -> None:
    functions = {**functions, "f30": "x"}
    sink = Sink()
    assert inline(tree_of(text), definitions(**functions), sink) is None
    assert sink.items[0].code == "E0307"
    assert message in sink.items[0].message


def test_deepest_trees_pass_every_stage() -> None:
    """The parser's bound on depth leaves room for the recursion of all that follows."""
    for text in (
        "x" + " + x" * 119,
        "x" + " * x" * 119,
        "-" * 119 + "x",
        "x ** " * 119 + "x",
        "1 if x > 0 else " * 118 + "x",
        "own(" * 59 + "x" + ")" * 59,
    ):
        tree = tree_of(text)
        sink = Sink()
        assert check_types(tree, {"x": Kind.REAL}, sink, {"own": 1}) is Kind.REAL
        infer_dimension(tree, {"x": DIMENSIONLESS}, sink)
        ready = inline(tree, definitions(own="x / 2"), sink)
        assert sink.items == []
        assert ready is not None
        assert simplify(expand(erase(ready))) == simplify(ready)
        assert tree_of(show(ready)) == ready
        hash(ready)
        try:
            slope = diff(ready, "x")
        except NotDifferentiable as refused:
            assert text.startswith("x **")
            assert "too deeply" in refused.message
        else:
            assert evaluate(slope, {"x": np.ones(1)}) is not None
        linear_in(ready, ["x"])


def test_expand() -> None:
    assert show(expand(tree_of("relu(clip(a, 0, 1))"))) == "max(min(max(a, 0), 1), 0)"
    assert show(expand(tree_of("relu(normal())"))) == "relu(normal())"
