"""over_lanes: statements of a point, which are built for one lane, as a loop over the lanes.

Assumes: straight statements, whose constants are loads of arrays that the kernel only reads.
Guarantees: what is the same for all lanes is loaded before the loop. Where `fill` is given, so is chosen where guarded
neighbours are whose guard is the same for all lanes: in their array, or in as many fill values; the loop has no branch.
Does not: choose accumulators (nest.py), or what kind of loop it is (lanes.py).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from backends.c_family.access import Kernel
from backends.c_family.cprint import literal
from backends.kernel_ir.expr import braces, code, cond, total
from backends.kernel_ir.stmt import Let, Stmt
from backends.kernel_ir.tree import Binary, Code, Place, Select


def over_lanes(
    k: Kernel, statements: Sequence[Stmt], lane: Code, lanes: int, varying: Set[str], fill: float | None = None
) -> tuple[list[Stmt], list[Stmt]]:
    """What comes before the loop over so many lanes, and its body. `varying`: names that differ from lane to lane."""
    before, pointers, inner, names = list[Stmt](), list[Stmt](), list[Stmt](), {lane.text, *varying}
    filled = dict[str, Code]()
    for s in statements:
        if isinstance(s, Let) and s.const and names.isdisjoint(code(s.value or 0).names):
            before.append(s)
            continue
        match s:
            case Let(value=Select(test, Place(array, Binary("+", base, last), formal)), const=True) if (
                fill is not None and last == lane and names.isdisjoint(test.names | base.names)
            ):
                dtype = k.formal(formal).dtype
                kind, at = k.dialect.type_name(dtype), k.namer.beside(formal, "lanes")
                if kind not in filled:
                    filled[kind] = k.namer.fresh("fill")
                    values = braces(*[literal(fill, dtype)] * (lanes if fill != 0 else 1))
                    pointers.append(Let(f"static const {kind}", filled[kind][lanes], values, const=False))
                pointers.append(Let(f"const {kind} *const", at, cond(test, total([array, base]), filled[kind]), False))
                s = replace(s, value=at[lane])
        names |= s.held.names if isinstance(s, Let) else set()
        inner.append(s)
    return [*before, *pointers], inner
