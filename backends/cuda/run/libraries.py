"""libraries: what NVIDIA's libraries have alike: where they are, how they are opened, and what their statuses mean.

Assumes: packages of the extra `cuda-libraries`.
Guarantees: nothing is loaded before a program that calls it.
Does not: know what a library computes (cublaslt.py, cudnn.py).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from backends.packages import installed
from backends.protocol import BackendError
from compiler.ir.space import DType
from compiler.strategies.cuda.vendor.libraries import ALIGNED

Array = tuple[int, DType]
"""Address and type."""


@dataclass(frozen=True)
class Library:
    """`name`: for messages; `files`: its names on the systems; `create`: what makes its handle."""

    name: str
    package: str
    files: tuple[str, ...]
    create: str

    def found(self) -> tuple[Path, str] | None:
        """Its file and the version of its package; None where it is not installed."""
        return installed(self.package, *self.files)

    def opened(self) -> tuple[Any, ctypes.c_void_p]:
        """The library and its handle, for as long as the process. Raises BackendError (E0923) where it is not here."""
        return _opened(self)

    def check(self, function: str, status: int) -> None:
        if status != 0:
            raise BackendError("E0924", f"{function} failed: status {status} of {self.name}")


@cache
def _opened(of: Library) -> tuple[Any, ctypes.c_void_p]:
    here = of.found()
    if here is None:
        help = "pip install 'netloom[cuda-libraries]'"
        raise BackendError("E0923", f"the program calls {of.name}, which is not here", help)
    library, handle = ctypes.CDLL(str(here[0])), ctypes.c_void_p()
    of.check(of.create, getattr(library, of.create)(ctypes.byref(handle)))
    return library, handle


def aligned(workspace: Array) -> ctypes.c_void_p:
    """Where a workspace begins, which has as much room before."""
    return ctypes.c_void_p(-(-workspace[0] // ALIGNED) * ALIGNED)
