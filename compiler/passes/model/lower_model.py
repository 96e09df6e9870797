"""lower_model: populations of level 0 become instances of cells (level 1).

Assumes: a legal Model with a `simulate` block when there are populations.
Guarantees: populations that share a neuron definition, the same split of its params into scalars and per-neuron arrays
and the way in which they read other populations share one Cell, numbered by first appearance. The storage of every
family is decided, whether what it delivers is known at the spike, and if not, which synapse model its members run.
Does not: choose integrators (integrate_odes), ring buffers (insert_delays), or arrays and kernels (lower_cells).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.connect.storage import shares_elements, storage_of
from compiler.core.source import NOWHERE
from compiler.core.symbols import symbol
from compiler.ir.level1.spiking import SpikingGraph, StoredProjection
from compiler.passes.model.bind_symbols import bind_symbols, control_of
from compiler.passes.model.known_deliveries import known_delivery
from compiler.passes.model.synapse_cells import SynapseCells

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def _array_params(population: l0.Population) -> tuple[str, ...]:
    return tuple(name for name, value in population.params if not isinstance(value, l0.Const))


def _reads(population: l0.Population, populations: Mapping[str, l0.Population]) -> dict[str, str]:
    """How the variables of other populations are read (l1.OtherRead)."""
    found: dict[str, str] = {}
    chosen = dict(population.others)
    for other in population.neuron.others:
        read = populations[chosen[other.name]]
        for dotted, (variable, _) in zip(other.dotted, other.reads, strict=True):
            found[dotted] = "one" if read.count(variable) == 1 else "pool" if "." in variable else "each"
    return found


def cell_of(
    neuron: l0.NeuronDef, phases: tuple[l0.PhaseDef, ...], several: bool = False, how: Mapping[str, str] = NOTHING
) -> l1.Cell:
    """The cell of a definition with symbols. `several`, `how`: as for `control_of`."""
    control = control_of(neuron, several, phases, how)
    spike = neuron.spike
    return l1.Cell(
        name=neuron.name,
        params=tuple(p.name for p in neuron.params) + neuron.model_params,
        state=tuple(s.name for s in neuron.state),
        inputs=tuple((i.name, i.decay) for i in neuron.inputs),
        lets=neuron.lets,
        dynamics=neuron.dynamics,
        update=neuron.update,
        when=spike.when if spike else None,
        when_span=spike.span if spike else NOWHERE,
        reset=spike.reset if spike else (),
        refractory=spike.refractory if spike else None,
        hold=spike.hold if spike else (),
        method=neuron.method,
        pools=control.pools,
        on=control.on,
        counters=control.counters,
        others=control.others,
        after=neuron.after,
        source=neuron.source,
        units=tuple((p.name, p.unit) for p in neuron.params if p.unit not in ("", "1")),
        span=neuron.span,
    )


def lower_model(model: l0.Model) -> SpikingGraph:
    """The spiking half of a model as cells and instances."""
    model_values = {p.name: l0.Const(p.value) for p in model.params if isinstance(p.value, (int, float))}
    cells: list[l1.Cell] = []
    arrays: list[tuple[str, ...]] = []
    known: dict[tuple[int, tuple[str, ...], bool, tuple[tuple[str, str], ...]], int] = {}
    populations = {p.name: p for p in model.populations}
    instances: list[l1.Instance] = []
    for population in model.populations:
        neuron = population.neuron
        how = _reads(population, populations)
        key = (id(neuron), _array_params(population), population.pools > 1, tuple(how.items()))
        if key not in known:
            known[key] = len(cells)
            cells.append(cell_of(bind_symbols(neuron, model.phases), model.phases, population.pools > 1, how))
            arrays.append(tuple(map(symbol, key[1])))
        emits = neuron.spike is not None or neuron.source != "equations"
        extra = tuple((name, model_values[name]) for name in neuron.model_params)
        instances.append(
            l1.Instance(
                population.name,
                known[key],
                population.size,
                3 if emits else 0,
                population.params + extra,
                population.init,
                population.pools,
                population.pool_init,
                population.span,
                population.shape,
                population.others,
            )
        )
    cells_of = SynapseCells({i.name: i for i in instances})
    stored = (StoredProjection(p, storage_of(p), shares_elements(p), known_delivery(p)) for p in model.projections)
    projections = tuple(replace(p, cells=cells_of.of(p)) if p.known is None else p for p in stored)
    return SpikingGraph(
        tuple(cells),
        tuple(instances),
        tuple(arrays),
        phases={p.name: p for p in model.phases},
        projections=projections,
        synapses=tuple(cells_of.cells),
    )
