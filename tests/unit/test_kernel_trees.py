"""Expressions of kernels: their text has the parentheses that they need, and is parsed back to the same tree."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.c_family.cprint import literal
from backends.kernel_ir.expr import braces, call, cast, code, every, form, member, name, quoted, total
from backends.kernel_ir.stmt import For, Let, lines_of, moved, used, when
from backends.kernel_ir.stmt import Set as Store
from backends.kernel_ir.tree import (
    LEVELS,
    Binary,
    Call,
    Code,
    Every,
    Index,
    Member,
    Number,
    Place,
    Select,
    Unary,
    nodes,
    rebuilt,
)
from compiler.ir.space import DType

a, b, c, i, x_ = (name(n) for n in ("a", "b", "c", "i", "x_"))


def bare(x: Code) -> Code:
    """What all of several tests are is a chain of `&`."""

    def change(part: Code) -> Code | None:
        match part:
            case Every((first, *rest)):
                found = bare(first)
                for test in rest:
                    found = Binary("&", found, bare(test))
                return found
        return None

    return rebuilt(x, change)


def trees() -> st.SearchStrategy[Code]:
    leaves = st.sampled_from([a, b, Number("3"), Number("0x7fu"), Number("1.5f"), name("nl_t")])

    def larger(x: st.SearchStrategy[Code]) -> st.SearchStrategy[Code]:
        return st.one_of(
            st.builds(Binary, st.sampled_from(sorted(LEVELS)), x, x),
            st.builds(Unary, st.sampled_from("-!~&*"), x),
            st.builds(cast, st.sampled_from(["nl_i64", "const real *"]), x),
            st.builds(Index, x, x),
            st.builds(
                Member, st.sampled_from([".", "->"]), st.just("part"), x.filter(lambda of: not isinstance(of, Number))
            ),
            st.builds(lambda f, *args: Call(f, args), st.sampled_from([name("nl_f"), name("g")]), x, x),
            st.builds(Select, x, x, x),
            st.builds(lambda *tests: Every(tests), x, x, x),
        )

    return st.recursive(leaves, larger, max_leaves=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_a_text_is_parsed_back_to_its_tree(x: Code) -> None:
    assert bare(quoted(x.text)) == bare(x)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (form("{} * {}", a + b, c - 1), "(a + b) * (c - 1)"),
        (a - (b - c), "a - (b - c)"),
        (a - b - c, "a - b - c"),
        (a / (b * c), "a / (b * c)"),
        (form("(nl_u32){} < {}", a + b, c), "(nl_u32)(a + b) < c"),
        (form("{} && {} || {}", a < b, b < c, c), "a < b && b < c || c"),
        (form("{} & {}", a < b, b), "(a < b) & b"),
        (form("{} ? {} : {}", a < b, code("b ? a : c"), c), "a < b ? (b ? a : c) : c"),
        (form("{} >> {}", a * b, c), "(a * b) >> c"),
        (form("({} + 1) * {}", a, b), "(a + 1) * b"),
        (form("nl_get<{}>(&{}, nl_n)", "real", x_[i + 1]), "nl_get<real>(&x_[i + 1], nl_n)"),
        (form("-{}", form("-{}", a)), "-(-a)"),
        (cast("real *", a + b)[i], "((real *)(a + b))[i]"),
        (member(x_[i], name("first")), "x_[i].first"),
        (total([a, -b, -3, 0, c - i]), "a - b - 3 + c - i"),
        (every([a < b, None, every([b, c])]), "(a < b) & b & c"),
    ],
)
def test_parentheses_stand_where_they_are_needed(tree: Code, text: str) -> None:
    assert tree.text == text


def test_what_a_quotation_names_is_named() -> None:
    found = form("nl_least({}, nl_me.part * nl_t.chunk) + (nl_i64){}", x_[i], a)
    assert found.names == {"nl_least", "x_", "i", "nl_me", "nl_t", "nl_i64", "a"}
    assert [x.text for x in nodes(found) if isinstance(x, Index)] == ["x_[i]"]
    assert braces(a, type="nl_t").names == {"a"} and call("nl_f", x_).names == {"nl_f", "x_"}


def test_the_suffix_of_a_number_is_that_of_its_type() -> None:
    for t in (DType.I32, DType.I64, DType.U32, DType.U64, DType.F32, DType.F64):
        for wide in ("LL", "L"):
            found = literal(3, t, wide)
            assert isinstance(found, Number) and found.type is t
    assert Number("0xffffffffu").type is DType.U32 and Number("1e-3f").type is DType.F32


@pytest.mark.parametrize(
    "text", ["a+b", "a +", "int a = 3", "f(a,b)", "{}++", "(a)", "(a", "a=b", "[&](int n)", "{}", ""]
)
def test_a_text_that_is_no_expression_as_it_is_printed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no expression|has no|has 1 holes"):
        quoted(text)


def test_elements_are_moved_by_their_formal_and_reads_test_another_guard() -> None:
    here, there = Place(x_, i + 1, "x"), Place(x_, i + 1, "y")
    statements = [Let("real", a, Select(c, here, b)), when(c, Store(here, there * a)), Store(x_[i + 1], a)]
    found = moved(statements, {"x": name("nl_x")[i]}, {"x": name("inside")})
    assert [x.text for x in lines_of(found)] == [
        "const real a = inside ? nl_x[i] : b;",
        "if (c) nl_x[i] = x_[i + 1] * a;",
        "x_[i + 1] = a;",
    ]


def test_what_nothing_names_is_not_declared() -> None:
    both = Let("real", b, x_[i], beside=[Let("real", c, x_[i + 1])])
    loop = For(i, 0, 4, [Let("real", a, x_[i]), both, Store(x_[i], c)])
    found = used([Let("nl_i64", name("n"), 3), Let("real", x_[2]), loop, Let("real", b, a)])
    shown = [x.text for x in lines_of(found)]
    assert shown == ["real x_[2];", "for (nl_i64 i = 0; i < 4; i++) {", "const real c = x_[i + 1];", "x_[i] = c;", "}"]
