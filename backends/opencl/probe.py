"""probe: whether a device compiles and runs small kernels, rounds division and roots correctly, and keeps the order of
sums.

Assumes: PyOpenCL (library.py).
Guarantees: one answer for each device and version of its driver; a good one is kept in the cache.
Does not: prove anything: it compares many quotients, roots and sums with those of numpy. Devices that approximate them,
or add in another order, are wrong in many.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from backends.opencl.library import OPTIONS, built, compiler_of, context_of, library
from compiler.core.cache import cache_folder, find_value, keep_value
from compiler.core.diagnostics import RunError

_TEXT: Final = """
__kernel void probe(__global const float *x, __global const float *y, __global float *q, __global float *r) {
    const size_t i = get_global_id(0);
    q[i] = x[i] / y[i];
    r[i] = sqrt(x[i]);
}
__kernel void sums(__global const float *x, const long terms, const long count, __global float *s) {
    const long i = get_global_id(0);
    if (i >= count) return;
    float sum = 0.0f;
    for (long k = 0; k < terms; k++) sum += x[i * terms + k];
    s[i] = sum;
}
"""
_COUNT: Final = 1 << 16
_SUMS: Final = ((1, 1000), (3, 200), (61, 100))
"""Numbers of sums, and of their terms. Compilers with lanes treat few work items in another way than many."""


@dataclass(frozen=True)
class Probe:
    """`error`: what the compiler or the device said when it failed; `rounded`: quotients and roots are those of
    IEEE 754; `ordered`: sums are those in the order of the text."""

    error: str | None
    rounded: bool
    ordered: bool


@cache
def probe(device: Any) -> Probe:
    """What a device can do."""
    key = hashlib.sha256(f"{compiler_of(device)}{_TEXT}".encode()).hexdigest()
    path = cache_folder() / "opencl" / "devices" / f"{key}.json"
    if (known := find_value(path)) is not None:
        return Probe(None, known.get("rounded") is True, known.get("ordered") is True)
    try:
        found = _measured(device)
    except library().Error as e:
        said = [line.strip() for line in str(e).splitlines() if line.strip()] or ["it failed"]
        return Probe(next((line for line in said if "error:" in line), said[0]), False, False)
    with suppress(RunError):  # so that the next process need not ask
        keep_value(path, {"rounded": found.rounded, "ordered": found.ordered})
    return found


def _measured(device: Any) -> Probe:
    """Whether results of a device are those of numpy. Raises an Error of PyOpenCL."""
    cl = library()
    context = context_of(device)
    queue, program = cl.CommandQueue(context), built(cl.Program(context, _TEXT), OPTIONS)
    kernel = cl.Kernel(program, "probe")
    rng = np.random.default_rng(1)
    x, y = (np.ldexp(rng.uniform(1, 2, _COUNT), rng.integers(-30, 30, _COUNT)).astype(np.float32) for _ in range(2))
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arguments = [cl.Buffer(context, flags, hostbuf=a) for a in (x, y, np.zeros_like(x), np.zeros_like(x))]
    kernel.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, kernel, (_COUNT,), None)
    quotients, roots = np.empty_like(x), np.empty_like(x)
    cl.enqueue_copy(queue, quotients, arguments[2])
    cl.enqueue_copy(queue, roots, arguments[3])
    rounded = bool((quotients == x / y).all() and (roots == np.sqrt(x)).all())
    adding, ordered = cl.Kernel(program, "sums"), True
    for count, terms in _SUMS:
        sums, given = np.empty(count, np.float32), y[: count * terms].reshape(count, terms)
        adding.set_args(arguments[1], np.int64(terms), np.int64(count), arguments[2])
        group = 64 if count > 1 else 1
        cl.enqueue_nd_range_kernel(queue, adding, (group,), (group,))
        cl.enqueue_copy(queue, sums, arguments[2])
        ordered &= bool((sums == given.cumsum(axis=1, dtype=np.float32)[:, -1]).all())
    return Probe(None, rounded, ordered)
