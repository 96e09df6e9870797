"""BlockList: the blocks of one phase while fusion joins them.

Assumes: blocks in an order in which every tensor is written before it is read.
Guarantees: slots keep their numbers while blocks are joined or taken out; who writes and who reads a tensor is known at
any time.
Does not: decide what to fuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compiler.ir.program import Assign, Mode
from compiler.ir.space import Affine
from compiler.passes.blocks import Block, Operand, Scalar, normal, renamed


class BlockList:
    """Mutable while fusing. `pinned`: tensors that must stay in memory although no block reads them."""

    def __init__(self, blocks: Iterable[Block], pinned: frozenset[str]) -> None:
        self.slots: list[Block | None] = []
        self.pinned = pinned
        self.writer: dict[str, int] = {}
        self.readers: dict[str, set[int]] = {}
        for block in blocks:
            self.slots.append(None)
            self.put(len(self.slots) - 1, block)

    def put(self, slot: int, block: Block | None) -> None:
        """Replace what stands in a slot."""
        old = self.slots[slot]
        if old is not None:
            for o in old.reads:
                self.readers[o.tensor].discard(slot)
            for o in old.writes:
                if self.writer.get(o.tensor) == slot:
                    del self.writer[o.tensor]
        self.slots[slot] = block
        if block is not None:
            for o in block.reads:
                self.readers.setdefault(o.tensor, set()).add(slot)
            for o in block.writes:
                self.writer[o.tensor] = slot

    def blocks(self) -> Iterator[tuple[int, Block]]:
        """The blocks that stand now; slots that change while iterating are seen as they are then."""
        for slot in range(len(self.slots)):
            block = self.slots[slot]
            if block is not None:
                yield slot, block

    def others(self, tensor: str, *slots: int) -> set[int]:
        """Slots that read a tensor, apart from `slots`."""
        return self.readers.get(tensor, set()) - set(slots)

    def place(self, first: int, second: int) -> int | None:
        """Where the blocks of two slots, first < second, can stand as one: at `first` when all that the second reads
        is there by then, at `second` when nothing between them reads what the first writes; None: nowhere."""
        a, b = self.slots[first], self.slots[second]
        assert a is not None and b is not None
        made = {o.tensor for o in a.writes}
        early = all(o.tensor in made or self.writer.get(o.tensor, -1) < first for o in b.reads)
        if early:
            return first
        between = {s for t in made for s in self.readers.get(t, ()) if first < s < second}
        return None if between else second

    def result(self) -> tuple[Block, ...]:
        return tuple(b for b in self.slots if b is not None)


def joined(
    first: Block, second: Block, dims: Mapping[str, str], keep: Iterable[str]
) -> tuple[tuple[Operand, ...], tuple[Scalar, ...], tuple[Assign, ...]]:
    """What `second` (a map) adds to `first`, whose dims it takes (`dims`): operands of both, scalars of both, and the
    statements of second over them. Tensors that `first` writes and that are not in `keep` become locals."""
    kept = set(keep)
    other = renamed(
        second,
        {
            **{o.name: f"b.{o.name}" for o in second.operands},
            **{s.target: f"b.{s.target}" for s in second.prologue},
            **{s.name: f"b.{s.name}" for s in second.scalars},
            **dims,
        },
    )
    written = {o.tensor: o.name for o in first.writes}
    read = {(o.tensor, o.shape, o.index): o.name for o in first.reads}
    same: dict[str, str] = {}
    fresh: list[Operand] = []
    for o in other.operands:
        if o.mode is Mode.READ and o.tensor in written:
            same[o.name] = written[o.tensor]
        elif o.mode is Mode.READ and (o.tensor, o.shape, o.index) in read:
            same[o.name] = read[o.tensor, o.shape, o.index]
        else:
            fresh.append(o)
    operands = tuple(o for o in first.operands if o.mode is Mode.READ or o.tensor in kept) + tuple(fresh)
    statements = renamed(replace(other, operands=()), same).prologue
    return operands, first.scalars + other.scalars, statements


def joined_map(first: Block, second: Block, keep: Iterable[str]) -> Block:
    """Two maps over the same dims as one: second after first."""
    dims = {b.name: a.name for a, b in zip(first.dims, second.dims, strict=True)}
    operands, scalars, after = joined(first, second, dims, keep)
    return normal(replace(first, operands=operands, scalars=scalars, prologue=(*first.prologue, *after)))


def joined_epilogue(first: Block, second: Block, keep: Iterable[str]) -> Block:
    """A reduction followed by a map over its output's elements."""
    dims = {b.name: a.name for a, b in zip(first.parallel, second.dims, strict=True)}
    operands, scalars, after = joined(first, second, dims, keep)
    return normal(replace(first, operands=operands, scalars=scalars, epilogue=(*first.epilogue, *after)))


def composed(index: tuple[Affine, ...], bindings: Mapping[str, Affine]) -> tuple[Affine, ...]:
    """Plain indices over a producer's dims, as indices over its consumer's."""
    return tuple(bindings[a.terms[0][0]] if a.terms else a for a in index)
