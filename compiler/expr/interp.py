"""Evaluation of expression trees over Python numbers and numpy arrays.

Assumes: names are bound in `env` (constants of functions.py need not be).
Guarantees: when all of `env` is Python numbers, integer arithmetic stays integer (sizes), and undefined operations (a
division by zero, the logarithm of a negative number, an overflow) raise ExprError at their span; time is linear in the
size of the tree. When `env` has a numpy value, the rules are those of the generated code, for constant parts too: IEEE
results (inf, nan) without a warning, and one floating type throughout, so float32 arrays give float32 whatever integers
and literals are mixed in. Quantities count in canonical units.
Does not: draw random numbers or evaluate the file's own functions; `call` does both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.expr.functions import CONSTANTS, FUNCTIONS
from compiler.expr.units import to_canonical

CallHook = Callable[[str, tuple[Any, ...]], Any]
_LARGEST: Final = 1 << 63  # integers are 64 bits wide wherever they end up
_Float = np.dtype[Any]


class ExprError(Exception):
    """An expression has no value; `message` is for the user, `span` is the undefined part."""

    def __init__(self, message: str, span: Span = NOWHERE) -> None:
        super().__init__(message)
        self.message, self.span = message, span


def evaluate(
    e: Expr,
    env: Mapping[str, Any],
    *,
    call: CallHook | None = None,
    dtype: Any = None,
) -> Any:
    """The value of `e`: a Python bool, int or float when all of `env` that it reads is, else a
    numpy value with the broadcast shape of the arrays that it reads.

    `dtype`: the floating type to compute in when arrays take part (default: the common floating
    type of the arrays in `env`, float64 when there is none). `call(name, args)` evaluates random
    functions and functions of the file.
    Raises ExprError.
    """
    return _Evaluator(env, call, _floating(env) if dtype is None else np.dtype(dtype))(e)


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

    def __init__(self, env: Mapping[str, Any], call: CallHook | None, dtype: _Float) -> None:
        self.env, self.call, self.dtype = env, call, dtype
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
                result = self.guard(lambda: _PYTHON[op](a, b), span)
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
                return _NUMPY[op](a, b)
            except OverflowError:  # a Python integer beyond the array's integer type
                return _NUMPY[op](self.real(a), self.real(b))

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
            if self.call is None:
                what = "draws a random number" if known else "is not a known function"
                raise ExprError(f"`{func}` {what}, which cannot stand here", span)
            return self.call(func, tuple(self(a) for a in args))
        if not known.accepts(len(args)):
            raise ExprError(f"`{func}` is called with {len(args)} arguments", span)
        if func == "where":
            return self.select(self(args[0]), args[1], args[2], span)
        values = [self(a) for a in args]
        if any(_is_numpy(v) for v in values):
            with np.errstate(all="ignore"):
                return self.on_arrays(func, values)
        try:
            return self.guard(lambda: _SCALAR[func](*values), span)
        except ExprError:
            if not self.ieee:
                raise
        with np.errstate(all="ignore"):
            return float(self.on_arrays(func, [np.float64(v) for v in values]))

    def on_arrays(self, func: str, values: list[Any]) -> Any:
        if func in ("min", "max"):
            if len({_kind(v) for v in values}) > 1:
                values = [self.real(v) for v in values]
            result = values[0]
            for v in values[1:]:
                result = np.minimum(result, v) if func == "min" else np.maximum(result, v)
            return result
        if func == "int":
            x = values[0]
            return x if x.dtype.kind in "iu" else np.trunc(self.real(x)).astype(np.int64)
        if func == "clip":
            return self.on_arrays("min", [self.on_arrays("max", values[:2]), values[2]])
        machine = FUNCTIONS[func].machine
        if machine in ("same", "whole") and values[0].dtype.kind in "iu":
            return values[0] if machine == "whole" else _ARRAY[func](values[0])
        return _ARRAY[func](*(self.floating(v) for v in values))


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


_PYTHON: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "//": lambda a, b: a // b,
        "%": lambda a, b: a % b,
        "**": lambda a, b: a**b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
    }
)

_NUMPY: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        "+": np.add,
        "-": np.subtract,
        "*": np.multiply,
        "/": np.true_divide,
        "//": np.floor_divide,
        "%": np.remainder,
        "**": np.power,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "==": np.equal,
        "!=": np.not_equal,
    }
)


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _sign(x: Any) -> int | float:
    return 1 if x > 0 else -1 if x < 0 else x * 0


def _min(*values: Any) -> Any:
    """The smallest; nan when any value is nan, as with arrays (Python's min depends on the order)."""
    return next((v for v in values if v != v), min(values))


def _max(*values: Any) -> Any:
    return next((v for v in values if v != v), max(values))


def _softplus(x: float) -> float:
    return float(_max(x, 0.0)) + math.log1p(math.exp(-abs(x)))


_SAME_IN_BOTH: Final = (
    *("exp", "log", "log10", "log2", "expm1", "log1p", "sqrt", "floor", "ceil"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "isnan"),
)
_SAME_IN_MATH: Final = (*_SAME_IN_BOTH, "asin", "acos", "atan", "atan2", "erf")
_SAME_IN_NUMPY: Final = (*_SAME_IN_BOTH, "abs", "sign")

_SCALAR: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {name: getattr(math, name) for name in _SAME_IN_MATH}
    | {
        "exprel": lambda x: math.expm1(x) / x if x != 0 else 1.0,
        "abs": abs,
        "sign": _sign,
        "round": round,
        "min": _min,
        "max": _max,
        "clip": lambda x, lo, hi: _min(_max(x, lo), hi),
        "sigmoid": lambda x: 1.0 / (1.0 + _exp(-x)),
        "relu": lambda x: _max(x, 0),
        "softplus": _softplus,
        "heaviside": lambda x: 1 if x >= 0 else 0,
        "int": int,
        "float": float,
    }
)


def _erf(x: Any) -> Any:
    from scipy.special import erf  # slow to import, rarely needed

    return erf(x)


def _softplus_array(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


_ARRAY: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {name: getattr(np, name) for name in _SAME_IN_NUMPY}
    | {
        "round": np.rint,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "atan2": np.arctan2,
        "exprel": lambda x: np.where(x == 0, x.dtype.type(1), np.expm1(x) / x),
        "sigmoid": lambda x: x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x)),
        "relu": lambda x: np.maximum(x, x.dtype.type(0)),
        "softplus": _softplus_array,
        "erf": _erf,
        "heaviside": lambda x: np.where(x >= 0, x.dtype.type(1), x.dtype.type(0)),
        "float": lambda x: x,
    }
)
