"""Which division by 0, or count of impossible arguments, may be why a value is not finite, in words.

Assumes: the instance is as it was when the value was found.
Guarantees: every division and every draw of a count in the equations and statements of neurons and synapses whose
divisor or arguments follow from parameters, states and inputs of one owner is looked at; those of the value's own owner
come first.
Does not: know what a condition guards, or values of earlier steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.expr.ast import Expr, refs, shorten, substitute
from compiler.expr.functions import COUNTS, FUNCTIONS
from compiler.expr.inline import named
from compiler.ir.level0.divisors import divisions_of, draws_of, is_outside, is_zero
from compiler.ir.level2.synapse_values import own_name, variable_array
from compiler.ir.space import array_name
from compiler.runtime.common.arrays import read_logical

Owner = tuple[str, l0.NeuronDef | l0.SynapseDef, Mapping[str, l0.Value], Mapping[str, str]]
"""Name, definition, values of its parameters, and the arrays of its names."""


def why_not_finite(model: l0.Model, program: l2.Merged, instance: Instance, array: str) -> str | None:
    """The first division by 0, or count that cannot be drawn; None without one."""
    numbers: dict[str, Any] = {p.name: p.value for p in model.params}
    arrays = {a.name: a for a in program.arrays}
    owners = sorted(owners_of(model), key=lambda o: not array.startswith(f"{o[0]}."))
    for name, definition, params, places in owners:
        known = named(definition.lets)
        own: dict[str, Any] = {n: v.value for n, v in params.items() if isinstance(v, l0.Const)}
        own |= {n: np.array(v.values) for n, v in params.items() if isinstance(v, l0.Listed)}
        held = {n: arrays[a] for n, a in places.items() if a in arrays}
        values = partial(_values, {**numbers, **own}, held, instance)
        for division in divisions_of(definition):
            divisor = substitute(division.right, known)
            if is_zero(divisor, values(divisor)):
                return f"{_placed(division)} divides by `{shorten(divisor)}`, which is 0 in `{name}`"
        for count in draws_of(definition, COUNTS):
            function = FUNCTIONS[count.func]
            for arg, parameter, domain in zip(count.args, function.parameters, function.domains, strict=True):
                given = substitute(arg, known)
                if is_outside(given, domain, values(given)):
                    wrong = f"`{shorten(arg)}` is not in `{name}`"
                    return f"{_placed(count)}: `{parameter}` has to be {domain.doc}, which {wrong}"
    return None


def _values(numbers: Mapping[str, Any], held: Mapping[str, l2.Array], instance: Instance, e: Expr) -> dict[str, Any]:
    return {**numbers, **{n: read_logical(instance, held[n]) for n in refs(e) if n in held}}


def _placed(e: Expr) -> str:
    where = f" in line {e.span.line} of {e.span.file.path}" if e.span.file.path else ""
    return f"`{shorten(e)}`{where}"


def owners_of(model: l0.Model) -> Iterator[Owner]:
    """Populations, and members of projections with a synapse."""
    for p in model.populations:
        params = dict(p.params)
        names = (*p.neuron.units, *params)
        yield p.name, p.neuron, params, {n: array_name(p.name, n) for n in names}
    for projection in model.projections:
        s = projection.synapse
        for m in projection.members if s is not None else ():
            assert s is not None
            held = [f"{e}.{x.name}" for e, b in s.ends.items() for x in b.state]
            names = (*(x.name for x in s.state), *(n for n, _ in m.params), *held)
            yield own_name(projection, m), s, dict(m.params), {n: variable_array(projection, m, n) for n in names}
