"""The elements of arrays that the statements at a synapse access.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: statements that would race where synapses run at the same time are rejected by `refuse_races`.
Does not: print loops or statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Element, PrintError, Symbol, is_real
from backends.kernel_ir.expr import Operand, call
from backends.kernel_ir.stmt import Leave, Let, Stmt, when
from backends.kernel_ir.tree import Code


def find_events(
    k: Kernel, e: l2.Events, number: Code, kind: str, leave: str, none: Operand
) -> tuple[Code, tuple[Stmt, Stmt, Stmt, Stmt]]:
    """The slot of the events that are due, and what finds their `number`, of type `kind`; where there are none, a
    thread leaves."""
    slot, late = k.namer.fresh("slot"), k.scope[e.delay].code
    return slot, (
        when(STEP <= late, Leave(leave, note="nothing had been emitted so long ago")),
        Let("nl_i64", slot, call("nl_slot", STEP - late, k.scope[e.slots].code)),
        Let(kind, number, k.pointers[e.count][slot]),
        when(none, Leave(leave)),
    )


def rings(k: Kernel) -> list[str]:
    """The columns with the slots of the rings that a propagation reads or writes."""
    accesses = (f.access for f in k.template.arrays)
    return list(dict.fromkeys(a.ring[1] for a in accesses if isinstance(a, l2.At) and a.ring is not None))


def elements(
    k: Kernel,
    at: Mapping[str, Code],
    now: Mapping[str, Code],
    scope: Mapping[str, Symbol],
    in_slot: Callable[[Code, Code, Code], Code] = lambda slot, size, place: slot * size + place,
) -> dict[str, Element]:
    """The formals of a propagation by name, at the ends that `at` names. `now`: the slot of this step in a ring, by the
    column of its slots; `in_slot`: where a place in a slot is, of so many places."""
    found: dict[str, Element] = {}
    for f in k.template.arrays:
        if isinstance(f.access, l2.Strided):
            place = k.addresses(scope).offset(f.access)
        elif isinstance(f.access, l2.At):
            place = at[f.access.end]
            if f.access.ring is not None:
                late, slots, size = f.access.ring
                steps = scope[late].code if late in scope else k.pointers[late][at["syn"]]
                ring = "nl_earlier" if f.access.past else "nl_later"
                place = in_slot(call(ring, now[slots], steps, scope[slots].code), scope[size].code, place)
        else:
            continue
        found[f.name] = Element(k.pointers[f.name][place], f.dtype, f.mode)
    return found


def read_once_per_event(f: l2.ArrayFormal, by: str, arrays: AbstractSet[str]) -> bool:
    """Whether all synapses of an event read the same element: that of its neuron, also of a past step, or the only
    one."""
    if f.access == l2.SCALAR:
        return f.mode is l2.Mode.READ
    if not isinstance(f.access, l2.At) or f.access.end != by or f.mode is not l2.Mode.READ:
        return False
    return f.access.ring is None or f.access.ring[0] not in arrays


def refuse_races(k: Kernel, p: l2.Propagate) -> None:
    """Synapses run concurrently: they may only add to shared elements."""
    real_order = k.template.order is not l2.Order.FAST
    # elements of a convolution's kernel are shared by synapses, in stored rows too
    shared = isinstance(p.relation, l2.Toeplitz) or (isinstance(p.relation, l2.Csr) and p.relation.shared)
    for s in p.statements:
        if not isinstance(s, l2.Assign | l2.Add) or s.target not in k.pointers:
            continue
        f = k.formal(s.target)
        own = isinstance(f.access, l2.At) and f.access.end == "syn" and not shared
        own = own or (p.gather and isinstance(f.access, l2.At) and f.access.end == p.by)
        if not own and f.mode is not l2.Mode.ACCUMULATE:
            raise PrintError(f"`{s.target}` is shared by synapses that run at the same time", s.span)
        if f.mode is l2.Mode.ACCUMULATE and is_real(f.dtype) and real_order:
            raise PrintError(f"sums into `{s.target}` from many threads have no fixed order here", s.span)
