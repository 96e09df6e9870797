"""The expression tree shared by all IR levels: a small pure language.

Assumes: nothing about where names come from; `Ref.name` is bound by the level that holds the tree.
Guarantees: frozen, hashable, structurally comparable; spans are outside equality. Numbers are already in
canonical units (see compiler/expr/units.py) once `check_units` has run; before that a `Quantity` may stand.
Does not: evaluate, type or print (see interp, types, show).

Grammar (a subset of Python's): numbers, quantities (`20 ms` in source), names, dotted names (`post.y`),
`+ - * / // % **`, unary `-`/`+`, comparisons (chains become `and`), `and or not`, `a if c else b`, calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.source import NOWHERE, Span


@dataclass(frozen=True)
class Num:
    """A number. `value` is int when it was written without point and exponent, else float."""

    value: int | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Bool:
    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Quantity:
    """A number with a unit as written, e.g. 20 and "ms". Erased to Num by check_units."""

    value: int | float
    unit: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ref:
    """A name; dots are part of it (`post.y`)."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Unary:
    op: str  # "-" | "not"
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Binary:
    op: str  # "+" "-" "*" "/" "//" "%" "**" | "<" "<=" ">" ">=" "==" "!=" | "and" "or"
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Cond:
    """`then if test else orelse`; both arms may be evaluated (all expressions are pure)."""

    test: Expr
    then: Expr
    orelse: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Call:
    """A call of a known function (compiler/expr/functions.py) or, before inlining, of the file's own."""

    func: str
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Num | Bool | Quantity | Ref | Unary | Binary | Cond | Call

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
LOGICAL = frozenset({"and", "or"})
ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "**"})


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions of `e`, in order."""
    match e:
        case Unary(_, x):
            return (x,)
        case Binary(_, a, b):
            return (a, b)
        case Cond(t, a, b):
            return (t, a, b)
        case Call(_, args):
            return args
        case _:
            return ()


def with_children(e: Expr, new: tuple[Expr, ...]) -> Expr:
    """`e` with its direct subexpressions replaced (same number, same order)."""
    match e:
        case Unary(op, _, span):
            return Unary(op, new[0], span)
        case Binary(op, _, _, span):
            return Binary(op, new[0], new[1], span)
        case Cond(_, _, _, span):
            return Cond(new[0], new[1], new[2], span)
        case Call(func, _, span):
            return Call(func, new, span)
        case _:
            return e


def refs(e: Expr) -> set[str]:
    """Every name that `e` refers to."""
    found: set[str] = set()
    stack: list[Expr] = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Ref):
            found.add(x.name)
        else:
            stack.extend(children(x))
    return found


def substitute(e: Expr, bindings: dict[str, Expr]) -> Expr:
    """`e` with names replaced; structure that does not change is shared, not copied."""
    if isinstance(e, Ref):
        return bindings.get(e.name, e)
    kids = children(e)
    if not kids:
        return e
    new = tuple(substitute(k, bindings) for k in kids)
    return e if all(a is b for a, b in zip(kids, new, strict=True)) else with_children(e, new)
