"""synapse_sums: sums over the synapses of a neuron, `sum_post(w)`, become arrays of that neuron's population, and sums
over instances of the network, `sum_instances(dw)`, arrays of the synapses that they share.

Assumes: a Flat synapse; sums occur in values of statements, their terms are not random.
Guarantees: a sum sees the values of all synapses after the statements before it. It is a row that writes the initial
value and one that gathers, synapse by synapse in the order of the relation on every backend, so that it has the same
bits on all of them under `bitwise`, and on each run under `reproducible`. Over instances there is a row per instance
that adds to each synapse's sum, in sequence. Over a kernel: kernel_sums.py.
Does not: run the statements (lower_synapses).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, printed
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, rewrite
from compiler.ir.level2.synapse_sums import INSTANCES, KERNEL, SUMS, has_sums
from compiler.passes.model.synapse_symbols import Flat
from compiler.passes.projections.kernel_sums import over_kernel
from compiler.passes.projections.synapse_rows import BoundArray, Synapses, at_synapses, start_row, work_array
from compiler.passes.projections.synapse_schedule import Due
from compiler.passes.projections.synapse_text import EXISTS, SynapseKernel, statements_of, used_lets

STARTS: Final = {"sum": 0.0, "max": -math.inf, "min": math.inf}


@dataclass(frozen=True)
class Sum:
    """`name`: its symbol; `op`: "sum" | "max" | "min" of `value` over the synapses of each neuron of `end`, over the
    instances of each synapse, or over those with one element of a kernel ("first": that of the first of them). The
    value may read sums before it."""

    name: str
    op: str
    end: str
    value: Expr


@dataclass(frozen=True)
class Segment:
    """Statements that run together at each synapse, after `sums` have been computed in order, and synapses have been
    rewired, or one of their states has been copied from another projection. `shared`: they assign to states that
    instances of the network share."""

    sums: tuple[Sum, ...]
    actions: tuple[l0.Action, ...]
    rewire: l0.Rewire | None = None
    shared: bool = False
    transpose: l0.Transpose | None = None


def segments(flat: Flat, actions: Sequence[l0.Action]) -> list[Segment]:
    """The statements of one occasion, cut before each one that reads sums or rewires, and at the boundaries of those of
    shared states; the first part has none of these."""
    d = flat.definition
    kinds: dict[str, int] = {}
    out = [Segment((), ())]
    for action in actions:
        shared = isinstance(action, l0.Set | l0.Transpose) and action.target in (d.shared or ())
        if isinstance(action, l0.Transpose):
            out.append(Segment((), (), None, shared, action))
            continue
        if isinstance(action, l0.Rewire) or has_sums(action.value) or shared != out[-1].shared:
            found: list[Sum] = []
            value = _taken_out(action.value, found, kinds)
            if isinstance(action, l0.Rewire):
                out.append(Segment(tuple(found), (), replace(action, value=value)))
            else:
                out.append(Segment(tuple(found), (replace(action, value=value),), None, shared))
        else:
            out[-1] = replace(out[-1], actions=(*out[-1].actions, action))
    return out


def _taken_out(e: Expr, found: list[Sum], kinds: dict[str, int]) -> Expr:
    """`e` with its sums replaced by names, inner ones first. `kinds`: how many there are of each kind."""

    def one(op: str, end: str, value: Expr) -> Ref:
        same = [x.name for x in found if (x.op, x.end, x.value) == (op, end, value)]
        if not same:
            kind = f"{end}_{op}"
            kinds[kind] = kinds.get(kind, 0) + 1
            name = derived(kind, Way.SUM, str(kinds[kind]) if kinds[kind] > 1 else "")
            found.append(Sum(name, op, end, value))
            same = [name]
        return Ref(same[0])

    def name_of(x: Expr) -> Expr:
        if not isinstance(x, Call) or x.func not in SUMS:
            return x
        op, end = SUMS[x.func]
        if op == "mean":
            return one("sum", end, x.args[0]) / (Ref("copies") if end == INSTANCES else one("sum", end, Num(1.0)))
        return one(op, end, x.args[0])

    return rewrite(e, name_of)


def gather(s: Synapses, stage: str, what: str, one: Sum, part: int, due: Due) -> int:
    """Makes the array of a sum and the rows that compute it, after `part` of the stage; returns the part in which it
    can be read."""
    cached = ("sum", s.number, what, one.name)
    if cached not in s.cache:
        s.cache[cached] = _text(s.flat, what, one)
    text = s.cache[cached]
    if one.end == KERNEL:
        return over_kernel(s, stage, what, one.name, one.op, text, STARTS.get(one.op, 0.0), part, due)
    if one.end == INSTANCES:
        found = s.found()
        s.arrays[one.name] = _started(s, stage, what, one, found.extent, "syn", part + 1, due)
        at_synapses(s, stage, text, found, "pre", None, due=due, part=part + 2 + s.copy, join=False)
        return part + 2 + s.copies
    s.arrays[one.name] = _started(s, stage, what, one, s.instance(one.end).size, one.end, part + 1, due)
    at_synapses(s, stage, text, s.found(one.end), one.end, None, due=due, part=part + 2, gather=True)
    return part + 3


def _started(
    s: Synapses, stage: str, what: str, one: Sum, size: int | l2.SizeOf, end: str, part: int, due: Due
) -> BoundArray:
    """The array of a sum, and the row that initialises it: once for all instances that share it."""
    array = f"{s.stored if end == 'syn' else s.name}.{what}.{printed(one.name)}"
    held = BoundArray(array, s.builder.precision, end)
    if end == "syn" and s.copy > 0:
        return held
    work_array(s, array, size)
    start_row(s, stage, what, one.name, array, size, STARTS[one.op], part, due)
    return held


def _text(flat: Flat, what: str, one: Sum) -> SynapseKernel:
    held = Ref(one.name)
    step = l0.Set(one.name, one.value)
    lets = used_lets(flat, [step])
    if one.end == KERNEL:
        value: Expr = Call("float", (one.value,))
    elif one.op == "sum":
        value = held + one.value
    else:
        value = Call(one.op, (held, Call("float", (one.value,))))
    if flat.definition.vacancies:
        value = Cond(EXISTS, value, held)
    return SynapseKernel(f"{what}: {printed(one.name)}", statements_of([*lets, l0.Set(one.name, value)], "syn"))
