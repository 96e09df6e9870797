"""shared_deliveries: the rows of a delivery as one piece of work of a wave, which blocks share by the events of a step.

Assumes: the host's and the device's rows of a propagation whose warps may share an event
(backends/cuda/kernels/synapse_loops.py).
Guarantees: data for nl_deliver of templates/waves.cu.j2: the lists of events that the rows have, for each of them its
rows, and how many units of work an event is. Warps take units in turn, so that those of a row with many events in a
step are not the last to end. The finest units are taken that are not much more than there are warps. All numbers of
synapses are means: a unit of a longer row takes longer, and no synapse depends on them.
Does not: choose blocks (waves.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import structure
from backends.cuda.kernels.launch_geometry import propagated
from backends.cuda.kernels.launch_work import Words, Work
from compiler.layout.write_tables import with_columns

SOURCES: Final = 32
"""Lists of events, and rows of each: lanes of a warp."""
WORDS: Final = 1024
"""Of 64 bits that a block has room for, of all deliveries of a wave."""
FINENESS: Final = (32, 64, 128, 256)
"""Synapses of a unit."""
_SOURCE: Final = structure(f"count,list,room,slots,delay:u8 first,rows,synapses,unused:u4 units:{len(FINENESS)}u4")
"""nl_source of templates/waves.cu.j2."""


@dataclass(frozen=True)
class SharedDelivery:
    """`words`: the sources, where the units of each row begin among those of an event, and the rows."""

    words: Words
    sources: int
    rows: int


def shared_delivery(work: Work, words: Words, room: int = WORDS) -> SharedDelivery | None:
    """Of the rows of a launch (`words`: the device's), for which there is room for so many words; None for one row
    alone, and where they are too many."""
    body = work.template.body
    if len(words) < 2 or not isinstance(body, l2.Propagate) or not work.kernel.functions[0].by_event:
        return None
    if not isinstance(body.events, l2.Events):
        return None
    e, names = body.events, [f.name for f in work.template.formals]
    keys = words[:, [names.index(x) for x in (e.count, e.list, e.stride, e.slots, e.delay)]]
    lists, source = np.unique(keys, axis=0, return_inverse=True)
    rows = np.bincount(source)
    order = np.argsort(source, kind="stable")
    neurons = np.maximum(keys[order, 2].view(np.int64), 1)
    synapses = propagated(work, body)[order] / neurons
    units = np.ceil(synapses[:, None] / FINENESS).astype(np.int64).clip(1)
    firsts = np.cumsum(rows) - rows
    many = np.add.reduceat(units, firsts)
    own = with_columns(words[order], work.kernel.columns)
    size = len(lists) * _SOURCE.itemsize // 8 + len(words) + own.size
    most = int((neurons[firsts] * many[:, -1]).sum())
    if max(len(lists), rows.max()) > SOURCES or many.max() >= 1 << 16 or most >= 1 << 31 or size > room:
        return None
    sources = np.zeros(len(lists), _SOURCE)
    for n, name in enumerate(("count", "list", "room", "slots", "delay")):
        sources[name] = lists[:, n]
    sources["first"], sources["rows"], sources["units"] = firsts, rows, many
    sources["synapses"] = np.ceil(np.add.reduceat(synapses, firsts))
    begins = (np.cumsum(units, axis=0) - units).astype(np.int64)
    begins -= begins[np.repeat(firsts, rows)]
    even = np.zeros(size % 2, np.uint64)
    parts = (sources.view(np.uint64), begins.astype(np.uint16).view(np.uint64).ravel(), own.ravel(), even)
    return SharedDelivery(np.concatenate(parts), len(lists), len(words))
