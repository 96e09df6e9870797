"""The backends by name, imported on demand.

Assumes: a backend is a module of this package with a class after backends/protocol.py.
Guarantees: importing this module imports no backend; an unusable target reports why.
Does not: search for compilers or devices (a backend does so when it builds or loads).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from backends.protocol import Backend, BackendError
from compiler.core.diagnostics import did_you_mean


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@dataclass(frozen=True)
class Target:
    """A selectable backend. `devices`: whether it runs on one of several devices, by number; `architectures`: whether
    it compiles for one of several."""

    name: str
    module: str
    cls: str
    title: str
    devices: bool = False
    architectures: bool = False

    def missing(self) -> str | None:
        """Why nothing can be built for this target here, or None."""
        return None if _installed(self.module) else "it is not part of this version"


TARGETS: Final[Mapping[str, Target]] = MappingProxyType(
    {
        t.name: t
        for t in (
            Target("cpu", "backends.cpu.backend", "CpuBackend", "C for one CPU thread"),
            Target(
                "reference",
                "backends.reference.load",
                "ReferenceBackend",
                "numpy interpreter: slow and plain, what the others are tested against",
            ),
            Target("cuda", "backends.cuda.run.backend", "CudaBackend", "CUDA for one NVIDIA GPU", True, True),
            Target("opencl", "backends.opencl.backend", "OpenclBackend", "OpenCL C for one device", True),
        )
    }
)


_OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("gpu", "nvidia", "cuda:0", "cuda0"), "cuda"),
        **dict.fromkeys(("c", "x86", "host"), "cpu"),
        **dict.fromkeys(("cl", "pocl", "opencl:0"), "opencl"),
        **dict.fromkeys(("numpy", "python", "ref"), "reference"),
    }
)
"""What people call targets who come from elsewhere."""


def backend(name: str, device: int = 0, check: bool = False, arch: str | None = None) -> Backend:
    """The backend called `name`; `device`, `check` (wait for every kernel) and `arch` (what code is for that
    runs elsewhere) are for those with devices.

    Raises BackendError (E0907, exit 2 or 3) when there is none or it cannot be used.
    """
    target = TARGETS.get(name)
    if target is None:
        known = ", ".join(f"`{n}`" for n in TARGETS)
        other = _OTHER_NAMES.get(name.lower())
        hint = f"write `{other}`" if other else did_you_mean(name, TARGETS) or f"the targets are {known}"
        raise BackendError("E0907", f"there is no target `{name}`", hint, exit_code=2)
    if (missing := target.missing()) is not None:
        raise BackendError("E0907", f"the target `{name}` cannot be used: {missing}")
    cls = getattr(importlib.import_module(target.module), target.cls)
    if target.architectures:
        return cast(Backend, cls(device, check, arch=arch))
    return cast(Backend, cls(device, check) if target.devices else cls())
