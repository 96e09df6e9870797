"""Kernels are well formed, and those that are not are told of (tests/kernel_check.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

import backends.cpu.emit.emit as cpu
import backends.cuda.emit.emit as cuda
import backends.opencl.emit as opencl
from backends.c_family.source_map import Printed, printed
from backends.kernel_ir.expr import call, code, name
from backends.kernel_ir.stmt import Block, Closure, Do, Each, For, Frame, If, Let, Set, Stmt, Struct, Text, While, when
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from tests.kernel_check import faults

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
    ],
)
def test_a_fault_is_named(statements: list[Stmt], fault: str) -> None:
    assert faults(statements) == [fault]


def test_kernels_without_faults() -> None:
    term = Let("real", a, x_[i] * 2)
    assert not faults([N, X, Y, loop(term, Set(y_[i], a)), loop(term)])
    assert not list(
        faults([N, X, loop(Let("nl_i64", a, code("(nl_i64)x_[i]")), Let("nl_i64", b, code("x_[i] < 1.0f")))])
    )
    assert not faults([Let("real", a[4], None), Each(i, 4, [Set(a[i], 0)]), Block("", [Let("real", a, 1)])])
    assert not list(
        faults([Closure("nl_f", [Let("nl_i64", a)], [Do(call("nl_g", a))]), when("nl_t.on", Do("nl_f(1)"))])
    )
    assert not faults([Struct("struct", [Let("real", b)], a[4]), Do(call("nl_f", a))])
    holes = {"@@": [Do(call("nl_f", a, b))], "##": [Let("real", b[4])]}
    assert not faults([Frame("int a;\n@@\n##", frozenset({"a"}), holes), Do(call("nl_f", a))])


@pytest.mark.parametrize("target", [cpu, cuda, opencl])
@pytest.mark.parametrize("model", ["cuba", "stdp", "spiking_conv", "lenet5", "lstm"])
def test_kernels_of_models_are_well_formed(
    root: Path, monkeypatch: pytest.MonkeyPatch, model: str, target: ModuleType
) -> None:
    found, functions = list[str](), 0

    def close(kernels: Iterable[Iterable[Stmt]]) -> Printed:
        nonlocal functions
        closed = [list(kernel) for kernel in kernels]
        heads = {
            word for kernel in closed for s in kernel if isinstance(s, Text) for word in re.findall(r"\w+", s.text)
        }
        for s in (s for kernel in closed for s in kernel if isinstance(s, Block)):
            functions += 1
            found.extend(faults(s.body, heads))
        return printed(closed)

    monkeypatch.setattr(target, "printed", close)
    name = target.__name__.split(".")[1]
    target.emit(lower(load_model(root / "models" / f"{model}.yaml"), backend(name).capabilities).merged)
    assert functions and not found
