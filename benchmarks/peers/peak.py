"""The most memory that this process held since a moment (see bench_memory.py).

Assumes: Linux.
Guarantees: bytes as the kernel counts them, shared libraries and everything else included.
Does not: see memory that was returned to the system and not needed again.
"""

from __future__ import annotations

import re
from pathlib import Path


def _bytes(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


class Peak:
    """Counts from its creation on."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest so far is forgotten
        self.before = _bytes("VmRSS")

    def bytes(self) -> int:
        """The most that was held at a time, less what was held at the beginning."""
        return _bytes("VmHWM") - self.before
