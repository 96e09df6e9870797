"""Software prefetching for events over stored rows (CSR): events of many projections are collected before the first is
delivered.

Assumes: a Propagate over Events with a Csr relation.
Guarantees: the bits of sequential delivery: due events are delivered in the order of the table's rows and of each list.
In a step a projection mostly has one short row of synapses at a random place in memory; so up to NL_DUE events are
collected, the beginnings of their rows are prefetched, and then they are delivered.
Does not: print the statements at a synapse (propagate.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, columns, mentioned
from backends.c_family.synapse_walk import Ends
from backends.cpu.kernels.kernel import opened
from backends.kernel_ir.expr import call, cast, code, form, member, name
from backends.kernel_ir.stmt import Do, For, Leave, Let, Set, Stmt, Struct, While, names_of, when
from backends.kernel_ir.tree import After, Code, Unary


@dataclass(frozen=True)
class Due:
    """A due event: its list entry is `listed`, its synapses are [first, end)."""

    events: Code
    event: Code
    listed: Code
    count: Code
    first: Code
    end: Code


def function_ahead(
    k: Kernel, relation: l2.Csr, ends: Ends, due: Due, early: Sequence[Stmt], once: Sequence[Stmt], body: Sequence[Stmt]
) -> list[Stmt]:
    """The kernel's function. `early`: locates the list of a row of the table, or continues with the next row; `once`:
    work shared by the events of a row; `body`: the work per event (its neuron and synapses are known)."""
    queue, e, following, after = (k.namer.fresh(x) for x in ("due", "e", "next", "after"))
    row, of_list, row_of = f"const {k.row_type} *", mentioned(k, early), k.pointers[relation.row]
    neuron, entry = ends.event, queue[e]
    collect: list[Stmt] = [
        For(due.event, None, None, [
            Let("nl_i64", neuron, due.listed),
            Set(form("{}.self", queue[due.count]), "self"),
            Set(member(queue[After(due.count)], neuron), neuron),
            Do(call("nl_prefetch", row_of + neuron)),
        ], test=form("{} < {} && {} < NL_DUE", due.event, due.events, due.count)),
        when(due.event < due.events, Leave("break")),
    ]  # fmt: skip
    own = member(entry, neuron)
    fetch: list[Stmt] = [
        Let("nl_i64", due.first, row_of[own]),
        Set(member(entry, due.first), due.first),
        Set(member(entry, due.end), row_of[own + 1]),
        *(Do(call("nl_prefetch", k.pointers[x] + due.first)) for x in _streams(k, relation)),
    ]
    names, used = (neuron, due.first, due.end), names_of(body)
    known = [Let("nl_i64", x, member(entry, x)) for x in names if x.text in used]
    known = [replace(known[0], beside=known[1:])] if known else []
    itself = Let(f"{row}const", name("self"), form("{}.self", entry), const=False)
    shared = [*columns(k, mentioned(k, [*once, *body])), *once]
    again = form("{} < {} && {}.self == self", Unary("++", e), due.count, entry)
    late = columns(k, mentioned(k, collect) - of_list)
    return opened(k, [
        Struct("struct", [
            Let(row, name("self")),
            Let("nl_i64", neuron, note="a neuron, and where its synapses are",
                beside=[Let("nl_i64", due.first), Let("nl_i64", due.end)]),
        ], queue[name("NL_DUE")]),
        Let(row, following, cast(row, "rows") + name("lo"), const=False),
        Let(f"{row}const", after, cast(row, "rows") + name("hi"), const=False),
        Let("nl_i32", due.event, code(0), const=False, note=f"in the list of the row `{following}`"),
        While(following < after, [
            Let("nl_i64", due.count, code(0), const=False),
            For(following, None, after, [
                Let(f"{row}const", name("self"), following, const=False),
                *columns(k, of_list), *early, *late, *collect,
            ], then=[Set(due.event, 0)]),
            For(e, 0, due.count, [itself, *columns(k, mentioned(k, fetch)), *fetch]),
            For(e, 0, due.count, [
                itself, *shared, While(again, [*known, *body], late=True),
            ], by=None),
        ]),
    ])  # fmt: skip


def _streams(k: Kernel, relation: l2.Csr) -> list[str]:
    """The arrays that the synapses of one event read contiguously."""
    if relation.index is not None:
        return [relation.col, relation.index]
    return [relation.col, *(f.name for f in k.template.arrays if isinstance(f.access, l2.At) and f.access.end == "syn")]
