"""Expressions of kernels as trees, and their text.

Assumes: the operators of C, which CUDA C++ and OpenCL C share.
Guarantees: what an expression reads and calls is in its tree, so that no pass looks into a text. `text` prints every
target alike and decides nothing but parentheses, which stand where the language needs them or a Group asks for them:
casts, suffixes of literals and names are the builder's (backends/c_family/cprint.py).
Does not: parse (quote.py), or know functions of targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from compiler.ir.space import DType

ATOM, SIGN, PRODUCT, SUM, SHIFT, COMPARE, BITAND, BITOR, AND, OR, COND = range(11, 0, -1)
"""Precedences."""
_OPERATORS: Final = {
    PRODUCT: "* / %",
    SUM: "+ -",
    SHIFT: "<< >>",
    COMPARE: "< <= > >= == !=",
    BITAND: "&",
    BITOR: "|",
    AND: "&&",
    OR: "||",
}
LEVELS: Final = {x: level for level, operators in _OPERATORS.items() for x in operators.split()}
NONE: Final[frozenset[str]] = frozenset()


def _infix(op: str) -> Callable[[Code, Operand], Code]:
    return lambda a, b: Binary(op, a, _node(b))


def _node(x: Operand) -> Code:
    if isinstance(x, Code):
        return x
    return Number(str(x)) if isinstance(x, int) else Raw(x)


class Code:
    """An expression: one of the classes below. Its operators are those of the language: `a[i] + 1` reads `a` and
    `i`."""

    __slots__ = ()

    @property
    def level(self) -> int:
        """How tightly its outermost operator binds."""
        return ATOM

    @property
    def parts(self) -> tuple[Code, ...]:
        """The expressions inside."""
        return ()

    def of_parts(self, parts: Sequence[Code]) -> Code:
        """The same of other parts."""
        return self

    @property
    def text(self) -> str:
        raise NotImplementedError

    @property
    def names(self) -> frozenset[str]:
        """Variables, functions and types of casts in it."""
        found, todo = set[str](), [self]
        while todo:
            x = todo.pop()
            if isinstance(x, Variable):
                found.add(x.name)
            else:
                found.update(x.own_names)
                todo += x.parts
        return frozenset(found)

    @property
    def own_names(self) -> Iterable[str]:
        """Those of no part of it."""
        return ()

    def __str__(self) -> str:
        return self.text

    def inside(self, least: int) -> Code:
        """The expression in parentheses, unless it binds so tightly."""
        return self if self.level >= least else Group(self)

    def at_least(self, level: int) -> str:
        """The text as an operand: in parentheses unless it binds so tightly."""
        return self.text if self.level >= level else f"({self.text})"

    def __neg__(self) -> Code:
        return Unary("-", self.inside(ATOM))

    def __getitem__(self, index: Operand) -> Code:
        return Index(self, _node(index))

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

    def __rmul__(self, other: int) -> Code:
        return Binary("*", _node(other), self)


Operand = Code | int | str
"""What an operator takes; a text of a skeleton as it is."""


# Frozen by `Final`: a program has many.
@dataclass(slots=True, unsafe_hash=True)
class Variable(Code):
    """A variable or function."""

    name: Final[str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    @property
    def text(self) -> str:
        return self.name


@dataclass(slots=True, unsafe_hash=True)
class Number(Code):
    """A number as its target writes it: the suffix is that of its type."""

    digits: Final[str]

    @property
    def type(self) -> DType:
        digits = self.digits.lower()
        if not digits.startswith("0x") and ("." in digits or "e" in digits):
            return DType.F32 if digits.endswith("f") else DType.F64
        unsigned, wide = "u" in digits, "l" in digits
        return (DType.U64 if wide else DType.U32) if unsigned else DType.I64 if wide else DType.I32

    @property
    def level(self) -> int:
        return SIGN if self.digits.startswith("-") else ATOM

    @property
    def text(self) -> str:
        return self.digits


@dataclass(slots=True, unsafe_hash=True)
class Index(Code):
    """An element of an array: a load, or the target of a store."""

    array: Final[Code]
    at: Final[Code]

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.array, self.at

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Index(*parts)

    @property
    def text(self) -> str:
        return f"{self.array.at_least(ATOM)}[{self.at.text}]"


@dataclass(slots=True, unsafe_hash=True)
class Member(Code):
    """A field of a structure, or (`through`) of one that a pointer points to."""

    of: Final[Code]
    field: Final[str]
    through: Final[bool] = False

    @property
    def parts(self) -> tuple[Code, ...]:
        return (self.of,)

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Member(parts[0], self.field, self.through)

    @property
    def text(self) -> str:
        return f"{self.of.at_least(ATOM)}{'->' if self.through else '.'}{self.field}"


@dataclass(slots=True, unsafe_hash=True)
class Call(Code):
    """`given`: arguments of a template."""

    function: Final[Code]
    args: Final[tuple[Code, ...]]
    given: Final[tuple[Code, ...]] = ()

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.function, *self.given, *self.args

    def of_parts(self, parts: Sequence[Code]) -> Code:
        many = len(self.given)
        return Call(parts[0], tuple(parts[1 + many :]), tuple(parts[1 : 1 + many]))

    @property
    def text(self) -> str:
        given = f"<{', '.join([x.text for x in self.given])}>" if self.given else ""
        return f"{self.function.text}{given}({', '.join([x.text for x in self.args])})"


@dataclass(slots=True, unsafe_hash=True)
class Cast(Code):
    type: Final[str]
    of: Final[Code]
    level: ClassVar[int] = SIGN

    @property
    def parts(self) -> tuple[Code, ...]:
        return (self.of,)

    @property
    def own_names(self) -> Iterable[str]:
        return (self.type,)

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Cast(self.type, *parts)

    @property
    def text(self) -> str:
        return f"({self.type}){self.of.at_least(SIGN)}"


@dataclass(slots=True, unsafe_hash=True)
class Unary(Code):
    """`-`, `!`, `~`, `&` (an address), `*` (what a pointer points to)."""

    op: Final[str]
    of: Final[Code]
    level: ClassVar[int] = SIGN

    @property
    def parts(self) -> tuple[Code, ...]:
        return (self.of,)

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Unary(self.op, *parts)

    @property
    def text(self) -> str:
        of = self.of.at_least(SIGN)
        return f"{self.op}({of})" if of.startswith(self.op) else f"{self.op}{of}"


@dataclass(slots=True, unsafe_hash=True)
class Binary(Code):
    """A right operand of equal precedence keeps its parentheses: sums do not reassociate; nor do tests chain."""

    op: Final[str]
    left: Final[Code]
    right: Final[Code]

    @property
    def level(self) -> int:
        return LEVELS[self.op]

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.left, self.right

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Binary(self.op, *parts)

    @property
    def text(self) -> str:
        level = LEVELS[self.op]
        least = COMPARE if level in (AND, OR) else SUM
        left = level if level in (AND, OR) else max(level, least)
        return f"{self.left.at_least(left)} {self.op} {self.right.at_least(max(level + 1, least))}"


@dataclass(slots=True, unsafe_hash=True)
class Every(Code):
    """Whether all of several tests hold; all are made, without a branch."""

    tests: Final[tuple[Code, ...]]
    level: ClassVar[int] = BITAND

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.tests

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Every(tuple(parts))

    @property
    def text(self) -> str:
        return " & ".join([x.at_least(SUM) for x in self.tests])


@dataclass(slots=True, unsafe_hash=True)
class Select(Code):
    test: Final[Code]
    then: Final[Code]
    orelse: Final[Code]
    level: ClassVar[int] = COND

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.test, self.then, self.orelse

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Select(*parts)

    @property
    def text(self) -> str:
        test = self.test.at_least(BITAND if isinstance(self.test, Every) else COMPARE)
        return f"{test} ? {self.then.at_least(SUM)} : {self.orelse.at_least(SUM)}"


@dataclass(slots=True, unsafe_hash=True)
class Group(Code):
    """An expression in parentheses for the reader."""

    of: Final[Code]

    @property
    def parts(self) -> tuple[Code, ...]:
        return (self.of,)

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Group(*parts)

    @property
    def text(self) -> str:
        return f"({self.of.text})"


@dataclass(slots=True, unsafe_hash=True)
class Raw(Code):
    """A text around expressions, `{}` for each: of a frame, a declaration, the head of a loop."""

    pattern: Final[str]
    among: Final[tuple[Code, ...]] = ()

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.among

    def of_parts(self, parts: Sequence[Code]) -> Code:
        return Raw(self.pattern, tuple(parts))

    @property
    def text(self) -> str:
        return self.pattern.format(*self.among)


@dataclass(slots=True, unsafe_hash=True)
class Printed(Code):
    """What was printed, for a frame around it, and what it names."""

    shown: Final[str]
    named: Final[frozenset[str]]

    @property
    def own_names(self) -> Iterable[str]:
        return self.named

    @property
    def text(self) -> str:
        return self.shown


def nodes(x: Code) -> Iterator[Code]:
    """An expression and those inside it."""
    todo = [x]
    while todo:
        x = todo.pop()
        yield x
        todo += x.parts


def rebuilt(x: Code, change: Callable[[Code], Code | None]) -> Code:
    """The expression with what `change` gives for a part in its place, from the top down; None: the part stays."""
    if (found := change(x)) is not None:
        return found
    return x.of_parts([rebuilt(part, change) for part in x.parts]) if x.parts else x
