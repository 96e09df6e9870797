"""rnn_plan: stages: links of a chain that a block runs in sequence without synchronisation in between.

Assumes: legal chains (ir/level2/batch_independence.py); tables of numbers.
Guarantees: a stage is products (or none) whose operands are available when it begins, and the pointwise links that
follow: a thread that has an element (sample, output) of one link continues with it in the next one, in registers. Links
become stages in their order, from step to step, until a stage begins with the link that another one began with: from
then on stages repeat, up to the last steps. A shape is the common structure of stages: templates, and which of their
operands an earlier link computes. It does not depend on sizes, so that the text of a shape (rnn_text.py) is the same
for all steps of a layer. Results without later readers are not stored.
Does not: number or place data (rnn_table.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.cuda.persistent.rnn_links import Link, Links, Place, Span, chain_links, place_of, spans_read, whole_of
from compiler.ir.level2.batch_independence import nest_of
from compiler.ir.space import DType, Role

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
    """Links [first, last) of a chain, by number, of so many outputs a sample."""

    first: int
    last: int
    outs: int
    shape: Shape

    def later(self, links: int) -> Stage:
        """The stage that begins so many links later, in later steps."""
        return replace(self, first=self.first + links, last=self.last + links)

    def results(self, links: Links) -> list[Place]:
        return [links.place(n, f) for n, part in enumerate(self.shape, self.first) for f in part.results]

    def values(self, links: Links) -> list[Place]:
        """What its products multiply, product by product."""
        found = []
        for number in range(self.first, self.last):
            if (product := links.each[links.at(number)[1]].product) is not None:
                found.append(links.place(number, product.values))
        return found


@dataclass(frozen=True, eq=False)
class Schedule:
    """The stages of a chain: `head`, `times` times `cycle` (each time `by` links later), and `tail`, which begins as
    another cycle."""

    links: Links
    head: Sequence[Stage]
    cycle: Sequence[Stage]
    times: int
    by: int
    tail: Sequence[Stage]

    @property
    def period(self) -> int:
        """Steps from a cycle to the next one."""
        return self.by // len(self.links.each)

    def in_cycle(self, number: int) -> list[Stage]:
        return [s.later(number * self.by) for s in self.cycle]

    def different(self) -> Iterator[tuple[Stage, int]]:
        """The stages of which all others are a repetition, and how often there is one."""
        yield from ((s, 1) for s in self.head)
        yield from ((s, self.times) for s in self.cycle)
        yield from ((s, 1) for s in self.tail)

    def neighbours(self) -> Iterator[tuple[Stage, Stage | None]]:
        """Each of these with the one behind it."""
        first = [*self.head, *self.cycle]
        if first:
            yield from zip(first, [*first[1:], *(self.in_cycle(1) or self.tail)[:1]], strict=True)
        yield from zip(self.tail, [*self.tail[1:], None], strict=True)


@dataclass(frozen=True, eq=False)
class Shapes:
    """The stages of a program's chains and their shapes. `of`: by phase and first launch of a chain, its stages, if all
    links are pointwise; `stored`, `fed`: by shape, the results that are stored, and those that are operands of products
    of the next stage."""

    of: Mapping[tuple[str, int], Schedule | None]
    number: Mapping[Shape, int]
    stored: Sequence[frozenset[int]]
    fed: Sequence[frozenset[int]]


# --------------------------------------------------------------------------------------------- finding


def _strides(link: Link, formal: l2.ArrayFormal, samples: int, outs: int) -> tuple[int, int] | None:
    """Strides between adjacent samples and between adjacent outputs, at a point of the link."""
    nest, access = nest_of(link.template), formal.access
    assert nest is not None
    if not isinstance(access, l2.Strided):
        return None
    extents = [link.number(d.extent) for d in nest.par]
    flat = extents == [samples * outs]
    if not flat and extents != [samples, outs]:
        return None
    by = dict.fromkeys((d.name for d in nest.par), 0)
    for a in access.axes:
        stride = link.number(a.stride)
        if a.dim is None or a.dim not in by or stride is None:
            return None
        by[a.dim] += stride
    found = list(by.values())
    return (found[0] * outs, found[0]) if flat else (found[0], found[1])


_Accesses = dict[str, tuple[Place, tuple[int, int]]]
"""Formal -> its place, and its strides by sample and by output."""


@dataclass
class _Open:
    """A stage under construction, of these links. `may_sum`: it begins with a product, so that others may join it:
    those behind a map would be missed in the stage that they are in in other steps."""

    precision: DType
    links: Links
    outs: int
    first: int
    may_sum: bool
    parts: list[Part] = field(default_factory=list)
    many: int = 0  # results
    results: dict[Place, int] = field(default_factory=dict)  # the newest of a place
    where: dict[Place, tuple[int, int]] = field(default_factory=dict)  # strides of what is written
    read: dict[Place, set[tuple[int, int]]] = field(default_factory=dict)

    def add(self) -> bool:
        """Appends the next link as a part, if possible."""
        step, n = self.links.at(self.first + len(self.parts))
        link = self.links.each[n]
        template, nest, product = link.template, nest_of(link.template), link.product
        assert nest is not None
        if len(self.parts) == MOST or (product is None and nest.combine is not None):
            return False
        if product is not None and (self.outs != link.extent(product.out) or not self.may_sum):
            return False
        operands = () if product is None else (product.values, product.matrix)
        touched = self.touched(link, step, operands)
        if touched is None or any(place_of(link.arrays[x], step) in self.where for x in operands):
            return False
        reads, writes = touched
        every = [*reads.values(), *((place, by) for place, points in self.read.items() for by in points)]
        if any(place == other and by != at for place, by in writes.values() for other, at in every):
            return False
        known = tuple((f, self.results[place]) for f, (place, _) in reads.items() if place in self.results)
        for place, by in reads.values():
            self.read.setdefault(place, set()).add(by)
        for place, by in writes.values():
            self.where[place], self.results[place] = by, self.many
            self.many += 1
        self.parts.append(Part(template.index, known, tuple(writes)))
        return True

    def touched(self, link: Link, step: int, operands: tuple[str, ...]) -> tuple[_Accesses, _Accesses] | None:
        """The accesses of the link beside the operands of its product; None when its elements do not match those of the
        stage."""
        reads: _Accesses = {}
        writes: _Accesses = {}
        for f in link.template.arrays:
            if f.name in operands:
                continue
            by, place = _strides(link, f, self.links.loop.samples, self.outs), place_of(link.arrays[f.name], step)
            wrong_type = f.mode is not l2.Mode.READ and f.dtype is not self.precision
            if by is None or self.where.get(place, by) != by or wrong_type:
                return None
            if f.mode is not l2.Mode.WRITE:
                reads[f.name] = place, by
            if f.mode is not l2.Mode.READ:
                writes[f.name] = place, by
        return reads, writes

    def closed(self) -> Stage:
        return Stage(self.first, self.first + len(self.parts), self.outs, tuple(self.parts))


def _stage(precision: DType, links: Links, first: int) -> Stage | None:
    """The stage that begins with a link; None, if that is not pointwise."""
    link = links.each[links.at(first)[1]]
    now = _Open(precision, links, link.outs(links.loop.samples), first, link.product is not None)
    while now.first + len(now.parts) < len(links) and now.add():
        pass
    return now.closed() if now.parts else None


def stages_of(program: l2.Merged, phase: l2.Phase, chain: l2.Loop) -> Schedule | None:
    """The stages of a chain, in order; None, if one of its links is not pointwise, or steps differ."""
    links = chain_links(program, phase, chain)
    if chain.steps > 1 and not links.are_alike:
        return None
    each = len(links.each)
    end = each * (chain.steps - 1)  # a stage behind which links up to here follow does not know of the last step
    found: list[Stage] = []
    began: dict[int, int] = {}  # the first stage that begins with a link of a step
    made = Schedule(links, (), (), 0, each, found)
    first = 0
    while first < len(links):
        begin = began.get(first % each)
        if begin is not None and not made.times:
            at, by = found[begin].first, first - found[begin].first
            if (times := _times(at, by, end)) > 1:
                tail: list[Stage] = []
                made = Schedule(links, found[:begin], found[begin:], times, by, tail)
                first, found = at + times * by, tail
        stage = _stage(program.precision, links, first)
        if stage is None:
            return None
        if stage.last < end:
            began.setdefault(first % each, len(found))
        found.append(stage)
        first = stage.last
    return made


def _times(first: int, by: int, end: int) -> int:
    """How often stages repeat, `by` links later each time, which another time is followed by links before `end`."""
    return (end - 1 - first) // by - 1


# --------------------------------------------------------------------------------------------- results


def shapes_of(program: l2.Merged) -> Shapes:
    """The stages of all chains, and their shapes in the order of their first stages."""
    of: dict[tuple[str, int], Schedule | None] = {}
    stored: dict[Shape, set[int]] = {}
    fed: dict[Shape, set[int]] = {}
    outside: list[tuple[str, int, str, Span]] = []
    if any(p.chains for p in program.phases):
        outside = [(p.name, *read) for p in program.phases for read in spans_read(program, p)]
    for phase in program.phases:
        for chain in phase.chains:
            made = of[phase.name, chain.first] = stages_of(program, phase, chain)
            if made is None:
                continue
            others = _Readers(made)
            for name, n, whole, span in outside:
                if name != phase.name or not chain.first <= n < chain.last:
                    others.outside.setdefault(whole, set()).add(span)
            for s, times in made.different():
                newest = {place: r for r, place in enumerate(s.results(made.links))}
                stored.setdefault(s.shape, set()).update(r for r in newest.values() if others.need(s, r, times))
            for s, behind in made.neighbours():
                multiplied = set() if behind is None else set(behind.values(made.links))
                newest = {place: r for r, place in enumerate(s.results(made.links))}
                fed.setdefault(s.shape, set()).update(r for place, r in newest.items() if place in multiplied)
    number = {shape: at for at, shape in enumerate(stored)}
    return Shapes(of, number, [frozenset(x) for x in stored.values()], [frozenset(fed[x]) for x in stored])


@dataclass
class _Readers:
    """Who reads the results of the stages of a chain. `outside`: what other launches read of an array."""

    schedule: Schedule
    outside: dict[str, set[Span]] = field(default_factory=dict)

    def need(self, s: Stage, result: int, times: int) -> bool:
        """Whether something reads a result of the stage, or of one of its repetitions, from memory."""
        links = self.schedule.links
        formals = [(n, f) for n, part in enumerate(s.shape, s.first) for f in part.results]
        step, n = links.at(formals[result][0])
        a = links.each[n].arrays[formals[result][1]]
        if a.role is not Role.WORK or (links.loop.steps > 1 and not (a.by_step and links.are_alike)):
            return True
        steps = range(step, step + self.schedule.period * times, self.schedule.period)
        return any(_in(steps, x) for x in (*self._elsewhere(a), *self._in_stages(s, step, a)))

    def _elsewhere(self, a: l2.Array) -> Iterator[Span]:
        """The steps (from the first one to behind the last one) whose parts launches outside of the chain read."""
        for begin, end in self.outside.get(whole_of(a), ()):
            if not a.by_step:
                yield (0, 1) if begin < a.first + a.physical_size and a.first < end else (0, 0)
                continue
            # parts that end behind `begin` and begin before `end`
            by, low, high = a.by_step, begin - a.physical_size - a.first, end - a.first
            yield (low // by + 1, -(-high // by)) if by > 0 else (high // by + 1, -(-low // by))

    def _in_stages(self, s: Stage, step: int, a: l2.Array) -> Iterator[Span]:
        """The same for links of the chain that do not know it as a result of their stage."""
        links = self.schedule.links
        known = {(links.at(n), f) for n, part in enumerate(s.shape, s.first) for f, _ in part.known}
        for n, link in enumerate(links.each):
            for f, b in link.read():
                later = _later(a, b) if whole_of(a) == whole_of(b) else None
                if later is not None and ((step + later, n), f) not in known:
                    yield -later, links.steps_of(n) - later


def _later(a: l2.Array, b: l2.Array) -> int | None:
    """How many steps later the part of one array is that of another one, if they are the same in some steps."""
    if not a.by_step:
        return 0 if a.first == b.first else None
    later, rest = divmod(a.first - b.first, a.by_step)
    return None if rest else later


def _in(steps: range, span: Span) -> bool:
    """Whether one of the steps is in a span."""
    at = max(0, -(-(span[0] - steps.start) // steps.step))
    return at < len(steps) and steps[at] < span[1]


def row_bytes(columns: int) -> int:
    """Bytes of a row of so many columns on chip, in units of 16."""
    return -(-columns // 2) * 16
