"""source_cells: the sources of drives, and of rates of Poisson inputs, become cells, and drives their instances.

Assumes: a legal model.
Guarantees: a source whose parameters differ from neuron to neuron in the same places is one cell, for all its drives.
Its last let is the value. Timed arrays, white noise and counters of phases that it reads are params, whose names no
name of the user's gives; split_source makes operations of it once its equations are integrated.
Does not: choose integrators (integrate_odes), or make arrays and kernels (lower_drives).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.symbols import Way, derived, model_name, symbol
from compiler.expr.ast import Call, Expr, Ref, refs, substitute
from compiler.expr.inline import named, reads_through
from compiler.ir.level0.controls import names_read, rewritten
from compiler.ir.level1.spiking import SpikingGraph
from compiler.passes.model.bind_symbols import bind_symbols
from compiler.passes.model.lower_model import cell_of, lower_model
from compiler.passes.model.split_cells import numbered
from compiler.passes.program.clock import STEP_END, STEP_START, counter


def lower_with_drives(model: l0.Model) -> SpikingGraph:
    """The spiking half of a model, with its drives in order and the rates of its Poisson inputs that change."""
    numbers = {p.name: l0.Const(p.value) for p in model.params if isinstance(p.value, (int, float))}
    sizes = {p.name: p.size for p in model.populations}
    known: dict[tuple[int, frozenset[str]], int] = {}
    sources: list[l1.Source] = []

    def instance(drive: l0.Drive, name: str) -> l1.Instance:
        params = (*drive.params, *((n, numbers[n]) for n in drive.source.neuron.model_params))
        spread = frozenset(n for n, value in params if not isinstance(value, l0.Const))
        number = known.setdefault((id(drive.source), spread), len(sources))
        if number == len(sources):
            sources.append(_source(drive.source, spread, model.phases))
        return l1.Instance(
            f"{name}[{drive.population}]", number, sizes[drive.population], 0, params, drive.init, span=drive.span
        )

    first = {(d.population, d.into): d.name for d in reversed(model.drives)}
    drives = tuple(
        l1.Drive(instance(d, d.name), d.population, d.into, first[d.population, d.into] == d.name) for d in model.drives
    )
    changing = [(x, x.changing) for x in model.poisson if x.changing is not None]
    rates = tuple(l1.Drive(instance(d, x.name), x.population, x.into) for x, d in changing)
    return replace(lower_model(_with_driven(model)), sources=tuple(sources), drives=drives, rates=rates)


def _with_driven(model: l0.Model) -> l0.Model:
    """The model with `Driven` as the value of every parameter that drives go into: lower_cells makes arrays of them."""
    into = {(d.population, d.into) for d in model.drives}
    if not into:
        return model

    def value(population: str, name: str, given: l0.Value) -> l0.Value:
        return l0.Driven(given.span) if (population, name) in into else given

    populations = tuple(
        replace(p, params=tuple((n, value(p.name, n, v)) for n, v in p.params)) for p in model.populations
    )
    return replace(model, populations=populations)


def _source(source: l0.SourceDef, spread: frozenset[str], phases: tuple[l0.PhaseDef, ...]) -> l1.Source:
    n = source.neuron
    read = refs(source.value) | names_read((n.lets, n.dynamics, n.update, n.on))
    every = sorted((f"{p.name}.{x}", p.name, x) for p in phases for x in ("count", "step"))
    counted = [c for c in every if c[0] in read]
    hides: dict[str, Expr] = {dotted: Ref(l0.hidden(dotted)) for dotted, _, _ in counted}
    params = {x: symbol(l0.hidden(x)) for x in (*source.timed, *source.noise, *hides)}
    with_value = replace(n, lets=(*n.lets, l0.Set(l1.VALUE, source.value, source.span)))
    hidden = tuple(l0.ParamDecl(l0.hidden(x), "1", None) for x in params)
    bound = bind_symbols(replace(rewritten(with_value, lambda e: substitute(e, hides)), params=(*n.params, *hidden)))
    cell = replace(cell_of(bound, phases), units=tuple((s.name, s.unit) for s in bound.state))
    return l1.Source(
        cell,
        tuple(p for p in cell.params if model_name(p) in spread),
        tuple((params[x], x) for x in source.timed),
        tuple(params[x] for x in source.noise),
        tuple(l1.Counter(params[x], phase, of, derived(params[x], Way.EVERY)) for x, phase, of in counted),
    )


def split_source(source: l1.Source) -> l1.Source:
    """The source with operations: what it does at events at the start of a trial, in every step, and at later events.
    In a step the value is that at its start; then states go to its end."""
    cell = source.cell
    *lets, value = cell.lets
    step = [l0.Set(name, Call("normal", ()) / Call("sqrt", (Ref("dt"),))) for name in source.noise]
    step += [l0.Set(c.name, counter(c.of, c.every)) for c in source.counters]
    at_start: dict[str, Expr] = {"t": STEP_START}
    needed = reads_through((value.value,), lets)
    for let in (x for x in lets if x.target in needed):
        begun = derived(let.target, Way.START)
        step.append(l0.Set(begun, substitute(let.value, at_start), let.span))
        at_start[let.target] = Ref(begun)
    step += [replace(value, value=substitute(value.value, at_start)), *cell.step]
    starting, ending = ([_at_event(source, lets, e) for e in cell.on if e.start == start] for start in (True, False))
    made = {*source.noise, *(c.name for c in source.counters)}
    split = replace(
        cell,
        params=tuple(p for p in cell.params if p not in made),
        lets=(),
        step=(),
        integrated=0,
        updated=0,
        on=(),
        counters=source.counters,
        operations=(*starting, l1.EachNeuron("", numbered(step, [0])), *ending),
    )
    return replace(source, cell=split, noise=(), counters=())


def _at_event(source: l1.Source, lets: Sequence[l0.Set], event: l1.AtEvent) -> l1.EachNeuron:
    inner, now = named(lets), STEP_START if event.start else STEP_END
    sets = [replace(s, value=substitute(substitute(s.value, inner), {"t": now})) for s in event.actions]
    read = set[str]().union(*(refs(s.value) for s in sets))
    counters = [l0.Set(c.name, counter(c.of, c.every)) for c in source.counters if c.name in read]
    due = event.phase, event.event, event.start
    return l1.EachNeuron(f"{event.phase}.{event.event}", numbered([*counters, *sets], [0]), due)
