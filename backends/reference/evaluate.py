"""Values of level-2 expressions over numpy arrays, typed as the generated code types them.

Assumes: a legal kernel: every name has a value, user functions are inlined, quantities are erased.
Guarantees: REAL arithmetic rounds each operation to the program's precision (float64 where a float64 array takes part);
literals take the type of the other operand; INT is int64; both arms of a conditional are evaluated. Functions are those
of elementary.py and draws those of philox.py, so results have the bits that C without contraction gives. `x ** k` with
a small integer literal k is a product, with k = 0.5 a square root.
Does not: flush denormals to zero (generated code does, so values below 1e-38 may differ), or warn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from backends.reference import philox
from backends.reference.elementary import FUNCTIONS, maximum, minimum
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Ref, Unary
from compiler.expr.functions import COUNTS, LOOKUP, ROUNDED
from compiler.expr.functions import FUNCTIONS as KNOWN
from compiler.expr.interp import OPERATORS

Value = Any
"""A numpy array or scalar (float32, float64, int64 or bool), or a Python number: a literal without
a type yet."""

Read = Callable[[str], Value]

_TYPED: Final = (np.ndarray, np.generic)
_LARGEST_PRODUCT: Final = 8  # x ** k up to this k is expanded into products
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {op: arrays for op, (_, arrays) in OPERATORS.items()} | {"//": FUNCTIONS["floordiv"], "%": FUNCTIONS["mod"]}
)
_LOGICAL: Final = MappingProxyType({"and": np.logical_and, "or": np.logical_or})
_CALLS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **FUNCTIONS,
        "relu": lambda x: maximum(x, x.dtype.type(0)),
        "heaviside": lambda x: np.greater_equal(x, x.dtype.type(0)).astype(np.int64),
        "isnan": np.isnan,
    }
)
_INT: Final[np.dtype[Any]] = np.dtype(np.int64)


def loaded(x: Any) -> Any:
    """Stored elements as values: integers of every width count as int64."""
    return x.astype(np.int64) if x.dtype.kind in "iu" and x.dtype != np.int64 else x


def cast(x: Value, dtype: np.dtype[Any]) -> Any:
    """`x` in a type, as a C cast does it (real to integer: towards zero)."""
    if isinstance(x, _TYPED):
        return x if x.dtype == dtype else x.astype(dtype)
    return dtype.type(x)


def _typed(x: Value, dtype: np.dtype[Any]) -> Any:
    return x if isinstance(x, _TYPED) else dtype.type(x)


def lookup(table: Any, x: Any) -> Any:
    """A value between those of a table (compiler/passes/program/lookups.py)."""
    u = np.asarray(minimum(maximum((x - table[0]) * table[1], table.dtype.type(0)), table[2]))
    k = np.where(np.isnan(u), 0, np.floor(u))
    at = k.astype(np.int64)
    a, b = table[3 + at], table[3 + np.minimum(at + 1, len(table) - 4)]
    found: Any = a + (u - k.astype(table.dtype)) * (b - a)
    return found


def rounded(x: Any) -> Any:
    """float32 rounded to bf16, half-way cases to even; NaN stays what it is."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    near = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, near.view(np.float32))


class Evaluator:
    """Evaluates expressions in one environment: `read` gives names, `real` is the precision,
    `step` the step."""

    def __init__(self, read: Read, real: np.dtype[Any], step: int) -> None:
        self.read, self.real, self.step = read, real, step

    def joined(self, *values: Value) -> np.dtype[Any]:
        """The common type of these operands: int64, the precision, or float64."""
        found: np.dtype[Any] | None = None
        for x in values:
            if isinstance(x, _TYPED):  # first: a float64 of numpy is a float of Python, too
                if x.dtype.kind == "f":
                    found = x.dtype if found is None or found is x.dtype else np.promote_types(found, x.dtype)
            elif isinstance(x, float):
                found = self.real if found is None else found
        return _INT if found is None else found

    def __call__(self, e: Expr) -> Value:
        match e:
            case Ref(name):
                return self.read(name)
            case Num(value) | Bool(value):
                return value
            case Binary(op, a, b):
                if op in _LOGICAL:
                    return _LOGICAL[op](self.test(a), self.test(b))
                return self.power(self(a), b) if op == "**" else self.binary(op, self(a), self(b))
            case Unary("not", x):
                return np.logical_not(self.test(x))
            case Unary(_, x):
                value = self(x)
                return np.negative(cast(value, self.joined(value)))
            case Cond(test, then, orelse):
                return self.select(self.test(test), self(then), self(orelse))
            case Call("where", (test, then, orelse)):
                return self.select(self.test(test), self(then), self(orelse))
            case Call(func, args):
                return self.call(func, [self(a) for a in args])
        raise TypeError(f"{type(e).__name__} cannot stand in a kernel")

    def typed(self, e: Expr) -> Any:
        """The value of `e` for a local: a literal takes its own type."""
        value = self(e)
        return np.bool_(value) if isinstance(value, bool) else _typed(value, self.joined(value))

    def test(self, e: Expr) -> Any:
        return np.not_equal(self(e), 0)

    def binary(self, op: str, a: Value, b: Value) -> Any:
        both = self.joined(a, b)
        if op == "/" and both == _INT:
            both = self.real
        return _OPERATORS[op](cast(a, both), cast(b, both))

    def select(self, test: Any, a: Value, b: Value) -> Any:
        if all(isinstance(x, bool) or getattr(x, "dtype", None) == np.bool_ for x in (a, b)):
            return np.where(test, a, b)
        both = self.joined(a, b)
        return np.where(test, cast(a, both), cast(b, both))

    def power(self, base: Value, exponent: Expr) -> Any:
        k = exponent.value if isinstance(exponent, Num) else None
        whole = k is not None and float(k).is_integer()
        both = self.joined(base, self(exponent))
        if both == _INT and not (whole and k is not None and k >= 0):
            both = self.real
        x = cast(base, both)
        if k in (0.5, -0.5) and both != _INT:
            root = FUNCTIONS["sqrt"](x)
            return root if k == 0.5 else both.type(1) / root
        if whole and k is not None and 1 <= abs(k) <= _LARGEST_PRODUCT:
            product = x
            for _ in range(int(abs(k)) - 1):
                product = product * x
            return product if k > 0 else both.type(1) / product
        y = cast(self(exponent), both)
        return np.power(x, y) if both == _INT else FUNCTIONS["pow"](x, y)

    def call(self, func: str, args: list[Value]) -> Any:
        if func in ("uniform", "normal", "exponential", "poisson", "binomial", "shuffled"):
            return self.draw(func, args)
        if func == LOOKUP:
            return lookup(args[0], cast(args[1], self.real))
        if func == ROUNDED:
            return rounded(cast(args[0], np.dtype(np.float32)))
        both, known = self.joined(*args), KNOWN.get(func)
        if known is None:
            raise TypeError(f"a kernel cannot call `{func}`")
        if known.kind in ("cast_int", "cast_real"):
            to = _INT if known.kind == "cast_int" else self.real if both == _INT else both
            return cast(args[0], to)
        if known.machine == "whole" and both == _INT:
            return cast(args[0], both)
        if known.machine == "real" and both == _INT:
            both = self.real
        values = [cast(x, both) for x in args]
        return reduce(_CALLS[func], values) if known.most is None else _CALLS[func](*values)

    def draw(self, func: str, args: list[Value]) -> Any:
        """A random call: key column, integer index, number of the draw (and, for poisson, the mean, for binomial the
        number of trials and the probability); or key column, number of the permutation, number of places, place."""
        if func == "shuffled":
            return philox.shuffled(int(args[0]), args[1], int(args[2]), args[3])
        key, index, draw = int(args[0]), np.asarray(args[1], np.int64), int(args[2])
        if func in COUNTS:
            index, *given = np.broadcast_arrays(index, *(cast(a, self.real) for a in args[3:]))
            count = getattr(philox, func)
            return count(key, index, self.step, draw, *given, dtype=self.real)
        by_name = {
            "uniform": philox.uniform,
            "normal": philox.normal,
            "exponential": philox.exponential,
        }
        step = int(args[3]) if len(args) == 4 else self.step  # of a given step
        return by_name[func](key, index, step, draw, self.real)
