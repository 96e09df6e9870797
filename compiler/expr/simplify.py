"""Constant folding and algebraic identities.

Assumes: a tree that has passed types.py; names in boolean places are booleans.
Guarantees: deterministic; never raises; by default the value is the same to the last bit for every environment of
float64 (so `x * 0`, which is nan for x = inf, and `x + 0`, which changes the sign of -0.0, stay; a part without a
finite value is not folded). With `finite=True` (for derivatives) names count as finite numbers and 0 has no sign. A
literal integer 0 has no sign either until it is combined with a float. Which of 0.0 and -0.0 min and max return is
unspecified, as it is by processors. Random functions are never removed, duplicated or folded.
Does not: reorder or reassociate sums and products, factor or expand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.expr.ast as ast
from compiler.expr.functions import FUNCTIONS, RANDOM
from compiler.expr.interp import ExprError, evaluate


def simplify(e: ast.Expr, *, finite: bool = False) -> ast.Expr:
    """`e` with constants folded and identities applied, from the leaves upwards."""
    return ast.rewrite(e, lambda x: _tidy(x, finite))


def _tidy(e: ast.Expr, finite: bool) -> ast.Expr:
    """`e`, whose children are simplified, simplified."""
    parts = ast.children(e)
    if parts and all(isinstance(x, ast.Num | ast.Bool) for x in parts):
        folded = _fold(e)
        if folded is not None:
            return folded
    match e:
        case ast.Unary():
            return _unary(e)
        case ast.Binary(op, a, b) if op in _IDENTITIES:
            return _IDENTITIES[op](e, a, b, finite)
        case ast.Cond(test, then, orelse):
            return _choice(e, test, then, orelse)
        case ast.Call("where", (test, then, orelse)):
            return _choice(e, test, then, orelse)
    return e


def has_random(e: ast.Expr) -> bool:
    """Whether evaluating `e` draws a random number."""
    return any(isinstance(x, ast.Call) and x.func in RANDOM for x in ast.nodes(e))


def _fold(e: ast.Expr) -> ast.Expr | None:
    """The value of `e`, whose operands are constants; None when it is not finite."""
    if isinstance(e, ast.Call) and (e.func in RANDOM or e.func not in FUNCTIONS):
        return None
    try:
        value = evaluate(e, {})
    except ExprError:
        return None
    if isinstance(value, bool):
        return ast.Bool(value, e.span)
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return ast.Num(value, e.span)
    return None


def _same(a: ast.Expr, b: ast.Expr) -> bool:
    """Equal to the sign of zero; repr tells 0.0 from -0.0, equality does not."""
    return ast.same(a, b, lambda x, y: x == y and repr(x) == repr(y))


def _is(e: ast.Expr, value: int) -> bool:
    return isinstance(e, ast.Num) and e.value == value


def _negative_zero(e: ast.Expr) -> bool:
    return isinstance(e, ast.Num) and e.value == 0 and math.copysign(1.0, e.value) < 0


def _unary(e: ast.Unary) -> ast.Expr:
    match e:
        case ast.Unary(op, ast.Unary(inner, x)) if op == inner:
            return x
        case ast.Unary("-", ast.Quantity(value, unit, span)) if value != 0:
            return ast.Quantity(-value, unit, span)
        case _:
            return e


def _choice(e: ast.Expr, test: ast.Expr, then: ast.Expr, orelse: ast.Expr) -> ast.Expr:
    if isinstance(test, ast.Bool):
        taken, dropped = (then, orelse) if test.value else (orelse, then)
        return e if has_random(dropped) else taken
    if _same(then, orelse) and not has_random(e):
        return then
    return e


def _sum(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    if _negative_zero(b) or (finite and _is(b, 0)):
        return a
    if _negative_zero(a) or (finite and _is(a, 0)):
        return b
    if finite and isinstance(b, ast.Unary) and b.op == "-":
        return ast.Binary("-", a, b.operand, e.span)
    return e


def _difference(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    if _is(b, 0) and (finite or not _negative_zero(b)):
        return a
    if finite and _is(a, 0):
        return _negated(b, e)
    if finite and a == b and not has_random(a):
        return ast.Num(0, e.span)
    if finite and isinstance(b, ast.Unary) and b.op == "-":
        return ast.Binary("+", a, b.operand, e.span)
    return e


def _product(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    if _is(b, 1):
        return a
    if _is(a, 1):
        return b
    if finite and (_is(a, 0) or _is(b, 0)) and not has_random(e):
        return ast.Num(0, e.span)
    if finite and (_is(a, -1) or _is(b, -1)):
        return _negated(b if _is(a, -1) else a, e)
    return e


def _quotient(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    if _is(b, 1):
        return a
    return ast.Num(0, e.span) if finite and _is(a, 0) and not _is(b, 0) and not has_random(b) else e


def _power(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    if _is(b, 1):
        return a
    return ast.Num(1, e.span) if finite and _is(b, 0) and not has_random(a) else e


def _negated(x: ast.Expr, whole: ast.Expr) -> ast.Expr:
    if isinstance(x, ast.Unary) and x.op == "-":
        return x.operand
    if isinstance(x, ast.Num):
        return replace(x, value=-x.value)
    return ast.Unary("-", x, whole.span)


def _logical(e: ast.Binary, a: ast.Expr, b: ast.Expr, finite: bool) -> ast.Expr:
    for known, other in ((a, b), (b, a)):
        if isinstance(known, ast.Bool):
            if known.value == (e.op == "and"):
                return other if _surely_bool(other) else e
            return e if has_random(other) else ast.Bool(known.value, e.span)
    return a if a == b and not has_random(e) else e


def _surely_bool(e: ast.Expr) -> bool:
    """Whether `e` is certainly a boolean; a name may hold anything in an untyped tree."""
    if isinstance(e, ast.Ref):
        return True  # typed before: `and` takes conditions only
    return not isinstance(e, ast.Num | ast.Quantity)


_IDENTITIES: Final[Mapping[str, Callable[[ast.Binary, ast.Expr, ast.Expr, bool], ast.Expr]]] = MappingProxyType(
    {
        "+": _sum,
        "-": _difference,
        "*": _product,
        "/": _quotient,
        "**": _power,
        "and": _logical,
        "or": _logical,
    }
)
