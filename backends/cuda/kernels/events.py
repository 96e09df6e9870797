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
from backends.c_family.connect_template_args import file_of, formal_names, given, lines_of, names_again
from backends.c_family.cprint import Line
from backends.c_family.record_trace import sample_of
from backends.cuda.kernels.kernel import Function, each_element
from backends.cuda.kernels.skeletons import render
from compiler.connect import numbered

_NUMBERED: Final = frozenset({"nl__draw", "nl__shuffled_once"})
_DRAWN: Final = frozenset({"nl__draw"})
SORT: Final = "_sort"
"""Suffix of the function that puts drawn rows in ascending order."""


def _uses(rule: str) -> frozenset[str]:
    """Functions of backends/device that the skeleton of a rule calls."""
    if (found := numbered(rule)) is not None:
        return _NUMBERED if found.pools else frozenset()
    return _DRAWN if rule in ("fixed_probability", "rewire") else frozenset()


def _skeleton(k: Kernel, file: str, **more: object) -> tuple[Line, ...]:
    return tuple(lines_of(render(file, f=formal_names(k), real=k.dialect.real, name=k.template.name, **more)))


def connect(k: Kernel, c: l2.Connect) -> list[Function]:
    """One stage of one rule; the draws are those of backends/reference."""
    k.printer.used |= _uses(c.rule)
    made = [Function("", _skeleton(k, f"{file_of(c)}.cu.j2", stage=c.stage, **given(k, c)))]
    if c.stage == "fill" and (found := numbered(c.rule)) is not None and found.pools:
        made.append(Function(SORT, _skeleton(k, "connect_sort.cu.j2")))
    if c.rule == "transpose" and c.stage in ("fill", "refill"):
        made.append(Function(SORT, _skeleton(k, "connect_transpose_sort.cu.j2")))
    return made


def row_again(k: Kernel, p: l2.Procedural) -> tuple[Line, ...]:
    """The row of source `i` as its rule draws it; of numbered connections: the target of number `c`."""
    k.printer.used |= _uses(p.rule)
    rule = l2.Connect(p.rule, "walk", p.probability)
    file = f"{file_of(rule)}.cu.j2" if numbered(p.rule) else f"walk_{p.rule}.cu.j2"
    return tuple(lines_of(render(file, f=names_again(k, p), real=k.dialect.real, stage="walk", **given(k, rule))))


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
