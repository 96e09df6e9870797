"""load: a compiled module with its memory, called through ctypes.

Assumes: an Artifact of this backend and the merged program that it was emitted from.
Guarantees: every array is a view of an arena (64-byte aligned, zeroed, then filled with the constants); sizes that
depend on drawn connections are read back after the phases `count` and `scan`, and all arrays are placed again. During a
long call, the main thread handles signals; a signal handler that raises does not wait for the call, and later accesses
to the arrays do.
Does not: drain record buffers.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cpu.kernels import toeplitz_simd as channels
from backends.cpu.run.loops import Loops, loops_of
from backends.protocol import AnyArray, Artifact, BackendError, PlacedInstance
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement, place, written
from compiler.layout.write_tables import with_columns, write_tables

LONG: Final = 0.05
"""Seconds from which on a call has a thread of its own; it costs about 0.1 ms."""
Words = npt.NDArray[np.uint64]


def aligned_zeros(size: int, alignment: int = 64) -> npt.NDArray[np.uint8]:
    """`size` zero bytes aligned to `alignment`, with no page touched yet."""
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


@cache
def _library(binary: Path) -> ctypes.CDLL:
    """The shared object with the types of its functions."""
    try:
        lib = ctypes.CDLL(str(binary))
    except OSError as e:
        raise BackendError(
            "E0904",
            f"the compiled module cannot be loaded: {e}",
            "it may have been compiled on another machine: `netloom clean`, or build with --portable",
        ) from None
    pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    for name, result, arguments in (
        ("nl_create", pointer, []),
        ("nl_destroy", None, [pointer]),
        ("nl_set_arena", None, [pointer, i32, pointer]),
        ("nl_set_scratch", None, [pointer, pointer]),
        ("nl_set_table", None, [pointer, i32, pointer]),
        ("nl_set_phase", i32, [pointer, i32, pointer, i64]),
        ("nl_run", i64, [pointer, i32, i64, i64]),
        ("nl_status", i32, [pointer]),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def set_loops(lib: ctypes.CDLL, context: int | None, loops: Sequence[Loops]) -> None:
    """Of all phases."""
    for number, x in enumerate(loops):
        pointers = (
            ctypes.c_void_p(x.loops.ctypes.data),
            ctypes.c_int64(len(x.loops)),
            ctypes.c_void_p(x.moves.ctypes.data),
        )
        lib.nl_set_loops(ctypes.c_void_p(context), number, *pointers)


def launch_lists(program: l2.Merged) -> tuple[npt.NDArray[np.int64], ...]:
    """Per phase: rows (kernel, lo, hi, every, offset)."""
    return tuple(
        np.array([(x.template, x.lo, x.hi, x.every, x.offset) for x in phase.launches], np.int64).reshape(-1, 5)
        for phase in program.phases
    )


def scratch_bytes(program: l2.Merged, tables: tuple[Words, ...]) -> int:
    """Maximum scratch memory of a row of a contraction or a convolution of events."""
    most = 0
    for template, table in zip(program.templates, tables, strict=True):
        most = max(most, channels.scratch_bytes(template, table))
        if isinstance(template.body, l2.Contract) and template.body.scratch is not None:
            column = [f.name for f in template.formals].index(template.body.scratch)
            most = max(most, int(table[:, column].view(np.int64).max(initial=0)))
    return most


class CpuInstance(PlacedInstance):
    """A loaded program with its memory; see backends.protocol.Instance."""

    def __init__(self, artifact: Artifact, program: l2.Merged, seed: int) -> None:
        super().__init__(program)
        self._lib = _library(artifact.binary)
        self._kernels = artifact.kernels
        self._ctx: int | None = self._lib.nl_create()
        if not self._ctx:
            raise BackendError("E0905", "out of memory")
        self.arenas: dict[Role, npt.NDArray[np.uint8]] = {}
        self._pace: dict[str, float] = {}  # seconds that a step of a phase took the last time
        self._running: threading.Thread | None = None
        self._launches = launch_lists(program)
        for number, launches in enumerate(self._launches):
            if self._lib.nl_set_phase(self._ctx, number, launches.ctypes.data, len(launches)) != 0:
                raise BackendError("E0903", "the program has too many phases")
        self._load(seed)

    def _once(self, phase: str) -> None:
        self.run(phase, 0, 1)

    def _ends(self, names: Iterable[str]) -> dict[str, int]:
        return {name: int(self.view(name)[-1]) for name in names}

    def _place(self, seed: int) -> None:
        old = {n: self.read(n) for n in written(self.program, l2.CONNECT_PHASES) if self.sizes}
        self.placement: Placement = place(self.program, self.sizes)
        for number, role in enumerate(Role):
            size = self.placement.arena_bytes.get(role, 0)
            try:
                self.arenas[role] = aligned_zeros(size + 64)
            except MemoryError:
                bill = ", ".join(f"{r} {b / 2**20:.0f} MB" for r, b in self.placement.arena_bytes.items() if b)
                raise BackendError("E0905", f"out of memory: {bill}") from None
            self._lib.nl_set_arena(self._ctx, number, self.arenas[role].ctypes.data)
        tables = write_tables(self.program, self.placement, seed, self.sizes)
        self.tables = tuple(with_columns(t, k.columns) for t, k in zip(tables, self._kernels, strict=True))
        for number, table in enumerate(self.tables):
            self._lib.nl_set_table(self._ctx, number, table.ctypes.data)
        if self.program.has_loops:
            self._loops = loops_of(self.program, self.tables, self._kernels)
            set_loops(self._lib, self._ctx, self._loops)
        self._scratch = aligned_zeros(scratch_bytes(self.program, tables) + 64)
        self._lib.nl_set_scratch(self._ctx, self._scratch.ctypes.data)
        for name, values in {**self.program.constants, **old}.items():
            if name in self.placement.offsets:
                self.write(name, values)

    # ------------------------------------------------------------------------------------ protocol

    def view(self, name: str) -> AnyArray:
        """The array itself, flat, in physical layout, without a copy. Raises KeyError."""
        self._wait()
        array = self._arrays[name]
        start = self.placement.offsets[name]
        stop = start + self._size(name) * array.dtype.bytes
        return self.arenas[array.role][start:stop].view(array.dtype.numpy)

    def read(self, name: str) -> AnyArray:
        return self.view(name).copy()

    def read_each(self, names: Iterable[str]) -> Iterator[tuple[str, AnyArray]]:
        """Names and contents of several arrays. Raises KeyError."""
        return ((name, self.view(name)) for name in names)

    def write(self, name: str, values: AnyArray) -> None:
        """Replace an array's contents. Raises KeyError; ValueError for another number of elements."""
        self.view(name)[:] = self._flat(name, values)

    def run(self, phase: str, first_step: int, steps: int) -> int:
        if self._ctx is None:
            raise ValueError("the instance is closed")
        self._wait()
        begin = time.perf_counter()
        done = self._call(phase, first_step, steps)
        self._pace[phase] = (time.perf_counter() - begin) / max(done, 1)
        status = int(self._lib.nl_status(self._ctx))
        if status == 1:
            raise BackendError("E0906", "a record buffer was not drained in time")
        if status == 2:
            raise BackendError("E0905", "out of memory while connecting")
        return done

    def uninterrupted(self, phase: str) -> Callable[[int, int], int] | None:
        if self._ctx is None or self._running is not None:
            return None
        return partial(self._lib.nl_run, self._ctx, self._phases[phase])

    def _call(self, phase: str, first_step: int, steps: int) -> int:
        """nl_run: in a separate thread where it may take long, since Python handles signals only between instructions
        of the main thread."""
        arguments = (self._ctx, self._phases[phase], first_step, steps)
        seconds = self._pace.get(phase, LONG) * steps
        if seconds < LONG or threading.current_thread() is not threading.main_thread():
            return int(self._lib.nl_run(*arguments))
        done: list[int] = []
        # It keeps a reference to this instance, so that its memory outlives the main thread's call.
        thread = threading.Thread(target=lambda: done.append(self._lib.nl_run(*arguments)), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no room for its stack
            return int(self._lib.nl_run(*arguments))
        self._running = thread
        self._wait()
        return int(done[0])

    def _wait(self) -> None:
        """Wait for the call that runs. A signal whose handler raises ends the wait, not the call."""
        if self._running is not None and threading.current_thread() is not self._running:
            self._running.join()
            self._running = None

    def close(self) -> None:
        if self._ctx is not None and not (self._running is not None and self._running.is_alive()):
            self._lib.nl_destroy(self._ctx)
            self._ctx = None

    def __del__(self) -> None:
        if getattr(self, "_ctx", None) is not None:
            self.close()
