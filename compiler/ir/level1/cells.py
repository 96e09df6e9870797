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
from compiler.expr.ast import Expr, refs


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
    locates its pool by an index; otherwise there is one element. `variables`: reductions, states, and the reductions of
    all AtEvents over this scope. Until split_cells moves them to operations, in a step `reductions` over its neurons
    are computed, in order, then `update` runs."""

    scope: str
    several: bool
    variables: tuple[str, ...]
    reductions: tuple[l0.Reduction, ...] = ()
    update: tuple[l0.Set, ...] = ()
    on: tuple[AtEvent, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Due = tuple[str, str, bool]
"""(phase, event, at the start): the first step of each trial, or the steps that end at an event of a phase."""


@dataclass(frozen=True)
class EachNeuron:
    """`statements` run for every neuron, in every step or those that are `due`. `what` names the operation. `folds`:
    what has been delivered is added to inputs first; `emits`: those for which the local `spiked` holds then spike."""

    what: str
    statements: tuple[l0.Set, ...] = ()
    due: Due | None = None
    folds: bool = False
    emits: bool = False


@dataclass(frozen=True)
class EachPool:
    """`statements` run for every pool of a scope."""

    what: str
    scope: str
    statements: tuple[l0.Set, ...]
    due: Due | None = None


@dataclass(frozen=True)
class Reduce:
    """A variable of each pool of a scope is computed over its neurons."""

    scope: str
    reduction: l0.Reduction
    due: Due | None = None


@dataclass(frozen=True)
class GivenSpikes:
    """The spikes of the step are those that the population was given for it."""

    due: None = None


Operation = EachNeuron | EachPool | Reduce | GivenSpikes


def reads(operation: Operation) -> frozenset[str]:
    """The names that an operation reads."""
    match operation:
        case EachNeuron() | EachPool():
            return frozenset[str]().union(*(refs(s.value) for s in operation.statements))
        case Reduce():
            return frozenset(refs(operation.reduction.value))
        case GivenSpikes():
            return frozenset()


@dataclass(frozen=True)
class Cell:
    """A neuron model as a pure function of state and inputs for one step. Names that the user chose are symbols
    (compiler/core/symbols.py).

    Before integrate_odes: `dynamics` holds ODEs and `step` is empty. Afterwards `dynamics` is empty and `step`
    is straight-line code: integration, updates, then (with `spike`) `spiked` is computed and resets applied by
    conditional expressions, then `after`. `int_state`: counters (refractory). The first `integrated` statements of
    `step` are the integration, those up to `updated` the updates.

    split_cells moves `step`, `on` and the statements of pools to `operations`, in their order within a step: what
    neurons do before their pools are computed, the reductions, what they do then. `kept`: locals that arrays hold from
    one operation to another. `source`: as of a NeuronDef.
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
    operations: tuple[Operation, ...] = ()
    kept: tuple[str, ...] = ()
    source: str = "equations"
    units: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """Of parameters that have one, for the text; of the states of a source."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    when_span: Span = field(default=NOWHERE, compare=False, repr=False)


# Frozen by `Final` where a model may have 100,000, as spans are (compiler/core/source.py).
@dataclass(slots=True, unsafe_hash=True)
class Instance:
    """A population as an instance of a cell: the value of each param and the initial value of each state. `rings`:
    (input, slots) of inputs whose deliveries have a ring buffer of their own. `late`: those of `others` whose pools are
    computed after this population reads them, so that it reads the variables of the step before."""

    name: Final[str]
    cell: Final[int]
    size: Final[int]
    slots: Final[int]  # of its event ring: largest outgoing delay + 3, so that what is delivered in a step may be read
    # while the next one empties a slot and fills another; 0 when it emits nothing
    params: Final[tuple[tuple[str, l0.Value], ...]]
    init: Final[tuple[tuple[str, l0.Value], ...]]
    pools: Final[int] = 1
    pool_init: Final[tuple[tuple[str, l0.Const], ...]] = ()
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)
    shape: Final[tuple[int, ...]] = ()
    others: Final[tuple[tuple[str, str], ...]] = ()  # name -> population
    rings: Final[tuple[tuple[str, int], ...]] = ()
    late: Final[tuple[str, ...]] = ()


@dataclass(frozen=True)
class History:
    """The ring buffer of past values of a variable of neurons, of one slot more than the longest delay with which a
    projection reads it."""

    population: str
    variable: str
    slots: int


@dataclass(frozen=True)
class Before:
    """A copy of a variable of a population, made at the beginning of each step, for populations that read it."""

    population: str
    variable: str


@dataclass(frozen=True)
class Turn:
    """An operation of a cell for some of its instances, which are independent of each other but for what they read of
    other populations. Operations, and instances, by number."""

    cell: int
    operation: int
    instances: tuple[int, ...]


VALUE: Final = l0.hidden("value")
"""The local of a source that is added."""


@dataclass(frozen=True)
class Source:
    """A cell of which a drive is an instance: each neuron of a population has its state, and in each step its local
    VALUE is added to something of the neuron. `arrays`: the params that differ from neuron to neuron. `timed`: params
    that are what a timed array holds in the step (param, array); `noise`: those that are white noise, drawn anew in
    each step; `counters` of phases. Once they are operations, `noise` and `counters` are among the statements."""

    cell: Cell
    arrays: tuple[str, ...]
    timed: tuple[tuple[str, str], ...] = ()
    noise: tuple[str, ...] = ()
    counters: tuple[Counter, ...] = ()

    @property
    def various(self) -> tuple[str, ...]:
        """The params that are not one number."""
        timed = (name for name, _ in self.timed)
        return (*self.arrays, *timed, *self.noise, *(c.name for c in self.counters))


@dataclass(frozen=True)
class Drive:
    """An instance of a source, by number, for the neurons of a population: it is added to the input or the parameter
    `into` at the start of each step, or is the rate of a Poisson input into that. `first`: of all into a parameter, to
    whose own value it is added."""

    instance: Instance
    population: str
    into: str
    first: bool = False


def is_current(operation: Operation, instance: Instance, read: OtherRead) -> bool:
    """Whether an operation reads a variable of another population as it is, and not as it was before the step: those of
    pools, once they have been computed and before events change them."""
    return operation.due is None and "." in read.variable and read.other not in instance.late
