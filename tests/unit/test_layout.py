"""Where printed lines are broken, and which loads stand in the statement that reads them."""

from __future__ import annotations

from collections.abc import Sequence

from backends.kernel_ir.copies import without_copies
from backends.kernel_ir.expr import call, code, cond, name
from backends.kernel_ir.inline import inlined
from backends.kernel_ir.layout import WIDTH
from backends.kernel_ir.stmt import Closure, Do, For, If, Leave, Let, Remark, Set, Stmt, Text, lines_of, when
from backends.kernel_ir.tree import Index, Place
from backends.kernel_ir.types import Typed

LONG = [name(f"quite_a_long_name_{k}") for k in range(12)]


def shown(statements: Sequence[Stmt]) -> list[str]:
    found = ["    " * x.depth + x.text for x in lines_of(statements)]
    assert all(len(x) <= WIDTH for x in found)
    return found


def test_short_lines_stay() -> None:
    assert shown([Let("real", name("x"), code("a * b + c"), note="of a")]) == ["const real x = a * b + c; /* of a */"]


def test_a_line_is_broken_at_the_operator_that_binds_least() -> None:
    terms = [a * b for a, b in zip(LONG[::2], LONG[1::2], strict=True)]
    total = terms[0] + terms[1] + terms[2] + terms[3]
    first, *others = shown([Do(total)])
    assert first == f"{terms[0]} + {terms[1]}"
    assert others == [f"    + {terms[2]} + {terms[3]};"]


def test_a_value_that_fits_stands_behind_its_name() -> None:
    value = LONG[0] + LONG[1] + LONG[2] + LONG[3]
    assert shown([Set(name("a" * 60), value)]) == ["a" * 60 + " =", f"    {value};"]


def test_arguments_are_broken_at_commas_and_further_in_what_is_inside_of_them() -> None:
    inner = call("inner", *LONG[:6])
    assert shown([Do(call("outer", LONG[6], inner, LONG[7]))]) == [
        f"outer({LONG[6]},",
        f"    inner({', '.join(map(str, LONG[:4]))}, {LONG[4]},",
        f"        {LONG[5]}), {LONG[7]});",
    ]


def test_a_body_leaves_the_line_of_its_head() -> None:
    loop = when(LONG[0] < LONG[1], Set(LONG[2], LONG[3] + LONG[4] + LONG[5]))
    assert shown([loop]) == [f"if ({LONG[0]} < {LONG[1]})", f"    {LONG[2]} = {LONG[3]} + {LONG[4]} + {LONG[5]};"]


def test_a_long_comment_stands_above() -> None:
    comment = "word " * 21 + "end"
    assert shown([Let("real", name("x"), None, note=comment)]) == [f"/* {comment} */", "real x;"]
    assert len(shown([Remark(comment * 3)])) == 3


def reads(place: Index, kind: Typed) -> bool:
    return place.array == name("p") and str(kind) == "real"


LOAD = Let("real", name("x"), name("p")[code("i")])


def test_a_load_stands_where_one_statement_reads_it() -> None:
    loop = For(code("i"), 0, code("n"), [LOAD, Set(name("sum"), name("x"), "+=")])
    assert shown(inlined([loop], reads)) == ["for (nl_i64 i = 0; i < n; i++) sum += p[i];"]


def test_what_is_computed_first_reads_a_load_that_nothing_else_reads() -> None:
    test, add = If(name("x") > 0, [Set(name("y"), 1)]), Do(call("add", "&y", "x"))
    assert shown(inlined([LOAD, test], reads)) == ["if (p[i] > 0) y = 1;"]
    assert shown(inlined([LOAD, add], reads)) == ["add(&y, p[i]);"]
    again = If(name("x") > 0, [Set(name("y"), name("x"))])
    assert shown(inlined([LOAD, again], reads)) == ["const real x = p[i];", "if (x > 0) y = x;"]


def test_braces_stand_around_several_statements_and_before_an_else() -> None:
    one, leave = Set(name("y"), 1), Leave("return")
    assert shown(inlined([If(code("a < b"), [leave])], reads)) == ["if (a < b) return;"]
    assert shown(inlined([If(code("a < b"), [one], [leave])], reads))[0] == "if (a < b) {"
    assert shown(inlined([If(code("a < b"), [one, one])], reads))[0] == "if (a < b) {"


def test_other_loads_keep_their_names() -> None:
    once, x = Set(name("sum"), name("x"), "+="), name("x")
    for others in (
        [once, Set(name("y"), x)],  # read twice
        [Set(name("y"), cond(code("i < n"), x, 0))],  # in an arm
        [Set(name("y"), x * x)],
        [Do(call("go")), once],  # behind another statement
        [Set(name("y"), call("f", x, *LONG))],  # long
    ):
        assert inlined([LOAD, *others], reads) == [LOAD, *others]
    stored = Let("real", name("x"), name("q")[code("i")])
    assert inlined([stored, once], reads) == [stored, once]


def test_what_is_added_to_an_element_has_no_name_for_what_was_there() -> None:
    at, other = Place(name("w"), code("i"), "w"), Place(name("g"), code("i"), "g")
    load, store = Let("real", name("x"), at, const=False), Set(at, name("x") - name("y"))
    assert shown(inlined([load, Set(other, 1), store], reads)) == ["g[i] = 1;", "w[i] -= y;"]
    again = [load, Set(at, 1), store]
    assert shown(inlined(again, reads)) == ["real x = w[i];", "w[i] = 1;", "w[i] = x - y;"]
    assert "real x = w[i];" in shown(inlined([load, Set(at, name("x") + name("x"))], reads))


ACC, Y = Let("real", name("acc"), 0, const=False), Let("real", name("y"), name("acc"), const=False)
MORE, STORE = Set(name("acc"), name("t"), "+="), Set(name("p")[code("i")], name("y"))


def test_an_accumulator_is_called_as_what_it_is_for() -> None:
    assert shown(without_copies([ACC, MORE, Y, STORE])) == ["real y = 0;", "y += t;", "p[i] = y;"]
    one = Let("real", name("acc"), name("t"))
    assert shown(without_copies([one, Y, STORE])) == ["const real acc = t;", "p[i] = acc;"]


def test_copies_stay_where_either_changes() -> None:
    adds = Closure("more", (), [MORE])
    for behind in (
        [Y, MORE, STORE],
        [Y, Set(name("y"), 1), STORE],
        [Y, Do(call("f", "&y"))],
        [adds, Y, Do(call("more"))],
        [adds, Closure("outer", (), [Do(call("more"))]), Y, Do(call("outer"))],
        [MORE, Y, Text("f(y);", frozenset("y"))],
    ):
        assert without_copies([ACC, *behind]) == [ACC, *behind]
    taken = [ACC, Let("real", name("y"), 1), Y, STORE]
    assert without_copies(taken) == taken
    assert without_copies([ACC, adds, Do(call("more")), Y, STORE])[0] == Let("real", name("y"), 0, const=False)
