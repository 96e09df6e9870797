"""cudnn: NVIDIA's library of convolutions, through ctypes.

Assumes: the package `nvidia-cudnn-cu13` (extra `cuda-libraries`); a current context when a convolution is prepared and
run.
Guarantees: nothing is loaded before a program that calls it; what a convolution needs is prepared once, so that a run
is two calls, which may be captured. Every status is checked. Algorithms give the same bits on every run.
Does not: choose (compiler/strategies/cuda/vendor/cudnn.py).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from backends.cuda.kernels.launch_geometry import WORKSPACE
from backends.cuda.run.libraries import Array, Library, aligned
from backends.protocol import BackendError
from compiler.strategies.cuda.vendor.cudnn import FORWARD, IMAGE, KINDS

LIBRARY: Final = Library("cuDNN", "nvidia-cudnn-cu13", ("libcudnn.so.9", "cudnn64_9.dll"), "cudnnCreate")
STRATEGIES: Final = frozenset(KINDS)
_NCHW, _FLOAT, _CORRELATION = 0, 0, 1
_MATH: Final = {"float32": 3, "tf32": 0}
"""cudnnMathType_t: CUDNN_FMA_MATH; CUDNN_DEFAULT_MATH, which is tf32 where there is such."""
PROPOSED: Final = 10
"""Algorithms that the library is asked for."""


class _Proposal(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t, and of both gradients."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("room", ctypes.c_size_t),
        ("deterministic", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


def convolution(
    strategy: str, columns: Mapping[str, int], arrays: Mapping[str, Array], stream: int
) -> Callable[[int], None]:
    """What runs a convolution on a stream. `columns`: of its strategy; `arrays`: x0, x1, y and the workspace. It runs
    once on `stream`: the library loads kernels when it first needs them, which may not be captured."""
    library, handle = LIBRARY.opened()
    direction, products = KINDS[strategy]

    def make(kind: str, function: str, *values: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        create = f"cudnnCreate{kind}Descriptor"
        LIBRARY.check(create, getattr(library, create)(ctypes.byref(made)))
        LIBRARY.check(function, getattr(library, function)(made, *values))
        return made

    (n, g, k, c), along = (columns[f"s_{x}"] for x in ("batch", "groups", "outs", "ins")), "rc"
    image, out, taps, step, tap, pad = (
        tuple(columns[f"s_{x}_{a}"] for a in along) for x in ("image", "out", "taps", "step", "tap", "pad")
    )
    x = make("Tensor", "cudnnSetTensor4dDescriptor", _NCHW, _FLOAT, n, g * c, *image)
    y = make("Tensor", "cudnnSetTensor4dDescriptor", _NCHW, _FLOAT, n, g * k, *out)
    w = make("Filter", "cudnnSetFilter4dDescriptor", _FLOAT, _NCHW, g * k, c, *taps)
    conv = make("Convolution", "cudnnSetConvolution2dDescriptor", *pad, *step, *tap, _CORRELATION, _FLOAT)
    LIBRARY.check("cudnnSetConvolutionGroupCount", library.cudnnSetConvolutionGroupCount(conv, g))
    LIBRARY.check("cudnnSetConvolutionMathType", library.cudnnSetConvolutionMathType(conv, _MATH[products]))
    first = f"x{columns['s_first']}", f"x{1 - columns['s_first']}"
    ordered: tuple[tuple[ctypes.c_void_p, str], ...]
    if direction == FORWARD:
        function, ordered, result = "Forward", ((x, first[0]), (w, first[1])), y
    elif direction == IMAGE:
        function, ordered, result = "BackwardData", ((w, first[1]), (y, first[0])), x
    else:
        function, ordered, result = "BackwardFilter", ((x, first[0]), (y, first[1])), w
    proposals, many = (_Proposal * PROPOSED)(), ctypes.c_int()
    ask = f"cudnnGetConvolution{function}Algorithm_v7"
    described = [d for d, _ in ordered]
    LIBRARY.check(ask, getattr(library, ask)(handle, *described, conv, result, PROPOSED, ctypes.byref(many), proposals))
    room = columns["s_room"]
    fit = [q for q in proposals[: many.value] if q.status == 0 and q.deterministic == 1 and q.room <= room]
    if not fit:
        raise BackendError("E0924", "cuDNN has no algorithm for a convolution in its workspace")
    best = fit[min(columns["s_tile"], len(fit) - 1)]
    if products != "float32":
        LIBRARY.check("cudnnSetConvolutionMathType", library.cudnnSetConvolutionMathType(conv, best.math))
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    given: list[Any] = [ctypes.byref(one)]
    for d, name in ordered:
        given += [d, ctypes.c_void_p(arrays[name][0])]
    given += [conv, ctypes.c_int(best.algorithm), aligned(arrays[WORKSPACE]), ctypes.c_size_t(room)]
    given += [ctypes.byref(zero), result, ctypes.c_void_p(arrays["y"][0])]
    run = partial(_run, library, handle, f"cudnnConvolution{function}", given)
    run(stream)
    return run


def _run(library: Any, handle: ctypes.c_void_p, function: str, given: list[Any], stream: int) -> None:
    LIBRARY.check("cudnnSetStream", library.cudnnSetStream(handle, ctypes.c_void_p(stream)))
    LIBRARY.check(function, getattr(library, function)(handle, *given))
