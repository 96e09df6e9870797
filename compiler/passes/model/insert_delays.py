"""insert_delays: ring buffers of events, of deliveries and of past state, and which events an operation waits for.

Assumes: lower_model and schedule_synapses have run.
Guarantees: per population the longest delay, in steps, with which its events are read (delays of its projections, back
delays of projections onto it, where synapses react to them), which its ring buffer of events holds; and inputs with
a separate ring buffer of deliveries. These are the inputs of known deliveries with individual delays, which are made at
emission (as all of them into such an input are, but those of projections that are cleared, whose spikes wait at their
source), and inputs that synapses read: deliveries of a step must not be visible in it. Populations that share a cell
have the same ones among their inputs. `past`: variables of neurons that synapses read with a delay.

Statements at delayed events act where these arrive: with per-synapse delays, on synapses whose delay is the age of the
event, one age after the other; the block of an end then follows its neuron, without a delay. Projections that are
cleared forget what is on its way at an event of a phase: a spike arrives unless the event lies between its emission and
its arrival. That follows from the clock, so that it takes no state: at step k, the last clearing before it ended step
j, the largest j < k with j % every == at, and what was emitted in step k - delay <= j is forgotten. The phase is data.
Spikes of known deliveries wait likewise (StoredProjection.arrivals).
Does not: make arrays (lower_cells, cell_arrays), or forget what has arrived at an input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.symbols import model_name
from compiler.expr.ast import Cond, Expr, Ref
from compiler.ir.level1.spiking import SpikingGraph, StoredProjection
from compiler.ir.level1.synapses import DELAYS, AtNeurons, AtSynapses, Operation, SynapseCell
from compiler.ir.level2.synapse_values import read_delayed
from compiler.passes.model.known_deliveries import input_of
from compiler.passes.model.synapse_symbols import read_of_neurons
from compiler.passes.program.clock import BEFORE

REMAINS: Final = ((BEFORE - Ref("cleared_at")) % Ref("cleared_every")) >= Ref("delay")
"""Whether an event that arrives `delay` steps after it was emitted has not been forgotten."""


def insert_delays(model: l0.Model, graph: SpikingGraph) -> SpikingGraph:
    """The graph with its ring buffers."""
    longest, rings = delays_and_rings(model, graph.projections)
    cells, arrays, instances = list[l1.Cell](), list[tuple[str, ...]](), list[l1.Instance]()
    known: dict[tuple[int, tuple[str, ...]], int] = {}
    for x in graph.instances:
        inputs = [model_name(n) for n, _ in graph.cells[x.cell].inputs]
        own = tuple((n, rings[x.name, n]) for n in inputs if (x.name, n) in rings)
        ringed = tuple(n for n, _ in own)
        if (x.cell, ringed) not in known:
            known[x.cell, ringed] = len(cells)
            cells.append(graph.cells[x.cell])
            arrays.append(graph.array_params[x.cell])
        slots = x.slots + longest.get(x.name, 0) if x.slots else 0
        instances.append(replace(x, cell=known[x.cell, ringed], slots=slots, rings=own))
    synapses = tuple(replace(c, operations=tuple(_arriving(c, o) for o in c.operations)) for c in graph.synapses)
    return replace(
        graph,
        cells=tuple(cells),
        array_params=tuple(arrays),
        instances=tuple(instances),
        past=tuple(l1.History(*key, slots) for key, slots in _past(model).items()),
        synapses=synapses,
        projections=tuple(
            # Not by `replace`, which is slow: a model may have 100,000.
            p if p.known is None else StoredProjection(p.family, p.storage, p.shared, p.known, (), _arrivals(p, rings))
            for p in graph.projections
        ),
    )


def _arrivals(p: StoredProjection, rings: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """How the spikes of a known delivery wait: of each member, or of all."""
    into, found = input_of(p.family), list[str]()
    for m in p.family.members:
        if p.family.clear is not None:
            found.append("source" if m.delays is None else "ages")
        else:
            found.append("input" if (m.target, into) in rings else "source")
    return (found[0],) if len(set(found)) == 1 else tuple(found)


def _arriving(cell: SynapseCell, x: Operation) -> Operation:
    """An operation at events, where these arrive."""
    match x:
        case AtSynapses(event=event) if event is not None and event.delayed:
            apart = event.end in cell.delays
            tests = (Ref(DELAYS[event.end]).eq(Ref("age")),) if apart else ()
            return replace(x, tests=(*tests, *((REMAINS,) if cell.clears else ())), each_age=apart)
        case AtNeurons(event=event) if event is not None and event.delayed:
            sets = tuple(_if(REMAINS, s) for s in x.statements) if cell.clears else x.statements
            apart = event.name == l0.SPIKE and event.end in cell.delays
            return replace(x, statements=sets, event=replace(event, delayed=False) if apart else event)
    return x


def _if(test: Expr, s: l0.Set) -> l0.Set:
    """A statement that changes something where the test holds."""
    return replace(s, value=Cond(test, s.value, Ref(s.target)))


def _past(model: l0.Model) -> dict[tuple[str, str], int]:
    """(population, variable) -> slots of a History."""
    found: dict[tuple[str, str], int] = {}
    known: dict[int, list[tuple[str, str]]] = {}
    for projection in model.projections:
        synapse = projection.statements
        if id(synapse) not in known:
            names = set[str]().union(*(read_delayed(e) for e in synapse.expressions))
            known[id(synapse)] = sorted((n.partition(".")[0], n.partition(".")[2]) for n in names)
        for end, variable in known[id(synapse)]:
            for member in projection.members:
                pre = end == "pre"
                key = (member.source if pre else member.target, variable)
                delay = member.delay if pre else member.back_delay
                found[key] = max(found.get(key, 1), delay + 1)
    return found


def _read_inputs(model: l0.Model) -> set[tuple[str, str]]:
    """(population, input) of inputs that statements of synapses read."""
    inputs = {p.name: {i.name for i in p.neuron.inputs} for p in model.populations}
    found: set[tuple[str, str]] = set()
    known: dict[int, set[tuple[str, str]]] = {}
    for projection in model.projections:
        synapse = projection.statements
        if id(synapse) not in known:
            traces = {(end, s.name) for end, block in synapse.ends.items() for s in block.state}
            known[id(synapse)] = read_of_neurons(synapse) - traces
        for end, variable in known[id(synapse)]:
            for member in projection.members:
                population = member.source if end == "pre" else member.target
                if variable in inputs[population]:
                    found.add((population, variable))
    return found


def _waits(synapse: l0.SynapseDef, end: str) -> bool:
    """Whether spikes of an end have an effect."""
    block, statements = (synapse.pre, synapse.on_pre) if end == "pre" else (synapse.post, synapse.on_post)
    of_a_block = block is not None and bool(block.on_spike)
    return (
        bool(statements) or of_a_block or any((end, time) in read_of_neurons(synapse) for time in l0.times_of(l0.SPIKE))
    )


def _longest(member: l0.Member, precision: str) -> int:
    """Upper bound in steps on the delays of known deliveries. A normal number is within 6.6 standard deviations in
    float32, 8.6 in float64 (backends/device/philox.h); one step more for rounding."""
    drawn = member.delays
    if not isinstance(drawn, l0.Distribution) or drawn.kind != "normal":
        return member.delay
    given, reach = dict(drawn.args), 6.6 if precision == "float32" else 8.6
    return min(member.delay, math.ceil(given["mean"] + reach * given["std"]) + 1)


def delays_and_rings(
    model: l0.Model, projections: tuple[StoredProjection, ...]
) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """(population -> steps that its events are kept for, (population, input) -> slots of its ring buffer)."""
    longest: dict[str, int] = {}
    rings = dict.fromkeys(sorted(_read_inputs(model)), 1)
    known = [p.family for p in projections if p.known is not None]
    sent = [(p.clear is not None, m, (m.target, into)) for p in known for into in (input_of(p),) for m in p.members]
    ringed = {key for cleared, member, key in sent if member.delays is not None and not cleared} | rings.keys()
    for cleared, member, target in sent:
        if target in ringed and not cleared:  # projections with a uniform delay use the ring buffer, too
            rings[target] = max(rings.get(target, 1), _longest(member, model.numerics.precision) + 1)
        else:
            longest[member.source] = max(longest.get(member.source, 0), member.delay)
    for projection in (p.family for p in projections if p.known is None):
        pre, post = (_waits(projection.statements, end) for end in ("pre", "post"))
        for member in projection.members:
            longest[member.source] = max(longest.get(member.source, 0), member.delay if pre else 0)
            longest[member.target] = max(longest.get(member.target, 0), member.back_delay if post else 0)
    return longest, rings
