"""Statements of kernels, what they read, and their lines of text.

Assumes: expressions of backends/kernel_ir/tree.py.
Guarantees: `names_of` is the set of all names that statements declare, read, call or store to, without a look at text;
`lines_of` prints statements for every target alike and decides nothing: the kind of a loop, and whether a body stands
in braces, are fields.
Does not: change statements (the passes of the backends do).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from backends.kernel_ir.expr import ONE, Operand, code
from backends.kernel_ir.tree import NONE, Code, Printed
from compiler.core.source import NOWHERE, Span


class Line(NamedTuple):
    """One line of text, indented by `depth` levels; `span` of the user's expression, if any."""

    text: str
    depth: int = 0
    span: Span = NOWHERE


class Kind(StrEnum):
    """Of a loop, by what stands before it: one whose iterations are lanes of vectors, one that stays a loop, one that
    is unrolled."""

    SERIAL = ""
    LANES = "NL_IVDEP "
    KEPT = "NL_UNROLL(1) "
    KEPT_LANES = "NL_IVDEP NL_UNROLL(1) "
    ONCE = "#pragma unroll 1"
    UNROLLED = "#pragma unroll"
    FOUR = "#pragma unroll 4"


class Style(Enum):
    """Where a body stands: in braces, alone in the next line, or in the line of its head."""

    BRACES = 1
    NEXT = 2
    BESIDE = 3


class Stmt:
    """A statement: one of the classes below. `TREES`: fields that hold expressions, which may be given as their
    texts."""

    TREES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for field_ in self.TREES:
            x = getattr(self, field_)
            if not isinstance(x, Code):
                object.__setattr__(self, field_, code(x))

    @cached_property
    def mentions(self) -> frozenset[str]:
        """All names in the statement, and in those inside it."""
        own = (x.names if isinstance(x, Code) else x for x in vars(self).values() if isinstance(x, Code | frozenset))
        return NONE.union(getattr(self, "type", "").split(), *own, *map(names_of, bodies(self)))


@dataclass(frozen=True)
class Let(Stmt):
    """The declaration of a variable. Without a value it is no constant."""

    type: str
    name: Code
    value: Code | None = None
    const: bool = True
    span: Span = NOWHERE
    note: str = ""


@dataclass(frozen=True)
class Set(Stmt):
    """A store to a variable or an element."""

    target: Code
    value: Operand
    op: str = "="
    span: Span = NOWHERE
    TREES: ClassVar = ("value",)


@dataclass(frozen=True)
class Do(Stmt):
    """Any other statement."""

    code: Operand
    span: Span = NOWHERE
    note: str = ""


@dataclass(frozen=True)
class Text(Stmt):
    """A line as it is: a comment, a line for the preprocessor, a field of a structure."""

    text: str
    names: frozenset[str] = NONE


@dataclass(frozen=True)
class For(Stmt):
    """A loop over `var` from `first` to `end`. `long`: its step stands in a line of its own."""

    var: Code
    first: Operand
    end: Operand
    body: Sequence[Stmt]
    by: Operand = 1
    type: str = "nl_i64"
    kind: Kind = Kind.SERIAL
    style: Style = Style.BRACES
    long: bool = False
    note: str = ""
    TREES: ClassVar = ("first", "end", "by")


@dataclass(frozen=True)
class If(Stmt):
    test: Operand
    then: Sequence[Stmt]
    orelse: Sequence[Stmt] = ()
    style: Style = Style.BRACES
    note: str = ""
    TREES: ClassVar = ("test",)


@dataclass(frozen=True)
class Block(Stmt):
    """A head of any other form (of a function, a structure, a loop that counts nothing), and what it is the head of."""

    head: Operand
    body: Sequence[Stmt]
    last: Operand = "}"
    style: Style = Style.BRACES
    note: str = ""


@dataclass(frozen=True)
class Frame(Stmt):
    """The text of a skeleton and the names that it printed. `holes`: what stands in place of a line, by its text."""

    text: str
    names: frozenset[str]
    holes: Mapping[str, Sequence[Stmt]] = field(default_factory=lambda: MappingProxyType({}))


def when(test: Operand, statement: Stmt) -> If:
    """A statement under a condition, in one line."""
    return If(test, (statement,), style=Style.BESIDE)


def bodies(s: Stmt) -> Iterable[Sequence[Stmt]]:
    """The statements inside a statement."""
    match s:
        case For() | Block():
            return (s.body,)
        case If():
            return s.then, s.orelse
        case Frame():
            return s.holes.values()
    return ()


def walk(statements: Iterable[Stmt]) -> Iterator[Stmt]:
    """All statements, and those inside them."""
    for s in statements:
        yield s
        for body in bodies(s):
            yield from walk(body)


def names_of(statements: Iterable[Stmt]) -> frozenset[str]:
    return NONE.union(*(s.mentions for s in statements))


# ------------------------------------------------------------------------------------------- printing


def lines_of(statements: Iterable[Stmt], depth: int = 0) -> list[Line]:
    out: list[Line] = []
    _print(out, statements, depth)
    return out


def _print(out: list[Line], statements: Iterable[Stmt], depth: int) -> None:
    for s in statements:
        match s:
            case Let(kind, declared, value, const, span, note):
                text = f"{'const ' if const and value else ''}{kind} {declared}{f' = {value}' if value else ''};"
                out.append(Line(text + _note(note), depth, span))
            case Set(target, stored, op, span):
                out.append(Line(f"{target} {op} {stored};", depth, span))
            case Do(text, span, note):
                out.append(Line(f"{text};{_note(note)}", depth, span))
            case Text(text):
                out.append(Line(text, depth))
            case For():
                _loop(out, s, depth)
            case If(test, then, orelse, style, note):
                _headed(out, f"if ({test})", then, style, note, depth, "} else {" if orelse else "}")
                if orelse and style is Style.BRACES:
                    _print(out, orelse, depth + 1)
                    out.append(Line("}", depth))
                elif orelse:
                    _headed(out, "else", orelse, style, "", depth)
            case Block(head, body, last, style, note):
                _headed(out, str(head), body, style, note, depth, str(last))
            case Frame():
                _filled(out, s, depth)


def text_of(statements: Sequence[Stmt], depth: int = 0) -> Code:
    """Statements as a part of a skeleton's text, from the middle of a line on."""
    text = "\n".join("    " * x.depth + x.text for x in lines_of(statements, depth))
    return Printed(text.lstrip(), names_of(statements))


def _note(text: str) -> str:
    return f" /* {text} */" if text else ""


def _headed(
    out: list[Line], head: str, body: Sequence[Stmt], style: Style, note: str, depth: int, last: str = "}"
) -> None:
    if style is Style.BESIDE:
        (only,) = lines_of(body, depth)
        out.append(Line(f"{head} {only.text}", depth, only.span))
        return
    first = f"{head} {{" if head else "{"
    out.append(Line(head if style is Style.NEXT else first + _note(note), depth))
    _print(out, body, depth + 1)
    if style is Style.BRACES:
        out.append(Line(last, depth))


def _loop(out: list[Line], s: For, depth: int) -> None:
    before: str = s.kind
    if before.startswith("#"):
        out.append(Line(before, depth))
        before = ""
    step = f"{s.var}++" if s.by == ONE else f"{s.var} += {s.by}"
    head = f"{before}for ({s.type} {s.var} = {s.first}; {s.var} < {s.end};"
    if s.long:
        out.append(Line(head, depth))
        head = "       "
    _headed(out, f"{head} {step})", s.body, s.style, s.note, depth)


def _filled(out: list[Line], s: Frame, depth: int) -> None:
    for text in s.text.splitlines():
        here, inner = text.strip(), (len(text) - len(text.lstrip())) // 4
        if here in s.holes:
            _print(out, s.holes[here], depth + inner)
        else:
            out.append(Line(text.rstrip(), depth) if here else Line(""))
