"""Text to expression trees, statements, signatures and derivative keys, through Python's own
parser.

Assumes: decoded text of one YAML scalar and the span at which it begins.
Guarantees: never raises on any text; a mistake becomes one diagnostic (E0301 not in the language,
E0403 unknown unit) with a span inside the text, and the result is None. Text is bounded: MAX_LENGTH
characters, MAX_NESTING open parentheses, trees MAX_DEPTH deep.
Does not: resolve names (types.py), check dimensions (check.py) or simplify.

A quantity is a number followed by a unit: `20 ms`, `5 nS/cm**2`. The unit is one word, continued by
`/unit`, `*unit` or `**integer` only where no space stands between and the next word is itself a
unit, is not a name of the model (`names`) and is not called. So `20 ms / tau_m` and `20 ms/tau_m`
divide by tau_m, and `36 mS*m**3` with a state variable m multiplies by m**3 (it would be cubic
metres if m were not declared).
"""

from __future__ import annotations

import ast as python
import functools
import keyword
import re
import sys
from collections.abc import Container
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.expr.scan import FROM, HIDDEN_FROM, MAX_LENGTH, Fail, Scanned, scan
from compiler.expr.units import unit_word

MAX_DEPTH: Final = 120

_LARGEST: Final = 10**300
"""Of integers: a much larger one could not become a float64."""

_NAME = r"[A-Za-z]\w*"
_PLAIN: Final = re.compile(
    rf"""\s*(?:
        (?P<name>{_NAME}(?:\.{_NAME})*)
      | (?P<number>(?P<sign>-?)(?P<digits>
            (?:0|[1-9]\d{{0,17}}|\d{{1,20}}\.\d{{0,30}}|\d{{1,20}}(?=[eE]))
            (?:[eE][+-]?\d{{1,2}})?))
        (?:\s*(?P<unit>[^\W\d]\w*))?
    )\s*""",
    re.VERBOSE | re.ASCII,
)
_RESERVED: Final = frozenset(keyword.kwlist) | {"true", "false"}

_OPERATORS: Final = MappingProxyType(
    {python.Add: "+", python.Sub: "-", python.Mult: "*", python.Div: "/", python.FloorDiv: "//", python.Mod: "%"}
    | {python.Lt: "<", python.LtE: "<=", python.Gt: ">", python.GtE: ">=", python.Eq: "==", python.NotEq: "!="}
    | {python.Pow: "**", python.And: "and", python.Or: "or"}
)


@dataclass(frozen=True)
class Assign:
    """`target op value` with op "=", "+=", "-=" or "*="; `target` may be dotted (`post.y`)."""

    target: str
    op: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    target_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Do:
    """A call for its effect, `deliver(w)`; the binder knows which effects exist."""

    call: Call
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Statement = Assign | Do


@dataclass(frozen=True)
class _Place:
    """Offsets in one expression's text to spans in the file."""

    span: Span
    exact: bool
    shift: int = 0

    def at(self, start: int, end: int) -> Span:
        if not self.exact:
            return self.span
        base = self.span.start + self.shift
        return Span(self.span.file, base + start, base + max(end, start + 1), self.span.via)

    def fail(self, sink: Sink) -> Fail:
        def report(code: str, message: str, start: int, end: int, help: str | None) -> None:
            sink.error(code, message, self.at(start, end), help)

        return report


def parse_expr(
    text: str,
    span: Span,
    sink: Sink,
    *,
    units: bool = True,
    exact: bool = True,
    names: Container[str] = (),
) -> Expr | None:
    """The tree of one expression, or None after an error.

    `span` begins at the first character of `text`; with `exact=False` (quoted or folded scalars,
    whose characters do not stand one by one in the file) every node and error gets the whole span.
    `units=False` refuses quantities. `names`: names of the model that hide units after `*` and `/`
    within a quantity.
    """
    return _parse(text, _Place(span, exact), sink, units, names)


@functools.cache
def own_expr(text: str) -> Expr:
    """The tree of a text of ours, which has no mistake."""
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, exact=False)
    sink.check()
    assert tree is not None
    return tree


def parse_statement(
    text: str,
    span: Span,
    sink: Sink,
    *,
    exact: bool = True,
    names: Container[str] = (),
) -> Statement | None:
    """One statement: `v = v_reset`, `w += a`, `deliver(w)`, `deliver(w, ge)`; None after an
    error."""
    place = _Place(span, exact)
    fail = place.fail(sink)
    whole = place.at(len(text) - len(text.lstrip()), len(text.rstrip()))
    found = _ASSIGNMENT.match(text)
    if found is None:
        equals = _LONE_EQUALS.search(text)
        left = text[: equals.start()] if equals is not None else ""
        if equals is not None and left.count("(") == left.count(")"):
            message = "a statement assigns to a name" if left.strip() else "a name is missing before `=`"
            start, end = (len(left) - len(left.lstrip()), len(left.rstrip())) if left.strip() else equals.span()
            fail("E0301", message, start, end, "write `name = expression`; `==` compares")
            return None
        value = _parse(text, place, sink, True, names)
        if value is None:
            return None
        if isinstance(value, Call):
            return Do(value, whole)
        equal = isinstance(value, Binary) and value.op == "==" and isinstance(value.left, Ref)
        help_text = "`==` compares; write `=` to assign" if equal else None
        fail("E0301", "a statement is `name = expression` or a call", 0, len(text), help_text)
        return None
    target, op = found["target"], found["op"]
    if op not in ("=", "+=", "-=", "*="):
        help_text = f"write `{target} = {target} {op[:-1]} ...`"
        fail("E0301", f"`{op}` is not known here", found.start("op"), found.end("op"), help_text)
        return None
    if not re.fullmatch(rf"{_NAME}(?:\.{_NAME})*", target, re.ASCII) or _reserved(target):
        fail("E0301", f"`{target}` cannot be assigned to", *found.span("target"), None)
        return None
    start = found.end()
    if start == len(text):
        fail("E0301", "the statement ends too early", *found.span("op"), None)
        return None
    assigned = _parse(text[start:], _Place(span, exact, start), sink, True, names)
    if assigned is None:
        return None
    return Assign(target, op, assigned, whole, place.at(*found.span("target")))


_LONE_EQUALS: Final = re.compile(r"(?<![=<>!+*/%^&|-])=(?!=)")
_ASSIGNMENT: Final = re.compile(r"\s*(?P<target>[^\s=(),<>!+*/%^&|-]+)\s*(?P<op>(?:\*\*|//|[-+*/%^&|])?=)(?!=)\s*")


def parse_signature(text: str, span: Span, sink: Sink, *, exact: bool = True) -> tuple[str, tuple[str, ...]] | None:
    """Name and parameter names of a function key: "swish(x)" -> ("swish", ("x",)); None after an
    error."""
    fail = _Place(span, exact).fail(sink)
    found = re.fullmatch(r"\s*([A-Za-z]\w*)\s*\(([^()]*)\)\s*", text, re.ASCII)
    if found is None:
        fail("E0301", "a function is declared as `name(x, y)`", 0, len(text), None)
        return None
    parameters = tuple(p.strip() for p in found[2].split(",")) if found[2].strip() else ()
    for word, at in ((found[1], found.span(1)), *((p, found.span(2)) for p in parameters)):
        if not re.fullmatch(_NAME, word, re.ASCII) or _reserved(word):
            message = f"`{word}` cannot be a name here" if word else "a name is missing here"
            fail("E0301", message, *at, None)
            return None
    twice = [p for i, p in enumerate(parameters) if p in parameters[:i]]
    if twice:
        fail("E0301", f"the parameter `{twice[0]}` stands twice", *found.span(2), None)
        return None
    return found[1], parameters


def parse_derivative(text: str, span: Span, sink: Sink, *, exact: bool = True) -> str | None:
    """The variable of a `dynamics:` key: "dv/dt" -> "v"; None after an error."""
    fail = _Place(span, exact).fail(sink)
    found = re.fullmatch(r"\s*d([A-Za-z]\w*)\s*/\s*dt\s*", text, re.ASCII)
    if found is not None:
        return found[1]
    help_text = "write `dx/dt: ...` for the derivative of x in time"
    if other := re.fullmatch(r"\s*d(\w+)\s*/\s*d(\w+)\s*", text, re.ASCII):
        if re.match(r"\d", other[1]) or (re.search(r"\d$", other[2]) and other[2][0] == "t"):
            help_text = "write a second derivative as two variables of first order"
        elif other[2] != "t":
            help_text = f"write `d{other[1]}/dt: ...`; time `t` is the only independent variable"
    elif other := re.fullmatch(r"\s*([A-Za-z]\w*)'\s*", text, re.ASCII):
        help_text = f"write `d{other[1]}/dt: ...`"
    fail("E0301", f"`{text.strip()[:40]}` is not a derivative in time", 0, len(text), help_text)
    return None


def _reserved(name: str) -> bool:
    return any(part in _RESERVED for part in name.split("."))


def _parse(text: str, place: _Place, sink: Sink, units: bool, names: Container[str]) -> Expr | None:
    plain = _plain(text, place, units)
    if plain is not None:
        return plain
    fail = place.fail(sink)
    if not text.strip():
        fail("E0301", "an expression is missing here", 0, len(text), None)
        return None
    if len(text) > MAX_LENGTH:
        fail("E0301", f"the expression is longer than {MAX_LENGTH:,} characters", 0, 1, None)
        return None
    scanned = scan(text, fail, units=units, names=names)
    if scanned is None:
        return None
    indent = len(scanned.blank) - len(scanned.blank.lstrip())
    try:
        tree = python.parse(scanned.blank[indent:], mode="eval").body
    except SyntaxError as error:
        offset = indent + (error.offset or 1) - 1
        _explain(text, error.msg, offset, fail)
        return None
    except (RecursionError, MemoryError):  # Python's parser is bounded by these
        fail("E0301", "the expression is nested too deeply", 0, 1, None)
        return None
    try:
        return _Builder(scanned, place, indent).build(tree, 0)
    except _Refused as refused:
        fail("E0301", refused.message, *refused.at, refused.help)
        return None


def _plain(text: str, place: _Place, units: bool) -> Expr | None:
    """Fast path without Python's parser: one name, one number, one number with one word of a unit."""
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    name = found["name"]
    if name is not None:
        span = place.at(*found.span("name"))
        if name in ("true", "True", "false", "False"):
            return Bool(name in ("true", "True"), span)
        return None if _reserved(name) else Ref(name, span)
    number, unit = found["number"], found["unit"]
    value = int(number) if found["digits"].isdigit() else float(number)
    if unit is None:
        return Num(value, place.at(*found.span("number")))
    if not units or unit in _RESERVED or unit_word(unit) is None:
        return None
    return Quantity(value, unit, place.at(found.start("number"), found.end("unit")))


def _explain(text: str, message: str, offset: int, fail: Fail) -> None:
    """A SyntaxError of Python's parser as a diagnostic; the scan has reported most mistakes before."""
    body = text.rstrip()
    if offset >= len(body):
        help_text = "a percentage is written as a number, 0.1 for 10 %" if body.endswith("%") else None
        fail("E0301", "the expression ends too early", max(len(body) - 1, 0), len(body), help_text)
        return
    if "expected 'else'" in message:
        help_text = "write `a if condition else b`"
        fail("E0301", "`if` needs an `else`", offset, len(body), help_text)
        return
    word = re.compile(r"\w+|\*\*|//|[<>=!]=|.", re.DOTALL).match(text, offset)
    shown = word[0] if word else text[offset]
    fail("E0301", f"`{shown}` cannot stand here", offset, offset + len(shown), None)


class _Refused(Exception):
    """A construct of Python that is not in the language; caught in `_parse`."""

    def __init__(self, message: str, at: tuple[int, int], help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.at, self.help = message, at, help


@dataclass(frozen=True)
class _Builder:
    """Converts Python's AST to ours. `indent`: leading blanks removed before parsing."""

    scanned: Scanned
    place: _Place
    indent: int

    def at(self, node: python.expr) -> tuple[int, int]:
        end = (node.end_col_offset or 0) + self.indent
        return node.col_offset + self.indent, self.scanned.ends.get(end, end)

    def build(self, node: python.expr, depth: int) -> Expr:
        at = self.at(node)
        if depth > MAX_DEPTH:
            raise _Refused("the expression is nested too deeply", at)
        depth += 1
        match node:
            case python.Constant(value=value):
                return self.constant(value, at)
            case python.Name(id=name):
                span = self.place.at(*at)
                return Bool(name == "true", span) if name in ("true", "false") else Ref(name, span)
            case python.Attribute():
                return Ref(self.dotted(node), self.place.at(*at))
            case python.BinOp(left, op, right):
                if type(op) not in _OPERATORS:
                    raise _Refused("this operator is not in the language", at)
                return Binary(
                    _OPERATORS[type(op)], self.build(left, depth), self.build(right, depth), self.place.at(*at)
                )
            case python.UnaryOp(op, operand):
                return self.unary(op, operand, at, depth)
            case python.BoolOp(op, values):
                parts = [self.build(v, depth + i) for i, v in enumerate(values)]
                return self.chain(_OPERATORS[type(op)], parts, at)
            case python.Compare(left, ops, rights):
                return self.compare(left, ops, rights, at, depth)
            case python.IfExp(test, then, orelse):
                condition = self.build(test, depth)
                arms = self.build(then, depth), self.build(orelse, depth)
                return Cond(condition, *arms, self.place.at(*at))
            case python.Call():
                return self.call(node, at, depth)
        raise self.refused(node, at)

    @staticmethod
    def refused(node: python.expr, at: tuple[int, int]) -> _Refused:
        match node:
            case python.Tuple():
                return _Refused("`,` cannot stand here", at, "a decimal point is written `.`")
            case python.Starred():
                return _Refused("`*` cannot stand here", (at[0], at[0] + 1))
        return _Refused("this cannot stand in an expression", at)

    def call(self, node: python.Call, at: tuple[int, int], depth: int) -> Expr:
        if node.keywords:
            raise _Refused("arguments are given by position", at)
        if not isinstance(node.func, python.Name):
            last = f"write `{node.func.attr}(...)`" if isinstance(node.func, python.Attribute) else None
            raise _Refused("only a function's name can be called", self.at(node.func), last)
        return Call(node.func.id, tuple(self.build(a, depth) for a in node.args), self.place.at(*at))

    def constant(self, value: object, at: tuple[int, int]) -> Expr:
        if isinstance(value, bool):
            return Bool(value, self.place.at(*at))
        if not isinstance(value, int | float) or abs(value) > (
            _LARGEST if isinstance(value, int) else sys.float_info.max
        ):
            raise _Refused("the number is too large", at)
        quantity = self.scanned.units.get(at[0])
        if quantity is None:
            return Num(value, self.place.at(*at))
        return Quantity(value, quantity[0], self.place.at(at[0], quantity[1]))

    def unary(self, op: python.unaryop, operand: python.expr, at: tuple[int, int], depth: int) -> Expr:
        x = self.build(operand, depth)
        span = self.place.at(*at)
        if isinstance(op, python.Not):
            return Unary("not", x, span)
        if isinstance(op, python.UAdd):
            return x
        # `-65 mV` is one number, `-(65 mV)` a minus before one: `show` relies on the difference
        between = self.scanned.blank[at[0] + 1 : operand.col_offset + self.indent]
        if isinstance(operand, python.Constant) and not between.strip():
            if isinstance(x, Num):
                return Num(-x.value, span)
            if isinstance(x, Quantity):
                return Quantity(-x.value, x.unit, span)
        return Unary("-", x, span)

    def chain(self, op: str, parts: list[Expr], at: tuple[int, int]) -> Expr:
        result = parts[0]
        for part in parts[1:]:
            result = Binary(op, result, part, self.place.at(*at))
        return result

    def compare(
        self,
        left: python.expr,
        ops: list[python.cmpop],
        rights: list[python.expr],
        at: tuple[int, int],
        depth: int,
    ) -> Expr:
        operands = [self.build(n, depth + len(ops)) for n in (left, *rights)]
        parts: list[Expr] = []
        for i, op in enumerate(ops):
            symbol = _OPERATORS.get(type(op))
            if symbol is None:
                raise _Refused("`in` and `is` cannot stand in an expression", at)
            span = self.place.at(self.at((left, *rights)[i])[0], self.at(rights[i])[1])
            parts.append(Binary(symbol, operands[i], operands[i + 1], span))
        return self.chain("and", parts, at)

    def dotted(self, node: python.expr) -> str:
        if isinstance(node, python.Attribute):
            return f"{self.dotted(node.value)}.{node.attr}".replace(HIDDEN_FROM, FROM, 1)
        if isinstance(node, python.Name):
            return node.id
        raise _Refused("`.` cannot stand here", self.at(node), "a dot joins names, as in `post.y`")
