"""devices: the numbers of devices that are not here: where code is compiled for another one, or none can be read.

Assumes: numbers as the makers state them (NVIDIA: data sheets, and the table of compute capabilities in the CUDA
programming guide).
Guarantees: a device for every architecture: the largest one of it, or of the one below.
Does not: read a device (backends/cuda/device/driver.py and backends/processor.py do).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from compiler.ir.level2.target import Target

REGISTERS: Final = 65536
KEPT: Final = 1024
"""Bytes of the shared memory of each block that a device keeps for itself, from sm_80 on."""


def _gpu(
    name: str, number: int, processors: int, shared: tuple[int, int], clock: int, bandwidth: float, cache: float
) -> Target:
    """`shared`: KiB that a block may have, that a processor has; `cache`: MiB of the second one."""
    caches = (shared[1] << 10, round(cache * (1 << 20)))
    block, processor = (n << 10 for n in shared)
    lanes, kept = lanes_of(number), KEPT if number >= 80 else 0
    arch, known = f"sm_{number}", (REGISTERS, clock, bandwidth, 16, caches, 32, lanes)
    return Target(name, arch, processors, block, processor, *known, shared_kept=kept)


def lanes_of(number: int) -> int:
    """32-bit multiply-adds a cycle of a multiprocessor of an architecture, by number (90 of sm_90)."""
    return 64 if number in (70, 72, 75, 80) else 128


H200: Final = _gpu("NVIDIA H200", 90, 132, (227, 228), 1980, 4800.0, 50)
"""The default: most constants of the cost models were measured on it."""

GPUS: Final = (
    _gpu("NVIDIA V100", 70, 80, (96, 96), 1530, 900.0, 6),
    _gpu("NVIDIA T4", 75, 40, (64, 64), 1590, 320.0, 4),
    _gpu("NVIDIA A100", 80, 108, (163, 164), 1410, 2039.0, 40),
    _gpu("NVIDIA GeForce RTX 3090", 86, 82, (99, 100), 1695, 936.0, 6),
    _gpu("NVIDIA L40S", 89, 142, (99, 100), 2520, 864.0, 96),
    H200,
    _gpu("NVIDIA B200", 100, 148, (227, 228), 1965, 8000.0, 126),
    _gpu("NVIDIA GeForce RTX 5090", 120, 170, (99, 100), 2407, 1792.0, 96),
)
"""By architecture, ascending."""

CORE: Final = Target("processor with AVX-512", "x86_64", clock=3700, vector=64, caches=(48 << 10, 2 << 20), lanes=32)
"""A core for which nothing can be read: one vector multiply-add is two of 64 bytes a cycle."""
MEASURED_CORE: Final = replace(CORE, name="core of the estimates", caches=(48 << 10, 1 << 20, 32 << 20), lanes=16)
"""The core that most constants of the cost models were measured on: it works on vectors in two halves. What those of
CORE, which starts two multiply-adds of a vector a cycle, take else is in cores.py."""


def gpu(arch: str) -> Target:
    """The device that is assumed for an architecture (`sm_90`, `sm_103a`)."""
    found = re.search(r"\d+", arch)
    number = int(found[0]) if found else 0
    below = [g for g in GPUS if int(g.architecture[3:]) <= number]
    return below[-1] if below else GPUS[0]
