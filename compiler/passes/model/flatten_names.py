"""flatten_names: dotted names of pools and phases become plain ones, events get their position in the step.

Assumes: a definition after free_names.
Guarantees: `pool.gi` is `pool_gi` and `trial.step` is `trial_step`, with underscores added where a name is taken;
unread counters are omitted. Reductions in statements of events have names too, and stand before the statements.
Does not: place pools in the step (split_cells does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.core.names import free_name
from compiler.expr.ast import Call, Expr, Ref, refs, rewrite, substitute
from compiler.ir.level0.controls import names_read, rewritten_pool, rewritten_sets
from compiler.ir.level0.pool_sums import POOL_SUMS, groups
from compiler.passes.model.free_names import RESERVED, names_of


@dataclass(frozen=True)
class Control:
    """`shown`: (plain name, dotted name) of variables with an array."""

    pools: tuple[l1.PoolCell, ...] = ()
    on: tuple[l1.AtEvent, ...] = ()
    counters: tuple[l1.Counter, ...] = ()
    others: tuple[l1.OtherRead, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()


def _equations(neuron: l0.NeuronDef) -> Iterable[Expr]:
    yield from (s.value for s in (*neuron.lets, *neuron.update, *neuron.after))
    yield from (o.rhs for o in neuron.dynamics)
    if neuron.spike is not None:
        yield neuron.spike.when
        yield from (s.value for s in neuron.spike.reset)


def _plain_names(
    neuron: l0.NeuronDef, phases: tuple[l0.PhaseDef, ...]
) -> tuple[dict[str, str], tuple[l1.Counter, ...]]:
    """The plain name of every dotted one of pools, and of phases and other populations that are read, and the counters
    of phases."""
    used = names_read(neuron.pools, neuron.on).union(*(refs(e) for e in _equations(neuron)))
    taken = set(names_of(neuron)) | RESERVED
    plain: dict[str, str] = {}

    def claim(dotted: str, wanted: str) -> str:
        plain[dotted] = free_name(wanted, taken)
        taken.add(plain[dotted])
        return plain[dotted]

    variables = [v for p in neuron.pools for v in p.variables]
    targets = [s.target for p in neuron.pools for s in (*p.update, *(s for h in p.on for s in h.actions))]
    for dotted in dict.fromkeys((*variables, *targets)):
        claim(dotted, dotted.replace(".", "_"))
    for dotted in (name for other in neuron.others for name in other.dotted if name in used):
        claim(dotted, dotted.replace(".", "_"))
    counters: list[l1.Counter] = []
    for phase in phases:
        wanted = [x for x in ("count", "step") if f"{phase.name}.{x}" in used]
        every = claim(f"{phase.name}.", f"{phase.name}_every") if wanted else ""
        for x in wanted:
            counters.append(l1.Counter(claim(f"{phase.name}.{x}", f"{phase.name}_{x}"), phase.name, x, every))
    return plain, tuple(counters)


@dataclass
class _Sums:
    """The reductions in statements of events: `found` so far, with their scopes; `taken`: names that have a meaning."""

    taken: set[str]
    found: list[tuple[str, l0.Reduction]] = field(default_factory=list)

    def event(self, h: l0.Handler, part: int, start: bool, actions: tuple[l0.Set, ...]) -> l1.AtEvent:
        """Group `part` of a handler's statements, with plain names."""
        names: dict[Expr, str] = {}
        begin = len(self.found)

        def put(x: Expr) -> Expr:
            if not isinstance(x, Call) or x.func not in POOL_SUMS:
                return x
            if x not in names:
                op, scope = POOL_SUMS[x.func]
                names[x] = free_name(f"{scope}_{op}_{len(self.found) + 1}", self.taken)
                self.taken.add(names[x])
                self.found.append((scope, l0.Reduction(names[x], op, x.args[0], "1", x.span)))
            return Ref(names[x])

        done = tuple(l0.Set(s.target, rewrite(s.value, put), s.span) for s in actions)
        return l1.AtEvent(h.phase, h.event, start, done, tuple(self.found[begin:]), part, h.span)


def plain_control(
    neuron: l0.NeuronDef, several: bool, phases: tuple[l0.PhaseDef, ...], how: Mapping[str, str]
) -> tuple[l0.NeuronDef, Control]:
    """The definition with plain names in its equations, and its control parts. `several`: it has several pools; `how`:
    variables of other populations are read (l1.OtherRead)."""
    plain, counters = _plain_names(neuron, phases)
    if not plain and not neuron.on:
        return neuron, Control()
    bindings: dict[str, Expr] = {old: Ref(new) for old, new in plain.items()}
    first = {(p.name, event): at == 0 for p in phases for event, at in p.events}

    def expr(e: Expr) -> Expr:
        return substitute(e, bindings)

    def name(old: str) -> str:
        return plain.get(old, old)

    sums = _Sums({*names_of(neuron), *RESERVED, *plain.values()})

    def at_events(handlers: tuple[l0.Handler, ...]) -> tuple[l1.AtEvent, ...]:
        return tuple(
            sums.event(h, part, first[h.phase, h.event], rewritten_sets(group, expr, name))
            for h in handlers
            for part, group in enumerate(groups(h.actions))
        )

    on = at_events(neuron.on)
    of_pools = {pool.scope: at_events(pool.on) for pool in neuron.pools}

    def pool_cell(pool: l0.PoolDef) -> l1.PoolCell:
        done = rewritten_pool(pool, expr, name)
        reductions = tuple(replace(r, name=name(f"{pool.scope}.{r.name}")) for r in done.reductions)
        state = tuple(name(f"{pool.scope}.{s.name}") for s in pool.state)
        own = several and pool.scope == "pool"
        found = tuple(r for scope, r in sums.found if scope == pool.scope)
        return l1.PoolCell(pool.scope, own, reductions, state, done.update, of_pools[pool.scope], found, pool.span)

    spike = neuron.spike
    if spike is not None:
        spike = replace(spike, when=expr(spike.when), reset=rewritten_sets(spike.reset, expr))
    made = replace(
        neuron,
        lets=rewritten_sets(neuron.lets, expr),
        dynamics=tuple(l0.Ode(o.state, expr(o.rhs), o.span) for o in neuron.dynamics),
        update=rewritten_sets(neuron.update, expr),
        spike=spike,
        after=rewritten_sets(neuron.after, expr),
    )
    shown = tuple((plain[v], v) for p in neuron.pools for v in p.variables)
    others = tuple(
        l1.OtherRead(plain[dotted], other.name, variable, how[dotted])
        for other in neuron.others
        for dotted, (variable, _) in zip(other.dotted, other.reads, strict=True)
        if dotted in plain
    )
    return made, Control(tuple(map(pool_cell, neuron.pools)), on, counters, others, shown)
