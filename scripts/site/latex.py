"""Expressions and statements of models as LaTeX, for the pages of the library.

Assumes: trees of compiler/expr/parse.py, before units are erased.
Guarantees: the same operators, numbers and units as in the text; parentheses where precedence needs them. Names become
symbols: `tau_m` has the subscript m, `post.y` the superscript post, words of several letters are upright.
Does not: simplify, except for `exprel`, which is written out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.expr.parse import Assign, Statement, parse_expr, parse_statement

_COND, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 11)

_GREEK: Final = frozenset(
    re.findall(
        r"\w+",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
        "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega",
    )
)
_WHOLE: Final[Mapping[str, str]] = {
    "dt": r"\Delta t",
    "inf": r"\infty",
    "epsilon": r"\varepsilon",
    "phi": r"\varphi",
    "pi": r"\pi",
}
_COMPARISONS: Final[Mapping[str, str]] = {
    "<": "<",
    "<=": r"\le",
    ">": ">",
    ">=": r"\ge",
    "==": "=",
    "!=": r"\ne",
}


class Unreadable(Exception):
    """A text that is no expression or statement of the language."""


def expression(text: str, names: Mapping[str, str] | None = None) -> str:
    """The LaTeX of an expression. `names`: symbols of names, in place of what they would become."""
    sink = Sink()
    found = parse_expr(text, NOWHERE, sink, exact=False)
    if found is None:
        raise Unreadable(text)
    return _Printer(names or {}).of(found)


def statement(text: str, names: Mapping[str, str] | None = None) -> str:
    """The LaTeX of a statement: an assignment as an arrow to the left, a call such as `deliver(w)` by its name."""
    found = _statement(text)
    printer = _Printer(names or {})
    if isinstance(found, Assign):
        value = Ref(found.target)
        right: Expr = found.value
        if found.op != "=":
            right = Binary(found.op[0], value, right)
        return rf"{printer.name(found.target)} \leftarrow {printer.of(right)}"
    arguments = r",\; ".join(printer.of(a) for a in found.call.args)
    return rf"\text{{{found.call.func} }} {arguments}"


def derivative(variable: str, text: str, names: Mapping[str, str] | None = None) -> str:
    """The LaTeX of the differential equation of a variable."""
    name = _Printer(names or {}).name(variable)
    return rf"\frac{{d{name}}}{{dt}} = {expression(text, names)}"


def _statement(text: str) -> Statement:
    found = parse_statement(text, NOWHERE, Sink(), exact=False)
    if found is None:
        raise Unreadable(text)
    return found


def unit(text: str) -> str:
    """The LaTeX of a unit: `uF/cm**2`."""
    text = re.sub(r"\*\*(-?\d+)", r"^{\1}", text).replace("*", r"\,")
    text = re.sub(r"\bu(?=[A-Z])", r"µ", text).replace("Ohm", "Ω")
    return re.sub(r"[A-Za-zµΩ]+", lambda m: rf"\mathrm{{{m[0]}}}", text)


def number(value: int | float) -> str:
    """The LaTeX of a number; 1e-6 as a power of ten."""
    text = repr(value)
    if isinstance(value, float) and value == 2.718281828459045:
        return "e"
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return "1" if text == "1.0" else text
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa in ("1", "1.0") else rf"{mantissa} \cdot {power}"


class _Printer:
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def name(self, text: str) -> str:
        """The symbol of a name."""
        if text in self.names:
            return self.names[text]
        if "." in text:
            side, _, inner = text.partition(".")
            return rf"{{{self.name(inner)}}}^{{\mathrm{{{side}}}}}"
        if text in _WHOLE:
            return _WHOLE[text]
        head, *rest = text.split("_")
        found = re.fullmatch(r"([A-Za-z]+?)(\d*)", head)
        word, digits = (found[1], found[2]) if found else (head, "")
        symbol = _word(word)
        if "hat" in rest:
            rest.remove("hat")
            symbol = rf"\hat{{{symbol}}}"
        below = [digits] * bool(digits) + [_word(r) if r in _GREEK else rf"\mathrm{{{r}}}" for r in rest]
        return symbol + (f"_{{{','.join(below)}}}" if below else "")

    def of(self, e: Expr) -> str:
        return self._print(e)[0]

    def _inside(self, e: Expr, least: int) -> str:
        text, precedence = self._print(e)
        return text if precedence >= least else rf"\left( {text} \right)"

    def _print(self, e: Expr) -> tuple[str, int]:
        match e:
            case Num(value):
                return number(value), _SUM if value < 0 else _ATOM
            case Bool(value):
                return rf"\text{{{str(value).lower()}}}", _ATOM
            case Quantity(value, of):
                return rf"{number(value)}\,{unit(of)}", _SUM if value < 0 else _PRODUCT
            case Ref(name):
                return self.name(name), _ATOM
            case Unary("not", x):
                return rf"\neg {self._inside(x, _NOT)}", _NOT
            case Unary(op, x):
                return op + self._inside(x, _PRODUCT), _SUM
            case Cond():
                return self._cases(e), _COND
            case Call():
                return self._call(e)
            case Binary():
                return self._binary(e)

    def _binary(self, e: Binary) -> tuple[str, int]:
        op, a, b = e.op, e.left, e.right
        if op in _COMPARISONS:
            return f"{self._inside(a, _SUM)} {_COMPARISONS[op]} {self._inside(b, _SUM)}", _COMPARE
        if op in ("and", "or"):
            level = _AND if op == "and" else _OR
            return rf"{self._inside(a, level)} \;\text{{{op}}}\; {self._inside(b, level + 1)}", level
        if op in "+-":
            return f"{self._inside(a, _SUM)} {op} {self._inside(b, _PRODUCT)}", _SUM
        if op == "*":
            left, right = self._inside(a, _PRODUCT), self._inside(b, _PRODUCT if isinstance(b, Quantity) else _SIGN)
            between = r" \cdot " if right[0].isdigit() else r" \, "
            return f"{left}{between}{right}", _PRODUCT
        if op == "/":
            return self._fraction(a, b)
        if op == "**":
            return self._power(a, b)
        word = r"\bmod" if op == "%" else r"\div"
        return f"{self._inside(a, _PRODUCT)} {word} {self._inside(b, _SIGN)}", _PRODUCT

    def _fraction(self, a: Expr, b: Expr) -> tuple[str, int]:
        if isinstance(b, Quantity) and b.value == 1:
            if isinstance(a, Num):  # a rate, as `0.02 / (1 ms)`
                inverse = rf"{unit(b.unit)}^{{-1}}" if b.unit.isalpha() else rf"\left( {unit(b.unit)} \right)^{{-1}}"
                return rf"{number(a.value)}\,{inverse}", _PRODUCT
            return rf"\frac{{{self.of(a)}}}{{{unit(b.unit)}}}", _SIGN
        if isinstance(a, Unary) and a.op == "-":
            return rf"-\frac{{{self.of(a.operand)}}}{{{self.of(b)}}}", _SUM
        return rf"\frac{{{self.of(a)}}}{{{self.of(b)}}}", _SIGN

    def _power(self, a: Expr, b: Expr) -> tuple[str, int]:
        if b == Num(-1) or b == Unary("-", Num(1)):
            if isinstance(a, Call) and a.func == "exprel":
                return rf"\frac{{{self.of(a.args[0])}}}{{{self._exp(a.args[0])} - 1}}", _SIGN
            return rf"\frac{{1}}{{{self.of(a)}}}", _SIGN
        return f"{self._inside(a, _ATOM)}^{{{self.of(b)}}}", _POWER

    def _exp(self, x: Expr) -> str:
        inner = self.of(x)
        return rf"\exp\left( {inner} \right)" if r"\frac" in inner else f"e^{{{inner}}}"

    def _call(self, e: Call) -> tuple[str, int]:
        inner = [self.of(a) for a in e.args]
        match e.func:
            case "exp":
                return self._exp(e.args[0]), _POWER
            case "expm1":
                return f"{self._exp(e.args[0])} - 1", _SUM
            case "exprel":
                return rf"\frac{{{self._exp(e.args[0])} - 1}}{{{inner[0]}}}", _SIGN
            case "sqrt":
                return rf"\sqrt{{{inner[0]}}}", _ATOM
            case "norm":
                return rf"\| {inner[0]} \|", _ATOM
            case _:
                joined = r",\, ".join(inner)
                name = e.func.replace("_", r"\_")
                return rf"\mathrm{{{name}}}\left( {joined} \right)", _ATOM

    def _cases(self, e: Cond) -> str:
        rows, rest = [], e
        while isinstance(rest, Cond):
            rows.append(rf"{self.of(rest.then)} & \text{{if }} {self.of(rest.test)}")
            rest = rest.orelse  # type: ignore[assignment]
        rows.append(rf"{self.of(rest)} & \text{{otherwise}}")
        return r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"


def _word(text: str) -> str:
    if text in _WHOLE:
        return _WHOLE[text]
    if text in _GREEK:
        return f"\\{text}"
    return text if len(text) == 1 else rf"\mathrm{{{text}}}"
