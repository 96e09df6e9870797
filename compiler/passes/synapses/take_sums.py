"""take_sums: sums over synapses in statements, `sum_post(w)`, `sum_instances(dw)`, become Sums before an operation.

Assumes: schedule_synapses has run; terms of sums are not random.
Guarantees: an operation at all synapses is cut before each statement that reads sums, rewires or copies a state, and at
the boundaries of those of states that instances share: a sum sees the values of all synapses after the statements
before it, and the statement reads a symbol in its place. The first of the operations has no sums.
Does not: compute sums (passes/projections/synapse_sums.py, passes/projections/kernel_sums.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import compiler.ir.level0.model as l0
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Expr, Num, Ref, rewrite
from compiler.ir.level1.synapses import AtSynapses, Operation, SynapseCell, SynapseSum
from compiler.ir.level2.synapse_sums import INSTANCES, SUMS, has_sums


@dataclass(frozen=True)
class _Segment:
    """Statements that run together at each synapse, after all else (AtSynapses)."""

    sums: tuple[SynapseSum, ...] = ()
    actions: tuple[l0.Action, ...] = ()
    rewire: l0.Rewire | None = None
    once: bool = False
    transpose: l0.Transpose | None = None


def take_sums(cell: SynapseCell) -> SynapseCell:
    """The cell with its operations cut."""
    operations = tuple(x for one in cell.operations for x in _cut(cell, one))
    return replace(cell, operations=operations) if operations != cell.operations else cell


def _cut(cell: SynapseCell, one: Operation) -> tuple[Operation, ...]:
    if not isinstance(one, AtSynapses) or one.event is not None:
        return (one,)
    out: list[Operation] = []
    for number, x in enumerate(_segments(one.actions, cell.definition.shared or ())):
        whole = one if number == 0 else AtSynapses(one.stage, f"{one.what} ({number + 1})", due=one.due)
        if x.sums or x.actions or x.rewire or x.transpose or whole.integrated:
            whole = replace(whole, sums=x.sums, actions=x.actions, rewire=x.rewire)
            out.append(replace(whole, transpose=x.transpose, once=x.once))
    return tuple(out)


def _segments(actions: Sequence[l0.Action], shared: Sequence[str]) -> list[_Segment]:
    """The statements of one operation in parts; the first has no sums."""
    kinds: dict[str, int] = {}
    out = [_Segment()]
    for action in actions:
        once = isinstance(action, l0.Set | l0.Transpose) and action.target in shared
        if isinstance(action, l0.Transpose):
            out.append(_Segment(once=once, transpose=action))
            continue
        if isinstance(action, l0.Rewire) or has_sums(action.value) or once != out[-1].once:
            found: list[SynapseSum] = []
            value = _taken_out(action.value, found, kinds)
            if isinstance(action, l0.Rewire):
                out.append(_Segment(tuple(found), rewire=replace(action, value=value)))
            else:
                out.append(_Segment(tuple(found), (replace(action, value=value),), None, once))
        else:
            out[-1] = replace(out[-1], actions=(*out[-1].actions, action))
    return out


def _taken_out(e: Expr, found: list[SynapseSum], kinds: dict[str, int]) -> Expr:
    """`e` with its sums replaced by names, inner ones first. `kinds`: how many there are of each kind."""

    def one(op: str, end: str, value: Expr) -> Ref:
        same = [x.name for x in found if (x.op, x.end, x.value) == (op, end, value)]
        if not same:
            kind = f"{end}_{op}"
            kinds[kind] = kinds.get(kind, 0) + 1
            name = derived(kind, Way.SUM, str(kinds[kind]) if kinds[kind] > 1 else "")
            found.append(SynapseSum(name, op, end, value))
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
