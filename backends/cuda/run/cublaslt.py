"""cublaslt: NVIDIA's library of matrix products, through ctypes.

Assumes: the package `nvidia-cublas` (extra `cuda-libraries`); a current context when a product is prepared and run.
Guarantees: nothing is loaded before a program that calls it; what a product needs is prepared once, so that a run is
one call, which may be captured. Every status is checked.
Does not: choose (compiler/strategies/cuda/vendor/cublaslt.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from backends.cuda.kernels.launch_geometry import WORKSPACE
from backends.cuda.run.libraries import Array, Library, aligned
from backends.protocol import BackendError
from compiler.ir.space import DType
from compiler.strategies.cuda.vendor.cublaslt import KINDS
from compiler.strategies.cuda.vendor.libraries import ALIGNED

LIBRARY: Final = Library("cuBLASLt", "nvidia-cublas", ("libcublasLt.so.13", "cublasLt64_13.dll"), "cublasLtCreate")
STRATEGIES: Final = frozenset(KINDS)
_COMPUTE: Final = {"cublaslt_tf32": 77, "cublaslt_bf16": 75}
"""cublasComputeType_t: CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_16BF; else CUBLAS_COMPUTE_32F."""
_COMPUTE_32F: Final = 68
_TYPES: Final = {DType.F32: 0, DType.BF16: 14}
"""cudaDataType: CUDA_R_32F, CUDA_R_16BF."""
_BATCH_COUNT, _BATCH_OFFSET = 5, 6
"""cublasLtMatrixLayoutAttribute_t."""
_TURN_A, _TURN_B = 3, 4
"""cublasLtMatmulDescAttributes_t."""
_MOST_ROOM, _SCHEMES, _ALIGNED = 1, 3, (5, 6, 7, 8)
"""cublasLtMatmulPreferenceAttributes_t: bytes of workspace; how parts of sums are added up; alignment of A, B, C, D."""
_ORDERED: Final = 6
"""CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE and _OUTPUT_TYPE: in the workspace, in order."""
PROPOSED: Final = 8
"""Of which those are taken that fit."""


class _Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("room", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def product(
    strategy: str, columns: Mapping[str, int], arrays: Mapping[str, Array], stream: int
) -> Callable[[int], None]:
    """What runs a product on a stream. `columns`: of its strategy; `arrays`: x0, x1, y and the workspace. It runs once
    on `stream`: the library loads kernels when it first needs them, which may not be captured."""
    library, handle = LIBRARY.opened()

    def make(function: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        LIBRARY.check(function, getattr(library, function)(ctypes.byref(made), *arguments))
        return made

    def put(function: str, of: ctypes.c_void_p, which: int, value: Any) -> None:
        status = getattr(library, function)(of, which, ctypes.byref(value), ctypes.sizeof(value))
        LIBRARY.check(function, status)

    get = columns.__getitem__
    names = f"x{get('s_first')}", f"x{1 - get('s_first')}", "y"
    rows, cols, terms = get("s_rows"), get("s_cols"), get("s_terms")
    described = make("cublasLtMatmulDescCreate", _COMPUTE.get(strategy, _COMPUTE_32F), _TYPES[DType.F32])
    layouts = []
    for array, name, (height, width) in zip(names, "abd", ((rows, terms), (terms, cols), (rows, cols)), strict=True):
        shape = (width, height) if get(f"s_turned_{name}") else (height, width)
        sizes = (ctypes.c_uint64(n) for n in shape)
        layout = make(
            "cublasLtMatrixLayoutCreate", _TYPES[arrays[array][1]], *sizes, ctypes.c_int64(get(f"s_ld_{name}"))
        )
        put("cublasLtMatrixLayoutSetAttribute", layout, _BATCH_COUNT, ctypes.c_int32(get("s_batch")))
        put("cublasLtMatrixLayoutSetAttribute", layout, _BATCH_OFFSET, ctypes.c_int64(get(f"s_by_{name}")))
        layouts.append(layout)
    for which, name in ((_TURN_A, "a"), (_TURN_B, "b")):
        put("cublasLtMatmulDescSetAttribute", described, which, ctypes.c_int32(get(f"s_turned_{name}")))
    preference = make("cublasLtMatmulPreferenceCreate")
    put("cublasLtMatmulPreferenceSetAttribute", preference, _MOST_ROOM, ctypes.c_uint64(get("s_room")))
    put("cublasLtMatmulPreferenceSetAttribute", preference, _SCHEMES, ctypes.c_uint32(_ORDERED))
    at = [ctypes.c_void_p(arrays[name][0]) for name in names]
    for which, place in zip(_ALIGNED, (at[0], at[1], at[2], at[2]), strict=True):
        multiple = min(ALIGNED, (place.value or 0) & -(place.value or 0))
        put("cublasLtMatmulPreferenceSetAttribute", preference, which, ctypes.c_uint32(multiple))
    proposals, many = (_Proposal * PROPOSED)(), ctypes.c_int()
    parts = (*layouts, layouts[2])
    status = library.cublasLtMatmulAlgoGetHeuristic(
        handle, described, *parts, preference, PROPOSED, proposals, ctypes.byref(many)
    )
    library.cublasLtMatmulPreferenceDestroy(preference)
    LIBRARY.check("cublasLtMatmulAlgoGetHeuristic", status)
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    given = [ctypes.byref(one), at[0], layouts[0], at[1], layouts[1], ctypes.byref(zero)]
    given += [at[2], layouts[2], at[2], layouts[2]]
    room = aligned(arrays[WORKSPACE]), ctypes.c_size_t(get("s_room"))
    wanted, runs = get("s_tile") + 1, list[Callable[[int], int]]()
    for best in (*(ctypes.byref(x) for x in proposals[: many.value] if x.state == 0), None):
        run = partial(_run, library, (handle, described, *given, best, *room), (one, zero, proposals))
        if run(stream) == 0:  # not all that are proposed do
            runs.append(run)
        if len(runs) == wanted:
            break
    if not runs:
        raise BackendError("E0924", "cuBLASLt has no algorithm for a product")
    return partial(_checked, runs[-1])


def _checked(run: Callable[[int], int], stream: int) -> None:
    LIBRARY.check("cublasLtMatmul", run(stream))


def _run(library: Any, given: tuple[Any, ...], kept: object, stream: int) -> int:
    """The status. `kept`: what `given` points to."""
    return int(library.cublasLtMatmul(*given, ctypes.c_void_p(stream)))
