"""The elements of arrays that the statements at a synapse access.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: statements that would race where synapses run at the same time are rejected by `refuse_races`.
Does not: print loops or statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, offset
from backends.c_family.cprint import Element, PrintError, is_real


def elements(k: Kernel, at: Mapping[str, str], now: Mapping[str, str]) -> dict[str, Element]:
    """The formals of a propagation by name, at the ends that `at` names. `now`: the slot of this step in a ring, by the
    column of its slots."""
    ptr, scope = k.pointers, k.scope
    found: dict[str, Element] = {}
    for f in k.template.formals:
        if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At):
            place = at[f.access.end]
            if f.access.ring is not None:
                late, slots, size = f.access.ring
                steps = f"{ptr[late]}[{at['syn']}]" if late in ptr else scope[late].text
                slot = f"{'nl_earlier' if f.access.past else 'nl_later'}({now[slots]}, {steps}, {scope[slots].text})"
                place = f"{slot} * {scope[size].text} + {place}"
            found[f.name] = Element(f"{ptr[f.name]}[{place}]", f.dtype, f.mode)
        elif isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.Strided):
            place = f"{ptr[f.name]}[{offset(f.access, lambda n: scope[n].text)}]"
            found[f.name] = Element(place, f.dtype, f.mode)
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
