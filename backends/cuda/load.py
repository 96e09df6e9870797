"""load: a compiled module with its memory on a GPU.

Assumes: an Artifact of this backend and the merged program that it was emitted from.
Guarantees: one allocation per role (zeroed, then filled with the constants); relations are drawn on the device, and
only their sizes come to the host, after the phases `count` and `scan`; then what depends on them is placed. A run
stops before a record buffer can overflow.
Does not: drain record buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from backends.cprint import Dialect
from backends.cuda.device import Device
from backends.cuda.kernel import BLOCK
from backends.cuda.resident import Resident, call_table, first_blocks, fits, meetings, touched
from backends.cuda.schedule import Plan, Ready, Timed, release, run_checked, run_steps
from backends.cuda.work import Work, array_elements, calls_of
from backends.protocol import AnyArray, Artifact, BackendError
from compiler.ir.program import (
    Array,
    ArrayFormal,
    Emit,
    EmitScheduled,
    Launch,
    Merged,
    Nest,
    RecordEvents,
    RecordTrace,
    Template,
)
from compiler.ir.space import DType, Role
from compiler.passes.plan_memory import Placement, place
from compiler.passes.write_tables import NOT_PLACED, ROLE_SHIFT, write_tables

Words = npt.NDArray[np.uint64]
CONNECT_PHASES: Final = ("count", "scan")
INIT_PHASES: Final = ("fill", "init")
FEW_STEPS: Final = 8
"""A run returns for a drain when no more steps than this have room, not when none has."""
RESIDENT: Final = 4
"""Blocks of a multiprocessor that stay resident, at most: more of them wait longer for each other."""
_OFFSET: Final = np.uint64((1 << ROLE_SHIFT) - 1)


def device_table(template: Template, table: Words, bases: npt.NDArray[np.uint64]) -> Words:
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


class CudaInstance:
    """A loaded program with its memory; see backends.protocol.Instance. With `check`, every kernel is waited for, so
    that a fault is reported with the name of what failed."""

    def __init__(self, artifact: Artifact, program: Merged, seed: int, device: int = 0, check: bool = False) -> None:
        self.program, self._check = program, check
        self._arrays = {a.name: a for a in program.arrays}
        self.sizes: dict[str, int] = {}
        self._arenas: dict[Role, Any] = {}
        self._plans: dict[str, Plan] = {}
        self._next: tuple[str, int] | None = None  # the phase and step that the device stands before
        self._closed = False
        self._device = Device(device)
        with self._device.current():
            self._device.load(artifact.binary, artifact.flags)
            self._own = self._device.allocate(64, {})
            self._room = self._device.pinned(2)
            step = int(self._own)
            self._state = np.array([step, step + 8], np.uint64)
            self._device.set_global("nl_run", self._state)
            self._together = 0  # a second copy of the module, for cooperative launches
            self._load(seed)
            self._stay()

    # ----------------------------------------------------------------------------------------- loading

    def _load(self, seed: int) -> None:
        self._place(seed)
        late = [a for a in self.program.arrays if a.size_from is not None]
        self._run_once(CONNECT_PHASES)
        if late:
            self._measure(late)
            self._place(seed)
        self._run_once(INIT_PHASES)
        self._device.synchronize()
        for name in (*CONNECT_PHASES, *INIT_PHASES):
            self._plans.pop(name, None)

    def _measure(self, late: list[Array]) -> None:
        """The sizes that were drawn: the last element of each array of row pointers, one copy for all of them."""
        sources = [self._arrays[a.size_from] for a in late if a.size_from is not None]
        for role in {a.role for a in sources}:
            used = [a for a in sources if a.role is role]
            ends = {a.name: self.placement.offsets[a.name] + (a.physical_size - 1) * 8 for a in used}
            first, last = min(ends.values()), max(ends.values()) + 8
            part = np.empty((last - first) // 8, np.int64)
            self._device.download(int(self._arenas[role]) + first, part)
            for name, end in ends.items():
                self.sizes[name] = int(part[(end - first) // 8])
        for a in late:
            self.sizes[a.name] = self.sizes[a.size_from or ""]

    def _run_once(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self._plans:
                self._start(name, 0)
                for call in run_checked(self._device, self._plans[name], 0, 1):
                    self._wait(call)
        self._next = None

    def _place(self, seed: int) -> None:
        """Arenas, tables and launches for the sizes known so far. What an arena that has to grow held moves along."""
        program, device = self.program, self._device
        before = getattr(self, "placement", None)
        placement = place(program, self.sizes)
        grown = {r for r in Role if before is None or placement.arena_bytes.get(r, 0) != before.arena_bytes.get(r, 0)}
        kept = {
            n: self._get(n)
            for n in {a.size_from for a in program.arrays if a.size_from is not None}
            if before is not None and self._arrays[n].role in grown
        }
        bill = {str(r): n for r, n in placement.arena_bytes.items()}
        for role in grown:
            if role in self._arenas:
                self._arenas.pop(role).free()
        for role in Role:
            if role in grown:
                self._arenas[role] = device.allocate(placement.arena_bytes.get(role, 0), bill)
        self.placement: Placement = placement
        for name, values in {**program.constants, **kept}.items():
            if self._arrays[name].role in grown and name in placement.offsets:
                self._put(name, values)
        self._prepare(write_tables(program, placement, seed, self.sizes))

    def _prepare(self, tables: tuple[Words, ...]) -> None:
        """Tables, jobs, counters and plans on the device."""
        program, device = self.program, self._device
        bases = np.array([int(self._arenas[r]) for r in Role], np.uint64)
        own = [device_table(t, table, bases) for t, table in zip(program.templates, tables, strict=True)]
        self._tables = [device.allocate(t.nbytes, {"tables": t.nbytes}) for t in own]
        for memory, table in zip(self._tables, own, strict=True):
            device.upload(int(memory), table)
        for plan in self._plans.values():
            release(device, plan)
        self._memory: list[Any] = []
        physical = {a.name: a.physical_size for a in program.arrays}
        self._elements = array_elements(self.sizes, physical)
        self._plans = {
            phase.name: Plan(tuple(self._timed(x, tables[x.template]) for x in phase.launches))
            for phase in program.phases
        }
        self._watch = {phase.name: self._watched(phase.launches, tables) for phase in program.phases}

    def _stay(self) -> None:
        """Make phases that can run many steps in one launch ready for it."""
        program, driver = self.program, self._device.driver
        for phase in program.phases:
            if phase.name not in self._plans or not fits(program, phase.launches):
                continue
            if not self._together:
                self._together = driver.load(self._device.image)
                driver.set_global(self._together, "nl_run", self._state.tobytes())
            function = driver.function(self._together, "nl_steps")
            most = driver.resident_blocks(function, BLOCK)
            if most == 0:
                continue
            plan = self._plans[phase.name]
            meet = meetings([touched(program, x) for x in phase.launches])
            calls = [c for x in plan.launches for c in x.calls]
            if len(calls) != len(phase.launches):
                continue  # a launch without work, or with several functions
            blocks = self._device.processors * min(most, RESIDENT)
            widths = [8 * max(len(program.templates[x.template].formals), 1) for x in phase.launches]
            first = first_blocks([c.grid for c in calls], meet, blocks)
            rows = [
                (c.rows, c.jobs, c.chunk, c.memory, x.every, x.offset, x.template, c.grid, int(m), f, width, 0)
                for c, x, m, f, width in zip(calls, phase.launches, meet, first, widths, strict=True)
            ]
            counter = self._keep(np.zeros(1, np.uint64))
            plan.resident = Resident(self._together, function, blocks, self._keep(call_table(rows)), len(rows), counter)

    def _timed(self, launch: Launch, table: Words) -> Timed:
        template, rows = self.program.templates[launch.template], self.program.tables[launch.template]
        work = Work(template, rows, table, launch, self._elements, self._device.blocks)
        base, width = int(self._tables[launch.template]), 8 * max(len(template.formals), 1)
        path = rows.paths[launch.lo] if launch.lo < len(rows.paths) else template.name
        more = f" and {launch.hi - launch.lo - 1} more" if launch.hi - launch.lo > 1 else ""
        ready = []
        for call in calls_of(work, Dialect(self.program.precision)):
            jobs = memory = 0
            if call.jobs is not None:
                jobs = self._keep(call.jobs)
            if call.memory:
                counters = np.zeros(-(-call.memory // 8), np.uint64)
                if call.places is not None:
                    counters[: len(call.places)] = call.places
                memory = self._keep(counters)
            ready.append(
                Ready(
                    call.function,
                    call.grid,
                    call.block,
                    base + call.row * width,
                    jobs,
                    call.chunk,
                    memory,
                    call.group,
                    f"{template.name} (`{path}`{more})",
                )
            )
        return Timed(tuple(ready), launch.every, launch.offset)

    def _keep(self, values: AnyArray) -> int:
        """The address of a copy on the device that lives as long as the plans."""
        memory = self._device.allocate(values.nbytes, {"launches": values.nbytes})
        self._memory.append(memory)
        self._device.upload(int(memory), values)
        return int(memory)

    def _watched(self, launches: tuple[Launch, ...], tables: tuple[Words, ...]) -> tuple[int, int, int, int]:
        """(rings, number, buffers, number): what nl_begin empties and what nl_room looks at."""
        rings: list[tuple[int, int]] = []
        buffers: list[tuple[int, int, int, int]] = []
        for launch in launches:
            template, rows = self.program.templates[launch.template], self.program.tables[launch.template]
            columns = {f.name: i for i, f in enumerate(template.formals)}

            def column(name: str, columns: Mapping[str, int] = columns, at: Launch = launch) -> list[int]:
                found: list[int] = tables[at.template][at.lo : at.hi, columns[name]].view(np.int64).tolist()
                return found

            def address(name: str, rows: Any = rows, at: Launch = launch) -> list[int]:
                return [self._address(n) for n in rows.arrays[name][at.lo : at.hi]]

            match template.body:
                case Nest(_, prologue):
                    for s in prologue:
                        if isinstance(s, Emit):
                            rings += zip(address(s.count), column(s.slots), strict=True)
                case EmitScheduled():
                    count = "count" if "count" in columns else "spike_count"
                    rings += zip(address(count), column("slots"), strict=True)
                case RecordEvents():
                    used, room, most = address("used"), column("capacity"), column("n")
                    buffers += [(u, r, max(m, 1), launch.every) for u, r, m in zip(used, room, most, strict=True)]
                case RecordTrace():
                    used, room = address("used"), column("capacity")
                    buffers += [(u, r, 1, launch.every) for u, r in zip(used, room, strict=True)]
        ring = self._keep(np.array(rings, np.int64)) if rings else 0
        buffer = self._keep(np.array(buffers, np.int64)) if buffers else 0
        return ring, len(rings), buffer, len(buffers)

    # ------------------------------------------------------------------------------------------ memory

    def _address(self, name: str) -> int:
        return int(self._arenas[self._arrays[name].role]) + self.placement.offsets[name]

    def _size(self, name: str) -> int:
        array = self._arrays[name]
        return array.physical_size if array.size_from is None else self.sizes[name]

    def _get(self, name: str, count: int | None = None) -> AnyArray:
        size = self._size(name)
        values = np.empty(size if count is None else min(count, size), self._arrays[name].dtype.numpy)
        self._device.download(self._address(name), values)
        return values

    def _put(self, name: str, values: AnyArray) -> None:
        flat = np.asarray(values).reshape(-1).astype(self._arrays[name].dtype.numpy, copy=False)
        if len(flat) != self._size(name):
            raise ValueError(f"`{name}` has {self._size(name)} elements, not {len(flat)}")
        self._device.upload(self._address(name), flat)

    def read(self, name: str, count: int | None = None) -> AnyArray:
        """A copy of an array's contents (of its first `count` elements). Raises KeyError."""
        with self._device.current():
            return self._get(name, count)

    def write(self, name: str, values: AnyArray) -> None:
        """Replace an array's contents. Raises KeyError; ValueError for another number of elements."""
        with self._device.current():
            self._put(name, values)
        if self._arrays[name].role is Role.EVENT:
            self._next = None

    # ----------------------------------------------------------------------------------------- running

    def _start(self, phase: str, step: int) -> None:
        """Tell the device the step, unless it stands there already."""
        if self._next != (phase, step):
            ring, count = self._watch[phase][:2]
            self._device.call("nl_begin", "Pqq", max(1, min(64, count // 256)), 256, ring, count, step)

    def _steps_left(self, phase: str) -> int:
        """How many steps have room in every record buffer. Raises BackendError when one has overflowed."""
        buffers, count = self._watch[phase][2:]
        if count == 0:
            return 1 << 62
        out = int(self._own) + 16
        self._device.call("nl_room", "PqP", 1, 256, buffers, count, out)
        self._device.download_later(out, self._room)
        self._device.synchronize()
        if int(self._room[1]) != 0:
            raise _not_drained()
        return int(self._room[0])

    def _wait(self, call: Ready) -> None:
        """With `check`: wait for a call, and name it when it fails."""
        if not self._check:
            return
        try:
            self._device.synchronize()
        except Exception as e:
            raise BackendError("E0924", f"{call.label} failed on the GPU: {e}", exit_code=5) from None

    def run(self, phase: str, first_step: int, steps: int) -> int:
        """Run steps; returns how many ran: fewer where a record buffer could have overflowed. Waits for the device
        only where it has to, and at the end of more than one step."""
        if self._closed:
            raise ValueError("the instance is closed")
        plan = self._plans[phase]
        done = 0
        with self._device.current():
            self._start(phase, first_step)
            while done < steps:
                left = self._steps_left(phase)
                if left == 0 and done == 0:
                    raise _not_drained()
                if done > 0 and left < min(FEW_STEPS, steps - done):
                    break
                count = min(steps - done, left)
                if self._check:
                    for call in run_checked(self._device, plan, first_step + done, count):
                        self._wait(call)
                else:
                    run_steps(self._device, plan, first_step + done, count)
                done += count
            self._next = (phase, first_step + done)
            if steps > 1:
                self._device.synchronize()
        return done

    def close(self) -> None:
        """Free the memory."""
        if self._closed:
            return
        self._closed = True
        with self._device.current():
            for plan in self._plans.values():
                release(self._device, plan)
            self._device.synchronize()
            if self._together:
                self._device.driver.unload(self._together)
            for memory in (*self._arenas.values(), *self._tables, *self._memory, self._own):
                memory.free()
        self._arenas.clear()


def _not_drained() -> BackendError:
    return BackendError("E0906", "a record buffer was not drained in time", exit_code=5)
