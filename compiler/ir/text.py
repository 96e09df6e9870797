"""The IR of every level as text, and back.

Assumes: nodes are frozen dataclasses of the modules in MODULES (a new one need only stand in one
of them).
Guarantees: parse_ir(print_ir(x)) == x, exact floats and integer vectors included; spans are
dropped. The text is deterministic and shows fields in order of declaration; fields at their
default are left out.
Does not: check legality (verify/verify.py).

Notation
  Dim(i, n)   Kernel(name="exc: update", kind=map, ...)   node: fields without default by position
                                                          where it fits on a line, all by name
                                                          where it does not
  exc.v   "a -> b"   3   0.1   -inf   true   none         strings (quoted unless words), numbers, truth values
  [a, b]   {k: v}                                         tuples and mappings
  `v + 1.0`   ``v + 20 ms``                               expressions; doubled where quantities stand in them
  v := `e`   v += `e`   v <- `e`                          Assign and Add (level 2), Set (levels 0 and 1)
  $v   $v'next   held'kept                                symbols (level 1): a user's name, derived ones
  @[<2*oy + ky; pad>/2:h*w]   @post   @whole              Strided, At and ByName accesses
  <terms; const>/div:extent*stride   <2*o + k; -1>/2      Axis, Affine index
  #f64[0.5, 1.0]   #u8(2, 2)[0, 1, 1, 0]                  numpy vectors and arrays
  graph.Contract(...)                                     a class name that two modules have, with
                                                          its module
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.errors import Sink
from compiler.core.source import NOWHERE, Span
from compiler.core.symbols import PATTERN, Sym, spelled
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary, substitute
from compiler.expr.parse import parse_expr
from compiler.expr.show import show
from compiler.ir.space import Affine

MODULES: Final = (
    "compiler.expr.ast",
    "compiler.ir.space",
    "compiler.ir.level0.model",
    "compiler.ir.level0.values",
    "compiler.ir.level0.spiking",
    "compiler.ir.level0.synapses",
    "compiler.ir.level0.tensors",
    "compiler.ir.level1.graph",
    "compiler.ir.level1.cells",
    "compiler.ir.level1.projections",
    "compiler.ir.level1.synapses",
    "compiler.ir.level2.program",
    "compiler.ir.level2.nests",
    "compiler.ir.level2.relations",
)
WIDTH: Final = 110

_EXPRESSIONS: Final = (Num, Bool, Quantity, Ref, Unary, Binary, Cond, Call)
_STATEMENTS: Final[Mapping[str, type[Any]]] = types.MappingProxyType({":=": l2.Assign, "+=": l2.Add, "<-": l0.Set})
_ARROWS: Final[Mapping[type[Any], str]] = types.MappingProxyType({cls: arrow for arrow, cls in _STATEMENTS.items()})
_WORD: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_SYMBOL: Final = re.compile(PATTERN, re.ASCII)
_RESERVED: Final = frozenset({"true", "false", "none", "inf", "nan"})


class IRTextError(Exception):
    """The text is not IR. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.message, self.line, self.column = message, line, column


# --------------------------------------------------------------------------------------- reflection


@cache
def _classes() -> tuple[Mapping[str, type[Any]], Mapping[type[Any], str]]:
    """Dataclasses by the name that the text has for them, and back."""
    found: dict[str, list[tuple[str, type[Any]]]] = {}
    for module in MODULES:
        for cls in vars(importlib.import_module(module)).values():
            if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module:
                found.setdefault(cls.__name__, []).append((module, cls))
    by_name: dict[str, type[Any]] = {}
    for name, places in found.items():
        for module, cls in places:
            by_name[name if len(places) == 1 else f"{module.rsplit('.', 1)[1].split('_')[0]}.{name}"] = cls
    return by_name, {cls: name for name, cls in by_name.items()}


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    hint: Any
    required: bool
    default: Callable[[], Any]


@cache
def _fields(cls: type[Any]) -> tuple[_Field, ...]:
    """The fields that text shows: all but spans."""
    hints = {n: get_args(h)[0] if get_origin(h) is Final else h for n, h in get_type_hints(cls).items()}
    out = []
    for f in dataclasses.fields(cls):
        if hints[f.name] is Span:
            continue
        if f.default_factory is not dataclasses.MISSING:
            default: Callable[[], Any] = f.default_factory
        else:
            default = (lambda value: lambda: value)(f.default)
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        out.append(_Field(f.name, hints[f.name], required, default))
    return tuple(out)


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


# -------------------------------------------------------------------------------------------- print


def print_ir(node: object, *, constants: bool = True) -> str:
    """A node of any level as text. With `constants=False` the contents that the host gives to
    arrays are left out (such text parses, but to a program without them)."""
    return "\n".join(_Printer(constants).lines(node, 0))


Lines = list[str]
"""The text of a value: one line, or several of which the first and last are its brackets."""


class _Printer:
    def __init__(self, constants: bool) -> None:
        self.constants = constants

    def lines(self, x: Any, indent: int) -> Lines:
        """The text of `x`, whose first character stands at least `indent` columns in."""
        match x:
            case None:
                return ["none"]
            case bool():
                return ["true" if x else "false"]
            case Enum():
                return [str(x.value)]
            case str():
                return [_string(x)]
            case int():
                return [str(x)]
            case float():
                return [repr(float(x))]
            case np.generic():
                return self.lines(x.item(), indent)
            case np.ndarray():
                return self.array(x, indent)
            case tuple():
                return self.group("[", [self.lines(i, indent + 2) for i in x], "]", indent)
            case Mapping():
                items = []
                for key, value in x.items():
                    prefix = f"{_string(key)}: "
                    items.append(_after(prefix, self.lines(value, indent + 2 + len(prefix))))
                return self.group("{", items, "}", indent)
        return self.node(x, indent)

    def array(self, x: Any, indent: int) -> Lines:
        shape = "" if x.ndim == 1 else f"({', '.join(map(str, x.shape))})"
        kind = {"f": "f", "i": "i", "u": "u", "b": "b"}[x.dtype.kind] + str(8 * x.dtype.itemsize)
        items = [[repr(v)] for v in x.reshape(-1).tolist()]
        return self.group(f"#{kind}{shape}[", items, "]", indent)

    def node(self, x: Any, indent: int) -> Lines:
        cls = type(x)
        if cls in _EXPRESSIONS:
            text = _infix(x)
            if text is not None:
                return [text]
        elif cls in _ARROWS:
            return _after(f"{_string(x.target)} {_ARROWS[cls]} ", self.lines(x.value, indent))
        elif cls is l2.Strided:
            return [f"@[{', '.join(_axis(a) for a in x.axes)}]"]
        elif cls is l2.At and x.ring is None and x.end not in ("whole", *_RESERVED) and _WORD.fullmatch(x.end):
            return [f"@{x.end}"]
        elif cls is l2.ByName:
            return ["@whole"]
        elif cls is Affine:
            return [_affine(x.terms, x.const) + (f"/{x.div}" if x.div != 1 else "")]
        return self.constructor(x, cls, indent)

    def constructor(self, x: Any, cls: Any, indent: int) -> Lines:
        name = _classes()[1].get(cls)
        if name is None:
            raise TypeError(f"{cls.__module__}.{cls.__name__} is not a node of the IR")
        shown: list[tuple[_Field, Lines]] = []
        for f in _fields(cls):
            value = getattr(x, f.name)
            if f.name == "constants" and not self.constants:
                continue
            if f.required or not _same(value, f.default()):
                shown.append((f, self.lines(value, indent + len(f.name) + 3)))
        flat = [_after("" if f.required else f"{f.name}=", text) for f, text in shown]
        if all(len(text) == 1 for text in flat):
            line = f"{name}({', '.join(text[0] for text in flat)})"
            if len(line) + indent <= WIDTH:
                return [line]
        return self.group(f"{name}(", [_after(f"{f.name}=", text) for f, text in shown], ")", indent, fill=False)

    def group(self, opening: str, items: list[Lines], closing: str, indent: int, fill: bool = True) -> Lines:
        """Items between brackets: on one line where they fit, short ones filled, else one below
        the other."""
        if all(len(i) == 1 for i in items):
            line = opening + ", ".join(i[0] for i in items) + closing
            if len(line) + indent <= WIDTH:
                return [line]
            if fill and max(len(i[0]) for i in items) <= 24:
                return [opening, *_filled([i[0] for i in items], indent + 2), closing]
        body: Lines = []
        for item in items:
            body += ["  " + line for line in item]
            body[-1] += ","
        return [opening, *body, closing]


def _after(prefix: str, lines: Lines) -> Lines:
    return [prefix + lines[0], *lines[1:]]


def _filled(items: list[str], indent: int) -> Iterator[str]:
    """Short items, several to a line."""
    line = "  "
    for item in items:
        if len(line) + len(item) + indent > WIDTH and line.strip():
            yield line.rstrip()
            line = "  "
        line += item + ", "
    yield line.rstrip()


def _same(a: Any, b: Any) -> bool:
    """Whether a field stands at its default: equal and of the same type (1 is not 1.0)."""
    return type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b)


def _string(x: str) -> str:
    word = _SYMBOL if isinstance(x, Sym) else _WORD
    return str(x) if word.fullmatch(x) and x not in _RESERVED else json.dumps(x, ensure_ascii=False)


def _infix(e: Expr) -> str | None:
    """`e` between backquotes; None when reading that back gives another tree (infinite numbers,
    odd names)."""
    text = show(e)
    if "`" not in text:
        for units, quote in ((False, "`"), (True, "``")):
            if _expression(text, units, Sink()) == e:
                return quote + text + quote
    return None


def _expression(text: str, units: bool, sink: Sink) -> Expr | None:
    """The tree of a text, whose symbols are words while it is parsed: names of the compiler do not begin with
    `symbol.`."""
    symbols = dict.fromkeys(_SYMBOL.findall(text))
    if not symbols:
        return parse_expr(text, NOWHERE, sink, units=units)
    words = {x: f"symbol.s{k}" for k, x in enumerate(symbols)}
    e = parse_expr(_SYMBOL.sub(lambda m: words[m[0]], text), NOWHERE, sink, units=units)
    return None if e is None else substitute(e, {word: Ref(spelled(x)) for x, word in words.items()})


def _affine(terms: tuple[tuple[str, int], ...], const: int | str) -> str:
    parts: list[str] = []
    for name, c in terms:
        sign = ("-" if c < 0 else "") if not parts else (" - " if c < 0 else " + ")
        factor = "" if abs(c) == 1 else f"{abs(c)}*"
        parts.append(f"{sign}{factor}{_string(name)}")
    tail = "" if const == 0 and not isinstance(const, str) else f"; {_scalar(const)}"
    return f"<{''.join(parts)}{tail}>"


def _scalar(x: int | str) -> str:
    return _string(x) if isinstance(x, str) else str(x)


def _axis(a: l2.Axis) -> str:
    text = _affine(a.terms, a.const)
    if a.div != 1:
        text += f"/{a.div}"
    if a.extent is not None:
        text += f":{_scalar(a.extent)}"
    return text if a.stride == 1 else f"{text}*{_scalar(a.stride)}"


# -------------------------------------------------------------------------------------------- parse

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
        e = _expression(self.token.strip("`"), units, sink)
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
        if self.kind == "mark" and self.token in _STATEMENTS:
            cls = _STATEMENTS[self.advance()]
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
        cls: Any = _classes()[0].get(name)
        if cls is None:
            longer = [n for n in _classes()[0] if n.endswith(f".{name}")]
            raise self.error(
                " or ".join([f"there is no node `{name}`: write {longer[0]}", *longer[1:]])
                if longer
                else f"there is no node `{name}`"
            )
        fields = _fields(cls)
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

    def keyword(self, by_name: Mapping[str, _Field]) -> _Field | None:
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
