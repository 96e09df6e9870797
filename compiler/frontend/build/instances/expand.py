"""Instances: independent copies of a spiking network that run side by side.

Assumes: a built model; `simulate.instances` copies of it are wanted.
Guarantees: population `exc` becomes `exc_0`, `exc_1`, ... (the rows of the same kernels: the emitted code stays the
same), and so does every reference to it: projections within each copy, inputs, records, plots, expectations. Random
streams are named by population, so that each copy has its own. With shared weights every copy's projections use the
synapses of the first: static projections share everything, others connections, parameters and the states listed in the
synapse's `shared`. Sums over instances in neurons read the copies as other populations, and are added in pairs of
neighbours, then pairs of these sums, and so on, so that they have the same bits in all copies; states that
neurons share begin with the draws of the first copy, and what is assigned to them is equal in all.
Does not: let copies differ in what they share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Num, Ref, refs, rewrite, shorten, substitute
from compiler.expr.inline import too_large
from compiler.frontend.build.instances.neurons import check_drawn
from compiler.frontend.build.shared.self_names import INSTANCE, PARAMS
from compiler.ir.level0.controls import rewritten
from compiler.ir.level2.synapse_values import OVER_INSTANCES, SUMS, over_instances

Names = tuple[str, ...]


def copy_name(name: str, copy: int) -> str:
    return f"{name}_{copy}"


def check_instances(model: l0.Model, shared: bool, at: Span, sink: Sink) -> None:
    """Reports names that collide between copies, and shared synapses that may change."""
    assert model.simulate is not None
    names = {p.name: p for p in model.populations}
    for p in model.populations:
        for copy in range(model.simulate.instances):
            other = names.get(copy_name(p.name, copy))
            if other is not None:
                message = f"the copies of `{p.name}` are called `{copy_name(p.name, copy)}`, which is a population too"
                sink.error("E0212", message, other.span, "choose another name", (Related("there are copies", at),))
                return
    for p in model.populations:
        check_drawn(p, at, sink)
    for neuron in {id(p.neuron): p.neuron for p in model.populations}.values():
        check_size(neuron, model.simulate.instances, sink)
    for projection in model.projections:
        if projection.synapse is not None:
            _check_synapse(projection, projection.synapse, shared, at, sink)


def _check_synapse(projection: l0.Projection, synapse: l0.SynapseDef, shared: bool, at: Span, sink: Sink) -> None:
    for action in synapse.actions:
        summed = next((x for e in l0.values_of([action]) if (x := over_instances(e)) is not None), None)
        if summed is not None and not shared:
            message = f"`{shorten(summed)}` needs instances that have the same synapses"
            sink.error("E0802", message, action.span, "write `weights: shared`", (Related("there are copies", at),))
            return
        if isinstance(action, l0.Rewire) and shared:
            message = f"the synapses of `{projection.name}` are rewired, so that the copies cannot share them"
            wanted = Related("they are to be shared here", at)
            sink.error("E0802", message, action.span, "leave out `weights: shared`", (wanted,))
            return
    if shared and synapse.state and synapse.shared is None:
        message = f"the synapses of `{projection.name}` may change: which of their variables do the copies share?"
        related = (Related("the synapse is declared here", synapse.span), Related("they are to be shared here", at))
        help = f"say it in the synapse, `shared: [{synapse.state[0].name}]`, or leave out `weights: shared`"
        sink.error("E0802", message, projection.span, help, related)


def expand_instances(model: l0.Model, shared: bool) -> l0.Model:
    """The model with `simulate.instances` copies of its spiking network."""
    if model.simulate is None:
        return model
    model = _summing(model, model.simulate.instances)
    if model.simulate is None or model.simulate.instances == 1:
        return model
    copies = range(model.simulate.instances)
    names = {p.name for p in model.populations}

    def all_copies(of: Names) -> Names:
        return tuple(copy_name(n, k) for n in of for k in copies)

    return replace(
        model,
        populations=tuple(_population(p, k) for p in model.populations for k in copies),
        projections=tuple(_projection(p, copies, shared) for p in model.projections),
        poisson=tuple(_poisson(x, k) for x in model.poisson for k in copies),
        drives=tuple(_drive(x, k) for x in model.drives for k in copies),
        spikes=tuple(replace(r, populations=all_copies(r.populations)) for r in model.spikes),
        traces=tuple(replace(r, population=copy_name(r.population, k)) for r in model.traces for k in copies),
        events=tuple(
            e
            for r in model.events
            for e in ((r,) if r.of_synapses else (replace(r, source=copy_name(r.source, k)) for k in copies))
        ),
        rates=tuple(replace(r, population=copy_name(r.population, k)) for r in model.rates for k in copies),
        tables=tuple(
            replace(t, columns=tuple((n, _measured(m, all_copies)) for n, m in t.columns)) for t in model.tables
        ),
        simulate=_stopping(model.simulate, all_copies),
        plots=tuple(_plot(p, names, all_copies) for p in model.plots),
        expect=tuple(x for e in model.expect for x in _expectation(e, names, copies)),
    )


def _summing(model: l0.Model, copies: int) -> l0.Model:
    """The model with sums over instances in neurons as sums over other populations, which `_others` tells apart."""
    made: dict[int, l0.NeuronDef] = {}

    def neuron(n: l0.NeuronDef) -> l0.NeuronDef:
        if id(n) not in made:
            made[id(n)] = summed_over(n, copies)
        return made[id(n)]

    def population(p: l0.Population) -> l0.Population:
        n = neuron(p.neuron)
        new = n.others[len(p.neuron.others) :]
        return p if n is p.neuron else replace(p, neuron=n, others=(*p.others, *((o.name, p.name) for o in new)))

    return replace(model, populations=tuple(map(population, model.populations)))


def _population(p: l0.Population, copy: int) -> l0.Population:
    """The copy, with its number where the equations read it."""
    params = _numbered(p.params, copy)
    init = tuple((n, _drawn_once(p.name, n, v) if n in p.neuron.shared else v) for n, v in p.init)
    return replace(p, name=copy_name(p.name, copy), params=params, init=init, others=_others(p.others, copy))


def _numbered(params: tuple[tuple[str, l0.Value], ...], copy: int) -> tuple[tuple[str, l0.Value], ...]:
    number = PARAMS[INSTANCE]
    return tuple((name, l0.Const(float(copy)) if name == number else value) for name, value in params)


def _drive(d: l0.Drive, copy: int) -> l0.Drive:
    return replace(d, population=copy_name(d.population, copy), params=_numbered(d.params, copy))


def _poisson(x: l0.PoissonInput, copy: int) -> l0.PoissonInput:
    changing = None if x.changing is None else _drive(x.changing, copy)
    return replace(x, population=copy_name(x.population, copy), changing=changing)


def _drawn_once(population: str, name: str, value: l0.Value) -> l0.Value:
    """The initial value of a shared state, drawn as that of the first copy."""
    return replace(value, stream=f"{copy_name(population, 0)}.{name}") if isinstance(value, l0.Distribution) else value


def _others(others: tuple[tuple[str, str], ...], copy: int) -> tuple[tuple[str, str], ...]:
    """The populations that are read: within the copy, but for those that stand for a given one."""
    return tuple((name, copy_name(population, instance_of(name, copy))) for name, population in others)


def _projection(projection: l0.Projection, copies: range, shared: bool) -> l0.Projection:
    members = tuple(_member(m, k, shared) for k in copies for m in projection.members)
    return replace(projection, members=members)


def _member(m: l0.Member, copy: int, shared: bool) -> l0.Member:
    like = (copy_name(m.source, 0), copy_name(m.target, 0)) if shared and copy > 0 else None
    return replace(
        m, source=copy_name(m.source, copy), target=copy_name(m.target, copy), like=like, others=_others(m.others, copy)
    )


def _measured(m: l0.Measured, all_copies: Callable[[Names], Names]) -> l0.Measured:
    """A number of all copies together."""
    return replace(m, measures=tuple(replace(x, populations=all_copies(x.populations)) for x in m.measures))


def _stopping(simulate: l0.Simulate, all_copies: Callable[[Names], Names]) -> l0.Simulate:
    stop = simulate.stop
    return simulate if stop is None else replace(simulate, stop=replace(stop, when=_measured(stop.when, all_copies)))


def _plot(plot: l0.Plot, names: set[str], all_copies: Callable[[Names], Names]) -> l0.Plot:
    args = tuple(
        (key, all_copies(value) if isinstance(value, tuple) and set(value) <= names else value)
        for key, value in plot.args
    )
    return replace(plot, args=args)


def _expectation(e: l0.Expectation, names: set[str], copies: range) -> tuple[l0.Expectation, ...]:
    given = dict(e.args)
    of = given.get("of")
    if not isinstance(of, str) or of not in names:
        return (e,)
    return tuple(
        replace(e, args=tuple((k, copy_name(of, copy) if k == "of" else v) for k, v in e.args)) for copy in copies
    )


_COPY: Final = l0.hidden("instance_")
"""What the names begin with under which a neuron reads the copies: no user's name does."""


def instance_of(name: str, copy: int) -> int:
    """The instance that a neuron of instance `copy` reads under this name of another population."""
    return int(name.removeprefix(_COPY)) if name.startswith(_COPY) else copy


def _in_pairs(terms: list[Expr], both: Callable[[Expr, Expr], Expr]) -> Expr:
    """All terms together, with few levels."""
    while len(terms) > 1:
        pairs = [both(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) // 2 * 2 :]
    return terms[0]


def check_size(n: l0.NeuronDef, copies: int, sink: Sink) -> None:
    """E0307 where sums over so many instances become too large."""
    for s in (s for handler in n.on for s in handler.actions):
        call = over_instances(s.value)
        if call is not None and (how := too_large(_in_pairs([call.args[0]] * copies, lambda a, b: a + b))) is not None:
            message = f"`{shorten(call)}` over {copies:,} instances {how}"
            sink.error(
                "E0307", message, s.span, "make the summand a state, which `update` or a statement before computes"
            )


def summed_over(n: l0.NeuronDef, copies: int) -> l0.NeuronDef:
    """The definition with its sums over that many instances, and the copies among its `others`."""
    values = [s.value for handler in n.on for s in handler.actions]
    if all(over_instances(e) is None for e in values):
        return n
    units, read = n.units, set[str]()

    def one(e: Expr) -> Expr:
        if not isinstance(e, Call) or e.func not in OVER_INSTANCES:
            return e
        names = refs(e) & units.keys()
        read.update(names)
        terms = [substitute(e.args[0], {x: Ref(f"{_COPY}{k}.{x}") for x in names}) for k in range(copies)]
        op = SUMS[e.func][0]
        if op in ("max", "min"):
            return _in_pairs(terms, lambda a, b: Call(op, (a, b)))
        whole = _in_pairs(terms, lambda a, b: a + b)
        return whole / Num(float(copies)) if op == "mean" else whole

    on = rewritten(n.on, lambda e: rewrite(e, one))
    reads = tuple((x, units[x]) for x in units if x in read)
    decls = tuple(l0.OtherDecl(f"{_COPY}{k}", reads, n.span) for k in range(copies))
    return replace(n, on=on, others=(*n.others, *decls))
