"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import formal_names, given, lines_of, names_again
from backends.c_family.cprint import Line, indent
from backends.c_family.record_trace import sample_of
from backends.cpu.kernels.skeletons import render

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
    """One sample of every member."""
    x = sample_of(k, r)
    return [
        *x.first,
        Line(f"if ({x.sample} >= {x.capacity}) {{"),
        Line("nl_overflow(ctx);", 1),
        Line("continue;", 1),
        Line("}"),
        Line(f"for (nl_i64 {x.j} = 0; {x.j} < {x.m}; {x.j}++) {{"),
        *indent(x.each),
        Line("}"),
        Line(f"{x.used}[0] = {x.sample} + 1;"),
        Line(f"if ({x.sample} + 2 >= {x.capacity}) ctx->full = 1;"),
    ]
