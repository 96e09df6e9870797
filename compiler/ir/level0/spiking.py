"""Level 0, spiking networks: neurons, populations, inputs, recordings.

Assumes, guarantees: compiler/ir/level0/model.py, which shows these names to everyone else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr
from compiler.ir.level0.values import Const, FromFile, Listed, Value


@dataclass(frozen=True)
class ModelParam:
    """A parameter of the model: the only thing `--set` and sweeps may change."""

    name: str
    kind: str  # "float" | "int" | "bool"
    value: float | int | bool
    unit: str = "1"
    doc: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


class Method(StrEnum):
    AUTO = "auto"
    EXACT = "exact"
    EXPONENTIAL_EULER = "exponential_euler"
    EULER = "euler"
    RK2 = "rk2"
    RK4 = "rk4"


@dataclass(frozen=True)
class ParamDecl:
    name: str
    unit: str
    default: Value | None
    doc: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class StateDecl:
    name: str
    unit: str
    init: Value
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class InputDecl:
    """A named input that projections deliver into. `decay` is a time constant (expression over params, ms): the input
    is a state that decays exponentially. None: it holds the deliveries of the last step only."""

    name: str
    unit: str
    decay: Expr | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Ode:
    """d(state)/dt = rhs, per ms."""

    state: str
    rhs: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Set:
    """`target = value` (augmented forms are expanded)."""

    target: str
    value: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Spike:
    """`when` is tested after dynamics and update. `refractory`: ms, expression over params, whole steps;
    `hold`: the states that keep their value while refractory (default: the states in `when`)."""

    when: Expr
    reset: tuple[Set, ...]
    refractory: Expr | None
    hold: tuple[str, ...]
    round_refractory: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    """Of `when`."""


@dataclass(frozen=True)
class PhaseDef:
    """A cycle of the run: trials of `every` steps. Step k belongs to trial (k - 1) // every, counted from 0, and is its
    step (k - 1) % every + 1; expressions read them as `<name>.count` and `<name>.step` (numbers). `events`: (name,
    steps after the trial's start, 0 .. every): at 0 the event's actions run at the beginning of the trial's first step,
    before the dynamics; at d > 0 at the end of its step d, after spikes and resets, before deliveries."""

    name: str
    every: int
    events: tuple[tuple[str, int], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Handler:
    """The statements at an event of a phase, in order: assignments to states and inputs, or (of a pool) to its
    states."""

    phase: str
    event: str
    actions: tuple[Set, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Reduction:
    """`<scope>.<name>` = `op` of `value` over the neurons of a pool: "sum", "mean", "min", "max", or "argmax": the
    index (from 0, within the pool) of the first neuron where `value`, a variable, is largest."""

    name: str
    op: str
    value: Expr
    unit: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class PoolDef:
    """Variables held once per pool (`scope` "pool": each of Population.pools equal parts, consecutive neurons) or once
    per population (`scope` "population"). Everything of it is called `<scope>.<name>` in every expression and target,
    locals of `update` too; `name` and `state` here are without the scope.

    In each step, once: the reductions in order (a value reads the neuron's variables as they are then, and what is
    computed before it: earlier reductions, and for "pool" everything of "population"), then `update` (which reads
    params that are one number, `t`, `dt`, random(), not the neurons' variables). This happens right before the first
    statement of the neuron's `update` or `spike` that reads a variable of either scope, or at the end of the step's
    equations if there is none; `dynamics` read the values of the step before. Lets that read them are evaluated, and
    so count as read, where `update` begins."""

    scope: str
    reductions: tuple[Reduction, ...]
    state: tuple[StateDecl, ...] = ()
    update: tuple[Set, ...] = ()
    on: tuple[Handler, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables held per pool, with the scope."""
        names = (*(r.name for r in self.reductions), *(s.name for s in self.state))
        return tuple(f"{self.scope}.{name}" for name in names)


@dataclass(frozen=True)
class OtherDecl:
    """Another population that a definition reads as `<name>.<variable>`, chosen where the definition is used (a
    population, a projection). `reads`: its variables with their units: states and inputs, of pools with the scope
    (`pool.gi`)."""

    name: str
    reads: tuple[tuple[str, str], ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def dotted(self) -> tuple[str, ...]:
        return tuple(f"{self.name}.{variable}" for variable, _ in self.reads)


@dataclass(frozen=True)
class NeuronDef:
    """A neuron model. Expressions may use: own params, state, inputs, lets, `t` and `dt` (ms), model params
    (listed in `model_params`), functions (already inlined), random(),
    variables of `pools`, of `others`, counters of phases. `pools`: "population" before "pool".

    Variables of another population's neurons are those at the end of the step before. Its neuron i is read by neuron
    i, or its only one by all. Variables of its pools are those of this step, and in `on`, or where the two populations
    wait for each other, of the step before; pool p is read by the neurons and equations of pool p, or the only one by
    all.
    `source`: "equations", or "spike_times" (params: file arrays times [ms], indices). `shared`: states with the same
    value in all instances of the network. `events`: states that are 1 in a step in which a condition held, and 0
    otherwise; `after`: statements after spikes and resets, in every step."""

    name: str
    params: tuple[ParamDecl, ...]
    state: tuple[StateDecl, ...]
    inputs: tuple[InputDecl, ...]
    lets: tuple[Set, ...]
    dynamics: tuple[Ode, ...]
    update: tuple[Set, ...]
    spike: Spike | None
    method: Method
    source: str = "equations"
    model_params: tuple[str, ...] = ()
    pools: tuple[PoolDef, ...] = ()
    on: tuple[Handler, ...] = ()
    others: tuple[OtherDecl, ...] = ()
    shared: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    events: tuple[str, ...] = ()
    after: tuple[Set, ...] = ()

    @property
    def units(self) -> dict[str, str]:
        """The units of what changes while it runs: states, inputs, and variables of pools with their scope."""
        found = {x.name: x.unit for x in self.state} | {x.name: x.unit for x in self.inputs}
        for pool in self.pools:
            found |= {f"{pool.scope}.{x.name}": x.unit for x in pool.reductions}
            found |= {f"{pool.scope}.{x.name}": x.unit for x in pool.state}
        return found


ROUND_SPIKES: Final = "round"
"""The parameter of given spikes that is 1 where their times are rounded to the nearest step."""


def rounds_spikes(params: Mapping[str, Value]) -> bool:
    """Whether the times of given spikes are rounded."""
    value = params.get(ROUND_SPIKES)
    return isinstance(value, Const) and value.value == 1


# Frozen by `Final` where a model may have 100,000, as spans are (compiler/core/source.py).
@dataclass(slots=True, unsafe_hash=True)
class Population:
    """`params` and `init` give a value for every declared param and state (defaults filled in). `pools`: number of
    equal parts, which divides `size`; `pool_init`: values of the pools' states, by `<scope>.<name>`; `others`: the
    population of each name in `neuron.others`."""

    name: Final[str]
    neuron: Final[NeuronDef]
    size: Final[int]
    params: Final[tuple[tuple[str, Value], ...]]
    init: Final[tuple[tuple[str, Value], ...]]
    classes: Final[tuple[str, ...]] = ()
    shape: Final[tuple[int, ...]] = ()  # row-major; () without one
    pools: Final[int] = 1
    pool_init: Final[tuple[tuple[str, Const], ...]] = ()
    others: Final[tuple[tuple[str, str], ...]] = ()
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)

    def count(self, variable: str) -> int:
        """How many numbers a variable of it has: one per neuron, or per pool (`pool.gi`)."""
        scope, dot, _ = variable.partition(".")
        return self.size if not dot else self.pools if scope == "pool" else 1


@dataclass(frozen=True)
class PoissonInput:
    """Independent Poisson trains, one per neuron of a population, delivered at the end of each step: `rate` in
    1/ms (mean number of events per ms), `weight` in the input's unit."""

    name: str
    population: str
    into: str
    rate: float
    weight: float
    changing: Drive | None = None  # the rate at the start of each step is its source's value (`rate` is then 0)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class TimedArray:
    """Values for times: row r (from 0) holds in steps r * every + 1 .. (r + 1) * every, the last row from then on.
    `interpolate`: in between, linear from a row to the next, taken at the start of the step. `columns` 0: one number
    for all; else one for each neuron of a population of that size, `values` row by row.
    `phase`: of a trial of the phase each (`every` steps), and over again after the last row. `order`: sequential |
    shuffled (in another order in each pass through the rows, the same for all arrays of the phase with that number of
    rows) | dealt (such a pass is shared by the instances, which take the next row in turn).
    `layer`: the layer or network input whose values, times `scale`, are written into it before each trial: `rows` of
    them for the sample of each instance, which fill the trial (`values` is empty)."""

    name: str
    values: Listed | FromFile
    rows: int
    columns: int
    every: int  # steps
    interpolate: bool = False
    unit: str = "1"
    phase: str | None = None
    order: str = "sequential"
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    layer: str = ""
    scale: float = 1.0


@dataclass(frozen=True)
class LookupTable:
    """Values at `rows` arguments from `low` to `high`, evenly spaced (canonical units); linear in between, the first
    and the last value outside. Expressions call it as `table_call(name)` of a number without a unit."""

    name: str
    values: Listed | FromFile
    rows: int
    low: float
    high: float
    unit: str = "1"
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def hidden(name: str) -> str:
    """What expressions call the value of a timed array or of white noise in this step: no user's name begins so."""
    return f"_{name}"


@dataclass(frozen=True)
class SourceDef:
    """What is added to something of each neuron at the start of every step k: `value`, over what the definition's lets
    may read, with `t` = (k-1) dt. Then dynamics and update take its states (one of each per neuron) to the end of the
    step. `neuron`: params, state, lets, dynamics, update, on, method (no inputs, no spike); events at the start of a
    trial run before `value` is taken.

    `timed`: timed arrays that are read, as `hidden(name)`. `noise`: white noise, one process per name, read as
    `hidden(name)`, in 1/sqrt(ms): normal() / sqrt(dt), drawn anew for each neuron and step and constant in the step.
    """

    neuron: NeuronDef
    value: Expr
    timed: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Drive:
    """A source that drives an input without decay, or a parameter, of every neuron of a population: in each step the
    sum of all drives into it, on top of the parameter's own value (of what was delivered into the input in the last
    step). `hidden(x)` as `into`: a parameter that the frontend added for a timed array or noise that equations read."""

    name: str
    population: str
    into: str
    source: SourceDef
    params: tuple[tuple[str, Value], ...] = ()
    init: tuple[tuple[str, Value], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Checkpoints:
    """When a run writes checkpoints: at multiples of `every` steps, counted from the end of the warm-up (0: not so),
    and when `wall` seconds of real time have passed (0: not so). The newest `keep` are kept."""

    every: int = 0
    wall: float = 0.0
    keep: int = 2


@dataclass(frozen=True)
class Measure:
    """`op` ("sum", "mean", "min", "max") of `value` over the neurons of populations, one after the other, or over the
    synapses of a projection; `value` reads their variables by name, without the owner. `name`: as users wrote it."""

    name: str
    op: str
    value: Expr
    populations: tuple[str, ...] = ()
    projection: str = ""


@dataclass(frozen=True)
class Measured:
    """A number of the whole network: `expr` reads measures by name. `unit`: of the number."""

    expr: Expr
    measures: tuple[Measure, ...]
    unit: str = "1"


@dataclass(frozen=True)
class StopWhen:
    """The run ends at the end of the step in which `when`, a condition that is tested as RecordTraces samples, holds
    for the `times`-th time in a row."""

    when: Measured
    every: int
    at: int | None = None  # shift_of
    times: int = 1
    span: Span = field(default=NOWHERE, compare=False, repr=False)


MOST_STEPS: Final = (1 << 31) - 1
"""Of warm-up and duration together: events carry their step as a 32-bit integer."""


@dataclass(frozen=True)
class Simulate:
    """dt in ms; duration and warmup in whole steps. `freeze`: projections whose synapses keep what they have learned
    (passes/model/freeze_learning.py). `instances`: independent copies of the network that run side by side; the
    frontend has expanded them (frontend/build/instances/expand.py): populations `exc_0`, `exc_1`, ... `checkpoints`:
    None without any but the one at the end. `stop`: what may end the run before `steps`."""

    dt: float
    steps: int
    warmup: int
    seed: int
    freeze: tuple[str, ...] = ()
    instances: int = 1
    checkpoints: Checkpoints | None = None
    stop: StopWhen | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def shift_of(every: int, at: int | None) -> int:
    """Recordings sample at the end of steps n * every - shift after the warm-up, n = 1, 2, ...; with `at`, these are
    the steps k with k % every == at (an event of a phase of `every` steps)."""
    return 0 if at is None or every == 0 else -at % every


def next_sample(done: int, every: int, shift: int) -> int:
    """The first step after `done`, counted from the end of the warm-up, at whose end a sample is taken."""
    return ((done + shift) // every + 1) * every - shift


@dataclass(frozen=True)
class RecordSpikes:
    """`members`: the neurons that are kept (empty: all); `between`: the steps (after the warm-up) that are kept,
    first < k <= last."""

    populations: tuple[str, ...]
    members: tuple[int, ...] = ()
    between: tuple[int, int] | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordRate:
    """The mean rate of a population in bins of `every` steps."""

    population: str
    every: int
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordHistogram:
    """Counts of a variable of a projection's synapses in `bins` bars between `low` and `high` (canonical units),
    sampled as RecordSynapses."""

    projection: str
    variable: str
    low: float
    high: float
    bins: int
    every: int
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordSynapses:
    """Variables of the synapses of a projection, one value per synapse in storage order (source by source, targets
    ascending; explicit pairs in the user's order), sampled at time 0 after the warm-up and every `every` steps from
    then on; `every` 0: at the end of the run only. Static synapses have `weight` (and `delay`)."""

    projection: str
    variables: tuple[str, ...]
    every: int
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordOwnEvents:
    """The neurons for which the condition of an event of `source` holds, each in its step k: of a population, or of the
    synapses of a projection (`of_synapses`). `between` as of RecordSpikes."""

    source: str
    of_synapses: bool
    events: tuple[str, ...]
    between: tuple[int, int] | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordTable:
    """A row of numbers at the end of every `every`-th step after the warm-up. `columns`: (name, what); `parquet`:
    written as Parquet, too, when the run ends."""

    name: str
    columns: tuple[tuple[str, Measured], ...]
    every: int
    at: int | None = None  # shift_of
    parquet: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordTraces:
    """Sampled at the end of every `every`-th step after the warm-up. `variables`: states, inputs. Units beside them.
    `input`: the network input that reads the samples of a trial, of which there are `capacity` (0: a recording of a
    simulation, to a file)."""

    population: str
    variables: tuple[str, ...]
    members: tuple[int, ...]
    every: int
    between: tuple[int, int] | None = None
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    input: str = ""
    capacity: int = 0

    @property
    def group(self) -> str:
        """Its group in traces.h5: `layer`, or `layer.pool` of variables `pool.gi` (whose `members` are pools)."""
        scope, dot, _ = self.variables[0].rpartition(".") if self.variables else ("", "", "")
        return f"{self.population}{dot}{scope}"
