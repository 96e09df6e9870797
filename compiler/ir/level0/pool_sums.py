"""Reductions over neurons in statements of `on`: `mean_pool(v)`, `sum_population(error)` and their kin.

Assumes: they are calls in values of a Handler's actions; the argument is an expression of the neuron.
Guarantees: one table of names for frontend, verifier and lowering, and one rule for the statements that wait.
Does not: compute them (passes/model/bind_symbols.py, passes/cells/lower_pools.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.ast import Call, Expr, Num, Ref, children, refs, rewrite
from compiler.ir.level0.spiking import Set

SCOPES: Final = ("population", "pool")
OPERATIONS: Final = ("sum", "mean", "min", "max", "argmax")

POOL_SUMS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {f"{op}_{scope}": (op, scope) for op in OPERATIONS for scope in SCOPES}
)
"""Name -> what is done, and over which neurons: `mean_pool(v)` is the mean of v over the neurons of a pool."""
_ZERO: Final = Num(0.0)


def pool_sums(e: Expr) -> tuple[Call, ...]:
    """The reductions in `e`, inner ones first."""
    inner = tuple(call for kid in children(e) for call in pool_sums(kid))
    return (*inner, e) if isinstance(e, Call) and e.func in POOL_SUMS else inner


def read_by_sums(e: Expr) -> frozenset[str]:
    """The names that reductions in `e` read, of all neurons."""
    return frozenset[str]().union(*(refs(call) for call in pool_sums(e)))


def without_sums(e: Expr) -> Expr:
    """`e` with a number in place of each reduction."""
    return rewrite(e, lambda x: _ZERO if isinstance(x, Call) and x.func in POOL_SUMS else x, top_down=True)


def renamed_outside(e: Expr, bindings: Mapping[str, Expr]) -> Expr:
    """`e` with names replaced, but not in what reductions read: a pool and its neurons may use one name each."""

    def changed(x: Expr) -> Expr:
        if isinstance(x, Call) and x.func in POOL_SUMS:
            return Call(x.func, x.args, x.span)  # another node, so that its arguments are not visited
        return bindings.get(x.name, x) if isinstance(x, Ref) else x

    return rewrite(e, changed, top_down=True)


def groups(actions: Iterable[Set]) -> tuple[tuple[Set, ...], ...]:
    """The statements of a list in groups: a statement begins one if a reduction in it reads what the group before it
    assigns, as all neurons must be done with that; the reductions of a group are computed where it begins."""
    out: list[list[Set]] = []
    for action in actions:
        if not out or read_by_sums(action.value) & {s.target for s in out[-1]}:
            out.append([])
        out[-1].append(action)
    return tuple(map(tuple, out))
