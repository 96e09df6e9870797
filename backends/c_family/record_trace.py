"""One sample of the members of a trace, as both C-like backends print it.

Assumes: the formals of RecordTrace (compiler/ir/level2/program.py).
Guarantees: lines that run once, and those of member `j`.
Does not: loop over members, or count the sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import formal_names
from backends.c_family.cprint import STEP, Body, Symbol
from backends.kernel_ir.expr import call
from backends.kernel_ir.stmt import Let, Set, Stmt
from backends.kernel_ir.tree import Code
from compiler.expr.ast import refs
from compiler.ir.space import DType


@dataclass(frozen=True)
class Sample:
    """`first`: lines before everything, the number of the `sample` among them; `each`: those of the member of index
    `j`. `used`, `capacity`, `m`: names."""

    first: tuple[Stmt, ...]
    each: tuple[Stmt, ...]
    j: Code
    sample: Code
    m: Code
    used: Code
    capacity: Code


def sample_of(k: Kernel, r: l2.RecordTrace) -> Sample:
    """The value may read several arrays at the member's index `i`."""
    names = formal_names(k)
    scope, i = dict(k.scope), k.namer.own("i")
    scope["i"] = Symbol(i, DType.I64)
    first: list[Stmt] = []
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        first.append(Let("nl_i64", slot, call("nl_slot", STEP, scope["ring_slots"].code)))
        scope["slot"] = Symbol(slot, DType.I64)
    body = Body(k.dialect, scope, k.elements(k.addresses(scope)), k.namer)
    loads = body.load(refs(r.value))
    value = k.dialect.expr(r.value, body.scope, k.formal("buffer").dtype)
    j, sample = k.namer.fresh("j"), k.namer.fresh("sample")
    m, used, capacity = names["m"], names["used"], names["capacity"]
    first.append(Let("nl_i64", sample, used[0]))
    member = Let("nl_i64", i, names["members"][j])
    store = Set(names["buffer"][sample * m + j], value, span=k.template.span)
    return Sample(tuple(first), (member, *loads, store), j, sample, m, used, capacity)
