"""Kinds of expressions: booleans, integers, real numbers.

Assumes: a tree of compiler.expr.ast; `env` has the kind of every name (constants of functions.py
need not be there).
Guarantees: each mistake is one diagnostic (E0302 unknown name, E0303 unknown function, E0304 wrong
number of arguments, E0306 wrong kind); a part that is wrong is not reported again by what contains
it.
Does not: choose machine types: INT means "an integer", of any width. Check dimensions (check.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

import compiler.expr.ast as ast
from compiler.core.diagnostics import Sink, did_you_mean
from compiler.expr.ast import shorten
from compiler.expr.functions import CONSTANTS, FUNCTIONS, Function
from compiler.expr.units import UNITS


class Kind(Enum):
    """The kind of an expression's value. `value` is the word for messages."""

    BOOL = "a condition"
    INT = "a whole number"
    REAL = "a number"

    @property
    def numeric(self) -> bool:
        return self is not Kind.BOOL


_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            theirs: f"did you mean `{ours}`?"
            for theirs, ours in (
                *(("ln", "log"), ("fabs", "abs"), ("sgn", "sign"), ("clamp", "clip"), ("logistic", "sigmoid")),
                *(("arcsin", "asin"), ("arccos", "acos"), ("arctan", "atan"), ("arctan2", "atan2")),
                *(("maximum", "max"), ("minimum", "min"), ("rand", "random"), ("randn", "normal")),
            )
        },
        "pow": "write `x ** y`",
        "uniform": "write `low + (high - low) * random()`",
        "gauss": "write `mean + std * normal()`",
        "bernoulli": "write `1 if random() < p else 0`",
        "square": "write `x ** 2`",
        "softmax": "a layer: `- softmax: {inputs: x}`",
        **{
            op: f"sums, means and extrema along axes are layers: `- reduce: {{function: {of}}}`"
            for op, of in (("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min"))
        },
        **dict.fromkeys(("detach", "stop_gradient"), "a layer: `- stop_gradient: {inputs: x}`"),
        "delayed": "`delayed(pre.v)` stands in statements, equations and conditions of a synapse",
        "transpose": "`w = transpose(forward.w)` stands in `on` of a synapse",
        "sum_into": "`sum_into(x)` stands in values of a projection, and in statements and parameters of a synapse",
        **{
            f"{op}_{over}": f"`{op}_{over}(x)` stands in `on` of a neuron; in every step, write "
            f"`{over}: {{reduce: {{y: {op}(x)}}}}` and read `{over}.y`"
            for op in ("sum", "mean", "max", "min", "argmax")
            for over in ("pool", "population")
        },
        **{
            f"{op}_kernel": "sums over the elements of a kernel stand in `update` and `on` of a synapse"
            for op in ("sum", "mean", "max", "min", "first")
        },
        **{
            f"{op}_{end}": "sums over synapses stand in `update` and `on` of a synapse"
            + (", sums over instances in `on` of a neuron, too" if end == "instances" else "")
            for op in ("sum", "mean", "max", "min")
            for end in ("pre", "post", "instances")
        },
    }
)
"""What other languages call our functions, where the spelling alone would not lead here."""

_OTHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("infinity", "Infinity", "Inf"), "did you mean `inf`?"),
        **dict.fromkeys(("true", "false"), "truth values stand without quotes"),
        **dict.fromkeys(
            ("i", "j"),
            "a neuron is `self.i`; a rule, `weight`, `delay`, `params` and `init` of a projection know `i` and `j`",
        ),
        "self": "neurons know their place; to a synapse, `params: {x: i}` of the projection gives that of an end",
    }
)
"""Names that other languages know, where the spelling alone would not lead here."""

_NO_FUNCTIONS: Final[Mapping[str, int]] = MappingProxyType({})


def check_types(
    e: ast.Expr,
    env: Mapping[str, Kind],
    sink: Sink,
    functions: Mapping[str, int] = _NO_FUNCTIONS,
) -> Kind:
    """The kind of `e`. `functions`: the file's own functions by name, with their numbers of
    parameters (their results are REAL until they are inlined). After an error the result is a
    guess."""
    return _Checker(env, sink, functions).kind(e) or Kind.REAL


def _literal(e: ast.Expr) -> float | None:
    match e:
        case ast.Num(value):
            return float(value)
        case ast.Unary("-", ast.Num(value)):
            return -float(value)
    return None


class _Checker:
    def __init__(self, env: Mapping[str, Kind], sink: Sink, functions: Mapping[str, int]) -> None:
        self.env, self.sink, self.functions = env, sink, functions
        self.known: dict[int, Kind | None] = {}  # of shared nodes: each is checked once

    def kind(self, e: ast.Expr) -> Kind | None:
        """The kind of `e`, None when a mistake in it has been reported."""
        if not ast.children(e):
            return self.found(e)
        if id(e) not in self.known:
            self.known[id(e)] = self.found(e)
        return self.known[id(e)]

    def found(self, e: ast.Expr) -> Kind | None:
        match e:
            case ast.Num(value):
                return Kind.INT if isinstance(value, int) else Kind.REAL
            case ast.Quantity():
                return Kind.REAL
            case ast.Bool():
                return Kind.BOOL
            case ast.Ref():
                return self.name(e)
            case ast.Unary("not", x):
                self.condition(x, "`not` needs a condition")
                return Kind.BOOL
            case ast.Unary(op, x):
                return self.number(x, f"`{op}` needs a number")
            case ast.Binary():
                return self.binary(e, e.op, e.left, e.right)
            case ast.Cond(test, then, orelse):
                self.condition(test, "`if` needs a condition")
                return self.arms(e, then, orelse)
            case ast.Call():
                return self.call(e)

    def binary(self, e: ast.Binary, op: str, a: ast.Expr, b: ast.Expr) -> Kind | None:
        if op in ast.LOGICAL:
            for x in (a, b):
                self.condition(x, f"`{op}` needs conditions")
            return Kind.BOOL
        if op in ast.COMPARISONS:
            self.comparison(e)
            return Kind.BOOL
        if op in "*/" and isinstance(b, ast.Ref) and (help := self.product_with_unit(a, op, b.name)) is not None:
            self.sink.error("E0302", f"unknown name `{b.name}`", b.span, help)
            return None
        left, right = (self.number(x, f"`{op}` needs numbers") for x in (a, b))
        if op == "/" or Kind.REAL in (left, right):
            return Kind.REAL
        if op == "**":
            return left if isinstance(b, ast.Num) and b.value >= 0 else Kind.REAL
        return left and right

    def name(self, e: ast.Ref) -> Kind | None:
        if e.name in self.env:
            return self.env[e.name]
        if e.name in CONSTANTS:
            return Kind.REAL
        if e.name in FUNCTIONS or e.name in self.functions:
            help: str | None = f"`{e.name}` is a function: write `{e.name}(...)`"
        elif e.name in UNITS:
            help = f"`{e.name}` is a unit: a number stands before it, `1 {e.name}`"
        else:
            constants = CONSTANTS if len(e.name) > 2 else ()
            alike = (n for n in self.env if len(e.name) > 1 or n.lower() == e.name.lower())
            found = (did_you_mean(e.name, (*alike, *constants)), _OTHER_WORDS.get(e.name.partition(".")[0]))
            help = " ".join(x for x in (found if len(e.name) == 1 else found[:1] if found[0] else found) if x) or None
        self.sink.error("E0302", f"unknown name `{e.name}`", e.span, help)
        return None

    def product_with_unit(self, number: ast.Expr, op: str, unit: str) -> str | None:
        """What to write instead of `20 * ms` and `2 / ms`, as other simulators have it; None for what has no unit."""
        if unit in self.env or unit in CONSTANTS or unit not in UNITS:
            return None
        if op == "/":
            return f"`{unit}` is a unit: divide by a quantity, `/ (1 {unit})`"
        value, sign = (number.operand, "-") if isinstance(number, ast.Unary) and number.op == "-" else (number, "")
        if not isinstance(value, ast.Num):
            return f"`{unit}` is a unit: multiply by a quantity, `1 {unit}`"
        return f"write `{sign}{value.value:g} {unit}`, without `*`"

    def condition(self, e: ast.Expr, message: str) -> None:
        found = self.kind(e)
        if found is not None and found.numeric:
            text = shorten(e)
            help = f"write `{text} != 0`" if isinstance(e, ast.Ref | ast.Call) else "compare it with something"
            self.sink.error("E0306", f"{message}; `{text}` is {found.value}", e.span, help)

    def number(self, e: ast.Expr, message: str) -> Kind | None:
        found = self.kind(e)
        if found is not Kind.BOOL:
            return found
        text = shorten(e)
        help = f"write `float({text})`" if isinstance(e, ast.Ref) else f"write `1 if {text} else 0`"
        self.sink.error("E0306", f"{message}; `{text}` is {found.value}", e.span, help)
        return None

    def comparison(self, e: ast.Binary) -> None:
        left, right = self.kind(e.left), self.kind(e.right)
        if left is None or right is None:
            return
        both_conditions = left is right is Kind.BOOL and e.op in ("==", "!=")
        if not (left.numeric and right.numeric) and not both_conditions:
            texts = f"`{shorten(e.left)}` is {left.value}, `{shorten(e.right)}` is {right.value}"
            self.sink.error("E0306", f"`{e.op}` cannot compare these: {texts}", e.span)

    def arms(self, whole: ast.Expr, a: ast.Expr, b: ast.Expr) -> Kind | None:
        left, right = self.kind(a), self.kind(b)
        if left is None or right is None:
            return left or right
        if left.numeric != right.numeric:
            texts = f"`{shorten(a)}` is {left.value}, `{shorten(b)}` is {right.value}"
            self.sink.error("E0306", f"both arms must be of one kind: {texts}", whole.span)
            return None
        return left if left is right else Kind.REAL

    def call(self, e: ast.Call) -> Kind | None:
        own = self.functions.get(e.func)
        known = FUNCTIONS.get(e.func)
        if own is None and known is None:
            help = _OTHER_NAMES.get(e.func) or did_you_mean(e.func, (*FUNCTIONS, *self.functions))
            if help is None and e.func in self.env:
                help = f"to multiply, write `{e.func} * (...)`"
            self.sink.error("E0303", f"unknown function `{e.func}`", e.span, help)
            before = len(self.sink.items)
            for x in e.args:
                self.kind(x)
            # Names may be words of the function that is meant: `steps(t, i)`, `dot(past, past, 1 / k)`.
            self.sink.items[before:] = [d for d in self.sink.items[before:] if d.code != "E0302"]
            return None
        if own is not None or known is None:
            self.count(e, own == len(e.args), str(own), None)
            for x in e.args:
                self.number(x, f"`{e.func}` needs numbers")
            return Kind.REAL
        needed = f"{known.least}" if known.most is not None else f"at least {known.least}"
        signature = f"{known.name}({', '.join(known.parameters)})"
        if not self.count(e, known.accepts(len(e.args)), needed, f"`{signature}`: {known.doc}"):
            for x in e.args:
                self.kind(x)
            return None
        if known.kind == "select":
            self.condition(e.args[0], f"`{known.name}` needs a condition")
            return self.arms(e, e.args[1], e.args[2])
        if known.kind in ("cast_real", "cast_int"):
            self.kind(e.args[0])
            return Kind.REAL if known.kind == "cast_real" else Kind.INT
        kinds = [self.number(x, f"`{known.name}` needs numbers") for x in e.args]
        self.domains(e, known, signature)
        if known.kind == "same":
            return Kind.INT if all(k is Kind.INT for k in kinds) else Kind.REAL
        return {"int": Kind.INT, "bool": Kind.BOOL}.get(known.kind, Kind.REAL)

    def domains(self, e: ast.Call, known: Function, signature: str) -> None:
        """Numbers outside of what an argument may be."""
        for x, parameter, domain in zip(e.args, known.parameters, known.domains, strict=False):
            given = _literal(x)
            if given is not None and given not in domain:
                message = f"`{parameter}` of `{signature}` is {given:g}, it has to be {domain.doc}"
                self.sink.error("E0308", message, x.span)

    def count(self, e: ast.Call, right: bool, needed: str, help: str | None) -> bool:
        if not right:
            plural = "" if needed.endswith(" 1") or needed == "1" else "s"
            message = f"`{e.func}` takes {needed} argument{plural}, {len(e.args)} given"
            self.sink.error("E0304", message, e.span, help)
        return right
