"""One GPU through PyCUDA: its context, stream, module, memory and launches. PyCUDA is imported here, when it is used.

Assumes: the primary context of the device, shared with other users of it in this process.
Guarantees: everything runs on one stream in order; copies with the host wait for it; failures are BackendErrors:
E0905 (out of memory, with the bill), E0922 (code for another architecture), E0923 (no device), E0924 (a fault).
Does not: depend on programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np

from backends.cuda.device.driver import Driver
from backends.cuda.device.library import CHECK
from backends.protocol import AnyArray, Artifact, BackendError
from compiler.core.disk import bytes_text

_ARGUMENTS: Final = "PPqqPq"  # NL_ARGUMENTS of templates/module.cu.j2
EARLY_FROM: Final = 90
"""Architecture from which on kernels of a graph begin before those that they wait for have ended (nl_wait)."""
BRANCHES: Final = 8
"""Streams of a graph, at most."""
_MOST_AT_ONCE: Final = 1 << 30


@cache
def _primary(ordinal: int) -> Any:
    """The primary context of a device; it stays for as long as the process."""
    import pycuda.driver as cuda

    cuda.init()
    return cuda.Device(ordinal).retain_primary_context()


class Device:
    """A device with one stream and, after `load`, one module."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.driver = Driver()
        self.target = self.driver.target(ordinal)
        self.arch = self.target.architecture
        try:
            import pycuda.driver as cuda
        except ImportError as e:
            raise BackendError("E0923", f"PyCUDA cannot be used: {e}", "pip install 'netloom[cuda]'") from None
        self._cuda: Any = cuda
        self._context = _primary(ordinal)
        self._functions: dict[str, Any] = {}
        self._sides: list[Any] = []
        self.begins_early = False  # whether kernels wait for preceding ones themselves (programmatic dependent launch)
        with self.current():
            self.stream: Any = cuda.Stream()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the context current; PyCUDA's errors become BackendErrors."""
        self._context.push()
        try:
            yield
        except self._cuda.Error as e:
            raise BackendError("E0924", f"the GPU failed: {e}", CHECK) from None
        finally:
            self._cuda.Context.pop()

    # ------------------------------------------------------------------------------------- modules

    def load(self, artifact: Artifact) -> None:
        """Load all cubins, or their PTX, if there is any, where the device has a later architecture."""
        built = next((f.split("=")[1] for f in artifact.flags if f.startswith("--gpu-architecture=")), self.arch)
        here, there = _number(self.arch), _number(built)
        self.begins_early = there >= EARLY_FROM
        suffix = ".cubin" if here // 10 == there // 10 and here >= there else ".ptx"
        images = [binary.with_suffix(suffix) for binary in (artifact.binary, *artifact.beside)]
        if here < there or not all(image.is_file() for image in images):
            raise BackendError(
                "E0922",
                f"the code was compiled for {built}, but device {self.ordinal} "
                f"({self.driver.name(self.ordinal)}) is {self.arch}",
                f"build with --arch {self.arch}",
            )
        try:
            self._code = [image.read_bytes() for image in images]
            self.modules = [self._cuda.module_from_buffer(code) for code in self._code]
        except self._cuda.Error as e:
            raise BackendError(
                "E0904", f"the compiled module cannot be loaded: {e}", "`netloom clean`, then build again"
            ) from None

    def set_global(self, name: str, values: AnyArray) -> None:
        """Write a global variable present in every module."""
        for module in self.modules:
            place, size = module.get_global(name)
            assert values.nbytes == size, name
            self._cuda.memcpy_htod(place, values)

    # -------------------------------------------------------------------------------------- memory

    def allocate(self, size: int, bill: Mapping[str, int]) -> Any:
        """`size` zero bytes. `bill`: the program's memory by kind, for the message when it does not fit."""
        try:
            memory = self._cuda.mem_alloc(max(size, 64))
        except self._cuda.MemoryError:
            free, total = self._cuda.mem_get_info()
            items = ", ".join(
                f"{kind} {bytes_text(n)}" for kind, n in sorted(bill.items(), key=lambda x: -x[1]) if n > 0
            )
            raise BackendError(
                "E0905",
                f"the GPU's memory is too small: {bytes_text(sum(bill.values()))} are needed, "
                f"{bytes_text(free)} of {bytes_text(total)} are free",
                f"needed: {items}",
            ) from None
        place = int(memory)
        for start in range(0, max(size, 64), _MOST_AT_ONCE):
            count = min(_MOST_AT_ONCE, max(size, 64) - start)
            self._cuda.memset_d8_async(place + start, 0, count, self.stream)
        return memory

    def upload(self, place: int, values: AnyArray) -> None:
        """Copy to the device, after all earlier launches."""
        if values.nbytes:
            self.stream.synchronize()
            self._cuda.memcpy_htod(place, np.ascontiguousarray(values))

    def download(self, place: int, values: AnyArray) -> None:
        """Fill `values` from the device, after all earlier launches."""
        if values.nbytes:
            self.stream.synchronize()
            self._cuda.memcpy_dtoh(values, place)

    def pinned(self, count: int) -> AnyArray:
        """Pinned host memory for asynchronous copies; int64."""
        memory: AnyArray = self._cuda.pagelocked_empty(count, np.int64)
        return memory

    def download_later(self, place: int, values: AnyArray) -> None:
        self._cuda.memcpy_dtoh_async(values, place, self.stream)

    # ------------------------------------------------------------------------------------- launches

    def _function(self, name: str, arguments: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._find(name).prepare(list(arguments))
        return self._functions[name]

    def _find(self, name: str) -> Any:
        """The kernel, in the module that contains it."""
        there = (module for module, code in zip(self.modules, self._code, strict=True) if has_kernel(code, name))
        return next(there, self.modules[-1]).get_function(name)

    def launch(
        self,
        name: str,
        grid: int,
        block: int,
        arguments: tuple[int, ...],
        stream: Any | None = None,
        shared: int = 0,
    ) -> None:
        """Launch a kernel with the common arguments of all kernels, and `shared` bytes of dynamic shared memory."""
        where = self.stream if stream is None else stream
        function = self._function(name, _ARGUMENTS)
        function.prepared_async_call((grid, 1, 1), (block, 1, 1), where, *arguments, shared_size=shared)

    def room(self, name: str) -> int:
        """Maximum dynamic shared memory of a kernel in bytes, which is enabled by this call."""
        function = self._function(name, _ARGUMENTS)
        room = self.target.shared_block - int(function.shared_size_bytes)
        function.set_attribute(self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, room)
        return room

    def streams(self, count: int) -> list[Any]:
        """The device's stream and others beside it, `count` in all."""
        while len(self._sides) < count - 1:
            self._sides.append(self._cuda.Stream())
        return [self.stream, *self._sides[: count - 1]]

    def mark(self, stream: Any | None = None, timing: bool = False) -> Any:
        """Records an event on a stream (default: the device's)."""
        event = self._cuda.Event() if timing else self._cuda.Event(self._cuda.event_flags.DISABLE_TIMING)
        event.record(self.stream if stream is None else stream)
        return event

    def call(self, name: str, types: str, grid: int, block: int, *arguments: int) -> None:
        """Launch one of the module's own helpers."""
        self._function(name, types).prepared_async_call((grid, 1, 1), (block, 1, 1), self.stream, *arguments)

    def synchronize(self) -> None:
        self.stream.synchronize()


def has_kernel(code: bytes, name: str) -> bool:
    """Whether a cubin or PTX has a kernel."""
    return f".text.{name}\0".encode() in code or f".entry {name}(".encode() in code


def _number(arch: str) -> int:
    """90 of sm_90, 103 of sm_103a."""
    found = re.search(r"\d+", arch)
    return int(found[0]) if found else 0
