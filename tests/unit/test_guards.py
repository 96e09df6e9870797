"""Guards of elements stand in the outermost loop that they depend on (backends/cpu/kernels/lanes.py)."""

from __future__ import annotations

from backends.cpu.kernels.lanes import placed
from backends.kernel_ir.expr import code
from backends.kernel_ir.stmt import For, Let, Set, Stmt, Style, lines_of

GUARDS = {
    "i": [(Let("nl_i64", code("at"), "2 * i"), Let("int", code("in"), "at < n")), (Let("int", code("other"), "i"),)],
    "": [(Let("int", code("whole"), "n > 0"),)],
}


def text(statements: list[Stmt]) -> list[str]:
    return [x.text for x in lines_of(placed(statements, GUARDS))]


def test_they_stand_where_their_variable_is_known_and_one_is_used() -> None:
    inner = For(code("j"), 0, "n", [Set(code("y[j]"), "in & whole")], style=Style.NEXT)
    found = text([For(code("i"), 0, "n", [inner], style=Style.NEXT), For(code("i"), 0, "n", [])])
    loop = "for (nl_i64 {0} = 0; {0} < n; {0}++)"
    assert found == [
        "const int whole = n > 0;",
        f"{loop.format('i')} {{",
        "const nl_i64 at = 2 * i;",
        "const int in = at < n;",
        f"{loop.format('j')} y[j] = in & whole;",
        "}",
        f"{loop.format('i')} {{",
        "}",
    ]


def test_a_constant_declares_a_variable_too() -> None:
    found = text([For(code("u"), 0, 8, [Let("nl_i64", code("i"), "u + 1"), Set(code("y[i]"), "other")])])
    assert found[1:-1] == ["const nl_i64 i = u + 1;", "const int other = i;", "y[i] = other;"]
