"""load: a compiled module with its memory on a GPU.

Assumes: an Artifact of this backend and the merged program that it was emitted from.
Guarantees: one allocation per role (zeroed, then filled with the constants); relations are drawn on the device, and
only their sizes come to the host, after the phases `count` and `scan`; then dependent arrays are placed. A run stops
before a record buffer can overflow.
Does not: drain record buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

import compiler.ir.level2.program as l2
from backends.cuda.device.device import Device
from backends.cuda.run.cuda_graphs import ExecutionMode, KernelCall, LibraryCall, run_checked, run_steps
from backends.cuda.run.load_plan import Prepared, prepare
from backends.protocol import AnyArray, Artifact, BackendError, PlacedInstance
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import Placement, place, written
from compiler.layout.write_tables import write_tables

MOST_STEPS: Final = 64
"""Of a block of steps whose events are recorded."""

RECORDED_STEPS: Final = 4 * MOST_STEPS
"""Steps in which every neuron spikes that a buffer of spikes holds, so that a block is the most steps."""

APART: Final = 1 << 30
"""Bytes of WORK arrays up to which they share no memory."""

ANSWERS: Final = 4
"""Questions to the device that may be open."""


class CudaInstance(PlacedInstance):
    """A loaded program with its memory; see backends.protocol.Instance. With `check`, the host synchronises after every
    kernel, so that a fault is reported with the kernel's name. `way`: see CudaBackend."""

    def __init__(
        self,
        artifact: Artifact,
        program: l2.Merged,
        seed: int,
        device: int = 0,
        check: bool = False,
        way: ExecutionMode | None = None,
    ) -> None:
        super().__init__(program)
        self._check, self._kernels = check, artifact.kernels
        self.placement = Placement({}, {}, 0)
        self._arenas: dict[Role, Any] = {}
        self._next: tuple[str, int] | None = None  # the next phase and step of the device
        self._closed = False
        self._device = Device(device)
        self._prepared = Prepared(self._device)
        with self._device.current():
            self._device.load(artifact)
            self._own = self._device.allocate(16 * (1 + ANSWERS), {})
            self._answers = self._device.pinned(2 * ANSWERS)
            step = int(self._own)
            self._device.set_global("nl_run", np.array([step, step + 8], np.uint64))
            self._load(seed)
            self._device.synchronize()
        for name in (*l2.CONNECT_PHASES, *l2.INIT_PHASES):
            self._prepared.plans.pop(name, None)
        for plan in self._prepared.plans.values():
            plan.way = way

    # ----------------------------------------------------------------------------------------- loading

    def _ends(self, names: Iterable[str]) -> dict[str, int]:
        """One copy for each arena."""
        found, sources = dict[str, int](), [self._arrays[name] for name in names]
        for role in {a.role for a in sources}:
            used = [a for a in sources if a.role is role]
            ends = {a.name: self.placement.offsets[a.name] + (a.physical_size - 1) * 8 for a in used}
            first, last = min(ends.values()), max(ends.values()) + 8
            part = np.empty((last - first) // 8, np.int64)
            self._device.download(int(self._arenas[role]) + first, part)
            for name, end in ends.items():
                found[name] = int(part[(end - first) // 8])
        return found

    def _once(self, phase: str) -> None:
        self._start(phase, 0)
        for call in run_checked(self._device, self._prepared.plans[phase], 0, 1):
            self._wait(call)

    def _place(self, seed: int) -> None:
        """Arenas that do not grow stay as they are."""
        program, device = self.program, self._device
        placement = place(program, self.sizes, APART)
        bytes_of, before = (x.arena_bytes for x in (placement, self.placement))
        grown = {r for r in Role if r not in self._arenas or bytes_of.get(r, 0) != before.get(r, 0)}
        found = written(program, l2.CONNECT_PHASES) if self.sizes else ()
        kept = {n: self._get(n) for n in found if self._arrays[n].role in grown}
        bill = {str(r): n for r, n in bytes_of.items()}
        self._prepared.free()
        for role in grown.intersection(self._arenas):
            self._arenas.pop(role).free()
        for role in Role:
            if role in grown:
                self._arenas[role] = device.allocate(bytes_of.get(role, 0), bill)
        self.placement = placement
        for name, values in {**program.constants, **kept}.items():
            if self._arrays[name].role in grown and name in placement.offsets:
                self._put(name, values)
        tables = write_tables(program, placement, seed, self.sizes)
        bases = np.array([int(self._arenas[r]) for r in Role], np.uint64)
        self._prepared = prepare(device, program, self._kernels, tables, bases, placement, self.sizes, self._address)

    # ------------------------------------------------------------------------------------------ memory

    def _address(self, name: str) -> int:
        return int(self._arenas[self._arrays[name].role]) + self.placement.offsets[name]

    def _get(self, name: str, count: int | None = None) -> AnyArray:
        size = self._size(name)
        dtype = self._arrays[name].dtype
        values = np.empty(size if count is None else min(count, size), dtype.numpy)
        self._device.download(self._address(name), values)
        return widened(values) if dtype is DType.BF16 else values

    def _put(self, name: str, values: AnyArray) -> None:
        flat, dtype = self._flat(name, values), self._arrays[name].dtype
        flat = narrowed(flat) if dtype is DType.BF16 else flat.astype(dtype.numpy, copy=False)
        self._device.upload(self._address(name), flat)

    def read(self, name: str, count: int | None = None) -> AnyArray:
        """A copy of an array's contents (of its first `count` elements). Raises KeyError."""
        with self._device.current():
            return self._get(name, count)

    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, AnyArray]]:
        """Names and contents of several arrays, by address: one transfer for those that lie together. Raises
        KeyError."""
        placed: dict[Role, list[Placed]] = {}
        for name in names:
            array = self._arrays[name]
            placed.setdefault(array.role, []).append((self._address(name), name, array.dtype.bytes * self._size(name)))
        for group in (group for arrays in placed.values() for group in neighbours(arrays)):
            start = group[0][0]
            values = np.empty(max(address + size for address, _, size in group) - start, np.uint8)
            with self._device.current():
                self._device.download(start, values)
            for address, name, size in group:
                dtype = self._arrays[name].dtype
                part = values[address - start :][:size].view(dtype.numpy)
                yield name, widened(part) if dtype is DType.BF16 else part

    def write(self, name: str, values: AnyArray) -> None:
        """Replace an array's contents. Raises KeyError; ValueError for another number of elements."""
        with self._device.current():
            self._put(name, values)
        if self._arrays[name].role is Role.EVENT:
            self._next = None

    # ----------------------------------------------------------------------------------------- running

    def _start(self, phase: str, step: int) -> None:
        """Set the device's step, unless it is current."""
        if self._next != (phase, step):
            watch = self._prepared.watch[phase]
            grid = max(1, min(64, watch.ring_count // 256))
            self._device.call("nl_begin", "Pqq", grid, 256, watch.rings, watch.ring_count, step)

    def _ask(self, phase: str, number: int) -> None:
        """Have the device write, into answer `number`, how many steps fit into every record buffer."""
        watch = self._prepared.watch[phase]
        out = int(self._own) + 16 * (1 + number)
        self._device.call("nl_room", "PqP", 1, 256, watch.buffers, watch.buffer_count, out)
        self._device.download_later(out, self._answers[2 * number : 2 * number + 2])

    def _answer(self, number: int) -> int:
        """The device's answer. Raises BackendError when a buffer has overflowed."""
        room, status = (int(x) for x in self._answers[2 * number : 2 * number + 2])
        if status != 0:
            raise _not_drained()
        return room

    def _wait(self, call: KernelCall | LibraryCall) -> None:
        """With `check`: wait for a call, and name it when it fails."""
        if not self._check:
            return
        try:
            self._device.synchronize()
        except Exception as e:
            raise BackendError("E0924", f"{call.label} failed on the GPU: {e}") from None

    def run(self, phase: str, first_step: int, steps: int) -> int:
        """Run steps; returns how many ran: fewer where a record buffer could have overflowed. Synchronises with the
        device only where necessary, and at the end of more than one step."""
        if self._closed:
            raise ValueError("the instance is closed")
        with self._device.current():
            self._start(phase, first_step)
            if self._prepared.watch[phase].buffer_count == 0:
                self._launch(phase, first_step, steps)
                done = steps
            else:
                done = self._run_recorded(phase, first_step, steps)
            self._next = (phase, first_step + done)
            if steps > 1:
                self._device.synchronize()
        return done

    def timed(self, phase: str, first_step: int, steps: int) -> float:
        """Run steps of a phase without recording; returns the seconds between events before and after them, of the
        second run: one-time preparation (graphs) is not counted."""
        self.run(phase, first_step, steps)
        with self._device.current():
            self._start(phase, first_step)
            begin = self._device.mark(timing=True)
            self._launch(phase, first_step, steps)
            end = self._device.mark(timing=True)
            end.synchronize()
            self._next = (phase, first_step + steps)
            return float(end.time_since(begin)) / 1000

    def _launch(self, phase: str, step: int, count: int) -> None:
        if not self._check:
            run_steps(self._device, self._prepared.plans[phase], step, count)
            return
        for call in run_checked(self._device, self._prepared.plans[phase], step, count):
            self._wait(call)

    def _run_recorded(self, phase: str, first_step: int, steps: int) -> int:
        """Steps are launched in blocks that fit into the free space of the buffers as last reported by the device. It
        is queried again after each block, and answers while the next ones run: blocks are a quarter of that space, and
        a power of two, so that few graphs occur and two or three of them are under way."""
        self._ask(phase, 0)
        self._device.synchronize()
        room, since, done, number = self._answer(0), 0, 0, 0  # steps launched since the query
        if room == 0:
            return 0
        asked: deque[tuple[int, int, Any]] = deque()
        block = 1 << max(min(room // 4, MOST_STEPS), 1).bit_length() - 1
        while done < steps:
            count = min(steps - done, block)
            if room - since < count and asked:
                slot, then, event = asked.popleft()
                event.synchronize()
                room, since = self._answer(slot), done - then
                continue
            if room - since < count:
                break
            self._launch(phase, first_step + done, count)
            done, since = done + count, since + count
            if len(asked) < ANSWERS - 1:
                number = (number + 1) % ANSWERS
                self._ask(phase, number)
                asked.append((number, done, self._device.mark()))
        return done

    @property
    def measured(self) -> Mapping[str, str]:
        """Phases with several execution modes: the mode used."""
        found = {n: p.way for n, p in self._prepared.plans.items() if len(p.ways) > 1}
        return {phase: way or "graphs (too few steps to measure)" for phase, way in found.items()}

    def close(self) -> None:
        """Free the memory."""
        if self._closed:
            return
        self._closed = True
        with self._device.current():
            self._device.synchronize()
            self._prepared.free()
            for memory in (*self._arenas.values(), self._own):
                memory.free()
        self._arenas.clear()


def _not_drained() -> BackendError:
    return BackendError("E0906", "a record buffer was not drained in time")


def widened(bits: AnyArray) -> AnyArray:
    """The float32 that elements of a BF16 array are."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrowed(values: AnyArray) -> AnyArray:
    """The bits of the nearest bf16, half-way cases to even."""
    flat = values.astype(np.float32)
    bits = flat.view(np.uint32)
    near = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(flat), np.uint32(0x7FFF), near).astype(np.uint16)


Placed = tuple[int, str, int]
"""Address, name and bytes of an array."""
GAP: Final = 4096
"""Bytes that are transferred in vain rather than by another call."""
MOST: Final = 1 << 26
"""Bytes of one transfer of several arrays."""


def neighbours(arrays: Iterable[Placed]) -> list[list[Placed]]:
    """The arrays by address, in groups that one transfer each brings."""
    groups: list[list[Placed]] = []
    end = 0
    for address, name, size in sorted(arrays):
        if groups and address <= end + GAP and address + size - groups[-1][0][0] <= MOST:
            groups[-1].append((address, name, size))
        else:
            groups.append([(address, name, size)])
        end = address + size
    return groups
