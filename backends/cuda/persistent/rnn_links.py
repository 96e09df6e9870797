"""rnn_links: the links of a chain, step after step, and where what they access lies.

Assumes: a legal chain (ir/level2/batch_independence.py).
Guarantees: links are those of the loop's launches, row by row, in each step; a last step does not have those whose
results nothing reads. A place is equal for two accesses to the same elements in any two steps.
Does not: list the links of all steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import compiler.ir.level2.program as l2
from compiler.ir.level2.batch_independence import Product, bound, extent_of, links_of, numbers, outs_of, product_of
from compiler.ir.space import Role

Place = tuple[str, int]
"""An array that lies in no other one, and the first element there."""
Span = tuple[int, int]
"""Elements of such an array, from the first one to behind the last one."""


def whole_of(a: l2.Array) -> str:
    return a.within or a.name


def place_of(a: l2.Array, step: int) -> Place:
    return whole_of(a), a.first_at(step)


@dataclass(frozen=True)
class Link:
    """One link: a row of a template, the arrays of its formals, and what it is as a product."""

    template: l2.Template
    rows: l2.Rows
    row: int
    arrays: Mapping[str, l2.Array]
    product: Product | None

    def number(self, name: int | str) -> int | None:
        return numbers(self.rows, self.row)(name)

    def extent(self, dim: str) -> int:
        return extent_of(self.template, self.rows, self.row, dim)

    def outs(self, samples: int) -> int:
        """Outputs of a product, or elements of a map, for each sample."""
        return outs_of(self.template, self.rows, self.row, self.product, samples)

    def written(self) -> Iterator[l2.Array]:
        return (self.arrays[f.name] for f in self.template.arrays if f.mode is not l2.Mode.READ)

    def read(self) -> Iterator[tuple[str, l2.Array]]:
        return ((f.name, self.arrays[f.name]) for f in self.template.arrays if f.mode is not l2.Mode.WRITE)


@dataclass(frozen=True, eq=False)
class Links:
    """The links of a chain by number, from the first one of the first step on. `each`: those of a step; `last`: their
    numbers in it that the last step has."""

    loop: l2.Loop
    each: Sequence[Link]
    last: Sequence[int]

    def __len__(self) -> int:
        return len(self.each) * (self.loop.steps - 1) + len(self.last)

    def at(self, number: int) -> tuple[int, int]:
        """The step of a link, and its number there."""
        step, n = divmod(number, len(self.each))
        return (step, n) if step + 1 < self.loop.steps else (step, self.last[n])

    def place(self, number: int, formal: str) -> Place:
        step, n = self.at(number)
        return place_of(self.each[n].arrays[formal], step)

    def steps_of(self, n: int) -> int:
        """In how many steps a link of a step is."""
        return self.loop.steps if n in self.last else self.loop.steps - 1

    @cached_property
    def are_alike(self) -> bool:
        """Whether what holds for some steps holds for all: accesses move through an array together, and no matrix
        moves (recurrent layers are so)."""
        moves: dict[str, set[int]] = {}
        for x in self.each:
            for a in x.arrays.values():
                moves.setdefault(whole_of(a), set()).add(a.by_step)
        moving = any(x.arrays[x.product.matrix].by_step for x in self.each if x.product is not None)
        return all(len(by) == 1 for by in moves.values()) and not moving


def chain_links(program: l2.Merged, phase: l2.Phase, loop: l2.Loop) -> Links:
    """The links of a loop that keeps samples apart."""
    body = links_of(phase.launches[loop.first : loop.last])
    products = {t: product_of(program.templates[t]) for t in {x.template for x in body}}
    names = {n for x in body for n in bound(program, x).values()}
    arrays = {a.name: a for a in program.arrays if a.name in names}
    each = []
    for x in body:
        own = {formal: arrays[n] for formal, n in bound(program, x).items()}
        each.append(Link(program.templates[x.template], program.tables[x.template], x.lo, own, products[x.template]))
    last = range(len(each)) if loop.steps == 1 else _wanted(program, phase, loop, each)
    return Links(loop, each, last)


def spans_read(program: l2.Merged, phase: l2.Phase, first: int = 0) -> Iterator[tuple[int, str, Span]]:
    """What launches of a phase read, from launch `first` on, in all steps of their loops; with their numbers."""
    arrays = {a.name: a for a in program.arrays}
    steps = {n: loop.steps for loop in phase.loops for n in range(loop.first, loop.last)}
    for n in range(first, len(phase.launches)):
        x = phase.launches[n]
        for f in program.templates[x.template].arrays:
            if f.mode is not l2.Mode.WRITE:
                for name in dict.fromkeys(program.tables[x.template].arrays[f.name][x.lo : x.hi]):
                    yield n, whole_of(arrays[name]), arrays[name].over(steps.get(n, 1))


def _wanted(program: l2.Merged, phase: l2.Phase, loop: l2.Loop, each: Sequence[Link]) -> list[int]:
    """The links of the last step whose results something reads."""
    step = loop.steps - 1
    wanted: dict[str, set[Span]] = {}
    for _, whole, span in spans_read(program, phase, loop.last):
        wanted.setdefault(whole, set()).add(span)
    found = []
    for n, x in reversed([*enumerate(each)]):
        if any(a.role is not Role.WORK or _is_read(a, step, wanted) for a in x.written()):
            found.append(n)
            for _, a in x.read():
                wanted.setdefault(whole_of(a), set()).add(_span(a, step))
    return found[::-1]


def _is_read(a: l2.Array, step: int, wanted: Mapping[str, set[Span]]) -> bool:
    first, end = _span(a, step)
    return any(first < last and begin < end for begin, last in wanted.get(whole_of(a), ()))


def _span(a: l2.Array, step: int) -> Span:
    first = a.first_at(step)
    return first, first + a.physical_size
