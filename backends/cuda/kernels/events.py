"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be cleared during this one.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.connect_template_args import formal_names, given, lines_of, names_again
from backends.c_family.cprint import Line
from backends.c_family.record_trace import sample_of
from backends.cuda.kernels.kernel import Function, each_element
from backends.cuda.kernels.skeletons import render

DRAWING: Final = {"fixed_probability": ("nl__draw",), "rewire": ("nl__draw",)} | dict.fromkeys(
    ("fixed_total", "fixed_indegree", "fixed_outdegree"), ("nl__draw", "nl__shuffled_once")
)
"""Functions of backends/device that the skeletons of rules call."""
SORT: Final = "_sort"
"""Suffix of the function that puts drawn rows in ascending order."""


def _skeleton(k: Kernel, file: str, **more: object) -> tuple[Line, ...]:
    return tuple(lines_of(render(file, f=formal_names(k), real=k.dialect.real, name=k.template.name, **more)))


def connect(k: Kernel, c: l2.Connect) -> list[Function]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= set(DRAWING.get(c.rule, ()))
    file = "connect_scan.cu.j2" if c.stage == "scan" else f"connect_{c.rule}.cu.j2"
    made = [Function("", _skeleton(k, file, stage=c.stage, **given(k, c)))]
    if c.rule in ("fixed_total", "fixed_indegree", "fixed_outdegree") and c.stage == "fill":
        made.append(Function(SORT, _skeleton(k, "connect_sort.cu.j2")))
    if c.rule == "transpose" and c.stage in ("fill", "refill"):
        made.append(Function(SORT, _skeleton(k, "connect_transpose_sort.cu.j2")))
    return made


def row_again(k: Kernel, p: l2.Procedural) -> tuple[Line, ...]:
    """The row of source `i` as its rule draws it; for fixed_outdegree, target `j` of its element `c`."""
    k.printer.used |= set(DRAWING.get(p.rule, ()))
    rule = given(k, l2.Connect(p.rule, "walk", p.probability))
    file = f"connect_{p.rule}.cu.j2" if p.rule == "fixed_outdegree" else f"walk_{p.rule}.cu.j2"
    return tuple(lines_of(render(file, f=names_again(k, p), real=k.dialect.real, stage="walk", **rule)))


def record_events(k: Kernel) -> list[Function]:
    return [Function("", _skeleton(k, "record_events.cu.j2"))]


def emit_scheduled(k: Kernel) -> list[Function]:
    return [Function("", _skeleton(k, "emit_scheduled.cu.j2"))]


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Function]:
    """One sample of every member. The last block to finish counts it: all others have read the counter by then."""
    x = sample_of(k, r)
    lines = (
        *x.first,
        Line(f"if ({x.sample} >= {x.capacity}) {{"),
        Line("if (threadIdx.x == 0) *nl_run.status = 1;", 1),
        Line("return;", 1),
        Line("}"),
        *each_element(x.j, x.m, x.each),
        Line("__syncthreads();"),
        Line(f"if (threadIdx.x == 0 && nl_is_last(nl_me, nl_t.memory)) {x.used}[0] = {x.sample} + 1;"),
    )
    return [Function("", lines)]
