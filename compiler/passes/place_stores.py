"""place_stores: a value that a variable becomes at the end of the phase is written in place where that is legal.

Assumes: fused blocks; each stored value is written by one block.
Guarantees: the block that computes the value writes the variable's own memory when nothing else reads the value, no
later block reads the variable's old value, and the block itself reads it at the element that it writes. Otherwise
the value keeps its memory and a copy is appended.
Does not: change the order of blocks.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.expr.ast import Ref
from compiler.ir.graph import Store
from compiler.ir.program import Assign, Mode
from compiler.ir.space import along
from compiler.passes.block_list import BlockList
from compiler.passes.blocks import Block, Known, Loop, normal, renamed
from compiler.passes.decisions import Decision

PASS = "place_stores"


def _why_not(blocks: BlockList, target: str, value: str, shared: bool) -> str | None:
    """Why the value cannot be written into the target's memory; None when it can."""
    slot = blocks.writer.get(value)
    if shared or slot is None:
        return "the value is an output, a variable or stored twice"
    if blocks.readers.get(value):
        return "the value is read after it is computed"
    if any(s > slot for s in blocks.readers.get(target, ())):
        return f"`{target}` is read later"
    block = blocks.slots[slot]
    assert block is not None
    (out,) = [o for o in block.writes if o.tensor == value]
    for o in block.reads:
        if o.tensor == target and (o.index != out.index or o.shape != out.shape):
            return "the block reads other elements of it than it writes"
    return None


def _in_place(block: Block, target: str, value: str, known: Known) -> Block:
    """The block with the value's operand bound to the variable, and its reads of the variable through it."""
    (out,) = [o for o in block.writes if o.tensor == value]
    olds = [o for o in block.reads if o.tensor == target]
    dtype = known.operand(out.name, target, out.index).dtype
    if not olds:
        written = replace(out, tensor=target, dtype=dtype)
        return replace(block, operands=tuple(written if o is out else o for o in block.operands))
    updated = replace(out, tensor=target, dtype=dtype, mode=Mode.UPDATE)
    rest = tuple(o for o in block.operands if o not in olds and o is not out)
    names = {o.name: out.name for o in olds}
    return normal(renamed(replace(block, operands=(*rest, updated)), names))


def _copy(store: Store, known: Known) -> Block:
    shape = known.tensors[store.target].shape
    dims = tuple(Loop(f"i{a}", n) for a, n in enumerate(shape))
    index = tuple(along(d.name) for d in dims)
    operands = (known.operand("x0", store.value, index), known.operand("y0", store.target, index, Mode.WRITE))
    return Block(store.target, "copy", dims, operands, (Assign("y0", Ref("x0"), store.span),), span=store.span)


def place_stores(
    blocks: BlockList, stores: tuple[Store, ...], outputs: frozenset[str], known: Known
) -> tuple[tuple[Block, ...], list[Decision]]:
    """All blocks with stores in place, copies at the end."""
    values = [known.roots[s.value] for s in stores]
    copies: list[Block] = []
    decisions: list[Decision] = []
    for store in stores:
        target, value = known.roots[store.target], known.roots[store.value]
        why = _why_not(blocks, target, value, value in outputs or values.count(value) > 1)
        if why is None:
            slot = blocks.writer[value]
            block = blocks.slots[slot]
            assert block is not None
            blocks.put(slot, _in_place(block, target, value, known))
            decisions.append(Decision(PASS, target, "written in place", f"`{value}` is needed for nothing else"))
        else:
            copies.append(_copy(store, known))
            decisions.append(Decision(PASS, target, "copied at the end", why))
    return (*blocks.result(), *copies), decisions
