"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import file_of, formal_names, given, lines_of, names_again
from backends.c_family.cprint import Line, indent
from backends.c_family.record_trace import sample_of
from backends.cpu.kernels.skeletons import render
from compiler.connect import numbered

_NUMBERED: Final = frozenset({"nl__draw", "nl__shuffle_rounds", "nl__shuffled"})
_DRAWN: Final = frozenset({"nl__draw"})


def _uses(rule: str) -> frozenset[str]:
    """Functions of backends/device that the skeleton of a rule calls."""
    if (found := numbered(rule)) is not None:
        return _NUMBERED if found.pools else frozenset()
    return _DRAWN if rule in ("fixed_probability", "rewire") else frozenset()


def _skeleton(k: Kernel, file: str, **more: object) -> list[Line]:
    return lines_of(render(file, f=formal_names(k), real=k.dialect.real, name=k.template.name, **more))


def connect(k: Kernel, c: l2.Connect) -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= _uses(c.rule)
    return _skeleton(k, f"{file_of(c)}.c.j2", stage=c.stage, **given(k, c))


def row_again(k: Kernel, p: l2.Procedural) -> list[Line]:
    """The row of source `i` as its rule draws it: the skeleton of connecting, at the stage "walk"."""
    k.printer.used |= _uses(p.rule)
    rule = l2.Connect(p.rule, "walk", p.probability)
    names = names_again(k, p)
    return lines_of(render(f"{file_of(rule)}.c.j2", f=names, real=k.dialect.real, stage="walk", **given(k, rule)))


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
