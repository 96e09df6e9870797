"""clustered_rnn: a recurrent layer as one launch in which clusters of blocks take a few samples each through all steps.

A block of a cluster has a power of two of the outputs of each product, and the part of the matrices for them on chip,
as far as it can in registers. What the products of the next stage multiply, each block stores in the shared memory of
all others, whose barriers count the bytes: there is no barrier of all blocks, and nothing is read from memory.

Assumes: stages of equal numbers of outputs.
Guarantees: what is chosen fits into the shared memory of a block.
Does not: know a program.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 8
"""Blocks of a cluster on any device that has clusters."""
_PART: Final = 0.93
"""Of the processors, that clusters of more than two blocks can take, as these are of one part of the device (30, 15 and 7
of 4, 8 and 16 blocks on an H200 with 132 processors)."""


def bits(outs: int, cluster: int) -> int:
    """A block of a cluster has 2^n of the outputs."""
    return (-(-outs // cluster) - 1).bit_length()


def groups(cluster: int, processors: int) -> int:
    """Clusters that run at the same time."""
    return max(1, (processors if cluster <= 2 else int(_PART * processors)) // cluster)
