"""Rewriting of definitions of level 0, of neurons, synapses and their parts: every expression, and names.

Assumes: definitions of model.py.
Guarantees: the structure is preserved; only the results of the two functions differ.
Does not: resolve names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.expr.ast import Expr, Node, refs

P = TypeVar("P")
Rewrite = Callable[[Expr], Expr]
Rename = Callable[[str], str]


def same(name: str) -> str:
    return name


def rewritten(part: P, expr: Rewrite, name: Rename = same) -> P:
    """A definition, or a part of one, with `expr` of every expression but defaults and initial values, and `name` of
    what statements and equations are about; declared names stay."""
    return cast(P, _rewritten(part, expr, name))


def _rewritten(x: Any, expr: Rewrite, name: Rename) -> Any:
    match x:
        case Node():
            return expr(cast(Expr, x))
        case tuple():
            return tuple(_rewritten(i, expr, name) for i in x)
        case l0.Set(target, value, span):
            return l0.Set(name(target), expr(value), span)
        case l0.Transpose(target):
            return replace(x, target=name(target))
        case l0.Ode(state, rhs, span):
            return l0.Ode(name(state), expr(rhs), span)
        case l0.ParamDecl() | l0.StateDecl() | Span():
            return x
    if not is_dataclass(x) or isinstance(x, type):
        return x
    return replace(x, **{f.name: _rewritten(getattr(x, f.name), expr, name) for f in fields(x)})


def names_read(part: Any) -> set[str]:
    """The names in every expression of a definition, or of a part of one, but defaults and initial values."""
    found = set[str]()

    def note(e: Expr) -> Expr:
        found.update(refs(e))
        return e

    rewritten(part, note)
    return found
