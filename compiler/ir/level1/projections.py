"""Level 1, projections: families of level 0 with what has been decided of them.

Assumes: families of level 0.
Guarantees: frozen data with structural equality.
Does not: decide (passes/model/lower_model.py), or make arrays (passes/relations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr


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
