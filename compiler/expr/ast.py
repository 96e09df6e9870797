"""The expression tree shared by all IR levels, and its text: a small pure language.

Assumes: nothing about where names come from; `Ref.name` is bound by the level that holds the tree.
Guarantees: frozen, hashable, structurally comparable; spans are outside equality. Numbers are already in canonical
units (see compiler/expr/units.py) once `check_units` has run; before that a `Quantity` may stand. Trees are DAGs:
sub-expressions may be shared (named expressions and functions substituted several times); traversals in this folder
take time linear in distinct nodes, not in paths.
`parse_expr(show(e))` gives a tree equal to `e` when every number in it is finite; parentheses stand only where they are
needed (and around a quantity that is raised to a power, for the reader).
Does not: evaluate or type (see interp, types), or know C, numpy or any other target's syntax.

Grammar (a subset of Python's): numbers, quantities (`20 ms` in source), names, dotted names (`post.y`),
`+ - * / // % **`, unary `-`/`+`, comparisons (chains become `and`), `and or not`, `a if c else b`, calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from compiler.core.source import NOWHERE, Span


def _method(op: str, swapped: bool = False) -> Callable[[Node, Operand], Binary]:
    """`self op other`; `swapped`: `other op self`."""
    if swapped:
        return lambda self, other: Binary(op, _operand(other), _operand(self))
    return lambda self, other: Binary(op, _operand(self), _operand(other))


class Node:
    """Operators that build trees: `a * b + 1`, `a < b`, `a & b`, `a | b`, `~a`; `a.eq(b)` and `a.ne(b)`, as `==`
    compares the trees themselves. A Python number stands for a `Num`; on the left of a comparison it has to be one."""

    __add__, __radd__ = _method("+"), _method("+", True)
    __sub__, __rsub__ = _method("-"), _method("-", True)
    __mul__, __rmul__ = _method("*"), _method("*", True)
    __truediv__, __rtruediv__ = _method("/"), _method("/", True)
    __floordiv__, __mod__, __pow__ = _method("//"), _method("%"), _method("**")
    __lt__, __le__, __gt__, __ge__ = _method("<"), _method("<="), _method(">"), _method(">=")
    eq, ne = _method("=="), _method("!=")
    __and__, __or__ = _method("and"), _method("or")

    def __neg__(self) -> Unary:
        return Unary("-", _operand(self))

    def __invert__(self) -> Unary:
        return Unary("not", _operand(self))


@dataclass(frozen=True)
class Num(Node):
    """A number. `value` is int when it was written without point and exponent, else float."""

    value: int | float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Bool(Node):
    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Quantity(Node):
    """A number with a unit as written, e.g. 20 and "ms". Erased to Num by check_units."""

    value: int | float
    unit: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ref(Node):
    """A name; dots are part of it (`post.y`)."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class _Inner(Node):
    """Structural equality and hash of inner nodes, spans excluded, in time linear in distinct nodes. Hashes are cached
    per node."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(self, Unary | Binary | Cond | Call) and isinstance(other, Unary | Binary | Cond | Call)
        return same(self, other, lambda x, y: x == y)

    def __hash__(self) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            assert isinstance(self, Unary | Binary | Cond | Call)
            known = hash((type(self), _word(self), children(self)))
            object.__setattr__(self, "_hash", known)
        return known


@dataclass(frozen=True, eq=False)
class Unary(_Inner):
    op: str  # "-" | "not"
    operand: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Binary(_Inner):
    op: str  # "+" "-" "*" "/" "//" "%" "**" | "<" "<=" ">" ">=" "==" "!=" | "and" "or"
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Cond(_Inner):
    """`then if test else orelse`; both arms may be evaluated (all expressions are pure)."""

    test: Expr
    then: Expr
    orelse: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Call(_Inner):
    """A call of a known function (compiler/expr/functions.py) or, before inlining, of the file's own."""

    func: str
    args: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Num | Bool | Quantity | Ref | Unary | Binary | Cond | Call
Operand = Node | float
"""What stands beside an operator: an expression or a Python number."""

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
LOGICAL = frozenset({"and", "or"})


def _operand(x: Operand) -> Expr:
    return x if isinstance(x, Expr) else Num(cast("float", x))


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


def _word(e: Expr) -> str:
    """The operator or function of an inner node."""
    match e:
        case Unary(op, _) | Binary(op, _, _) | Call(op, _):
            return op
        case _:
            return ""


def same(a: Expr, b: Expr, leaf: Callable[[Expr, Expr], bool]) -> bool:
    """Whether `a` and `b` have the same structure and `leaf` holds for their leaves."""
    seen: set[tuple[int, int]] = set()
    stack = [(a, b)]
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        if type(x) is not type(y):
            return False
        if not isinstance(x, _Inner):
            if not leaf(x, y):
                return False
            continue
        pair = (id(x), id(y))
        if pair in seen:
            continue
        seen.add(pair)
        left, right = children(x), children(y)
        if _word(x) != _word(y) or len(left) != len(right):
            return False
        stack.extend(zip(left, right, strict=True))
    return True


def nodes(e: Expr) -> Iterator[Expr]:
    """The distinct nodes of `e`, each once, `e` first."""
    seen: set[int] = set()
    stack: list[Expr] = [e]
    while stack:
        x = stack.pop()
        kids = children(x)
        if kids:
            if id(x) in seen:
                continue
            seen.add(id(x))
            stack.extend(kids)
        yield x


def refs(e: Expr) -> set[str]:
    """Every name that `e` refers to, which is kept with it."""
    known: frozenset[str] | None = e.__dict__.get("_refs")
    if known is None:
        known = frozenset(x.name for x in nodes(e) if isinstance(x, Ref))
        object.__setattr__(e, "_refs", known)
    return set(known)


def calls(e: Expr) -> set[str]:
    """Every function that `e` calls."""
    return {x.func for x in nodes(e) if isinstance(x, Call)}


def extent(e: Expr) -> tuple[int, int]:
    """The number of nodes of `e` expanded to a tree (shared nodes counted every time), and its depth."""
    known: dict[int, tuple[int, int]] = {}
    stack: list[Expr] = [e]
    while stack:
        x = stack[-1]
        if id(x) in known:
            stack.pop()
            continue
        kids = children(x)
        waiting = [k for k in kids if id(k) not in known]
        if waiting:
            stack.extend(waiting)
            continue
        parts = [known[id(k)] for k in kids]
        known[id(x)] = (1 + sum(n for n, _ in parts), 1 + max((d for _, d in parts), default=0))
        stack.pop()
    return known[id(e)]


def rewrite(e: Expr, fn: Callable[[Expr], Expr], *, top_down: bool = False, shared: bool = True) -> Expr:
    """`e` with `fn` applied to each node, bottom up; `top_down`: before its children, which are not visited when `fn`
    returned another node. Unchanged structure is shared, not copied, and sharing is preserved; with `shared=False`,
    `fn` is called for every occurrence (each draw needs a distinct number)."""
    done: dict[int, Expr] = {}

    def changed(x: Expr) -> Expr:
        kids = children(x)
        if not kids:
            return fn(x)
        result = done.get(id(x)) if shared else None
        if result is None:
            result = fn(x) if top_down else x
            if result is x:
                new = tuple(changed(k) for k in kids)
                result = x if all(a is b for a, b in zip(kids, new, strict=True)) else with_children(x, new)
                result = result if top_down else fn(result)
            done[id(x)] = result
        return result

    return changed(e)


def substitute(e: Expr, bindings: Mapping[str, Expr]) -> Expr:
    """`e` with names replaced; unchanged structure is shared, not copied."""
    return rewrite(e, lambda x: bindings.get(x.name, x) if isinstance(x, Ref) else x)


_COND, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 11)

_BINARY: Final = {
    **{"or": _OR, "and": _AND, "**": _POWER, "+": _SUM, "-": _SUM},
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARE),
    **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT),
}


def show(e: Expr) -> str:
    """`e` in the notation in which users write it, e.g. `(v_rest - v + ge) / tau_m`."""
    return _show(e)[0]


def show_number(value: int | float) -> str:
    """A number so that reading it back gives the same bits."""
    return repr(value)


def shorten(e: Expr, width: int = 40) -> str:
    """`show(e)`, truncated to `width` characters for use in a message."""
    text = show(e)
    return text if len(text) <= width else text[: width - 3] + "..."


def _inside(e: Expr, least: int) -> str:
    text, precedence = _show(e)
    return text if precedence >= least else f"({text})"


def _show(e: Expr) -> tuple[str, int]:
    """The text of `e` and the precedence of its outermost operator."""
    match e:
        case Num(value):
            text = show_number(value)
            return text, _SIGN if text.startswith("-") else _ATOM
        case Bool(value):
            return ("true" if value else "false"), _ATOM
        case Quantity(value, unit):
            text = f"{show_number(value)} {unit}"
            return text, _SIGN if text.startswith("-") else _POWER
        case Ref(name):
            return name, _ATOM
        case Unary("not", x):
            return f"not {_inside(x, _NOT)}", _NOT
        case Unary(op, x):
            # `-2` reads back as one number, so a separate minus needs the parentheses
            literal = isinstance(x, Num | Quantity)
            return (f"{op}({show(x)})" if literal else op + _inside(x, _SIGN)), _SIGN
        case Binary("**", a, b):
            return f"{_inside(a, _ATOM)} ** {_inside(b, _SIGN)}", _POWER
        case Binary(op, a, b):
            precedence = _BINARY[op]
            # comparisons do not associate: `a < b < c` means something else
            left = precedence + 1 if precedence == _COMPARE else precedence
            return f"{_inside(a, left)} {op} {_inside(b, precedence + 1)}", precedence
        case Cond(test, then, orelse):
            arms = f"{_inside(then, _OR)} if {_inside(test, _OR)} else {_inside(orelse, _COND)}"
            return arms, _COND
        case Call(func, args):
            return f"{func}({', '.join(show(a) for a in args)})", _ATOM
