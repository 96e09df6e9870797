"""processor: the processor of this machine in numbers, from /proc and /sys.

Assumes: Linux; elsewhere, and where a file is missing, the numbers of compiler/strategies/cost/devices.py.
Guarantees: the same numbers at every reading: the clock is the one stated, not the one of the moment.
Does not: measure.
"""

from __future__ import annotations

import platform
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.cost.devices import CORE

_VECTORS: Final = (("avx512f", 64, 32), ("avx2", 32, 16), ("sve", 32, 16), ("asimd", 16, 8), ("sse2", 16, 4))
"""A flag of the processor, bytes of a vector, 32-bit multiply-adds a cycle where two vectors are in work at once."""
_HALVES: Final = ("25",)
"""Families of AMD's processors that work on vectors of 64 bytes in two halves (Zen 4)."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def processor(root: Path = Path("/")) -> Target:
    """One core of the processor. `root`: the folder of `proc` and `sys`."""
    said = dict(_fields(_text(root / "proc/cpuinfo")))
    name = said.get("model name") or platform.processor() or platform.machine()
    flags = (said.get("flags") or said.get("Features") or "").split()
    vector, lanes = next(((v, n) for flag, v, n in _VECTORS if flag in flags), (CORE.vector, CORE.lanes))
    if said.get("vendor_id") == "AuthenticAMD" and said.get("cpu family") in _HALVES and vector == 64:
        lanes //= 2
    cpu = root / "sys/devices/system/cpu/cpu0"
    caches = _caches(cpu / "cache") or CORE.caches
    clock = _clock(cpu, name, said.get("cpu MHz", ""))
    return replace(
        CORE, name=name, architecture=platform.machine(), clock=clock, vector=vector, caches=caches, lanes=lanes
    )


def _clock(cpu: Path, name: str, now: str) -> int:
    """MHz: the largest, or that of its name, or the one of the moment in steps of 100."""
    most = _text(cpu / "cpufreq/cpuinfo_max_freq").strip()
    if most.isdigit():
        return int(most) // 1000
    if (stated := re.search(r"@ ([\d.]+)GHz", name)) is not None:
        return round(float(stated[1]) * 1000)
    try:
        return round(float(now) / 100) * 100 or CORE.clock
    except ValueError:
        return CORE.clock


def _caches(folder: Path) -> tuple[int, ...]:
    """Bytes of the caches for data, by level."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        level, size = _text(index / "level").strip(), re.fullmatch(r"(\d+)([KMG]?)", _text(index / "size").strip())
        if _text(index / "type").strip() != "Instruction" and level.isdigit() and size is not None:
            found[int(level)] = int(size[1]) * _UNITS[size[2]]
    return tuple(found[level] for level in sorted(found))


def _fields(text: str) -> list[tuple[str, str]]:
    """The fields of the first core."""
    lines = text.partition("\n\n")[0].splitlines()
    return [(key.strip(), value.strip()) for key, colon, value in (x.partition(":") for x in lines) if colon]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
