"""clustered_rnn: a recurrent layer as one launch in which a block, or a cluster of blocks, takes a few samples through
all steps, with matrices and values on chip.

A block of a cluster has a power of two of the outputs of each product, and the part of the matrices for them, as far as
it can in registers. What the products of the next stage multiply, each block stores in the shared memory of all others,
whose barriers count the bytes: there is no barrier of all blocks, and nothing is read from memory.

Assumes: stages with products, each of which has `outs` outputs where blocks are to be clusters.
Guarantees: the matrices fit into the shared memory of a block.
Does not: know a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.ir.level2.target import Target, generation
from compiler.strategies.cost import cuda as cost
from compiler.strategies.spread_rnn import RECORDS, THREADS, Stage

MOST: Final = 8
"""Blocks of a cluster on any device that has clusters."""
LEAST_OUTS: Final = 8
"""Of a block of a cluster."""
TILE: Final = 4
"""Samples that are summed at once."""
MINE: Final = 16
"""Units of 16 bytes of a matrix that a thread keeps in registers."""
_ARCHITECTURE: Final = 90
"""The first one with clusters."""
_PART: Final = 18
"""Processors of a part of a device, at most: those of a cluster are in one part, which has 16 at least."""


def bits(outs: int, cluster: int) -> int:
    """A block of a cluster has 2^n of the outputs."""
    return (-(-outs // cluster) - 1).bit_length()


def groups(cluster: int, processors: int) -> int:
    """Clusters that run at the same time (at least: an H200 with 132 processors has 66, 30 and 15 of 2, 4 and 8
    blocks)."""
    if cluster <= 2:
        return max(1, processors // cluster)
    parts, rest = divmod(processors, _PART)
    return max(1, (_PART - 2) // cluster * parts + rest // cluster)


@dataclass(frozen=True)
class Clustered:
    """Blocks of a cluster (1: none), and microseconds."""

    cluster: int
    microseconds: float


def sizes(outs: int, device: Target) -> list[int]:
    """Blocks that a cluster may have, each with outputs of its own."""
    found = range(2, MOST + 1) if generation(device.architecture) >= _ARCHITECTURE else ()
    return [n for n in found if -(-outs >> bits(outs, n)) == n and 1 << bits(outs, n) >= LEAST_OUTS]


def best(
    stages: Sequence[tuple[Stage, int]],
    links: int,
    samples: int,
    real_bytes: int,
    device: Target,
    clusters: Sequence[int],
    loops: int = 1,
) -> Clustered | None:
    """The fastest of these sizes of clusters, for stages with matrices of their own, and how often each is run; `links`
    in all steps; None, where they do not fit. `loops`: how many run at the same time, each on a part of the device."""
    found = []
    for n in clusters:
        if _fits([s for s, _ in stages], n, real_bytes, device):
            each = -(-samples // groups(n, device.processors // loops))
            time = links * cost.CHAIN_LINK_US * cost.waits(device)
            most = max(many for _, many in stages)
            time += sum(many * _microseconds(s, n, each, real_bytes, device, many == most) for s, many in stages)
            found.append(Clustered(n, time))
    return min(found, key=lambda x: x.microseconds, default=None)


def _weights(stage: Stage, cluster: int) -> int:
    """Elements of the matrices of a stage that a block has."""
    outs = stage.outs if cluster == 1 else 1 << bits(stage.outs, cluster)
    return sum(p.products * p.terms for p in stage.panels) * outs


def _fits(stages: Sequence[Stage], cluster: int, real_bytes: int, device: Target) -> bool:
    """Matrices with a share for what fills their lines, values of two stages, parts of sums."""
    matrices = sum(_weights(s, cluster) for s in stages) * real_bytes * 17 // 16
    values = 2 * TILE * max(sum(p.terms for p in s.panels) for s in stages) * real_bytes
    sums = 2 * TILE * THREADS * max(-(-s.products // TILE) for s in stages) * real_bytes
    return matrices + values + sums + RECORDS <= device.shared_block


def _microseconds(stage: Stage, cluster: int, each: int, real_bytes: int, device: Target, usual: bool) -> float:
    """`usual`: as often as any other stage, so that its matrices may be in registers."""
    tiles, weights = -(-each // TILE), _weights(stage, cluster)
    waits = cost.CHAIN_STAGE_US + cost.CHAIN_SAMPLE_US * each + cost.CHAIN_TILE_US * (tiles - 1)
    waits += cost.CHAIN_CLUSTER_US if cluster > 1 else 0.0
    if usual and weights * real_bytes <= 16 * MINE * THREADS:
        works = cost.CHAIN_KEPT_US * each
    else:
        works = cost.CHAIN_READ_US * tiles + cost.CHAIN_TERM_US * each
    return waits * cost.waits(device) + works * weights * real_bytes / 4 * cost.works(device)
