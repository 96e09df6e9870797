"""resident: many steps of a spiking phase in one cooperative launch (nl_steps in templates/module.cu.j2).

Assumes: the calls of a phase, and which arrays each launch touches.
Guarantees: blocks wait for each other between calls of which one needs what the other writes, and at the end of a
step; calls that do not depend on each other share the blocks between two waits.
Does not: decide whether this is faster than a graph (schedule.py measures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from backends.cuda.device import Device
from backends.cuda.emit import MOST_CALLS, has_resident, stays_resident
from backends.cuda.kernel import BLOCK
from compiler.ir.program import ArrayFormal, Launch, Merged, Mode

CALL = np.dtype(
    [
        ("rows", np.uint64),
        ("jobs", np.uint64),
        ("chunk", np.int64),
        ("memory", np.uint64),
        ("every", np.int64),
        ("offset", np.int64),
        ("kernel", np.uint32),
        ("grid", np.uint32),
        ("meet", np.uint32),
        ("first", np.uint32),
        ("bytes", np.uint32),
        ("unused", np.uint32),
    ]
)
"""nl_call of the text."""


@dataclass(frozen=True)
class Touched:
    """Arrays that a launch reads, writes and adds to."""

    read: frozenset[str]
    written: frozenset[str]
    added: frozenset[str]

    def needs(self, earlier: Touched) -> bool:
        """Whether this launch must wait for an earlier one."""
        touched = earlier.read | earlier.written | earlier.added
        return bool(
            self.written & touched
            or self.read & (earlier.written | earlier.added)
            or self.added & (earlier.read | earlier.written)
        )


def touched(program: Merged, launch: Launch) -> Touched:
    """What the rows of a launch touch."""
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    rows = program.tables[launch.template]
    for f in program.templates[launch.template].formals:
        if not isinstance(f, ArrayFormal):
            continue
        names = rows.arrays[f.name][launch.lo : launch.hi]
        if f.mode in (Mode.READ, Mode.UPDATE):
            read.update(names)
        if f.mode in (Mode.WRITE, Mode.UPDATE):
            written.update(names)
        if f.mode is Mode.ACCUMULATE:
            added.update(names)
    return Touched(frozenset(read), frozenset(written), frozenset(added))


def meetings(launches: Sequence[Touched]) -> list[bool]:
    """Before which launches of a step all blocks meet; they always meet at its end."""
    since: list[Touched] = []
    found = []
    for launch in launches:
        meet = any(launch.needs(earlier) for earlier in since)
        since = [launch] if meet else [*since, launch]
        found.append(meet)
    return found


def fits(program: Merged, launches: Sequence[Launch]) -> bool:
    """Whether a phase can run inside nl_steps."""
    templates = [program.templates[x.template] for x in launches]
    return has_resident(program) and 0 < len(launches) <= MOST_CALLS and all(stays_resident(t) for t in templates)


@dataclass
class Resident:
    """A phase that is ready to run in one launch."""

    module: int
    function: int
    grid: int
    calls: int
    number: int
    counter: int

    def run(self, device: Device, steps: int) -> None:
        """Launch steps from the device's step on."""
        arguments = (self.calls, self.number, steps, self.counter)
        device.driver.launch_together(self.function, self.grid, BLOCK, device.stream.handle, arguments)


def first_blocks(grids: Sequence[int], meet: Sequence[bool], blocks: int) -> list[int]:
    """The block that begins each call: where the call before it ended, if they run side by side."""
    found = []
    at = 0
    for grid, waits in zip(grids, meet, strict=True):
        at = 0 if waits else at
        found.append(at)
        at = (at + grid) % blocks
    return found


def call_table(
    rows: Sequence[tuple[int, int, int, int, int, int, int, int, int, int, int, int]],
) -> npt.NDArray[np.uint64]:
    """Calls as the device reads them; the fields are those of CALL."""
    return np.array(rows, CALL).view(np.uint64)
