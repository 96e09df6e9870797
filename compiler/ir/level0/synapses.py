"""Level 0, synapses: their statements and models, projections.

Assumes, guarantees: compiler/ir/level0/model.py, which shows these names to everyone else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr, Ref
from compiler.ir.level0.spiking import Handler, InputDecl, Method, Ode, OtherDecl, ParamDecl, Set, StateDecl
from compiler.ir.level0.values import Distribution, Listed, Placed, Value


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


CONNECTED: Final = ("n_from", "n_to", "n_in", "n_out")
"""The sizes of source and target, and how many synapses of the projection lead to the target neuron and away from the
source neuron when the run begins."""

SPIKE: Final = "spike"


def times_of(event: str) -> tuple[str, str]:
    """The names of the times of an event (or SPIKE) after `pre.` and `post.`: of the last, and of the one before."""
    return f"last_{event}", f"previous_{event}"


Action = Set | Send | Rewire | Transpose
"""A statement of a synapse. Set's target: a state of the synapse or a local."""


def values_of(actions: Iterable[Action]) -> tuple[Expr, ...]:
    """The expressions of statements."""
    return tuple(a.value for a in actions if not isinstance(a, Transpose))


@dataclass(frozen=True)
class EndDef:
    """`pre:` or `post:` of a synapse: variables held once per source (or target) neuron of each projection and read as
    `pre.x` (`post.x`). `dynamics` and `update` run in every step, `on_spike` at a spike, `on` at events of phases,
    after what synapses do then; they read own states, params of the synapse, `t`, `dt`, counters of phases.

    `inputs`: those of `state` that statements deliver into, which is added to them at the end of the step, before
    `on`; with a decay or without one they are as inputs of neurons. `deliver`: what is added to inputs of the neuron at
    the end of every step, after all else; it reads what statements of the synapse may read that is of the neuron."""

    state: tuple[StateDecl, ...]
    dynamics: tuple[Ode, ...] = ()
    update: tuple[Set, ...] = ()
    on_spike: tuple[Set, ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    on: tuple[Handler, ...] = ()
    inputs: tuple[InputDecl, ...] = ()
    deliver: tuple[Send, ...] = ()

    @property
    def values(self) -> tuple[Expr, ...]:
        """Every expression but initial values."""
        decays = (i.decay for i in self.inputs if i.decay is not None)
        said = (*(s.value for s in self.statements), *(s.value for s in self.deliver))
        return (*(o.rhs for o in self.dynamics), *said, *decays)

    @property
    def statements(self) -> tuple[Set, ...]:
        """All of its assignments."""
        return (*self.update, *self.on_spike, *(s for handler in self.on for s in handler.actions))


@dataclass(frozen=True)
class SynapseEvent:
    """A spike-like event with a condition of its own: in each step, for every neuron of `end` ("pre" | "post") for
    which `when` holds (after the neurons' step; names without a dot are params of the synapse, `pre.v` or `post.v`
    are that neuron's or of its block), the actions run at its synapses, after `on_pre` and `on_post`. `delayed`: they
    run when a spike of that step would arrive, the delay (of "post": the back delay) later."""

    name: str
    end: str
    when: Expr
    actions: tuple[Action, ...]
    delayed: bool = False
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
    synapse, and of the one before it (-1e9 when there was none); `pre.last_<event>` and `pre.previous_<event>`
    likewise, of events of that end (`times`); variables of `others`; `trial.count`, `trial.step` of phases; `t`, `dt`
    [ms]; model params; random(); CONNECTED, unless something of its own has such a name; `sum_into.x`: the sum of the
    param x over all members into the same input of the target (Member.sums). With a delay of d steps, `delayed(pre.v)`
    in step k is what `pre.v`, a state or an input of the source, is in step k - d (before step 1: what it began with);
    `delayed(post.v)` that of the target, by the back delay.

    Order within step k, in whole steps, never by comparing times: neurons (dynamics, spikes) | `pre`/`post` dynamics
    and update, then synapses' dynamics and update (unless event-driven) | for sources whose spike of step k - delay
    arrives: on_pre, then `pre: on_spike` | for targets that spiked in step k - back_delay: on_post, then
    `post: on_spike` | events | EndDef.inputs take what has been delivered into them, then EndDef.deliver. So a pre
    and a post spike that meet in one step count as pre before post, and a trace jumps after the statements of its own
    spike have read it.

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
    def ends(self) -> dict[str, EndDef]:
        """`pre` and `post`, as far as there are any."""
        return {end: block for end, block in (("pre", self.pre), ("post", self.post)) if block is not None}

    def times(self, end: str) -> tuple[str, ...]:
        """The names of all times of an end."""
        return tuple(t for e in (SPIKE, *(e.name for e in self.events if e.end == end)) for t in times_of(e))

    @property
    def sends(self) -> tuple[Send, ...]:
        """Every delivery."""
        of_ends = (x for block in self.ends.values() for x in block.deliver)
        return (*(a for a in self.actions if isinstance(a, Send)), *of_ends)

    def own_inputs(self, end: str) -> tuple[str, ...]:
        """The inputs that projections hold at that end."""
        return tuple(i.name for i in self.ends[end].inputs) if end in self.ends else ()

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
        return (*self.values, *(e for block in self.ends.values() for e in block.values))


DELIVER_WEIGHT: Final = SynapseDef("static", (ParamDecl("weight", "1", None),), (), on_pre=(Send(Ref("weight")),))
"""The model of synapses without one: each has a weight, which a spike delivers."""


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

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        return np.concatenate([np.arange(first, last + 1) for first, last in self.runs])

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
    `others`: the population of each name in SynapseDef.others. `back_delay`, `back_delays`: as `delay` and `delays`.
    `sums`: the values of what the synapse's expressions read as `sum_into.<param>`.
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
    back_delays: Final[Distribution | Listed | Placed | None] = None
    sums: Final[tuple[tuple[str, float], ...]] = ()

    def delay_of(self, end: str) -> int:
        """The delay in steps (the longest) of spikes of an end, "pre" or "post"."""
        return self.delay if end == "pre" else self.back_delay

    def delays_of(self, end: str) -> Distribution | Listed | Placed | None:
        """Those that differ from synapse to synapse."""
        return self.delays if end == "pre" else self.back_delays


@dataclass(slots=True, unsafe_hash=True)
class Projection:
    """A family of projections with one rule, one input and one synapse model (None: `statements` are DELIVER_WEIGHT's).
    With a synapse, members give a value for each of its params and states (`params`, `init`: defaults filled in), and
    `into` is "" when it names every input itself.

    rule: the name of a ConnectRule (compiler/connect). `probability`: of rule "expression", over `i`, `j`, `n_from`,
    `n_to`, params and the coordinates of both ends. storage: auto | sparse | dense | bitmask | procedural | toeplitz.
    `planes`: of conv2d and avg_pool2d. `clear`: (every, at): what is on its way along the synapses, in either
    direction, is forgotten at the end of the steps k after the warm-up with k % every == at (and so in the warm-up).
    """

    name: Final[str]
    rule: Final[str]
    into: Final[str]
    members: Final[tuple[Member, ...]]
    pair_lists: Final[tuple[tuple[tuple[int, int], ...], ...]] = ()  # (source, target) as the user ordered them
    synapse: Final[SynapseDef | None] = None
    storage: Final[str] = "auto"
    probability: Final[Expr | None] = None
    planes: Final[Planes | None] = None
    clear: Final[tuple[int, int] | None] = None
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)

    @property
    def statements(self) -> SynapseDef:
        """What its synapses do."""
        return DELIVER_WEIGHT if self.synapse is None else self.synapse

    def params_of(self, member: Member) -> tuple[tuple[str, Value], ...]:
        """The values of the params of `statements`, in order."""
        return (("weight", member.weight),) if self.synapse is None else member.params
