"""rnn_stages: the stages of one chain with what the device reads: rows, operands of products, reads of a sample.

Assumes: legal chains (ir/level2/batch_independence.py); tables with device addresses.
Guarantees: addresses and numbers are those of the tables.
Does not: divide work among blocks (rnn_table.py).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cuda.kernels.launch_geometry import Words
from backends.cuda.persistent.rnn_plan import Shapes, Stage, row_bytes
from backends.kernel_ir.descriptor import Compiled
from compiler.ir.level2.batch_independence import Product, apart, nest_of, numbers, product_of


@dataclass(frozen=True)
class LinkRow:
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
        return self.number(next(a.stride for a in self.template.strided[formal].axes if a.terms == ((dim, 1),)))


@dataclass(frozen=True)
class Factors:
    """The operands of a product: outputs and terms; its matrix (address, rows, columns, stride), and whether rows are
    outputs; its values (address, stride, terms)."""

    outs: int
    terms: int
    matrix: tuple[int, int, int, int]
    by_out: bool
    values: tuple[int, int, int]


def _factors(row: LinkRow, p: Product) -> Factors:
    outs, terms = row.extent(p.out), row.extent(p.term)
    sides = (outs, terms) if p.by_out else (terms, outs)
    matrix = (row.address(p.matrix), *sides, row.by(p.matrix, p.out if p.by_out else p.term))
    return Factors(outs, terms, matrix, p.by_out, (row.address(p.values), row.by(p.values, p.sample), terms))


@dataclass(frozen=True)
class ReadStage:
    """A stage, the number of its shape, its rows, and the products of these. `fed`: see Shapes."""

    stage: Stage
    rows: Sequence[LinkRow]
    factors: Sequence[Factors]
    what: int
    fed: Sequence[int]

    def results(self) -> list[int]:
        """Addresses of the results, in their order."""
        return [row.address(f) for part, row in zip(self.stage.shape, self.rows, strict=True) for f in part.results]

    def packed(self) -> npt.NDArray[np.uint8]:
        """The rows as the kernel reads them, each in whole units of 16 bytes."""
        found = np.zeros(sum(row_bytes(len(row.columns)) for row in self.rows) // 8, np.uint64)
        at = 0
        for row in self.rows:
            found[at : at + len(row.columns)] = row.words[list(row.columns)]
            at += row_bytes(len(row.columns)) // 8
        return found.view(np.uint8)

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


def stages_read(
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.MergedPhase,
    chain: l2.Chain,
    tables: Sequence[Words],
    shapes: Shapes,
) -> list[ReadStage]:
    """The stages of a chain, from the tables with device addresses; none, if it has none."""
    sizes = {a.name: a.physical_size for a in program.arrays}

    def row_of(x: l2.Launch) -> LinkRow:
        template, words = program.templates[x.template], tables[x.template][x.lo]
        number = numbers(program.tables[x.template], x.lo)
        reads = []
        for n, f in enumerate(template.formals):
            if isinstance(f, l2.ArrayFormal) and f.mode is not l2.Mode.WRITE:
                size = sizes[program.tables[x.template].arrays[f.name][x.lo]]
                bytes_ = size // chain.samples * f.dtype.bytes
                if apart(template, f, number, chain.samples, size):
                    reads.append((f.name, int(words[n]), bytes_))
        return LinkRow(template, words, kernels[x.template].columns, tuple(reads))

    links = []
    for stage in shapes.of[phase.name, chain.first]:
        rows = [row_of(x) for x in phase.launches[stage.first : stage.last]]
        products = [(row, p) for row in rows if (p := product_of(row.template)) is not None]
        at = shapes.number[stage.shape]
        links.append(ReadStage(stage, rows, [_factors(row, p) for row, p in products], at, sorted(shapes.fed[at])))
    return links
