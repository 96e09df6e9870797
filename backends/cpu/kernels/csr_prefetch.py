"""Software prefetching for events over stored rows (CSR): events of many projections are collected before the first is
delivered.

Assumes: a Propagate over Events with a Csr relation.
Guarantees: the bits of sequential delivery: due events are delivered in the order of the table's rows and of each list.
In a step a projection mostly has one short row of synapses at a random place in memory; so up to NL_DUE events are
collected, the beginnings of their rows are prefetched, and then they are delivered.
Does not: print the statements at a synapse (propagate.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, mentioned
from backends.c_family.cprint import Line, indent
from backends.c_family.synapse_walk import Ends
from backends.cpu.kernels.kernel import columns, opened


@dataclass(frozen=True)
class Due:
    """C names of a due event: its list entry is `listed`, its synapses are [first, end)."""

    events: str
    event: str
    listed: str
    count: str
    first: str
    end: str


def function_ahead(
    k: Kernel, relation: l2.Csr, ends: Ends, due: Due, early: Sequence[Line], once: Sequence[Line], body: Sequence[Line]
) -> list[Line]:
    """The kernel's function. `early`: locates the list of a row of the table, or continues with the next row; `once`:
    work shared by the events of a row; `body`: the work per event (its neuron and synapses are known)."""
    fresh = k.namer.fresh
    queue, e, following, after = fresh("due"), fresh("e"), fresh("next"), fresh("after")
    row, of_list = f"const {k.row_type} *", mentioned(k, early)
    collect = [
        Line(f"for (; {due.event} < {due.events} && {due.count} < NL_DUE; {due.event}++) {{"),
        Line(f"const nl_i64 {ends.event} = {due.listed};", 1),
        Line(f"{queue}[{due.count}].self = self;", 1),
        Line(f"{queue}[{due.count}++].{ends.event} = {ends.event};", 1),
        Line(f"nl_prefetch({k.pointers[relation.row]} + {ends.event});", 1),
        Line("}"),
        Line(f"if ({due.event} < {due.events}) break;"),
    ]
    begin, stop = (f"{k.pointers[relation.row]}[{queue}[{e}].{ends.event}{plus}]" for plus in ("", " + 1"))
    fetch = [
        Line(f"const nl_i64 {due.first} = {begin};"),
        Line(f"{queue}[{e}].{due.first} = {due.first};"),
        Line(f"{queue}[{e}].{due.end} = {stop};"),
        *(Line(f"nl_prefetch({k.pointers[name]} + {due.first});") for name in _streams(k, relation)),
    ]
    names = (ends.event, due.first, due.end)
    words = set(re.findall(r"\w+", "\n".join(x.text for x in body)))
    known = Line(f"const nl_i64 {', '.join(f'{n} = {queue}[{e}].{n}' for n in names if n in words)};")
    return opened(
        k,
        [
            Line("struct {"),
            Line(f"{row}self;", 1),
            Line(f"nl_i64 {', '.join(names)}; /* a neuron, and where its synapses are */", 1),
            Line(f"}} {queue}[NL_DUE];"),
            Line(f"{row}{following} = ({row})rows + lo, *const {after} = ({row})rows + hi;"),
            Line(f"nl_i32 {due.event} = 0; /* in the list of the row `{following}` */"),
            Line(f"while ({following} < {after}) {{"),
            Line(f"nl_i64 {due.count} = 0;", 1),
            Line(f"for (; {following} < {after}; {following}++, {due.event} = 0) {{", 1),
            Line(f"{row}const self = {following};", 2),
            *indent([*columns(k, of_list), *early, *columns(k, mentioned(k, collect) - of_list), *collect], 2),
            Line("}", 1),
            Line(f"for (nl_i64 {e} = 0; {e} < {due.count}; {e}++) {{", 1),
            Line(f"{row}const self = {queue}[{e}].self;", 2),
            *indent([*columns(k, mentioned(k, fetch)), *fetch], 2),
            Line("}", 1),
            Line(f"for (nl_i64 {e} = 0; {e} < {due.count};) {{", 1),
            Line(f"{row}const self = {queue}[{e}].self;", 2),
            *indent([*columns(k, mentioned(k, [*once, *body])), *once], 2),
            Line("do {", 2),
            *indent([known, *body], 3),
            Line(f"}} while (++{e} < {due.count} && {queue}[{e}].self == self);", 2),
            Line("}", 1),
            Line("}"),
        ],
    )


def _streams(k: Kernel, relation: l2.Csr) -> list[str]:
    """The arrays that the synapses of one event read contiguously."""
    if relation.index is not None:
        return [relation.col, relation.index]
    formals = (f for f in k.template.formals if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At))
    return [relation.col, *(f.name for f in formals if isinstance(f.access, l2.At) and f.access.end == "syn")]
