"""Nodes of the IR from their text (compiler/ir/text.py has the notation).

Assumes: nothing.
Guarantees: parse_ir(print_ir(x)) == x at every level, exact floats and integer vectors included; spans are dropped.
Does not: check legality (compiler/verify).
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin

import numpy as np

import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Sink
from compiler.core.symbols import PATTERN, spelled
from compiler.expr.ast import Expr
from compiler.ir.space import Affine
from compiler.ir.text import STATEMENTS, Shown, classes, expression, fields_of


class IRTextError(Exception):
    """The text is not IR. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message, self.line, self.column = message, line, column


_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<units>``[^`]*``)
      | (?P<expr>`[^`]*`)
      | (?P<number>-?(?:(?:inf|nan)(?![\w.])|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
      | (?P<symbol>SYMBOL)
      | (?P<word>[A-Za-z_]\w*(?:\.\w+)*)
      | (?P<array>\#[a-z]+\d+)
      | (?P<mark>:=|\+=|<-(?=\s)|[-+*/:;,=<>@()\[\]{}])
      | (?P<end>\Z)
    )""".replace("SYMBOL", PATTERN),
    re.VERBOSE | re.ASCII,
)


def parse_ir(text: str) -> Any:
    """The node that `text` stands for. Raises IRTextError."""
    parser = _Parser(text)
    node = parser.value(Any)
    parser.expect("")
    return node


class _Parser:
    """Recursive descent; `kind` and `token` are the token that comes next."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.start = text, 0, 0
        self.kind, self.token = "", ""
        self.advance()

    def error(self, message: str) -> IRTextError:
        before = self.text[: self.start]
        line = before.count("\n") + 1
        return IRTextError(message, line, self.start - (before.rfind("\n") + 1) + 1)

    def advance(self) -> str:
        """The token that was next; the one after it comes next."""
        previous = self.token
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            self.start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
            raise self.error(f"`{self.text[self.start]}` cannot stand here")
        self.kind = found.lastgroup or "end"
        self.start, self.token, self.at = found.start(self.kind), found[self.kind], found.end()
        return previous

    def expect(self, mark: str) -> None:
        if self.token != mark or self.kind not in ("mark", "end"):
            raise self.error(f"`{mark or 'the end'}` is expected here, not `{self.token or 'the end'}`")
        if mark:
            self.advance()

    def accept(self, mark: str) -> bool:
        if self.kind == "mark" and self.token == mark:
            self.advance()
            return True
        return False

    def items(self, closing: str) -> Iterator[int]:
        """Counts comma-separated items up to `closing`, a comma after the last one allowed."""
        index = 0
        while not self.accept(closing):
            yield index
            index += 1
            if not self.accept(","):
                self.expect(closing)
                return

    def value(self, hint: Any) -> Any:
        match self.kind:
            case "number":
                return self.number()
            case "expr" | "units":
                return self.expression()
            case "array":
                return self.array()
            case "string":
                return self.string_or_statement(json.loads(self.advance()), hint)
            case "word":
                return self.word(hint)
            case "symbol":
                return self.string_or_statement(spelled(self.advance()), hint)
        if self.accept("["):
            return tuple(self.value(_item_hint(hint, i)) for i in self.items("]"))
        if self.accept("{"):
            return dict(self.entry(_value_hint(hint)) for _ in self.items("}"))
        if self.accept("@"):
            return self.access()
        if self.kind == "mark" and self.token == "<":
            terms, const = self.affine()
            return Affine(terms, const, self.integer() if self.accept("/") else 1)
        raise self.error(f"`{self.token or 'the end'}` cannot stand here")

    def number(self) -> int | float:
        text = self.advance()
        if text == "nan":
            return math.nan  # this object, which is equal to itself within tuples and nodes
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)

    def integer(self) -> int:
        value = self.value(Any)
        if type(value) is not int:
            raise self.error("a whole number is expected before this")
        return value

    def name(self) -> str:
        if self.kind not in ("word", "string", "symbol"):
            raise self.error(f"a name is expected here, not `{self.token}`")
        if self.kind == "symbol":
            return spelled(self.advance())
        text = self.advance()
        return json.loads(text) if text.startswith('"') else text

    def name_or_integer(self) -> int | str:
        return self.integer() if self.kind == "number" else self.name()

    def expression(self) -> Expr:
        units, sink = self.kind == "units", Sink()
        e = expression(self.token.strip("`"), units, sink)
        if e is None:
            raise self.error("; ".join(d.message for d in sink.items))
        self.advance()
        return e

    def array(self) -> Any:
        kind = self.advance()[1:]
        dtype = np.dtype(np.bool_) if kind == "b8" else np.dtype(f"{kind[0]}{int(kind[1:]) // 8}")
        shape: tuple[int, ...] | None = None
        if self.accept("("):
            shape = tuple(self.integer() for _ in self.items(")"))
        self.expect("[")
        values = [self.value(Any) if kind != "b8" else self.name() == "True" for _ in self.items("]")]
        return np.array(values, dtype) if shape is None else np.array(values, dtype).reshape(shape)

    def string_or_statement(self, text: str, hint: Any) -> Any:
        if self.kind == "mark" and self.token in STATEMENTS:
            cls = STATEMENTS[self.advance()]
            return cls(text, self.value(Any))
        enum = _enum_in(hint)
        if enum is None:
            return text
        try:
            return enum(text)
        except ValueError:
            raise self.error(f"`{text}` is not one of the values of {enum.__name__}") from None

    def word(self, hint: Any) -> Any:
        text = self.token
        self.advance()
        if text in ("true", "false"):
            return text == "true"
        if text == "none":
            return None
        if self.kind == "mark" and self.token == "(":
            return self.constructor(text)
        return self.string_or_statement(text, hint)

    def constructor(self, name: str) -> Any:
        cls: Any = classes()[0].get(name)
        if cls is None:
            longer = [n for n in classes()[0] if n.endswith(f".{name}")]
            raise self.error(
                " or ".join([f"there is no node `{name}`: write {longer[0]}", *longer[1:]])
                if longer
                else f"there is no node `{name}`"
            )
        fields = fields_of(cls)
        by_name = {f.name: f for f in fields}
        given: dict[str, Any] = {}
        self.expect("(")
        for index in self.items(")"):
            f = self.keyword(by_name)
            if f is None:
                if index >= len(fields):
                    raise self.error(f"`{name}` has {len(fields)} fields")
                f = fields[index]
            if f.name in given:
                raise self.error(f"`{f.name}` is given twice")
            given[f.name] = self.value(f.hint)
        missing = [f.name for f in fields if f.required and f.name not in given]
        if missing:
            raise self.error(f"`{name}` lacks `{missing[0]}`")
        return cls(**given)

    def keyword(self, by_name: Mapping[str, Shown]) -> Shown | None:
        """The field before `=`, when a keyword comes next."""
        if self.kind != "word" or not re.match(r"\s*=", self.text[self.at : self.at + 40]):
            return None
        if self.token not in by_name:
            raise self.error(f"there is no field `{self.token}`")
        f = by_name[self.advance()]
        self.expect("=")
        return f

    def entry(self, hint: Any) -> tuple[str, Any]:
        key = self.name()
        self.expect(":")
        return key, self.value(hint)

    def access(self) -> l2.Strided | l2.At | l2.ByName:
        if self.accept("["):
            return l2.Strided(tuple(self.axis() for _ in self.items("]")))
        end = self.name()
        return l2.ByName() if end == "whole" else l2.At(end)

    def axis(self) -> l2.Axis:
        terms, const = self.affine()
        div = self.integer() if self.accept("/") else 1
        extent = self.name_or_integer() if self.accept(":") else None
        stride = self.name_or_integer() if self.accept("*") else 1
        return l2.Axis(terms, const, div, extent, stride)

    def affine(self) -> tuple[tuple[tuple[str, int], ...], Any]:
        """`<terms; const>`."""
        self.expect("<")
        terms: list[tuple[str, int]] = []
        const: int | str = 0
        while not self.accept(">"):
            if self.accept(";"):
                const = self.name_or_integer()
                self.expect(">")
                break
            sign = -1 if self.accept("-") else 1
            if sign == 1:
                self.accept("+")
            factor = 1
            if self.kind == "number":
                factor = self.integer()
                self.expect("*")
            terms.append((self.name(), sign * factor))
        return tuple(terms), const


# ------------------------------------------------------------------------------------------ types of fields


def _enum_in(hint: Any) -> type[Enum] | None:
    """The enumeration that a bare word stands for under this type."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        for arg in get_args(hint):
            found = _enum_in(arg)
            if found is not None:
                return found
    return None


def _item_hint(hint: Any, index: int) -> Any:
    """The type of item `index` of a sequence of type `hint` (Any when unknown)."""
    if get_origin(hint) in (Union, types.UnionType):
        tuples = [a for a in get_args(hint) if get_origin(a) is tuple]
        return _item_hint(tuples[0], index) if len(tuples) == 1 else Any
    if get_origin(hint) is not tuple:
        return Any
    args = get_args(hint)
    if len(args) == 2 and args[1] is Ellipsis:
        return args[0]
    return args[index] if index < len(args) else Any


def _value_hint(hint: Any) -> Any:
    args = get_args(hint)
    return args[1] if get_origin(hint) in (Mapping, dict) and len(args) == 2 else Any
