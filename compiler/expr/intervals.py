"""Interval analysis of expressions.

Assumes: a checked expression; intervals of some of its names.
Guarantees: an interval that holds its value for all values of the names (Moore 1966); a name without an interval may
have any value, and the reals are unbounded.
Does not: correlate names (`x - x` may be anything).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Ref, Unary
from compiler.expr.functions import CONSTANTS, FUNCTIONS, Interval

Env = Mapping[str, Interval]

ANY: Final[Interval] = (-math.inf, math.inf)


def hull(items: Iterable[Interval]) -> Interval:
    low, high = zip(*items, strict=True)
    return min(low), max(high)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _product(a: Interval, b: Interval) -> Interval:
    ends = [_times(x, y) for x in a for y in b]
    return min(ends), max(ends)


def interval(e: Expr, env: Env) -> Interval:
    """An interval that holds the value of `e`."""
    match e:
        case Num(value):
            return float(value), float(value)
        case Bool(value):
            return float(value), float(value)
        case Ref(name):
            return env.get(name, (CONSTANTS[name],) * 2 if name in CONSTANTS else ANY)
        case Unary("-", x):
            low, high = interval(x, env)
            return -high, -low
        case Call("delayed", (x,)):
            return interval(x, env)
        case Cond(_, a, b) | Call("where", (_, a, b)):
            return hull([interval(a, env), interval(b, env)])
        case Binary(op, a, b):
            return _binary(op, interval(a, env), interval(b, env), b)
        case Call(func, args) if func in FUNCTIONS:
            bounds = FUNCTIONS[func].bounds
            return bounds(*(interval(a, env) for a in args)) if callable(bounds) else bounds or ANY
    return (0.0, 1.0) if isinstance(e, Unary) else ANY  # `not`


def _binary(op: str, a: Interval, b: Interval, right: Expr) -> Interval:
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        return _product(a, b)
    if op == "/" and (b[0] > 0 or b[1] < 0):
        return _product(a, (1 / b[1], 1 / b[0]))
    if op == "**" and isinstance(right, Num) and right.value == 2:
        most = max(abs(a[0]), abs(a[1]))
        return 0.0, _times(most, most)
    if op in ("<", "<=", ">", ">=", "==", "!=", "and", "or"):
        return 0.0, 1.0
    return ANY
