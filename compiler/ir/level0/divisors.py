"""Divisions and draws of an expression or a definition of level 0, and those whose divisor or arguments decide whether
an expression has a value.

Assumes: checked expressions.
Guarantees: time is linear in distinct nodes.
Does not: know values of names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.expr.ast import Binary, Call, Expr, Unary, nodes
from compiler.expr.functions import Domain
from compiler.expr.interp import ExprError, evaluate
from compiler.ir.level0.controls import rewritten

Definition = l0.NeuronDef | l0.SynapseDef | l0.SourceDef
_DIVIDE = ("/", "//", "%")


def divisions(e: Expr) -> Iterator[Binary]:
    return (x for x in nodes(e) if isinstance(x, Binary) and x.op in _DIVIDE)


def divisions_of(definition: Definition) -> list[Binary]:
    """Every division in the equations and statements of a definition."""
    return [x for e in _expressions(definition) for x in divisions(e)]


def draws_of(definition: Definition, functions: Collection[str]) -> list[Call]:
    """Every call of one of `functions` in the equations and statements of a definition."""
    return [x for e in _expressions(definition) for x in nodes(e) if isinstance(x, Call) and x.func in functions]


def _expressions(definition: Definition) -> list[Expr]:
    found = list[Expr]()

    def note(e: Expr) -> Expr:
        found.append(e)
        return e

    rewritten(definition, note)
    return found


def deciding(e: Expr) -> Iterator[Binary]:
    """The divisions without whose value `e` has none: not those in a divisor, where infinity gives 0, in an argument of
    a function, or behind a condition."""
    seen, left = set[int](), [e]
    while left:
        x = left.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        match x:
            case Binary(op, a, _) if op in _DIVIDE:
                yield x
                left.append(a)
            case Binary("+" | "-" | "*", a, b):
                left += [b, a]
            case Unary("-", a):
                left.append(a)


def is_zero(e: Expr, numbers: Mapping[str, Any]) -> bool:
    """Whether the value of `e` is 0, or one of its values; not where a name in it has none."""
    try:
        found = evaluate(e, numbers)
        return bool(np.any(found == 0)) if isinstance(found, np.ndarray) else bool(found == 0)
    except ExprError:
        return False


def is_outside(e: Expr, domain: Domain, numbers: Mapping[str, Any]) -> bool:
    """Whether the value of `e`, or one of its values, is outside of `domain`; not where a name in it has none."""
    try:
        return any(float(x) not in domain for x in np.unique(evaluate(e, numbers)))
    except ExprError:
        return False
