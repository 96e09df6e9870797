"""The backends by name, imported when they are asked for.

Assumes: a backend is a module of this package with a class after backends/protocol.py.
Guarantees: importing this module imports no backend; a target that cannot be used says why.
Does not: look for compilers or devices (a backend does so when it builds or loads).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from backends.protocol import Backend, BackendError
from compiler.diagnostics import did_you_mean


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@dataclass(frozen=True)
class Target:
    """A backend that can be asked for. `requires`: modules that must be installed, with their extra."""

    name: str
    module: str
    cls: str
    title: str
    requires: tuple[str, ...] = ()
    extra: str = ""

    def missing(self) -> str | None:
        """Why this target cannot be used here, or None."""
        if not _installed(self.module):
            return "it is not part of this version"
        absent = [m for m in self.requires if not _installed(m)]
        if absent:
            return f"the Python package `{absent[0]}` is not installed (extra `{self.extra}`)"
        return None


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
            Target(
                "cuda",
                "backends.cuda.backend",
                "CudaBackend",
                "CUDA for one NVIDIA GPU",
                ("pycuda",),
                "cuda",
            ),
        )
    }
)


def backend(name: str) -> Backend:
    """The backend called `name`. Raises BackendError (E0907, exit 2 or 3) when there is none or it cannot run."""
    target = TARGETS.get(name)
    if target is None:
        known = ", ".join(f"`{n}`" for n in TARGETS)
        hint = did_you_mean(name, TARGETS) or f"the targets are {known}"
        raise BackendError("E0907", f"there is no target `{name}`", hint, exit_code=2)
    if (missing := target.missing()) is not None:
        install = f"pip install 'netloom[{target.extra}]'" if target.requires and _installed(target.module) else None
        raise BackendError("E0907", f"the target `{name}` cannot be used: {missing}", install, exit_code=3)
    module = importlib.import_module(target.module)
    return cast(Backend, getattr(module, target.cls)())
