"""Builders of expressions of kernels (tree.py), from parts or from their text (quote.py).

Assumes: nothing.
Guarantees: operands are trees; a text is the expression that it says, and what it names counts as named.
Does not: know types of values or functions of targets (backends/c_family/cprint.py does).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backends.kernel_ir.quote import quoted
from backends.kernel_ir.tree import Binary, Braces, Call, Cast, Code, Every, Member, Number, Select, Unary, Variable
from backends.kernel_ir.types import Typed, typed

Operand = Code | int | str
"""What an operator takes; a text is an expression as it is printed."""

ZERO: Final = Number("0")
ONE: Final = Number("1")


def code(x: Operand) -> Code:
    if isinstance(x, Code):
        return x
    return Number(str(x)) if isinstance(x, int) else quoted(x)


def name(text: str) -> Variable:
    """A variable or function."""
    return Variable(text)


def form(pattern: str, *parts: Operand) -> Code:
    """An expression in the form of a pattern with `{}` for its parts."""
    return quoted(pattern, [code(x) for x in parts])


def braces(*values: Operand, type: str = "") -> Code:
    """The values of a structure or an array."""
    return Braces(type, tuple(code(x) for x in values))


def call(function: str, *args: Operand) -> Code:
    return Call(Variable(function), tuple(code(x) for x in args))


def cast(kind: Typed, x: Operand) -> Code:
    return Cast(typed(kind), code(x))


def member(x: Code, field: Code) -> Code:
    """The field of a structure that is called as a variable."""
    return Member(".", field.text, x)


def address(x: Code) -> Code:
    return Unary("&", x)


def binary(a: Operand, op: str, b: Operand) -> Code:
    return Binary(op, code(a), code(b))


def cond(test: Operand, a: Operand, b: Operand) -> Code:
    return Select(code(test), code(a), code(b))


def total(parts: Iterable[Operand]) -> Code:
    """The sum of offsets, in order."""
    found: Code | None = None
    for x in map(code, parts):
        if x != ZERO:
            found = x if found is None else _plus(found, x)
    return ZERO if found is None else found


def _plus(a: Code, b: Code) -> Code:
    """The sum of whole numbers without parentheses."""
    match b:
        case Binary("+" | "-" as op, left, right):
            return Binary(op, _plus(a, left), right)
        case Unary("-", x):
            return Binary("-", a, x)
        case Number(digits) if digits.startswith("-"):
            return Binary("-", a, Number(digits[1:]))
    return Binary("+", a, b)


def every(tests: Iterable[Code | None]) -> Code | None:
    """Whether all tests hold; None where there is none."""
    kept = [x for test in tests if test is not None for x in (test.tests if isinstance(test, Every) else (test,))]
    if not kept:
        return None
    return Every(tuple(kept)) if kept[1:] else kept[0]
