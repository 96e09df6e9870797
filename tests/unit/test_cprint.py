"""The printer shared by C and CUDA: types, precedence, literals, statements."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends.c_family.cprint import (
    Body,
    Dialect,
    Element,
    PrintError,
    infer_locals,
    join,
    literal,
    symbols,
    type_of,
)
from backends.c_family.names import Namer, c_name
from backends.kernel_ir.expr import name
from backends.kernel_ir.stmt import lines_of, names_of
from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import Expr
from compiler.expr.parse import parse_expr
from compiler.ir.level2.program import Add, Assign, Mode
from compiler.ir.space import DType

F32, F64, I32, I64, U64, U8 = (
    DType.F32,
    DType.F64,
    DType.I32,
    DType.I64,
    DType.U64,
    DType.U8,
)
SCOPE = symbols({"x": F32, "y": F32, "wide": F64, "k": I32, "n": I64, "on": "bool", "key": U64})


def expr(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, units=False, exact=False)
    sink.check()
    assert tree is not None
    return tree


def shown(text: str, to: DType | None = None, precision: DType = F32) -> str:
    return Dialect(precision).expr(expr(text), SCOPE, to).text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x + y * 2", "x + y * 2.0f"),
        ("(x + y) * 2", "(x + y) * 2.0f"),
        ("x - (y - 1)", "x - (y - 1.0f)"),
        ("x / (y * x)", "x / (y * x)"),
        ("-(-x)", "-(-x)"),
        ("x - -1", "x + 1.0f"),
        ("x + -1", "x - 1.0f"),
        ("-x + -1", "-1.0f - x"),
        ("k / n", "(real)k / (real)n"),
        ("k // 2 + n", "nl_floordiv_i32(k, 2) + n"),
        ("n % 3", "nl_mod_i64(n, 3LL)"),
        ("n * 3 + k - 1", "n * 3 + k - 1"),
        ("(1 if on else n) * 3", "(on ? 1 : n) * 3"),
        ("x * k", "x * (real)k"),
        ("1 * (k / 1.0)", "(real)k"),
        ("k + 1", "k + 1"),
        ("x ** 3", "x * x * x"),
        ("y / x ** 2", "y / (x * x)"),
        ("(x + 1) ** -2", "1.0f / ((x + 1.0f) * (x + 1.0f))"),
        ("x ** 0.5", "nl_sqrt_f32(x)"),
        ("x ** y", "nl_pow_f32(x, y)"),
        ("k ** 2", "k * k"),
        ("x if x > 0 else 0", "x > 0.0f ? x : 0.0f"),
        ("(x if on else y) + 1", "(on ? x : y) + 1.0f"),
        ("x > 0 and not y > k", "(x > 0.0f) & !(y > (real)k)"),
        ("where(on, 1, x)", "on ? 1.0f : x"),
        ("min(x, y, 0)", "nl_min_f32(nl_min_f32(x, y), 0.0f)"),
        ("max(k, 2)", "nl_max_i32(k, 2)"),
        ("exp(k)", "nl_exp_f32((real)k)"),
        ("exp(wide)", "nl_exp_f64(wide)"),
        ("wide * 0.1", "wide * 0.1"),
        ("x * wide", "(double)x * wide"),
        ("heaviside(x)", "x >= 0.0f"),
        ("int(x)", "(nl_i64)x"),
        ("float(k) * x", "(real)k * x"),
        ("relu(x)", "nl_max_f32(x, 0.0f)"),
        ("abs(k)", "nl_abs_i32(k)"),
        ("isnan(x)", "x != x"),
        ("on + 1", "on + 1"),
        ("uniform(key, k, 2)", "nl_uniform_f32(key, (nl_u64)k, (nl_u64)step, 2u)"),
        ("pi * x", "3.1415927f * x"),
    ],
)
def test_expressions(text: str, want: str) -> None:
    assert shown(text) == want


def test_negation_and_logic_have_their_parentheses() -> None:
    assert shown("x > 0 and not y > 1 or on") == "((x > 0.0f) & !(y > 1.0f)) | on"
    assert shown("not k > 1 and not (x == y)") == "(k <= 1) & !(x == y)"


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-38, 1.0, -65.5, 3.4e38, 16777217.0, 5e-324])
def test_literals_carry_the_bits_of_numpy(value: float) -> None:
    for t, kind in ((F32, np.float32), (F64, np.float64)):
        text = literal(value, t).text
        assert text.endswith("f") == (t == F32)
        assert kind(text.rstrip("f")) == kind(value)


def test_literals_without_a_number() -> None:
    assert literal(float("inf"), F32).text == "NL_INF_F32"
    assert literal(float("-inf"), F64).text == "-NL_INF_F64"
    assert literal(1e39, F32).text == "NL_INF_F32"
    assert literal(float("nan"), F64).text == "NL_NAN_F64"
    assert literal(-(2**63), I64).text == "-9223372036854775807LL - 1"


def test_conversion_reaches_the_arms_of_a_conditional() -> None:
    assert shown("n if on else 0", I32) == "on ? (nl_i32)n : 0"
    assert shown("x if on else 0", F64) == "on ? (double)x : 0.0"


def test_types() -> None:
    def of(text: str) -> object:
        return type_of(expr(text), SCOPE, F32)

    assert of("k + n") == I64
    assert of("k / k") == F32
    assert of("k < 2") == "bool"
    assert of("k if on else x") == F32
    assert of("floor(x)") == F32 and of("floor(k)") == I32
    assert of("int(x)") == I64
    assert of("3000000000") == I64
    assert join(I32, F32) == F32 and join("bool", I32) == I32 and join(F32, F64) == F64


def test_what_has_no_meaning_is_refused() -> None:
    for text in ("missing + 1", "random()", "x + unknown(1)"):
        with pytest.raises(PrintError):
            shown(text)


def test_names() -> None:
    assert c_name("post.y") == "post_y_"
    assert c_name("int") == "int_" and c_name("nl_run") == "nl_run_" and c_name("3x") == "x3x_"
    assert c_name("é*/\n") == "x_____"
    namer = Namer()
    assert [x.text for x in (namer("a.b"), namer("a_b"), namer("a.b"))] == ["a_b_", "a_b_2_", "a_b_"]
    own = (namer.own("i"), namer.fresh("i"), namer.own("i"), namer("i"), namer.fresh("self"))
    assert [x.text for x in own] == ["i", "i_2", "i", "i_", "self_2"]
    assert [x.text for x in (namer.beside("v", "p"), namer("v_p"), namer("v"))] == ["v_p_", "v_p_2_", "v_"]


def body(**elements: Element) -> Body:
    namer = Namer()
    return Body(Dialect(F32), dict(SCOPE), elements, namer)


def lines(b: Body, *statements: Assign | Add) -> list[str]:
    return [x.text for x in lines_of([*b.run(statements), *b.stores()])]


def test_a_body_loads_once_reads_the_newest_and_stores_last() -> None:
    b = body(
        v=Element(name("v_p_")[name("i")], F32, Mode.UPDATE),
        w=Element(name("w_p_")[name("i")], F32, Mode.READ),
        out=Element(name("out_p_")[name("i")], F32, Mode.WRITE),
    )
    assert lines(
        b,
        Assign("v", expr("v + w")),
        Assign("out", expr("v * v")),
        Assign("spiked", expr("v > 1")),
        Assign("v", expr("0 if spiked else v")),
    ) == [
        "real v_ = v_p_[i];",
        "const real w_ = w_p_[i];",
        "v_ = v_ + w_;",
        "real out_ = v_ * v_;",
        "int spiked_ = v_ > 1.0f;",
        "v_ = spiked_ ? 0.0f : v_;",
        "v_p_[i] = v_;",
        "out_p_[i] = out_;",
    ]


def test_guards_read_the_fill_and_leave_out_stores() -> None:
    b = body(
        a=Element(name("a_p_")[name("i")], F32, Mode.READ, name("a_in_"), 2.5),
        z=Element(name("z_p_")[name("i")], F32, Mode.WRITE, name("z_in_")),
    )
    assert lines(b, Assign("z", expr("a"))) == [
        "const real a_ = a_in_ ? a_p_[i] : 2.5f;",
        "real z_ = a_;",
        "if (z_in_) z_p_[i] = z_;",
    ]


def test_additions_go_to_memory_or_to_the_local() -> None:
    b = body(
        g=Element(name("g_p_")[name("post")], F32, Mode.ACCUMULATE),
        u=Element(name("u_p_")[name("i")], F32, Mode.UPDATE),
    )
    assert lines(b, Add("g", expr("x")), Add("u", expr("x * 2"))) == [
        "g_p_[post] += x;",
        "real u_ = u_p_[i];",
        "u_ += x * 2.0f;",
        "u_p_[i] = u_;",
    ]


def test_narrow_elements_are_computed_as_integers() -> None:
    b = body(flag=Element(name("flag_p_")[name("i")], U8, Mode.UPDATE))
    assert lines(b, Assign("flag", expr("flag == 0"))) == [
        "nl_i32 flag_ = flag_p_[i];",
        "flag_ = flag_ == 0;",
        "flag_p_[i] = (nl_u8)flag_;",
    ]


def test_a_local_takes_the_widest_type_assigned_to_it() -> None:
    statements = (Assign("a", expr("1")), Assign("b", expr("a")), Assign("a", expr("x")))
    assert infer_locals(statements, SCOPE, (), F32) == {"a": F32, "b": F32}


def test_names_are_those_of_the_text() -> None:
    """Loads, calls, casts and stores: what passes read instead of the text."""
    b = body(v=Element(name("v_p_")[name("i")], F32, Mode.UPDATE, name("v_in_")))
    statements = [*b.run([Assign("v", expr("exp(v) * k + 1 / 0.3 if on else 1e39"))]), *b.stores()]
    text = " ".join(x.text for x in lines_of(statements))
    assert names_of(statements) == {x for x in re.findall(r"[A-Za-z_]\w*", text) if x not in ("f", "if")}
