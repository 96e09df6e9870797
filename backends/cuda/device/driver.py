"""The parts of the CUDA driver that PyCUDA does not offer: a device in numbers, maps of tensors, and graphs.

Assumes: backends/cuda/device/library.py; graph calls run with PyCUDA's context current.
Guarantees: every status is checked; a failure is a BackendError with the driver's own words.
Does not: allocate, load modules or launch kernels (device.py does, through PyCUDA).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from backends.cuda.device.library import Library
from compiler.ir.level2.target import Target, generation
from compiler.strategies.cost.devices import lanes_of

_RELAXED: Final = 2
_WARP, _CLOCK, _PROCESSORS, _MEMORY_CLOCK, _BUS, _CACHE = 10, 13, 16, 36, 37, 38
_SHARED_ALL, _REGISTERS, _SHARED, _SHARED_KEPT = 81, 82, 97, 111
"""CUdevice_attribute; clocks are in kHz, the width of the bus in bits."""

_MAP, _TYPES = 128, {2: 9, 4: 11}
"""Bytes of a CUtensorMap; CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 and _TFLOAT32, by bytes of an element."""
_SWIZZLED: Final = (0, 3, 3, 0)
"""Of cuTensorMapEncodeTiled: no interleaving, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, zeros."""

_COOPERATIVE: Final = 2
"""CU_LAUNCH_ATTRIBUTE_COOPERATIVE; the union of values of a launch attribute has 64 bytes."""
_BUFFER, _BUFFER_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE."""
_PRIORITY, _BY_NODE = 8, 8
"""CU_LAUNCH_ATTRIBUTE_PRIORITY, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY."""
_EDGES: Final = ("cuGraphGetEdges_v2", "cuGraphRemoveDependencies_v2", "cuGraphAddDependencies_v2")
_PROGRAMMATIC: Final = (1, 0, 1, 0, 0, 0, 0, 0)
"""CUgraphEdgeData: from the port of kernels that let others begin, of type programmatic."""


class _KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("shape", ctypes.c_uint * 7),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Driver(Library):
    """libcuda, initialised. Raises BackendError (E0923, exit 3) where there is no driver or no device."""

    def target(self, ordinal: int) -> Target:
        """The device in numbers. Double data rate is assumed of its memory."""
        arch, shared = self.architecture(ordinal), self._attribute(ordinal, _SHARED_ALL)
        bandwidth = 2e-6 * self._attribute(ordinal, _MEMORY_CLOCK) * self._attribute(ordinal, _BUS) / 8
        return Target(
            self.name(ordinal),
            arch,
            self._attribute(ordinal, _PROCESSORS),
            self._attribute(ordinal, _SHARED),
            shared,
            self._attribute(ordinal, _REGISTERS),
            self._attribute(ordinal, _CLOCK) // 1000,
            round(bandwidth),
            16,
            (shared, self._attribute(ordinal, _CACHE)),
            self._attribute(ordinal, _WARP),
            lanes_of(generation(arch)),
            shared_kept=self._attribute(ordinal, _SHARED_KEPT),
        )

    # --------------------------------------------------------------------------------------- tensors

    def tensor_map(
        self,
        address: int,
        extents: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        size: int,
        corners: Sequence[tuple[int, int]] = (),
        steps: Sequence[int] = (),
    ) -> bytes:
        """The 128 bytes that tell the tensor copy engine of an array of elements of `size` bytes, bf16 or float32 that
        it rounds to tf32: extents and the box that is fetched at once in elements, the contiguous axis first; strides
        of the other axes in bytes. Lines of 128 bytes are swizzled in shared memory; what lies outside is 0. With
        `corners`, the box is of channels and pixels that are gathered from places from the first corner on to the last
        pixel and the second one, `steps` apart, along columns and rows."""
        rank = len(extents)
        room = ctypes.create_string_buffer(2 * _MAP)
        at = (ctypes.addressof(room) + _MAP // 2 - 1) // (_MAP // 2) * (_MAP // 2)
        array = (
            ctypes.c_void_p(at),
            ctypes.c_int(_TYPES[size]),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (ctypes.c_uint64 * rank)(*extents),
            (ctypes.c_uint64 * (rank - 1))(*strides),
        )
        swizzled = tuple(ctypes.c_int(x) for x in _SWIZZLED)
        if corners:
            edges = ((ctypes.c_int * len(corners))(*(x[end] for x in corners)) for end in (0, 1))
            sizes, apart = (ctypes.c_uint32(x) for x in box), (ctypes.c_uint32 * rank)(1, *steps, 1)
            self._call("cuTensorMapEncodeIm2col", *array, *edges, *sizes, apart, *swizzled)
        else:
            ones = (ctypes.c_uint32 * rank)(*(1 for _ in box))
            self._call("cuTensorMapEncodeTiled", *array, (ctypes.c_uint32 * rank)(*box), ones, *swizzled)
        return ctypes.string_at(at, _MAP)

    # --------------------------------------------------------------------------------------- graphs

    def begin_capture(self, stream: int) -> None:
        """Launches on the stream are captured from now on, not run."""
        self._call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _RELAXED)

    def captured(self, stream: int) -> frozenset[int]:
        """The nodes that have been captured so far from a stream and those that joined it."""
        graph, _ = self._capture(stream)
        many = ctypes.c_size_t()
        self._call("cuGraphGetNodes", graph, None, ctypes.byref(many))
        nodes = (ctypes.c_void_p * many.value)()
        if many.value:
            self._call("cuGraphGetNodes", graph, nodes, ctypes.byref(many))
        return frozenset(n for n in nodes if n is not None)

    def hurry(self, stream: int) -> None:
        """Blocks of the kernel that was captured last from a stream go before those of others."""
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self._call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        value = (ctypes.c_int * 16)(greatest.value)
        for node in self._capture(stream)[1]:
            self._call("cuGraphKernelNodeSetAttribute", ctypes.c_void_p(node), _PRIORITY, value)

    def _capture(self, stream: int) -> tuple[ctypes.c_void_p, tuple[int, ...]]:
        """The graph into which a stream is captured, and the nodes that its next launch depends on."""
        status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        ends, many = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
        found = tuple(ctypes.byref(x) for x in (status, number, graph, ends))
        if hasattr(self._lib, "cuStreamGetCaptureInfo_v2"):
            self._call("cuStreamGetCaptureInfo_v2", ctypes.c_void_p(stream), *found, ctypes.byref(many))
        else:
            kinds = ctypes.c_void_p()
            last = ctypes.byref(kinds), ctypes.byref(many)
            self._call("cuStreamGetCaptureInfo_v3", ctypes.c_void_p(stream), *found, *last)
        return graph, tuple(n for n in ends[: many.value] if n is not None)

    def give_up_capture(self, stream: int) -> None:
        """End a capture that failed, whatever it has."""
        graph = ctypes.c_void_p()
        if self._lib.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)) == 0:
            self._lib.cuGraphDestroy(graph)

    def end_capture(
        self,
        stream: int,
        early: bool,
        others: AbstractSet[int] = frozenset(),
        together: AbstractSet[int] = frozenset(),
    ) -> int:
        """An executable graph of the captured launches. `early`: kernels begin while those that they depend on still
        run, and wait themselves (nl_wait), but for `others`: nodes of libraries, and kernels whose blocks run
        together; with some of the latter, no kernel goes before others (`hurry`)."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        how = ctypes.c_ulonglong(0 if together else _BY_NODE)
        self._call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        try:
            self._run_together(together)
            if early:
                self._begin_early(graph, others)
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, how)
        finally:
            self._lib.cuGraphDestroy(graph)
        assert executable.value is not None
        return executable.value

    def _begin_early(self, graph: ctypes.c_void_p, others: AbstractSet[int]) -> None:
        """Turns the edges between kernels into programmatic ones, where the driver knows them (CUDA 12.3)."""
        if not all(hasattr(self._lib, f) for f in _EDGES):
            return
        get, remove, add = _EDGES
        many = ctypes.c_size_t()
        self._call(get, graph, None, None, None, ctypes.byref(many))
        if not many.value:
            return
        nodes, data = ctypes.c_void_p * many.value, ctypes.c_ubyte * (8 * many.value)
        begin, end, kinds = nodes(), nodes(), data()
        self._call(get, graph, begin, end, kinds, ctypes.byref(many))
        own = [n for n in range(many.value) if not {begin[n], end[n]} & others]
        found = [n for n in own if self._is_kernel(begin[n]) and self._is_kernel(end[n])]
        if not found:
            return
        chosen, count = ctypes.c_void_p * len(found), ctypes.c_size_t(len(found))
        ends = chosen(*(begin[n] for n in found)), chosen(*(end[n] for n in found))
        self._call(remove, graph, *ends, (ctypes.c_ubyte * (8 * len(found)))(), count)
        programmatic = (ctypes.c_ubyte * (8 * len(found)))(*(_PROGRAMMATIC * len(found)))
        self._call(add, graph, *ends, programmatic, count)

    def _run_together(self, nodes: AbstractSet[int]) -> None:
        """All blocks of these kernels of a graph run at the same time, so that they may wait for each other. Such
        kernels must have their arguments one by one."""
        value = (ctypes.c_int * 16)(1)
        for node in map(ctypes.c_void_p, nodes):
            found = _KernelNode()
            self._call("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(found))
            if found.extra:
                words = ctypes.cast(found.extra, ctypes.POINTER(ctypes.c_void_p))
                named = {words[k]: words[k + 1] for k in (0, 2)}
                size = ctypes.cast(named[_BUFFER_SIZE] or 0, ctypes.POINTER(ctypes.c_size_t))[0]
                places = [(named[_BUFFER] or 0) + at for at in range(0, size, 8)]
                found.parameters = ctypes.cast((ctypes.c_void_p * len(places))(*places), ctypes.c_void_p)
                found.extra = None
                self._call("cuGraphKernelNodeSetParams_v2", node, ctypes.byref(found))
            self._call("cuGraphKernelNodeSetAttribute", node, _COOPERATIVE, value)

    def _is_kernel(self, node: int | None) -> bool:
        kind = ctypes.c_int(-1)
        self._call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        return kind.value == 0

    def launch(self, executable: int, stream: int) -> None:
        self._call("cuGraphLaunch", ctypes.c_void_p(executable), ctypes.c_void_p(stream))

    def destroy(self, executable: int) -> None:
        self._lib.cuGraphExecDestroy(ctypes.c_void_p(executable))
