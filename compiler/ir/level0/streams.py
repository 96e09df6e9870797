"""Keys of random streams: streams are named by model path, so that adding one does not change another's draws.

Assumes: nothing.
Guarantees: `stream_key` is the same number everywhere; no other function derives keys from seeds and paths.
Does not: draw (backends/device/philox.h, backends/reference/philox.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

_MASK = (1 << 64) - 1


def splitmix64(x: int) -> int:
    """One output of SplitMix64 from state x, both 64-bit (Steele, Lea & Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def stream_key(seed: int, path: str) -> int:
    """The 64-bit Philox key of the stream at model path `path` under `seed` (taken modulo 2**64)."""
    return stream_keys(seed, (path,))[0]


def stream_keys(seed: int, paths: Sequence[str]) -> list[int]:
    """`stream_key` of many paths."""
    mixed = splitmix64(seed & _MASK)
    streams = (int.from_bytes(blake2b(path.encode("utf-8")).digest()[:8], "little") for path in paths)
    return [splitmix64(stream ^ mixed) for stream in streams]
