"""synapse_symbols: a synapse model with symbols for the names of its kernels.

Assumes: a legal SynapseDef: names are distinct, traces do not hide variables of the neurons.
Guarantees: every name that the user chose is a symbol (compiler/core/symbols.py): `post.y` of what belongs to an end,
traces in `pre:` and `post:` blocks too. Times of spikes become expressions over integer steps: the arrays hold steps
(0: no spike yet), so that `t - pre.last_spike` is exact in runs of any length. Counters of phases become expressions
over `step` and the integer length of the phase's trials.
Does not: know values or arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.symbols import Sym, Way, derived, symbol
from compiler.expr.ast import Binary, Cond, Expr, Num, Ref, refs, rewrite
from compiler.ir.level0.controls import P, Rename, rewritten
from compiler.ir.level1.synapses import External, SynapseCell
from compiler.ir.level2.synapse_values import delayed_name, read_delayed, read_now
from compiler.passes.program.clock import counter, time_of

_ENDS: Final = ("pre", "post")
CONNECTED: Final = ""
"""The `end` of what expressions read of the connections, without a dot (l0.CONNECTED)."""
TOTAL: Final = "sum_into"
"""That of sums over projections (l0.Member.sums)."""
NEVER: Final = -1e9
"""Time of a spike that never was [ms]."""


def _dotted(names: set[str]) -> set[tuple[str, str]]:
    return {(n.partition(".")[0], n.partition(".")[2]) for n in names if "." in n}


def read_of_neurons(synapse: l0.SynapseDef) -> set[tuple[str, str]]:
    """(end, variable) of every variable of an end that is read, delayed or not."""
    found = _dotted(set().union(*(refs(e) for e in synapse.expressions)))
    return {(end, variable) for end, variable in found if end in _ENDS}


def _since(held: str) -> Expr:
    """`t` less the time [ms] of a spike whose step is held: an integer number of steps times dt."""
    step = Ref(held)
    return Cond(step > 0, (Ref("step") - step) * Ref("dt"), Ref("t") - NEVER)


def _time(held: str) -> Expr:
    """The time [ms] of a spike whose step is held."""
    return Cond(Ref(held) > 0, time_of(Ref(held)), Num(NEVER))


@dataclass(frozen=True)
class _Names:
    """Symbols. `own`: everything the definition declares; `flat`, `past`: (end, variable) -> symbol, read now or with
    the delay; `every`: phase -> the column of its period; `local`: (end, target) -> symbol of an undeclared target of
    assignment in a block of an end; `counters`: (phase, `count` or `step`); `times`: (end, variable) of all times of
    events."""

    own: Sequence[str]
    flat: Mapping[tuple[str, str], Sym]
    past: Mapping[tuple[str, str], Sym]
    every: Mapping[str, Sym]
    local: Mapping[tuple[str, str], Sym]
    counters: set[tuple[str, str]]
    times: set[tuple[str, str]]


def _names(synapse: l0.SynapseDef) -> _Names:
    blocks = synapse.ends
    statements = [a for a in synapse.actions if isinstance(a, l0.Set)]
    own = [*synapse.model_params, *(p.name for p in synapse.params), *(s.name for s in synapse.state)]
    own += [*(x.target for x in synapse.lets), *(s.target for s in statements)]
    expressions = list(synapse.expressions)
    dotted = _dotted(set().union(*(read_now(e) for e in expressions)))
    wanted = {(end, variable) for end, variable in dotted if end in _ENDS}
    ends = {s.name for block in blocks.values() for s in block.state}
    wanted |= {
        (CONNECTED, name) for name in {n for e in expressions for n in refs(e)} & {*l0.CONNECTED} - {*own, *ends}
    }
    wanted |= dotted & {(TOTAL, p.name) for p in synapse.params}
    wanted |= dotted & {(o.name, variable) for o in synapse.others for variable, _ in o.reads}
    wanted |= {(end, s.name) for end, block in blocks.items() for s in block.state}
    times = {(end, name) for end in _ENDS for name in synapse.times(end)}
    before = {(end, name.removeprefix("previous_")) for end, name in wanted & times if name.startswith("previous_")}
    wanted |= {(end, l0.times_of(event)[0]) for end, event in before}
    flat = {(end, v): symbol(f"{end}.{v}".removeprefix(".")) for end, v in sorted(wanted)}
    late = sorted(_dotted(set().union(*(read_delayed(e) for e in expressions))))
    past = {(end, v): derived(symbol(f"{end}.{v}"), Way.PAST) for end, v in late}
    every = {phase: derived(symbol(phase), Way.EVERY) for phase in sorted({phase for phase, _ in dotted - wanted})}
    local = {
        (end, name): derived(symbol(name), Way.LOCAL, end)
        for end, block in blocks.items()
        for name in sorted({s.target for s in block.statements} - {s.name for s in block.state})
    }
    return _Names(own, flat, past, every, local, dotted - wanted, times)


class _Flattening:
    """The parts of a definition with symbols."""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.held = {f"{end}.{v}": name for (end, v), name in names.flat.items() if (end, v) in names.times}
        self.bindings: dict[str, Expr] = {name: Ref(symbol(name)) for name in names.own}
        self.bindings |= {f"{end}.{v}".removeprefix("."): Ref(name) for (end, v), name in names.flat.items()}
        self.bindings |= {user: _time(name) for user, name in self.held.items()}
        self.bindings |= {f"{phase}.{of}": counter(of, names.every[phase]) for phase, of in names.counters}
        self.delayed: dict[str, Expr] = {f"{end}.{v}": Ref(name) for (end, v), name in names.past.items()}

    def expr(self, e: Expr, bound: Mapping[str, Expr] | None = None, at_end: bool = True) -> Expr:
        """`e` with symbols. `at_end`: at the end of the step, from which the time since a spike is exact."""
        bound = self.bindings if bound is None else bound

        def flat(x: Expr) -> Expr:
            match x:
                case Ref(name):
                    return bound.get(name, x)
                case Binary("-", Ref("t"), Ref(name)) if at_end and name in self.held:
                    return _since(self.held[name])
            late = delayed_name(x)
            return x if late is None else self.delayed[late]

        return rewrite(e, flat, top_down=True)

    def part(self, x: P, name: Rename = symbol, bound: Mapping[str, Expr] | None = None, at_end: bool = True) -> P:
        """Statements, equations or what has them, with symbols."""
        return rewritten(x, lambda e: self.expr(e, bound, at_end), name)

    def block(self, end: str, b: l0.EndDef) -> l0.EndDef:
        names = {s.name: self.names.flat[end, s.name] for s in b.state}
        names |= {name: free for (e, name), free in self.names.local.items() if e == end}
        bound, known = {**self.bindings, **{n: Ref(f) for n, f in names.items()}}, names.__getitem__
        return replace(
            self.part(replace(b, dynamics=()), known, bound),
            state=tuple(replace(s, name=names[s.name]) for s in b.state),
            dynamics=self.part(b.dynamics, known, bound, at_end=False),
            inputs=tuple(replace(i, name=names[i.name]) for i in self.part(b.inputs)),
            deliver=self.part(b.deliver),
        )


def bind_synapse(synapse: l0.SynapseDef) -> SynapseCell:
    """The synapse with symbols, without operations."""
    names = _names(synapse)
    f = _Flattening(names)
    ends = {end: f.block(end, b) for end, b in synapse.ends.items()}
    done = replace(
        f.part(replace(synapse, dynamics=(), pre=None, post=None)),
        params=tuple(replace(p, name=symbol(p.name)) for p in synapse.params),
        state=tuple(replace(s, name=symbol(s.name)) for s in synapse.state),
        dynamics=f.part(synapse.dynamics, at_end=False),
        model_params=tuple(symbol(p) for p in synapse.model_params),
        shared=None if synapse.shared is None else tuple(symbol(n) for n in synapse.shared),
        pre=ends.get("pre"),
        post=ends.get("post"),
    )
    externals: dict[str, External] = {name: External(*key) for key, name in names.flat.items()}
    externals |= {name: External(*key, True) for key, name in names.past.items()}
    return SynapseCell(done, externals, {name: phase for phase, name in names.every.items()})
