"""plans: the phases of a program, ready to run on a device: tables, jobs, counters, what waits for what.

Assumes: arenas that exist and a placement in them; the sizes known so far.
Guarantees: everything that kernels read beside the arrays is on the device and lives as long as the `Prepared`.
Does not: run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from backends.cprint import Dialect
from backends.cuda.device import Device
from backends.cuda.hazards import conflicts, overlaps, touched
from backends.cuda.schedule import Plan, Ready, Timed, release
from backends.cuda.work import Words, Work, array_elements, calls_of
from backends.protocol import AnyArray
from compiler.ir.program import (
    ArrayFormal,
    Emit,
    EmitScheduled,
    Launch,
    Merged,
    MergedPhase,
    Nest,
    RecordEvents,
    RecordTrace,
    Rows,
    Template,
)
from compiler.ir.space import DType
from compiler.passes.plan_memory import Placement
from compiler.passes.write_tables import NOT_PLACED, ROLE_SHIFT

_OFFSET: Final = np.uint64((1 << ROLE_SHIFT) - 1)
Address = Callable[[str], int]


def device_table(template: Template, table: Words, bases: Words) -> Words:
    """The rows as the kernels read them: device addresses, and reals in their own type. `bases`: by role number."""
    out = table.copy()
    for column, formal in enumerate(template.formals):
        words = table[:, column]
        if isinstance(formal, ArrayFormal):
            placed = words != np.uint64(NOT_PLACED)
            role = np.where(placed, words >> np.uint64(ROLE_SHIFT), 0).astype(np.int64)
            out[:, column] = np.where(placed, bases[role] + (words & _OFFSET), 0)
        elif formal.dtype == DType.F32:
            narrow = np.zeros((len(words), 2), np.float32)
            narrow[:, 0] = words.view(np.float64).astype(np.float32)
            out[:, column] = narrow.view(np.uint64)[:, 0]
    return out


@dataclass(frozen=True)
class Watch:
    """Lists on the device: rings that nl_begin empties, buffers that nl_room looks at, and how many."""

    rings: int
    ring_count: int
    buffers: int
    buffer_count: int


@dataclass
class Prepared:
    """Plans and watches by phase, and the memory that they point to."""

    device: Device
    plans: dict[str, Plan] = field(default_factory=dict)
    watch: dict[str, Watch] = field(default_factory=dict)
    memory: list[Any] = field(default_factory=list)

    def keep(self, values: AnyArray, what: str = "launches") -> int:
        """The address of a copy on the device."""
        memory = self.device.allocate(values.nbytes, {what: values.nbytes})
        self.memory.append(memory)
        self.device.upload(int(memory), values)
        return int(memory)

    def free(self) -> None:
        for plan in self.plans.values():
            release(self.device, plan)
        for memory in self.memory:
            memory.free()
        self.memory.clear()
        self.plans.clear()


def prepare(
    device: Device,
    program: Merged,
    tables: tuple[Words, ...],
    bases: Words,
    placement: Placement,
    sizes: Mapping[str, int],
    address: Address,
) -> Prepared:
    """All phases, for the host's tables; `bases`: addresses of the arenas by role number."""
    out = Prepared(device)
    rows = [
        out.keep(device_table(t, table, bases), "tables") for t, table in zip(program.templates, tables, strict=True)
    ]
    elements = array_elements(sizes, {a.name: a.physical_size for a in program.arrays})
    shared = overlaps(program, placement)
    for phase in program.phases:
        apart = conflicts([touched(program, x, shared) for x in phase.launches])
        timed = []
        for launch, others in zip(phase.launches, apart, strict=True):
            work = Work(
                program.templates[launch.template],
                program.tables[launch.template],
                tables[launch.template],
                launch,
                elements,
                device.blocks,
            )
            timed.append(_timed(out, work, rows[launch.template], program, others))
        out.plans[phase.name] = Plan(tuple(timed))
        out.watch[phase.name] = _watch(out, program, phase, tables, address)
    return out


def _label(template: Template, rows: Rows, launch: Launch) -> str:
    path = rows.paths[launch.lo] if launch.lo < len(rows.paths) else template.name
    more = f" and {launch.hi - launch.lo - 1} more" if launch.hi - launch.lo > 1 else ""
    return f"{template.name} (`{path}`{more})"


def _timed(out: Prepared, work: Work, base: int, program: Merged, others: frozenset[int]) -> Timed:
    width = _row_bytes(work.template)
    label = _label(work.template, work.rows, work.launch)
    ready = []
    for call in calls_of(work, Dialect(program.precision)):
        jobs = 0 if call.jobs is None else out.keep(call.jobs)
        memory = 0
        if call.memory:
            counters = np.zeros(-(-call.memory // 8), np.uint64)
            if call.places is not None:
                counters[: len(call.places)] = call.places
            memory = out.keep(counters)
        at = base + call.row * width
        ready.append(Ready(call.function, call.grid, call.block, at, jobs, call.chunk, memory, call.group, label))
    return Timed(tuple(ready), work.launch.every, work.launch.offset, others)


def _row_bytes(template: Template) -> int:
    return 8 * max(len(template.formals), 1)


def _watch(out: Prepared, program: Merged, phase: MergedPhase, tables: tuple[Words, ...], address: Address) -> Watch:
    rings: list[tuple[int, int]] = []
    buffers: list[tuple[int, int, int, int]] = []
    for launch in phase.launches:
        template, rows = program.templates[launch.template], program.tables[launch.template]
        names = [f.name for f in template.formals]
        part = tables[launch.template][launch.lo : launch.hi]

        def column(name: str, names: list[str] = names, part: Words = part) -> list[int]:
            values: list[int] = part[:, names.index(name)].view(np.int64).tolist()
            return values

        def places(name: str, rows: Rows = rows, at: Launch = launch) -> list[int]:
            return [address(n) for n in rows.arrays[name][at.lo : at.hi]]

        match template.body:
            case Nest(_, prologue):
                for s in prologue:
                    if isinstance(s, Emit):
                        rings += zip(places(s.count), column(s.slots), strict=True)
            case EmitScheduled():
                count = "count" if "count" in names else "spike_count"
                rings += zip(places(count), column("slots"), strict=True)
            case RecordEvents():
                found = zip(places("used"), column("capacity"), column("n"), strict=True)
                buffers += [(used, room, max(most, 1), launch.every) for used, room, most in found]
            case RecordTrace():
                pairs = zip(places("used"), column("capacity"), strict=True)
                buffers += [(used, room, 1, launch.every) for used, room in pairs]
    ring = out.keep(np.array(rings, np.int64)) if rings else 0
    buffer = out.keep(np.array(buffers, np.int64)) if buffers else 0
    return Watch(ring, len(rings), buffer, len(buffers))
