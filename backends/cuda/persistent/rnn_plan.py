"""rnn_plan: stages: links of a chain that a block runs in sequence without synchronisation in between.

Assumes: legal chains (ir/level2/batch_independence.py); tables of numbers.
Guarantees: a stage is products (or none) whose operands are available when it begins, and the pointwise links that
follow: a thread that has an element (sample, output) of one link continues with it in the next one, in registers. A
shape is the common structure of stages: templates, and which of their operands an earlier link computes. It does not
depend on sizes, so that the text of a shape (rnn_text.py) is the same for all steps of a layer. Results without later
readers are not stored.
Does not: number or place data (rnn_table.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level2.batch_independence import extent_of, nest_of, numbers, product_of
from compiler.ir.level2.dependence import parts_of
from compiler.ir.space import Role

MOST: Final = 8
"""Links of a stage: each needs registers."""


@dataclass(frozen=True)
class Part:
    """A link of a shape. `known`: formals that it reads -> result of an earlier link; `results`: the formals that it
    writes."""

    template: int
    known: tuple[tuple[str, int], ...]
    results: tuple[str, ...]


Shape = tuple[Part, ...]


@dataclass(frozen=True)
class Stage:
    """Links [first, last) of a phase, of so many outputs a sample. `arrays`: those of the results, in their order."""

    first: int
    last: int
    outs: int
    shape: Shape
    arrays: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Shapes:
    """The stages of a program's chains and their shapes. `of`: by phase and first launch of a chain, its stages;
    `stored`, `fed`: by shape, the results that are stored, and those that are operands of products of the next
    stage."""

    of: Mapping[tuple[str, int], Sequence[Stage]]
    number: Mapping[Shape, int]
    stored: Sequence[frozenset[int]]
    fed: Sequence[frozenset[int]]


# --------------------------------------------------------------------------------------------- finding


def _strides(
    template: l2.Template, formal: l2.ArrayFormal, samples: int, outs: int, row: _Row
) -> tuple[int, int] | None:
    """Strides between adjacent samples and between adjacent outputs, at a point of the row."""
    nest, access = nest_of(template), formal.access
    assert nest is not None
    if not isinstance(access, l2.Strided):
        return None
    extents = [row.number(d.extent) for d in nest.par]
    flat = extents == [samples * outs]
    if not flat and extents != [samples, outs]:
        return None
    by = dict.fromkeys((d.name for d in nest.par), 0)
    for a in access.axes:
        stride = row.number(a.stride)
        if a.dim is None or a.dim not in by or stride is None:
            return None
        by[a.dim] += stride
    found = list(by.values())
    return (found[0] * outs, found[0]) if flat else (found[0], found[1])


@dataclass(frozen=True)
class _Row:
    """One link."""

    program: l2.Merged
    launch: l2.Launch

    @property
    def template(self) -> l2.Template:
        return self.program.templates[self.launch.template]

    def number(self, name: int | str) -> int | None:
        return numbers(self.program.tables[self.launch.template], self.launch.lo)(name)

    def extent(self, dim: str) -> int:
        return extent_of(self.template, self.program.tables[self.launch.template], self.launch.lo, dim)

    def outs(self, samples: int) -> int:
        """Outputs of a product, or elements of a map, for each sample."""
        if (product := product_of(self.template)) is not None:
            return self.extent(product.out)
        nest = nest_of(self.template)
        assert nest is not None
        return prod(self.extent(d.name) for d in nest.dims) // samples

    def array(self, formal: str) -> str:
        return self.program.tables[self.launch.template].arrays[formal][self.launch.lo]


_Places = dict[str, tuple[str, tuple[int, int]]]
"""Formal -> its array, and its strides by sample and by output."""


@dataclass
class _Open:
    """A stage under construction. `may_sum`: it begins with a product, so that others may join it: those behind a map
    would be missed in the stage that they are in in other steps."""

    samples: int
    outs: int
    first: int
    may_sum: bool
    parts: list[Part] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)  # the newest of an array
    where: dict[str, tuple[int, int]] = field(default_factory=dict)  # strides of what is written
    read: dict[str, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self, row: _Row) -> bool:
        """Appends the link as a part, if possible."""
        template, nest = row.template, nest_of(row.template)
        assert nest is not None
        product = product_of(template)
        if len(self.parts) == MOST or (product is None and nest.combine is not None):
            return False
        if product is not None and (self.outs != row.extent(product.out) or not self.may_sum):
            return False
        operands = () if product is None else (product.values, product.matrix)
        touched = self.touched(row, operands)
        if touched is None or any(row.array(x) in self.where for x in operands):
            return False
        reads, writes = touched
        every = [*reads.values(), *((name, by) for name, points in self.read.items() for by in points)]
        if any(name == other and by != place for name, by in writes.values() for other, place in every):
            return False
        known = tuple((f, self.results[name]) for f, (name, _) in reads.items() if name in self.results)
        for name, by in reads.values():
            self.read.setdefault(name, set()).add(by)
        for name, by in writes.values():
            self.where[name], self.results[name] = by, len(self.arrays)
            self.arrays.append(name)
        self.parts.append(Part(template.index, known, tuple(writes)))
        return True

    def touched(self, row: _Row, operands: tuple[str, ...]) -> tuple[_Places, _Places] | None:
        """The accesses of the link beside the operands of its product; None when its elements do not match those of the
        stage."""
        reads: _Places = {}
        writes: _Places = {}
        for f in row.template.arrays:
            if f.name in operands:
                continue
            by, name = _strides(row.template, f, self.samples, self.outs, row), row.array(f.name)
            wrong_type = f.mode is not l2.Mode.READ and f.dtype is not row.program.precision
            if by is None or self.where.get(name, by) != by or wrong_type:
                return None
            if f.mode is not l2.Mode.WRITE:
                reads[f.name] = name, by
            if f.mode is not l2.Mode.READ:
                writes[f.name] = name, by
        return reads, writes

    def closed(self) -> Stage:
        return Stage(self.first, self.first + len(self.parts), self.outs, tuple(self.parts), tuple(self.arrays))


def stages_of(program: l2.Merged, phase: l2.MergedPhase, chain: l2.Chain) -> list[Stage]:
    """The stages of a chain, in order; none, if one of its links is not pointwise."""
    found: list[Stage] = []
    now: _Open | None = None
    for n in range(chain.first, chain.last):
        row = _Row(program, phase.launches[n])
        if now is not None:
            if now.add(row):
                continue
            found.append(now.closed())
        now = _Open(chain.samples, row.outs(chain.samples), n, product_of(row.template) is not None)
        if not now.add(row):
            return []
    return found if now is None else [*found, now.closed()]


def shapes_of(program: l2.Merged) -> Shapes:
    """The stages of all chains, and their shapes in the order of their first stages."""
    of = {(p.name, c.first): stages_of(program, p, c) for p in program.phases for c in p.chains}
    if not of:
        return Shapes(of, {}, (), ())
    chained = [(p, of[p.name, c.first]) for p in program.phases for c in p.chains]
    wanted = _unknown_reads(program, chained)
    passing = {a.name for a in program.arrays if a.role is Role.WORK and wanted.get(a.name) == 0}
    passing -= {part for whole, parts in parts_of(program.arrays).items() if wanted.get(whole) for part in parts}
    stored: dict[Shape, set[int]] = {}
    fed: dict[Shape, set[int]] = {}
    for phase, stages in chained:
        for s, behind in zip(stages, [*stages[1:], None], strict=False):
            multiplied = set(values_of(program, phase, behind)) if behind is not None else set[str]()
            newest = {name: r for r, name in enumerate(s.arrays)}
            stored.setdefault(s.shape, set()).update(r for name, r in newest.items() if name not in passing)
            fed.setdefault(s.shape, set()).update(r for name, r in newest.items() if name in multiplied)
    number = {shape: at for at, shape in enumerate(stored)}
    return Shapes(of, number, [frozenset(x) for x in stored.values()], [frozenset(x) for x in fed.values()])


def _unknown_reads(program: l2.Merged, chained: Sequence[tuple[l2.MergedPhase, Sequence[Stage]]]) -> Counter[str]:
    """How often an array is read where it is not a known result of the same stage."""
    wanted = Counter[str]()
    for x in (x for phase in program.phases for x in phase.launches):
        for f in program.templates[x.template].arrays:
            if f.mode is not l2.Mode.WRITE:
                wanted.update(program.tables[x.template].arrays[f.name][x.lo : x.hi])
    for phase, stages in chained:
        for s in stages:
            for part, x in zip(s.shape, phase.launches[s.first : s.last], strict=True):
                wanted.subtract(_Row(program, x).array(formal) for formal, _ in part.known)
    return wanted


def values_of(program: l2.Merged, phase: l2.MergedPhase, stage: Stage) -> list[str]:
    """The arrays of values that the products of a stage multiply, product by product."""
    found = []
    for x in phase.launches[stage.first : stage.last]:
        row = _Row(program, x)
        if (product := product_of(row.template)) is not None:
            found.append(row.array(product.values))
    return found


def row_bytes(columns: int) -> int:
    """Bytes of a row of so many columns on chip, in units of 16."""
    return -(-columns // 2) * 16
