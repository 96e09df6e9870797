"""Recording of events and traces, and emission of given events.

Assumes: formals with the fixed names that compiler/ir/level2/program.py gives for each body.
Guarantees: a step asks to be drained (True) exactly when a buffer could not hold one more step.
Does not: drain buffers. A buffer that was not drained in time is an error, never a lost sample.
"""

from __future__ import annotations

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.evaluate import cast
from backends.reference.nest import Points, append_events
from backends.reference.row import InterpretError, Row


def run_record_events(row: Row, step: int) -> bool:
    """Append (step, id) of this step's events; True when fewer than 2 n entries are free."""
    events, counts, used = row.arrays["list"], row.arrays["count"], row.arrays["used"]
    slots, capacity = row.size("slots"), row.size("capacity")
    slot, room = step % slots, len(events) // slots
    count, start = int(counts[slot]), int(used[0])
    if start + count > capacity:
        raise InterpretError(f"{row.label}: the buffer was not drained")
    pairs = row.arrays["buffer"].reshape(-1, 2)
    pairs[start : start + count, 0] = step
    pairs[start : start + count, 1] = events[slot * room : slot * room + count]
    used[0] = start + count
    return capacity - (start + count) < 2 * row.size("n")


def run_record_trace(row: Row, body: l2.RecordTrace, step: int) -> bool:
    """Append one sample of `value` at every member; True when there is room for one more at most."""
    used, m, capacity = row.arrays["used"], row.size("m"), row.size("capacity")
    start = int(used[0])
    if start >= capacity:
        raise InterpretError(f"{row.label}: the buffer was not drained")
    dims = (l2.Dim("i", "m"),)
    points = Points(row, l2.Nest(dims), dims, (range(m),), step)
    points.values["i"] = row.arrays["members"].astype(np.int64)
    if "ring_slots" in row.scalars:
        points.values["slot"] = np.int64(step % row.size("ring_slots"))
    buffer = row.arrays["buffer"]
    buffer[start * m : (start + 1) * m] = cast(points.evaluate.typed(body.value), buffer.dtype)
    used[0] = start + 1
    return start + 2 >= capacity


def run_emit_scheduled(row: Row, step: int) -> None:
    """The given events of this step become its list; `cursor` points after the last one emitted."""
    steps, ids, cursor = row.arrays["steps"], row.arrays["ids"], row.arrays["cursor"]
    m, slots = row.size("m"), row.size("slots")
    lo = int(np.searchsorted(steps[:m], step, side="left"))
    hi = int(np.searchsorted(steps[:m], step, side="right"))
    counts = row.arrays["count"]
    counts[step % slots] = 0
    append_events(row, row.arrays["list"], counts, slots, step % slots, ids[lo:hi])
    cursor[0] = hi
