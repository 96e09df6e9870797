"""bind_symbols: names of a neuron definition become symbols, pools and events parts of a cell.

Assumes: a definition whose names are distinct.
Guarantees: every name that the user chose is a symbol (compiler/core/symbols.py), those of pools, phases and other
populations with their dots; so none can be a name of the compiler or one that passes derive, and all are as in the
model. Events get their position in the step; unread counters are omitted. Reductions in statements of events have names
too, and stand before the statements.
Does not: place pools in the step (split_cells does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.symbols import Sym, Way, derived, symbol
from compiler.expr.ast import Call, Expr, Ref, rewrite, substitute
from compiler.ir.level0.controls import names_read, rewritten
from compiler.ir.level0.pool_sums import POOL_SUMS, groups


@dataclass(frozen=True)
class Control:
    """What a cell has of pools and events."""

    pools: tuple[l1.Pool, ...] = ()
    on: tuple[l1.AtEvent, ...] = ()
    counters: tuple[l1.Counter, ...] = ()
    others: tuple[l1.OtherRead, ...] = ()


def _names(neuron: l0.NeuronDef, phases: tuple[l0.PhaseDef, ...]) -> Iterable[str]:
    """Every name that the user chose in a definition, locals of statements included."""
    reset = neuron.spike.reset if neuron.spike is not None else ()
    yield from neuron.model_params
    yield from (*(p.name for p in neuron.params), *(s.name for s in neuron.state), *(i.name for i in neuron.inputs))
    handlers = (*neuron.on, *(h for p in neuron.pools for h in p.on))
    events = (s for h in handlers for s in h.actions)
    pools = (s for p in neuron.pools for s in p.update)
    yield from (s.target for s in (*neuron.lets, *neuron.update, *reset, *neuron.after, *events, *pools))
    yield from (v for p in neuron.pools for v in p.variables)
    yield from (v for other in neuron.others for v in other.dotted)
    yield from (f"{p.name}.{x}" for p in phases for x in ("count", "step"))


def bind_symbols(neuron: l0.NeuronDef, phases: tuple[l0.PhaseDef, ...] = ()) -> l0.NeuronDef:
    """The definition with symbols in place of names; pools declare theirs without their scope, as before."""
    bindings: dict[str, Expr] = {name: Ref(symbol(name)) for name in _names(neuron, phases)}

    bound = rewritten(neuron, lambda e: substitute(e, bindings), symbol)
    return replace(
        bound,
        params=tuple(replace(p, name=symbol(p.name)) for p in bound.params),
        state=tuple(replace(s, name=symbol(s.name)) for s in bound.state),
        inputs=tuple(replace(x, name=symbol(x.name)) for x in bound.inputs),
        spike=None if bound.spike is None else replace(bound.spike, hold=tuple(map(symbol, bound.spike.hold))),
        model_params=tuple(map(symbol, bound.model_params)),
    )


@dataclass
class _Sums:
    """The reductions in statements of events: `found` so far, with their scopes."""

    found: list[tuple[str, l0.Reduction]] = field(default_factory=list)

    def event(self, h: l0.Handler, part: int, start: bool, actions: tuple[l0.Set, ...]) -> l1.AtEvent:
        """Group `part` of a handler's statements."""
        names: dict[Expr, Sym] = {}
        begin = len(self.found)

        def put(x: Expr) -> Expr:
            if not isinstance(x, Call) or x.func not in POOL_SUMS:
                return x
            if x not in names:
                op, scope = POOL_SUMS[x.func]
                names[x] = derived(f"{scope}_{op}", Way.SUM, str(len(self.found) + 1))
                self.found.append((scope, l0.Reduction(names[x], op, x.args[0], "1", x.span)))
            return Ref(names[x])

        done = tuple(l0.Set(s.target, rewrite(s.value, put), s.span) for s in actions)
        return l1.AtEvent(h.phase, h.event, start, done, tuple(self.found[begin:]), part, h.span)


def control_of(neuron: l0.NeuronDef, several: bool, phases: tuple[l0.PhaseDef, ...], how: Mapping[str, str]) -> Control:
    """The pools and events of a definition with symbols. `several`: it has several pools; `how`: variables of other
    populations are read (l1.OtherRead)."""
    used, first, sums = (
        names_read(neuron),
        {(p.name, event): at == 0 for p in phases for event, at in p.events},
        _Sums(),
    )

    def at_events(handlers: tuple[l0.Handler, ...]) -> tuple[l1.AtEvent, ...]:
        return tuple(
            sums.event(h, part, first[h.phase, h.event], group)
            for h in handlers
            for part, group in enumerate(groups(h.actions))
        )

    on = at_events(neuron.on)
    of_pools = {pool.scope: at_events(pool.on) for pool in neuron.pools}

    def pool_cell(pool: l0.PoolDef) -> l1.Pool:
        reductions = tuple(replace(r, name=symbol(f"{pool.scope}.{r.name}")) for r in pool.reductions)
        state = tuple(symbol(f"{pool.scope}.{s.name}") for s in pool.state)
        own = several and pool.scope == "pool"
        found = (r.name for scope, r in sums.found if scope == pool.scope)
        variables = (*(r.name for r in reductions), *state, *found)
        return l1.Pool(pool.scope, own, variables, reductions, pool.update, of_pools[pool.scope], pool.span)

    counters = tuple(
        l1.Counter(name, phase.name, x, derived(symbol(phase.name), Way.EVERY))
        for phase in phases
        for x in ("count", "step")
        if (name := symbol(f"{phase.name}.{x}")) in used
    )
    others = tuple(
        l1.OtherRead(name, other.name, variable, how[dotted])
        for other in neuron.others
        for dotted, (variable, _) in zip(other.dotted, other.reads, strict=True)
        if (name := symbol(dotted)) in used
    )
    return Control(tuple(map(pool_cell, neuron.pools)), on, counters, others)
