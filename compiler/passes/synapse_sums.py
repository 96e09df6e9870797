"""synapse_sums: sums over the synapses of a neuron, `sum_post(w)`, become arrays of that neuron's population.

Assumes: a Flat synapse; sums stand in values of statements, what they sum is not random.
Guarantees: a sum has the values that all synapses have after the statements before it. It is a row that writes where
the sum starts and one that gathers, synapse after synapse in the order of the relation on every backend, so that it has
the same bits on all of them under `bitwise`, and on each run under `reproducible`.
Does not: run the statements (lower_synapses).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.expr.ast import Binary, Call, Expr, Num, Ref, children, with_children
from compiler.ir.model import Action, Rewire, Set
from compiler.ir.program import (
    ELEMENT,
    Array,
    ArrayFormal,
    Assign,
    Dim,
    Kind,
    Mode,
    Nest,
    ScalarFormal,
)
from compiler.ir.space import DType, Role
from compiler.ir.synapse_sums import SUMS, has_sums
from compiler.passes.free_names import free_name
from compiler.passes.relations import relation_of
from compiler.passes.stages import Due
from compiler.passes.synapse_names import TAKEN, Flat
from compiler.passes.synapse_rows import Held, Synapses, at_synapses
from compiler.passes.synapse_text import Text, statements_of, used_lets

STARTS: Final = {"sum": 0.0, "max": -math.inf, "min": math.inf}


@dataclass(frozen=True)
class Sum:
    """`name`: its flat name; `op`: "sum" | "max" | "min" of `value` over the synapses of each neuron of `end`. The
    value may read sums before it."""

    name: str
    op: str
    end: str
    value: Expr


@dataclass(frozen=True)
class Segment:
    """Statements that run together at each synapse, after `sums` have been computed in order, and synapses have been
    rewired where `when` holds."""

    sums: tuple[Sum, ...]
    actions: tuple[Action, ...]
    when: Expr | None = None


def segments(flat: Flat, actions: Sequence[Action]) -> list[Segment]:
    """The statements of one occasion, cut before each one that reads sums or rewires; the first part does neither."""
    d = flat.definition
    taken = {*TAKEN, *flat.shown, *flat.externals, *flat.states, *(x.target for x in d.lets)}
    taken |= {a.target for a in actions if isinstance(a, Set)} | {f"{x.target}_now" for x in d.lets}
    out = [Segment((), ())]
    for action in actions:
        if isinstance(action, Rewire) or has_sums(action.value):
            found: list[Sum] = []
            value = _taken_out(action.value, found, taken)
            if isinstance(action, Rewire):
                out.append(Segment(tuple(found), (), value))
            else:
                out.append(Segment(tuple(found), (replace(action, value=value),)))
        else:
            out[-1] = replace(out[-1], actions=(*out[-1].actions, action))
    return out


def _taken_out(e: Expr, found: list[Sum], taken: set[str]) -> Expr:
    """`e` with names in place of its sums, inner ones first."""
    kids = tuple(_taken_out(k, found, taken) for k in children(e))
    if not isinstance(e, Call) or e.func not in SUMS:
        return with_children(e, kids) if kids else e
    op, end = SUMS[e.func]

    def one(op: str, value: Expr) -> Ref:
        same = [x.name for x in found if (x.op, x.end, x.value) == (op, end, value)]
        if not same:
            name = free_name(f"{end}_{op}", frozenset(taken))
            taken.add(name)
            found.append(Sum(name, op, end, value))
            same = [name]
        return Ref(same[0])

    if op == "mean":
        return Binary("/", one("sum", kids[0]), one("sum", Num(1.0)))
    return one(op, kids[0])


def gather(s: Synapses, stage: str, what: str, one: Sum, part: int, due: Due) -> int:
    """Makes the array of a sum and the rows that compute it, after `part` of the stage; returns the part in which it
    can be read."""
    real, size, span = s.builder.precision, s.instance(one.end).size, s.flat.definition.span
    array = f"{s.name}.{what}.{one.name}"
    s.builder.array(Array(array, real, (size,), Role.WORK, span=span))
    formals = (ArrayFormal("out", real, Mode.WRITE, ELEMENT), ScalarFormal("n", DType.I64), ScalarFormal("start", real))
    key = ("synapses", s.number, what, one.name, "start")
    row = s.builder.row(
        key,
        f"{s.name}: start of {one.name} ({s.flat.definition.name})",
        Kind.MAP,
        formals,
        Nest((Dim("i", "n"),), (Assign("out", Ref("start")),)),
        {"out": array},
        {"n": size, "start": STARTS[one.op]},
        array,
        span,
    )
    s.stages.add(stage, key, row, due=due, part=part + 1)
    s.arrays[one.name] = Held(array, real, one.end)
    cached = ("sum", s.number, what, one.name)
    if cached not in s.cache:
        s.cache[cached] = _text(s.flat, what, one)
    found = relation_of(s.builder, s.projection, s.member, s.name, s.pre, s.post, one.end)
    at_synapses(s, stage, s.cache[cached], found, one.end, None, due=due, part=part + 2, gather=True)
    return part + 3


def _text(flat: Flat, what: str, one: Sum) -> Text:
    held = Ref(one.name)
    step = Set(one.name, one.value)
    lets = used_lets(flat, [step])
    if one.op == "sum":
        value: Expr = Binary("+", held, one.value)
    else:
        value = Call(one.op, (held, Call("float", (one.value,))))
    return Text(f"{what}: {one.name}", statements_of([*lets, Set(one.name, value)], "syn"))
