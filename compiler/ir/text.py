"""The IR of every level as text; tests/parse_ir.py reads it back.

Assumes: nodes are frozen dataclasses of the modules in MODULES (a new one need only stand in one
of them).
Guarantees: the text says everything but spans, exact floats and integer vectors too. It is deterministic and shows
fields in order of declaration; fields at their default are left out.
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
import re
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE, Span
from compiler.core.symbols import PATTERN, Sym, spelled
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary, show, substitute
from compiler.expr.parse import parse_expr
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
    "compiler.ir.level1.spiking",
    "compiler.ir.level1.synapses",
    "compiler.ir.level2.program",
    "compiler.ir.level2.nests",
    "compiler.ir.level2.relations",
)
WIDTH: Final = 110

_EXPRESSIONS: Final = (Num, Bool, Quantity, Ref, Unary, Binary, Cond, Call)
STATEMENTS: Final[Mapping[str, type[Any]]] = types.MappingProxyType({":=": l2.Assign, "+=": l2.Add, "<-": l0.Set})
_ARROWS: Final[Mapping[type[Any], str]] = types.MappingProxyType({cls: arrow for arrow, cls in STATEMENTS.items()})
_WORD: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_SYMBOL: Final = re.compile(PATTERN, re.ASCII)
_RESERVED: Final = frozenset({"true", "false", "none", "inf", "nan"})


# --------------------------------------------------------------------------------------- reflection


@cache
def classes() -> tuple[Mapping[str, type[Any]], Mapping[type[Any], str]]:
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
class Shown:
    name: str
    hint: Any
    required: bool
    default: Callable[[], Any]


@cache
def fields_of(cls: type[Any]) -> tuple[Shown, ...]:
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
        out.append(Shown(f.name, hints[f.name], required, default))
    return tuple(out)


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
        name = classes()[1].get(cls)
        if name is None:
            raise TypeError(f"{cls.__module__}.{cls.__name__} is not a node of the IR")
        shown: list[tuple[Shown, Lines]] = []
        for f in fields_of(cls):
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
            if expression(text, units, Sink()) == e:
                return quote + text + quote
    return None


def expression(text: str, units: bool, sink: Sink) -> Expr | None:
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
