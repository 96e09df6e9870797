"""Level 1, synapses: synapse models as projections run them, in operations of a step.

Assumes: synapse models of level 0.
Guarantees: frozen data with structural equality. Legality is specified in verify/projections.py.
Does not: know members of families, their values or their arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr, Ref
from compiler.ir.level1.cells import DerivedScalar, Propagator

DELAYS: Final[Mapping[str, str]] = MappingProxyType({"pre": "delays", "post": "back_delays"})
"""What statements call delays of spikes of an end that differ from synapse to synapse."""
EXISTS: Final = Ref("exists").ne(0)
"""Whether a slot holds a synapse."""
GONE: Final = "gone"
"""A state of synapses: which ones are to be replaced, and else 0."""
REPLACED, VACANT, FORMED = 1, 2, 3
"""It ends, and a new one takes its slot; the slot stays vacant; a new one takes a vacant slot."""
Due = tuple[str, str]
"""(phase, event): the steps that end at an event of a phase, or for one at its start the first of each trial."""


@dataclass(frozen=True)
class External:
    """`end`.`variable`: a trace, a variable of the neuron or of its pool, the time of a spike, or a variable of another
    population that `end` names. `delayed`: a past value of a variable of the neuron, `delay` (of post: `back_delay`)
    before now."""

    end: str
    variable: str
    delayed: bool = False


@dataclass(frozen=True)
class Event:
    """The spikes (`name` l0.SPIKE) of the neurons of an end, or those that a condition of the synapse makes. `delayed`:
    they are awaited for the delay (of "post": the back delay)."""

    name: str
    end: str
    delayed: bool


@dataclass(frozen=True)
class AtNeurons:
    """`statements` run for every neuron of `end`, or for those with an `event`; `sends` are added to inputs. `what`
    names the operation: its kernel and its random numbers.

    `dynamics`: equations of the end's state, before integrate_synapses (None: there are none left); `derived`: columns
    that statements read. `condition`: the neurons for which the local `happens` holds have this event. `search`: the
    event whose arrival at each neuron the statements note (transpose_synapses)."""

    stage: str
    what: str
    end: str
    statements: tuple[l0.Set, ...] = ()
    event: Event | None = None
    sends: tuple[l0.Send, ...] = ()
    dynamics: tuple[l0.Ode, ...] | None = None
    derived: tuple[Propagator | DerivedScalar, ...] = ()
    condition: Event | None = None
    search: str = ""
    due: Due | None = None


Past = tuple[tuple[str, str], ...]
"""Traces that are read from the ring buffer that a Keep of a stage fills: (name, stage)."""


@dataclass(frozen=True)
class AtSynapses:
    """`actions` run at every synapse, or at those that an `event` reaches, where all `tests` hold; synapses are found
    by their neurons of `walk` ("pre" | "post").

    `dynamics`: as in AtNeurons; `integrated`: the statements that they become, with columns `derived`; `advance`: those
    that bring states without steps to this one (advance_states). `once`: for all instances that share the states that
    actions assign to; `apart`: all synapses are done with earlier operations of the stage before, and with this one
    before later ones; `vacant`: at slots that hold no synapse, too. `each_age`: for each delay that a synapse may have,
    at the synapses of which the local `age` is the delay; `search`: see AtNeurons, which ran before.

    `part`: of the stage; all synapses are done with operations in earlier parts (order_synapses)."""

    stage: str
    what: str
    actions: tuple[l0.Action, ...] = ()
    event: Event | None = None
    walk: str = "pre"
    tests: tuple[Expr, ...] = ()
    dynamics: tuple[l0.Ode, ...] | None = None
    integrated: tuple[l0.Set, ...] = ()
    derived: tuple[Propagator | DerivedScalar, ...] = ()
    advance: tuple[l0.Set, ...] = ()
    once: bool = False
    apart: bool = False
    vacant: bool = False
    each_age: bool = False
    search: str = ""
    past: Past = ()
    due: Due | None = None
    part: int = 0


@dataclass(frozen=True)
class SynapseSum:
    """`name`, a symbol that later operations read: `op`, "sum" | "max" | "min", of `value` over the synapses of each
    neuron of `end`, over the instances of each synapse, or over those with one element of a kernel ("first": that of
    the first of them). `part`: as in AtSynapses, here and below."""

    stage: str
    what: str
    name: str
    op: str
    end: str
    value: Expr
    past: Past = ()
    due: Due | None = None
    part: int = 0


@dataclass(frozen=True)
class NewSynapses:
    """Synapses that `gone` says are replaced or formed get other ends, drawn anew, and initial values. `rebuild`: the
    rows of the other end are made again."""

    stage: str
    what: str
    rebuild: bool = False
    due: Due | None = None
    part: int = 0


@dataclass(frozen=True)
class Transposed:
    """A state of each synapse becomes that of its reverse in another projection. `once`: as in AtSynapses."""

    stage: str
    what: str
    copied: l0.Transpose
    once: bool = False
    due: Due | None = None
    part: int = 0


@dataclass(frozen=True)
class Arrival:
    """What has been delivered into an input that the projection holds at an end joins it: `name` is its symbol,
    `variable` the user's name."""

    stage: str
    end: str
    variable: str
    name: str


@dataclass(frozen=True)
class Keep:
    """The value of a trace of an end, `name`, is put into a ring buffer, for synapses that see it with a delay of their
    own: in the stage ENDS_PAST before the spikes of a step change it, else after them."""

    stage: str
    end: str
    name: str


OverSynapses = AtSynapses | SynapseSum | NewSynapses | Transposed
Operation = AtNeurons | OverSynapses | Arrival | Keep


@dataclass(frozen=True)
class SynapseCell:
    """A synapse model in projections of one kind, as a Cell is a neuron model. `definition`: with symbols;
    schedule_synapses moves its statements to `operations`, which are in their order within a step but for their stages.

    `externals`: the meaning of symbols that belong to an end (traces of `pre:` and `post:` too); `every`: symbol -> the
    phase whose length in steps it is. `number`: of the model, the input and `clears`: whether projections forget what
    is on its way at an event. `delays`: the ends whose spikes reach each synapse with a delay of its own; `searched`:
    the storage finds no synapses of targets; `arrays`: what dynamics read and is no single number; `updated_at`: where
    the step of the last update of event-driven states is stored: "pre", "post", or "syn" (None: there are none)."""

    definition: l0.SynapseDef
    externals: Mapping[str, External]
    every: Mapping[str, str] = field(default_factory=dict)
    into: str = ""
    number: int = 0
    clears: bool = False
    delays: tuple[str, ...] = ()
    searched: bool = False
    arrays: tuple[str, ...] = ()
    updated_at: str | None = None
    operations: tuple[Operation, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.definition.state)

    def end(self, end: str) -> l0.EndDef | None:
        return self.definition.pre if end == "pre" else self.definition.post

    def own_inputs(self, end: str) -> dict[str, str]:
        """The inputs that projections hold at an end: the user's name -> the symbol."""
        block = self.end(end)
        return {} if block is None else {self.externals[i.name].variable: i.name for i in block.inputs}

    def times(self, end: str, event: str = l0.SPIKE) -> tuple[str, ...]:
        """Which times of an event of an end are read."""
        read = {x.variable for x in self.externals.values() if x.end == end and not x.delayed}
        last, previous = l0.times_of(event)
        return tuple(v for v in (last, previous) if v in read or (v == last and previous in read))
