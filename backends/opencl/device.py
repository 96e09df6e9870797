"""The OpenCL devices of this machine: the list, one of them, and what it must be able to do.

Assumes: PyOpenCL where devices are asked for (library.py).
Guarantees: devices are numbered as `netloom doctor` lists them: those whose compilers work first; of these GPUs, then
PoCL, then others by platform. A device that lacks what a text needs is refused before it compiles.
Does not: allocate or run.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from backends.opencl.library import EXTRA, library, name_of, signals_kept
from backends.opencl.probe import probe
from backends.protocol import BackendError


@cache
def devices() -> tuple[Any, ...]:
    """All devices, in the order of their numbers; none where there is no driver. Raises BackendError (E0947)."""
    cl = library()
    try:
        with signals_kept():  # the first call loads the drivers
            found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error:
        return ()
    return tuple(
        sorted(
            found,
            key=lambda d: (probe(d).error is not None, not d.type & cl.device_type.GPU, not _pocl(d)),
        )
    )


def device_of(number: int) -> Any:
    """The device of that number. Raises BackendError (exit 3): E0947 where there is none, E0950 when its compiler does
    not work."""
    found = devices()
    if not found:
        raise BackendError("E0947", "there is no OpenCL device", EXTRA)
    if number >= len(found):
        names = ", ".join(f"{n}: {name_of(d)}" for n, d in enumerate(found))
        raise BackendError("E0947", f"there is no OpenCL device {number}", f"there are {names}")
    if (error := probe(found[number]).error) is not None:
        raise BackendError("E0950", f"{name_of(found[number])} compiles nothing: {error}", _way_out(found, error))
    return found[number]


def _pocl(device: Any) -> bool:
    return "Portable Computing Language" in str(device.platform.name)


def _way_out(found: tuple[Any, ...], error: str) -> str:
    """What helps when the compiler of a device does not work."""
    if probe(found[0]).error is None:
        return f"device 0 is {name_of(found[0])}, whose compiler works; `netloom doctor` lists the devices"
    unknown = "its compiler does not know this processor; " if "unknown target CPU" in error else ""
    return (
        f"{unknown}`pip install 'netloom[opencl-intel]'` brings Intel's runtime, for x86-64 processors of all makers; "
        "`--target cpu` needs no driver"
    )


def rounds(device: Any) -> bool:
    """Whether division and roots of float32 are rounded correctly: the device says so, or it has been measured."""
    reported = device.single_fp_config & library().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return bool(reported) or probe(device).rounded


def lacks(device: Any, needs: Iterable[str]) -> str | None:
    """What a device lacks of a text's needs (emit.py), as a sentence of the message and what helps; None: nothing."""
    extensions = device.extensions.split()
    if "double" in needs and "cl_khr_fp64" not in extensions:
        return "float64 numbers (cl_khr_fp64)"
    if "atomics" in needs and "cl_khr_int64_base_atomics" not in extensions:
        return "atomic additions of 64 bits (cl_khr_int64_base_atomics)"
    if "order" in needs and not rounds(device):
        return "division and square roots of float32 that are rounded correctly"
    if "order" in needs and not probe(device).ordered:
        return "sums in the order of the text, which its compiler changes"
    return None


_HELPS = {"double": "`numerics: {precision: float32}`", "order": "`numerics: {order: reproducible}`"}


def check(device: Any, needs: frozenset[str]) -> None:
    """Raises BackendError (E0948, exit 3) where the device cannot run a text with these needs."""
    if (what := lacks(device, needs)) is not None:
        need = next(n for n in ("double", "atomics", "order") if n in needs and lacks(device, {n}))
        ways = f"{_HELPS[need]} may do without; " if need in _HELPS else ""
        help = f"{ways}`--target cpu` runs every model; `netloom doctor` lists the devices"
        raise BackendError("E0948", f"the device {name_of(device)} lacks {what}, which this model needs", help)


def doctor() -> tuple[tuple[str, str], ...]:
    """Rows for `netloom doctor`: each device with what it lacks of what models may need, or what is wrong with it."""
    try:
        found = devices()
    except BackendError as error:
        return (("PyOpenCL", error.message),)
    rows = []
    for number, device in enumerate(found):
        if (failed := probe(device).error) is not None:
            more = f"; it compiles nothing: {failed}: {_way_out(found, failed)}"
        else:
            missing = [what for need in ("double", "atomics", "order") if (what := lacks(device, {need})) is not None]
            more = f"; it lacks {', '.join(missing)}" if missing else ""
        rows.append((f"device {number}", f"{name_of(device)}, {device.version.strip()}{more}"))
    return tuple(rows) or (("devices", "none: no OpenCL driver is installed"),)
