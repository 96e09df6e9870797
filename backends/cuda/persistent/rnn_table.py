"""rnn_table: the table of one chain: each block takes a few samples through all links, with the matrices on chip.

Assumes: legal chains (ir/level2/batch_independence.py); tables with device addresses.
Guarantees: all size-dependent data is in the table: matrices, and stages (rnn_plan.py) with the rows of their links,
which the kernel prefetches two stages ahead. The order of a sum follows from the extents and the samples per block, so
results are reproducible on one device.
Does not: run a chain whose matrices do not fit: its launches then run one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import backends.cuda.persistent.rnn as rnn
import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.launch_work import Words
from backends.cuda.persistent.rnn_plan import Shapes
from backends.cuda.persistent.rnn_records import Records, table_of
from backends.cuda.persistent.rnn_stages import Factors, Held, ReadChain, ReadStage
from backends.kernel_ir.descriptor import Compiled
from compiler.ir.level2.batch_independence import padded
from compiler.strategies import clustered_rnn


@dataclass(frozen=True, eq=False)
class Walk:
    """A chain as a launch: blocks, samples of each, the table, and bytes of shared memory; the kernel and its threads;
    words of `counters` by which blocks wait for each other, if they do."""

    blocks: int
    samples: int
    table: npt.NDArray[np.uint8]
    shared: int
    function: str = rnn.NAME
    threads: int = BLOCK + rnn.AHEAD
    counters: int = 0


@dataclass(frozen=True)
class _Sums:
    """How a stage sums: 2^bits outputs in parallel, four of them by four threads, 2^split times, 2^beside products at a
    time."""

    bits: int
    split: int
    beside: int

    @staticmethod
    def of(outs: int, pitches: Sequence[int], unit: int) -> _Sums:
        bits = max(2, min((outs - 1).bit_length(), (BLOCK - 1).bit_length()))
        if not pitches:
            return _Sums(bits, 0, 0)
        beside = min((min(len(pitches), rnn.TOGETHER) - 1).bit_length(), (BLOCK >> bits).bit_length() - 1)
        most = min(BLOCK >> bits >> beside, max(1, min(pitches) // unit // rnn.FOUR))
        return _Sums(bits, most.bit_length() - 1, beside)

    def room(self, products: int) -> int:
        """Parts of sums of one sample."""
        passes = -(-products >> self.beside)
        return passes << self.beside << self.split << self.bits


class _Packer:
    """Fills in the table of one chain."""

    def __init__(self, real_bytes: int, chain: ReadChain, samples: int, cluster: int) -> None:
        self.real_bytes, self.chain, self.samples, self.cluster = real_bytes, chain, samples, cluster
        self.unit = 16 // real_bytes
        self.matrices: dict[object, tuple[int, Factors]] = {}  # by what it is and its outputs' side: its offset
        self.kept = 0
        self.different = chain.different()
        self.bits = clustered_rnn.bits(max(x.stage.outs for x, _ in self.different), cluster)
        for f in (f for x, _ in self.different for f in x.factors):
            if (f.matrix, f.by_out) not in self.matrices:
                self.matrices[f.matrix, f.by_out] = self.kept, f
                lines, pitch = self._padded(f)
                self.kept += lines * pitch

    def _outs(self, x: ReadStage) -> int:
        """Outputs of a stage that a block has."""
        return x.stage.outs if self.cluster == 1 else 1 << self.bits

    def _padded(self, f: Factors) -> tuple[int, int]:
        """Lines of a block's part of a matrix, and reals from one to the next."""
        rows, columns = f.matrix[1:3]
        if self.cluster > 1:
            rows, columns = (1 << self.bits, columns) if f.by_out else (rows, 1 << self.bits)
        return padded(rows, columns, self.real_bytes)

    def _pitch(self, terms: int) -> int:
        """As many reals as fill whole units of 16 bytes."""
        return -(-terms // self.unit) * self.unit

    def _sums(self, x: ReadStage) -> _Sums:
        return _Sums.of(self._outs(x), [self._pitch(f.terms) for f in x.factors], self.unit)

    def _layout(self, x: ReadStage) -> object | None:
        """The distribution of a stage's matrices over threads, where each has a part of one product that fits into its
        registers: stages with equal layouts multiply alike."""
        if not x.factors:
            return None
        sums = self._sums(x)
        units = -(-max(self._pitch(f.terms) for f in x.factors) // self.unit >> sums.split)
        if len(x.factors) > 1 << sums.beside or self._outs(x) > 1 << sums.bits or units > clustered_rnn.MINE:
            return None
        return sums, tuple((f.outs, f.terms, f.matrix, f.by_out) for f in x.factors)

    def _mine(self) -> object | None:
        """The most common layout of stages."""
        found = Counter[object]()
        for x, times in self.different:
            if (layout := self._layout(x)) is not None:
                found[layout] += times
        return found.most_common(1)[0][0] if found else None

    def _records(self, each: int) -> tuple[Records, int, int]:
        """Stages with the rows of their links, their reads, their factors and the destinations of their results, in
        whole units of 16 bytes; the maximum number of operand values held at a time, and of partial sums of one sample,
        in reals."""
        area = each * max(self._pitch(f.terms) for x, _ in self.different for f in x.factors)
        held: list[Held | None] = [None] * rnn.SLOTS
        used, mine = 0, self._mine()

        def record(x: ReadStage, behind: ReadStage | None) -> npt.NDArray[np.uint8]:
            nonlocal used
            head, factors, feeds = (
                np.zeros(1, rnn.STAGE),
                np.zeros(len(x.factors), rnn.FACTOR),
                np.zeros(len(x.fed), rnn.FEED),
            )
            head["shape"] = x.what
            sums = self._sums(x)
            head["outs"], head["products"] = x.stage.outs, len(x.factors)
            head["bits"], head["split"], head["beside"] = sums.bits, sums.split, sums.beside
            head["mine"] = mine is not None and self._layout(x) == mine
            head["fresh"] = self._filled(x.factors, factors, held, area)
            self._fed(x, behind, feeds, held, area)
            head["fed"] = int((feeds["slot"] >= 0).sum())
            used = max(used, 1 + max((n for n, h in enumerate(held) if h is not None), default=-1))
            rows = x.packed()
            there = {f.values.at for f in x.factors} - {int(f["values"]) for f in factors if f["fresh"]}
            near = [(at, bytes_) for at, bytes_ in x.reads(there).items() if bytes_ <= rnn.EXPECTED]
            reads = np.array(near, rnn.READ)
            head["rows"], head["reads"] = rows.nbytes, len(reads)
            feeds = np.concatenate([feeds, np.zeros(len(feeds) % 2, rnn.FEED)])
            return np.concatenate([y.view(np.uint8) for y in (head, rows, reads, factors, feeds)])

        def moved(steps: int) -> list[Held | None]:
            return [None if h is None else h.later(steps) for h in held]

        def move(steps: int) -> None:
            held[:] = moved(steps)

        made = table_of(self.chain, record, lambda steps: tuple(moved(-steps)), move)
        room = max(self._sums(x).room(len(x.factors)) for x, _ in self.different)
        return made, used * area, room

    def _filled(
        self, given: Sequence[Factors], factors: npt.NDArray[np.void], held: list[Held | None], area: int
    ) -> int:
        """The factors of the products of a stage; the number of values to load. `held`: the values in each slot, which
        this changes."""
        wanted = [f.values for f in given]
        for factor, f in zip(factors, given, strict=True):
            factor["fresh"] = f.values not in held
            if f.values not in held:
                held[next(k for k, x in enumerate(held) if x not in wanted)] = f.values
            pitch = self._padded(f)[1]
            factor["values"], factor["by_sample"], factor["terms"] = f.values.at, f.values.by_sample, f.values.terms
            factor["pitch"] = self._pitch(f.terms)
            factor["at"], factor["slot"] = self.matrices[f.matrix, f.by_out][0], held.index(f.values) * area
            factor["by_out"], factor["by_term"] = (pitch, 1) if f.by_out else (1, pitch)
        return int(factors["fresh"].sum())

    def _fed(
        self, x: ReadStage, behind: ReadStage | None, feeds: npt.NDArray[np.void], held: list[Held | None], area: int
    ) -> None:
        """Slots of results that the products of the next stage multiply: disjoint from those of this one."""
        results = x.results()
        busy = {n for n, h in enumerate(held) if h is not None and h in {f.values for f in x.factors}}
        for n, h in enumerate(held):
            if h is not None and h.at in results:
                held[n] = None
        wanted = {f.values for f in behind.factors} if behind is not None else set()
        busy |= {n for n, h in enumerate(held) if h in wanted}
        feeds["slot"] = -1
        for feed, r in zip(feeds, x.fed, strict=True):
            outs = x.stage.outs
            whole = (results[r], outs, outs)
            values = next((v for v in wanted if (v.at, v.by_sample, v.terms) == whole), None)
            free = next((n for n in range(rnn.SLOTS) if n not in busy), None)
            if values is not None and free is not None and outs % self.unit == 0:
                feed["slot"], feed["pitch"] = free * area, outs
                held[free] = values
                busy.add(free)

    def walk(self, processors: int, room: int) -> Walk | None:
        each = -(-self.samples // clustered_rnn.groups(self.cluster, processors))
        while True:
            made, values, parts = self._records(each)
            record = made.size
            turn = self._pitch(parts * min(each, clustered_rnn.TILE))
            sums = self.kept + values
            records = (sums + 2 * turn) * self.real_bytes
            shared = records + rnn.RECORDS * record + 4 * rnn.AHEAD * rnn.SPARE + (rnn.TELLS if self.cluster > 1 else 0)
            if shared <= room:
                break
            if each == 1:
                return None
            each = -(-each // 2)
        heads = np.ascontiguousarray(made.lines[:, : rnn.STAGE.itemsize]).view(rnn.STAGE)[:, 0]
        mine = made.stage(int(heads["mine"].argmax())) if heads["mine"].any() else -1
        many = len(self.matrices), made.stages
        head = np.zeros(1, rnn.CHAIN)
        head[0] = (self.samples, *many, record, self.kept, sums, turn, records, mine, *made.turns, self.bits, 0)
        kept = np.zeros(len(self.matrices), rnn.MATRIX)
        for n, (at, f) in enumerate(self.matrices.values()):
            address, rows, columns, by_row = f.matrix
            part = 1 << self.bits if self.cluster > 1 else 0
            by_block, each_of = part * by_row if f.by_out else part, (part, 0) if f.by_out else (0, part)
            kept[n] = (address, by_row, rows, columns, at, self._padded(f)[1], by_block, *each_of)
        whole = np.concatenate([head.view(np.uint8), kept.view(np.uint8), made.lines.reshape(-1)])
        return Walk(self.cluster * -(-self.samples // each), each, whole, shared, rnn.name_of(self.cluster))


def walk(
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.Phase,
    chain: l2.Loop,
    tables: Sequence[Words],
    shapes: Shapes,
    processors: int,
    room: int,
) -> Walk | None:
    """A chain as one launch, from the tables with device addresses; None where it has no stages, or its matrices do
    not fit into `room` bytes of shared memory. All multiprocessors get samples, if there are enough."""
    if (schedule := shapes.of[phase.name, chain.first]) is None:
        return None
    read = ReadChain(program, kernels, schedule, tables, shapes)
    return _Packer(program.precision.bytes, read, chain.samples, chain.cluster).walk(processors // chain.abreast, room)
