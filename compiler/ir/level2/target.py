"""Properties of a target that lowering depends on. Assumes / guarantees: plain data that a backend declares about
itself.
Does not: name any backend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def generation(architecture: str) -> int:
    """90 of `sm_90`, 103 of `sm_103a`; 0 of what is no GPU of NVIDIA."""
    found = re.match(r"sm_(\d+)", architecture)
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class Target:
    """A device in numbers, for cost models and files of measurements; the defaults are a plain processor core.

    processors: multiprocessors, or cores in use. shared_block, shared_processor, shared_kept: bytes of shared memory
    that a block may have, that a processor has, and that the device keeps for itself of each block's. registers: 32-bit
    ones of a processor. clock: MHz at most. bandwidth: of the memory, 1e9 bytes/s (0: not known). vector: bytes.
    caches: bytes by level, the first one first. foreseen: bytes between lines up to which the next one is fetched
    before it is asked for. warp: threads in lockstep. lanes: 32-bit multiply-adds a cycle of a processor. architecture:
    `sm_90`, `x86_64`. estimates: what the estimates of strategies are multiplied by, as measured on the device;
    workspace: bytes that a contraction may take beside the arrays (None: any number).
    """

    name: str = "processor"
    architecture: str = ""
    processors: int = 1
    shared_block: int = 0
    shared_processor: int = 0
    registers: int = 0
    clock: int = 2000
    bandwidth: float = 0.0
    vector: int = 16
    caches: tuple[int, ...] = ()
    warp: int = 1
    lanes: int = 8
    estimates: tuple[tuple[str, float], ...] = ()
    workspace: int | None = None
    shared_kept: int = 0
    foreseen: int = 2048

    @property
    def gflops(self) -> float:
        """1e9 operations on 32-bit reals a second at most, where a multiply-add is two."""
        return 2e-3 * self.processors * self.lanes * self.clock


@dataclass(frozen=True)
class Capabilities:
    """What lowering must know of a target.

    lanes: lanes of the batch-in-lanes layout for 4-byte reals (0: row-major tensors). atomic_order: True when
    concurrent float += has a fixed order (a single thread), so that accumulators may be the state itself; False:
    `reproducible` needs fixed-point accumulators. apart: bytes of WORK arrays up to which they share no memory (0: they
    always share). chains: whether it can run chains (compiler/passes/program/persistent_rnn.py). device: the device
    that it is for. bf16: whether it has arrays of bf16. recorded_steps: steps in which every neuron spikes that a
    buffer of spikes holds, where it is not large: the host has to ask so often whether there is room. rows: whether
    threads share the terms of a sum, a few for each, and go on with the elements of its row.
    """

    name: str
    lanes: int
    atomic_order: bool
    strategies: frozenset[str]
    apart: int = 0
    chains: bool = False
    device: Target = Target()
    bf16: bool = False
    recorded_steps: int = 64
    rows: bool = False
