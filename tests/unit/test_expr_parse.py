"""Parsing and printing of expressions, statements, signatures and derivative keys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import Diagnostic, Sink
from compiler.core.source import SourceFile, Span
from compiler.expr.ast import (
    Binary,
    Bool,
    Call,
    Cond,
    Expr,
    Num,
    Quantity,
    Ref,
    Unary,
    children,
    show,
)
from compiler.expr.parse import (
    Assign,
    Do,
    parse_derivative,
    parse_expr,
    parse_signature,
    parse_statement,
)

BEFORE = "key: "


def span_of(text: str) -> Span:
    file = SourceFile("m.yaml", BEFORE + text)
    return Span(file, len(BEFORE), len(file.text))


def under(span: Span | None) -> str:
    assert span is not None
    return span.file.text[span.start : span.end]


def parsed(text: str, *, exact: bool = True) -> Expr:
    sink = Sink()
    tree = parse_expr(text, span_of(text), sink, exact=exact)
    assert tree is not None, sink.items
    assert sink.items == []
    return tree


def refused(text: str, *, exact: bool = True, units: bool = True) -> Diagnostic:
    sink = Sink()
    assert parse_expr(text, span_of(text), sink, exact=exact, units=units) is None
    (found,) = sink.items
    return found


a, b, c, x = Ref("a"), Ref("b"), Ref("c"), Ref("x")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("x", x),
        ("post.y", Ref("post.y")),
        ("3", Num(3)),
        ("1e-3", Num(1e-3)),
        (".5", Num(0.5)),
        ("-2", Num(-2)),
        ("-(2)", Unary("-", Num(2))),
        ("-a ** 2", Unary("-", Binary("**", a, Num(2)))),
        ("a ** -b", Binary("**", a, Unary("-", b))),
        ("+a", a),
        ("true", Bool(True)),
        ("False or true", Binary("or", Bool(False), Bool(True))),
        ("20 ms", Quantity(20, "ms")),
        ("20ms", Quantity(20, "ms")),
        ("-65 mV", Quantity(-65, "mV")),
        ("5 nS/cm**2", Quantity(5, "nS/cm**2")),
        ("1 mV/ms", Quantity(1, "mV/ms")),
        ("2 Ω*m", Quantity(2, "Ω*m")),
        ("1 Torr", None),
        ("1 inch", Quantity(1, "inch")),
        ("20 ms / m", Binary("/", Quantity(20, "ms"), Ref("m"))),
        ("20 ms/tau_m", Binary("/", Quantity(20, "ms"), Ref("tau_m"))),
        ("20 ms*s(x)", Binary("*", Quantity(20, "ms"), Call("s", (x,)))),
        ("20 ms ** 2", Binary("**", Quantity(20, "ms"), Num(2))),
        ("3 if a else 4", Cond(a, Num(3), Num(4))),
        ("a < b <= c", Binary("and", Binary("<", a, b), Binary("<=", b, c))),
        ("a and b and c", Binary("and", Binary("and", a, b), c)),
        ("not a", Unary("not", a)),
        ("max(a, b)", Call("max", (a, b))),
        ("random()", Call("random", ())),
        (" a\n  - b ", Binary("-", a, b)),
        ("a if b else c if x else 1", Cond(b, a, Cond(x, c, Num(1)))),
        ("a // b % c", Binary("%", Binary("//", a, b), c)),
    ],
)
def test_trees(text: str, tree: Expr | None) -> None:
    if tree is None:
        assert refused(text).code == "E0403"
    else:
        assert parsed(text) == tree


def test_declared_names_hide_units() -> None:
    text = "36 mS*m**3"
    sink = Sink()
    hidden = parse_expr(text, span_of(text), sink, names={"m"})
    assert hidden == Binary("*", Quantity(36, "mS"), Binary("**", Ref("m"), Num(3)))
    assert parsed(text) == Quantity(36, "mS*m**3")


def test_spans_point_at_subexpressions() -> None:
    tree = parsed("  (v - -65 mV) / tau + f(2 µs)")
    texts: list[str] = []
    stack: list[Expr] = [tree]
    while stack:
        e = stack.pop(0)
        texts.append(under(e.span))
        stack.extend(children(e))
    assert texts == [
        "(v - -65 mV) / tau + f(2 µs)",
        "(v - -65 mV) / tau",
        "f(2 µs)",
        "v - -65 mV",
        "tau",
        "2 µs",
        "v",
        "-65 mV",
    ]


def test_inexact_spans_are_the_whole_scalar() -> None:
    tree = parsed("a + b", exact=False)
    assert isinstance(tree, Binary)
    assert under(tree.left.span) == "a + b"
    assert under(refused("a ^ b", exact=False).span) == "a ^ b"


@pytest.mark.parametrize(
    ("text", "at", "message", "help"),
    [
        ("a ^ b", "^", "`^` is not an operator", "write `**` for a power"),
        ("a && b", "&&", "`&&` is not an operator", "write `and`"),
        ("a || b", "||", "`||` is not an operator", "write `or`"),
        ("!a", "!", "`!` is not an operator", "write `not`"),
        ("a = b", "=", "`=` does not compare", "write `==` to compare"),
        ("a := b", ":=", "`:=` cannot stand", None),
        ("a ? b : c", "?", "`?` is not an operator", "write `a if condition else b`"),
        ("x[1]", "[", "`[` cannot stand", "there are no lists and no subscripts"),
        ("lambda x: x", "lambda", "`lambda` cannot stand", None),
        ("(x for x in y)", "for", "`for` cannot stand", None),
        ("f'{x}'", "'", "text cannot stand", None),
        ('"a"', '"', "text cannot stand", None),
        ("None", "None", "`None` cannot stand", None),
        ("f(x=2)", "=", "`=` does not compare", None),
        ("f(*a)", "*", "`*` cannot stand", None),
        ("a.b(c)", "a.b", "only a function's name can be called", "write `b(...)`"),
        ("f(x).y", ".", "`.` cannot stand", "a dot joins names, as in `post.y`"),
        ("a b", "b", "an operator is missing between `a` and `b`", "write `a * b`"),
        ("2(a)", "(", "an operator is missing", "to multiply, write `2 * (...)`"),
        ("2 ms(a)", "ms", "an operator is missing", "to multiply, write `2 * ms`"),
        ("(a) b", "b", "an operator is missing", None),
        ("a +", "+", "the expression ends too early", None),
        ("f(", "(", "the expression ends too early", None),
        ("f(a", "(", "`(` is never closed", None),
        ("a)", ")", "`)` closes nothing", None),
        ("()", ")", "an expression is missing", None),
        ("a * / b", "/", "`/` cannot stand here", None),
        ("a if b", "a if b", "`if` needs an `else`", "write `a if condition else b`"),
        ("1,5", ",", "`,` cannot stand here", "a decimal point is written `.`"),
        ("(a, b)", "(a, b)", "`,` cannot stand here", None),
        ("a is b", "is", "`is` cannot stand", None),
        ("007", "007", "`007` begins with 0", "write `7`"),
        ("a + 1e999", "1e999", "the number is too large", None),
        ("größe", "größe", "`größe` is not a name", None),
        ("_x", "_x", "`_x` is not a name", "names begin with a letter"),
        ("a # b", "#", "`#` cannot stand", None),
        ("a €", "€", "`€` cannot stand", None),
        ("3 x", "x", "`x` is not a known unit", "to multiply, write `3 * x`"),
        ("3 degC", "degC", "`degC` is not a known unit", None),
        ("20 ms 3", "3", "an operator is missing between `20 ms` and `3`", None),
    ],
)
def test_refused(text: str, at: str, message: str, help: str | None) -> None:
    found = refused(text)
    assert found.code == ("E0403" if "unit" in found.message else "E0301")
    assert under(found.span) == at
    assert message in found.message
    if help is not None:
        assert found.help is not None
        assert help in found.help


def test_quantities_can_be_refused() -> None:
    found = refused("2 * 20 ms", units=False)
    assert (found.code, under(found.span)) == ("E0301", "20 ms")
    assert refused("20 ms", units=False).code == "E0301"


def test_empty() -> None:
    assert refused("  ").message == "an expression is missing here"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 61 + "a" + ")" * 61,
        "f(" * 61 + "a" + ")" * 61,
        "-" * 9000 + "a",
        "not " * 2400 + "a",
        "a" + "+a" * 4000,
        "a" + "**a" * 3000,
        "a if b else " * 800 + "c",
        "a<" * 4000 + "a",
        "a and " * 1600 + "a",
        "(" * 6000,
        "a" * 20_000,
    ],
)
def test_bounds(text: str) -> None:
    sink = Sink()
    tree = parse_expr(text, span_of(text), sink)
    if text.isalpha():
        assert tree == Ref(text)
    else:
        assert tree is None
        assert [d.code for d in sink.items] == ["E0301"]


def test_within_bounds() -> None:
    parsed("(" * 60 + "a" + ")" * 60)
    parsed("a" + " + a" * 119)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab1 .e+-*/%<>=!()^&|,'\"[]{}:;#\\_ifmsnotr\tµΩé\n", max_size=25))
def test_any_text_is_parsed_or_explained(text: str) -> None:
    sink = Sink()
    span = span_of(text)
    tree = parse_expr(text, span, sink)
    assert (tree is None) == (len(sink.items) == 1)
    for d in sink.items:
        assert d.code in ("E0301", "E0403")
        assert d.span is not None
        assert span.start <= d.span.start <= d.span.end <= span.end + 1
    if tree is not None:
        assert parsed(show(tree)) == tree


NAMES = st.sampled_from(["a", "b", "tau_m", "post.y", "m", "e"])
NUMBERS = st.one_of(st.integers(-1000, 1000), st.floats(allow_nan=False, allow_infinity=False), st.just(1e-300))
LEAVES = st.one_of(
    NAMES.map(Ref),
    NUMBERS.map(Num),
    st.booleans().map(Bool),
    st.builds(Quantity, NUMBERS, st.sampled_from(["ms", "mV", "nS/cm**2", "mV*ms", "s**-1"])),
)
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or"]


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Unary, st.sampled_from(["-", "not"]), inner),
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(Cond, inner, inner, inner),
        st.builds(Call, st.sampled_from(["exp", "max", "f"]), st.lists(inner, max_size=3).map(tuple)),
    )


@settings(max_examples=400, deadline=None)
@given(st.recursive(LEAVES, _grown, max_leaves=14))
def test_shown_trees_parse_back(tree: Expr) -> None:
    assert parsed(show(tree)) == tree


@pytest.mark.parametrize(
    "text",
    [
        "(v_rest - v + ge + gi) / tau_m",
        "a - (b - c)",
        "a - b - c",
        "(a ** b) ** c",
        "a ** b ** c",
        "-a ** 2",
        "(-a) ** 2",
        "(-2) ** 2",
        "(20 ms) ** 2",
        "not (a or b) and c",
        "(a if b else c) + 1",
        "a if b else c + 1",
        "(a < b) == c",
    ],
)
def test_minimal_parentheses(text: str) -> None:
    assert show(parsed(text)) == text


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("v = v_reset", Assign("v", "=", Ref("v_reset"))),
        ("w += a", Assign("w", "+=", a)),
        ("w -= 2", Assign("w", "-=", Num(2))),
        ("w *= -a", Assign("w", "*=", Unary("-", a))),
        ("post.y = 1", Assign("post.y", "=", Num(1))),
        ("deliver(w)", Do(Call("deliver", (Ref("w"),)))),
        (" deliver(w, ge) ", Do(Call("deliver", (Ref("w"), Ref("ge"))))),
    ],
)
def test_statements(text: str, statement: Assign | Do) -> None:
    sink = Sink()
    found = parse_statement(text, span_of(text), sink)
    assert found == statement
    assert sink.items == []
    assert found is not None
    assert under(found.span) == text.strip()


def test_statement_spans() -> None:
    text = "post.w  += 2 * x"
    found = parse_statement(text, span_of(text), Sink())
    assert isinstance(found, Assign)
    assert under(found.target_span) == "post.w"
    assert under(found.value.span) == "2 * x"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("v == 3", "v == 3"),
        ("-v", "-v"),
        ("x /= 2", "/="),
        ("3 = x", "3"),
        ("v =", "="),
        ("if = 3", "if"),
        ("a = b = c", "="),
        ("a = b ^ c", "^"),
    ],
)
def test_refused_statements(text: str, at: str) -> None:
    sink = Sink()
    assert parse_statement(text, span_of(text), sink) is None
    (found,) = sink.items
    assert (found.code, under(found.span)) == ("E0301", at)


def test_signatures() -> None:
    sink = Sink()
    assert parse_signature("swish(x)", span_of("swish(x)"), sink) == ("swish", ("x",))
    assert parse_signature("g( x, y )", span_of("g( x, y )"), sink) == ("g", ("x", "y"))
    assert parse_signature("k()", span_of("k()"), sink) == ("k", ())
    assert sink.items == []
    for text in ("f", "f(3)", "f(x, x)", "f(x,)", "if(x)", "f(x) + 1"):
        assert parse_signature(text, span_of(text), sink) is None
    assert len(sink.items) == 6


def test_derivative_keys() -> None:
    sink = Sink()
    assert parse_derivative("dv/dt", span_of("dv/dt"), sink) == "v"
    assert parse_derivative("dg_e / dt", span_of("dg_e / dt"), sink) == "g_e"
    assert sink.items == []
    for text, help in (
        ("dv/dx", "independent"),
        ("d2v/dt2", "two variables of first order"),
        ("v'", "write `dv/dt"),
        ("v", "dx/dt"),
    ):
        assert parse_derivative(text, span_of(text), sink) is None
        assert help in (sink.items[-1].help or "")
