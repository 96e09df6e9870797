"""W0009 where a time constant or a capacitance is negative.

Assumes: populations, projections and drives with the values of all their parameters.
Guarantees: what equations and statements divide by is looked at, once per definition and value; numbers, lists, and
distributions around a negative mean.
Does not: refuse: equations that grow may be meant. What is drawn is looked at when it is known (runtime/signs.py); 0
has an error of its own (zero_divisors.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary
from compiler.expr.units import canonical_name
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.shared.zero_divisors import Params, uses
from compiler.ir.level0.divisors import Definition
from compiler.ir.level0.scales import scales


def check_positive(
    populations: Iterable[l0.Population], projections: Iterable[l0.Projection], drives: Iterable[l0.Drive], c: Context
) -> None:
    check = _Check(c)
    for definition, params, user in uses(populations, projections, drives):
        check.values(definition, params, user)


class _Check:
    """`known`: the scales of each definition, which is kept, by its identity; `told`: places with a warning."""

    def __init__(self, c: Context) -> None:
        self.c = c
        self.known: dict[int, tuple[object, dict[str, Binary]]] = {}
        self.told: set[Span] = set()

    def values(self, of: Definition, params: Params, user: str) -> None:
        """Warn of the negative ones among the values of a definition's parameters."""
        if id(of) not in self.known:
            self.known[id(of)] = of, scales(of, self.c.names.scope.dimensions)
        found = self.known[id(of)][1]
        if not found:
            return
        own: Mapping[str, l0.Value] = dict(params)
        units = {p.name: p.unit for p in (of.neuron if isinstance(of, l0.SourceDef) else of).params}
        units = {n: canonical_name(d) for n, d in self.c.names.scope.dimensions.items() if d is not None} | units
        for name, division in found.items():
            value = own.get(name)
            if value is None and name in self.c.names.numbers:
                value = l0.Const(self.c.names.numbers[name], self.c.names.scope.places.get(name, NOWHERE))
            lowest = None if value is None else _typical(value)
            if value is not None and lowest is not None and lowest < 0:
                self.report(name, lowest, units[name], value.span, division, user)

    def report(self, name: str, value: float, unit: str, at: Span, division: Binary, user: str) -> None:
        at = division.span if at is NOWHERE else at
        if at in self.told:
            return
        self.told.add(at)
        message = f"`{name}` of `{user}` is negative ({value:g} {unit}), and equations divide by it"
        help = "what would decay with it grows without bounds; time constants and capacitances are positive"
        related = (Related("which divides here", division.span),) if at is not division.span else ()
        self.c.sink.warning("W0009", message, at, help, related)


def _typical(value: l0.Value) -> float | None:
    """A number, the lowest of a list, the mean of a distribution or the lower end of its range; None: not known."""
    match value:
        case l0.Const(number):
            return float(number)
        case l0.Listed(values):
            return min(values, default=None)
        case l0.Distribution():
            args = dict(value.args)
            return args.get("low", args.get("mean") if value.kind == "normal" else None)
    return None
