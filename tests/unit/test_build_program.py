"""The builder of programs: what makes rows share a kernel, and what a kernel is given."""

import compiler.ir.level2.program as l2
from compiler.core.source import NOWHERE
from compiler.expr.ast import Expr, Num, Ref
from compiler.ir.space import DType
from compiler.passes.program.build_program import ProgramBuilder, Prototype, Row

REAL = DType.F32


def _row(b: ProgramBuilder, value: Expr, path: str, group: object = None) -> Row:
    k = b.kernel(f"{path}: set", group=group)
    k.write("x", REAL, f"{path}.x")
    k.read("other", REAL, f"{path}.other", l2.Strided((l2.Axis((("i", 1),), stride="far"),)))
    k.column("far", 2)
    k.column("n", 3)
    k.column("c", 0.5, REAL)
    return k.add_row(l2.Nest((l2.Dim("i", "n"),), (l2.Assign("x", value),)), path)


def _builder() -> ProgramBuilder:
    return ProgramBuilder("test", REAL, l2.Order.BITWISE)


def test_formals_that_nothing_reads_are_no_columns() -> None:
    b = _builder()
    _row(b, Ref("c"), "a")
    _row(b, Ref("other"), "b")
    without, read = b.finish().kernels
    assert [f.name for f in without.formals] == ["x", "n", "c"]
    assert [f.name for f in read.formals] == ["x", "other", "far", "n"]
    assert set(without.rows.scalars) == {"n", "c"} and set(read.rows.arrays) == {"x", "other"}


def test_rows_share_the_kernel_of_their_text() -> None:
    b = _builder()
    _row(b, Ref("c") * Num(2.0), "a")
    _row(b, Ref("c") * Num(2.0), "b")
    kernel = b.finish().kernels[0]
    assert kernel.rows.paths == ("a", "b") and kernel.name == "a: set"


def test_texts_that_python_finds_equal_are_different_kernels() -> None:
    b = _builder()
    for path, number in (("a", Num(0.0)), ("b", Num(-0.0)), ("c", Num(0))):
        _row(b, Ref("c") * number, path)
    assert [k.rows.paths for k in b.finish().kernels] == [("a",), ("b",), ("c",)]


def test_no_row_of_another_group_comes_between() -> None:
    b = _builder()
    for group, path in (("first", "a"), ("then", "b"), ("first", "c")):
        _row(b, Ref("c"), path, group)
    assert [k.rows.paths for k in b.finish().kernels] == [("a", "c"), ("b",)]


def test_a_prototype_is_made_once() -> None:
    made = list[float]()

    def fill(value: float) -> Prototype:
        made.append(value)
        formals = (l2.ArrayFormal("x", REAL, l2.Mode.WRITE, l2.ELEMENT), l2.ScalarFormal("n", DType.I64))
        return Prototype(formals, l2.Nest((l2.Dim("i", "n"),), (l2.Assign("x", Num(value)),)))

    b = _builder()
    for value, path in ((1.0, "a"), (2.0, "b"), (1.0, "c")):
        b.rows_of(fill, f"{path}: fill", NOWHERE, 0, value).add_row({"x": path}, {"n": 1}, path)
    assert made == [1.0, 2.0]
    assert [k.rows.paths for k in b.finish().kernels] == [("a", "c"), ("b",)]
