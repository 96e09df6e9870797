"""early_factors: factors that depend on weights alone are computed before the contraction that they scale.

The scale of a batch normalisation in inference, weight / sqrt(variance + epsilon), follows the convolution in the order
of the model; computed ahead of it, the normalisation can be the epilogue of the convolution's kernel (fuse_epilogues).
The gradient of the mean over a batch depends on the number of its samples alone; computed first, the gradient of a
softmax can be in the kernel of its sums (fuse_rows).

Assumes: a graph in topological order, simplified and fused.
Guarantees: the same nodes; if some have to move, in another topological order, weights and variables first. Only Maps
without a batch move, and those that depend on which samples there are.
Does not: move nodes that depend on samples, or (but for the latter) further than necessary.
"""

from __future__ import annotations

import compiler.ir.level1.graph as l1


def early_factors(nodes: tuple[l1.Node, ...]) -> tuple[l1.Node, ...]:
    """The nodes in an order in which factors come early."""
    given = [n for n in nodes if isinstance(n, (l1.Weight, l1.Variable, l1.Constant))]
    others = [n for n in nodes if not isinstance(n, (l1.Weight, l1.Variable, l1.Constant))]
    free = {n.out.name for n in given}
    made: dict[str, int] = {}
    place: list[tuple[float, int]] = []
    for i, node in enumerate(others):
        place.append((i, i))
        if isinstance(node, (l1.Map, l1.Contract, l1.Gather, l1.Move, l1.Reindex)):
            made[node.out.name] = i
            if not node.out.batched and all(n in free for n in l1.operands(node)):
                free.add(node.out.name)
    for node in others:
        if isinstance(node, l1.Map):
            read = [made[n] for n in node.ins if n in made and n not in free]
            sums = [i for i in read if isinstance(others[i], l1.Contract | l1.Gather | l1.Move)]
            late = [n for n in node.ins if sums and n in free and made.get(n, -1) > min(sums)]
            while late:
                i = made[late.pop()]
                place[i] = (min(place[i][0], min(sums) - 0.5), i)
                late += [n for n in l1.operands(others[i]) if made.get(n, -1) > min(sums)]
    known = {n.out.name for n in others if isinstance(n, l1.BatchMask)}
    for i, node in enumerate(others):
        if isinstance(node, (l1.Map, l1.Contract)) and node.ins and known.issuperset(node.ins):
            known.add(node.out.name)
            if isinstance(node, l1.Map):
                place[i] = (max(place[made[n]][0] if n in made else 0.0 for n in node.ins), i)
    if all(at == i for at, i in place):
        return nodes
    ordered = sorted(range(len(others)), key=place.__getitem__)
    return (*given, *(others[i] for i in ordered))
