"""load: a compiled program with its memory on a device.

Assumes: an Artifact of this backend and the merged program that it was emitted from.
Guarantees: one buffer holds all arrays (zeroed, then filled with the constants); relations are drawn on the device, and
only their sizes come to the host, after the phases `count` and `scan`; then all arrays are placed again. Launches run
in order, those of a loop once for each of its steps, on one queue; event counts and the step stay on the device. A run
stops before a record buffer can overflow.
Does not: drain record buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import compiler.ir.level2.program as l2
from backends.c_family.watched import Watched, watched
from backends.opencl.compile import loaded
from backends.opencl.device import device_of
from backends.opencl.kernel import GROUP, items
from backends.opencl.library import context_of, library, name_of
from backends.protocol import AnyArray, Artifact, BackendError, PlacedInstance
from compiler.core.disk import bytes_text
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement, padded, place, written
from compiler.layout.write_tables import device_table, rows_of_steps, with_columns, write_tables

FEW_STEPS: Final = 8
"""A run returns for a drain when no more steps than this have room, not when none has."""
TOGETHER: Final = 64
"""Steps that are launched before the host waits for them."""
CHECK: Final = "--verify waits for every kernel, so that the message names the one that fails"


@dataclass(frozen=True)
class _Call:
    """A launch: a kernel with its arguments, the sizes of its axes and groups, and the steps in which it runs. `first`:
    in a loop, the row that it begins with in the first step of the loop, behind whose rows are those of the next."""

    kernel: Any
    size: tuple[int, int]
    group: tuple[int, int]
    every: int
    offset: int
    label: str
    first: int | None


class OpenclInstance(PlacedInstance):
    """A loaded program with its memory; see backends.protocol.Instance. With `check`, the host waits for every kernel,
    so that a fault is reported with the kernel's name."""

    def __init__(self, artifact: Artifact, program: l2.Merged, seed: int, device: int, check: bool) -> None:
        super().__init__(program)
        self._check, self._cl = check, library()
        self._next: tuple[str, int] | None = None  # the next phase and step of the device
        self._memory: Any = None
        self._device = device_of(device)
        self._context = context_of(self._device)
        self._queue = self._cl.CommandQueue(self._context)
        self._binary = loaded(artifact, self._context)
        self._names = [k.function for k in artifact.kernels]
        self._columns = [k.columns for k in artifact.kernels]
        self._state = self._buffer(np.zeros(2, np.int64))
        self._advance = self._cl.Kernel(self._binary, "nl_advance")
        self._advance.set_args(self._state)
        self._loops = {p.name: p.loops for p in program.phases}
        self._calls: dict[str, list[_Call]] = {}
        self._watched: dict[str, Watched] = {}
        self._load(seed)
        self._queue.finish()

    # ----------------------------------------------------------------------------------------- loading

    def _ends(self, names: Iterable[str]) -> dict[str, int]:
        return {name: int(self._get(name, -1)[0]) for name in names}

    def _once(self, phase: str) -> None:
        self._begin(phase, 0)
        self._launch(phase, 0, 1)

    def _place(self, seed: int) -> None:
        program = self.program
        kept = {n: self._get(n) for n in written(program, l2.CONNECT_PHASES) if self.sizes}
        self.placement: Placement = place(program, self.sizes)
        sizes = [padded(self.placement.arena_bytes.get(r, 0)) for r in Role]
        bases = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
        self._bases = dict(zip(Role, bases.tolist(), strict=False))
        self._allocate(int(bases[-1]))
        for name, values in {**program.constants, **kept}.items():
            if name in self.placement.offsets:
                self.write(name, values)
        tables, begins = rows_of_steps(program, write_tables(program, self.placement, seed, self.sizes))
        known = zip(program.templates, tables, self._columns, strict=True)
        words = (with_columns(device_table(t, table, bases), columns) for t, table, columns in known)
        self._rows = rows = [self._buffer(w) for w in words]  # which kernels do not keep alive
        for phase in program.phases:
            self._calls[phase.name] = [
                self._call(x, tables[x.template], rows[x.template], begins.get((phase.name, n)))
                for n, x in enumerate(phase.launches)
            ]
            self._watched[phase.name] = watched(program, phase, tables)

    def _call(self, x: l2.Launch, table: Any, rows: Any, first: int | None) -> _Call:
        template, paths = self.program.templates[x.template], self.program.tables[x.template].paths
        count = items(template, table, x.lo, x.hi)
        group = GROUP if count > 1 else 1
        kernel = self._cl.Kernel(self._binary, self._names[x.template])
        kernel.set_args(self._memory, rows, np.int64(x.lo), self._state)
        label = f"{template.name} (`{paths[x.lo] if x.lo < len(paths) else template.name}`)"
        size = (-(-count // group) * group, x.hi - x.lo)
        return _Call(kernel, size, (group, 1), x.every, x.offset, label, first)

    # ------------------------------------------------------------------------------------------ memory

    def _buffer(self, values: AnyArray) -> Any:
        """A buffer with a copy of `values`."""
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.COPY_HOST_PTR
        return self._cl.Buffer(self._context, flags, hostbuf=np.resize(values, max(values.size, 1)))

    def _allocate(self, size: int) -> None:
        """The zeroed buffer of all arrays. Raises BackendError (E0905)."""
        cl, room = self._cl, self._device.max_mem_alloc_size
        if self._memory is not None:
            self._memory.release()
        try:
            if size > room:
                raise cl.MemoryError
            self._memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, max(size, 64))
            cl.enqueue_fill_buffer(self._queue, self._memory, np.uint8(0), 0, max(size, 64))
        except cl.MemoryError:
            bill = sorted(self.placement.arena_bytes.items(), key=lambda x: -x[1])
            what = f"{bytes_text(size)} are needed, a buffer of {name_of(self._device)} has at most {bytes_text(room)}"
            needed = ", ".join(f"{role} {bytes_text(n)}" for role, n in bill if n > 0)
            raise BackendError("E0905", f"the device's memory is too small: {what}", f"needed: {needed}") from None

    def _span(self, name: str) -> tuple[int, int]:
        """Where an array begins in the buffer, and its number of elements. Raises KeyError."""
        return self._bases[self._arrays[name].role] + self.placement.offsets[name], self._size(name)

    def _get(self, name: str, first: int = 0) -> AnyArray:
        """An array from element `first` on (negative: from the end)."""
        start, size = self._span(name)
        dtype = self._arrays[name].dtype
        first = first if first >= 0 else size + first
        values: AnyArray = np.empty(size - first, dtype.numpy)
        if values.nbytes:
            self._cl.enqueue_copy(self._queue, values, self._memory, src_offset=start + first * dtype.bytes)
        return values

    def read(self, name: str) -> AnyArray:
        """A copy of an array's contents. Raises KeyError."""
        return self._get(name)

    def write(self, name: str, values: AnyArray) -> None:
        """Replace an array's contents. Raises KeyError; ValueError for another number of elements."""
        flat = np.ascontiguousarray(self._flat(name, values), self._arrays[name].dtype.numpy)
        if flat.nbytes:
            self._cl.enqueue_copy(self._queue, self._memory, flat, dst_offset=self._span(name)[0])
        if self._arrays[name].role is Role.EVENT:
            self._next = None

    # ----------------------------------------------------------------------------------------- running

    def _begin(self, phase: str, step: int) -> None:
        """Set the device's step and empty the lists of its slot, unless it is current."""
        if self._next == (phase, step):
            return
        self._cl.enqueue_copy(self._queue, self._state, np.array([step, 0], np.int64))
        for count, slots in self._watched[phase].rings:
            place = self._span(count)[0] + 4 * (step % slots)
            self._cl.enqueue_fill_buffer(self._queue, self._memory, np.int32(0), place, 4)

    def _launch(self, phase: str, step: int, count: int) -> None:
        """Run steps. Raises BackendError (E0949)."""
        launch, queue, calls = self._cl.enqueue_nd_range_kernel, self._queue, self._calls[phase]
        label = "a kernel"
        try:
            for now in range(step, step + count):
                for x, at in ((calls[n], at) for n, at in l2.in_order(len(calls), self._loops[phase])):
                    if x.size[0] and (x.every == 1 or now % x.every == x.offset):  # PoCL divides by a size of 0
                        if x.first is not None:
                            x.kernel.set_arg(2, np.int64(x.first + at * x.size[1]))
                        launch(queue, x.kernel, x.size, x.group)
                        if self._check:
                            label = x.label
                            queue.finish()
                launch(queue, self._advance, (1,), (1,))
                if (now - step) % TOGETHER == TOGETHER - 1:
                    queue.finish()
        except self._cl.Error as e:
            raise BackendError("E0949", f"{label} failed on {name_of(self._device)}: {e}", CHECK) from None

    def _room(self, phase: str) -> int | None:
        """How many steps fit into every record buffer; None: there is none. Raises BackendError (E0906) when one has
        overflowed."""
        buffers = self._watched[phase].buffers
        if not buffers:
            return None
        state = np.empty(2, np.int64)
        self._cl.enqueue_copy(self._queue, state, self._state)
        if state[1]:
            raise BackendError("E0906", "a record buffer was not drained in time")
        return min((room - int(self._get(used)[0])) // most * every for used, room, most, every in buffers)

    def run(self, phase: str, first_step: int, steps: int) -> int:
        """Run steps; returns how many ran: fewer where a record buffer could have overflowed."""
        if self._memory is None:
            raise ValueError("the instance is closed")
        self._begin(phase, first_step)
        done = 0
        while done < steps:
            room = self._room(phase)
            count = steps - done if room is None else min(steps - done, room)
            if count <= 0 or (done > 0 and count < min(FEW_STEPS, steps - done)):
                break
            self._launch(phase, first_step + done, count)
            done += count
        self._next = (phase, first_step + done)
        if steps > 1:
            self._queue.finish()
        return done

    def close(self) -> None:
        """Free the memory."""
        if self._memory is not None:
            self._queue.finish()
            self._memory.release()
            self._memory = None
            self._calls.clear()
