"""spread_rnn: a recurrent layer as one launch whose matrices are spread over blocks.

Groups of blocks take a few samples each through all steps. A block of a group has a power of two of the outputs of each
product, and the part of the matrices for them in shared memory; what a step gives is read by all blocks of the group
after their barrier. Within a block, threads sum EIGHT outputs of EIGHT samples each, over a part of the terms; threads
of a warp join their parts at once. Where `numerics: {products: ...}` permits it, warps have the matrix units sum tiles
of 16 samples by 8 outputs instead, each factor as one number of tf32 or as the sum of two (WAYS). Where several loops
do not need each other, as the directions of a bidirectional layer, each may have a part of the processors, so that they
run at the same time.

Assumes: stages (backends/cuda/persistent/rnn_plan.py) as their outputs and panels: products that multiply the same
values.
Guarantees: what is arranged here fits into the shared memory that is given.
Does not: know a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.ir.level2.target import Capabilities, Target, generation
from compiler.ir.space import DType
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
_WARPS: Final = THREADS // _WARP
STEP: Final = 4
"""Units of terms that a warp multiplies on matrix units at once."""
LEAST_TERMS: Final = 256
"""A float32 sum in order of fewer terms is more exact than that of matrix units."""
DOWN: Final = 4
"""Tiles of samples that a warp sums on matrix units at once, at most."""
_COLUMNS: Final = (1, 2, 4)
"""Tiles of outputs, likewise."""
_SAMPLES, _OUTS = 16, 8
"""Of such a tile."""
_LEAST_UNITS: Final = 80
"""The first architecture with units of tf32."""
_BANKS: Final = 32
_LANES: Final = 8
"""Threads that read 16 bytes of shared memory each at once."""


@dataclass(frozen=True)
class Way:
    """`products`: what `numerics: {products: ...}` has to permit at least; `passes`: products of tf32 of each."""

    name: str
    products: str
    passes: int


WAYS: Final = (Way("spread_products_tf32", "tf32", 1), Way("spread_products_float32", "float32", 3))
"""How matrix units make the sums of a chain, the fastest first: with the rests of both factors but for the product of
these, the error is no larger than that of a float32 sum in order; what is not finite is NaN."""
NAMES: Final = frozenset(w.name for w in WAYS)


def passes(capabilities: Capabilities, precision: DType) -> int:
    """Products of tf32 of each product of a chain that is spread, as far as the numerics permit
    (compiler/strategies/permissions.py); 0: threads make the sums."""
    if precision is not DType.F32 or generation(capabilities.device.architecture) < _LEAST_UNITS:
        return 0
    return next((w.passes for w in WAYS if w.name in capabilities.strategies), 0)


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
    `once`: all panels side by side, so that sums may take the place of values. `columns`: tiles of outputs that a warp
    has on matrix units (0: threads make the sums); `tiles` and `ways` then are of warps. `divided`: each of 2^divided
    panels is summed by a part of the blocks, for 2^divided times as many outputs, and given to the others."""

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
    columns: int = 0
    divided: int = 0

    @property
    def parts(self) -> int:
        """Of each sum."""
        return self.ways // self.fold

    def pitch(self, units: int) -> int:
        """Units from one line to the next one, so that threads that read at once read different banks."""
        if self.columns:
            whole = -(-units // STEP) * STEP
            return whole if whole % _LANES else whole + STEP
        lanes = _LANES // self.tiles if self.tiles in (1, 2, 4) else 1
        return units if lanes == _LANES else (-(-units // lanes) | 1) * lanes


def divided(stage: Stage, division: Division, real_bytes: int) -> int:
    """The panels of a stage are divided among 2^n parts of the blocks, each of which then reads the values of one panel
    alone: n, where that saves more than it takes, else 0."""
    panels, members = len(stage.panels), division.members
    alike = len({p.terms for p in stage.panels}) == 1 and all(p.products == 1 for p in stage.panels)
    if panels not in (2, 4) or not alike or members % panels:
        return 0
    saved = division.each * (panels - 1) * stage.panels[0].terms * real_bytes / cost.SPREAD_BYTES
    return panels.bit_length() - 1 if saved > cost.SPREAD_GIVEN_US else 0


def summed(stage: Stage, division: Division, divided: int) -> tuple[int, Sequence[Panel]]:
    """Of what a block sums of a stage: 2^n of the outputs, n first, and the panels."""
    bits = division.bits(stage.outs)
    return (bits + divided, stage.panels[:1]) if divided else (bits, stage.panels)


def arranged(stage: Stage, division: Division, unit: int, units: bool = False) -> Iterator[Arrangement]:
    """Ways to sum a stage, `unit` reals at a time, the fastest one first; the later ones take less shared memory.
    `units`: by warps on matrix units, not by threads."""
    if not stage.panels:
        yield Arrangement()
        return
    workers, step, each = (_WARPS, STEP, division.each) if units else (THREADS, 1, division.each)
    among = divided(stage, division, 16 // unit) if units else 0
    bits, panels = summed(stage, division, among)
    lines, size = max(p.products for p in panels) << bits, each << bits
    terms = -(-max(-(-p.terms // unit) for p in panels) // step) * step
    columns = next((n for n in _COLUMNS if n * _OUTS >= lines), _COLUMNS[-1]) if units else 0
    across = -(-lines // (columns * _OUTS or EIGHT))
    tiles = across * -(-each // (_SAMPLES * DOWN if units else EIGHT))
    if tiles > workers:
        return
    passes = -(-len(panels) // (workers // tiles))
    side = -(-len(panels) // passes)
    ways = min(workers // side // tiles, terms // step)
    part = _places(size) if units else -(-size // _BANKS) * _BANKS + across
    products, given = sum(p.products for p in panels), stage.products * _places(size >> among) if among else 0
    while ways > 0:
        fold = 1 if units else _fold(tiles, ways, THREADS // side)
        for turns, depth in ((2, DEPTH), (1, DEPTH), (1, 2)):
            chunk = min(terms, ways * turns * step)
            x = Arrangement(side, tiles, across, ways, part, chunk, -(-terms // chunk), depth=depth, fold=fold)
            x = replace(x, once=passes == 1, columns=columns, divided=among)
            line = x.pitch(chunk) * unit
            yield replace(x, line=line, sums=max(products * x.parts * part, given), values=depth * side * each * line)
        ways //= 2


def _places(sums: int) -> int:
    """Reals that sums of a product take: between each 32 are some, so that those of several samples are in other
    banks."""
    return -(-sums // _BANKS) * (_BANKS + STEP)


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
    bits, panels = summed(stage, division, x.divided)
    return sum((p.products << bits) * x.pitch(-(-p.terms // unit)) * unit for p in panels)


def fitting(
    stages: Sequence[Stage], division: Division, unit: int, reals: int, units: bool = False
) -> tuple[list[Arrangement], Room] | None:
    """The fastest arrangements of stages with matrices of their own that fit together into so many reals. `units`: on
    matrix units."""
    ways = [list(arranged(s, division, unit, units)) for s in stages]
    for level in range(max(map(len, ways), default=0)):
        if not all(ways):
            return None
        found = [w[min(level, len(w) - 1)] for w in ways]
        room = Room.of(found)
        taken = sum(kept(s, x, division, unit) for s, x in zip(stages, found, strict=True))
        if taken + room.end <= reals:
            return found, room
    return None


@dataclass(frozen=True)
class Spread:
    """The best number of members by estimate, microseconds, and passes of matrix units (l2.Loop)."""

    members: int
    microseconds: float
    passes: int = 0


def best(
    stages: Sequence[tuple[Stage, int]], samples: int, real_bytes: int, device: Target, loops: int = 1, passes: int = 0
) -> Spread | None:
    """For stages with matrices of their own, and how often each is run; None, where they do not fit. `loops`: how many
    run at the same time, each on a part of the device; `passes`: of matrix units, where these may make the sums."""
    found: list[Spread] = []
    most = max(s.outs for s, _ in stages)
    reals = (device.shared_block - RECORDS) // real_bytes
    exact = passes and min(p.terms for s, _ in stages for p in s.panels) >= LEAST_TERMS
    for bits in range(1, most.bit_length()):
        division = Division.of(-(-most // (1 << bits)), samples, device.processors, loops)
        if division is None:
            continue
        for way in (0, passes) if exact else (0,):
            fit = fitting([s for s, _ in stages], division, 16 // real_bytes, reals, way > 0)
            if fit is not None:
                each = zip(stages, fit[0], strict=True)
                time = sum(many * _microseconds(s, x, division, real_bytes, device, way) for (s, many), x in each)
                found.append(Spread(division.members, time, way))
    return min(found, key=lambda x: x.microseconds / (cost.SPREAD_UNITS_GAIN if x.passes else 1.0), default=None)


def _microseconds(
    stage: Stage, x: Arrangement, division: Division, real_bytes: int, device: Target, passes: int
) -> float:
    bits, panels = summed(stage, division, x.divided)
    values = division.each * sum(p.terms for p in panels) * real_bytes
    wait = cost.SPREAD_BARRIER_US + values / cost.SPREAD_BYTES + (cost.SPREAD_GIVEN_US if x.divided else 0.0)
    wait *= cost.waits(device)
    if passes:
        turns = -(-max(p.terms for p in panels) * real_bytes // (16 * STEP * x.ways)) * -(-len(panels) // x.side)
        tiles = x.columns * min(DOWN, -(-division.each // _SAMPLES))
        return wait + turns * (cost.SPREAD_STEP_US + passes * tiles * cost.SPREAD_TILE_US) * cost.works(device)
    terms = sum((p.products << bits) * p.terms for p in panels)
    sums = -(-division.each // EIGHT) * EIGHT * terms * THREADS / (x.side * x.tiles * x.ways)
    return wait + sums / cost.SPREAD_TERMS * cost.works(device)
