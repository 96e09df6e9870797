"""fuse_epilogues: elementwise blocks after a reduction run where its sums are, before they are stored.

Assumes: blocks in order (BlockList), maps already joined.
Guarantees: a map that reads a reduction's output element by element, and whose other operands are known by then, joins
its epilogue: bias and activation behind a convolution, the slope of an activation behind the gradient of its output.
The rule for an intermediate value: what another block reads, an output or what a store needs is stored as a second
output (computing it again would need the whole sum again); everything else becomes a local and is never stored.
Does not: move a block past one that reads what it writes.
"""

from __future__ import annotations

from compiler.passes.block_list import BlockList, joined_epilogue
from compiler.passes.blocks import Block, is_identity
from compiler.passes.decisions import Decision

PASS = "fuse_epilogues"


def _fits(first: Block, second: Block) -> str | None:
    """None when `second` can follow `first` point by point, else why not."""
    if [d.extent for d in first.parallel] != [d.extent for d in second.dims]:
        return "it has other dims"
    made = {(o.tensor, o.shape) for o in first.writes}
    for o in second.reads:
        if any(o.tensor == t for t, _ in made) and not (is_identity(o, second.dims) and (o.tensor, o.shape) in made):
            return f"it reads `{o.tensor}` in another shape or order"
    return None


def _extend(blocks: BlockList, slot: int) -> tuple[int, Decision] | None:
    """Join one map to the reduction in `slot`; returns where the result stands and what was decided."""
    block = blocks.slots[slot]
    assert block is not None
    candidates = sorted({s for o in block.writes for s in blocks.others(o.tensor, slot)})
    for at in candidates:
        follower = blocks.slots[at]
        if follower is None or follower.what != "map" or at < slot or _fits(block, follower) is not None:
            continue
        place = blocks.place(slot, at)
        if place is None:
            continue
        keep = {o.tensor for o in block.writes if o.tensor in blocks.pinned or blocks.others(o.tensor, at)}
        whole = joined_epilogue(block, follower, keep)
        blocks.put(slot, None)
        blocks.put(at, None)
        blocks.put(place, whole)
        stored = sorted(keep)
        reason = (
            f"`{stored[0]}` is stored too: it is read elsewhere"
            if stored
            else "nothing else reads what it follows: that is never stored"
        )
        return place, Decision(PASS, follower.name, f"runs behind `{block.name}`", reason)
    return None


def fuse_epilogues(blocks: BlockList) -> list[Decision]:
    """Join maps to the reductions before them, in place; returns what was decided."""
    decisions: list[Decision] = []
    for slot in range(len(blocks.slots)):
        block = blocks.slots[slot]
        if block is None or block.combine is None:
            continue
        at = slot
        while (made := _extend(blocks, at)) is not None:
            at = made[0]
            decisions.append(made[1])
    for slot, block in blocks.blocks():
        if block.what == "map":
            decisions += _refused(blocks, slot, block)
    return decisions


def _refused(blocks: BlockList, slot: int, block: Block) -> list[Decision]:
    """Why a map stayed a kernel of its own although it reads a reduction's output element by element."""
    for o in block.reads:
        made = blocks.writer.get(o.tensor)
        source = None if made is None else blocks.slots[made]
        if source is not None and source.combine is not None and is_identity(o, block.dims):
            why = _fits(source, block)
            if why is None:
                late = [r.tensor for r in block.reads if blocks.writer.get(r.tensor, -1) > (made or 0)]
                why = f"`{late[0]}` is computed later" if late else "what it reads is needed before it can run"
            return [Decision(PASS, block.name, f"not behind `{source.name}`", why)]
    return []
