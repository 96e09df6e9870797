"""Dimensional analysis of expressions, and the erasure of units.

Assumes: kinds have been checked (types.py); `env` has the dimension of every name, None for "any".
Guarantees: E0401 names both sides in the user's terms (`v` is a voltage [mV], `tau_m` is a time
[ms]); E0402 says which unit a bare number should have had; a part that is wrong, and a name of any
dimension, give no further errors in what contains them. After `erase`, no Quantity is left and all
numbers are in canonical units.
Does not: infer the dimensions of names, or convert to units other than the canonical ones.

The number 0 has every dimension. A constant without unit beside a dimensioned quantity in `+ - <
... min max`, in the arms of a conditional or in an assignment is E0402; a name without unit there
is E0401.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import compiler.expr.ast as ast
from compiler.core.diagnostics import Sink
from compiler.expr.ast import shorten
from compiler.expr.functions import CONSTANTS, FUNCTIONS, called_table
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.units import DIMENSIONLESS, FREQUENCY, Dimension, canonical_name, describe, parse_unit, to_canonical

_VERBS: Final = {"+": "add", "-": "subtract", "%": "divide", "//": "divide"}


def infer_dimension(e: ast.Expr, env: Mapping[str, Dimension | None], sink: Sink) -> Dimension | None:
    """The dimension of `e` (conditions count as dimensionless); None when it may have any, or after
    an error."""
    return _Checker(env, sink).infer(e)


def check_assignable(
    expected: Dimension | None,
    e: ast.Expr,
    env: Mapping[str, Dimension | None],
    sink: Sink,
    what: str,
) -> bool:
    """Whether `e` may stand where `expected` (None: anything) is due; `what` names the place in the
    messages, e.g. "`dv/dt`" or "`delay`". Reports the mistake if not."""
    before = len(sink.items)
    found = infer_dimension(e, env, sink)
    if len(sink.items) > before:
        return False
    if expected is None or found is None or found == expected:
        return True
    if _bare(e, found):
        _bare_number(e, expected, f"{what} is {describe(expected)}", sink)
    else:
        message = f"{what} is {describe(expected)}, but `{shorten(e)}` is {describe(found)}"
        sink.error("E0401", message, e.span, _assignment_help(e, expected, found))
    return False


def erase(e: ast.Expr) -> ast.Expr:
    """`e` with every quantity as a float in canonical units. Raises ValueError for an unknown unit
    and OverflowError for a number beyond float64 (the parser lets neither of a plain size
    through)."""
    return ast.rewrite(
        e, lambda x: ast.Num(to_canonical(x.value, x.unit), x.span) if isinstance(x, ast.Quantity) else x
    )


def _assignment_help(e: ast.Expr, expected: Dimension, found: Dimension) -> str | None:
    if isinstance(e, ast.Quantity):  # that is not to be divided by something: it has the wrong unit
        unit = "Hz" if expected == FREQUENCY else canonical_name(expected)
        if expected.dimensionless:
            return f"write `{e.value:g}`, without a unit"
        return f"for example `{e.value:g} {unit}`" if unit[0].isalpha() else f"give it in [{unit}]"
    ratio = found / expected
    inverse = expected / found
    if ratio.dimensionless:
        return None
    if found.dimensionless:
        return f"multiply by a quantity in [{canonical_name(expected)}]"
    if expected.dimensionless:
        return f"divide by a quantity in [{canonical_name(found)}]"
    short = min((ratio, inverse), key=lambda d: len(canonical_name(d)))
    verb = "divide by" if short is ratio else "multiply by"
    return f"{verb} a {canonical_name(short)} quantity to make it {describe(expected)}"


def _bare(e: ast.Expr, found: Dimension) -> bool:
    """Whether `e` is a constant that was written without a unit."""
    return (
        found.dimensionless
        and ast.refs(e) <= CONSTANTS.keys()
        and not any(isinstance(x, ast.Quantity) for x in ast.nodes(e))
    )


def _bare_number(e: ast.Expr, expected: Dimension, why: str, sink: Sink) -> None:
    unit = canonical_name(expected)
    if expected.dimensionless:
        help = None
    elif unit.startswith("1/"):
        text = shorten(e) if isinstance(e, ast.Num) else f"({shorten(e)}) * 1"
        help = f"write `{text} Hz`" if unit == "1/ms" else f"divide it by `1 {unit[2:]}`"
    elif isinstance(e, ast.Num):
        help = f"write `{shorten(e)} {unit}`"
    else:
        text = shorten(e) if isinstance(e, ast.Ref) else f"({shorten(e)})"
        help = f"write `{text} * 1 {unit}`"
    sink.error("E0402", f"{why}, but `{shorten(e)}` has no unit", e.span, help)


_Part = tuple[ast.Expr, Dimension]


class _Checker:
    def __init__(self, env: Mapping[str, Dimension | None], sink: Sink) -> None:
        self.env, self.sink = env, sink
        self.known: dict[int, Dimension | None] = {}  # of shared nodes: each is checked once

    def infer(self, e: ast.Expr) -> Dimension | None:
        if not ast.children(e):
            return self.found(e)
        if id(e) not in self.known:
            self.known[id(e)] = self.found(e)
        return self.known[id(e)]

    def found(self, e: ast.Expr) -> Dimension | None:
        match e:
            case ast.Num(value):
                return None if value == 0 else DIMENSIONLESS
            case ast.Bool():
                return DIMENSIONLESS
            case ast.Quantity():
                return self.quantity(e)
            case ast.Ref(name):
                return self.env.get(name) if name in self.env or name not in CONSTANTS else DIMENSIONLESS
            case ast.Unary(_, x):
                return self.infer(x)
            case ast.Binary():
                return self.binary(e, e.op, e.left, e.right)
            case ast.Cond(test, then, orelse):
                self.infer(test)
                return self.common(e, (then, orelse), "choose between")
            case ast.Call():
                return self.call(e)

    def quantity(self, e: ast.Quantity) -> Dimension | None:
        known = parse_unit(e.unit)
        if known is None:
            self.sink.error("E0403", f"`{e.unit}` is not a known unit", e.span)
            return None
        return known[0]

    def binary(self, e: ast.Binary, op: str, a: ast.Expr, b: ast.Expr) -> Dimension | None:
        if op == "**":
            return self.power(e, a, b)
        if op in ("*", "/"):
            left, right = self.factor(a), self.factor(b)
            if left is None or right is None:
                return None
            return left * right if op == "*" else left / right
        if op in ast.LOGICAL:
            self.infer(a)
            self.infer(b)
            return DIMENSIONLESS
        common = self.common(e, (a, b), "compare" if op in ast.COMPARISONS else _VERBS[op])
        return DIMENSIONLESS if op in ast.COMPARISONS or op == "//" else common

    def factor(self, e: ast.Expr) -> Dimension | None:
        """Dimension of a factor: here a literal 0 is just a number."""
        return DIMENSIONLESS if isinstance(e, ast.Num) else self.infer(e)

    def common(self, whole: ast.Expr, parts: tuple[ast.Expr, ...], verb: str) -> Dimension | None:
        """The dimension that all of `parts` share; reports the first that does not fit."""
        found = [self.infer(p) for p in parts]
        known = [(p, d) for p, d in zip(parts, found, strict=True) if d is not None]
        if len({d for _, d in known}) <= 1:
            return known[0][1] if known else None
        # what was written without unit is compared with what has one, not the other way round
        base, dimension = next(((p, d) for p, d in known if not _bare(p, d)), known[0])
        for part, other in known:
            if other == dimension:
                continue
            if _bare(part, other):
                self.bare(part, base, dimension)
                return dimension
            self.mismatch(whole, (base, dimension), (part, other), verb)
            return None
        return dimension

    def bare(self, number: ast.Expr, base: ast.Expr, dimension: Dimension) -> None:
        why = f"`{shorten(base)}` is {describe(dimension)}"
        _bare_number(number, dimension, why, self.sink)

    def mismatch(
        self, whole: ast.Expr, a: tuple[ast.Expr, Dimension], b: tuple[ast.Expr, Dimension], verb: str
    ) -> None:
        first, second = sorted((a, b), key=lambda pair: pair[0].span.start)
        (x, dx), (y, dy) = first, second
        left, right = shorten(x), shorten(y)
        joined = f"`{left}` and `{right}`"
        if verb == "subtract":
            joined = f"`{right}` from `{left}`"
        elif verb == "divide":
            joined = f"`{left}` by `{right}` with a whole result"
        message = f"cannot {verb} {joined}: `{left}` is {describe(dx)}, `{right}` is {describe(dy)}"
        self.sink.error("E0401", message, whole.span, self.mismatch_help(first, second))

    def mismatch_help(self, a: _Part, b: _Part) -> str | None:
        for (x, d), (_, other) in ((a, b), (b, a)):
            if d.dimensionless and isinstance(x, ast.Ref):
                return f"give `{x.name}` a unit, [{canonical_name(other)}]"
        return None

    def power(self, e: ast.Expr, base: ast.Expr, exponent: ast.Expr) -> Dimension | None:
        d = self.infer(base)
        power = self.infer(exponent)
        if power is not None and not power.dimensionless:
            text = shorten(exponent)
            message = f"an exponent is a number without a unit, but `{text}` is {describe(power)}"
            self.sink.error("E0401", message, exponent.span)
            return None
        if d is None or d.dimensionless:
            return d
        value: object = None
        if not ast.refs(exponent):
            try:
                value = evaluate(exponent, {})
            except ExprError:
                value = None
        if not isinstance(value, int | float) or abs(value) > 100:
            text = shorten(base)
            message = f"`{text}` is {describe(d)}, so its exponent must be a number that is written out"
            help = f"divide `{text}` by a reference quantity in [{canonical_name(d)}] first"
            self.sink.error("E0401", message, exponent.span, help)
            return None
        return d ** (value if isinstance(value, int) else Fraction(value).limit_denominator(1000))

    def call(self, e: ast.Call) -> Dimension | None:
        known = FUNCTIONS.get(e.func)
        if known is None and called_table(e.func) is None:  # the file's own function, before it is inlined
            for x in e.args:
                self.infer(x)
            return None
        dimension = "pure" if known is None else known.dimension
        if dimension == "select":
            self.infer(e.args[0])
            return self.common(e, e.args[1:], "choose between")
        if dimension in ("same", "ratio"):
            common = self.common(e, e.args, "compare")
            return common if dimension == "same" else DIMENSIONLESS
        if dimension == "any":
            for x in e.args:
                self.infer(x)
            return DIMENSIONLESS
        if dimension == "sqrt":
            d = self.infer(e.args[0])
            return None if d is None else d ** Fraction(1, 2)
        for x in e.args:
            d = self.infer(x)
            if d is not None and not d.dimensionless:
                text, unit = shorten(x), canonical_name(d)
                message = f"`{e.func}` takes a number without a unit, but `{text}` is {describe(d)}"
                help = f"divide it by a quantity in [{unit}] first"
                self.sink.error("E0401", message, x.span, help)
        return DIMENSIONLESS
