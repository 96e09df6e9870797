"""Parameters of a definition by which its expressions divide and that are times or capacitances: what decays with
them grows where they are negative.

Assumes: a checked definition.
Guarantees: parameters of the definition and of the model that are factors of a divisor, with the first such division.
Does not: know values, or parameters whose sign an expression turns (`x / -tau`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Binary, Expr, Ref
from compiler.expr.units import parse_unit
from compiler.ir.level0.divisors import Definition, divisions_of

UNITS: Final = ("ms", "pF", "uF/cm**2")
"""Time constants and capacitances."""


def scales(definition: Definition, model: Mapping[str, object]) -> dict[str, Binary]:
    """The parameters, each with a division by it. `model`: dimensions of the parameters of the model."""
    own = definition.neuron if isinstance(definition, l0.SourceDef) else definition
    declared = {p.name: dimension_of(p.unit) for p in own.params}
    wanted = {n for n, dimension in {**model, **declared}.items() if dimension in DIMENSIONS}
    found: dict[str, Binary] = {}
    for division in divisions_of(definition):
        for name in _factors(division.right) if division.op == "/" else ():
            if name in wanted:
                found.setdefault(name, division)
    return found


def dimension_of(unit: str) -> object:
    parsed = parse_unit(unit)
    return None if parsed is None else parsed[0]


DIMENSIONS: Final = tuple(dimension_of(u) for u in UNITS)


def _factors(e: Expr) -> Iterator[str]:
    match e:
        case Ref(name):
            yield name
        case Binary("*", a, b):
            yield from _factors(a)
            yield from _factors(b)
        case Binary("/", a, _):
            yield from _factors(a)
