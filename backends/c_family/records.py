"""What a record takes of a step: one sample of the members of a trace, or the events of a list.

Assumes: the formals of RecordTrace and RecordEvents (compiler/ir/level2/program.py).
Guarantees: statements that run once, and those of entry `j`.
Does not: loop over entries, or say what happens where there is no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Body, Symbol
from backends.kernel_ir.expr import binary, call, cast
from backends.kernel_ir.stmt import For, Let, Set, Stmt
from backends.kernel_ir.tree import Code
from compiler.expr.ast import refs
from compiler.ir.space import DType


@dataclass(frozen=True)
class Record:
    """`first`: what comes before everything; `loop`: that over the entries; `counted`: what counts them. `full`:
    whether they have no room; `soon`: whether there may be none for those of two more steps."""

    first: Sequence[Stmt]
    loop: For
    counted: Set
    full: Code
    soon: Code


def record_of(k: Kernel, r: l2.RecordTrace | l2.RecordEvents) -> Record:
    """The value of a trace may read several arrays at the member's index `i`."""
    names = k.identifiers
    used, capacity, buffer = names["used"], names["capacity"], names["buffer"]
    if isinstance(r, l2.RecordEvents):
        slot, number, at, fired, e = (k.namer.fresh(x) for x in ("slot", "number", "at", "fired", "e"))
        first: list[Stmt] = [
            Let("nl_i64", slot, call("nl_slot", STEP, names["slots"])),
            Let("nl_i64", number, names["count"][slot], beside=[Let("nl_i64", at, used[0])]),
            Let(f"{k.dialect.space}const nl_i32 *const", fired, names["list"] + slot * names["n"], const=False),
        ]
        place = binary(2, "*", at + e)
        each = [Set(buffer[place], cast("nl_i32", STEP)), Set(buffer[place + 1], fired[e])]
        soon = capacity - at - number < 2 * names["n"]
        return Record(first, For(e, 0, number, each), Set(used[0], at + number), at + number > capacity, soon)
    scope, i, first = dict(k.scope), k.namer.own("i"), []
    scope["i"] = Symbol(i, DType.I64)
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        first.append(Let("nl_i64", slot, call("nl_slot", STEP, scope["ring_slots"].code)))
        scope["slot"] = Symbol(slot, DType.I64)
    body = Body(k.dialect, scope, k.elements(k.addresses(scope)), k.namer)
    loads = body.load(refs(r.value))
    value = k.dialect.expr(r.value, body.scope, k.formal("buffer").dtype)
    j, sample, m = k.namer.fresh("j"), k.namer.fresh("sample"), names["m"]
    first.append(Let("nl_i64", sample, used[0]))
    member = Let("nl_i64", i, names["members"][j])
    store = Set(buffer[sample * m + j], value, span=k.template.span)
    loop, counted = For(j, 0, m, [member, *loads, store]), Set(used[0], sample + 1)
    return Record(first, loop, counted, sample >= capacity, sample + 2 >= capacity)
