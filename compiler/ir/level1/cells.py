"""Level 1, cells: neuron models as pure functions of their state and inputs, and populations as their instances.

Assumes: neuron models of level 0.
Guarantees: frozen data with structural equality. Legality is specified in verify/cells.py.
Does not: define layouts, kernels, arenas or targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr


@dataclass(frozen=True)
class Propagator:
    """A column computed per row: entry (row, column) of expm(dt * A) (A's entries are expressions over the cell's
    params, in 1/ms), or of the constant part for column == order: x' = A x + b, x(t + dt) = expm(A dt) x(t) +
    integral(expm(A s) ds) b. `held`: indices of states that are held constant."""

    name: str
    matrix: tuple[tuple[Expr, ...], ...]
    offset: tuple[Expr, ...]
    row: int
    column: int


@dataclass(frozen=True)
class DerivedScalar:
    """A column computed per row from an expression over the cell's params (and dt)."""

    name: str
    value: Expr


@dataclass(frozen=True)
class AtEvent:
    """Statements that run at an event of a phase: before the step's equations (`start`) or after them. `reductions`:
    (scope, what is computed over the neurons before them). `part`: its number, where the statements of an event wait
    for all neurons in between."""

    phase: str
    event: str
    start: bool
    actions: tuple[l0.Set, ...]
    reductions: tuple[tuple[str, l0.Reduction], ...] = ()
    part: int = 0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Counter:
    """A local `name` that counts trials (`of` "count") or steps of a trial ("step"); `every` is the column of the
    phase's length in steps."""

    name: str
    phase: str
    of: str
    every: str


@dataclass(frozen=True)
class OtherRead:
    """`variable` of the population that an instance names `other`, read as `name`. `how`: "each" (of the neuron with
    the same index), "pool" (of the pool with the same number), "one" (it has one element)."""

    name: str
    other: str
    variable: str
    how: str


@dataclass(frozen=True)
class Pool:
    """A PoolDef with its scope in its names. `several`: a population has more than one, so that a neuron
    locates its pool by an index; otherwise there is one element. In a step `reductions` over its neurons are computed,
    in order, then `update` runs. `at_events`: the reductions of all AtEvents over this scope."""

    scope: str
    several: bool
    reductions: tuple[l0.Reduction, ...]
    state: tuple[str, ...]
    update: tuple[l0.Set, ...]
    on: tuple[AtEvent, ...] = ()
    at_events: tuple[l0.Reduction, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        return (*(r.name for r in self.reductions), *self.state, *(r.name for r in self.at_events))


@dataclass(frozen=True)
class Cell:
    """A neuron model as a pure function of state and inputs for one step. Names that the user chose are symbols
    (compiler/core/symbols.py).

    Before integrate_odes: `dynamics` holds ODEs and `step` is empty. Afterwards `dynamics` is empty and `step`
    is straight-line code: integration, updates, then (with `spike`) `spiked` is computed and resets applied by
    conditional expressions, then `after`. `int_state`: counters (refractory). The first `integrated` statements of
    `step` are the integration, those up to `updated` the updates.

    After split_cells `step` is what neurons do before their pools are computed, `after_pools` what they do then (None:
    nothing is left), and statements of events and pools read counters and draws as those of `step` do. `kept`: locals
    that arrays hold from one part to another; `folds`: events (phase, event) at the start of a step that see what has
    been delivered.
    """

    name: str
    params: tuple[str, ...]
    state: tuple[str, ...]
    inputs: tuple[tuple[str, Expr | None], ...]  # name, decay time constant
    lets: tuple[l0.Set, ...]
    dynamics: tuple[l0.Ode, ...]
    update: tuple[l0.Set, ...]
    when: Expr | None
    reset: tuple[l0.Set, ...]
    refractory: Expr | None
    hold: tuple[str, ...]
    method: l0.Method
    int_state: tuple[str, ...] = ()
    derived: tuple[Propagator | DerivedScalar, ...] = ()
    step: tuple[l0.Set, ...] = ()
    integrated: int = 0
    updated: int = 0
    pools: tuple[Pool, ...] = ()
    on: tuple[AtEvent, ...] = ()
    counters: tuple[Counter, ...] = ()
    others: tuple[OtherRead, ...] = ()
    after: tuple[l0.Set, ...] = ()
    after_pools: tuple[l0.Set, ...] | None = None
    kept: tuple[str, ...] = ()
    folds: tuple[tuple[str, str], ...] = ()
    units: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """Of parameters that have one, for the text."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    when_span: Span = field(default=NOWHERE, compare=False, repr=False)


# Frozen by `Final` where a model may have 100,000, as spans are (compiler/core/source.py).
@dataclass(slots=True, unsafe_hash=True)
class Instance:
    """A population as an instance of a cell: the value of each param and the initial value of each state. `rings`:
    (input, slots) of inputs whose deliveries have a ring buffer of their own."""

    name: Final[str]
    cell: Final[int]
    size: Final[int]
    slots: Final[int]  # of its event ring: largest outgoing delay + 3, so that what is delivered in a step may be read
    # while the next one empties a slot and fills another; 0 when it emits nothing
    params: Final[tuple[tuple[str, l0.Value], ...]]
    init: Final[tuple[tuple[str, l0.Value], ...]]
    source: Final[str] = "equations"
    pools: Final[int] = 1
    pool_init: Final[tuple[tuple[str, l0.Const], ...]] = ()
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)
    shape: Final[tuple[int, ...]] = ()
    others: Final[tuple[tuple[str, str], ...]] = ()  # name -> population
    rings: Final[tuple[tuple[str, int], ...]] = ()


@dataclass(frozen=True)
class History:
    """The ring buffer of past values of a variable of neurons, of one slot more than the longest delay with which a
    projection reads it."""

    population: str
    variable: str
    slots: int
