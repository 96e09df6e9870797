"""Whether the statements of a closed kernel are well formed.

Assumes: statements of backends/kernel_ir. Names of a target's own begin with nl_, NL_ or two underscores, or are in
TARGET.
Guarantees: `faults` tells of each variable that is used where it is not declared, or declared twice in a scope; of
loads and stores of elements where there are none; of stores to constants; of real numbers that become whole without a
cast.
Does not: know what functions return, beyond the type in their names; or read the text of frames: what these print is
known behind them and in their holes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

from backends.kernel_ir.expr import Operand, names_in
from backends.kernel_ir.stmt import Closure, Each, For, Frame, If, Let, Set, Stmt, Struct, While
from backends.kernel_ir.tree import COND, SUM, Binary, Call, Cast, Code, Group, Index, Number, Select, Unary, Variable

_TARGET = """ctx self rows last lo hi step real float double int const true false threadIdx blockDim atomic_inc barrier
    get_global_id get_global_size get_local_id get_local_size CLK_GLOBAL_MEM_FENCE"""
TARGET: Final = frozenset({"", *_TARGET.split()})
_OWN: Final = ("nl_", "NL_", "__", "const ", "(")


class Value(Enum):
    """What a number is."""

    WHOLE = 1
    REAL = 2
    OTHER = 3
    """Not known, or none: a structure, a pointer."""


_WORDS: Final = {
    **dict.fromkeys(["bool", "char", "int", "nl_i8", "nl_u8", "nl_i32", "nl_u32", "nl_i64", "nl_u64"], Value.WHOLE),
    **dict.fromkeys(["real", "float", "double"], Value.REAL),
}


@dataclass(frozen=True)
class Type:
    """Of a variable: its `value`, or that of its elements (`many`: it is a pointer or an array); `const`: whether none
    is stored to it or them."""

    value: Value
    many: bool = False
    const: bool = False


_ANY: Final = Type(Value.OTHER, True)


@cache
def type_of(text: str, array: bool = False) -> Type:
    """The type that a declaration says."""
    before, star, after = text.replace("&", " ").partition("*")
    words = before.split()
    value = next((_WORDS[x] for x in words if x in _WORDS), Value.OTHER)
    if value is Value.OTHER or "*" in after:
        return _ANY
    return Type(value, bool(star) or array, "const" in words)


class _Check:
    """The faults of statements; `known`: variables in scope."""

    def __init__(self) -> None:
        self.known: dict[str, Type] = {}
        self.found: list[str] = []

    def all(self, statements: Iterable[Stmt], own: dict[str, Type]) -> None:
        """Statements of a scope that begins with the variables `own`."""
        outer, here = self.known, set(own)
        self.known = outer | own
        for s in statements:
            self.one(s, here)
        self.known = outer

    def one(self, s: Stmt, here: set[str]) -> None:
        match s:
            case Let():
                for x in (s, *s.beside):
                    self.declare(x, here)
                return
            case Set(target, value):
                self.stores(target, value)
            case Struct(name=name) if name is not None:
                self.known |= dict.fromkeys(name.names, _ANY)
                return
            case Frame(names=names, holes=holes):  # one of which may use what another one declares
                inside = [x.name.names for hole in holes.values() for x in hole if isinstance(x, Let)]
                self.known |= {n: _ANY for n in names.union(*inside) if n not in self.known}
        own = {s.var.text: type_of(getattr(s, "type", "int"))} if isinstance(s, For | Each) else {}
        bodies = list(s.bodies)
        if isinstance(s, Closure):
            own, bodies = {x.name.text: type_of(x.typed) for x in s.params}, [s.body]
        if not bodies:
            self.uses(s.mentions)
        for body in bodies:
            self.all(body, own)
        if isinstance(s, For):
            self.uses(names_in(s.first, s.end, s.by, s.test) - own.keys())
        elif isinstance(s, If | While):
            self.uses(names_in(s.test))

    def declare(self, x: Let, here: set[str]) -> None:
        name, array = (x.name.array, True) if isinstance(x.name, Index) else (x.name, False)
        self.uses(names_in(x.value, *x.name.parts[1:]))
        if name.text in here:
            self.found.append(f"`{name}` is declared twice")
        here.add(name.text)
        kind = type_of(x.typed, array)
        if x.value is not None:
            self.fits(x.name, kind.value if not kind.many else Value.OTHER, x.value)
        self.known[name.text] = kind

    def stores(self, target: Code, value: Operand) -> None:
        element = isinstance(target, Index)
        kind = self.known.get((target.array if isinstance(target, Index) else target).text, _ANY)
        if kind.many is not element:
            if element:
                self.found.append(f"`{target}` is an element of what has none")
            return
        if kind.const:
            self.found.append(f"`{target}` is constant")
        self.fits(target, kind.value, value)

    def fits(self, target: Code, kind: Value, value: Operand) -> None:
        """Whether a value may be stored: an element is one, and a real number becomes whole by a cast."""
        match value:
            case Index(Variable(name)) if not self.known.get(name, _ANY).many:
                self.found.append(f"`{value}` is an element of what has none")
        if kind is Value.WHOLE and isinstance(value, Code) and self.value(value) is Value.REAL:
            self.found.append(f"`{target}` is a whole number, and `{value}` is not")

    def uses(self, names: Iterable[str]) -> None:
        for name in names:
            if not (name in self.known or name in TARGET or name.startswith(_OWN) or name.endswith("*")):
                self.found.append(f"`{name}` is not declared")

    def value(self, x: Code) -> Value:
        """What an expression is."""
        match x:
            case Variable(name):
                kind = self.known.get(name, _ANY)
                return Value.OTHER if kind.many else kind.value
            case Number():
                return Value.REAL if x.type.is_real else Value.WHOLE
            case Index(Variable(name)):
                return self.known.get(name, _ANY).value
            case Cast(kind):
                return type_of(kind).value if "*" not in kind else Value.OTHER
            case Group(of) | Unary("-", of):
                return self.value(of)
            case Binary(_, a, b) | Select(_, a, b) if x.level >= SUM or x.level == COND:
                both = {self.value(a), self.value(b)}
                return Value.REAL if Value.REAL in both else Value.OTHER if Value.OTHER in both else Value.WHOLE
            case Call(Variable(name)) if name.endswith(("_f32", "_f64")):
                return Value.REAL
        return Value.OTHER


def faults(statements: Iterable[Stmt], given: Iterable[str] = ()) -> list[str]:
    """What is wrong with the statements of a closed kernel. `given`: parameters, and other functions of its file."""
    found = _Check()
    found.known = dict.fromkeys(given, _ANY)
    found.all(statements, {})
    return list(dict.fromkeys(found.found))
