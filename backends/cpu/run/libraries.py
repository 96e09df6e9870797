"""libraries: shared libraries of other makers that strategies call.

Assumes: the package `onednn-cpu-gomp` (extra `onednn`), whose library needs nothing beside OpenMP's.
Guarantees: nothing is loaded before a program that calls it; a library that is there is found by the metadata of its
package, or on the system's search path.
Does not: call it.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import compiler.ir.level2.program as l2
from backends.packages import installed
from compiler.strategies.cpu import onednn

PACKAGE: Final = "onednn-cpu-gomp"
LIBRARY: Final = "libdnnl.so.3"
STRATEGIES: Final = frozenset({onednn.NAME})
"""Those that call it."""


def found() -> tuple[Path, str] | None:
    """The file of oneDNN and the version of its package; None where it is not installed."""
    return installed(PACKAGE, LIBRARY)


def load_for(program: l2.Merged) -> None:
    """Load what the contractions of a program call, so that its code finds it by name."""
    called = {t.body.strategy for t in program.templates if isinstance(t.body, l2.Contract)}
    if called & STRATEGIES and (library := found()) is not None:
        ctypes.CDLL(str(library[0]), mode=ctypes.RTLD_GLOBAL)
