"""limits: what a core of this machine reaches in arithmetic and in reading memory.

/proc states the clock of a counter on many virtual machines, not the one that vectors are computed at, and no
bandwidth at all; two loops tell both.

Assumes: backends/cpu/emit/build.py.
Guarantees: measured once a processor and compiler, and kept in the cache, or in this process where the cache is
another one; the best of several short runs, so that other processes hardly matter.
Does not: change what strategies are estimated with: choices do not depend on it.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from backends.cpu.emit.build import compile_text
from backends.cpu.emit.emit import Emitted
from backends.cpu.run.load import aligned_zeros
from compiler.core.cache import cache_folder, find_value, keep_value
from compiler.ir.level2.target import Target

CHAINS: Final = 12
"""Sums at once: more than the units of a core times the cycles that a multiply-add takes, fewer than its registers."""
RUNS: Final = 8
PERIODS: Final = 1_000_000
BYTES: Final = 128 << 20
"""Bytes that are read at least: four times the last cache."""
_TEXT: Final = f"""
typedef float nl_vector __attribute__((vector_size(NL_VECTOR)));

float nl_arithmetic(long periods, float factor) {{
  nl_vector sums[{CHAINS}];
  for (int k = 0; k < {CHAINS}; k++) sums[k] = (nl_vector){{0}} + (float)k;
  for (long i = 0; i < periods; i++)
    for (int k = 0; k < {CHAINS}; k++) sums[k] = sums[k] * factor + factor;
  for (int k = 1; k < {CHAINS}; k++) sums[0] += sums[k];
  return sums[0][0];
}}

float nl_reading(long vectors, const nl_vector *from) {{
  nl_vector sums[4] = {{{{0}}}};
  for (long i = 0; i < vectors; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += from[i + k];
  return (sums[0] + sums[1] + sums[2] + sums[3])[0];
}}
"""


def limits(core: Target, compiler: str) -> Target:
    """The core with the clock that follows from its arithmetic, and the bandwidth of its memory. `compiler`: by what
    name its version is known. Raises BackendError, RunError."""
    key = hashlib.sha256("\0".join((core.name, str(core.vector), str(core.lanes), compiler, _TEXT)).encode())
    entry = cache_folder() / "tuned" / "limits" / f"{key.hexdigest()}.json"
    found = find_value(entry)
    if found is None:
        found = _measured(core)
        keep_value(entry, found)
    return replace(
        core, clock=round(found["gflops"] / (2e-3 * core.processors * core.lanes)), bandwidth=found["bandwidth"]
    )


@cache
def _measured(core: Target) -> dict[str, float]:
    """1e9 operations on 32-bit reals, and 1e9 bytes, a second."""
    text = _TEXT.replace("NL_VECTOR", str(core.vector))
    lib = ctypes.CDLL(str(compile_text(Emitted(text, "", MappingProxyType({}), ()), "limits", False, False).binary))
    lib.nl_arithmetic.argtypes, lib.nl_arithmetic.restype = [ctypes.c_long, ctypes.c_float], ctypes.c_float
    lib.nl_reading.argtypes, lib.nl_reading.restype = [ctypes.c_long, ctypes.c_void_p], ctypes.c_float
    size = max(BYTES, 4 * max(core.caches, default=0)) // (4 * core.vector) * (4 * core.vector)
    data = aligned_zeros(size).view(np.float32)
    data.fill(1.0)
    computed = _least(lambda: lib.nl_arithmetic(PERIODS, 0.5))
    read = _least(lambda: lib.nl_reading(size // core.vector, data.ctypes.data))
    operations = 2.0 * PERIODS * CHAINS * core.vector / 4
    return {"gflops": operations / computed / 1e9, "bandwidth": size / read / 1e9}


def _least(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest run."""
    found = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)
