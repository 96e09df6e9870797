"""Legality of level 0: pools, phases, and what happens at their events.

Assumes: nothing.
Guarantees: every breach is named.
  phases    distinct names; a length of at least one step; events within a trial
  pools     "population" before "pool", each once; distinct variables; reductions of known kinds; equations assign to
            states of their own or to locals, and read params, what is computed before, `t`, `dt` and counters
  handlers  events exist; they assign to states and inputs, or (of a pool) to its states; reductions in them are over
            pools that exist, and read what the neuron's own equations read
Does not: check the neuron's own equations (model.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import compiler.ir.level0.model as l0
from compiler.ir.level0.pool_sums import OPERATIONS, POOL_SUMS, SCOPES, pool_sums, read_by_sums, without_sums
from compiler.verify.violations import distinct, reads, statements, unknown


def counter_names(phases: Iterable[l0.PhaseDef]) -> set[str]:
    """The counters of phases, as expressions read them."""
    return {f"{p.name}.{x}" for p in phases for x in ("count", "step")}


def shared_names(neuron: l0.NeuronDef, phases: Iterable[l0.PhaseDef]) -> set[str]:
    """What equations of the neuron read beside its own names: variables of pools and of other populations, and counters
    of phases."""
    others = {name for other in neuron.others for name in other.dotted}
    return counter_names(phases) | {v for pool in neuron.pools for v in pool.variables} | others


def phase_violations(phases: tuple[l0.PhaseDef, ...]) -> Iterator[str]:
    yield from distinct("phase", (p.name for p in phases))
    for p in phases:
        if p.every < 1:
            yield f"phase `{p.name}` lasts {p.every} steps"
        for event, at in p.events:
            if not 0 <= at <= p.every:
                yield f"the event `{p.name}.{event}` is at step {at} of {p.every}"


def control_violations(neuron: l0.NeuronDef, phases: tuple[l0.PhaseDef, ...]) -> Iterator[str]:
    """Breaches by the pools and handlers of a neuron."""
    events = {(p.name, event) for p in phases for event, _ in p.events}
    shared = shared_names(neuron, phases)
    fixed = {*(p.name for p in neuron.params), *neuron.model_params, "t", "dt"}
    own = {*(s.name for s in neuron.state), *(i.name for i in neuron.inputs)}
    lets = {s.target for s in neuron.lets}
    scopes = [p.scope for p in neuron.pools]
    if scopes != [s for s in SCOPES if s in scopes]:
        yield f"its pools are {scopes}"
    before = {n for n in shared if n.split(".")[0] not in SCOPES}
    summed = {*fixed, *own, *lets, *shared}
    for pool in neuron.pools:
        yield from _pool(pool, fixed, own | lets | {s.target for s in neuron.update}, before)
        states = {f"{pool.scope}.{s.name}" for s in pool.state}
        before |= set(pool.variables)
        for h in pool.on:
            yield from _handler(h, {*fixed, *before}, {*fixed, *before} - states, events, summed, scopes)
    for h in neuron.on:
        yield from _handler(h, summed, {*fixed, *lets, *shared}, events, summed, scopes)


def _pool(pool: l0.PoolDef, fixed: set[str], own: set[str], before: set[str]) -> Iterator[str]:
    if len(set(pool.variables)) != len(pool.variables):
        yield f"variables of `{pool.scope}` are declared twice"
    states = {f"{pool.scope}.{s.name}" for s in pool.state}
    known = {*fixed, *own, *before, *states}
    for r in pool.reductions:
        if r.op not in OPERATIONS:
            yield f"`{pool.scope}.{r.name}` is a `{r.op}`"
        yield from reads(r.value, known, f"`{pool.scope}.{r.name}`")
        known.add(f"{pool.scope}.{r.name}")
    results = {f"{pool.scope}.{r.name}" for r in pool.reductions}
    shared = {*fixed, *before, *states, *results}
    yield from statements(pool.update, set(shared), shared - states)


def _handler(
    h: l0.Handler,
    known: set[str],
    fixed: set[str],
    events: set[tuple[str, str]],
    summed: set[str],
    scopes: Collection[str],
) -> Iterator[str]:
    """Breaches by one handler. `summed`: what reductions in its statements may read, over `scopes`."""
    if (h.phase, h.event) not in events:
        yield f"there is no event `{h.phase}.{h.event}`"
    for s in h.actions:
        yield from unknown(read_by_sums(s.value), summed, f"`{s.target} = ...`")
        for scope in (POOL_SUMS[call.func][1] for call in pool_sums(s.value)):
            if scope not in scopes:
                yield f"`{s.target} = ...` reduces over a {scope}, which does not exist"
    alone = tuple(l0.Set(s.target, without_sums(s.value), s.span) for s in h.actions)
    yield from statements(alone, set(known), fixed)


def population_violations(p: l0.Population, populations: Mapping[str, l0.Population]) -> Iterator[str]:
    if p.pools < 1 or p.size % p.pools:
        yield f"{p.size} neurons are in {p.pools} pools"
    states = [f"{pool.scope}.{s.name}" for pool in p.neuron.pools for s in pool.state]
    if sorted(n for n, _ in p.pool_init) != sorted(states):
        yield f"the states of its pools are {states}, with values for {[n for n, _ in p.pool_init]}"
    yield from other_violations(p.neuron.others, p.others, populations)
    for other in p.neuron.others:
        read = populations.get(dict(p.others).get(other.name, ""))
        for variable, _ in other.reads if read is not None else ():
            if read is not None and read.count(variable) not in (1, p.count(variable)):
                yield f"`{other.name}.{variable}` is {read.count(variable)} numbers"


def other_violations(
    declared: tuple[l0.OtherDecl, ...], bound: tuple[tuple[str, str], ...], populations: Mapping[str, l0.Population]
) -> Iterator[str]:
    """Breaches where a population or a projection chooses the populations that its definition reads."""
    if sorted(name for name, _ in bound) != sorted(other.name for other in declared):
        yield f"it reads {[other.name for other in declared]}, with populations for {[name for name, _ in bound]}"
        return
    for other in declared:
        read = populations.get(dict(bound)[other.name])
        if read is None:
            yield f"`{other.name}` is a population that does not exist"
            continue
        for variable, _ in other.reads:
            if variable not in read.neuron.units:
                yield f"`{other.name}.{variable}` does not exist"
