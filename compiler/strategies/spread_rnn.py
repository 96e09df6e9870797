"""spread_rnn: a recurrent layer as one launch whose matrices are spread over blocks.

Groups of blocks take a few samples each through all steps. A block of a group has a power of two of the outputs of each
product, and the part of the matrices for them in shared memory; what a step gives is read by all blocks of the group
after their barrier. Within a block, threads sum EIGHT outputs of EIGHT samples each, over a part of the terms; threads
of a warp join their parts at once. Where several loops do not need each other, as the directions of a bidirectional
layer, each may have a part of the processors, so that they run at the same time.

Assumes: stages (backends/cuda/persistent/rnn_plan.py) as their outputs and panels: products that multiply the same
values.
Guarantees: what is arranged here fits into the shared memory that is given.
Does not: know a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from compiler.core.dataclass import dataclass
from compiler.ir.level2.target import Target
from compiler.strategies.cost import cuda as cost

EIGHT: Final = 8
"""Outputs, and samples, that a thread sums at once."""
DEPTH: Final = 4
"""Chunks of values that are on their way or on chip, at most."""
THREADS: Final = 256
"""Of a block."""
RECORDS: Final = 16 << 10
"""Bytes of shared memory that the stages of a chain may take, where their number is not known."""
_WARP: Final = 32
_BANKS: Final = 32
_LANES: Final = 8
"""Threads that read 16 bytes of shared memory each at once."""


@dataclass(frozen=True)
class Panel:
    """Products that multiply the same values: how many, and their terms."""

    products: int
    terms: int


@dataclass(frozen=True)
class Stage:
    outs: int
    panels: tuple[Panel, ...]

    @property
    def products(self) -> int:
        return sum(p.products for p in self.panels)


@dataclass(frozen=True)
class Division:
    """A chain of so many samples in groups of `members` blocks, each with `each` samples."""

    members: int
    each: int
    samples: int

    @staticmethod
    def of(members: int, samples: int, processors: int, loops: int = 1) -> Division | None:
        """The division that uses all processors, if there are enough samples, or the part of one of `loops`."""
        if members * loops > processors:
            return None
        each = -(-samples // (processors // loops // members))
        return Division(members, min(samples, -(-each // EIGHT) * EIGHT), samples)

    @property
    def blocks(self) -> int:
        return self.members * -(-self.samples // self.each)

    def bits(self, outs: int) -> int:
        """A block has 2^bits of the outputs of a stage."""
        return (-(-outs // self.members) - 1).bit_length()


@dataclass(frozen=True)
class Arrangement:
    """How a block sums a stage: `side` panels side by side, each by `tiles` x `ways` threads, `across` tiles for all of
    its lines, of which `fold` in a warp join theirs; `part`: reals between parts of sums. `chunk` units of values of a
    panel at a time, `line` reals from sample to sample, `depth` chunks ahead. `sums`, `values`: reals that these take;
    `once`: all panels side by side, so that sums may take the place of values."""

    side: int = 1
    tiles: int = 1
    across: int = 1
    ways: int = 1
    part: int = 0
    chunk: int = 1
    chunks: int = 0
    line: int = 0
    depth: int = DEPTH
    sums: int = 0
    values: int = 0
    once: bool = True
    fold: int = 1

    @property
    def parts(self) -> int:
        """Of each sum."""
        return self.ways // self.fold

    def pitch(self, units: int) -> int:
        """Units from one line to the next one, so that threads that read at once read different banks."""
        lanes = _LANES // self.tiles if self.tiles in (1, 2, 4) else 1
        return units if lanes == _LANES else (-(-units // lanes) | 1) * lanes


def arranged(stage: Stage, division: Division, unit: int) -> Iterator[Arrangement]:
    """Ways to sum a stage, `unit` reals at a time, the fastest one first; the later ones take less shared memory."""
    if not stage.panels:
        yield Arrangement()
        return
    bits, each = division.bits(stage.outs), division.each
    units = max(-(-p.terms // unit) for p in stage.panels)
    across = -(-(max(p.products for p in stage.panels) << bits) // EIGHT)
    tiles = across * -(-each // EIGHT)
    if tiles > THREADS:
        return
    passes = -(-len(stage.panels) // (THREADS // tiles))
    side = -(-len(stage.panels) // passes)
    ways = min(THREADS // side // tiles, units)
    part = -(-(each << bits) // _BANKS) * _BANKS + across
    while ways > 0:
        for turns, depth in ((2, DEPTH), (1, DEPTH), (1, 2)):
            chunk = min(units, ways * turns)
            x = Arrangement(side, tiles, across, ways, part, chunk, -(-units // chunk), depth=depth)
            x = replace(x, once=passes == 1, fold=_fold(tiles, ways, THREADS // side))
            line = x.pitch(chunk) * unit
            yield replace(x, line=line, sums=stage.products * x.parts * part, values=depth * side * each * line)
        ways //= 2


def _fold(tiles: int, ways: int, threads: int) -> int:
    """Threads of a warp that sum the same tile: 1, where these are not a power of two, or a warp has others, too."""
    return _WARP // tiles if tiles in (1, 2, 4, 8, 16) and not (ways * tiles) % _WARP and not threads % _WARP else 1


@dataclass(frozen=True)
class Room:
    """What a block has on chip beside the matrices, in reals: where values begin behind the sums, and where both
    end."""

    values: int
    end: int

    @staticmethod
    def of(stages: Sequence[Arrangement]) -> Room:
        sums, values = (-(-n // _BANKS) * _BANKS for n in (max(x.sums for x in stages), max(x.values for x in stages)))
        return Room(0, max(sums, values)) if all(x.once for x in stages) else Room(sums, sums + values)


def kept(stage: Stage, x: Arrangement, division: Division, unit: int) -> int:
    """Reals of a block's part of the matrices of a stage."""
    bits = division.bits(stage.outs)
    return sum((p.products << bits) * x.pitch(-(-p.terms // unit)) * unit for p in stage.panels)


def fitting(
    stages: Sequence[Stage], division: Division, unit: int, reals: int, matrices: Sequence[bool] = ()
) -> tuple[list[Arrangement], Room] | None:
    """The fastest arrangements of stages that fit together into so many reals. `matrices`: whether a stage has matrices
    that none before it has (default: each)."""
    ways = [list(arranged(s, division, unit)) for s in stages]
    for level in range(max(map(len, ways), default=0)):
        if not all(ways):
            return None
        found = [w[min(level, len(w) - 1)] for w in ways]
        room = Room.of(found)
        new = matrices or [True] * len(stages)
        taken = sum(kept(s, x, division, unit) for s, x, n in zip(stages, found, new, strict=True) if n)
        if taken + room.end <= reals:
            return found, room
    return None


@dataclass(frozen=True)
class Spread:
    """The best number of members by estimate, and microseconds."""

    members: int
    microseconds: float


def best(
    stages: Sequence[tuple[Stage, int]], samples: int, real_bytes: int, device: Target, loops: int = 1
) -> Spread | None:
    """For stages with matrices of their own, and how often each is run; None, where they do not fit. `loops`: how many
    run at the same time, each on a part of the device."""
    found: list[Spread] = []
    most = max(s.outs for s, _ in stages)
    reals = (device.shared_block - RECORDS) // real_bytes
    for bits in range(1, most.bit_length()):
        division = Division.of(-(-most // (1 << bits)), samples, device.processors, loops)
        fit = division and fitting([s for s, _ in stages], division, 16 // real_bytes, reals)
        if division and fit:
            each = zip(stages, fit[0], strict=True)
            time = sum(many * _microseconds(s, x, division, real_bytes, device) for (s, many), x in each)
            found.append(Spread(division.members, time))
    return min(found, key=lambda x: x.microseconds, default=None)


def _microseconds(stage: Stage, x: Arrangement, division: Division, real_bytes: int, device: Target) -> float:
    values = division.each * sum(p.terms for p in stage.panels) * real_bytes
    terms = sum((p.products << division.bits(stage.outs)) * p.terms for p in stage.panels)
    sums = -(-division.each // EIGHT) * EIGHT * terms * THREADS / (x.side * x.tiles * x.ways)
    wait = (cost.SPREAD_BARRIER_US + values / cost.SPREAD_BYTES) * cost.waits(device)
    return wait + sums / cost.SPREAD_TERMS * cost.works(device)
