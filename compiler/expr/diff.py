"""Symbolic derivatives, and the coefficients of affine expressions.

Assumes: a tree without the file's own functions (inline.py); names do not depend on each other.
Guarantees: the derivative holds wherever it exists. At kinks it is PyTorch's: relu'(0) = 0, abs'(0)
= 0, ties of min and max share the gradient equally, clip passes it at both bounds, rounding and
steps have derivative 0.
Does not: differentiate random draws (a second evaluation would draw again), or know surrogate
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Final

from compiler.diagnostics import Sink
from compiler.expr.ast import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Bool,
    Call,
    Cond,
    Expr,
    Num,
    Quantity,
    Ref,
    Unary,
    children,
    refs,
    substitute,
)
from compiler.expr.functions import FUNCTIONS
from compiler.expr.parse import parse_expr
from compiler.expr.simplify import has_random, simplify
from compiler.source import NOWHERE, Span


class NotDifferentiable(Exception):
    """A derivative was asked for that does not exist; report it as E0305 with `message` at
    `span`."""

    code = "E0305"

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def diff(e: Expr, name: str) -> Expr:
    """The partial derivative of `e` by `name`, simplified under the assumption of finite values.

    Raises NotDifferentiable (E0305) when a part that depends on `name` also draws random numbers or
    calls a function that is not in functions.py, and when the derivative would be too deep a tree.
    """
    try:
        result = simplify(_diff(e, name), finite=True)
        fits = _depth(result) <= _DEEPEST
    except RecursionError:
        fits = False
    if not fits:
        raise NotDifferentiable("the derivative of this expression is nested too deeply", e.span)
    return result


_DEEPEST: Final = 300  # every stage recurses over the tree


def _depth(e: Expr) -> int:
    """The number of nodes on the longest path from `e` to a leaf."""
    deepest = 0
    stack = [(e, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        stack.extend((k, depth + 1) for k in children(node))
    return deepest


_ZERO: Final[Expr] = Num(0)
_ONE: Final[Expr] = Num(1)


def _diff(e: Expr, name: str) -> Expr:
    if name not in refs(e):
        return _ZERO
    match e:
        case Ref():
            return _ONE
        case Unary("-", x):
            return _negative(_diff(x, name))
        case Binary(op, _, _) if op in COMPARISONS or op in LOGICAL:
            return _ZERO
        case Binary(op, a, b, span):
            if has_random(e):
                _refuse_random(e)
            return _operator(op, a, b, name, span)
        case Cond(test, then, orelse, span):
            if has_random(test):
                _refuse_random(e)
            return _choice(test, _diff(then, name), _diff(orelse, name), span)
        case Call(func, args, span):
            if has_random(e):
                _refuse_random(e)
            return _call(func, args, name, span)
        case _:
            return _ZERO


def _refuse_random(e: Expr) -> None:
    raise NotDifferentiable("an expression that draws random numbers has no derivative", e.span)


def _operator(op: str, a: Expr, b: Expr, name: str, span: Span) -> Expr:
    da, db = _diff(a, name), _diff(b, name)
    match op:
        case "+":
            return _sum(da, db)
        case "-":
            return _difference(da, db)
        case "*":
            return _sum(_product(da, b), _product(a, db))
        case "/":
            if db == _ZERO:
                return Binary("/", da, b, span) if da != _ZERO else _ZERO
            # (a / b)' = (a' - (a / b) b') / b
            return Binary("/", _difference(da, _product(Binary("/", a, b, span), db)), b, span)
        case "//":
            return _ZERO
        case "%":
            return _difference(da, _product(Binary("//", a, b, span), db))
        case "**":
            return _power(a, b, da, db, span)
    raise AssertionError(op)


def _power(a: Expr, b: Expr, da: Expr, db: Expr, span: Span) -> Expr:
    by_base: Expr = _ZERO
    if da != _ZERO:
        if isinstance(b, Num):
            lower: Expr = Num(b.value - 1)
        else:
            lower = Binary("-", b, _ONE)
        power = a if lower == _ONE else _ONE if lower == _ZERO else Binary("**", a, lower, span)
        by_base = _product(_product(b, power), da)
    by_exponent: Expr = _ZERO
    if db != _ZERO:
        slope = _product(Binary("**", a, b, span), Call("log", (a,), span))
        if not (isinstance(a, Num) and a.value > 0):
            # at a = 0 the power is constant in b > 0, but 0 * log(0) is nan
            slope = Cond(Binary("==", a, _ZERO), _ZERO, slope)
        by_exponent = _product(slope, db)
    return _sum(by_base, by_exponent)


def _call(func: str, args: tuple[Expr, ...], name: str, span: Span) -> Expr:
    known = FUNCTIONS.get(func)
    if known is None or not known.accepts(len(args)):
        raise NotDifferentiable(f"the derivative of `{func}` is not known", span)
    slopes = [_diff(a, name) for a in args]
    if func == "where":
        return _choice(args[0], slopes[1], slopes[2], span)
    if func in ("min", "max"):
        return _extreme(func, args, slopes, span)
    if known.derivatives is None:
        raise NotDifferentiable(f"`{func}` has no derivative", span)
    bindings = dict(zip(known.parameters, args, strict=True))
    total: Expr = _ZERO
    for text, slope in zip(known.derivatives, slopes, strict=True):
        if slope != _ZERO:
            total = _sum(total, _product(substitute(_rule(text), bindings), slope))
    return total


def _extreme(func: str, args: tuple[Expr, ...], slopes: list[Expr], span: Span) -> Expr:
    value, slope = args[0], slopes[0]
    for x, dx in zip(args[1:], slopes[1:], strict=True):
        if slope != dx:
            wins, loses = (">", "<") if func == "max" else ("<", ">")
            tie = _product(Num(0.5), _sum(slope, dx))
            rest = _choice(Binary(loses, value, x, span), dx, tie, span)
            slope = _choice(Binary(wins, value, x, span), slope, rest, span)
        value = Call(func, (value, x), span)
    return slope


@functools.cache
def _rule(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, exact=False)
    sink.check()
    assert tree is not None
    return tree


def _sum(a: Expr, b: Expr) -> Expr:
    return b if a == _ZERO else a if b == _ZERO else Binary("+", a, b)


def _difference(a: Expr, b: Expr) -> Expr:
    return a if b == _ZERO else _negative(b) if a == _ZERO else Binary("-", a, b)


def _product(a: Expr, b: Expr) -> Expr:
    if _ZERO in (a, b):
        return _ZERO
    return b if a == _ONE else a if b == _ONE else Binary("*", a, b)


def _negative(a: Expr) -> Expr:
    return a if a == _ZERO else Unary("-", a)


def _choice(test: Expr, a: Expr, b: Expr, span: Span) -> Expr:
    return a if a == b else Cond(test, a, b, span)


def linear_in(e: Expr, names: Collection[str]) -> tuple[dict[str, Expr], Expr] | None:
    """(coefficients, rest) with e == sum(coefficient[n] * n) + rest, all of them free of `names`;
    None when `e` is not affine in `names` or draws random numbers.

    Names with coefficient 0 are left out; the order is that of `names`. A conditional whose test is
    free of `names` is allowed (its coefficients are conditionals). Used to choose exact integration
    of linear systems.
    """
    if has_random(e):
        return None
    wanted = frozenset(names)
    found = _linear(e, wanted)
    if found is None:
        return None
    coefficients, rest = found
    tidy = {n: simplify(coefficients[n], finite=True) for n in names if n in coefficients}
    return {n: c for n, c in tidy.items() if c != _ZERO}, simplify(rest, finite=True)


_Linear = tuple[dict[str, Expr], Expr]


def _linear(e: Expr, names: frozenset[str]) -> _Linear | None:
    if isinstance(e, Num | Bool | Quantity) or names.isdisjoint(refs(e)):
        return {}, e
    match e:
        case Ref(name):
            return {name: _ONE}, _ZERO
        case Unary("-", x):
            inner = _linear(x, names)
            return inner and ({n: _negative(c) for n, c in inner[0].items()}, _negative(inner[1]))
        case Binary("+" | "-", a, b):
            left, right = _linear(a, names), _linear(b, names)
            if left is None or right is None:
                return None
            join = _sum if e.op == "+" else _difference
            keys = dict.fromkeys((*left[0], *right[0]))
            sums = {n: join(left[0].get(n, _ZERO), right[0].get(n, _ZERO)) for n in keys}
            return sums, join(left[1], right[1])
        case Binary("*", a, b):
            if not names.isdisjoint(refs(a)):
                a, b = b, a
            inner = _linear(b, names)
            if inner is None or not names.isdisjoint(refs(a)):
                return None
            return {n: _product(a, c) for n, c in inner[0].items()}, _product(a, inner[1])
        case Binary("/", a, b):
            inner = _linear(a, names)
            if inner is None or not names.isdisjoint(refs(b)):
                return None
            return {n: _quotient(c, b) for n, c in inner[0].items()}, _quotient(inner[1], b)
        case Cond(test, a, b) | Call("where", (test, a, b)):
            left, right = _linear(a, names), _linear(b, names)
            if left is None or right is None or not names.isdisjoint(refs(test)):
                return None
            keys = dict.fromkeys((*left[0], *right[0]))
            arms = {n: _choice(test, left[0].get(n, _ZERO), right[0].get(n, _ZERO), e.span) for n in keys}
            return arms, _choice(test, left[1], right[1], e.span)
        case _:
            return None


def _quotient(a: Expr, b: Expr) -> Expr:
    return a if a == _ZERO else Binary("/", a, b)
