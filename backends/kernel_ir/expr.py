"""Builders of expressions of kernels (tree.py), from parts or from their text in a backend:
`quoted("nl_share * {} + threadIdx.x", n)`.

Assumes: patterns in the layout that is printed (tree.py): a space around an operator of two operands, none elsewhere.
Guarantees: operands are trees; a text is the expression that it says, and what it names counts as named: a tree whose
text is the pattern with the parts in place of `{}`, in parentheses where they need them. A pattern has the parentheses
that are printed, no others.
Does not: parse statements or declarations (stmt.py has those), or know types of values or functions of targets
(backends/c_family/cprint.py does).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import backends.kernel_ir.tree as ir
from backends.kernel_ir.tree import Binary, Braces, Call, Cast, Code, Every, Member, Number, Select, Unary, Variable
from backends.kernel_ir.types import Typed, typed
from compiler.ir.space import DType

_TYPE: Final = r"(?:const )?(?:nl_[iu](?:8|32|64)|nl_bfloat|real|int|float|double|bool|char)(?: \*)?"
_TOKEN: Final = re.compile(
    rf"(?P<cast>\({_TYPE}\))|(?P<hole>{{}})|(?P<number>(?:0x[\da-f]+|\d+\.?\d*(?:e[-+]?\d+)?)\w*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<infix> (?:<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|?:]) )"
    r"|(?P<given><(?=[^()]*>\())|(?P<mark>->|, |[-!~&*.()\[\]>])"
)


@dataclass(slots=True, unsafe_hash=True)
class _Hole(ir.Code):
    """The place of part `number`."""

    number: Final[int]

    def marked(self, mark: str) -> str:
        return "{}"


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.holes = pattern, 0, 0
        self.kind, self.token = "", ""
        self.next()

    def next(self) -> str:
        """The token, and a step to the next one."""
        before = self.token
        found = _TOKEN.match(self.pattern, self.at)
        if found is None and self.at < len(self.pattern):
            raise ValueError(f"`{self.pattern}` is no expression (at {self.at})")
        self.kind, self.token = (found.lastgroup or "", found[0]) if found else ("", "")
        self.at += len(self.token)
        return before

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise ValueError(f"`{self.pattern}` has no `{token}` where it should")

    def expression(self) -> ir.Code:
        test = self.binary(ir.OR)
        if self.token != " ? ":
            return test
        self.next()
        then = self.binary(ir.OR)
        self.expect(" : ")
        return ir.Select(test, then, self.expression())

    def binary(self, least: int) -> ir.Code:
        left, tests = self.unary(), tuple[ir.Code, ...]()
        while self.kind == "infix" and (level := ir.LEVELS.get(self.token.strip(), 0)) >= least:
            op = self.next().strip()
            right = self.binary(level + 1) if level < ir.PRODUCT else self.unary()
            tests = (*(tests or (left,)), right) if op == "&" else ()
            left = ir.Every(tests) if tests[2:] else ir.Binary(op, left, right)
        return left

    def unary(self) -> ir.Code:
        if self.kind == "cast":
            return ir.Cast(typed(self.next()[1:-1]), self.unary())
        if self.kind == "mark" and self.token in "-!~&*":
            return ir.Unary(self.next(), self.unary())
        return self.postfix()

    def postfix(self) -> ir.Code:
        x = self.atom()
        while True:
            if self.token == "[":
                self.next()
                x = ir.Index(x, self.expression())
                self.expect("]")
            elif self.token in (".", "->") and self.kind == "mark":
                x = ir.Member(self.next(), self.next(), x)
            elif self.kind == "given":
                x = ir.Given(x, self.list(">"))
            elif self.token == "(":
                x = ir.Call(x, self.list(")"))
            else:
                return x

    def list(self, end: str) -> tuple[ir.Code, ...]:
        self.next()
        found = list[ir.Code]()
        while self.token != end:
            found.append(self.expression())
            if self.token != end:
                self.expect(", ")
        self.next()
        return tuple(found)

    def atom(self) -> ir.Code:
        match self.kind:
            case "word":
                return ir.Variable(self.next())
            case "number":
                return ir.Number(self.next())
            case "hole":
                self.next()
                self.holes += 1
                return _Hole(self.holes - 1)
        self.expect("(")
        inner = self.expression()
        self.expect(")")
        return inner


@lru_cache(maxsize=4096)
def _parsed(pattern: str) -> tuple[ir.Code, int]:
    parser = _Parser(pattern)
    tree = parser.expression()
    if parser.token or tree.text != pattern:
        raise ValueError(f"`{pattern}` is no expression as it is printed: `{tree.text}`")
    return tree, parser.holes


def quoted(pattern: str, parts: Sequence[ir.Code] = ()) -> ir.Code:
    """The tree of a text with so many holes. Raises ValueError where it is no expression, or laid out otherwise than it
    is printed."""
    tree, holes = _parsed(pattern)
    if holes != len(parts):
        raise ValueError(f"`{pattern}` has {holes} holes for {len(parts)} parts")
    return ir.rebuilt(tree, lambda x: parts[x.number] if isinstance(x, _Hole) else None) if parts else tree


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
    """`x` in this type; a literal of that type as it is."""
    found = code(x)
    return (
        found
        if str(kind) == "nl_i32" and isinstance(found, Number) and found.type is DType.I32
        else Cast(typed(kind), found)
    )


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
