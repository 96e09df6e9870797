"""synapse_names: a synapse model with flat names, as its kernels have them.

Assumes: a legal SynapseDef: names are distinct, traces do not hide variables of the neurons.
Guarantees: `post.y` is called `post_y` and so on; no name is one that level 2 gives a meaning or that passes make from
another. In `pre:` and `post:` blocks, too, a trace is called by its end. Times of spikes become expressions over whole
steps: the arrays hold steps (0: there was none), so that `t - pre.last_spike` is exact however long the run is.
Counters of phases become expressions over `step` and the length of the phase's trials, a whole number.
Does not: know values or arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from compiler.core.names import free_name
from compiler.expr.ast import Binary, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.ir.level0.model import Action, EndDef, Ode, Set, SynapseDef, SynapseEvent, Transpose, values_of
from compiler.ir.level2.delayed import put_delayed, read_delayed, read_now
from compiler.ir.level2.program import PLANES
from compiler.passes.model.free_names import PROPAGATION, RESERVED, renamed
from compiler.passes.program.clock import counter, time_of

TIMES: Final = ("last_spike", "previous_spike")
_ENDS: Final = ("pre", "post")
NEVER: Final = -1e9
"""Time of a spike that never was [ms]."""

TAKEN: Final = (
    PROPAGATION
    | RESERVED
    | frozenset(PLANES)
    | {"pre", "post", "syn", "event", "index", "words", "connect_key", "table", "autapses", "same", "number", "dt", "t"}
    | {"elapsed", "updated", "due", "age", "ring_slots_pre", "copies", "exists"}
    | {f"past_{x}{end}" for x in ("delay_", "slots_") for end in ("pre", "post")}
    | {"past_slot", "past_slots", "past_shift"}
)
"""Formals, locals and integers of the kernels of synapses."""


@dataclass(frozen=True)
class External:
    """`end`.`variable`: a trace, a variable of the neuron, or the time of a spike. `delayed`: a variable of the neuron
    as it was when what arrives now was on its way, `delay` (of post: `back_delay`) before."""

    end: str
    variable: str
    delayed: bool = False


@dataclass(frozen=True)
class Flat:
    """A synapse model with flat names. `shown`: flat name -> the user's, of params and states;
    `externals`: what flat names stand for that belong to an end (traces of `pre:` and `post:` too); `every`: flat name
    -> the phase whose length in steps it is."""

    definition: SynapseDef
    shown: Mapping[str, str]
    externals: Mapping[str, External]
    every: Mapping[str, str] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.definition.state)

    def end(self, end: str) -> EndDef | None:
        return self.definition.pre if end == "pre" else self.definition.post

    def times(self, end: str) -> tuple[str, ...]:
        """Which times of spikes of an end are read."""
        read = {x.variable for x in self.externals.values() if x.end == end and not x.delayed}
        return tuple(v for v in TIMES if v in read or (v == "last_spike" and "previous_spike" in read))


def actions_of(synapse: SynapseDef) -> Iterator[Action]:
    """Every statement of a synapse, but those of its ends."""
    yield from (*synapse.update, *synapse.on_pre, *synapse.on_post)
    for event in synapse.events:
        yield from event.actions
    for handler in synapse.on:
        yield from handler.actions


def expressions_of(synapse: SynapseDef) -> Iterator[Expr]:
    """Every expression of a synapse, its ends included."""
    yield from (x.value for x in synapse.lets)
    yield from (x.rhs for x in synapse.dynamics)
    yield from values_of(actions_of(synapse))
    yield from (e.when for e in synapse.events)
    for end in (synapse.pre, synapse.post):
        if end is not None:
            yield from (x.rhs for x in end.dynamics)
            yield from (x.value for x in (*end.update, *end.on_spike))


def _dotted(names: set[str]) -> set[tuple[str, str]]:
    return {(n.partition(".")[0], n.partition(".")[2]) for n in names if "." in n}


def read_of_neurons(synapse: SynapseDef) -> set[tuple[str, str]]:
    """(end, variable) of everything of an end that is read, with the delay or without."""
    found = _dotted(set().union(*(refs(e) for e in expressions_of(synapse))))
    return {(end, variable) for end, variable in found if end in _ENDS}


def _since(e: Expr, held: Mapping[str, str]) -> Expr:
    """`t - pre.last_spike` as a whole number of steps times dt."""

    def since(x: Expr) -> Expr:
        match x:
            case Binary("-", Ref("t"), Ref(name)) if name in held:
                step = Ref(held[name])
                return Cond(step > 0, (Ref("step") - step) * Ref("dt"), Ref("t") - NEVER)
        return x

    return rewrite(e, since, top_down=True)


def _time(held: str) -> Expr:
    """The time [ms] of a spike whose step is held."""
    return Cond(Ref(held) > 0, time_of(Ref(held)), Num(NEVER))


def flatten(synapse: SynapseDef) -> Flat:
    """The synapse with flat names."""
    ends = {"pre": synapse.pre, "post": synapse.post}
    blocks = {end: block for end, block in ends.items() if block is not None}
    statements = [a for a in actions_of(synapse) if isinstance(a, Set)]
    own = [*synapse.model_params, *(p.name for p in synapse.params), *(s.name for s in synapse.state)]
    own += [*(x.target for x in synapse.lets), *(s.target for s in statements)]
    expressions = list(expressions_of(synapse))
    dotted = _dotted(set().union(*(read_now(e) for e in expressions)))
    wanted = {(end, variable) for end, variable in dotted if end in _ENDS}
    wanted |= {(end, s.name) for end, block in blocks.items() for s in block.state}
    wanted |= {(end, "last_spike") for end, variable in wanted if variable == "previous_spike"}
    flat: dict[tuple[str, str], str] = {}
    for end, variable in sorted(wanted):
        flat[end, variable] = free_name(f"{end}_{variable}", TAKEN | {*own, *flat.values()})
    past: dict[tuple[str, str], str] = {}
    for end, variable in sorted(_dotted(set().union(*(read_delayed(e) for e in expressions)))):
        past[end, variable] = free_name(f"{end}_{variable}_past", TAKEN | {*own, *flat.values(), *past.values()})
    every: dict[str, str] = {}
    for phase in sorted({phase for phase, _ in dotted - wanted}):
        every[phase] = free_name(f"{phase}_every", TAKEN | {*own, *flat.values(), *past.values(), *every.values()})
    made = {*flat.values(), *past.values(), *every.values()}
    local: dict[tuple[str, str], str] = {}
    for end, block in blocks.items():
        declared = {s.name for s in block.state}
        for name in sorted({s.target for s in (*block.update, *block.on_spike)} - declared):
            local[end, name] = free_name(name, TAKEN | {*own, *made, *local.values()})
    new = renamed([*own, *made, *local.values()], TAKEN)
    flat = {key: new.get(name, name) for key, name in flat.items()}
    past = {key: new.get(name, name) for key, name in past.items()}
    every = {phase: new.get(name, name) for phase, name in every.items()}
    local = {key: new.get(name, name) for key, name in local.items()}
    held = {f"{end}.{v}": name for (end, v), name in flat.items() if v in TIMES}
    bindings: dict[str, Expr] = {name: Ref(new.get(name, name)) for name in own}
    bindings |= {f"{end}.{v}": Ref(name) for (end, v), name in flat.items()}
    bindings |= {user: _time(name) for user, name in held.items()}
    bindings |= {f"{phase}.{of}": counter(of, every[phase]) for phase, of in dotted - wanted}
    delayed: dict[str, Expr] = {f"{end}.{v}": Ref(name) for (end, v), name in past.items()}

    def expr(e: Expr, bound: dict[str, Expr] = bindings, at_end: bool = True) -> Expr:
        e = put_delayed(e, delayed) if delayed else e
        return substitute(_since(e, held) if at_end and held else e, bound)

    def sets(items: tuple[Set, ...]) -> tuple[Set, ...]:
        return tuple(Set(new.get(s.target, s.target), expr(s.value), s.span) for s in items)

    def act(items: tuple[Action, ...]) -> tuple[Action, ...]:
        out: list[Action] = []
        for a in items:
            if isinstance(a, Set):
                out.append(Set(new.get(a.target, a.target), expr(a.value), a.span))
            elif isinstance(a, Transpose):
                out.append(replace(a, target=new.get(a.target, a.target)))
            else:
                out.append(replace(a, value=expr(a.value)))
        return tuple(out)

    def block_of(end: str) -> EndDef | None:
        b = ends[end]
        if b is None:
            return None
        names = {s.name: flat[end, s.name] for s in b.state}
        names |= {name: free for (e, name), free in local.items() if e == end}
        bound = {**bindings, **{n: Ref(f) for n, f in names.items()}}

        def inner(items: tuple[Set, ...]) -> tuple[Set, ...]:
            return tuple(Set(names[s.target], expr(s.value, bound), s.span) for s in items)

        return EndDef(
            tuple(replace(s, name=names[s.name]) for s in b.state),
            tuple(Ode(names[o.state], expr(o.rhs, bound, False), o.span) for o in b.dynamics),
            inner(b.update),
            inner(b.on_spike),
            b.span,
        )

    done = replace(
        synapse,
        params=tuple(replace(p, name=new.get(p.name, p.name)) for p in synapse.params),
        state=tuple(replace(s, name=new.get(s.name, s.name)) for s in synapse.state),
        lets=sets(synapse.lets),
        pre=block_of("pre"),
        post=block_of("post"),
        dynamics=tuple(Ode(new.get(o.state, o.state), expr(o.rhs, at_end=False), o.span) for o in synapse.dynamics),
        update=act(synapse.update),
        on_pre=act(synapse.on_pre),
        on_post=act(synapse.on_post),
        events=tuple(SynapseEvent(e.name, e.end, expr(e.when), act(e.actions), e.span) for e in synapse.events),
        on=tuple(replace(h, actions=act(h.actions)) for h in synapse.on),
        model_params=tuple(new.get(p, p) for p in synapse.model_params),
        shared=None if synapse.shared is None else tuple(new.get(n, n) for n in synapse.shared),
    )
    shown = {new.get(n, n): n for n in (p.name for p in synapse.params)}
    shown |= {new.get(s.name, s.name): s.name for s in synapse.state}
    shown |= {new.get(n, n): n for n in synapse.model_params}
    externals = {name: External(*key) for key, name in flat.items()}
    externals |= {name: External(*key, True) for key, name in past.items()}
    return Flat(done, shown, externals, {name: phase for phase, name in every.items()})
