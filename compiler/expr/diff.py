"""Symbolic derivatives, and the coefficients of affine expressions.

Assumes: a tree without the file's own functions (inline.py); names do not depend on each other.
Guarantees: the derivative holds wherever it exists. At kinks it is PyTorch's: relu'(0) = 0, abs'(0)
= 0, ties of min and max share the gradient equally, clip passes it at both bounds, rounding and
steps have derivative 0.
Does not: differentiate random draws (a second evaluation would draw again), or know surrogate
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import compiler.expr.ast as ast
from compiler.core.source import Span
from compiler.expr.functions import FUNCTIONS, RANDOM
from compiler.expr.parse import own_expr
from compiler.expr.simplify import has_random, simplify


class NotDifferentiable(Exception):
    """A derivative was asked for that does not exist; report it as E0305 with `message` at
    `span`."""

    code = "E0305"

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def diff(e: ast.Expr, name: str) -> ast.Expr:
    """The partial derivative of `e` by `name`, simplified under the assumption of finite values.

    Raises NotDifferentiable (E0305) when a part that depends on `name` also draws random numbers or
    calls a function that is not in functions.py, and when the derivative would be too deep a tree, or too large a one
    when it is written out.
    """
    try:
        result = simplify(_Diff(e, name).of(e), finite=True)
        size, depth = ast.extent(result)
    except RecursionError:
        size, depth = 0, _DEEPEST + 1
    if depth > _DEEPEST:
        raise NotDifferentiable("the derivative of this expression is nested too deeply", e.span)
    if size > _LARGEST:
        raise NotDifferentiable(f"the derivative of this expression grows beyond {_LARGEST:,} parts", e.span)
    return result


_DEEPEST: Final = 300  # every stage is recursive
_LARGEST: Final = 100_000
_ZERO: Final[ast.Expr] = ast.Num(0)
_ONE: Final[ast.Expr] = ast.Num(1)


class _Diff:
    """One derivative by `name`. Shared nodes are differentiated once, and shared in the derivative."""

    def __init__(self, e: ast.Expr, name: str) -> None:
        self.depends = _depending(e, frozenset((name,)))
        self.draws = _with_parts(e, lambda x: isinstance(x, ast.Call) and x.func in RANDOM)
        self.known: dict[int, ast.Expr] = {}

    def of(self, e: ast.Expr) -> ast.Expr:
        if id(e) not in self.depends:
            return _ZERO
        if id(e) not in self.known:
            self.known[id(e)] = self.slope(e)
        return self.known[id(e)]

    def slope(self, e: ast.Expr) -> ast.Expr:
        match e:
            case ast.Ref():
                return _ONE
            case ast.Unary("-", x):
                return _negative(self.of(x))
            case ast.Binary(op, _, _) if op in ast.COMPARISONS or op in ast.LOGICAL:
                return _ZERO
            case ast.Binary(op, a, b, span):
                if id(e) in self.draws:
                    _refuse_random(e)
                return _operator(op, (a, b), (self.of(a), self.of(b)), span)
            case ast.Cond(test, then, orelse, span):
                if id(test) in self.draws:
                    _refuse_random(e)
                return _choice(test, self.of(then), self.of(orelse), span)
            case ast.Call(func, args, span):
                if id(e) in self.draws:
                    _refuse_random(e)
                return _call(func, args, self.of, span)
            case _:
                return _ZERO


def _depending(e: ast.Expr, names: frozenset[str]) -> frozenset[int]:
    """The nodes of `e` that read one of `names`."""
    return _with_parts(e, lambda x: isinstance(x, ast.Ref) and x.name in names)


def _with_parts(e: ast.Expr, holds: Callable[[ast.Expr], bool]) -> frozenset[int]:
    """The nodes (by id) of `e` for which, or for a part of which, `holds` is true."""
    found: dict[int, bool] = {}

    def visit(x: ast.Expr) -> bool:
        if id(x) not in found:
            parts = [visit(k) for k in ast.children(x)]
            found[id(x)] = any(parts) or holds(x)
        return found[id(x)]

    visit(e)
    return frozenset(key for key, yes in found.items() if yes)


def _refuse_random(e: ast.Expr) -> None:
    raise NotDifferentiable("an expression that draws random numbers has no derivative", e.span)


def _operator(op: str, parts: tuple[ast.Expr, ast.Expr], slopes: tuple[ast.Expr, ast.Expr], span: Span) -> ast.Expr:
    (a, b), (da, db) = parts, slopes
    match op:
        case "+":
            return _sum(da, db)
        case "-":
            return _difference(da, db)
        case "*":
            return _sum(_product(da, b), _product(a, db))
        case "/":
            if db == _ZERO:
                return ast.Binary("/", da, b, span) if da != _ZERO else _ZERO
            # (a / b)' = (a' - (a / b) b') / b
            return ast.Binary("/", _difference(da, _product(ast.Binary("/", a, b, span), db)), b, span)
        case "//":
            return _ZERO
        case "%":
            return _difference(da, _product(ast.Binary("//", a, b, span), db))
        case "**":
            return _power(a, b, da, db, span)
    raise AssertionError(op)


def _power(a: ast.Expr, b: ast.Expr, da: ast.Expr, db: ast.Expr, span: Span) -> ast.Expr:
    by_base: ast.Expr = _ZERO
    if da != _ZERO:
        if isinstance(b, ast.Num):
            lower: ast.Expr = ast.Num(b.value - 1)
        else:
            lower = b - _ONE
        power = a if lower == _ONE else _ONE if lower == _ZERO else ast.Binary("**", a, lower, span)
        by_base = _product(_product(b, power), da)
    by_exponent: ast.Expr = _ZERO
    if db != _ZERO:
        slope = _product(ast.Binary("**", a, b, span), ast.Call("log", (a,), span))
        if not (isinstance(a, ast.Num) and a.value > 0):
            # at a = 0 the power is constant in b > 0, but 0 * log(0) is nan
            slope = ast.Cond(a.eq(_ZERO), _ZERO, slope)
        by_exponent = _product(slope, db)
    return _sum(by_base, by_exponent)


def _call(func: str, args: tuple[ast.Expr, ...], slope_of: Callable[[ast.Expr], ast.Expr], span: Span) -> ast.Expr:
    known = FUNCTIONS.get(func)
    if known is None or not known.accepts(len(args)):
        raise NotDifferentiable(f"the derivative of `{func}` is not known", span)
    slopes = [slope_of(a) for a in args]
    if func == "where":
        return _choice(args[0], slopes[1], slopes[2], span)
    if func in ("min", "max"):
        return _extreme(func, args, slopes, span)
    if known.derivatives is None:
        raise NotDifferentiable(f"`{func}` has no derivative", span)
    bindings = dict(zip(known.parameters, args, strict=True))
    total: ast.Expr = _ZERO
    for text, slope in zip(known.derivatives, slopes, strict=True):
        if slope != _ZERO:
            total = _sum(total, _product(ast.substitute(own_expr(text), bindings), slope))
    return total


def _extreme(func: str, args: tuple[ast.Expr, ...], slopes: list[ast.Expr], span: Span) -> ast.Expr:
    value, slope = args[0], slopes[0]
    for x, dx in zip(args[1:], slopes[1:], strict=True):
        if slope != dx:
            wins, loses = (">", "<") if func == "max" else ("<", ">")
            tie = _product(ast.Num(0.5), _sum(slope, dx))
            rest = _choice(ast.Binary(loses, value, x, span), dx, tie, span)
            slope = _choice(ast.Binary(wins, value, x, span), slope, rest, span)
        value = ast.Call(func, (value, x), span)
    return slope


def _sum(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    return b if a == _ZERO else a if b == _ZERO else a + b


def _difference(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    return a if b == _ZERO else _negative(b) if a == _ZERO else a - b


def _product(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    if _ZERO in (a, b):
        return _ZERO
    return b if a == _ONE else a if b == _ONE else a * b


def _negative(a: ast.Expr) -> ast.Expr:
    return a if a == _ZERO else -a


def _choice(test: ast.Expr, a: ast.Expr, b: ast.Expr, span: Span) -> ast.Expr:
    return a if a == b else ast.Cond(test, a, b, span)


def linear_in(e: ast.Expr, names: Collection[str]) -> tuple[dict[str, ast.Expr], ast.Expr] | None:
    """(coefficients, rest) with e == sum(coefficient[n] * n) + rest, all of them free of `names`;
    None when `e` is not affine in `names` or draws random numbers.

    Names with coefficient 0 are left out; the order is that of `names`. A conditional whose test is
    free of `names` is allowed (its coefficients are conditionals). Used to choose exact integration
    of linear systems.
    """
    if has_random(e):
        return None
    found = _Affine(e, frozenset(names)).of(e)
    if found is None:
        return None
    coefficients, rest = found
    tidy = {n: simplify(coefficients[n], finite=True) for n in names if n in coefficients}
    return {n: c for n, c in tidy.items() if c != _ZERO}, simplify(rest, finite=True)


def fading_rate(e: ast.Expr, name: str) -> ast.Expr | None:
    """k where `e` is k * name, which is then what x' is of an x that decays by itself; None otherwise."""
    found = linear_in(e, (name,))
    return found[0].get(name) if found is not None and found[1] == _ZERO else None


def driven_by(equations: Mapping[str, ast.Expr]) -> dict[str, tuple[dict[str, ast.Expr], ast.Expr]]:
    """Of x' of each state, `linear_in` the state and those that decay by themselves; those without one are left out."""
    fading = [name for name, e in equations.items() if fading_rate(e, name) is not None]
    found = {n: linear_in(e, dict.fromkeys((n, *fading))) or linear_in(e, (n,)) for n, e in equations.items()}
    return {name: affine for name, affine in found.items() if affine is not None}


_Linear = tuple[dict[str, ast.Expr], ast.Expr]


class _Affine:
    """The coefficients of each node of one expression, computed once per shared node."""

    def __init__(self, e: ast.Expr, names: frozenset[str]) -> None:
        self.depends = _depending(e, names)
        self.known: dict[int, _Linear | None] = {}

    def of(self, e: ast.Expr) -> _Linear | None:
        if id(e) not in self.depends:
            return {}, e
        if id(e) not in self.known:
            self.known[id(e)] = self.parts(e)
        return self.known[id(e)]

    def free(self, e: ast.Expr) -> bool:
        return id(e) not in self.depends

    def parts(self, e: ast.Expr) -> _Linear | None:
        match e:
            case ast.Ref(name):
                return {name: _ONE}, _ZERO
            case ast.Unary("-", x):
                inner = self.of(x)
                return inner and ({n: _negative(c) for n, c in inner[0].items()}, _negative(inner[1]))
            case ast.Binary("+" | "-", a, b):
                left, right = self.of(a), self.of(b)
                if left is None or right is None:
                    return None
                join = _sum if e.op == "+" else _difference
                keys = dict.fromkeys((*left[0], *right[0]))
                sums = {n: join(left[0].get(n, _ZERO), right[0].get(n, _ZERO)) for n in keys}
                return sums, join(left[1], right[1])
            case ast.Binary("*", a, b):
                if not self.free(a):
                    a, b = b, a
                inner = self.of(b)
                if inner is None or not self.free(a):
                    return None
                return {n: _product(a, c) for n, c in inner[0].items()}, _product(a, inner[1])
            case ast.Binary("/", a, b):
                inner = self.of(a)
                if inner is None or not self.free(b):
                    return None
                return {n: _quotient(c, b) for n, c in inner[0].items()}, _quotient(inner[1], b)
            case ast.Cond(test, a, b) | ast.Call("where", (test, a, b)):
                left, right = self.of(a), self.of(b)
                if left is None or right is None or not self.free(test):
                    return None
                keys = dict.fromkeys((*left[0], *right[0]))
                arms = {n: _choice(test, left[0].get(n, _ZERO), right[0].get(n, _ZERO), e.span) for n in keys}
                return arms, _choice(test, left[1], right[1], e.span)
            case _:
                return None


def _quotient(a: ast.Expr, b: ast.Expr) -> ast.Expr:
    return a if a == _ZERO else a / b
