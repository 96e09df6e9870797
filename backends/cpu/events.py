"""Recording, given events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/program.py names them. Lists of events are ascending.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

from backends.cprint import Body, Element, Line, Symbol, indent, type_of
from backends.cpu.kernel import Kernel, offset
from backends.cpu.skeletons import render
from compiler.expr.ast import refs
from compiler.ir.program import (
    PLACES,
    ArrayFormal,
    Connect,
    EmitScheduled,
    Procedural,
    RecordEvents,
    RecordTrace,
    ScalarFormal,
    Strided,
)
from compiler.ir.space import DType

SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}
_DEGREES: Final = ("nl__draw", "nl__shuffle_rounds", "nl__shuffled")
DRAWING: Final = {"fixed_probability": ("nl__draw",), "rewire": ("nl__draw",)} | dict.fromkeys(
    ("fixed_total", "fixed_indegree", "fixed_outdegree"), _DEGREES
)
"""Functions of backends/device that the skeletons of rules call."""


def _names(k: Kernel) -> dict[str, str]:
    """C identifiers by formal name, for the skeletons; `list`/`count` also under their usual synonyms."""
    names = {
        f.name: k.scope[f.name].text if isinstance(f, ScalarFormal) else k.pointers[f.name] for f in k.template.formals
    }
    for name, other in SYNONYMS.items():
        if name not in names and other in names:
            names[name] = names[other]
    return names


def _lines(text: str) -> list[Line]:
    return [Line(t.lstrip(), (len(t) - len(t.lstrip())) // 4) if t.strip() else Line("") for t in text.splitlines()]


def _skeleton(k: Kernel, file: str, **more: object) -> list[Line]:
    return _lines(render(file, f=_names(k), real=k.dialect.real, name=k.template.name, **more))


def _given(k: Kernel, c: Connect) -> dict[str, object]:
    """What the skeleton of an expression rule needs: the text over columns, `i`, `j` and their positions."""
    if c.probability is None:
        return {}
    scope = dict(k.scope) | {n: Symbol(n, DType.I64) for n in ("i", "j", *PLACES)}
    drawn = type_of(c.probability, scope, k.dialect.precision) != "bool"
    if drawn:
        k.printer.used.add("nl__draw")
    used = refs(c.probability)
    return {
        "drawn": drawn,
        "places_i": bool(used & set(PLACES[:3])),
        "places_j": bool(used & set(PLACES[3:])),
        "probability": k.printer.expr(c.probability, scope, k.dialect.precision)
        if drawn
        else k.printer.test(c.probability, scope),
    }


def connect(k: Kernel, c: Connect) -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= set(DRAWING.get(c.rule, ()))
    file = "connect_scan.c.j2" if c.stage == "scan" else f"connect_{c.rule}.c.j2"
    return _skeleton(k, file, stage=c.stage, **_given(k, c))


def row_again(k: Kernel, p: Procedural) -> list[Line]:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk"."""
    k.printer.used |= set(DRAWING.get(p.rule, ()))
    names = _names(k)
    names |= {"key": names["connect_key"], "row": k.pointers[p.row]}
    given = _given(k, Connect(p.rule, "walk", p.probability))
    return _lines(render(f"connect_{p.rule}.c.j2", f=names, real=k.dialect.real, stage="walk", **given))


def record_events(k: Kernel, r: RecordEvents) -> list[Line]:
    return _skeleton(k, "record_events.c.j2")


def emit_scheduled(k: Kernel, e: EmitScheduled) -> list[Line]:
    return _skeleton(k, "emit_scheduled.c.j2")


def record_trace(k: Kernel, r: RecordTrace) -> list[Line]:
    """One sample of every member; the value may read several arrays at the member's index `i`."""
    names = _names(k)
    scope, i = dict(k.scope), k.namer("i")
    scope["i"] = Symbol(i, DType.I64)
    early: list[Line] = []
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        early.append(Line(f"const nl_i64 {slot} = nl_slot(step, {scope['ring_slots'].text});"))
        scope["slot"] = Symbol(slot, DType.I64)
    elements = {
        f.name: Element(f"{k.pointers[f.name]}[{offset(f.access, lambda n: scope[n].text)}]", f.dtype, f.mode)
        for f in k.template.formals
        if isinstance(f, ArrayFormal) and isinstance(f.access, Strided)
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
