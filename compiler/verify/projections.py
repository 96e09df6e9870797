"""Legality of level 1: projections, and the synapse models that they run.

Assumes: the family is legal at level 0.
Guarantees: every breach is named.
  storage   one that can hold what the family asks for (compiler/connect/storage.py)
  shared    of convolutions alone
  known     a delivery that reads params, `dt` and params of the model, of synapses that do nothing else
  arrivals  of known deliveries; ages where delays differ from synapse to synapse
  stages    of an operation: those of compiler/ir/level1/stages.py for synapses; the parts of one ascend
  events    awaited: spikes, or what an earlier operation makes; times are held where one delay is for all synapses
  past      values of traces are those that an earlier operation keeps
  names     that an operation reads: of the model, of ends, of its sums, columns and locals; `age` of each age alone
Does not: repeat level 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.spiking as l1
import compiler.ir.level1.synapses as synapses
from compiler.connect import Form, rule_of
from compiler.connect.storage import STORAGES, asked_by, refused
from compiler.core.symbols import symbol
from compiler.expr.ast import refs
from compiler.ir.level1.stages import SYNAPSES
from compiler.verify.violations import reads


def projection_violations(p: l1.StoredProjection) -> Iterator[str]:
    """Every breach of the spec by a projection."""
    if p.storage not in STORAGES:
        yield f"the storage is `{p.storage}`"
        return
    wrong = refused(p.storage, asked_by(p.family))
    if wrong is not None:
        yield wrong.message
    if p.shared and rule_of(p.family).form is not Form.WINDOWS:
        yield f"synapses of `{p.family.rule}` share elements of a kernel"
    if p.known is not None:
        s = p.family.statements
        names = {symbol(x.name) for x in s.params} if p.family.synapse is not None else {"weight"}
        read = refs(p.known) - {"dt", *names, *map(symbol, s.model_params)}
        yield from (f"what is delivered reads `{name}`" for name in sorted(read))
        yield from (f"spikes arrive as `{x}`" for x in p.arrivals if x not in ("source", "ages", "input"))
        if "ages" in p.arrivals and all(m.delays is None for m in p.family.members):
            yield "there is one delay, and spikes arrive by ages"
        if s.state or len(s.actions) > 1:
            yield f"the synapse `{s.name}` does more than deliver"


_OWN: Final = frozenset(
    {
        "t",
        "dt",
        "step",
        "warmup_steps",
        "updated",
        "exists",
        "arrived",
        "copies",
        "delay",
        "cleared_every",
        "cleared_at",
    }
)
"""Names that lowering binds for every operation."""


def synapse_cell_violations(cell: synapses.SynapseCell) -> Iterator[str]:
    """Every breach of the spec by a synapse model and its operations."""
    d, made, kept = cell.definition, {l0.SPIKE}, set[tuple[str, str]]()
    known = {*_OWN, *cell.externals, *cell.every, *d.model_params, *(p.name for p in d.params), *cell.states}
    known |= {synapses.DELAYS[end] for end in cell.delays}
    for end in cell.delays:
        if cell.times(end):
            yield f"times of spikes of `{end}` are held once, and synapses have delays of their own"
    yield from _parts([x for x in cell.operations if isinstance(x, synapses.OverSynapses)])
    for x in cell.operations:
        if x.stage not in SYNAPSES:
            yield f"the stage is `{x.stage}`"
        if isinstance(x, synapses.Keep):
            kept.add((x.name, x.stage))
        if isinstance(x, synapses.AtNeurons | synapses.AtSynapses) and x.event is not None and x.event.name not in made:
            yield f"`{x.what}` waits for `{x.event.name}`, which nothing makes"
        if isinstance(x, synapses.AtNeurons):
            made |= set() if x.condition is None else {x.condition.name}
            yield from _at_neurons(x, known)
        elif isinstance(x, synapses.AtSynapses | synapses.SynapseSum):
            missing = [name for name, stage in x.past if (name, stage) not in kept]
            yield from (f"`{x.what}` reads what `{name}` was, which nothing keeps" for name in missing)
            local = known | {s.target for s in d.lets}
            if isinstance(x, synapses.SynapseSum):
                yield from reads(x.value, local, f"`{x.what}`")
                known.add(x.name)
            else:
                yield from _at_synapses(x, local)
                known |= {synapses.GONE} & {a.target for a in x.actions if isinstance(a, l0.Set)}
        elif isinstance(x, synapses.NewSynapses) and synapses.GONE not in known:
            yield f"`{x.what}` makes new synapses, and none is marked"


def _parts(operations: list[synapses.OverSynapses]) -> Iterator[str]:
    for before, x in pairwise(sorted(operations, key=lambda x: x.stage)):
        if before.stage == x.stage and x.part < before.part:
            yield f"`{x.what}` is in part {x.part} of its stage, after one in part {before.part}"


def _at_neurons(x: synapses.AtNeurons, known: set[str]) -> Iterator[str]:
    own = known | {c.name for c in x.derived}
    for s in x.statements:
        yield from reads(s.value, own, f"`{x.what}`")
        own.add(s.target)


def _at_synapses(x: synapses.AtSynapses, known: set[str]) -> Iterator[str]:
    if x.walk == "post" and x.event is None:
        yield f"`{x.what}` walks by targets without an event"
    own = known | {c.name for c in x.derived} | ({"age"} if x.each_age else set())
    yield from (v for test in x.tests for v in reads(test, own, f"`{x.what}`"))
    for a in (*x.integrated, *x.advance, *x.actions):
        yield from (v for e in l0.values_of((a,)) for v in reads(e, own, f"`{x.what}`"))
        own |= {a.target} if isinstance(a, l0.Set) else set()
