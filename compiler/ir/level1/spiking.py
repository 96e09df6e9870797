"""Level 1, the spiking half of a model: cells of neurons, their instances, and projections with cells of synapses.

Assumes: cells as their module says; families of level 0.
Guarantees: frozen data with structural equality.
Does not: decide (passes/model/lower_model.py), or know arrays or kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.expr.ast import Expr
from compiler.ir.level1.synapses import SynapseCell


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class StoredProjection:
    """A family of projections between instances, and how its synapses are held and delivered.

    `storage`: sparse | dense | one_to_one | bitmask | procedural | toeplitz; `shared`: synapses are those of a
    convolution that have nothing but their element of the kernel. `known`: what a spike delivers, over symbols of
    params (`weight` where there is no synapse model) and `dt`, where that is known when it is emitted and all that
    synapses do; else None. `cells`: the SynapseCell that each member runs, or the one of all; empty where the delivery
    is known, which then has `arrivals` in place of them, from insert_delays on: "source" where spikes wait at their
    source, "ages" where those of each delay wait there for themselves, "input" where deliveries are made at the spike
    and wait in the ring buffer of the input."""

    family: Final[l0.Projection]
    storage: Final[str]
    shared: Final[bool]
    known: Final[Expr | None]
    cells: Final[tuple[int, ...]] = ()
    arrivals: Final[tuple[str, ...]] = ()

    def cell_of(self, member: int) -> int:
        return self.cells[0 if len(self.cells) == 1 else member]

    def arrival_of(self, member: int) -> str:
        return self.arrivals[0 if len(self.arrivals) == 1 else member]

    @property
    def name(self) -> str:
        return self.family.name


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
