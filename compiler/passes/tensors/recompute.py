"""recompute: activation checkpointing: gradients of a checkpointed block read recomputed values, not stored ones.

Chen, Xu, Zhang & Guestrin 2016, "Training deep nets with sublinear memory cost", section 4: after its forward pass,
only the tensors of a block that layers outside of it read are stored.

Assumes: the graph of a training, simplified and fused, forward nodes first; `blocks`: the forward tensors of
checkpointed blocks, and which block each belongs to.
Guarantees: nodes of the backward pass read, in place of an inner tensor of a block, a copy of it, recomputed from the
block's inputs right before the first of them. A copy has the body, the operands and the stream of its original, so that
it has the same bits. Values without a batch axis (statistics, tables) are stored: they are small, and sums over a batch
are expensive.
Does not: run before simplify_graph, which would merge copies with their originals; fuse copies with their readers,
which could round differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.simplify_graph import renamed
from compiler.strategies.pins import AGAIN

Pure = l1.Map | l1.Contract | l1.Gather | l1.Move | l1.Attention | l1.Reindex | l1.Rand


def recompute(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str], outputs: tuple[str, ...]
) -> tuple[tuple[l1.Node, ...], list[Decision]]:
    """The graph with copies of tensors that gradients need, and the decision about each tensor of a block. `forward`:
    the tensors of the forward pass; all others are of the backward pass."""
    blocks, forward = _with_parts(nodes, blocks, forward)
    inner, decisions = _inner(nodes, blocks, forward, outputs)
    originals = {n.out.name: (i, n) for i, n in enumerate(nodes) if isinstance(n, Pure) and n.out.name in inner}
    made: dict[str, str] = {}
    result: list[l1.Node] = []
    for node in nodes:
        out = getattr(node, "out", None)
        if out is not None and out.name not in forward:
            for _, original in sorted(_needed(l1.operands(node), originals, made).values(), key=lambda found: found[0]):
                made[original.out.name] = original.out.name + AGAIN
                copy = replace(original, out=replace(original.out, name=original.out.name + AGAIN))
                result.append(renamed(copy, made))
            node = renamed(node, made)
        result.append(node)
    decisions += [Decision("recompute", name, "computed again", "its block is checkpointed") for name in made]
    return tuple(result), decisions


def _with_parts(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str]
) -> tuple[dict[str, int], frozenset[str]]:
    """`blocks` and `forward` with the tensors that passes have split off: they belong to their readers."""
    block_of, known = dict(blocks), set(forward)
    for node in reversed(nodes):
        out = getattr(node, "out", None)
        if out is not None and out.name in known:
            parts = [n for n in l1.operands(node) if n not in known]
            known.update(parts)
            if out.name in block_of:
                block_of |= dict.fromkeys(parts, block_of[out.name])
    return block_of, frozenset(known)


def _inner(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str], outputs: tuple[str, ...]
) -> tuple[set[str], list[Decision]]:
    """Tensors that may be recomputed: those that only their own block and gradients read."""
    inner: set[str] = set()
    kept: dict[str, str] = dict.fromkeys(outputs, "it is kept for the host")
    for node in reversed(nodes):  # readers come before their operands
        out = getattr(node, "out", None)
        if out is None:
            kept |= {name: "an update or a store reads it" for name in l1.operands(node)}
            continue
        if out.name in forward:
            outside = [n for n in l1.operands(node) if n in blocks and blocks[n] != blocks.get(out.name)]
            kept |= {name: f"{out.name} of another block reads it" for name in outside}
        if out.name in blocks and isinstance(node, Pure):
            if not out.batched:
                kept.setdefault(out.name, "it has no batch axis")
            if out.name not in kept:
                inner.add(out.name)
            elif isinstance(node, l1.Reindex):  # the same array
                kept.setdefault(node.source, kept[out.name])
    made = [n.out.name for n in nodes if isinstance(n, Pure) and n.out.name in blocks and n.out.name in kept]
    return inner, [Decision("recompute", name, "kept", kept[name]) for name in made]


def _needed(
    names: tuple[str, ...], originals: Mapping[str, tuple[int, Pure]], made: Mapping[str, str]
) -> dict[str, tuple[int, Pure]]:
    """The originals of these tensors and of their operands, recursively, that have no copy yet."""
    found: dict[str, tuple[int, Pure]] = {}
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in originals and name not in made and name not in found:
            found[name] = originals[name]
            stack += l1.operands(originals[name][1])
    return found
