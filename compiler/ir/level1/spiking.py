"""Level 1, the spiking half of a model: cells of neurons, their instances, and projections with cells of synapses.

Assumes: cells and projections as their modules say.
Guarantees: frozen data with structural equality.
Does not: know arrays or kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.ir.level1.projections import StoredProjection
from compiler.ir.level1.synapses import SynapseCell

Node = l1.Cell | l1.Instance | l1.History | l1.Before | l1.Turn | l1.Source | l1.Drive | SynapseCell | StoredProjection


@dataclass(frozen=True)
class SpikingGraph:
    """Level 1 of the spiking part: cells, their instances, and the projections between these with what synapses run."""

    cells: tuple[l1.Cell, ...]
    instances: tuple[l1.Instance, ...]
    array_params: tuple[tuple[str, ...], ...]
    """Per cell: the params that differ from neuron to neuron."""
    past: tuple[l1.History, ...] = ()
    phases: Mapping[str, l0.PhaseDef] = field(default_factory=dict)
    projections: tuple[StoredProjection, ...] = ()
    synapses: tuple[SynapseCell, ...] = ()
    before: tuple[l1.Before, ...] = ()
    turns: tuple[l1.Turn, ...] = ()
    """A step of all populations, in order."""
    sources: tuple[l1.Source, ...] = ()
    drives: tuple[l1.Drive, ...] = ()
    """In order, ahead of the turns of populations."""
    rates: tuple[l1.Drive, ...] = ()
    """Of Poisson inputs that change, in the order of the model."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What is shown."""
        populations: tuple[Node, ...] = (*self.cells, *self.instances, *self.past, *self.before, *self.turns)
        return (*self.sources, *self.drives, *populations, *self.synapses, *self.projections, *self.rates)

    @cached_property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """Per cell: the numbers of its instances."""
        found: list[list[int]] = [[] for _ in self.cells]
        for number, instance in enumerate(self.instances):
            found[instance.cell].append(number)
        return tuple(map(tuple, found))

    @property
    def rings(self) -> dict[tuple[str, str], int]:
        """(population, input) -> slots of its ring buffer of deliveries."""
        return {(x.name, name): slots for x in self.instances for name, slots in x.rings}
