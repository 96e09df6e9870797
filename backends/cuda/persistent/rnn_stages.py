"""rnn_stages: the stages of one chain with what the device reads: rows, operands of products, reads of a sample.

Assumes: legal chains (ir/level2/batch_independence.py); tables with device addresses.
Guarantees: addresses and numbers are those of the tables, addresses as much further in each step as the parts of arrays
are.
Does not: divide work among blocks (rnn_table.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cuda.kernels.launch_work import Words
from backends.cuda.persistent.rnn_links import Link
from backends.cuda.persistent.rnn_plan import Schedule, Shapes, Stage, row_bytes
from backends.kernel_ir.descriptor import Compiled
from compiler.ir.level2.batch_independence import Product, apart, nest_of, product_of


@dataclass(frozen=True)
class LinkRow:
    """One link in a step: its template, its row, the columns of it that the kernel reads, and its reads per sample:
    (formal, address, bytes). `moves`: bytes from what a formal is in a step to what it is in the next one."""

    template: l2.Template
    words: Words
    columns: tuple[int, ...]
    reads: tuple[tuple[str, int, int], ...]
    moves: Mapping[str, int]

    def at(self, step: int) -> LinkRow:
        """The same link so many steps later."""
        if step == 0 or not self.moves:
            return self
        by = {name: step * bytes_ for name, bytes_ in self.moves.items()}
        moved = np.array([by.get(f.name, 0) for f in self.template.formals], np.int64).view(np.uint64)
        reads = tuple((name, at + by.get(name, 0), bytes_) for name, at, bytes_ in self.reads)
        return replace(self, words=self.words + moved, reads=reads)

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
class Held:
    """Values of a product: address, stride of samples, terms; `by_step`: bytes to those of the next step."""

    at: int
    by_sample: int
    terms: int
    by_step: int

    def later(self, steps: int) -> Held:
        return replace(self, at=self.at + steps * self.by_step)


@dataclass(frozen=True)
class Factors:
    """The operands of a product: outputs and terms; its matrix (address, rows, columns, stride), and whether rows are
    outputs; its values."""

    outs: int
    terms: int
    matrix: tuple[int, int, int, int]
    by_out: bool
    values: Held


def _factors(row: LinkRow, p: Product) -> Factors:
    outs, terms = row.extent(p.out), row.extent(p.term)
    sides = (outs, terms) if p.by_out else (terms, outs)
    matrix = (row.address(p.matrix), *sides, row.by(p.matrix, p.out if p.by_out else p.term))
    held = Held(row.address(p.values), row.by(p.values, p.sample), terms, row.moves.get(p.values, 0))
    return Factors(outs, terms, matrix, p.by_out, held)


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


class ReadChain:
    """The stages of a chain, with what the device reads in any step."""

    def __init__(
        self, program: l2.Merged, kernels: Compiled, schedule: Schedule, tables: Sequence[Words], shapes: Shapes
    ) -> None:
        self.schedule, self.shapes = schedule, shapes
        self.rows = [_row(x, kernels, schedule.links.loop.samples, tables) for x in schedule.links.each]

    def read(self, stage: Stage) -> ReadStage:
        links = self.schedule.links
        rows = []
        for number in range(stage.first, stage.last):
            step, n = links.at(number)
            rows.append(self.rows[n].at(step))
        factors = [_factors(row, p) for row in rows if (p := product_of(row.template)) is not None]
        at = self.shapes.number[stage.shape]
        return ReadStage(stage, rows, factors, at, sorted(self.shapes.fed[at]))

    def different(self) -> list[tuple[ReadStage, int]]:
        """The stages of which all others are a repetition, and how often there is one."""
        return [(self.read(s), times) for s, times in self.schedule.different()]


def _row(link: Link, kernels: Compiled, samples: int, tables: Sequence[Words]) -> LinkRow:
    """A link in the first step."""
    template = link.template
    words = tables[template.index][link.row]
    reads = []
    for n, f in enumerate(template.formals):
        if isinstance(f, l2.ArrayFormal) and f.mode is not l2.Mode.WRITE:
            size = link.arrays[f.name].physical_size
            if apart(template, f, link.number, samples, size):
                reads.append((f.name, int(words[n]), size // samples * f.dtype.bytes))
    moves = {name: a.by_step * a.dtype.bytes for name, a in link.arrays.items() if a.by_step}
    return LinkRow(template, words, kernels[template.index].columns, tuple(reads), moves)
