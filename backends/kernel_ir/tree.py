"""Expressions of kernels as trees, and their text.

Assumes: the operators of C, which CUDA C++ and OpenCL C share.
Guarantees: what an expression reads and calls is in its tree, so that no pass looks into a text. `marked` prints every
target alike and decides nothing but parentheses, which stand where the language or a reader needs them: casts, suffixes
of literals and names are the builder's (backends/c_family/cprint.py). It marks where a line may be broken
(layout.py breaks those that are too long).
Does not: parse (expr.py), or know functions of targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from backends.kernel_ir.types import Type
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
_LEAST: Final = {SHIFT: SIGN, BITAND: SIGN, BITOR: SIGN, AND: COMPARE, OR: COMPARE}
LEVELS: Final = {x: level for level, operators in _OPERATORS.items() for x in operators.split()}
NONE: Final[frozenset[str]] = frozenset()
MARK: Final = "\x01"
"""Stands behind a space at which a line may be broken: one outside of expressions, two at the outermost operator of
one, three in an operand of that, and so on."""

BODY: Final = "\x02"
"""Stands for the space before a body in the line of its head."""


def plain(text: str) -> str:
    """A text without marks."""
    return text.replace(MARK, "").replace(BODY, " ")


def deeper(mark: str) -> str:
    """The mark of places in an operand."""
    return mark and mark + MARK


def _infix(op: str) -> Callable[[Code, Code | int], Code]:
    return lambda a, b: Binary(op, a, _node(b))


def _product(a: Code | int, b: Code | int) -> Code:
    """Without a factor of 1."""
    left, right = _node(a), _node(b)
    return right if left == _ONE else left if right == _ONE else Binary("*", left, right)


def _node(x: Code | int) -> Code:
    return x if isinstance(x, Code) else Number(str(x))


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
        return self.marked("")

    def marked(self, mark: str) -> str:
        """The text, with `mark` where a line may be broken at its outermost operator."""
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

    def at_least(self, level: int, mark: str) -> str:
        """The text as an operand: in parentheses unless it binds so tightly."""
        return self.marked(mark) if self.level >= level else f"({self.marked(mark)})"

    def __neg__(self) -> Code:
        return Unary("-", self)

    def __getitem__(self, index: Code | int) -> Code:
        return Index(self, _node(index))

    __add__ = _infix("+")
    __sub__ = _infix("-")
    __mul__ = _product
    __truediv__ = _infix("/")
    """Of integers, that towards 0."""
    __mod__ = _infix("%")
    __lt__ = _infix("<")
    __le__ = _infix("<=")
    __gt__ = _infix(">")
    __ge__ = _infix(">=")

    def __rmul__(self, other: int) -> Code:
        return _product(other, self)


# Frozen by `Final`: a program has many.
@dataclass(slots=True, unsafe_hash=True)
class Variable(Code):
    """A variable or function."""

    name: Final[str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    def marked(self, mark: str) -> str:
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

    def marked(self, mark: str) -> str:
        return self.digits


_ONE: Final = Number("1")


@dataclass(slots=True, unsafe_hash=True)
class Printed(Code):
    """What was printed with its marks, for a frame around it, and what it names."""

    shown: Final[str]
    own_names: Final[frozenset[str]]

    def marked(self, mark: str) -> str:
        return self.shown if mark else plain(self.shown)


class Node(Code):
    """Of expressions: its fields from number OWN on. A field of several is the last one."""

    __slots__: tuple[str, ...] = ()
    OWN: ClassVar[int] = 0

    @property
    def parts(self) -> tuple[Code, ...]:
        found = [getattr(self, x) for x in self.__slots__[self.OWN :]]
        return (*found[:-1], *found[-1]) if isinstance(found[-1], tuple) else tuple(found)

    def of_parts(self, parts: Sequence[Code]) -> Code:
        *own, last = self.__slots__
        many = len(own) - self.OWN
        rest = tuple(parts[many:]) if isinstance(getattr(self, last), tuple) else parts[many]
        make: Callable[..., Code] = type(self)
        return make(*(getattr(self, x) for x in own[: self.OWN]), *parts[:many], rest)


@dataclass(slots=True, unsafe_hash=True)
class Index(Node):
    """An element of an array: a load, or the target of a store."""

    array: Final[Code]
    at: Final[Code]

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.array, self.at

    def marked(self, mark: str) -> str:
        return f"{self.array.at_least(ATOM, mark)}[{self.at.marked(deeper(mark))}]"


@dataclass(slots=True, unsafe_hash=True)
class Place(Index):
    """The element of an array formal at a point: passes find it by the formal's name."""

    formal: Final[str]

    def of_parts(self, parts: Sequence[Code]) -> Code:
        array, at = parts
        return Place(array, at, self.formal)


@dataclass(slots=True, unsafe_hash=True)
class Member(Node):
    """A field of a structure (`mark`: `.`), or of one that a pointer points to (`->`)."""

    mark: Final[str]
    field: Final[str]
    of: Final[Code]
    OWN: ClassVar = 2

    @property
    def own_names(self) -> Iterable[str]:
        """A field of a row stands for a column (backends/c_family/access.py)."""
        return (self.text,) if self.mark == "->" else ()

    def marked(self, mark: str) -> str:
        return f"{self.of.at_least(ATOM, mark)}{self.mark}{self.field}"


@dataclass(slots=True, unsafe_hash=True)
class Given(Node):
    """A function of a template, with the arguments of that."""

    template: Final[Code]
    args: Final[tuple[Code, ...]]

    def marked(self, mark: str) -> str:
        return f"{self.template.marked(mark)}<{_listed(self.args, deeper(mark))}>"


@dataclass(slots=True, unsafe_hash=True)
class Call(Node):
    function: Final[Code]
    args: Final[tuple[Code, ...]]

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.function, *self.args

    def marked(self, mark: str) -> str:
        return f"{self.function.marked(deeper(mark))}({_listed(self.args, mark)})"


@dataclass(slots=True, unsafe_hash=True)
class Braces(Node):
    """The values of a structure or an array; `type`: of a temporary one."""

    type: Final[str]
    values: Final[tuple[Code, ...]]
    OWN: ClassVar = 1

    def marked(self, mark: str) -> str:
        return f"{self.type}{{{_listed(self.values, mark)}}}"


def _listed(parts: Iterable[Code], mark: str) -> str:
    inner = deeper(mark)
    return f", {mark}".join([x.marked(inner) for x in parts])


@dataclass(slots=True, unsafe_hash=True)
class Cast(Node):
    type: Final[Type]
    of: Final[Code]
    OWN: ClassVar = 1
    level: ClassVar[int] = SIGN

    @property
    def own_names(self) -> Iterable[str]:
        return self.type.names

    def marked(self, mark: str) -> str:
        return f"({self.type}){self.of.at_least(SIGN, mark)}"


@dataclass(slots=True, unsafe_hash=True)
class Unary(Node):
    """`-`, `!`, `~`, `&` (an address), `*` (what a pointer points to), `++`."""

    op: Final[str]
    of: Final[Code]
    OWN: ClassVar = 1
    level: ClassVar[int] = SIGN

    def marked(self, mark: str) -> str:
        of = self.of.at_least(SIGN, mark)
        return f"{self.op}({of})" if of.startswith(self.op) else f"{self.op}{of}"


@dataclass(slots=True, unsafe_hash=True)
class After(Node):
    """A variable that is counted on after it was read."""

    of: Final[Code]

    def marked(self, mark: str) -> str:
        return f"{self.of.marked(mark)}++"


@dataclass(slots=True, unsafe_hash=True)
class Binary(Node):
    """A right operand of equal precedence is in parentheses: sums do not reassociate; nor do tests chain. So are
    operations inside of bits', whose precedence few know."""

    op: Final[str]
    left: Final[Code]
    right: Final[Code]
    OWN: ClassVar = 1

    @property
    def parts(self) -> tuple[Code, ...]:
        return self.left, self.right

    @property
    def level(self) -> int:
        return LEVELS[self.op]

    def marked(self, mark: str) -> str:
        level, inner = LEVELS[self.op], deeper(mark)
        least = _LEAST.get(level, SUM)
        left = level if level in (AND, OR) else max(level, least)
        before = self.left.at_least(left, mark if self.left.level == level else inner)
        return f"{before} {mark}{self.op} {self.right.at_least(max(level + 1, least), inner)}"


@dataclass(slots=True, unsafe_hash=True)
class Every(Node):
    """Whether all of several tests hold; all are made, without a branch."""

    tests: Final[tuple[Code, ...]]
    level: ClassVar[int] = BITAND

    def marked(self, mark: str) -> str:
        inner = deeper(mark)
        return f" {mark}& ".join([x.at_least(SIGN, inner) for x in self.tests])


@dataclass(slots=True, unsafe_hash=True)
class Select(Node):
    test: Final[Code]
    then: Final[Code]
    orelse: Final[Code]
    level: ClassVar[int] = COND

    def marked(self, mark: str) -> str:
        inner = deeper(mark)
        test, then = self.test.at_least(COMPARE, inner), self.then.at_least(SUM, inner)
        return f"{test} {mark}? {then} {mark}: {self.orelse.at_least(SUM, inner)}"


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
