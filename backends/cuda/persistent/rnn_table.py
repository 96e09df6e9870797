"""rnn_table: the table of one chain: each block takes a few samples through all links, with the matrices on chip.

Assumes: legal chains (ir/level2/batch_independence.py); tables with device addresses.
Guarantees: all size-dependent data is in the table: matrices, and stages (rnn_plan.py) with the rows of their links,
which the kernel prefetches two stages ahead. The order of a sum follows from the extents and the samples per block, so
results are reproducible on one device.
Does not: run a chain whose matrices do not fit: its launches then run one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import backends.cuda.persistent.rnn as rnn
import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.launch_geometry import Words
from backends.cuda.persistent.rnn_plan import Shapes, Stage, row_bytes
from backends.kernel_ir.descriptor import Compiled
from compiler.ir.level2.batch_independence import Product, apart, nest_of, numbers, padded, product_of


@dataclass(frozen=True, eq=False)
class Walk:
    """A chain as a launch: blocks, samples of each, the table, and bytes of shared memory."""

    blocks: int
    samples: int
    table: npt.NDArray[np.uint8]
    shared: int


@dataclass(frozen=True)
class _Row:
    """One link: its template, its row, the columns of it that the kernel reads, and its reads per sample: (formal,
    address, bytes)."""

    template: l2.Template
    words: Words
    columns: tuple[int, ...]
    reads: tuple[tuple[str, int, int], ...]

    def number(self, name: int | str) -> int:
        if isinstance(name, int):
            return name
        return int(self.words[[f.name for f in self.template.formals].index(name)].view(np.int64))

    def address(self, formal: str) -> int:
        return int(self.words[[f.name for f in self.template.formals].index(formal)])

    def extent(self, dim: str) -> int:
        nest = nest_of(self.template)
        assert nest is not None
        return self.number(next(d.extent for d in nest.dims if d.name == dim))

    def by(self, formal: str, dim: str) -> int:
        """The stride of an operand of a product along a dim."""
        access = next(f.access for f in self.template.formals if isinstance(f, l2.ArrayFormal) and f.name == formal)
        assert isinstance(access, l2.Strided)
        return self.number(next(a.stride for a in access.axes if a.terms == ((dim, 1),)))


@dataclass(frozen=True)
class _Factors:
    """The operands of a product: outputs and terms; its matrix (address, rows, columns, stride), and whether rows are
    outputs; its values (address, stride, terms)."""

    outs: int
    terms: int
    matrix: tuple[int, int, int, int]
    by_out: bool
    values: tuple[int, int, int]


def _factors(row: _Row, p: Product) -> _Factors:
    outs, terms = row.extent(p.out), row.extent(p.term)
    sides = (outs, terms) if p.by_out else (terms, outs)
    matrix = (row.address(p.matrix), *sides, row.by(p.matrix, p.out if p.by_out else p.term))
    return _Factors(outs, terms, matrix, p.by_out, (row.address(p.values), row.by(p.values, p.sample), terms))


@dataclass(frozen=True)
class _Link:
    """A stage, the number of its shape, its rows, and the products of these. `fed`: see Shapes."""

    stage: Stage
    rows: Sequence[_Row]
    factors: Sequence[_Factors]
    what: int
    fed: Sequence[int]

    def results(self) -> list[int]:
        """Addresses of the results, in their order."""
        return [row.address(f) for part, row in zip(self.stage.shape, self.rows, strict=True) for f in part.results]

    def reads(self, there: Set[int]) -> dict[int, int]:
        """Bytes of a sample by address, of reads that earlier links do not compute, and of values that are not
        `there`."""
        found: dict[int, int] = {}
        for n, row in enumerate(self.rows):
            known = {f for f, _ in self.stage.shape[n].known}
            product = product_of(row.template)
            for formal, at, bytes_ in row.reads:
                if formal not in known and not (product and formal == product.values and at in there):
                    found[at] = bytes_
        return found


def _lines(samples: int) -> int:
    """Samples of a block as they are summed: one, two, or tiles."""
    return samples if samples <= 2 else -(-samples // rnn.TILE) * rnn.TILE


Held = tuple[int, int, int]
"""Values of products: address, stride of samples, terms."""


@dataclass(frozen=True)
class _Sums:
    """How a stage sums: 2^bits outputs in parallel, each by 2^split threads, 2^ways products at a time."""

    bits: int
    split: int
    ways: int

    @staticmethod
    def of(outs: int, pitches: Sequence[int], unit: int) -> _Sums:
        bits = min((outs - 1).bit_length(), (BLOCK - 1).bit_length())
        if not pitches:
            return _Sums(bits, 0, 0)
        ways = min((min(len(pitches), rnn.TOGETHER) - 1).bit_length(), (BLOCK >> bits).bit_length() - 1)
        most = min(BLOCK >> bits >> ways, max(1, min(pitches) // unit // 2))
        return _Sums(bits, most.bit_length() - 1, ways)

    def room(self, products: int) -> int:
        """Parts of sums of one sample."""
        passes = -(-products >> self.ways)
        return passes << self.ways << self.split << self.bits


class _Packer:
    """Fills in the table of one chain."""

    def __init__(self, real_bytes: int, links: Sequence[_Link], samples: int) -> None:
        self.real_bytes, self.links, self.samples = real_bytes, links, samples
        self.unit = 16 // real_bytes
        self.matrices: dict[tuple[int, int, int, int], int] = {}  # their offsets
        self.kept = 0
        for f in (f for x in links for f in x.factors):
            if f.matrix not in self.matrices:
                self.matrices[f.matrix] = self.kept
                lines, pitch = padded(*f.matrix[1:3], real_bytes)
                self.kept += lines * pitch

    def _pitch(self, terms: int) -> int:
        return -(-terms // self.unit) * self.unit

    def _sums(self, x: _Link) -> _Sums:
        return _Sums.of(x.stage.outs, [self._pitch(f.terms) for f in x.factors], self.unit)

    def _layout(self, x: _Link) -> object | None:
        """The distribution of a stage's matrices over threads, where each has a part of one product that fits into its
        registers: stages with equal layouts multiply alike."""
        if not x.factors:
            return None
        sums = self._sums(x)
        units = -(-max(self._pitch(f.terms) for f in x.factors) // self.unit >> sums.split)
        if len(x.factors) > 1 << sums.ways or x.stage.outs > 1 << sums.bits or units > rnn.MINE:
            return None
        return sums, tuple((f.outs, f.terms, f.matrix, f.by_out) for f in x.factors)

    def _mine(self) -> object | None:
        """The most common layout of stages."""
        found = Counter(layout for x in self.links if (layout := self._layout(x)) is not None)
        return found.most_common(1)[0][0] if found else None

    def _records(self, each: int) -> tuple[list[npt.NDArray[np.uint8]], int, int]:
        """Stages with the rows of their links, their reads, their factors and the destinations of their results, in
        whole units of 16 bytes; the maximum number of operand values held at a time, and of partial sums of one sample,
        in reals."""
        area = _lines(each) * max(self._pitch(f.terms) for x in self.links for f in x.factors)
        held: list[Held | None] = [None] * rnn.SLOTS
        records: list[npt.NDArray[np.uint8]] = []
        used, room, mine = 0, 0, self._mine()
        for x, behind in zip(self.links, [*self.links[1:], None], strict=True):
            head, factors, feeds = (
                np.zeros(1, rnn.STAGE),
                np.zeros(len(x.factors), rnn.FACTOR),
                np.zeros(len(x.fed), rnn.FEED),
            )
            head["what"] = x.what
            sums = self._sums(x)
            room = max(room, sums.room(len(x.factors)))
            head["outs"], head["products"] = x.stage.outs, len(x.factors)
            head["bits"], head["split"], head["ways"] = sums.bits, sums.split, sums.ways
            head["mine"] = mine is not None and self._layout(x) == mine
            head["fresh"] = self._filled(x.factors, factors, held, area)
            self._fed(x, behind, feeds, held, area)
            used = max(used, 1 + max((n for n, h in enumerate(held) if h is not None), default=-1))
            rows = np.zeros(sum(row_bytes(len(row.columns)) for row in x.rows) // 8, np.uint64)
            at = 0
            for row in x.rows:
                rows[at : at + len(row.columns)] = row.words[list(row.columns)]
                at += row_bytes(len(row.columns)) // 8
            there = {f.values[0] for f in x.factors} - {int(f["values"]) for f in factors if f["fresh"]}
            reads = np.array(list(x.reads(there).items()), rnn.READ)
            head["rows"], head["reads"] = rows.nbytes, len(reads)
            feeds = np.concatenate([feeds, np.zeros(len(feeds) % 2, rnn.FEED)])
            records.append(np.concatenate([y.view(np.uint8) for y in (head, rows, reads, factors, feeds)]))
        return records, used * area, room

    def _filled(
        self, given: Sequence[_Factors], factors: npt.NDArray[np.void], held: list[Held | None], area: int
    ) -> int:
        """The factors of the products of a stage; the number of values to load. `held`: the values in each slot, which
        this changes."""
        wanted = [f.values for f in given]
        for factor, f in zip(factors, given, strict=True):
            factor["fresh"] = f.values not in held
            if f.values not in held:
                held[next(k for k, x in enumerate(held) if x not in wanted)] = f.values
            pitch = padded(*f.matrix[1:3], self.real_bytes)[1]
            factor["values"], factor["by_sample"], factor["terms"] = f.values
            factor["pitch"] = self._pitch(f.terms)
            factor["at"], factor["slot"] = self.matrices[f.matrix], held.index(f.values) * area
            factor["by_out"], factor["by_term"] = (pitch, 1) if f.by_out else (1, pitch)
        return int(factors["fresh"].sum())

    def _fed(
        self, x: _Link, behind: _Link | None, feeds: npt.NDArray[np.void], held: list[Held | None], area: int
    ) -> None:
        """Slots of results that the products of the next stage multiply: disjoint from those of this one."""
        results = x.results()
        busy = {n for n, h in enumerate(held) if h is not None and h in {f.values for f in x.factors}}
        for n, h in enumerate(held):
            if h is not None and h[0] in results:
                held[n] = None
        wanted = {f.values for f in behind.factors} if behind is not None else set()
        busy |= {n for n, h in enumerate(held) if h in wanted}
        feeds["slot"] = -1
        for feed, r in zip(feeds, x.fed, strict=True):
            outs = x.stage.outs
            values = next((v for v in wanted if v == (results[r], outs, outs)), None)
            free = next((n for n in range(rnn.SLOTS) if n not in busy), None)
            if values is not None and free is not None and outs % self.unit == 0:
                feed["slot"], feed["pitch"] = free * area, outs
                held[free] = values
                busy.add(free)

    def walk(self, processors: int, room: int) -> Walk | None:
        each = -(-self.samples // processors)
        while True:
            lines, values, parts = self._records(each)
            record = max(len(line) for line in lines)
            turn = parts * min(_lines(each), rnn.TILE)
            sums = self.kept + values
            records = (sums + 2 * turn) * self.real_bytes
            shared = records + rnn.RECORDS * record + 4 * rnn.AHEAD * rnn.SPARE
            if shared <= room:
                break
            if each == 1:
                return None
            each = -(-each // 2)
        mine = next((n for n, line in enumerate(lines) if line[: rnn.STAGE.itemsize].view(rnn.STAGE)["mine"][0]), -1)
        head = np.zeros(1, rnn.CHAIN)
        head[0] = (
            self.samples,
            len(self.matrices),
            len(self.links),
            record,
            self.kept,
            sums,
            turn,
            records,
            mine,
            0,
            0,
        )
        kept = np.zeros(len(self.matrices), rnn.MATRIX)
        for n, ((address, rows, columns, by_row), at) in enumerate(self.matrices.items()):
            kept[n] = (address, by_row, rows, columns, at, padded(rows, columns, self.real_bytes)[1])
        table = np.zeros((len(lines), record), np.uint8)
        for n, line in enumerate(lines):
            table[n, : len(line)] = line
        whole = np.concatenate([head.view(np.uint8), kept.view(np.uint8), table.reshape(-1)])
        return Walk(-(-self.samples // each), each, whole, shared)


def walk(
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.MergedPhase,
    chain: l2.Chain,
    tables: Sequence[Words],
    shapes: Shapes,
    processors: int,
    room: int,
) -> Walk | None:
    """A chain as one launch, from the tables with device addresses; None where it has no stages, or its matrices do
    not fit into `room` bytes of shared memory. All multiprocessors get samples, if there are enough."""
    sizes = {a.name: a.physical_size for a in program.arrays}

    def row_of(x: l2.Launch) -> _Row:
        template, words = program.templates[x.template], tables[x.template][x.lo]
        number = numbers(program.tables[x.template], x.lo)
        reads = []
        for n, f in enumerate(template.formals):
            if isinstance(f, l2.ArrayFormal) and f.mode is not l2.Mode.WRITE:
                size = sizes[program.tables[x.template].arrays[f.name][x.lo]]
                bytes_ = size // chain.samples * f.dtype.bytes
                if bytes_ <= rnn.EXPECTED and apart(template, f, number, chain.samples, size):
                    reads.append((f.name, int(words[n]), bytes_))
        return _Row(template, words, kernels[x.template].columns, tuple(reads))

    links = []
    for stage in shapes.of[phase.name, chain.first]:
        rows = [row_of(x) for x in phase.launches[stage.first : stage.last]]
        products = [(row, p) for row in rows if (p := product_of(row.template)) is not None]
        at = shapes.number[stage.shape]
        links.append(_Link(stage, rows, [_factors(row, p) for row, p in products], at, sorted(shapes.fed[at])))
    if not links:
        return None
    return _Packer(program.precision.bytes, links, chain.samples).walk(processors, room)
