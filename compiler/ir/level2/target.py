"""Properties of a target that lowering depends on. Assumes / guarantees: plain data that a backend declares about
itself.
Does not: name any backend.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What lowering must know of a target.

    lanes: lanes of the batch-in-lanes layout for 4-byte reals (0: row-major tensors). atomic_order: True when
    concurrent float += has a fixed order (a single thread), so that accumulators may be the state itself; False:
    `reproducible` needs fixed-point accumulators. apart: bytes of WORK arrays up to which they share no memory (0: they
    always share). chains: whether it can run chains (compiler/passes/program/persistent_rnn.py).
    """

    name: str
    lanes: int
    atomic_order: bool
    strategies: frozenset[str]
    apart: int = 0
    chains: bool = False
