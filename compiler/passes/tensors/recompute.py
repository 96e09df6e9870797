"""recompute: activation checkpointing: gradients of a checkpointed block read recomputed values, not stored ones.

Chen, Xu, Zhang & Guestrin 2016, "Training deep nets with sublinear memory cost", section 4: after its forward pass,
only the tensors of a block that layers outside of it read are stored.

Assumes: the graph of a training, simplified and fused, forward nodes first; `blocks`: the forward tensors of
checkpointed blocks, and which block each belongs to.
Guarantees: nodes of the backward pass read, in place of an inner tensor of a block, a copy of it, recomputed from the
block's inputs right before the first of them. A copy has the body, the operands and the stream of its original, so that
it has the same bits. Values without a batch axis (statistics, tables) are stored: they are small, and sums over a batch
are expensive. A Scan is recomputed as a whole, and gives what is read of it.
Does not: run before simplify_graph, which would merge copies with their originals; fuse copies with their readers,
which could round differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.simplify_graph import needed
from compiler.strategies.pins import AGAIN

Pure = l1.Map | l1.Contract | l1.Gather | l1.Move | l1.Attention | l1.Reindex | l1.Rand | l1.Scan


def recompute(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str], outputs: tuple[str, ...]
) -> tuple[tuple[l1.Node, ...], list[Decision]]:
    """The graph with copies of tensors that gradients need, and the decision about each tensor of a block. `forward`:
    the tensors of the forward pass; all others are of the backward pass."""
    blocks, forward = _with_parts(nodes, blocks, forward)
    inner, decisions = _inner(nodes, blocks, forward, outputs)
    originals = {
        t.name: (i, n) for i, n in enumerate(nodes) if isinstance(n, Pure) for t in l1.results(n) if t.name in inner
    }
    made: dict[str, str] = {}
    result: list[l1.Node] = []
    for node in nodes:
        outs = l1.results(node)
        if outs and outs[0].name not in forward:
            found = _needed(l1.operands(node), originals, made)
            for i in sorted({i for i, _ in found.values()}):
                original = nodes[i]
                made |= {t.name: t.name + AGAIN for t in l1.results(original) if t.name in inner}
                result.append(_copied(original, made))
            node = l1.renamed(node, made)
        result.append(node)
    decisions += [Decision("recompute", name, "computed again", "its block is checkpointed") for name in made]
    read = {*outputs, *(name for n in result for name in l1.operands(n))}
    return tuple(needed(n, read) if isinstance(n, l1.Scan) else n for n in result), decisions


def _copied(node: l1.Node, made: Mapping[str, str]) -> l1.Node:
    """A node with other names for its results, that reads copies where they are `made`."""
    if not isinstance(node, l1.Scan):
        assert isinstance(node, Pure)
        return l1.renamed(replace(node, out=_again(node.out)), made)
    own = (*(g.part for g in node.given), *(c.state for c in node.carried), *(n.out for n in node.body))
    names = {**made, **{t.name: t.name + AGAIN for t in own}}
    body = (l1.renamed(n, names) for n in node.body)
    return replace(
        node,
        body=tuple(replace(n, out=_again(n.out)) for n in body if isinstance(n, l1.Map | l1.Contract | l1.Reindex)),
        given=tuple(l1.Given(_again(g.part), made.get(g.whole, g.whole)) for g in node.given),
        stacked=tuple(l1.Stacked(_again(s.whole), names[s.part]) for s in node.stacked),
        carried=tuple(
            l1.Carried(
                _again(c.state), made.get(c.start, c.start), names[c.after], None if c.last is None else _again(c.last)
            )
            for c in node.carried
        ),
    )


def _again(tensor: l1.Tensor) -> l1.Tensor:
    return replace(tensor, name=tensor.name + AGAIN)


def _with_parts(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str]
) -> tuple[dict[str, int], frozenset[str]]:
    """`blocks` and `forward` with the tensors that passes have split off: they belong to their readers, and what a Scan
    gives for gradients to it."""
    block_of, known = dict(blocks), set(forward)
    for node in reversed(nodes):
        names = [t.name for t in l1.results(node)]
        if not known.isdisjoint(names):
            parts = [n for n in (*names, *l1.operands(node)) if n not in known]
            known.update(parts)
            if (block := next((block_of[n] for n in names if n in block_of), None)) is not None:
                block_of |= dict.fromkeys(parts, block)
    return block_of, frozenset(known)


def _inner(
    nodes: tuple[l1.Node, ...], blocks: Mapping[str, int], forward: frozenset[str], outputs: tuple[str, ...]
) -> tuple[set[str], list[Decision]]:
    """Tensors that may be recomputed: those that only their own block and gradients read."""
    inner: set[str] = set()
    kept: dict[str, str] = dict.fromkeys(outputs, "it is kept for the host")
    for node in reversed(nodes):  # readers come before their operands
        outs = l1.results(node)
        if not outs:
            kept |= {name: "an update or a store reads it" for name in l1.operands(node)}
            continue
        first = outs[0].name
        if first in forward:
            outside = [n for n in l1.operands(node) if n in blocks and blocks[n] != blocks.get(first)]
            kept |= {name: f"{first} of another block reads it" for name in outside}
        if first in blocks and isinstance(node, Pure):
            for out in outs:
                if not out.batched:
                    kept.setdefault(out.name, "it has no batch axis")
            inner |= {out.name for out in outs} - kept.keys()
            if isinstance(node, l1.Reindex) and first in kept:  # the same array
                kept.setdefault(node.source, kept[first])
    every = (t.name for n in nodes if isinstance(n, Pure) for t in l1.results(n))
    return inner, [Decision("recompute", name, "kept", kept[name]) for name in every if name in blocks and name in kept]


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
