"""Expressions and straight-line statements as text: C11 and CUDA C++ alike.

Assumes: names are resolved (formals, locals, `step`, `acc`); user functions are inlined; quantities erased; the
elementary functions `nl_<name>_f32 | _f64 | _i32 | _i64` of backends/device precede the text.
Guarantees: the text computes exactly the tree: no reassociation, operands in the types of compiler/ir (integers stay
integers, `/` is a real division, both arms of a conditional are evaluated, so that loops hold no branches). Real
literals carry the bits of their precision. Every line carries the model span of its origin.
Does not: print loops, memory or launches (backends/cpu/emit/emit.py, backends/cuda/emit/emit.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

import compiler.expr.ast as ast
import compiler.ir.level2.program as l2
from backends.c_family.names import Namer
from compiler.core.source import NOWHERE, Span
from compiler.expr.functions import CONSTANTS, FUNCTIONS, LOOKUP, ROUNDED
from compiler.ir.space import DType

Scalar = DType | Literal["bool"]
"""The type of a value: an element type, or a truth value."""

C_TYPES: Final[Mapping[str, str]] = {
    "f32": "float",
    "f64": "double",
    "bf16": "nl_bfloat",
    "i32": "nl_i32",
    "u32": "nl_u32",
    "i64": "nl_i64",
    "u64": "nl_u64",
    "u8": "nl_u8",
    "bool": "int",
}


class PrintError(Exception):
    """A tree without a C text: a fault of the lowering, not of the user. `span` locates it."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        super().__init__(message)
        self.message, self.span = message, span


@dataclass(frozen=True)
class Dialect:
    """`precision`: what REAL is (F32 or F64); `real` its name in the text; `restrict` the keyword. `add`: the function
    for atomic addition to an element shared by threads ("": one thread, plain `+=`), in which {} is the element's type.
    `space`: the address space of arrays; `wide`: the suffix of 64-bit literals."""

    precision: DType
    real: str = "real"
    restrict: str = "restrict"
    add: str = ""
    space: str = ""
    wide: str = "LL"

    def literal(self, value: int | float, t: Scalar) -> str:
        return literal(value, t, self.wide)

    def type_name(self, scalar: Scalar) -> str:
        return self.real if scalar == self.precision else C_TYPES[scalar]


@dataclass(frozen=True)
class Symbol:
    """The meaning of a name in the text: a C expression (an identifier unless `tight` is False) and its type."""

    text: str
    type: Scalar
    tight: bool = True


Scope = Mapping[str, Symbol]


@dataclass(frozen=True)
class Line:
    """One line of text, indented by `depth` levels; `span` of the user's expression, if any."""

    text: str
    depth: int = 0
    span: Span = NOWHERE


def indent(lines: Iterable[Line], by: int = 1) -> list[Line]:
    return [Line(x.text, x.depth + by, x.span) for x in lines]


# --------------------------------------------------------------------------------------------- types

_RANK: Final = ("bool", "u8", "i32", "u32", "i64", "u64", "f32", "f64")


def join(a: Scalar, b: Scalar) -> Scalar:
    """The common type: bool < u8 < i32 < u32 < i64 < u64 < f32 < f64."""
    return a if _RANK.index(a) >= _RANK.index(b) else b


def is_real(t: Scalar) -> bool:
    return t in (DType.F32, DType.F64)


def _number(t: Scalar) -> Scalar:
    """The type of arithmetic on `t`: narrower types are promoted to i32."""
    return DType.I32 if t in ("bool", DType.U8) else t


_RANDOM: Final[Mapping[str, int]] = {"uniform": 3, "normal": 3, "exponential": 3, "poisson": 4}
SHUFFLED: Final = "shuffled"
_MOST_FACTORS: Final = 8  # the largest integer power that is expanded into products


def type_of(e: ast.Expr, scope: Scope, real: DType) -> Scalar:
    """The type of `e`. Raises PrintError for an unknown name or function."""
    match e:
        case ast.Num(value):
            if isinstance(value, float):
                return real
            return DType.I32 if -(2**31) <= value < 2**31 else DType.I64
        case ast.Bool():
            return "bool"
        case ast.Ref(name, span):
            if name not in scope and name not in CONSTANTS:
                raise PrintError(f"`{name}` has no meaning in this kernel", span)
            return scope[name].type if name in scope else real
        case ast.Unary(op, x):
            return "bool" if op == "not" else _number(type_of(x, scope, real))
        case ast.Binary(op, _, _) if op in ast.COMPARISONS or op in ast.LOGICAL:
            return "bool"
        case ast.Binary(op, a, b):
            both = join(_number(type_of(a, scope, real)), _number(type_of(b, scope, real)))
            needs_real = op == "/" or (op == "**" and not _whole_power(b))
            return real if needs_real and not is_real(both) else both
        case ast.Cond(_, a, b):
            return join(type_of(a, scope, real), type_of(b, scope, real))
        case ast.Call(func, args, span):
            return _type_of_call(func, [type_of(a, scope, real) for a in args], real, span)
        case ast.Quantity(_, _, span):
            raise PrintError("a quantity with a unit reached the printer", span)


def _type_of_call(func: str, args: list[Scalar], real: DType, span: Span) -> Scalar:
    if func == "where":
        return join(args[1], args[2])
    machine = FUNCTIONS[func].machine if func in FUNCTIONS else "own"
    if machine == "real":
        return DType.F64 if DType.F64 in args else real
    if machine in ("same", "whole"):
        both = _number(args[0])
        for t in args[1:]:
            both = join(both, _number(t))
        return both
    if func == "int":
        return DType.I64 if is_real(args[0]) else _number(args[0])
    if func == "float":
        return args[0] if is_real(args[0]) else real
    if func == "heaviside":
        return DType.I32
    if func == "isnan":
        return "bool"
    if func in _RANDOM or func in (LOOKUP, ROUNDED):
        return real
    if func == SHUFFLED:
        return DType.I64
    raise PrintError(f"the generated code has no function `{func}`", span)


def _whole_power(e: ast.Expr) -> bool:
    return isinstance(e, ast.Num) and isinstance(e.value, int) and 0 <= e.value <= 62


# ---------------------------------------------------------------------------------------- expressions

_ATOM, _SIGN, _PRODUCT, _SUM, _COMPARE, _BITAND, _BITOR, _COND = range(15, 7, -1)
_SLOTS: Final = (ast.Ref("ring_slots"), ast.Ref("slots"))
"""Columns with the number of slots of a ring (compiler/passes/model/free_names.py: nothing else has these names); a
step that runs has a number of at least 1."""
_C_BINARY: Final = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_C_COMPARE: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})


def literal(value: int | float, t: Scalar, wide: str = "LL") -> str:
    """A number in type `t`, with exactly the bits that numpy gives it."""
    if t == "bool":
        return "1" if value else "0"
    if not is_real(t):
        if t == DType.I64 and value == -(2**63):
            return f"(-9223372036854775807{wide} - 1)"
        suffix = {"i32": "", "u8": "", "u32": "u", "i64": wide, "u64": f"U{wide}"}[t]
        return f"{int(value)}{suffix}"
    if math.isnan(value):
        return "NL_NAN_F32" if t == DType.F32 else "NL_NAN_F64"
    with np.errstate(over="ignore"):
        rounded = np.float32(value) if t == DType.F32 else np.float64(value)
    if np.isinf(rounded):
        name = "NL_INF_F32" if t == DType.F32 else "NL_INF_F64"
        return name if rounded > 0 else "-" + name
    text = str(rounded)
    if "e" not in text and "." not in text:
        text += ".0"
    return text + ("f" if t == DType.F32 else "")


@dataclass
class Printer:
    """Prints expressions of one kernel. `used` collects the functions of backends/device that the text calls."""

    dialect: Dialect
    used: set[str] = field(default_factory=set)

    def expr(self, e: ast.Expr, scope: Scope, to: Scalar | None = None) -> str:
        """`e` as C, converted to type `to` (its own type when None)."""
        own = type_of(e, scope, self.dialect.precision)
        return self._as(e, scope, own if to is None else to)[0]

    def test(self, e: ast.Expr, scope: Scope) -> str:
        """`e` as a C truth value."""
        return self._test(e, scope)[0]

    def operand(self, e: ast.Expr, scope: Scope, to: Scalar) -> str:
        """`e` in type `to`, in parentheses unless it is an atom."""
        return self._inside(self._as(e, scope, to), _ATOM)

    def call(self, name: str, t: Scalar, *args: str) -> str:
        """A call of the function `nl_<name>_<t>`."""
        function = f"nl_{name}_{t}"
        self.used.add(function)
        return f"{function}({', '.join(args)})"

    @staticmethod
    def _inside(text: tuple[str, int], least: int) -> str:
        return text[0] if text[1] >= least else f"({text[0]})"

    def _as(self, e: ast.Expr, scope: Scope, to: Scalar) -> tuple[str, int]:
        """`e` in type `to`, and the precedence of its outermost operator."""
        if to == "bool":
            return self._test(e, scope)
        if isinstance(e, ast.Num):
            if isinstance(e.value, float) and not is_real(to):
                return f"({C_TYPES[to]}){self.dialect.literal(e.value, DType.F64)}", _SIGN
            text = self.dialect.literal(e.value, to)
            return text, _SIGN if text.startswith("-") else _ATOM
        if isinstance(e, ast.Ref) and e.name not in scope and e.name in CONSTANTS:
            return self.dialect.literal(CONSTANTS[e.name], to), _ATOM
        real = self.dialect.precision
        own = type_of(e, scope, real)
        if isinstance(e, ast.Cond):  # the arms take the type, so that literals in them do
            return self._select(e.test, e.then, e.orelse, scope, to)
        if isinstance(e, ast.Call) and e.func == "where" and len(e.args) == 3:
            return self._select(*e.args, scope, to)
        shown = self._own(e, scope, own)
        if own == to or (own == "bool" and to in (DType.I32, DType.U8)):
            return shown
        if not is_real(own) and not is_real(to) and _widens(own, to):
            return shown
        return f"({self.dialect.type_name(to)}){self._inside(shown, _SIGN)}", _SIGN

    def _select(self, test: ast.Expr, a: ast.Expr, b: ast.Expr, scope: Scope, to: Scalar) -> tuple[str, int]:
        parts = [
            self._inside(self._test(test, scope), _COMPARE),
            self._inside(self._as(a, scope, to), _SUM),
            self._inside(self._as(b, scope, to), _SUM),
        ]
        return "{} ? {} : {}".format(*parts), _COND

    def _test(self, e: ast.Expr, scope: Scope) -> tuple[str, int]:
        match e:
            case ast.Bool(value):
                return ("1" if value else "0"), _ATOM
            case ast.Unary("not", x):
                return "!" + self._inside(self._test(x, scope), _SIGN), _SIGN
            case ast.Binary("and" | "or" as op, a, b):  # both sides are pure: no branch
                parts = [self._inside(self._test(x, scope), _SUM) for x in (a, b)]
                sign, level = ("&", _BITAND) if op == "and" else ("|", _BITOR)
                return f" {sign} ".join(parts), level
            case ast.Binary(op, a, b) if op in _C_COMPARE:
                real = self.dialect.precision
                both = join(type_of(a, scope, real), type_of(b, scope, real))
                left, right = (self._inside(self._as(x, scope, both), _SUM) for x in (a, b))
                return f"{left} {op} {right}", _COMPARE
            case ast.Cond(test, a, b):
                return self._select(test, a, b, scope, "bool")
            case ast.Call("isnan", (x,)):
                t = type_of(x, scope, self.dialect.precision)
                text = self._inside(self._as(x, scope, t), _SUM)
                return f"{text} != {text}", _COMPARE
            case _:
                own = type_of(e, scope, self.dialect.precision)
                shown = self._own(e, scope, own)
                if own == "bool":
                    return shown
                return f"{self._inside(shown, _SUM)} != {self.dialect.literal(0, own)}", _COMPARE

    def _own(self, e: ast.Expr, scope: Scope, t: Scalar) -> tuple[str, int]:
        """`e` in its own type `t`."""
        match e:
            case ast.Ref(name, span):
                if name not in scope:
                    raise PrintError(f"`{name}` has no meaning in this kernel", span)
                symbol = scope[name]
                return symbol.text, _ATOM if symbol.tight else _COND
            case ast.Unary("-", x):
                return "-" + self._inside(self._as(x, scope, t), _ATOM), _SIGN
            case ast.Binary(op, a, b) if t != "bool":
                return self._arithmetic(op, a, b, scope, t)
            case ast.Call(func, args, span) if func != "isnan":
                return self._call(func, args, scope, t, span), _ATOM
            case _:
                return self._test(e, scope)

    def _arithmetic(self, op: str, a: ast.Expr, b: ast.Expr, scope: Scope, t: Scalar) -> tuple[str, int]:
        if op in _C_BINARY:
            level = _C_BINARY[op]
            left = self._inside(self._as(a, scope, t), level)
            # a right operand of equal precedence keeps its parentheses: sums of reals do not reassociate
            right = self._inside(self._as(b, scope, t), level + 1)
            return f"{left} {op} {right}", level
        if op == "%" and t == DType.I64 and b in _SLOTS and a in (ast.Ref("step"), ast.Ref("step") - 1):
            self.used.add("nl_slot")
            return f"nl_slot({self._as(a, scope, t)[0]}, {self._as(b, scope, t)[0]})", _ATOM
        if op in ("//", "%"):
            name = "floordiv" if op == "//" else "mod"
            t = DType.I64 if t in (DType.U32, DType.U64) else t
            return self.call(name, t, self._as(a, scope, t)[0], self._as(b, scope, t)[0]), _ATOM
        return self._power(a, b, scope, t)

    def _power(self, a: ast.Expr, b: ast.Expr, scope: Scope, t: Scalar) -> tuple[str, int]:
        base = self._as(a, scope, t)
        if isinstance(b, ast.Num) and float(b.value) in (0.5, -0.5) and is_real(t):
            root = self.call("sqrt", t, base[0])
            return (root, _ATOM) if b.value > 0 else (f"{self.dialect.literal(1, t)} / {root}", _PRODUCT)
        whole = isinstance(b, ast.Num) and float(b.value).is_integer()
        if whole and isinstance(b, ast.Num) and b.value == 0:
            return self.dialect.literal(1, t), _ATOM
        if whole and isinstance(b, ast.Num) and 1 <= abs(b.value) <= _MOST_FACTORS and self._simple(a):
            text = " * ".join([self._inside(base, _ATOM)] * int(abs(b.value)))
            if b.value < 0:
                return f"{self.dialect.literal(1, t)} / ({text})", _PRODUCT
            return text, _PRODUCT if abs(b.value) > 1 else base[1]
        if not is_real(t):
            raise PrintError("an integer power of this size has no text", a.span)
        return self.call("pow", t, base[0], self._as(b, scope, t)[0]), _ATOM

    @staticmethod
    def _simple(e: ast.Expr) -> bool:
        """Cheap enough to be duplicated (the compiler eliminates common subexpressions)."""
        return not any(isinstance(x, ast.Call) and x.func in _RANDOM for x in ast.nodes(e))

    def _call(self, func: str, args: tuple[ast.Expr, ...], scope: Scope, t: Scalar, span: Span) -> str:
        real = self.dialect.precision
        if func in _RANDOM:
            at = "(nl_u64)step"
            if func != "poisson" and len(args) == 4 and isinstance(args[3], ast.Num):  # of a given step
                at, args = self.dialect.literal(args[3].value, DType.U64), args[:3]
            if len(args) != _RANDOM[func]:
                raise PrintError(f"`{func}` needs {_RANDOM[func]} arguments here", span)
            key, index, draw = (
                self._as(a, scope, k)[0] for a, k in zip(args, (DType.U64, DType.U64, DType.U32), strict=False)
            )
            rest = [self._as(a, scope, real)[0] for a in args[3:]]
            return self.call(func, real, key, index, at, draw, *rest)
        if func == LOOKUP:
            return self.call(func, t, *(self._as(a, scope, t)[0] for a in args))
        if func == SHUFFLED:
            self.used.add("nl__shuffled_once")
            whole = ", ".join(self._as(a, scope, DType.U64)[0] for a in args)
            return f"(nl_i64)nl__shuffled_once({whole})"
        if func in ("min", "max"):
            text = self._as(args[0], scope, t)[0]
            for a in args[1:]:
                text = self.call(func, t, text, self._as(a, scope, t)[0])
            return text if len(args) > 1 else f"({text})"
        if func in ("int", "float"):
            own = type_of(args[0], scope, real)
            text = self._inside(self._as(args[0], scope, own), _SIGN)
            return f"({text})" if own == t else f"(({self.dialect.type_name(t)}){text})"
        if func == "relu":
            return self.call("max", t, self._as(args[0], scope, t)[0], self.dialect.literal(0, t))
        if func == "heaviside":
            own = type_of(args[0], scope, real)
            return f"({self._inside(self._as(args[0], scope, own), _SUM)} >= {self.dialect.literal(0, own)})"
        if func in FUNCTIONS and FUNCTIONS[func].machine == "whole" and not is_real(t):
            return f"({self._as(args[0], scope, t)[0]})"
        t = DType.I64 if t in (DType.U32, DType.U64) else t
        return self.call(func, t, *(self._as(a, scope, t)[0] for a in args))


def _widens(a: Scalar, b: Scalar) -> bool:
    """Whether C converts `a` to `b` implicitly and without loss."""
    order = ("bool", "u8", "i32", "i64")
    return a in order and b in order and order.index(a) <= order.index(b)


# ----------------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Element:
    """How straight-line code accesses the element of an array formal at the current point.

    `place`: the C lvalue (`v_[i]`). `inside`: a C truth value when the access is guarded; `fill` is the value of reads
    out of bounds. `direct`: additions go to memory immediately (several points share the element).
    """

    place: str
    type: DType
    mode: l2.Mode
    inside: str | None = None
    fill: float = 0.0

    @property
    def direct(self) -> bool:
        return self.mode is l2.Mode.ACCUMULATE


EmitPrinter = Callable[[l2.Emit, Scope], list[Line]]


def refuse_emit(statement: l2.Emit, scope: Scope) -> list[Line]:
    raise PrintError("events can only be emitted by a map over one dim", statement.span)


def infer_locals(
    statements: Sequence[l2.Statement], scope: Scope, formals: Iterable[str], real: DType
) -> dict[str, Scalar]:
    """The type of every local: the join of the assigned types, by two passes over the statements."""
    known = set(formals)
    found: dict[str, Scalar] = {}
    for _ in range(2):
        for s in statements:
            if not isinstance(s, l2.Assign) or s.target in known:
                continue
            inner = {**scope, **{n: Symbol(n, t) for n, t in found.items()}}
            t = type_of(s.value, inner, real)
            t = DType.I32 if t == DType.U8 else t
            found[s.target] = join(found[s.target], t) if s.target in found else t
    return found


def statement_refs(statements: Iterable[l2.Statement]) -> set[str]:
    """Every name that the statements read."""
    found: set[str] = set()
    for s in statements:
        found |= ast.refs(s.when if isinstance(s, l2.Emit) else s.value)
    return found


def _targets(statements: Iterable[l2.Statement]) -> set[str]:
    return {s.target for s in statements if not isinstance(s, l2.Emit)}


@dataclass
class Body:
    """Straight-line code at one point of a loop nest: loads at first use, newest values in locals, stores last.

    `scope` maps names to symbols and grows; `elements` are the array formals that are reachable here. Assigned
    values stay in locals until `stores()`, so a second section (the epilogue) may follow the first.
    """

    printer: Printer
    scope: dict[str, Symbol]
    elements: Mapping[str, Element]
    namer: Namer
    emit: EmitPrinter = refuse_emit
    _types: dict[str, Scalar] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)
    _unnamed: dict[str, l2.Assign] = field(default_factory=dict)

    def finish(self, statements: Sequence[l2.Statement]) -> list[Line]:
        """The lines of the last `statements` and all stores. A value that no other statement reads or changes, of
        operands that stay as they are, is stored without a local."""
        behind: list[l2.Statement] = []
        for n, s in reversed(list(enumerate(statements))):
            if isinstance(s, l2.Assign) and s.target in self.elements and s.target not in self.scope:
                others = _targets([*statements[:n], *behind])
                if s.target not in others | statement_refs(behind) and not ast.refs(s.value) & _targets(behind):
                    self._unnamed[s.target] = s
            behind.append(s)
        return [*self.run(statements), *self.stores()]

    def run(self, statements: Sequence[l2.Statement]) -> list[Line]:
        """The lines of `statements`, loads included."""
        virtual = {n: Symbol(n, e.type) for n, e in self.elements.items()}
        known = {**virtual, **self.scope}
        self._types |= infer_locals(statements, known, self.elements, self.printer.dialect.precision)
        changed = {s.target for s in statements if not isinstance(s, l2.Emit)}
        lines: list[Line] = []
        for s in statements:
            value = s.when if isinstance(s, l2.Emit) else s.value
            lines += self.load(ast.refs(value), changed)
            match s:
                case l2.Emit():
                    lines += self.emit(s, self.scope)
                case l2.Add(target, value, span):
                    lines += self._add(target, value, span, changed)
                case l2.Assign(target) if target in self._unnamed:
                    self._written.append(target)
                case l2.Assign(target, value, span):
                    lines.append(self._assign(target, value, span))
        return lines

    def load(self, names: Iterable[str], changed: Iterable[str] = ()) -> list[Line]:
        """Loads of the formals among `names` that are not in locals yet, in the order of the formals."""
        wanted = set(names)
        dialect = self.printer.dialect
        lines = []
        for name, e in self.elements.items():
            if name in wanted and name not in self.scope:
                local = self.namer(name)
                t: Scalar = DType.I32 if e.type == DType.U8 else e.type
                value = e.place
                if e.inside is not None:
                    value = f"{e.inside} ? {e.place} : {literal(e.fill, e.type)}"
                const = "" if name in changed or e.mode is not l2.Mode.READ else "const "
                lines.append(Line(f"{const}{dialect.type_name(t)} {local} = {value};"))
                self.scope[name] = Symbol(local, t)
        return lines

    def _assign(self, target: str, value: ast.Expr, span: Span) -> Line:
        dialect = self.printer.dialect
        element = self.elements.get(target)
        if element is not None and target not in self._written:
            self._written.append(target)
        if target in self.scope:
            symbol = self.scope[target]
            text = self.printer.expr(value, self.scope, symbol.type)
            return Line(f"{symbol.text} = {text};", span=span)
        if element is not None:
            t: Scalar = DType.I32 if element.type == DType.U8 else element.type
        else:
            t = self._types[target]
        text = self.printer.expr(value, self.scope, t)
        name = self.namer(target)
        self.scope[target] = Symbol(name, t)
        return Line(f"{dialect.type_name(t)} {name} = {text};", span=span)

    def _add(self, target: str, value: ast.Expr, span: Span, changed: set[str]) -> list[Line]:
        element = self.elements.get(target)
        if element is None:
            raise PrintError(f"`{target}` is not an array that can be added to", span)
        if not element.direct:
            lines = self.load([target], changed)
            if target not in self._written:
                self._written.append(target)
            text = self.printer.expr(value, self.scope, element.type)
            return [*lines, Line(f"{self.scope[target].text} += {text};", span=span)]
        guard = f"if ({element.inside}) " if element.inside else ""
        text = self.printer.expr(value, self.scope, element.type)
        if add := self.printer.dialect.add:
            return [Line(f"{guard}{add.format(element.type)}(&{element.place}, {text});", span=span)]
        return [Line(f"{guard}{element.place} += {text};", span=span)]

    def mark(self, names: Iterable[str]) -> None:
        """Formals that an earlier section has assigned, so that `stores` stores them too."""
        self._written += [n for n in names if n not in self._written]

    def stores(self) -> list[Line]:
        """Stores of every assigned array formal, in the order of the formals."""
        lines = []
        for name, e in self.elements.items():
            if name in self._written:
                guard, span = f"if ({e.inside}) " if e.inside else "", NOWHERE
                if name in self._unnamed:
                    value, span = self._unnamed[name].value, self._unnamed[name].span
                    text = self.printer.expr(value, self.scope, DType.I32 if e.type == DType.U8 else e.type)
                else:
                    text = self.scope[name].text
                if e.type == DType.U8:
                    text = f"(nl_u8)({text})" if name in self._unnamed else f"(nl_u8){text}"
                lines.append(Line(f"{guard}{e.place} = {text};", span=span))
        return lines
