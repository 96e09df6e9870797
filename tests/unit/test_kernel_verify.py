"""Kernels are well formed: those that are not are told of by the names of their variables."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

import backends.cpu.emit.emit as cpu
import backends.cuda.emit.emit as cuda
import backends.opencl.emit as opencl
from backends.c_family.cprint import C_TYPES, Dialect
from backends.kernel_ir.expr import call, code, name
from backends.kernel_ir.stmt import Block, Closure, Do, Each, For, Frame, If, Let, Set, Stmt, Struct, While, when
from backends.kernel_ir.verify import faults
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.space import DType
from compiler.passes.pipeline.lower import lower
from compiler.verify.violations import InternalError

a, b, i, n, x_, y_ = (name(word) for word in ("a", "b", "i", "n", "x_", "y_"))
X, Y = Let("const real *const", x_, "nl_at(ctx, self->x_)", const=False), Let("real *const", y_, "nl_y", const=False)
N = Let("nl_i64", n, 3)


def loop(*body: Stmt) -> Stmt:
    return For(i, 0, n, body)


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        ([N, loop(Set(a, 1))], "`a` is not declared"),
        ([N, loop(Let("real", a, 1)), Do(call("nl_f", a))], "`a` is not declared"),
        ([Let("int", a, 1), Let("int", a, 2)], "`a` is declared twice"),
        ([N, For(i, 0, n, [Let("nl_i64", i, 1)])], "`i` is declared twice"),
        ([For(i, 0, b, [])], "`b` is not declared"),
        ([If(b, [])], "`b` is not declared"),
        ([While(b, [])], "`b` is not declared"),
        ([N, loop(Set(n[i], 1))], "`n[i]` is an element of what has none"),
        ([N, loop(Let("nl_i64", a, n[i]))], "`n[i]` is an element of what has none"),
        ([N, X, loop(Set(x_[i], 1))], "`x_[i]` is constant"),
        ([N, Set(n, 4)], "`n` is constant"),
        ([N, X, loop(Let("nl_i64", a, x_[i]))], "`a` is a whole number, and `x_[i]` is not"),
        (
            [X, Let("nl_i32", a, 0, const=False), Set(a, code("-(a + x_[0])"))],
            "`a` is a whole number, and `-(a + x_[0])` is not",
        ),
        ([Let("nl_i64", a, call("nl_exp_f32", "1.0f"))], "`a` is a whole number, and `nl_exp_f32(1.0f)` is not"),
        ([Let("real", a, code("1.0"))], "`a` is f32, and `1.0` is f64"),
        ([Do(call("nl_exp_f32", "1.0"))], "`1.0` is f64, for `nl_exp_f32`"),
        ([Let("real", a, code("1.0f")), Do(call("nl_abs_i64", a))], "`a` is f32, for `nl_abs_i64`"),
        ([X, Let("real *", b, x_, const=False)], "`b` is no pointer to constants, and `x_` is"),
        ([X, Let("const nl_i32 *", b, x_)], "`b` and `x_` are no pointers to the same"),
        ([X, Let("nl_i64", b, x_ + 1)], "`b` and `x_ + 1` are no pointers to the same"),
        ([X, Do(x_[x_[0]])], "`x_[0]` is no whole number"),
        ([X, Do(x_[0] % 2)], "`x_[0]` is no whole number"),
        ([X, Do(x_ * 2)], "`x_ * 2` is no number"),
        (
            [Struct("struct k0_row", [Let("real", n)]), Let("nl_i64", a, code("self->n"))],
            "`a` is a whole number, and `self->n` is not",
        ),
        (
            [Struct("struct nl_found", [Let("real", n)]), Let("nl_found", a, None), Let("nl_i64", b, code("a.n"))],
            "`b` is a whole number, and `a.n` is not",
        ),
        ([N, X, loop(), For(i, None, n, [])], "`i` is not declared"),
        ([Y, For(i, 0, 3, [], test=y_[0] % 2)], "`y_[0]` is no whole number"),
    ],
)
def test_a_fault_is_named(statements: list[Stmt], fault: str) -> None:
    assert faults(statements, DType.F32) == [fault]


def test_elements_of_bf16_round_what_they_are_given() -> None:
    narrow = Let("nl_bfloat *const", y_, "nl_y", const=False)
    assert faults([X, narrow, Set(y_[0], x_[0]), Set(y_[1], call("nl_bf16_f32", x_[1]))], DType.F32) == []


def test_kernels_without_faults() -> None:
    term = Let("real", a, x_[i] * 2)
    assert not faults([N, X, Y, loop(term, Set(y_[i], a)), loop(term)], DType.F32)
    assert not (
        faults([N, X, loop(Let("nl_i64", a, code("(nl_i64)x_[i]")), Let("nl_i64", b, code("x_[i] < 1.0f")))], DType.F32)
    )
    assert not faults([Let("real", a[4], None), Each(i, 4, [Set(a[i], 0)]), Block("", [Let("real", a, 1)])], DType.F32)
    assert not (
        faults([Closure("nl_f", [Let("nl_i64", a)], [Do(call("nl_g", a))]), when("nl_t.on", Do("nl_f(1)"))], DType.F32)
    )
    assert not faults([Struct("struct", [Let("real", b)], a[4]), Do(call("nl_f", a))], DType.F32)
    holes = {"@@": [Do(call("nl_f", a, b))], "##": [Let("real", b[4])]}
    assert not faults([Frame("int a;\n@@\n##", frozenset({"a"}), holes), Do(call("nl_f", a))], DType.F32)


@pytest.mark.parametrize("target", [cpu, cuda, opencl])
def test_a_wrong_type_is_an_internal_error_with_names(
    root: Path, monkeypatch: pytest.MonkeyPatch, target: ModuleType
) -> None:
    capabilities = backend(target.__name__.split(".")[1]).capabilities
    program = lower(load_model(root / "models/cuba.yaml"), capabilities).merged
    monkeypatch.setattr(Dialect, "type_name", lambda self, t: "nl_i64" if t == self.precision else C_TYPES[t])
    said = r"kernel `k0_initial_value` is not legal:\n  - `x_p_.*` is a whole number, and"
    with pytest.raises(InternalError, match=said):
        target.emit(program)
