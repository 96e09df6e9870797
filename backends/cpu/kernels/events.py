"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.connect_template_args import formal_names, given, lines_of, names_again
from backends.c_family.cprint import Body, Element, Line, Symbol, indent
from backends.cpu.kernels.kernel import Kernel, offset
from backends.cpu.kernels.skeletons import render
from compiler.expr.ast import refs
from compiler.ir.space import DType

_DEGREES: Final = ("nl__draw", "nl__shuffle_rounds", "nl__shuffled")
DRAWING: Final = {"fixed_probability": ("nl__draw",), "rewire": ("nl__draw",)} | dict.fromkeys(
    ("fixed_total", "fixed_indegree", "fixed_outdegree"), _DEGREES
)
"""Functions of backends/device that the skeletons of rules call."""


def _skeleton(k: Kernel, file: str, **more: object) -> list[Line]:
    return lines_of(render(file, f=formal_names(k), real=k.dialect.real, name=k.template.name, **more))


def connect(k: Kernel, c: l2.Connect) -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= set(DRAWING.get(c.rule, ()))
    file = "connect_scan.c.j2" if c.stage == "scan" else f"connect_{c.rule}.c.j2"
    return _skeleton(k, file, stage=c.stage, **given(k, c))


def row_again(k: Kernel, p: l2.Procedural) -> list[Line]:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk"."""
    k.printer.used |= set(DRAWING.get(p.rule, ()))
    rule = given(k, l2.Connect(p.rule, "walk", p.probability))
    file = f"connect_{p.rule}.c.j2"
    return lines_of(render(file, f=names_again(k, p), real=k.dialect.real, stage="walk", **rule))


def record_events(k: Kernel, r: l2.RecordEvents) -> list[Line]:
    return _skeleton(k, "record_events.c.j2")


def emit_scheduled(k: Kernel, e: l2.EmitScheduled) -> list[Line]:
    return _skeleton(k, "emit_scheduled.c.j2")


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Line]:
    """One sample of every member; the value may read several arrays at the member's index `i`."""
    names = formal_names(k)
    scope, i = dict(k.scope), k.namer.own("i")
    scope["i"] = Symbol(i, DType.I64)
    early: list[Line] = []
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        early.append(Line(f"const nl_i64 {slot} = nl_slot(step, {scope['ring_slots'].text});"))
        scope["slot"] = Symbol(slot, DType.I64)
    elements = {
        f.name: Element(f"{k.pointers[f.name]}[{offset(f.access, lambda n: scope[n].text)}]", f.dtype, f.mode)
        for f in k.template.formals
        if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.Strided)
    }
    body = Body(k.printer, scope, elements, k.namer)
    loads = body.load(refs(r.value))
    value = k.printer.expr(r.value, body.scope, k.formal("buffer").dtype)
    j, sample = k.namer.fresh("j"), k.namer.fresh("sample")
    m, used, capacity = names["m"], names["used"], names["capacity"]
    return [
        *early,
        Line(f"const nl_i64 {sample} = {used}[0];"),
        Line(f"if ({sample} >= {capacity}) {{"),
        Line("nl_overflow(ctx);", 1),
        Line("continue;", 1),
        Line("}"),
        Line(f"for (nl_i64 {j} = 0; {j} < {m}; {j}++) {{"),
        Line(f"const nl_i64 {i} = {names['members']}[{j}];", 1),
        *indent(loads),
        Line(f"{names['buffer']}[{sample} * {m} + {j}] = {value};", 1, k.template.span),
        Line("}"),
        Line(f"{used}[0] = {sample} + 1;"),
        Line(f"if ({sample} + 2 >= {capacity}) ctx->full = 1;"),
    ]
