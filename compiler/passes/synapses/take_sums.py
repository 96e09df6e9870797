"""take_sums: sums over synapses in statements, `sum_post(w)`, `sum_instances(dw)`, rewiring and `transpose` become
operations of their own.

Assumes: schedule_synapses has run; terms of sums are not random.
Guarantees: an operation at all synapses is cut before each statement that reads sums, rewires or copies a state, and at
the boundaries of those of states that instances share: a sum sees the values of all synapses after the statements
before it, and the statement reads a symbol in its place. Rewiring marks synapses (`gone`) before new ones are made.
Does not: compute sums (passes/projections/synapse_sums.py, passes/projections/kernel_sums.py), or make synapses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.synapses as s1
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, rewrite
from compiler.ir.level2.synapse_values import INSTANCES, SUMS, has_sums


@dataclass(frozen=True)
class _Segment:
    """Statements that run together at each synapse, after sums, and after what stands alone."""

    sums: tuple[s1.SynapseSum, ...] = ()
    alone: l0.Rewire | l0.Transpose | None = None
    actions: tuple[l0.Set | l0.Send, ...] = ()
    once: bool = False


def take_sums(cell: s1.SynapseCell) -> s1.SynapseCell:
    """The cell with its operations cut."""
    operations = tuple(x for one in cell.operations for x in _cut(cell, one))
    return replace(cell, operations=operations) if operations != cell.operations else cell


def _cut(cell: s1.SynapseCell, one: s1.Operation) -> Iterator[s1.Operation]:
    if not isinstance(one, s1.AtSynapses) or one.event is not None:
        yield one
        return
    stage, due = one.stage, one.due
    for number, x in enumerate(_segments(one.actions, cell.definition.shared or ())):
        what = f"{one.what} ({number + 1})" if number else one.what
        yield from (replace(found, stage=stage, what=what, due=due) for found in x.sums)
        if isinstance(x.alone, l0.Transpose):
            yield s1.Transposed(stage, what, x.alone, x.once, due)
        elif x.alone is not None:
            yield from _rewired(cell, stage, what, x.alone, due)
        whole = s1.AtSynapses(stage, what, due=due) if number else one
        if x.actions or whole.integrated:
            yield replace(whole, actions=x.actions, once=x.once)


def _rewired(cell: s1.SynapseCell, stage: str, what: str, one: l0.Rewire, due: s1.Due | None) -> Iterator[s1.Operation]:
    """The synapses that are replaced are marked, then the new ones are made; what is removed leaves a vacant slot."""
    if one.how == "remove":
        left = l0.Set("exists", Cond(one.value, Num(0), Ref("exists")))
        yield s1.AtSynapses(stage, f"{what}: removed", (left,), apart=True, due=due)
        return
    gone = Cond(one.value, Num(s1.REPLACED), Num(0))
    if one.how == "form":
        gone = Cond(s1.EXISTS, Num(0), Cond(one.value, Num(s1.FORMED), Num(s1.VACANT)))
    elif cell.definition.vacancies:
        gone = Cond(s1.EXISTS, gone, Num(s1.VACANT))
    yield s1.AtSynapses(stage, f"{what}: gone", (l0.Set(s1.GONE, gone),), apart=True, vacant=True, due=due)
    yield s1.NewSynapses(stage, what, due=due)


def _segments(actions: Sequence[l0.Action], shared: Sequence[str]) -> list[_Segment]:
    """The statements of one operation in parts; the first has no sums."""
    kinds: dict[str, int] = {}
    out = [_Segment()]
    for action in actions:
        once = isinstance(action, l0.Set | l0.Transpose) and action.target in shared
        if isinstance(action, l0.Transpose):
            out.append(_Segment(alone=action, once=once))
            continue
        found: list[s1.SynapseSum] = []
        taken = replace(action, value=_taken_out(action.value, found, kinds))
        if isinstance(taken, l0.Rewire):
            out.append(_Segment(tuple(found), alone=taken))
        elif found or once != out[-1].once:
            out.append(_Segment(tuple(found), actions=(taken,), once=once))
        else:
            out[-1] = replace(out[-1], actions=(*out[-1].actions, taken))
    return out


def _taken_out(e: Expr, found: list[s1.SynapseSum], kinds: dict[str, int]) -> Expr:
    """`e` with its sums replaced by names, inner ones first. `kinds`: how many there are of each kind."""
    if not has_sums(e):
        return e

    def one(op: str, end: str, value: Expr) -> Ref:
        same = [x.name for x in found if (x.op, x.end, x.value) == (op, end, value)]
        if not same:
            kind = f"{end}_{op}"
            kinds[kind] = kinds.get(kind, 0) + 1
            name = derived(kind, Way.SUM, str(kinds[kind]) if kinds[kind] > 1 else "")
            found.append(s1.SynapseSum("", "", name, op, end, value))
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
