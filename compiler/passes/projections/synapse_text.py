"""synapse_text: the statements of an operation, at level 2 over its symbols.

Assumes: operations of a SynapseCell, after all passes over these.
Guarantees: named expressions are evaluated once, before the first statement of an operation; random calls are numbered
draws at (step, synapse); `t` is the end of the step. Deliveries are additions to one formal per end and input. States
change only where the tests of the operation hold, and where slots may be vacant, at synapses that exist.
Does not: bind names (synapse_rows).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.core.symbols import Way, symbol
from compiler.core.symbols import derived as derived_from
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.ir.level1.synapses import EXISTS, AtNeurons, AtSynapses, SynapseCell
from compiler.passes.model.split_cells import number_draws
from compiler.passes.program.clock import STEP_END
from compiler.passes.synapses.schedule_synapses import used_lets


@dataclass(frozen=True)
class Sending:
    """An input that statements add to: its formal, the end whose neuron has it, its name there."""

    formal: str
    end: str
    variable: str


@dataclass(frozen=True)
class SynapseKernel:
    """Statements of one operation. `derived`: columns that they read and that follow from params; `variant`: numbers
    the texts of one operation, where members of a family differ in more than their formals."""

    what: str
    statements: tuple[l2.Statement, ...]
    sends: tuple[Sending, ...] = ()
    derived: tuple[l1.DerivedScalar | l1.Propagator, ...] = ()
    variant: int = 0

    @cached_property
    def read(self) -> frozenset[str]:
        return frozenset().union(*(refs(s.value) for s in self.statements if isinstance(s, l2.Assign | l2.Add)))

    @cached_property
    def written(self) -> frozenset[str]:
        return frozenset(s.target for s in self.statements if isinstance(s, l2.Assign))

    @cached_property
    def params(self) -> frozenset[str]:
        """The params from which the derived columns are computed."""
        found: set[str] = set()
        for column in self.derived:
            if isinstance(column, l1.DerivedScalar):
                found |= refs(column.value)
            else:
                parts = [e for line in column.matrix for e in line] + list(column.offset)
                found |= set().union({"dt"}, *(refs(e) for e in parts))
        return frozenset(found)


def _at_end(e: Expr, count: list[int], index: str) -> Expr:
    """At the end of the step, with numbered draws."""
    return number_draws(substitute(e, {"t": STEP_END}), count, index, outer_first=False)


def statements_of(sets: Iterable[l0.Set], index: str) -> tuple[l2.Statement, ...]:
    """Assignments at the end of the step."""
    count = [0]
    return tuple(l2.Assign(s.target, _at_end(s.value, count, index), s.span) for s in sets)


def neurons_text(cell: SynapseCell, one: AtNeurons, fixed_point: bool) -> SynapseKernel:
    """The statements of an operation at neurons."""
    if one.sends:
        return text_of(cell, one.what, one.sends, fixed_point, vacant=True)
    statements = statements_of(one.statements, "i" if one.event is None else "syn")
    return SynapseKernel(one.what, statements, (), one.derived)


def synapses_text(cell: SynapseCell, one: AtSynapses, fixed_point: bool) -> SynapseKernel:
    """The statements of an operation at synapses."""
    given = (one.tests, one.integrated, one.derived, one.advance, one.vacant)
    return text_of(cell, one.what, one.actions, fixed_point, *given)


def text_of(
    cell: SynapseCell,
    what: str,
    actions: tuple[l0.Action, ...],
    fixed_point: bool,
    tests: Sequence[Expr] = (),
    before: Sequence[l0.Set] = (),
    derived: tuple[l1.DerivedScalar | l1.Propagator, ...] = (),
    advance: Sequence[l0.Set] = (),
    vacant: bool = False,
) -> SynapseKernel:
    """The statements of one operation (AtSynapses). `before`: those that dynamics have become; `vacant`: they run at
    vacant slots, too."""
    tests = (*tests, *((EXISTS,) if cell.definition.vacancies and not vacant else ()))
    w = _Writer({*cell.states, "updated", "exists"}, bool(tests), fixed_point)
    if tests:
        w.out.append(l2.Assign("due", functools.reduce(lambda a, b: a & b, tests)))
    for s in before:
        w.assign(s, s.value)
    for s in advance:
        w.assign(s)
    again: dict[str, Expr] = {}
    for let in used_lets(cell, actions):
        local = derived_from(let.target, Way.NOW) if before else let.target
        w.assign(l0.Set(local, substitute(let.value, again), let.span))
        again[let.target] = Ref(local)
    for action in actions:
        assert isinstance(action, l0.Set | l0.Send), f"{what}: rewiring and transposing stand by themselves"
        value = substitute(action.value, again)
        if isinstance(action, l0.Set):
            w.assign(l0.Set(action.target, value, action.span))
        else:
            w.send(action.end, action.into or cell.into, value, action.span)
    sends = tuple(Sending(formal, *key) for key, formal in w.formals.items())
    return SynapseKernel(what, tuple(w.out), sends, derived)


@dataclass
class _Writer:
    """Builds the statements. `states`: names that change only where the synapse is `due` (when there are `tests`);
    `formals`: (end, input) -> the formal that deliveries are added to."""

    states: set[str]
    tests: bool
    fixed_point: bool
    out: list[l2.Statement] = field(default_factory=list)
    formals: dict[tuple[str, str], str] = field(default_factory=dict)
    count: list[int] = field(default_factory=lambda: [0])

    def value_of(self, e: Expr) -> Expr:
        return _at_end(e, self.count, "syn")

    def assign(self, s: l0.Set, value: Expr | None = None) -> None:
        value = self.value_of(s.value) if value is None else value
        if self.tests and s.target in self.states:
            value = Cond(Ref("due"), value, Ref(s.target))
        self.out.append(l2.Assign(s.target, value, s.span))

    def send(self, end: str, into: str, value: Expr, span: Span) -> None:
        if (end, into) not in self.formals:
            self.formals[end, into] = derived_from(symbol(f"{end}.{into}"), Way.SENT)
        formal = self.formals[end, into]
        value = self.value_of(value)
        if self.fixed_point:
            value = Call("int", (Call("round", (value * Ref(derived_from(formal, Way.COUNTS)),)),))
        if self.tests:
            value = Cond(Ref("due"), value, Num(0) if self.fixed_point else Num(0.0))
        self.out.append(l2.Add(formal, value, span))
