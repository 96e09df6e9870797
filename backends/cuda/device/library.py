"""The library of the CUDA driver, and the devices that it sees, without a context.

Assumes: libcuda of a driver for CUDA 12 or later.
Guarantees: every status is checked; a failure is a BackendError with the driver's own words.
Does not: use a device (driver.py and device.py do); need PyCUDA.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

from backends.errors import BackendError

CHECK: Final = "run again with --verify: the message then names the kernel"
_FAULTS: Final = frozenset({700, 702, 710, *range(714, 720)})
"""CUresult of the fault of a kernel (an illegal address, a failed assertion), which any later call may return."""
_NAME: Final = 128
_MAJOR, _MINOR = 75, 76
"""CUdevice_attribute."""
_LIBRARIES: Final = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


class Library:
    """libcuda, initialised. Raises BackendError (E0923, exit 3) where there is no driver or no device."""

    def __init__(self) -> None:
        for name in _LIBRARIES:
            try:
                self._lib = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise BackendError("E0923", "no NVIDIA driver was found", "install one, or run with `--target cpu`")
        status = int(self._lib.cuInit(0))
        if status != 0:
            raise BackendError(
                "E0923",
                f"the NVIDIA driver does not start: {self._words(status)}",
                "`nvidia-smi` shows what the driver sees",
            )

    def _words(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._lib.cuGetErrorString(status, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {status}"

    def _call(self, function: str, *arguments: object) -> None:
        self._check(function, int(getattr(self._lib, function)(*arguments)))

    def _check(self, function: str, status: int) -> None:
        if status in _FAULTS:
            raise BackendError("E0924", f"the GPU failed: {self._words(status)}", CHECK)
        if status != 0:
            raise BackendError("E0924", f"{function} failed: {self._words(status)}")

    # -------------------------------------------------------------------------------------- devices

    def version(self) -> str:
        """The CUDA version that the driver supports."""
        number = ctypes.c_int()
        self._call("cuDriverGetVersion", ctypes.byref(number))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def count(self) -> int:
        number = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def _device(self, ordinal: int) -> ctypes.c_int:
        if not 0 <= ordinal < self.count():
            raise BackendError(
                "E0923", f"there is no CUDA device {ordinal}", f"devices found: {self.count()}; they are counted from 0"
            )
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        return device

    def _attribute(self, ordinal: int, which: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, self._device(ordinal))
        return value.value

    def architecture(self, ordinal: int) -> str:
        """`sm_90` of a device."""
        return f"sm_{self._attribute(ordinal, _MAJOR)}{self._attribute(ordinal, _MINOR)}"

    def name(self, ordinal: int) -> str:
        text = ctypes.create_string_buffer(_NAME)
        self._call("cuDeviceGetName", text, _NAME, self._device(ordinal))
        return text.value.decode()

    def memory(self, ordinal: int) -> int:
        """Bytes of memory on the device."""
        size = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), self._device(ordinal))
        return size.value

    def description(self, ordinal: int) -> str:
        """`NVIDIA H100 80GB HBM3, sm_90, 79 GiB`."""
        return f"{self.name(ordinal)}, {self.architecture(ordinal)}, {self.memory(ordinal) / 2**30:.0f} GiB"

    def describe(self) -> tuple[str, ...]:
        """One line per device."""
        return tuple(map(self.description, range(self.count())))
