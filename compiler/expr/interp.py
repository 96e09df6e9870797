"""Evaluation of expression trees over Python numbers and numpy arrays.

Assumes: names are bound in `env` (constants of functions.py need not be).
Guarantees: when all of `env` is Python numbers, integer arithmetic stays integer (sizes), and undefined operations (a
division by zero, the logarithm of a negative number, an overflow) raise ExprError at their span; time is linear in the
size of the tree. When `env` has a numpy value, the rules are those of the generated code, for constant parts too: IEEE
results (inf, nan) without a warning, and one floating type throughout, so float32 arrays give float32 whatever integers
and literals are mixed in. Quantities count in canonical units.
Does not: draw random numbers or evaluate the file's own functions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.expr.functions import CONSTANTS, FUNCTIONS, Function
from compiler.expr.units import to_canonical

_LARGEST: Final = 1 << 63  # integers are 64 bits wide wherever they end up
_Float = np.dtype[Any]


class ExprError(Exception):
    """An expression has no value; `message` is for the user, `span` is the undefined part."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def evaluate(e: Expr, env: Mapping[str, Any]) -> Any:
    """The value of `e`: a Python bool, int or float when all of `env` that it reads is, else a
    numpy value with the broadcast shape of the arrays that it reads, computed in the common floating
    type of the arrays in `env` (float64 when there is none). Raises ExprError.
    """
    return _Evaluator(env)(e)


def _floating(env: Mapping[str, Any]) -> _Float:
    found = {
        v.dtype for v in env.values() if isinstance(v, np.ndarray | np.generic) and np.issubdtype(v.dtype, np.floating)
    }
    return np.result_type(*found) if found else np.dtype(np.float64)


def _is_numpy(x: object) -> bool:
    return isinstance(x, np.ndarray | np.generic)


class _Evaluator:
    """One evaluation: the environment and the floating type; `self(e)` is the value of a
    subtree."""

    def __init__(self, env: Mapping[str, Any]) -> None:
        self.env, self.dtype = env, _floating(env)
        self.ieee = any(_is_numpy(v) for v in env.values())

    def __call__(self, e: Expr) -> Any:
        match e:
            case Num(value) | Bool(value):
                return value
            case Ref(name, span):
                if name in self.env:
                    return self.env[name]
                if name in CONSTANTS:
                    return CONSTANTS[name]
                raise ExprError(f"`{name}` has no value here", span)
            case Quantity(value, unit, span):
                return self.guard(lambda: to_canonical(value, unit), span)
            case Binary(op, a, b, span):
                return self.binary(op, a, b, span)
            case Unary(op, x, span):
                return self.unary(op, self(x), span)
            case Call(func, args, span):
                return self.called(func, args, span)
            case Cond(test, then, orelse, span):
                return self.select(self(test), then, orelse, span)

    def guard(self, compute: Callable[[], Any], span: Span) -> Any:
        """Run a computation on Python numbers; a result that is no finite 64-bit value is an ExprError."""
        try:
            result = compute()
        except ZeroDivisionError:
            raise ExprError("division by zero", span) from None
        except OverflowError:
            raise ExprError("the result is too large", span) from None
        except ValueError as error:
            text = str(error)
            shown = "the function has no real value here" if "domain" in text else text
            raise ExprError(shown, span) from None
        except TypeError:
            raise ExprError("the operands are of the wrong kind", span) from None
        if isinstance(result, complex):
            raise ExprError("a root of a negative number has no real value", span)
        if type(result) is int and not -_LARGEST <= result < _LARGEST:
            raise ExprError("the result is too large for 64 bits", span)
        return result

    def real(self, x: Any) -> Any:
        """An operand of array arithmetic in the floating type; Python numbers adapt to it by
        themselves."""
        return x.astype(self.dtype) if _is_numpy(x) and x.dtype.kind in "iub" else x

    def unary(self, op: str, x: Any, span: Span) -> Any:
        if op == "not":
            return np.logical_not(x) if _is_numpy(x) else not x
        return self.guard(lambda: -x, span) if not _is_numpy(x) else np.negative(x)

    def binary(self, op: str, left: Expr, right: Expr, span: Span) -> Any:
        a = self(left)
        if op in ("and", "or"):
            if not _is_numpy(a) and bool(a) == (op == "or"):
                return bool(a)  # short-circuit evaluation; a size such as `n > 0 and 1 / n < p` relies on it
            b = self(right)
            if not _is_numpy(a) and not _is_numpy(b):
                return bool(b)
            return np.logical_and(a, b) if op == "and" else np.logical_or(a, b)
        b = self(right)
        if not _is_numpy(a) and not _is_numpy(b):
            try:
                if op == "**":
                    _check_power(a, b, span)
                result = self.guard(lambda: OPERATORS[op][0](a, b), span)
            except ExprError:
                if not self.ieee:
                    raise
                return float(self.on_two(op, np.float64(a), np.float64(b)))
            overflow = isinstance(result, float) and math.isinf(result) and not self.ieee
            if overflow and _finite(a) and _finite(b):
                raise ExprError("the result is too large", span)
            return result
        return self.on_two(op, a, b)

    def on_two(self, op: str, a: Any, b: Any) -> Any:
        """An arithmetic operator or comparison with at least one numpy operand."""
        if op in ("/", "**") or _kind(a) != _kind(b):
            whole = op == "**" and _kind(a) == "i" and type(b) is int and b >= 0
            if not whole:
                a, b = self.real(a), self.real(b)
        with np.errstate(all="ignore"):
            try:
                return OPERATORS[op][1](a, b)
            except OverflowError:  # a Python integer beyond the array's integer type
                return OPERATORS[op][1](self.real(a), self.real(b))

    def select(self, test: Any, then: Expr, orelse: Expr, span: Span) -> Any:
        if not _is_numpy(test):
            return self(then) if test else self(orelse)
        return self.where(test, self(then), self(orelse))

    def where(self, test: Any, a: Any, b: Any) -> Any:
        kinds = {_kind(a), _kind(b)}
        if kinds == {"b"} or (kinds == {"i"} and (_is_numpy(a) or _is_numpy(b))):
            return np.where(test, a, b)
        return np.where(test, self.floating(a), self.floating(b))

    def floating(self, x: Any) -> Any:
        return self.real(x) if _is_numpy(x) else self.dtype.type(x)

    def called(self, func: str, args: tuple[Expr, ...], span: Span) -> Any:
        known = FUNCTIONS.get(func)
        if known is None or known.random:
            what = "draws a random number" if known else "is not a known function"
            raise ExprError(f"`{func}` {what}, which cannot stand here", span)
        if not known.accepts(len(args)):
            raise ExprError(f"`{func}` is called with {len(args)} arguments", span)
        if func == "where":
            return self.select(self(args[0]), args[1], args[2], span)
        values = [self(a) for a in args]
        if any(_is_numpy(v) for v in values):
            with np.errstate(all="ignore"):
                return self.on_arrays(known, values)
        numbers = known.numbers
        assert numbers is not None
        try:
            return self.guard(lambda: numbers(*values), span)
        except ExprError:
            if not self.ieee:
                raise
        with np.errstate(all="ignore"):
            return float(self.on_arrays(known, [np.float64(v) for v in values]))

    def on_arrays(self, known: Function, values: list[Any]) -> Any:
        assert known.arrays is not None
        if {_kind(v) for v in values} == {"i"}:
            if known.machine == "whole" or known.kind == "cast_int":
                return values[0]
        elif known.machine == "same":
            values = [self.real(v) for v in values]
        if known.machine != "same":
            values = [self.floating(v) for v in values]
        return known.arrays(*values)


def _kind(x: Any) -> str:
    """ "b", "i" or "f": what kind of number `x` is, a Python one or an array's element."""
    if _is_numpy(x):
        return "i" if x.dtype.kind == "u" else str(x.dtype.kind)
    return "b" if isinstance(x, bool) else "i" if isinstance(x, int) else "f"


def _finite(x: Any) -> bool:
    return not isinstance(x, float) or math.isfinite(x)


def _check_power(a: Any, b: Any, span: Span) -> None:
    """Reject an integer power that would overflow before computing it."""
    integers = type(a) is int and type(b) is int
    if integers and b > 0 and abs(a) > 1 and b * (abs(a).bit_length() - 1) > 64:
        raise ExprError("the result is too large for 64 bits", span)


OPERATORS: Final[Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]]] = MappingProxyType(
    {
        "+": (operator.add, np.add),
        "-": (operator.sub, np.subtract),
        "*": (operator.mul, np.multiply),
        "/": (operator.truediv, np.true_divide),
        "//": (operator.floordiv, np.floor_divide),
        "%": (operator.mod, np.remainder),
        "**": (operator.pow, np.power),
        "<": (operator.lt, np.less),
        "<=": (operator.le, np.less_equal),
        ">": (operator.gt, np.greater),
        ">=": (operator.ge, np.greater_equal),
        "==": (operator.eq, np.equal),
        "!=": (operator.ne, np.not_equal),
    }
)
"""On Python numbers, and on arrays."""
