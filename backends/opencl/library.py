"""PyOpenCL, with the drivers that it finds; what devices are called; programs, built.

Assumes: nothing is installed: PyOpenCL is imported when it is asked for.
Guarantees: the drivers of the system and of PyOpenCL are found as ever; Intel's runtime for CPUs is found where pip has
installed it, though the path in its own entry is not filled in there, and keeps the order of sums. Signals do what they
did before a driver was used.
Does not: choose a device (device.py), or change $OCL_ICD_VENDORS where it is set.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from backends.packages import installed
from backends.protocol import BackendError
from compiler.core.cache import cache_folder
from compiler.core.diagnostics import RunError
from compiler.core.disk import write_text

EXTRA: Final = "pip install 'netloom[opencl]' brings PyOpenCL, and PoCL as a device on the CPU"
OPTIONS: Final = ("-cl-std=CL1.2", "-cl-denorms-are-zero", "-w")
SYSTEM: Final = Path("/etc/OpenCL/vendors")
"""Where drivers enter themselves: a file each, which names a library."""
INTEL: Final = ("intel-opencl-rt", "libintelocl.so")
"""Intel's runtime for CPUs: its package and its library."""
_ACTION: Final = 256
"""Bytes that a `struct sigaction` has at most."""


def library() -> Any:
    """PyOpenCL. PoCL, which compiles kernels when they run first, keeps them in the cache of Netloom; Intel's compiler
    leaves out its vectorizer, which changes the order of sums in loops. Raises BackendError (E0947, exit 3)."""
    os.environ.setdefault("POCL_CACHE_DIR", str(cache_folder() / "opencl" / "pocl"))
    os.environ.setdefault("CL_CONFIG_USE_VECTORIZER", "False")
    _enter_drivers()
    try:
        import pyopencl
    except ImportError as e:
        raise BackendError("E0947", f"PyOpenCL cannot be used: {e}", EXTRA) from None
    return pyopencl


def context_of(device: Any) -> Any:
    """A context of a device: its driver begins to work."""
    with signals_kept():
        return library().Context([device])


@contextmanager
def signals_kept() -> Iterator[None]:
    """Undoes what a driver does to signals, in any thread: LLVM, with which drivers compile, handles all that may end a
    process, so that a file that is too large (SIGXFSZ) is no longer an error of the one that writes it."""
    of_process = ctypes.CDLL(None).sigaction
    kept = {number: ctypes.create_string_buffer(_ACTION) for number in signal.valid_signals()}
    for number, action in kept.items():
        of_process(number, None, action)
    try:
        yield
    finally:
        for number, action in kept.items():
            of_process(number, action, None)


@cache
def _enter_drivers() -> None:
    """Let the loader of drivers, which looks once per process, find Intel's. Without a folder to write to, it finds
    the others."""
    if (intel := installed(*INTEL)) is not None and not {"OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"} & os.environ.keys():
        with suppress(RunError):
            os.environ["OCL_ICD_VENDORS"] = str(entered(intel[0], cache_folder() / "opencl" / "vendors"))


def entered(driver: Path, folder: Path) -> Path:
    """A folder of entries: those of the system, and one for `driver`. Raises RunError (E0930)."""
    texts = {driver.with_suffix(".icd").name: f"{driver}\n"}
    for path in sorted(SYSTEM.glob("*.icd")):
        try:
            texts[path.name] = path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    made = folder / hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    for name, text in texts.items():
        if not (made / name).is_file():
            write_text(made / name, text, "an entry for an OpenCL driver")
    return made


def name_of(device: Any) -> str:
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def compiler_of(device: Any) -> str:
    """What compiles for a device: its name and the versions of its driver."""
    return f"{name_of(device)}, {device.version.strip()}, driver {device.driver_version.strip()}"


def built(program: Any, options: tuple[str, ...]) -> Any:
    """The program, built; what compilers say beside errors is not shown. PyOpenCL may keep it, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.build(options=list(options), cache_dir=str(cache_folder() / "opencl" / "pyopencl"))
