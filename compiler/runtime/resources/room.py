"""What this machine can hold: memory of the process, memory of a GPU, free places on the disk.

Assumes: Linux for what /proc and /sys say; elsewhere memory is what os.sysconf says, or not known.
Guarantees: limits of the process (`ulimit -v`), of its control group (v1 and v2, and of those around it) and of the
machine are looked at; the least counts. None where nothing is known. Nothing is waited for.
Does not: say what is needed (bill.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compiler.core.disk import free_bytes

_PROC: Final = Path("/proc")
_GROUPS: Final = Path("/sys/fs/cgroup")
_NO_LIMIT: Final = 1 << 60
"""cgroup v1 writes a number near 2**63 where there is no limit."""


@dataclass(frozen=True)
class Room:
    """`bytes` that `what` has, as in "this machine has 8 GB of memory"; `what` is "this machine", ..."""

    bytes: int
    what: str


def memory_room(proc: Path = _PROC, groups: Path = _GROUPS) -> Room | None:
    """The memory that this process may have in all."""
    limits = [r for r in (_machine(proc), *_control_groups(proc, groups), _address_space(proc)) if r is not None]
    return min(limits, key=lambda r: r.bytes, default=None)


def disk_room(place: Path) -> Room | None:
    """What is free on the disk that `place` (which need not exist yet) is or will be on."""
    free = free_bytes(place.absolute())
    return None if free is None else Room(free, f"the disk of `{place}`")


def device_room(target: str, device: int) -> Room | None:
    """The memory of a GPU, or of one buffer of an OpenCL device; None for other targets, and where there is none to
    ask."""
    if target == "opencl":
        return _opencl_room(device)
    if target != "cuda":
        return None
    from backends.cuda.device.library import Library
    from backends.protocol import BackendError

    try:
        size = Library().memory(device)
    except (BackendError, AttributeError, OSError):
        return None
    return Room(size, f"GPU {device}") if size else None


def _opencl_room(device: int) -> Room | None:
    from backends.opencl.device import device_of
    from backends.protocol import BackendError

    try:
        return Room(device_of(device).max_mem_alloc_size, f"a buffer of OpenCL device {device}")
    except BackendError:
        return None


def _machine(proc: Path) -> Room | None:
    for line in _lines(proc / "meminfo"):
        if line.startswith("MemTotal:"):
            return Room(int(line.split()[1]) * 1024, "this machine")
    try:
        return Room(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine")
    except (ValueError, OSError, AttributeError):
        return None


def _control_groups(proc: Path, groups: Path) -> Iterator[Room]:
    """The limits of the control groups that the process is in, from its own to the root."""
    for line in _lines(proc / "self" / "cgroup"):
        _, kinds, inside = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root = groups / "memory" if kinds else groups
        name = "memory.limit_in_bytes" if kinds else "memory.max"
        path = root / inside.strip("/")
        while True:
            limit = "".join(_lines(path / name)).strip()
            if limit.isdigit() and int(limit) < _NO_LIMIT:
                yield Room(int(limit), "its control group (cgroup)")
            if path == root or root not in path.parents:
                break
            path = path.parent


def _address_space(proc: Path) -> Room | None:
    """What `ulimit -v` leaves beside what the process has taken until now."""
    try:
        import resource
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    pages = "".join(_lines(proc / "self" / "statm")).split()
    used = int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0
    return Room(max(limit - used, 0), "the limit of address space (ulimit -v)")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
