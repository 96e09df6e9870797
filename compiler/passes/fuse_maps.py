"""fuse_maps: elementwise blocks join each other, and the reductions that alone read them.

Assumes: blocks in order (BlockList).
Guarantees: (1) a map that only one reduction reads, each element once, becomes part of its term; (2) a map joins an
earlier map over the same dims that writes or reads one of its operands, in one nest with several outputs, where the
order of blocks allows. What nothing else reads becomes a local. Whether two blocks have the same dims follows from
what they read element by element, never from equal sizes.
Does not: recompute anything, join maps into products of two operands (strategies compute those), or touch updates.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.expr.ast import Binary, Expr, Ref, refs, substitute
from compiler.ir.program import Mode
from compiler.ir.space import Affine
from compiler.passes.block_list import BlockList, composed, joined_map
from compiler.passes.blocks import ELEMENT_NUMBER, Block, Operand, is_identity, normal, plain, renamed
from compiler.passes.decisions import Decision

PASS = "fuse_maps"


def is_product(block: Block) -> bool:
    """Whether the term is a product of two operands: a contraction that a strategy may compute."""
    term = block.term
    return isinstance(term, Binary) and term.op == "*" and isinstance(term.left, Ref) and isinstance(term.right, Ref)


def _reads_each_once(block: Block, operand: Operand) -> bool:
    """Whether every point of the iteration space reads an element of its own."""
    dims = [plain(a) for a in operand.index]
    if None in dims or sorted(d for d in dims if d) != sorted(d.name for d in block.dims):
        return False
    return all(block.dim(d).extent == n for d, n in zip(dims, operand.shape, strict=True) if d)


def _into_term(producer: Block, consumer: Block, operand: Operand) -> Block:
    """The consumer with the producer's expression in place of the operand."""
    bindings: dict[str, Affine] = {d.name: a for d, a in zip(producer.dims, operand.index, strict=True)}
    inner = renamed(
        producer,
        {**{o.name: f"b.{o.name}" for o in producer.operands}, **{s.name: f"b.{s.name}" for s in producer.scalars}},
    )
    value: dict[str, Expr] = {operand.name: inner.prologue[0].value}
    taken = tuple(replace(o, index=composed(o.index, bindings)) for o in inner.reads)
    assert consumer.term is not None
    return normal(
        replace(
            consumer,
            operands=(*(o for o in consumer.operands if o.name != operand.name), *taken),
            term=substitute(consumer.term, value),
            scalars=consumer.scalars + inner.scalars,
        )
    )


def _try_term(blocks: BlockList, slot: int, block: Block) -> Decision | None:
    out = block.writes[0]
    readers = blocks.others(out.tensor)
    if out.tensor in blocks.pinned or len(readers) != 1 or len(block.prologue) != 1:
        return None
    (at,) = readers
    consumer = blocks.slots[at]
    assert consumer is not None
    if consumer.combine is None or is_product(consumer):
        return None
    reads = [o for o in consumer.reads if o.tensor == out.tensor]
    if len(reads) != 1 or not _reads_each_once(consumer, reads[0]) or ELEMENT_NUMBER in refs(block.prologue[0].value):
        return None
    if any(o.shape and not o.index[0].terms and o.batched for o in block.reads):
        return None
    blocks.put(at, _into_term(block, consumer, reads[0]))
    blocks.put(slot, None)
    return Decision(PASS, out.tensor, f"computed inside `{consumer.name}`", "nothing else reads it")


def _partners(blocks: BlockList, slot: int, block: Block) -> list[int]:
    """Earlier maps that write or read, element by element, what this map reads element by element; writers first."""
    writers: list[int] = []
    siblings: set[int] = set()
    for o in block.reads:
        if not is_identity(o, block.dims):
            continue
        made = blocks.writer.get(o.tensor)
        if made is not None and made < slot:
            writers.append(made)
        siblings |= {s for s in blocks.readers.get(o.tensor, ()) if s < slot}
    order = [*dict.fromkeys(writers), *sorted(siblings - set(writers), reverse=True)]
    return [s for s in order if (b := blocks.slots[s]) is not None and b.what == "map"]


def _same_dims(a: Block, b: Block) -> bool:
    """Whether two maps share an operand that both walk element by element, and a third never walks otherwise."""
    if [d.extent for d in a.dims] != [d.extent for d in b.dims]:
        return False
    mine = {(o.tensor, o.shape) for o in a.operands if is_identity(o, a.dims)}
    if not any((o.tensor, o.shape) in mine for o in b.reads if is_identity(o, b.dims)):
        return False
    made = {o.tensor for o in a.writes}
    return all(is_identity(o, b.dims) and (o.tensor, o.shape) in mine for o in b.reads if o.tensor in made)


def _try_map(blocks: BlockList, slot: int, block: Block) -> Decision | None:
    for at in _partners(blocks, slot, block):
        other = blocks.slots[at]
        assert other is not None
        if not _same_dims(other, block):
            continue
        place = blocks.place(at, slot)
        if place is None:
            continue
        keep = {o.tensor for o in other.writes if o.tensor in blocks.pinned or blocks.others(o.tensor, slot)}
        whole = joined_map(other, block, keep)
        blocks.put(at, None)
        blocks.put(slot, None)
        blocks.put(place, whole)
        dropped = [o.tensor for o in other.writes if o.tensor not in keep]
        reason = "`" + "`, `".join(dropped) + "` is not read elsewhere" if dropped else "they walk the same elements"
        return Decision(PASS, block.name, f"joined with `{other.name}`", reason)
    return None


def fuse_maps(blocks: BlockList) -> list[Decision]:
    """Join maps in place; returns what was decided."""
    decisions: list[Decision] = []
    for attempt in (_try_term, _try_map):
        for slot, block in blocks.blocks():
            if block.what == "map" and all(o.mode is not Mode.UPDATE for o in block.operands):
                made = attempt(blocks, slot, block)
                if made is not None:
                    decisions.append(made)
    return decisions
