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
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

import compiler.expr.ast as ast
import compiler.ir.level2.program as l2
from backends.c_family.names import Namer
from backends.kernel_ir.expr import Operand, binary, call, cast, code, cond, form, name
from backends.kernel_ir.stmt import Do, Let, Set, Stmt, when
from backends.kernel_ir.tree import Binary, Code, Number, Unary
from compiler.core.source import NOWHERE, Span
from compiler.expr.functions import CONSTANTS, COUNTS, FUNCTIONS, LOOKUP, ROUNDED
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
class Symbol:
    """The meaning of a name in the text: an expression of the target and its type."""

    code: Code
    type: Scalar


Scope = Mapping[str, Symbol]


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


STEP: Final = name("step")
RANDOM: Final[Mapping[str, int]] = {"uniform": 3, "normal": 3, "exponential": 3, "poisson": 4, "binomial": 5}
SHUFFLED: Final = "shuffled"
_ONE: Final = ast.Num(1)
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
    if func in RANDOM or func in (LOOKUP, ROUNDED):
        return real
    if func == SHUFFLED:
        return DType.I64
    raise PrintError(f"the generated code has no function `{func}`", span)


def _signed(op: str, a: ast.Expr, b: ast.Expr) -> tuple[str, ast.Expr, ast.Expr]:
    """A sum or difference without a sign behind the operator: the same to the last bit."""
    match op, a, b:
        case "+", ast.Unary("-", x), ast.Num(value) if value < 0:
            return "-", b, x
        case "+" | "-", _, ast.Num(value) if value < 0:
            return "-" if op == "+" else "+", a, ast.Num(-value)
    return op, a, b


def _whole_power(e: ast.Expr) -> bool:
    return isinstance(e, ast.Num) and isinstance(e.value, int) and 0 <= e.value <= 62


# ---------------------------------------------------------------------------------------- expressions

_SLOTS: Final = (ast.Ref("ring_slots"), ast.Ref("slots"))
"""Columns with the number of slots of a ring (names of models are symbols: nothing else has these names); a
step that runs has a number of at least 1."""
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def literal(value: int | float, t: Scalar, wide: str = "LL") -> Code:
    """A number in type `t`, with exactly the bits that numpy gives it."""
    if t == "bool":
        return code("1" if value else "0")
    if not is_real(t):
        if t == DType.I64 and value == -(2**63):
            return code(f"-9223372036854775807{wide} - 1")
        suffix = {"i32": "", "u8": "", "u32": "u", "i64": wide if value else "", "u64": f"U{wide}"}[t]
        return Number(f"{int(value)}{suffix}")
    if math.isnan(value):
        return name("NL_NAN_F32" if t == DType.F32 else "NL_NAN_F64")
    with np.errstate(over="ignore"):
        rounded = np.float32(value) if t == DType.F32 else np.float64(value)
    if np.isinf(rounded):
        infinite = name("NL_INF_F32" if t == DType.F32 else "NL_INF_F64")
        return infinite if rounded > 0 else -infinite
    text = str(rounded)
    if "e" not in text and "." not in text:
        text += ".0"
    return Number(text + ("f" if t == DType.F32 else ""))


@dataclass(frozen=True)
class Dialect:
    """A target's language, and expressions in it. `precision`: what REAL is (F32 or F64); `real` its name in the text;
    `restrict` the keyword. `add`: the function for atomic addition to an element shared by threads ("": one thread,
    plain `+=`), in which {} is the element's type. `space`: the address space of arrays; `wide`: the suffix of 64-bit
    literals. `short`: whether indices of guarded axes have 32 bits. `cpp`: whether it is C++. `row_real`: the type of
    real columns of a row ("": their own); `pointer`: what makes one of a column ("": that is an offset in one buffer).
    `coarse`: functions that have a form for values that are rounded to bf16 (`nl_coarse_<name>_f32`); `rounded`:
    whether the expression is such a value."""

    precision: DType
    real: str = "real"
    restrict: str = "restrict"
    add: str = ""
    space: str = ""
    wide: str = "LL"
    short: bool = False
    cpp: bool = False
    row_real: str = ""
    pointer: str = ""
    coarse: frozenset[str] = frozenset()
    rounded: bool = False

    def literal(self, value: int | float, t: Scalar) -> Code:
        return literal(value, t, self.wide)

    def type_name(self, scalar: Scalar) -> str:
        return self.real if scalar == self.precision else C_TYPES[scalar]

    def expr(self, e: ast.Expr, scope: Scope, to: Scalar | None = None) -> Code:
        """`e` as C, converted to type `to` (its own type when None)."""
        return self._as(e, scope, type_of(e, scope, self.precision) if to is None else to)

    def call(self, function: str, t: Scalar, *args: Operand) -> Code:
        """A call of the function `nl_<function>_<t>`."""
        return call(f"nl_{function}_{t}", *args)

    def _as(self, e: ast.Expr, scope: Scope, to: Scalar) -> Code:
        """`e` in type `to`."""
        if to == "bool":
            return self.test(e, scope)
        if isinstance(e, ast.Num):
            if isinstance(e.value, float) and not is_real(to):
                return cast(C_TYPES[to], self.literal(e.value, DType.F64))
            return self.literal(e.value, to)
        if isinstance(e, ast.Ref) and e.name not in scope and e.name in CONSTANTS:
            return self.literal(CONSTANTS[e.name], to)
        real = self.precision
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
        return cast(self.type_name(to), shown)

    def _select(self, test: ast.Expr, a: ast.Expr, b: ast.Expr, scope: Scope, to: Scalar) -> Code:
        return cond(self.test(test, scope), self._beside(a, b, scope, to), self._beside(b, a, scope, to))

    def test(self, e: ast.Expr, scope: Scope) -> Code:
        """`e` as a C truth value."""
        match e:
            case ast.Bool(value):
                return code("1" if value else "0")
            case ast.Unary("not", x):
                return self._not(x, scope)
            case ast.Binary("and" | "or" as op, a, b):  # both sides are pure: no branch
                left, right = self.test(a, scope), self.test(b, scope)
                return binary(left, "&" if op == "and" else "|", right)
            case ast.Binary(op, a, b) if op in _OPPOSITE:
                real = self.precision
                both = join(type_of(a, scope, real), type_of(b, scope, real))
                return binary(self._beside(a, b, scope, both), op, self._beside(b, a, scope, both))
            case ast.Cond(test, a, b):
                return self._select(test, a, b, scope, "bool")
            case ast.Call("isnan", (x,)):
                shown = self._as(x, scope, type_of(x, scope, self.precision))
                return binary(shown, "!=", shown)
            case _:
                own = type_of(e, scope, self.precision)
                shown = self._own(e, scope, own)
                return shown if own == "bool" else binary(shown, "!=", self.literal(0, own))

    def _not(self, e: ast.Expr, scope: Scope) -> Code:
        """Whether a test fails; of whole numbers, whose comparison has an opposite, by that."""
        real, shown = self.precision, self.test(e, scope)
        match e, shown:
            case ast.Binary(op, a, b), Binary(_, x, y) if op in _OPPOSITE:
                if not is_real(join(type_of(a, scope, real), type_of(b, scope, real))):
                    return binary(x, _OPPOSITE[op], y)
        return Unary("!", shown)

    def rounds(self, e: ast.Expr, scope: Scope, t: Scalar) -> Code:
        """`e` in type `t`, which is rounded to bf16."""
        return replace(self, rounded=bool(self.coarse))._as(e, scope, t)

    def _own(self, e: ast.Expr, scope: Scope, t: Scalar) -> Code:
        """`e` in its own type `t`."""
        match e:
            case ast.Ref(ref, span):
                if ref not in scope:
                    raise PrintError(f"`{ref}` has no meaning in this kernel", span)
                return scope[ref].code
            case ast.Unary("-", x):
                return -self._as(x, scope, t)
            case ast.Binary(op, a, b) if t != "bool":
                return self._arithmetic(op, a, b, scope, t)
            case ast.Call(func, args, span) if func != "isnan":
                return self._call(func, args, scope, t, span)
            case _:
                return self.test(e, scope)

    def _arithmetic(self, op: str, a: ast.Expr, b: ast.Expr, scope: Scope, t: Scalar) -> Code:
        if op in ("*", "/") and b == _ONE:
            return self._as(a, scope, t)
        if op == "*" and a == _ONE:
            return self._as(b, scope, t)
        op, a, b = _signed(op, a, b)
        if op in {*"+-*/"}:
            return binary(self._beside(a, b, scope, t), op, self._beside(b, a, scope, t))
        if op == "%" and t == DType.I64 and b in _SLOTS and a in (ast.Ref("step"), ast.Ref("step") - 1):
            return call("nl_slot", self._as(a, scope, t), self._as(b, scope, t))
        if op in ("//", "%"):
            function = "floordiv" if op == "//" else "mod"
            t = DType.I64 if t in (DType.U32, DType.U64) else t
            return self.call(function, t, self._as(a, scope, t), self._as(b, scope, t))
        return self._power(a, b, scope, t)

    def _beside(self, e: ast.Expr, other: ast.Expr, scope: Scope, t: Scalar) -> Code:
        """`e` in type `t`, as an operand beside `other`: literals need no suffix for 64 bits that it has."""
        short = t == DType.I64 and _is_literal(e) and type_of(e, scope, self.precision) == DType.I32
        wide = short and not _is_literal(other) and type_of(other, scope, self.precision) == DType.I64
        return self._as(e, scope, DType.I32 if wide else t)

    def _power(self, a: ast.Expr, b: ast.Expr, scope: Scope, t: Scalar) -> Code:
        base, one = self._as(a, scope, t), self.literal(1, t)
        if isinstance(b, ast.Num) and float(b.value) in (0.5, -0.5) and is_real(t):
            root = self.call("sqrt", t, base)
            return root if b.value > 0 else one / root
        whole = isinstance(b, ast.Num) and float(b.value).is_integer()
        if whole and isinstance(b, ast.Num) and b.value == 0:
            return one
        if whole and isinstance(b, ast.Num) and 1 <= abs(b.value) <= _MOST_FACTORS and self._simple(a):
            product = factor = base
            for _ in range(int(abs(b.value)) - 1):
                product *= factor
            return one / product if b.value < 0 else product
        if not is_real(t):
            raise PrintError("an integer power of this size has no text", a.span)
        return self.call("pow", t, base, self._as(b, scope, t))

    @staticmethod
    def _simple(e: ast.Expr) -> bool:
        """Cheap enough to be duplicated (the compiler eliminates common subexpressions)."""
        return not any(isinstance(x, ast.Call) and x.func in RANDOM for x in ast.nodes(e))

    def _call(self, func: str, args: tuple[ast.Expr, ...], scope: Scope, t: Scalar, span: Span) -> Code:
        real = self.precision
        if func in RANDOM:
            at = cast("nl_u64", STEP)
            if func not in COUNTS and len(args) == 4 and isinstance(args[3], ast.Num):  # of a given step
                at, args = self.literal(args[3].value, DType.U64), args[:3]
            if len(args) != RANDOM[func]:
                raise PrintError(f"`{func}` needs {RANDOM[func]} arguments here", span)
            key, index, draw = (
                self._as(a, scope, k) for a, k in zip(args, (DType.U64, DType.U64, DType.U32), strict=False)
            )
            return self.call(func, real, key, index, at, draw, *(self._as(a, scope, real) for a in args[3:]))
        if func == LOOKUP:
            return self.call(func, t, *(self._as(a, scope, t) for a in args))
        if func == SHUFFLED:
            return cast("nl_i64", call("nl__shuffled_once", *(self._as(a, scope, DType.U64) for a in args)))
        if func in ("min", "max"):
            least = self._as(args[0], scope, t)
            for a in args[1:]:
                least = self.call(func, t, least, self._as(a, scope, t))
            return least
        if func in ("int", "float"):
            own = type_of(args[0], scope, real)
            shown = self._as(args[0], scope, own)
            return shown if own == t else cast(self.type_name(t), shown)
        if func == "relu":
            return self.call("max", t, self._as(args[0], scope, t), self.literal(0, t))
        if func == "heaviside":
            own = type_of(args[0], scope, real)
            return self._as(args[0], scope, own) >= self.literal(0, own)
        return self._elementary(func, args, scope, t)

    def _elementary(self, func: str, args: tuple[ast.Expr, ...], scope: Scope, t: Scalar) -> Code:
        """A function of the target. What is computed of its value is rounded to bf16, if that is; its arguments are
        not."""
        if func in FUNCTIONS and FUNCTIONS[func].machine == "whole" and not is_real(t):
            return self._as(args[0], scope, t)
        t = DType.I64 if t in (DType.U32, DType.U64) else t
        if func == ROUNDED:
            return self.call(func, t, self.rounds(args[0], scope, t))
        if func in self.coarse and self.rounded and t == DType.F32:
            func = f"coarse_{func}"
        exact = replace(self, rounded=False) if self.rounded else self
        return self.call(func, t, *(exact._as(a, scope, t) for a in args))


def _is_literal(e: ast.Expr) -> bool:
    """Whether it is a number, or one of several."""
    return isinstance(e, ast.Num) or (isinstance(e, ast.Cond) and _is_literal(e.then) and _is_literal(e.orelse))


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

    place: Code
    type: DType
    mode: l2.Mode
    inside: Code | None = None
    fill: float = 0.0

    @property
    def value(self) -> Code:
        """What a read finds."""
        if self.inside is None:
            return self.place
        return cond(self.inside, self.place, literal(self.fill, self.type))

    def guarded(self, statement: Stmt) -> Stmt:
        """A statement that is skipped out of bounds."""
        return statement if self.inside is None else when(self.inside, statement)

    @property
    def direct(self) -> bool:
        return self.mode is l2.Mode.ACCUMULATE


EmitPrinter = Callable[[l2.Emit, Scope], list[Stmt]]


def refuse_emit(statement: l2.Emit, scope: Scope) -> list[Stmt]:
    raise PrintError("events can only be emitted by a map over one dim", statement.span)


def symbols(types: Mapping[str, Scalar]) -> dict[str, Symbol]:
    """Names of which only the type matters."""
    return {n: Symbol(name(n), t) for n, t in types.items()}


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
            inner = {**scope, **symbols(found)}
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


@dataclass
class Body:
    """Straight-line code at one point of a loop nest: loads at first use, newest values in locals, stores last.

    `scope` maps names to symbols and grows; `elements` are the array formals that are reachable here. Assigned
    values stay in locals until `stores()`, so a second section (the epilogue) may follow the first.
    """

    dialect: Dialect
    scope: dict[str, Symbol]
    elements: Mapping[str, Element]
    namer: Namer
    emit: EmitPrinter = refuse_emit
    _types: dict[str, Scalar] = field(default_factory=dict)
    _written: list[str] = field(default_factory=list)
    _unnamed: dict[str, l2.Assign] = field(default_factory=dict)

    def finish(self, statements: Sequence[l2.Statement]) -> list[Stmt]:
        """The lines of the last `statements` and all stores. A value that no other statement reads or changes, of
        operands that stay as they are, is stored without a local."""
        targets = [s.target for s in statements if not isinstance(s, l2.Emit)]
        changed, read = set[str](), set[str]()  # by the statements behind
        for s in reversed(statements):
            used = statement_refs([s])
            stored = isinstance(s, l2.Assign) and s.target in self.elements and s.target not in self.scope
            if isinstance(s, l2.Assign) and stored and targets.count(s.target) == 1:
                self._unnamed |= {} if s.target in read or used & changed else {s.target: s}
            changed |= set() if isinstance(s, l2.Emit) else {s.target}
            read |= used
        return [*self.run(statements), *self.stores()]

    def run(self, statements: Sequence[l2.Statement]) -> list[Stmt]:
        """The lines of `statements`, loads included."""
        virtual = symbols({n: e.type for n, e in self.elements.items()})
        known = {**virtual, **self.scope}
        self._types |= infer_locals(statements, known, self.elements, self.dialect.precision)
        changed = {s.target for s in statements if not isinstance(s, l2.Emit)}
        lines: list[Stmt] = []
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

    def load(self, names: Iterable[str], changed: Iterable[str] = ()) -> list[Stmt]:
        """Loads of the formals among `names` that are not in locals yet, in the order of the formals."""
        wanted, lines = set(names), list[Stmt]()
        for n, e in self.elements.items():
            if n in wanted and n not in self.scope:
                local, t = self.namer(n), _held(e.type)
                const = n not in changed and e.mode is l2.Mode.READ
                lines.append(Let(self.dialect.type_name(t), local, e.value, const))
                self.scope[n] = Symbol(local, t)
        return lines

    def _assign(self, target: str, value: ast.Expr, span: Span) -> Stmt:
        element = self.elements.get(target)
        if element is not None and target not in self._written:
            self._written.append(target)
        if target in self.scope:
            symbol = self.scope[target]
            return Set(symbol.code, self.dialect.expr(value, self.scope, symbol.type), span=span)
        t = self._types[target] if element is None else _held(element.type)
        shown, local = self.dialect.expr(value, self.scope, t), self.namer(target)
        self.scope[target] = Symbol(local, t)
        return Let(self.dialect.type_name(t), local, shown, False, span)

    def _add(self, target: str, value: ast.Expr, span: Span, changed: set[str]) -> list[Stmt]:
        element = self.elements.get(target)
        if element is None:
            raise PrintError(f"`{target}` is not an array that can be added to", span)
        if not element.direct:
            lines = self.load([target], changed)
            if target not in self._written:
                self._written.append(target)
            shown = self.dialect.expr(value, self.scope, element.type)
            return [*lines, Set(self.scope[target].code, shown, "+=", span)]
        shown = self.dialect.expr(value, self.scope, element.type)
        if add := self.dialect.add:
            return [element.guarded(Do(call(add.format(element.type), form("&{}", element.place), shown), span))]
        return [element.guarded(Set(element.place, shown, "+=", span))]

    def stored(self) -> list[Stmt]:
        """The stores of what has been assigned since the last ones."""
        lines = self.stores()
        self._written.clear()
        return lines

    def stores(self) -> list[Stmt]:
        """Stores of every assigned array formal, in the order of the formals."""
        lines = list[Stmt]()
        for n, e in self.elements.items():
            if n not in self._written:
                continue
            span = NOWHERE
            if unnamed := self._unnamed.get(n):
                span, value = unnamed.span, unnamed.value
                shown = self.dialect.expr(value, self.scope, _held(e.type))
            else:
                shown = self.scope[n].code
            if e.type == DType.U8:
                shown = cast("nl_u8", shown)
            lines.append(e.guarded(Set(e.place, shown, span=span)))
        return lines


def _held(t: Scalar) -> Scalar:
    """The type of a local that holds an element."""
    return DType.I32 if t == DType.U8 else t
