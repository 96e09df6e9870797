"""Rewriting of pools and events of level 0: every expression and every name.

Assumes: definitions of model.py.
Guarantees: the structure is preserved; only the results of the two functions differ.
Does not: resolve names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr, refs

Rewrite = Callable[[Expr], Expr]
Rename = Callable[[str], str]


def same(name: str) -> str:
    return name


def rewritten_sets(sets: tuple[l0.Set, ...], expr: Rewrite, name: Rename = same) -> tuple[l0.Set, ...]:
    return tuple(l0.Set(name(s.target), expr(s.value), s.span) for s in sets)


def rewritten_handler(handler: l0.Handler, expr: Rewrite, name: Rename = same) -> l0.Handler:
    return replace(handler, actions=rewritten_sets(handler.actions, expr, name))


def rewritten_pool(pool: l0.PoolDef, expr: Rewrite, name: Rename = same) -> l0.PoolDef:
    """`name` is asked about whole names (`pool.gi`) of targets only; declared names stay."""
    return replace(
        pool,
        reductions=tuple(replace(r, value=expr(r.value)) for r in pool.reductions),
        update=rewritten_sets(pool.update, expr, name),
        on=tuple(rewritten_handler(h, expr, name) for h in pool.on),
    )


def expressions(pools: tuple[l0.PoolDef, ...], on: tuple[l0.Handler, ...]) -> Iterator[Expr]:
    """Every expression of pools and handlers."""
    for pool in pools:
        yield from (r.value for r in pool.reductions)
        yield from (s.value for s in pool.update)
        yield from (s.value for h in pool.on for s in h.actions)
    yield from (s.value for h in on for s in h.actions)


def names_read(pools: tuple[l0.PoolDef, ...], on: tuple[l0.Handler, ...]) -> set[str]:
    return set().union(*(refs(e) for e in expressions(pools, on)))
