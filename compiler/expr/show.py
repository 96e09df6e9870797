"""Pretty-printing of expression trees.

Assumes: a tree of compiler.expr.ast.
Guarantees: `parse_expr(show(e))` gives a tree equal to `e` when every number in it is finite;
parentheses stand only where they are needed (and around a quantity that is raised to a power, for
the reader).
Does not: know C, numpy or any other target's syntax.
"""

from __future__ import annotations

from typing import Final

from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary

_COND, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 11)

_BINARY: Final = {
    **{"or": _OR, "and": _AND, "**": _POWER, "+": _SUM, "-": _SUM},
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), _COMPARE),
    **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT),
}


def show(e: Expr) -> str:
    """`e` in the notation in which users write it, e.g. `(v_rest - v + ge) / tau_m`."""
    return _show(e)[0]


def show_number(value: int | float) -> str:
    """A number so that reading it back gives the same bits."""
    return repr(value)


def shorten(e: Expr, width: int = 40) -> str:
    """`show(e)`, truncated to `width` characters for use in a message."""
    text = show(e)
    return text if len(text) <= width else text[: width - 3] + "..."


def _inside(e: Expr, least: int) -> str:
    text, precedence = _show(e)
    return text if precedence >= least else f"({text})"


def _show(e: Expr) -> tuple[str, int]:
    """The text of `e` and the precedence of its outermost operator."""
    match e:
        case Num(value):
            text = show_number(value)
            return text, _SIGN if text.startswith("-") else _ATOM
        case Bool(value):
            return ("true" if value else "false"), _ATOM
        case Quantity(value, unit):
            text = f"{show_number(value)} {unit}"
            return text, _SIGN if text.startswith("-") else _POWER
        case Ref(name):
            return name, _ATOM
        case Unary("not", x):
            return f"not {_inside(x, _NOT)}", _NOT
        case Unary(op, x):
            # `-2` reads back as one number, so a separate minus needs the parentheses
            literal = isinstance(x, Num | Quantity)
            return (f"{op}({show(x)})" if literal else op + _inside(x, _SIGN)), _SIGN
        case Binary("**", a, b):
            return f"{_inside(a, _ATOM)} ** {_inside(b, _SIGN)}", _POWER
        case Binary(op, a, b):
            precedence = _BINARY[op]
            # comparisons do not associate: `a < b < c` means something else
            left = precedence + 1 if precedence == _COMPARE else precedence
            return f"{_inside(a, left)} {op} {_inside(b, precedence + 1)}", precedence
        case Cond(test, then, orelse):
            arms = f"{_inside(then, _OR)} if {_inside(test, _OR)} else {_inside(orelse, _COND)}"
            return arms, _COND
        case Call(func, args):
            return f"{func}({', '.join(show(a) for a in args)})", _ATOM
