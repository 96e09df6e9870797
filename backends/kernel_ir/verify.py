"""Whether a kernel is well formed: its variables are declared once, and values fit what they are stored to.

Assumes: statements of stmt.py. Names of a target's own begin with nl_, NL_ or two underscores, or are in TARGET;
functions `nl_<what>_<type>` have that type.
Guarantees: `verify` raises InternalError with the kernel's name and those of variables, before a compiler of the target
could complain: of variables that are used where they are not declared, or declared twice in a scope; of elements of
what has none, of stores to constants, of real numbers that become whole, or lose precision, without a cast, and of
pointers to other elements.
Does not: know what other functions return, look at the ranges of whole numbers, or read the text of frames: what these
name is known behind them and in their holes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import backends.kernel_ir.tree as tree
from backends.kernel_ir.expr import Operand
from backends.kernel_ir.stmt import Closure, Definition, Do, Each, For, Frame, Let, Set, Stmt, Struct
from backends.kernel_ir.types import REAL, UNKNOWN, Type, join, typed, wider
from compiler.ir.space import DType
from compiler.verify.violations import check

_NAMES: Final = """ctx self rows last lo hi step real float double int const true false threadIdx blockDim barrier
    CLK_GLOBAL_MEM_FENCE"""
_FUNCTIONS: Final = """nl_append nl_bits_of nl_earlier nl_in_slot nl_inverse nl_later nl_least nl_rest nl_slot nl_take
    atomic_inc get_global_id get_global_size get_local_id get_local_size"""
WHOLE: Final = frozenset(_FUNCTIONS.split())
"""Functions of whole numbers."""
TARGET: Final = WHOLE.union(["", *_NAMES.split()])
_OWN: Final = ("nl_", "NL_", "__")
_TRUTH, _INT, _STEP = Type("bool"), Type(DType.I32), typed("nl_i64")
_BY_NAME: Final = {f"_{t}": Type(t) for t in DType if len(t) == 3}
_FIELDS: Final = {
    "nl_t": dict.fromkeys(["step", "chunk", "group"], _STEP),
    "nl_me": dict.fromkeys(["part", "parts"], _STEP),
    "threadIdx": {"x": _STEP},
    "blockDim": {"x": _STEP},
}
_TESTS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "&&", "||"})
_WHOLE_ONLY: Final = frozenset({"%", "<<", ">>", "&", "|"})


class _Verifier:
    """The faults of statements; `known`: variables in scope, `fields`: of structures, by their names."""

    def __init__(self, precision: DType, functions: Iterable[str]) -> None:
        self.real = Type(precision)
        self.functions = frozenset(functions)
        self.known: dict[str, Type] = {"step": _STEP}
        self.fields: dict[str, dict[str, Type]] = dict(_FIELDS)
        self.found: dict[str, None] = {}
        self.how: dict[type, Callable[[Any], Type]] = {
            tree.Number: lambda x: Type(x.type),
            tree.Index: self.element,
            tree.Place: self.element,
            tree.Member: self.field,
            tree.Binary: self.binary,
            tree.Unary: self.unary,
            tree.Select: self.select,
            tree.Cast: self.cast,
            tree.Call: self.called,
            tree.After: lambda x: self.value(x.of),
        }

    def fault(self, text: str) -> None:
        self.found.setdefault(text)

    def resolved(self, x: Type) -> Type:
        """The type with the precision of the program."""
        return replace(x, number=self.real.number) if x.number == REAL else x

    # -------------------------------------------------------------------------------------- statements

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
            case Set(target, value):
                self.stores(target, value)
            case Struct():
                self.structure(s)
            case For():
                self.loop(s)
            case Each(var, _, body):
                self.all(body, {var.text: _INT})
            case Closure(params=params, body=body) | Definition(params=params, body=body):
                self.all(body, {x.name.text: self.declared(x) for x in params})
            case _:
                if isinstance(s, Frame):
                    self.frame(s)
                for field in s.TREES:
                    self.value(getattr(s, field))
                for body in s.bodies:
                    self.all(body, {})

    def frame(self, s: Frame) -> None:
        """One hole may use what another one declares."""
        inside = [x.name.names for hole in s.holes.values() for x in hole if isinstance(x, Let)]
        self.known |= {n: UNKNOWN for n in s.names.union(*inside) if n not in self.known}

    def loop(self, s: For) -> None:
        self.value(s.var if s.first is None else s.first)
        own = {} if s.first is None else {s.var.text: self.resolved(typed(s.type))}
        steps = [] if s.by is None else [Set(s.var, s.by, s.op)]
        self.all([*(Do(x) for x in (s.end, s.test) if x is not None), *steps, *s.then], own)
        self.all(s.body, own)

    def declare(self, x: Let, here: set[str]) -> None:
        name = x.name.array if isinstance(x.name, tree.Index) else x.name
        if isinstance(x.name, tree.Index):
            self.whole(x.name.at)
        if name.text in here:
            self.fault(f"`{name}` is declared twice")
        here.add(name.text)
        kind = self.declared(x)
        if x.value is not None:
            self.fits(x.name, UNKNOWN if isinstance(x.name, tree.Index) else kind, x.value)
        self.known[name.text] = kind

    def declared(self, x: Let) -> Type:
        """The type of a variable, whose fields are known from now on, if that is a structure."""
        kind = x.declares
        for structure in kind.names & self.fields.keys():
            self.fields[x.name.text.partition("[")[0]] = self.fields[structure]
        return self.resolved(kind)

    def structure(self, s: Struct) -> None:
        fields = {x.name.text: self.resolved(x.declares) for let in s.fields for x in (let, *let.beside)}
        if s.head.startswith("struct") or s.head.startswith("typedef"):  # of a row, which is `self`
            self.fields["self"] = fields
        self.value(s.value)
        name = s.name.array if isinstance(s.name, tree.Index) else s.name
        for head in (s.head.split()[-1], *(name.names if name else ())):
            self.fields[head] = fields
        if name is not None:
            self.known[name.text] = UNKNOWN

    def stores(self, target: tree.Code, value: Operand) -> None:
        kind = self.value(target)
        held = self.value(target.array) if isinstance(target, tree.Index) else kind
        if held.fixed and not kind.many and (held.many or held is kind):
            self.fault(f"`{target}` is constant")
        self.fits(target, kind, value)

    def fits(self, target: tree.Code, kind: Type, value: Operand) -> None:
        """Whether a value may be stored in a variable or an element of a type. Elements of bf16 round what they are
        given."""
        found = self.value(value)
        if not (kind.known and found.known):
            return
        if kind.many != found.many or (kind.many and kind.number != found.number):
            self.fault(f"`{target}` and `{value}` are no pointers to the same")
        elif kind.many:
            if found.fixed and not kind.fixed:
                self.fault(f"`{target}` is no pointer to constants, and `{value}` is")
        elif found.real and not kind.real:
            self.fault(f"`{target}` is a whole number, and `{value}` is not")
        elif kind.real and found.real and kind.number != DType.BF16 and wider(found.number, kind.number):
            self.fault(f"`{target}` is {kind.number}, and `{value}` is {found.number}")

    # ------------------------------------------------------------------------------------- expressions

    def whole(self, x: tree.Code) -> Type:
        """The type of an index, or of an operand of what real numbers have not."""
        if (kind := self.value(x)).known and (kind.real or kind.many):
            self.fault(f"`{x}` is no whole number")
        return kind

    def value(self, x: Operand | None) -> Type:
        """The type of an expression, whose parts are looked at."""
        if isinstance(x, tree.Variable):
            return self.known.get(x.name) or self.other(x.name)
        how = self.how.get(type(x))
        if how is not None:
            return how(x)
        for part in x.parts if isinstance(x, tree.Code) else ():
            self.value(part)
        return _TRUTH if isinstance(x, tree.Every) else UNKNOWN

    def other(self, name: str) -> Type:
        """Of what is not declared here."""
        if not (name in TARGET or name.startswith(_OWN) or name in self.functions):
            self.fault(f"`{name}` is not declared")
        return _BY_NAME.get(name[-4:].lower(), UNKNOWN)

    def element(self, x: tree.Index) -> Type:
        kind = self.value(x.array)
        self.whole(x.at)
        if kind.known and not kind.many:
            self.fault(f"`{x}` is an element of what has none")
        return kind.element

    def field(self, x: tree.Member) -> Type:
        self.value(x.of)
        held = x.of.array if isinstance(x.of, tree.Index) else x.of
        return self.fields.get(held.text, {}).get(x.field, UNKNOWN)

    def unary(self, x: tree.Unary) -> Type:
        kind = self.value(x.of)
        if x.op in "&*":
            return kind.array if x.op == "&" and kind.known else UNKNOWN
        return _TRUTH if x.op == "!" else kind

    def cast(self, x: tree.Cast) -> Type:
        self.value(x.of)
        return self.resolved(x.type)

    def select(self, x: tree.Select) -> Type:
        self.value(x.test)
        return self.either(self.value(x.then), self.value(x.orelse))

    def either(self, a: Type, b: Type) -> Type:
        if a.many or b.many:
            return a if a.many else b
        return join(a, b)

    def binary(self, x: tree.Binary) -> Type:
        op = x.op
        operand = self.whole if op in _WHOLE_ONLY else self.value
        both = self.either(operand(x.left), operand(x.right))
        if op in _TESTS:
            return _TRUTH
        if both.many and op not in "+-":
            self.fault(f"`{x}` is no number")
        return both

    def called(self, x: tree.Call) -> Type:
        """Arguments of functions of a type are of this type, or whole."""
        self.value(x.function)
        kinds = [self.value(part) for part in x.args]
        function = x.function.text
        kind = _BY_NAME.get(function[-4:]) if function.startswith("nl_") else None
        if kind is None:
            return _STEP if function in WHOLE else UNKNOWN
        for part, own in zip(x.args, kinds, strict=True):
            if own.real and not own.many and (not kind.real or wider(own.number, kind.number)):
                self.fault(f"`{part}` is {own.number}, for `{function}`")
        return kind


def faults(statements: Iterable[Stmt], precision: DType, functions: Iterable[str] = ()) -> list[str]:
    """What is wrong with statements. `functions`: others of their file."""
    found = _Verifier(precision, functions)
    found.all(statements, {})
    return list(found.found)


def verify(kernel: str, statements: Sequence[Stmt], precision: DType) -> None:
    """The structures and functions of a kernel of this name."""
    functions = [s.head.split()[-1] for s in statements if isinstance(s, Definition)]
    check(f"kernel `{kernel}`", faults(statements, precision, functions))
