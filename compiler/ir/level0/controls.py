"""Rewriting what level 0 knows of pools and events: every expression and every name, in place.

Assumes: definitions of model.py.
Guarantees: structure stays; only what the two functions change is changed.
Does not: know which names are whose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from compiler.expr.ast import Expr, refs
from compiler.ir.level0.model import Handler, PoolDef, Set

Rewrite = Callable[[Expr], Expr]
Rename = Callable[[str], str]


def same(name: str) -> str:
    return name


def rewritten_sets(sets: tuple[Set, ...], expr: Rewrite, name: Rename = same) -> tuple[Set, ...]:
    return tuple(Set(name(s.target), expr(s.value), s.span) for s in sets)


def rewritten_handler(handler: Handler, expr: Rewrite, name: Rename = same) -> Handler:
    return replace(handler, actions=rewritten_sets(handler.actions, expr, name))


def rewritten_pool(pool: PoolDef, expr: Rewrite, name: Rename = same) -> PoolDef:
    """`name` is asked about whole names (`pool.gi`) of targets only; declared names stay."""
    return replace(
        pool,
        reductions=tuple(replace(r, value=expr(r.value)) for r in pool.reductions),
        update=rewritten_sets(pool.update, expr, name),
        on=tuple(rewritten_handler(h, expr, name) for h in pool.on),
    )


def expressions(pools: tuple[PoolDef, ...], on: tuple[Handler, ...]) -> Iterator[Expr]:
    """Every expression of pools and handlers."""
    for pool in pools:
        yield from (r.value for r in pool.reductions)
        yield from (s.value for s in pool.update)
        yield from (s.value for h in pool.on for s in h.actions)
    yield from (s.value for h in on for s in h.actions)


def names_read(pools: tuple[PoolDef, ...], on: tuple[Handler, ...]) -> set[str]:
    return set().union(*(refs(e) for e in expressions(pools, on)))
