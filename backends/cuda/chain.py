"""chain: a chain as one launch: each block takes a few samples through all links, with the matrices on chip.

Assumes: legal chains (ir/samples.py); tables as the device reads them.
Guarantees: everything that depends on numbers is a table: matrices, and links with their rows, which the kernel fetches
two ahead. The text has what the templates of all chains of a program do, each once. The order of a sum follows from the
extents and from how many samples a block has, so on one device the bits are the same again.
Does not: run a chain whose matrices do not fit: its launches are then made one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from backends.access import Kernel
from backends.cuda.kernel import BLOCK
from backends.cuda.work import Words
from compiler.ir.program import ArrayFormal, Chain, DimKind, Merged, MergedPhase, Mode, Strided, Template
from compiler.ir.samples import Product, apart, nest_of, numbers, product_of
from compiler.passes.chains import padded

NAME: Final = "nl_chained"
TILE: Final = 4
"""Samples that are summed at once."""
TOGETHER: Final = 4
"""Products that are summed side by side, at most."""
RECORDS: Final = 3
"""Links that are on chip at a time."""
EXPECTED: Final = 4096
"""Bytes of an array that a link reads of a sample, up to which they are brought near while the one before runs."""
MATRIX: Final = np.dtype(
    [("from", "u8"), ("by_row", "i8"), ("rows", "i4"), ("columns", "i4"), ("at", "i4"), ("pitch", "i4")]
)
LINK: Final = np.dtype(
    [
        ("each", "i8"),
        *((name, "i4") for name in ("what", "outs", "terms", "pitch", "bits", "split")),
        *((name, "i4") for name in ("factors", "ways", "way", "row", "reads", "unused", "unused_2", "unused_3")),
    ]
)
FACTOR: Final = np.dtype(
    [
        ("values", "u8"),
        ("by_sample", "i8"),
        *((name, "i4") for name in ("at", "by_out", "by_term", "slot", "fresh", "unused", "unused_2", "unused_3")),
    ]
)
READ: Final = np.dtype([("from", "u8"), ("by_sample", "i4"), ("bytes", "i4")])
CHAIN: Final = np.dtype(
    [("samples", "i8"), *((name, "i4") for name in ("matrices", "links", "record", "values", "sums", "records"))]
)
"""nl_matrix, nl_link, nl_factor, nl_read and nl_chain of templates/chain.cu.j2."""


def chained_templates(program: Merged) -> tuple[int, ...]:
    """The templates that chains run, ascending."""
    return tuple(sorted({x.template for p in program.phases for c in p.chains for x in p.launches[c.first : c.last]}))


def chain_names(program: Merged, kernels: Sequence[Kernel], there: bool) -> Mapping[str, Any]:
    """What the skeleton asks for, where chains are `there`."""
    templates = chained_templates(program) if there else ()
    found = [(kernels[t], product_of(program.templates[t]) is not None) for t in templates]
    return {
        "chained": [
            {"number": k.template.index, "function": k.function, "row_type": k.row_type, "product": product}
            for k, product in found
        ],
        "chain_name": NAME,
        "tile": TILE,
    }


@dataclass(frozen=True, eq=False)
class Walk:
    """A chain as a launch: blocks, samples of each, the table, and bytes of shared memory."""

    blocks: int
    samples: int
    table: npt.NDArray[np.uint8]
    shared: int


@dataclass(frozen=True)
class _Row:
    """One link: its template, its row as the device reads it, and what it reads of a sample: (address, bytes)."""

    template: Template
    words: Words
    reads: tuple[tuple[int, int], ...]

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
        access = next(f.access for f in self.template.formals if isinstance(f, ArrayFormal) and f.name == formal)
        assert isinstance(access, Strided)
        return self.number(next(a.stride for a in access.axes if a.terms == ((dim, 1),)))

    def written(self) -> set[int]:
        """Addresses of what it writes."""
        formals = [f for f in self.template.formals if isinstance(f, ArrayFormal)]
        return {self.address(f.name) for f in formals if f.mode is not Mode.READ}

    def points(self) -> int:
        nest = nest_of(self.template)
        assert nest is not None
        total = 1
        for d in nest.dims:
            total *= self.number(d.extent) if d.kind is not DimKind.RED else 1
        return total


@dataclass(frozen=True)
class _Factors:
    """What a product multiplies: outputs and terms; its matrix (address, rows, columns, stride), and whether rows are
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


class _Packer:
    """Fills in the table of one chain."""

    def __init__(self, real_bytes: int, rows: Sequence[_Row], samples: int) -> None:
        self.real_bytes, self.rows, self.samples = real_bytes, rows, samples
        self.unit = 16 // real_bytes
        products = [product_of(row.template) for row in rows]
        self.factors = [None if p is None else _factors(row, p) for row, p in zip(rows, products, strict=True)]
        self.matrices: dict[tuple[int, int, int, int], int] = {}  # where they stand
        self.kept = 0
        for f in self.factors:
            if f is not None and f.matrix not in self.matrices:
                self.matrices[f.matrix] = self.kept
                lines, pitch = padded(*f.matrix[1:3], real_bytes)
                self.kept += lines * pitch

    def _pitch(self, f: _Factors) -> int:
        return -(-f.terms // self.unit) * self.unit

    def _together(self, n: int, each: int) -> list[_Factors]:
        """The products from link `n` on that are summed at once: of one shape, and none needs another one."""
        found: list[_Factors] = []
        written: set[int] = set()
        for row, f in zip(self.rows[n : n + TOGETHER], self.factors[n:], strict=False):
            if f is None or f.values[0] in written:
                break
            room = BLOCK >> (f.outs - 1).bit_length() >> len(found).bit_length()
            if found and (each > TILE or room == 0 or (f.outs, f.terms) != (found[0].outs, found[0].terms)):
                break
            found.append(f)
            written |= row.written()
        return found

    def _records(self, each: int) -> tuple[list[npt.NDArray[np.uint8]], int]:
        """Links with their rows, what they read and their factors, in whole units of 16 bytes; and how many values of a
        sample have to be there at a time, in reals."""
        area = -(-each // TILE) * TILE * max(self._pitch(f) for f in self.factors if f is not None)
        held: list[tuple[int, int, int] | None] = [None] * TOGETHER
        records: list[npt.NDArray[np.uint8]] = []
        left, way, used = 0, 0, 0
        shape: tuple[int, int, int] = (0, 0, 0)
        for n, (row, f) in enumerate(zip(self.rows, self.factors, strict=True)):
            link = np.zeros(1, LINK)
            factors = np.zeros(0, FACTOR)
            link["what"] = row.template.index
            if f is None:
                link["each"] = row.points() // self.samples
            else:
                if left == 0:
                    group = self._together(n, each)
                    factors = self._filled(group, held, area)
                    used = max(used, 1 + int(factors["slot"].max()) // area)
                    left, way = len(group), 0
                    bits = min((f.outs - 1).bit_length(), (BLOCK - 1).bit_length())
                    ways = (left - 1).bit_length()
                    most = min(BLOCK >> bits >> ways, max(1, self._pitch(f) // self.unit // 2))
                    shape = bits, ways, most.bit_length() - 1
                link["outs"], link["terms"], link["pitch"] = f.outs, f.terms, self._pitch(f)
                link["factors"], link["way"] = len(factors), way
                link["bits"], link["ways"], link["split"] = shape
                left, way = left - 1, way + 1
            held = [None if x is not None and x[0] in row.written() else x for x in held]
            words = np.zeros(-(-len(row.words) // 2) * 2, np.uint64)
            words[: len(row.words)] = row.words
            reads = np.array([(at, bytes_, bytes_) for at, bytes_ in row.reads], READ)
            link["row"], link["reads"] = words.nbytes, len(reads)
            records.append(np.concatenate([x.view(np.uint8) for x in (link, words, reads, factors)]))
        return records, used * area

    def _filled(
        self, group: Sequence[_Factors], held: list[tuple[int, int, int] | None], area: int
    ) -> npt.NDArray[np.void]:
        """The factors of a group of products. `held`: the values in each slot, which this changes."""
        factors = np.zeros(len(group), FACTOR)
        wanted = [f.values for f in group]
        for factor, f in zip(factors, group, strict=True):
            factor["fresh"] = f.values not in held
            if f.values not in held:
                held[next(k for k, x in enumerate(held) if x not in wanted)] = f.values
            pitch = padded(*f.matrix[1:3], self.real_bytes)[1]
            factor["values"], factor["by_sample"], _ = f.values
            factor["at"], factor["slot"] = self.matrices[f.matrix], held.index(f.values) * area
            factor["by_out"], factor["by_term"] = (pitch, 1) if f.by_out else (1, pitch)
        return factors

    def walk(self, processors: int, room: int) -> Walk | None:
        each = -(-self.samples // processors)
        while True:
            lines, values = self._records(each)
            record = max(len(line) for line in lines)
            sums = self.kept + values
            records = (sums + 2 * TILE * BLOCK) * self.real_bytes
            shared = records + RECORDS * record + 4 * BLOCK
            if shared <= room:
                break
            if each == 1:
                return None
            each = -(-each // 2)
        head = np.zeros(1, CHAIN)
        head[0] = (self.samples, len(self.matrices), len(self.rows), record, self.kept, sums, records)
        kept = np.zeros(len(self.matrices), MATRIX)
        for n, ((address, rows, columns, by_row), at) in enumerate(self.matrices.items()):
            kept[n] = (address, by_row, rows, columns, at, padded(rows, columns, self.real_bytes)[1])
        table = np.zeros((len(lines), record), np.uint8)
        for n, line in enumerate(lines):
            table[n, : len(line)] = line
        whole = np.concatenate([head.view(np.uint8), kept.view(np.uint8), table.reshape(-1)])
        return Walk(-(-self.samples // each), each, whole, shared)


def walk(
    program: Merged, phase: MergedPhase, chain: Chain, tables: Sequence[Words], processors: int, room: int
) -> Walk | None:
    """A chain as one launch, from the tables as the device reads them; None where its matrices do not fit into `room`
    bytes of shared memory. All processors get samples, if there are enough."""
    sizes = {a.name: a.physical_size for a in program.arrays}
    rows = []
    for x in phase.launches[chain.first : chain.last]:
        template, words = program.templates[x.template], tables[x.template][x.lo]
        number = numbers(program.tables[x.template], x.lo)
        reads = []
        for n, f in enumerate(template.formals):
            if isinstance(f, ArrayFormal) and f.mode is not Mode.WRITE:
                size = sizes[program.tables[x.template].arrays[f.name][x.lo]]
                bytes_ = size // chain.samples * f.dtype.bytes
                if bytes_ <= EXPECTED and apart(template, f, number, chain.samples, size):
                    reads.append((int(words[n]), bytes_))
        rows.append(_Row(template, words, tuple(reads)))
    return _Packer(program.precision.bytes, rows, chain.samples).walk(processors, room)
