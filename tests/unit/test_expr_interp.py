"""Evaluation over Python numbers and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile, Span
from compiler.expr.ast import Expr
from compiler.expr.functions import FUNCTIONS
from compiler.expr.inline import expand
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.parse import parse_expr


def tree_of(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, Span(SourceFile("m.yaml", text), 0, len(text)), sink)
    assert tree is not None, sink.items
    return tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("isnan(max(0.0, inf - inf)) and isnan(relu(inf - inf))", True),
        ("2 * width", 32),
        ("round(20683 * scale)", 2068),
        ("round(2.5) + round(3.5)", 6),
        ("7 // 2 + 7 % 4", 6),
        ("-7 // 2", -4),
        ("width / 4", 4.0),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("floor(2.7) + ceil(2.1) + int(-2.7)", 3),
        ("20 ms + 1 s", 1020.0),
        ("8 Hz", 0.008),
        ("min(3, width, 2)", 2),
        ("1 if width > 3 else 1 / 0", 1),
        ("width > 20 and 1 / 0 > 1", False),
        ("width < 20 or 1 / 0 > 1", True),
        ("0 < width < 20", True),
        ("where(false, 1 / 0, 5)", 5),
        ("heaviside(0) + heaviside(-1)", 1),
        ("sign(-3)", -1),
        ("clip(9, 0, 5)", 5),
        ("relu(-2)", 0),
        ("sigmoid(-1000)", 0.0),
        ("isnan(inf - inf)", True),
        ("exprel(0)", 1.0),
        ("pi", math.pi),
    ],
)
def test_python_numbers(text: str, value: object) -> None:
    found = evaluate(tree_of(text), {"width": 16, "scale": 0.1})
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("2 * (1 / 0)", "1 / 0", "division by zero"),
        ("1 // 0", "1 // 0", "division by zero"),
        ("1 % 0", "1 % 0", "division by zero"),
        ("1 + log(-1)", "log(-1)", "no real value"),
        ("sqrt(-1)", "sqrt(-1)", "no real value"),
        ("(-2) ** 0.5", "(-2) ** 0.5", "root of a negative number"),
        ("9 ** 9 ** 9", "9 ** 9 ** 9", "too large for 64 bits"),
        ("9 ** 9 * 9 ** 9 * 9 ** 9", "9 ** 9 * 9 ** 9 * 9 ** 9", "too large for 64 bits"),
        ("1e308 * 10", "1e308 * 10", "too large"),
        ("10.0 ** 400", "10.0 ** 400", "too large"),
        ("exp(1000)", "exp(1000)", "too large"),
        ("floor(inf)", "floor(inf)", "too large"),
        ("1 + missing", "missing", "`missing` has no value here"),
        ("normal()", "normal()", "draws a random number"),
        ("own(1)", "own(1)", "is not a known function"),
    ],
)
def test_no_value(text: str, at: str, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        evaluate(tree_of(text), {})
    span = caught.value.span
    assert text[span.start : span.end] == at
    assert message in caught.value.message


MIXED = [
    "1 if x > 0 else 0",
    "where(x > 0, 1, 2.5) * x",
    "where(x > 0, n, 2.5)",
    "x ** 2 + 0.1",
    "x ** n",
    "x * n + n / 3",
    "n * 0.5",
    "n ** -1",
    "sqrt(n) + x",
    "min(x, n, 1)",
    "int(x) * x",
    "float(x > 0) * x",
    "-inf if x > 0 else 20 ms",
    "x / 0",
    *(
        f"{f.name}({', '.join(['x', '0.25', '0.75'][: f.least])})"
        for f in FUNCTIONS.values()
        if not f.random and f.name not in ("where", "int", "isnan")
    ),
]


@pytest.mark.parametrize("text", MIXED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_keep_their_type(text: str, dtype: type[np.floating[Any]]) -> None:
    env = {"x": np.array([-0.5, 0.0, 0.75, 2.0], dtype), "n": np.array([1, 2, 3, 4], np.int32)}
    found = evaluate(tree_of(text), env)
    assert found.dtype == dtype
    assert found.shape == (4,)


def test_integers_stay_integers() -> None:
    env = {"x": np.zeros(3, np.float32), "n": np.array([1, -2, 3], np.int32)}
    kept = ["n * 2", "n // 2", "n % 2", "n ** 2", "max(n, 0)", "abs(n)", "relu(n)", "round(n)"]
    for text in [*kept, "where(x > 0, n, 2)"]:
        assert evaluate(tree_of(text), env).dtype == np.int32, text
    assert evaluate(tree_of("int(x)"), env).dtype == np.int64
    assert evaluate(tree_of("n > 1 and not x > 0"), env).dtype == np.bool_


def test_ieee_results_without_warnings(recwarn: pytest.WarningsRecorder) -> None:
    x = np.array([-1.0, 0.0, 1000.0])
    env = {"x": x}
    assert np.isnan(evaluate(tree_of("log(x)"), env)[0])
    assert list(evaluate(tree_of("1 / x"), env)) == [-1.0, np.inf, 1e-3]
    assert evaluate(tree_of("exp(x)"), env)[2] == np.inf
    assert list(evaluate(tree_of("sigmoid(-x)"), env))[1:] == [0.5, 0.0]
    assert list(recwarn) == []


def test_constant_parts_follow_ieee_beside_arrays() -> None:
    env = {"x": np.array([1.0], np.float32)}
    for text, value in (
        ("x / (1 / 0)", 0.0),
        ("x * -log(0)", np.inf),
        ("x * 1e308 * 10", np.inf),
        ("max(x, exp(1000))", np.inf),
        ("x * sqrt(-1)", np.nan),
        ("x * 9 ** 9 ** 3", np.inf),
        ("x + floor(inf)", np.inf),
    ):
        found = evaluate(tree_of(text), env)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [value])


def test_broadcasting() -> None:
    env = {"a": np.ones((3, 1)), "b": np.arange(4.0)}
    found = evaluate(tree_of("a * b + 1"), env)
    assert found.shape == (3, 4)
    assert found[0, 3] == 4.0


def test_functions_against_scipy() -> None:
    x = np.linspace(-3, 3, 41)
    env = {"x": x}
    for text, expected in (
        ("sigmoid(x)", special.expit(x)),
        ("softplus(x)", np.logaddexp(x, 0)),
        ("exprel(x)", special.exprel(x)),
        ("erf(x)", special.erf(x)),
    ):
        np.testing.assert_allclose(evaluate(tree_of(text), env), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if not f.random])
def test_scalars_arrays_and_definitions_agree(name: str) -> None:
    """One meaning per function: of a number, of an array, and of its definition."""
    known = FUNCTIONS[name]
    values = [0.3, 0.5, 0.9, -0.4, 0.0, 2.0, -1.5]
    for i in range(len(values)):
        args = [values[(i + k) % len(values)] for k in range(known.least)]
        names = [f"x{k}" for k in range(known.least)]
        first = "x0 > 0" if name == "where" else "x0"
        tree = tree_of(f"{name}({', '.join([first, *names[1:]])})")
        scalars = dict(zip(names, args, strict=True))
        arrays = {n: np.array([v]) for n, v in scalars.items()}
        by_array = evaluate(tree, arrays)[0]
        np.testing.assert_allclose(by_array, evaluate(expand(tree), arrays)[0], rtol=1e-15)
        try:
            by_number = evaluate(tree, scalars)
        except ExprError:
            assert not np.isfinite(by_array)
            continue
        np.testing.assert_allclose(by_array, by_number, rtol=1e-14)
