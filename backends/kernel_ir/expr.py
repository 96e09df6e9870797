"""Expressions of kernels: the text of each, how tightly its outermost operator binds, and the names in it.

Assumes: the operators of C, which CUDA C++ and OpenCL C share.
Guarantees: what an expression reads and calls is data (`names`: variables, functions, types of casts), so that no pass
looks into a text; operands have parentheses where the language needs them.
Does not: know types of values or functions of targets (backends/c_family/cprint.py does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

ATOM, SIGN, PRODUCT, SUM, COMPARE, BITAND, BITOR, COND = range(8, 0, -1)
"""Precedences."""
_OPERATORS: Final = {PRODUCT: "* / %", SUM: "+ -", COMPARE: "< <= > >= == !=", BITAND: "&", BITOR: "|"}
_LEVELS: Final = {x: level for level, operators in _OPERATORS.items() for x in operators.split()}
NONE: Final[frozenset[str]] = frozenset()


def _infix(op: str) -> Callable[[Code, Operand], Code]:
    return lambda a, b: binary(a, op, b)


# Frozen by `Final`: a program has many.
@dataclass(slots=True, unsafe_hash=True)
class Code:
    """An expression. Its operators are those of the language: `a[i] + 1` reads `a` and `i`."""

    text: Final[str]
    level: Final[int] = ATOM
    names: Final[frozenset[str]] = NONE

    def __str__(self) -> str:
        return self.text

    def inside(self, least: int) -> Code:
        """The expression as an operand: in parentheses unless it binds at least so tightly."""
        return self if self.level >= least else Code(f"({self.text})", ATOM, self.names)

    def __neg__(self) -> Code:
        return form("-{}", self.inside(ATOM), level=SIGN)

    def __getitem__(self, index: Operand) -> Code:
        return form("{}[{}]", self.inside(ATOM), index)

    __add__ = _infix("+")
    __sub__ = _infix("-")
    __mul__ = _infix("*")
    __truediv__ = _infix("/")
    """Of integers, that towards 0."""
    __mod__ = _infix("%")
    __lt__ = _infix("<")
    __le__ = _infix("<=")
    __gt__ = _infix(">")
    __ge__ = _infix(">=")

    def __rmul__(self, other: Operand) -> Code:
        return binary(other, "*", self)


Operand = Code | int | str
"""What an operator takes; a text is an atom without names that matter."""


def code(x: Operand) -> Code:
    if isinstance(x, Code):
        return x
    return Code(str(x), SIGN if isinstance(x, int) and x < 0 else ATOM)


def name(text: str) -> Code:
    """A variable or function."""
    return Code(text, ATOM, frozenset((text,)))


def names_in(*parts: object) -> frozenset[str]:
    """The names in those of the parts that are expressions."""
    found = NONE
    for x in parts:
        if isinstance(x, Code) and x.names:
            found = found | x.names if found else x.names
    return found


def form(pattern: str, *parts: Operand, level: int = ATOM) -> Code:
    """An expression in the form of a pattern with `{}` for its parts."""
    return Code(pattern.format(*parts), level, names_in(*parts))


def call(function: str, *args: Operand) -> Code:
    return Code(f"{function}({', '.join(map(str, args))})", ATOM, names_in(*args) | {function})


def cast(kind: str, x: Operand) -> Code:
    return Code(f"({kind}){code(x).inside(SIGN)}", SIGN, names_in(x) | {kind})


def binary(a: Operand, op: str, b: Operand) -> Code:
    """A right operand of equal precedence keeps its parentheses: sums do not reassociate; nor do tests chain."""
    level = _LEVELS[op]
    a, b = code(a).inside(max(level, SUM)), code(b).inside(max(level + 1, SUM))
    return Code(f"{a.text} {op} {b.text}", level, a.names | b.names)


def cond(test: Operand, a: Operand, b: Operand) -> Code:
    return form("{} ? {} : {}", code(test).inside(COMPARE), code(a).inside(SUM), code(b).inside(SUM), level=COND)


def total(parts: Iterable[Operand]) -> Code:
    """The sum of offsets, in order."""
    kept = [x for x in map(code, parts) if x.text != "0"]
    text = " + ".join(x.text for x in kept).replace("+ -", "- ")
    return Code(text or "0", SUM if kept[1:] else kept[0].level if kept else ATOM, names_in(*kept))


def every(tests: Iterable[Code | None]) -> Code | None:
    """Whether all tests hold; None where there is none."""
    kept = [x for x in tests if x is not None]
    if not kept:
        return None
    return Code(" & ".join(x.text for x in kept), BITAND if kept[1:] else kept[0].level, names_in(*kept))
