"""E0308 where equations divide by parameters that are 0, whatever else happens.

Assumes: populations, projections and drives with the values of all their parameters.
Guarantees: dynamics, and `update` of what is held, are looked at, named expressions in them included; once per
definition and value.
Does not: look at what a condition guards, at what happens at spikes and events, or at values that are drawn or read
from a file (runtime/health.py looks at these when a value is not finite).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Expr, Num, refs, shorten, substitute
from compiler.expr.inline import named
from compiler.expr.simplify import simplify
from compiler.frontend.build.shared.values import Context
from compiler.ir.level0.divisors import Definition, deciding, is_zero

Found = tuple[str, Binary]
"""What divides ("`dv/dt`"), and the division."""
Params = tuple[tuple[str, l0.Value], ...]


def uses(
    populations: Iterable[l0.Population], projections: Iterable[l0.Projection], drives: Iterable[l0.Drive]
) -> Iterator[tuple[Definition, Params, str]]:
    """Definitions with the values of their parameters, and who uses them."""
    yield from ((p.neuron, p.params, p.name) for p in populations)
    for projection in projections:
        if projection.synapse is not None:
            yield from ((projection.synapse, m.params, projection.name) for m in projection.members)
    yield from ((d.source, d.params, d.population) for d in drives)


def check_divisors(
    populations: Iterable[l0.Population], projections: Iterable[l0.Projection], drives: Iterable[l0.Drive], c: Context
) -> None:
    check = _Check(c)
    for definition, params, user in uses(populations, projections, drives):
        check.values(definition, params, user)


class _Check:
    """`known`: the divisions of each definition, which is kept, by its identity; `told`: places with an error."""

    def __init__(self, c: Context) -> None:
        self.c = c
        self.known: dict[int, tuple[object, tuple[tuple[str, Binary, frozenset[str]], ...]]] = {}
        self.told: set[tuple[Span, Span]] = set()

    def values(self, of: Definition, params: Params, user: str) -> None:
        """Report the divisors of a definition that are 0 with these parameters."""
        if id(of) not in self.known:
            model = of.neuron.model_params if isinstance(of, l0.SourceDef) else of.model_params
            names = {*(n for n, _ in params), *model}
            divisions = ((what, d, frozenset(refs(d.right))) for what, d in _divisions(of))
            self.known[id(of)] = of, tuple(x for x in divisions if x[2] <= names)
        found = self.known[id(of)][1]
        if not found:
            return
        own = dict(params)
        for what, division, read in found:
            numbers = {n: x for n in read if (x := self.number(n, own)) is not None}
            if len(numbers) == len(read) and is_zero(division.right, numbers):
                self.report(what, division, own, user)

    def number(self, name: str, params: Mapping[str, l0.Value]) -> Any | None:
        """The number, or the numbers, that a name stands for; None where they are drawn or read."""
        match params.get(name):
            case l0.Const(value):
                return value
            case l0.Listed(values):
                return np.array(values)
        return self.c.names.numbers.get(name)

    def report(self, what: str, division: Binary, params: Mapping[str, l0.Value], user: str) -> None:
        read, places = sorted(refs(division.right)), self.c.names.scope.places
        given = [params[n].span if n in params else places.get(n, NOWHERE) for n in read]
        at = next((span for span in given if span is not NOWHERE), division.span)
        if (at, division.span) in self.told:
            return
        self.told.add((at, division.span))
        several = any(isinstance(params.get(n), l0.Listed) for n in read)
        literals = {n: Num(v.value) for n, v in params.items() if isinstance(v, l0.Const) and v.span is NOWHERE}
        divisor = simplify(substitute(division.right, literals))
        zero = "0" if isinstance(divisor, Num) else f"`{shorten(divisor)}`, which is 0"
        zero += " for one of them" if several else ""
        related = (Related("which divides here", division.span),) if at is not division.span else ()
        help = "what a condition guards is not computed: `0 if tau == 0 ms else x / tau`"
        self.c.sink.error("E0308", f"{what} of `{user}` has no value: it divides by {zero}", at, help, related)


def _divisions(of: Definition) -> Iterator[Found]:
    match of:
        case l0.NeuronDef():
            return _of_neuron(of)
        case l0.SynapseDef():
            return _of_synapse(of)
        case l0.SourceDef():
            return _of_source(of)


def _of_neuron(neuron: l0.NeuronDef) -> Iterator[Found]:
    states = {*(s.name for s in neuron.state), *(i.name for i in neuron.inputs)}
    yield from _equations(neuron.lets, neuron.dynamics)
    yield from _statements(neuron.lets, neuron.update, states)
    for pool in neuron.pools:
        yield from _statements((), pool.update, {f"{pool.scope}.{s.name}" for s in pool.state})


def _of_synapse(synapse: l0.SynapseDef) -> Iterator[Found]:
    yield from _equations(synapse.lets, synapse.dynamics)
    sets = tuple(a for a in synapse.update if isinstance(a, l0.Set))
    yield from _statements(synapse.lets, sets, {s.name for s in synapse.state})
    for end, block in synapse.ends.items():
        own = (*_equations((), block.dynamics), *_statements((), block.update, {s.name for s in block.state}))
        yield from ((f"{what} under `{end}`", d) for what, d in own)


def _of_source(source: l0.SourceDef) -> Iterator[Found]:
    yield from _of_neuron(source.neuron)
    known = named(source.neuron.lets)
    yield from (("the drive", d) for d in deciding(substitute(source.value, known)))


def _equations(lets: tuple[l0.Set, ...], dynamics: tuple[l0.Ode, ...]) -> Iterator[Found]:
    known = named(lets) if dynamics else {}
    for ode in dynamics:
        yield from ((f"`d{ode.state}/dt`", d) for d in deciding(substitute(ode.rhs, known)))


def _statements(lets: tuple[l0.Set, ...], statements: tuple[l0.Set, ...], states: set[str]) -> Iterator[Found]:
    """Of assignments to `states`; others are locals, which later ones read."""
    known: dict[str, Expr] = named(lets) if statements else {}
    for s in statements:
        value = substitute(s.value, known)
        if s.target in states:
            yield from ((f"`{s.target}`", d) for d in deciding(value))
        else:
            known[s.target] = value
