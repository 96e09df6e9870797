"""The OpenCL devices of this machine, through PyOpenCL: the list, one of them, and what it must be able to do.

Assumes: nothing is installed: PyOpenCL is imported when it is asked for.
Guarantees: devices are numbered as `netloom doctor` lists them: GPUs first, then by platform. A device that lacks what
a text needs is refused before it compiles.
Does not: allocate or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import Any

from backends.protocol import BackendError
from compiler.core.cache import cache_folder

EXTRA = "pip install 'netloom[opencl]' brings PyOpenCL, and PoCL as a device on the CPU"


def library() -> Any:
    """PyOpenCL. PoCL, which compiles kernels when they run first, keeps them in the cache of Netloom. Raises
    BackendError (E0947, exit 3)."""
    os.environ.setdefault("POCL_CACHE_DIR", str(cache_folder() / "opencl" / "pocl"))
    try:
        import pyopencl
    except ImportError as e:
        raise BackendError("E0947", f"PyOpenCL cannot be used: {e}", EXTRA, exit_code=3) from None
    return pyopencl


@cache
def devices() -> tuple[Any, ...]:
    """All devices, in the order of their numbers; none where there is no driver. Raises BackendError (E0947)."""
    cl = library()
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error:
        return ()
    return tuple(sorted(found, key=lambda d: not d.type & cl.device_type.GPU))


def device_of(number: int) -> Any:
    """The device of that number. Raises BackendError (E0947, exit 3)."""
    found = devices()
    if not found:
        raise BackendError("E0947", "there is no OpenCL device", EXTRA, exit_code=3)
    if number >= len(found):
        names = ", ".join(f"{n}: {name_of(d)}" for n, d in enumerate(found))
        raise BackendError("E0947", f"there is no OpenCL device {number}", f"there are {names}", exit_code=3)
    return found[number]


def name_of(device: Any) -> str:
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def lacks(device: Any, needs: Iterable[str]) -> str | None:
    """What a device lacks of a text's needs (emit.py), as a sentence of the message and what helps; None: nothing."""
    cl, extensions = library(), device.extensions.split()
    if "double" in needs and "cl_khr_fp64" not in extensions:
        return "float64 numbers (cl_khr_fp64)"
    if "atomics" in needs and "cl_khr_int64_base_atomics" not in extensions:
        return "atomic additions of 64 bits (cl_khr_int64_base_atomics)"
    if "order" in needs and not device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        return "division and square roots of float32 that are rounded correctly"
    return None


_HELPS = {"double": "`numerics: {precision: float32}`", "order": "`numerics: {order: reproducible}`"}


def check(device: Any, needs: frozenset[str]) -> None:
    """Raises BackendError (E0948, exit 3) where the device cannot run a text with these needs."""
    if (what := lacks(device, needs)) is not None:
        need = next(n for n in ("double", "atomics", "order") if n in needs and lacks(device, {n}))
        ways = f"{_HELPS[need]} may do without; " if need in _HELPS else ""
        help = f"{ways}`--target cpu` runs every model; `netloom doctor` lists the devices"
        raise BackendError("E0948", f"the device {name_of(device)} lacks {what}, which this model needs", help, 3)


def doctor() -> tuple[tuple[str, str], ...]:
    """Rows for `netloom doctor`: each device with what it lacks of what models may need."""
    try:
        found = devices()
    except BackendError as error:
        return (("PyOpenCL", error.message),)
    rows = []
    for number, device in enumerate(found):
        missing = [what for need in ("double", "atomics", "order") if (what := lacks(device, {need})) is not None]
        more = f"; it lacks {', '.join(missing)}" if missing else ""
        rows.append((f"device {number}", f"{name_of(device)}, {device.version.strip()}{more}"))
    return tuple(rows) or (("devices", "none: no OpenCL driver is installed"),)
