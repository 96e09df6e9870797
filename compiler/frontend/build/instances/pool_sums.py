"""Reductions over neurons in statements of `on`: `mean_pool(v)` and its kin in neurons, `mean(v)` in their pools.

Assumes: the handlers of a neuron, or of one of its pools, are being built.
Guarantees: what is reduced is an expression of the neuron, checked on its own; the scopes over which the
neuron's statements reduce exist.
Does not: divide the statements (passes/model/bind_symbols.py).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, calls, children, refs, rewrite, shorten
from compiler.expr.parse import Assign
from compiler.frontend.build.instances.sums import has_own_sums, take_sums
from compiler.frontend.build.shared.definition_builder import Draft, assigned
from compiler.frontend.build.shared.scope import Checked, Scope, Wanted
from compiler.frontend.build.shared.self_names import as_written
from compiler.frontend.yaml.tree import Node
from compiler.ir.level0.pool_sums import OPERATIONS, POOL_SUMS, SCOPES, pool_sums
from compiler.ir.level2.synapse_values import OVER_INSTANCES

AT_EVENTS = frozenset({*OVER_INSTANCES, *POOL_SUMS})
"""The functions that read other neurons in statements of `on`."""


def assigned_in_pool(
    scope_name: str,
    neuron: Scope,
    d: Draft,
    statement: Assign,
    scope: Scope,
    wanted: Wanted,
    node: Node,
    local: Collection[str],
) -> Checked | None:
    """The new value of a variable of a pool, in which `mean(v)` is that of its neurons, whose names are those of
    `neuron`."""

    def spelled(x: Expr) -> Expr:
        if isinstance(x, Call) and x.func in OPERATIONS and len(x.args) == 1 and x.func not in scope.functions:
            return replace(x, func=f"{x.func}_{scope_name}")
        return x

    value = rewrite(statement.value, spelled)
    if not has_own_sums(value, scope, POOL_SUMS):
        return assigned(d, statement, scope, wanted, node)
    value, taken = take_sums(value, node.span, neuron, local, d, POOL_SUMS)
    if taken.wrong:
        return None
    found = taken.back(assigned(d, replace(statement, value=value), taken.scope(scope), wanted, node), d)
    if found is None or not check_nested(found.expr, d.c.sink, node.span):
        return None
    other = next((call for call in pool_sums(found.expr) if POOL_SUMS[call.func][1] == "pool" != scope_name), None)
    if other is not None:
        message = f"`{shorten(as_written(other))}` differs from pool to pool, and this is the whole population's"
        d.c.sink.error("E0802", message, node.span, f"write `{POOL_SUMS[other.func][0]}_population(...)`")
        return None
    return found


def check_nested(e: Expr, sink: Sink, at: Span) -> bool:
    """Whether each reduction in `e` may read what it reads; E0802 if not."""
    if not isinstance(e, Call) or e.func not in AT_EVENTS:
        return all(check_nested(k, sink, at) for k in children(e))
    inside = calls(e.args[0]) & AT_EVENTS
    of_pools = sorted(n for n in refs(e.args[0]) if n.startswith("pool."))
    whole = POOL_SUMS.get(e.func, ("", ""))[1] == "population"
    message = None
    if (e.func in OVER_INSTANCES and inside) or inside & OVER_INSTANCES:
        message = f"`{shorten(as_written(e))}` reduces over instances and over neurons at once"
    elif whole and (of_pools or any(POOL_SUMS[f][1] == "pool" for f in inside)):
        message = f"`{shorten(as_written(e))}` is over the whole population, and reads what differs from pool to pool"
    if message is None:
        return check_nested(e.args[0], sink, at)
    sink.error("E0802", message, at, "put the inner value into a state, in a statement before")
    return False


def with_scopes(pools: Sequence[l0.PoolDef], handlers: Sequence[l0.Handler], at: Span) -> tuple[l0.PoolDef, ...]:
    """`pools` with one of each scope that statements of `handlers` reduce over."""
    found = {pool.scope: pool for pool in pools}
    used = {POOL_SUMS[call.func][1] for h in handlers for s in h.actions for call in pool_sums(s.value)}
    missing = {scope: l0.PoolDef(scope, (), span=at) for scope in used - found.keys()}
    return tuple((found | missing)[scope] for scope in SCOPES if scope in found or scope in missing)
