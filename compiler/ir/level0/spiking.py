"""Level 0, spiking networks: neurons, populations, synapses, projections, inputs, recordings.

Assumes, guarantees: compiler/ir/level0/model.py, which shows these names to everyone else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr
from compiler.ir.level0.values import Const, Distribution, FromFile, Listed, Placed, Value


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
    `source`: "equations", or "spike_times" (params: file arrays times [ms], indices)."""

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
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def units(self) -> dict[str, str]:
        """The units of what changes while it runs: states, inputs, and variables of pools with their scope."""
        found = {x.name: x.unit for x in self.state} | {x.name: x.unit for x in self.inputs}
        for pool in self.pools:
            found |= {f"{pool.scope}.{x.name}": x.unit for x in pool.reductions}
            found |= {f"{pool.scope}.{x.name}": x.unit for x in pool.state}
        return found


@dataclass(frozen=True)
class Population:
    """`params` and `init` give a value for every declared param and state (defaults filled in). `pools`: number of
    equal parts, which divides `size`; `pool_init`: values of the pools' states, by `<scope>.<name>`; `others`: the
    population of each name in `neuron.others`."""

    name: str
    neuron: NeuronDef
    size: int
    params: tuple[tuple[str, Value], ...]
    init: tuple[tuple[str, Value], ...]
    classes: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()  # row-major; () without one
    pools: int = 1
    pool_init: tuple[tuple[str, Const], ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def count(self, variable: str) -> int:
        """How many numbers a variable of it has: one per neuron, or per pool (`pool.gi`)."""
        scope, dot, _ = variable.partition(".")
        return self.size if not dot else self.pools if scope == "pool" else 1


@dataclass(frozen=True)
class Send:
    """`deliver(value)`, `deliver(value, post.x)` or `deliver(value, pre.x)`: adds to an input of the target or of the
    source. `into` None: the input that the projection's `deliver: {into: ...}` names."""

    value: Expr
    end: str = "post"
    into: str | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Rewire:
    """`rewire(when)`: where `value` holds, a synapse ends and a new one of the same source takes its place, with a
    target that is drawn, and with states as at the start. All synapses are done with the statements before it, and
    those after it begin when it is done. Not in on_pre, on_post and events. `keep`: "outdegree", or "indegree" where
    the new synapse has the same target and a source that is drawn; one of the two in a SynapseDef.
    `how`: "rewire", "remove" (the synapse ends and its place stays vacant: nothing runs there) or "form" (a new synapse
    takes a vacant place, if there is a neuron that it can lead to)."""

    value: Expr
    keep: str = "outdegree"
    how: str = "rewire"
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Transpose:
    """`target = transpose(projection.variable)`: a state of each synapse from j to i becomes that variable of the other
    projection's synapse from i to j, at events of phases only. All projections are done with their other statements of
    that event before the first `transpose`, and what follows it in its list begins when all are done with theirs."""

    target: str
    projection: str
    variable: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Action = Set | Send | Rewire | Transpose
"""A statement of a synapse. Set's target: a state of the synapse or a local."""


def values_of(actions: Iterable[Action]) -> tuple[Expr, ...]:
    """The expressions of statements."""
    return tuple(a.value for a in actions if not isinstance(a, Transpose))


@dataclass(frozen=True)
class EndDef:
    """`pre:` or `post:` of a synapse: variables held once per source (or target) neuron of each projection and read as
    `pre.x` (`post.x`). `dynamics` and `update` run in every step, `on_spike` at a spike; they read own states, params
    of the synapse, `t`, `dt`."""

    state: tuple[StateDecl, ...]
    dynamics: tuple[Ode, ...] = ()
    update: tuple[Set, ...] = ()
    on_spike: tuple[Set, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SynapseEvent:
    """A spike-like event with a condition of its own: in each step, for every neuron of `end` ("pre" | "post") for
    which `when` holds (after the neurons' step; names without a dot are params of the synapse, `pre.v` or `post.v`
    are that neuron's or of its block), the actions run at its synapses, after `on_pre` and `on_post`."""

    name: str
    end: str
    when: Expr
    actions: tuple[Action, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SynapseHandler:
    """What every synapse of a projection does at an event of a phase (PhaseDef): at 0 before everything else that
    synapses do in the trial's first step, at d > 0 after everything in its step d. `t` is the end of that step."""

    phase: str
    event: str
    actions: tuple[Action, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SynapseDef:
    """A synapse model. Names in expressions: own params, state and lets; `pre.x` and `post.x`: a state of `pre:` or
    `post:`, or else a state, input or param of the source (target) neuron, or a variable of its pools (`post.pool.x`);
    `pre.last_spike`, `pre.previous_spike` and post's: times [ms] of the last spike before this one that reached the
    synapse, and of the one before it (-1e9 when there was none); variables of `others`; `trial.count`, `trial.step` of
    phases; `t`, `dt` [ms]; model params; random(). With a delay of d steps, `delayed(pre.v)` in step k is what `pre.v`,
    a state or an input of the source, is in step k - d (before step 1: what it began with); `delayed(post.v)` that of
    the target, by the back delay.

    Order within step k, in whole steps, never by comparing times: neurons (dynamics, spikes) | `pre`/`post` dynamics
    and update, then synapses' dynamics and update (unless event-driven) | for sources whose spike of step k - delay
    arrives: on_pre, then `pre: on_spike` | for targets that spiked in step k - back_delay: on_post, then
    `post: on_spike` | events. So a pre and a post spike that meet in one step count as pre before post, and a trace
    jumps after the statements of its own spike have read it.

    `event_driven`: dynamics (linear, each state by itself) are applied exactly, for the time that passed, right
    before an event of the synapse instead of in every step.

    `shared`: states that instances of the network with shared weights have in common (None: not said). Statements of
    `update` and `on` alone assign to them, with values that do not differ between instances: sums over instances
    (`mean_instances(dw)`) are such values. Such a statement runs once, when the synapses of all instances are done with
    those before it.

    `others`: `<name>.<variable>` is that of one neuron, or of one pool, which all synapses of a projection read as they
    read a neuron's.

    `rewired`: what its Rewire statements keep (None: there are none); `vacancies`: they remove or form synapses. Both
    stay as they are when synapses are frozen.
    """

    name: str
    params: tuple[ParamDecl, ...]
    state: tuple[StateDecl, ...]
    lets: tuple[Set, ...] = ()
    pre: EndDef | None = None
    post: EndDef | None = None
    dynamics: tuple[Ode, ...] = ()
    update: tuple[Action, ...] = ()
    on_pre: tuple[Action, ...] = ()
    on_post: tuple[Action, ...] = ()
    events: tuple[SynapseEvent, ...] = ()
    method: Method = Method.AUTO
    event_driven: bool = False
    model_params: tuple[str, ...] = ()
    on: tuple[SynapseHandler, ...] = ()
    shared: tuple[str, ...] | None = None
    rewired: str | None = None
    vacancies: bool = False
    others: tuple[OtherDecl, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Every statement, but those of its ends."""
        events = (a for e in self.events for a in e.actions)
        return (*self.update, *self.on_pre, *self.on_post, *events, *(a for h in self.on for a in h.actions))

    @property
    def values(self) -> tuple[Expr, ...]:
        """Every expression, but those of its ends."""
        equations = (*(x.value for x in self.lets), *(x.rhs for x in self.dynamics))
        return (*equations, *values_of(self.actions), *(e.when for e in self.events))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Every expression, its ends included."""
        found = list(self.values)
        for end in (self.pre, self.post):
            if end is not None:
                found += [*(x.rhs for x in end.dynamics), *(x.value for x in (*end.update, *end.on_spike))]
        return tuple(found)


@dataclass(frozen=True)
class Planes:
    """Layout of a conv2d or avg_pool2d connection (see Toeplitz in ir/level2/program.py). `weights` of kernel elements
    are in the order (out channel, in channel, ky, kx)."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    depthwise: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Subset:
    """A part of a population: ascending runs of indices, each (first, last)."""

    runs: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    def overlaps(self, other: Subset) -> bool:
        return any(a[0] <= b[1] and b[0] <= a[1] for a in self.runs for b in other.runs)


Parts = tuple[Subset | None, Subset | None]
"""Of source and target; None: all."""


def as_drawn(parts: Parts, source: Any, target: Any) -> tuple[Any, Any]:
    """Source and target (dataclasses with a name, a size and a shape) as a rule sees them: a part has neurons 0, 1, ...
    and no shape. Parts of one population are equal, or have no neuron in common (or autapses are allowed), and so count
    as two."""
    pre, post = parts
    if pre != post:
        target = replace(target, name=f"{target.name} (part)")
    if pre is not None:
        source = replace(source, size=pre.size, shape=())
    if post is not None:
        target = replace(target, size=post.size, shape=())
    return source, target


# Frozen by `Final`, as spans are (compiler/core/source.py): a family may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class Member:
    """One projection of a family: from one population to one population.

    `args`: numbers of the connect rule (p, number, autapses 0/1); `weight` in the input's unit;
    `delay` in whole steps, or (with `delays`) the largest of delays that differ from synapse to synapse:
    `delays` is then their distribution in steps, before rounding to whole steps (min and max among its
    args), what the places of their ends give in steps, or for rule "pairs" whole steps, one for each as the user
    ordered them; `pairs`: for rule "pairs" an index into Projection.pair_lists. `like`: source and target of the
    member of the same family whose synapses (relation, parameters, delays, of static synapses the weights, else what
    SynapseDef.shared names) this one shares.
    `occupied`: the probability that a place holds a synapse at the start, where synapses are removed and formed.
    `parts`: the neurons of source and target that the rule connects (None: all). The rule counts these alone.
    `others`: the population of each name in SynapseDef.others.
    """

    source: Final[str]
    target: Final[str]
    args: Final[tuple[tuple[str, float | int], ...]]
    weight: Final[Value]
    delay: Final[int]
    pairs: Final[int | None] = None
    delays: Final[Distribution | Listed | Placed | None] = None
    params: Final[tuple[tuple[str, Value], ...]] = ()
    init: Final[tuple[tuple[str, Value], ...]] = ()
    back_delay: Final[int] = 0
    like: Final[tuple[str, str] | None] = None
    occupied: Final[float] = 1.0
    parts: Final[Parts] = (None, None)
    others: Final[tuple[tuple[str, str], ...]] = ()


@dataclass(frozen=True)
class Projection:
    """A family of projections with one rule, one input and one synapse model (None: static, one delivery of `weight`).
    With a synapse, members give a value for each of its params and states (`params`, `init`: defaults filled in), and
    `into` is "" when it names every input itself.

    rule: the name of a ConnectRule (compiler/connect). `probability`: of rule "expression", over `i`, `j`, `n_from`,
    `n_to`, params and the coordinates of both ends. storage: auto | sparse | dense | bitmask | procedural | toeplitz.
    `planes`: of conv2d and avg_pool2d.
    """

    name: str
    rule: str
    into: str
    members: tuple[Member, ...]
    pair_lists: tuple[tuple[tuple[int, int], ...], ...] = ()  # (source, target) as the user ordered them
    synapse: SynapseDef | None = None
    storage: str = "auto"
    probability: Expr | None = None
    planes: Planes | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


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
    `phase`: of a trial of the phase each (`every` steps), and over again after the last row; `shuffled`: in another
    order in each pass through the rows, the same for all arrays of the phase with that number of rows."""

    name: str
    values: Listed | FromFile
    rows: int
    columns: int
    every: int  # steps
    interpolate: bool = False
    unit: str = "1"
    phase: str | None = None
    shuffled: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def hidden(name: str) -> str:
    """What expressions call the value of a timed array or of white noise in this step: no user's name begins so."""
    return f"_{name}"


@dataclass(frozen=True)
class SourceDef:
    """What is added to something of each neuron at the start of every step k: `value`, over what the definition's lets
    may read, with `t` = (k-1) dt. Then dynamics and update take its states (one of each per neuron) to the end of the
    step. `neuron`: params, state, lets, dynamics, update, method (no inputs, no spike).

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
    frontend has expanded them (frontend/build/instances.py): populations `exc_0`, `exc_1`, ... `checkpoints`: None
    without any but the one at the end. `stop`: what may end the run before `steps`."""

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
class RecordTable:
    """A row of numbers at the end of every `every`-th step after the warm-up. `columns`: (name, what)."""

    name: str
    columns: tuple[tuple[str, Measured], ...]
    every: int
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class RecordTraces:
    """Sampled at the end of every `every`-th step after the warm-up. `variables`: states, inputs. Units beside them."""

    population: str
    variables: tuple[str, ...]
    members: tuple[int, ...]
    every: int
    between: tuple[int, int] | None = None
    at: int | None = None  # shift_of
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def group(self) -> str:
        """Its group in traces.h5: `layer`, or `layer.pool` of variables `pool.gi` (whose `members` are pools)."""
        scope, dot, _ = self.variables[0].rpartition(".") if self.variables else ("", "", "")
        return f"{self.population}{dot}{scope}"
