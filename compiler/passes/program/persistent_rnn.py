"""persistent_rnn: all steps of a recurrent layer as one launch that keeps its weights on chip (a chain).

Unrolled, every step of a recurrent layer is a few launches, each of which depends on the previous one and reads the
weights again. But samples are independent: a thread block can process a few of them through all steps and keep the
matrices in on-chip memory (Diamos et al. 2016, "Persistent RNNs: stashing recurrent weights on-chip").

Assumes: a merged program with row-major tensors.
Guarantees: a chain begins and ends with a product whose matrix many products of the phase read; launches between two of
its own that do not belong to it are moved before or after it, respecting dependences; rows that become adjacent by this
are one launch again. A phase without chains is unchanged. Only whether a chain pays depends on sizes, not what a chain
is.
Does not: consider the memory of a device: a backend may run a chain's launches one by one, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level2.batch_independence import Product, apart, may_be_chained, nest_of, numbers, padded, product_of
from compiler.ir.level2.dependence import Parts, joined, parts_of, touched
from compiler.ir.level2.target import Target
from compiler.passes.program.decisions import Decision
from compiler.strategies.cost import cuda as cost

LEAST: Final = 4
"""Launches of a chain, and products of a phase with one matrix, at least."""


@dataclass(frozen=True)
class _Item:
    """One row: its position, the arrays it reads and writes, and the matrix, if it is a product that may be chained."""

    place: tuple[int, int]
    launch: l2.Launch
    read: frozenset[str]
    written: frozenset[str]
    product: Product | None = None
    matrix: str = ""


@dataclass
class _Seen:
    """The arrays that several rows read and write."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    def add(self, item: _Item) -> None:
        self.read |= item.read
        self.written |= item.written


def _needs(later: _Item | _Seen, earlier: _Item | _Seen) -> bool:
    """Whether one depends on the other."""
    return not (
        later.written.isdisjoint(earlier.read)
        and later.written.isdisjoint(earlier.written)
        and later.read.isdisjoint(earlier.written)
    )


def _product(merged: l2.Merged, launch: l2.Launch) -> Product | None:
    """The product of each row of a launch, where it may be a link of a chain."""
    template = merged.templates[launch.template]
    return product_of(template) if launch.every == 1 and may_be_chained(template) else None


def _item(merged: l2.Merged, place: tuple[int, int], launch: l2.Launch, parts: Parts) -> _Item:
    template, rows = merged.templates[launch.template], merged.tables[launch.template]
    read, written, added = touched(template.formals, rows, launch.lo, launch.hi, parts)
    product = _product(merged, launch)
    matrix = "" if product is None else rows.arrays[product.matrix][launch.lo]
    return _Item(place, launch, frozenset(read | added), frozenset(written | added), product, matrix)


class _Chainer:
    """Finds the chains of one phase."""

    def __init__(self, merged: l2.Merged, phase: l2.MergedPhase, device: Target) -> None:
        self.merged, self.phase, self.device = merged, phase, device
        self.parts = parts_of(merged.arrays)
        self.sizes = {a.name: a.physical_size for a in merged.arrays}
        self.real_bytes = merged.precision.bytes
        self.decisions: list[Decision] = []
        self.unrolled = False

    def run(self) -> l2.MergedPhase:
        repeated = self._repeated()
        if not repeated:
            return self.phase
        self.unrolled = True
        items = [
            _item(self.merged, (n, row), replace(x, lo=row, hi=row + 1), self.parts)
            for n, x in enumerate(self.phase.launches)
            for row in range(x.lo, x.hi)
        ]
        parts: list[tuple[list[_Item], l2.Chain | None]] = []  # of chains only the counts of links are valid
        while True:
            seed = next((n for n, x in enumerate(items) if x.matrix in repeated), len(items))
            parts.append((items[:seed], None))
            if seed == len(items):
                break
            samples = self._samples(items[seed])
            before, members, items = self._grow(items[seed:], repeated, samples)
            parts.append((before, None))
            parts += [(x, self._chain(x, samples)) for x in _components(members)]
        return self._joined(parts) if any(chain for _, chain in parts) else self.phase

    def _repeated(self) -> set[str]:
        """The matrices of at least LEAST products that may be links."""
        count: Counter[str] = Counter()
        for x in self.phase.launches:
            if (product := _product(self.merged, x)) is not None:
                count.update(self.merged.tables[x.template].arrays[product.matrix][x.lo : x.hi])
        return {name for name, many in count.items() if many >= LEAST}

    # --------------------------------------------------------------------------------------- growing

    def _number(self, item: _Item, name: int | str) -> int:
        value = numbers(self.merged.tables[item.launch.template], item.launch.lo)(name)
        assert value is not None
        return value

    def _extent(self, item: _Item, dim: str) -> int:
        nest = nest_of(self.merged.templates[item.launch.template])
        assert nest is not None
        return self._number(item, next(d.extent for d in nest.dims if d.name == dim))

    def _samples(self, item: _Item) -> int:
        assert item.product is not None
        return self._extent(item, item.product.sample)

    def _local(self, item: _Item, samples: int, written: set[str]) -> bool:
        """Whether the row touches, for each sample, one part of every array that it or the chain writes."""
        template, rows = self.merged.templates[item.launch.template], self.merged.tables[item.launch.template]
        if item.launch.every != 1 or not may_be_chained(template):
            return False
        if item.product is not None and (self._samples(item) != samples or item.matrix in written):
            return False
        number = numbers(rows, item.launch.lo)
        for f in template.formals:
            if not isinstance(f, l2.ArrayFormal):
                continue
            name = rows.arrays[f.name][item.launch.lo]
            if name in self.parts:  # rows of all steps
                return False
            if (name in item.written or name in written) and not apart(template, f, number, samples, self.sizes[name]):
                return False
        return True

    def _grow(
        self, items: Sequence[_Item], repeated: set[str], samples: int
    ) -> tuple[list[_Item], list[_Item], list[_Item]]:
        """Rows that may run before the chain that the first item begins, its members, and rows that run after it."""
        before: list[_Item] = []
        members: list[_Item] = []
        after: list[_Item] = []
        inside, behind = _Seen(), _Seen()
        for item in items:
            follows = _needs(item, inside)
            wanted = item.matrix in repeated or (follows and not isinstance(self._body(item), l2.Contract))
            if _needs(item, behind):
                after.append(item)
                behind.add(item)
            elif wanted and self._fits(item, samples, members, inside):
                members.append(item)
                inside.add(item)
            elif follows:
                after.append(item)
                behind.add(item)
            else:
                before.append(item)
        kept, rest = _trimmed(members)
        return before, kept, sorted([*rest, *after], key=lambda x: x.place)

    def _fits(self, item: _Item, samples: int, members: Sequence[_Item], inside: _Seen) -> bool:
        """Whether the row is local, and writes no array that members access in another way."""
        if not self._local(item, samples, inside.written):
            return False
        new = item.written - inside.written
        return all(self._local(x, samples, set(new)) for x in members if not new.isdisjoint(x.read))

    def _body(self, item: _Item) -> object:
        return self.merged.templates[item.launch.template].body

    # --------------------------------------------------------------------------------------- deciding

    def _chain(self, links: Sequence[_Item], samples: int) -> l2.Chain | None:
        """A chain of these links, if there are enough, and whether it is faster than its launches, by estimate."""
        products = [x for x in links if x.product is not None]
        matrices = {x.matrix: x for x in products}
        if len(links) < LEAST or len(products) < 2 * len(matrices):
            return None
        sides = {m: self._sides(x) for m, x in matrices.items()}
        stored = 0
        for out, term in sides.values():
            rows, columns = padded(out, term, self.real_bytes)
            stored += rows * columns * self.real_bytes
        terms = sum(sides[x.matrix][0] * sides[x.matrix][1] for x in products)
        chained, alone = self._microseconds(links, samples, terms)
        path = self.merged.tables[links[0].launch.template].paths
        begin = path[links[0].launch.lo] if path else self.merged.templates[links[0].launch.template].name
        what = f"{len(matrices)} {'matrices' if len(matrices) > 1 else 'matrix'} of {-(-stored // 1024)} KB"
        pays = stored <= self.device.shared_block and chained < alone
        if pays:
            why = f"{what} on chip, where that fits; about {chained:.0f} us, launch by launch {alone:.0f} us"
        elif stored > self.device.shared_block:
            why = f"{what} do not fit into the {self.device.shared_block >> 10} KB that a processor has at most"
        else:
            why = f"about {alone:.0f} us, as a chain {chained:.0f} us"
        verdict = f"one walk of {len(links)} kernels, sample by sample" if pays else "launch by launch"
        self.decisions.append(Decision("chains", f"{self.phase.name}: {begin}", verdict, why))
        return l2.Chain(0, len(links), samples, pays)

    def _microseconds(self, links: Sequence[_Item], samples: int, terms: int) -> tuple[float, float]:
        """Estimated times of a chain, and of its launches one by one."""
        waits, works, processors = cost.waits(self.device), cost.works(self.device), self.device.processors
        chained = len(links) * cost.LINK_US * waits + -(-samples // processors) * terms / cost.LINK_TERMS * works
        launches = len({x.place[0] for x in links}) * cost.LAUNCH_US * waits
        return chained, launches + samples * terms / (processors * cost.LAUNCH_TERMS) * works

    def _sides(self, item: _Item) -> tuple[int, int]:
        """Outputs and terms of a product."""
        assert item.product is not None
        return self._extent(item, item.product.out), self._extent(item, item.product.term)

    def _joined(self, parts: Iterable[tuple[list[_Item], l2.Chain | None]]) -> l2.MergedPhase:
        launches: list[l2.Launch] = []
        chains: list[l2.Chain] = []
        loose: list[_Item] = []
        for items, chain in parts:
            if chain is None:
                loose += items
                continue
            launches += self._rejoined(loose)
            loose = []
            chains.append(replace(chain, first=len(launches), last=len(launches) + len(items)))
            launches += [x.launch for x in items]
        launches += self._rejoined(loose)
        return l2.MergedPhase(self.phase.name, tuple(launches), tuple(chains))

    def _rejoined(self, items: Iterable[_Item]) -> tuple[l2.Launch, ...]:
        return joined(self.merged.templates, self.merged.tables, [x.launch for x in items], self.parts)


def _trimmed(members: Sequence[_Item]) -> tuple[list[_Item], list[_Item]]:
    """The products and their dependences; and the rest, which can run after the chain."""
    kept: list[_Item] = []
    rest: list[_Item] = []
    later = _Seen()
    for item in reversed(members):
        if item.product is not None or _needs(later, item):
            kept.append(item)
            later.add(item)
        else:
            rest.append(item)
    return kept[::-1], rest[::-1]


def _components(members: Sequence[_Item]) -> list[list[_Item]]:
    """Independent parts of a chain (both directions of a layer), in order of their first rows."""
    written = {name for x in members for name in x.written}
    parts: list[tuple[set[str], list[_Item]]] = []
    for item in members:
        names = (item.read | item.written) & written
        met = [p for p in parts if not p[0].isdisjoint(names)]
        for part in met[1:]:
            met[0][0].update(part[0])
            met[0][1].extend(part[1])
            parts.remove(part)
        if met:
            met[0][0].update(names)
            met[0][1].append(item)
        else:
            parts.append((set(names), [item]))
    return [sorted(x, key=lambda item: item.place) for _, x in parts]


def chains(merged: l2.Merged, device: Target) -> tuple[l2.Merged, list[Decision], frozenset[str]]:
    """The program with its chains, the decisions, and the phases in which a layer is unrolled: many products share a
    matrix."""
    if merged.order is l2.Order.BITWISE:
        return merged, [], frozenset()
    decisions: list[Decision] = []
    unrolled: set[str] = set()
    phases = []
    for phase in merged.phases:
        chainer = _Chainer(merged, phase, device)
        phases.append(chainer.run())
        decisions += chainer.decisions
        unrolled |= {phase.name} if chainer.unrolled else set()
    return replace(merged, phases=tuple(phases)), decisions, frozenset(unrolled)
