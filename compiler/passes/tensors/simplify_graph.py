"""simplify_graph: dead code elimination and common subexpression elimination; samples are fed in the order of steps.

Assumes: a tensor graph in topological order; effects are Store and Update nodes.
Guarantees: Contracts without reduction dims become Maps. Nodes that outputs and effects depend on stay, in order; Maps,
Contracts, Attentions or moves with equal operands and bodies become one, in the bodies of Scans, too, which keep the
states and outputs that something reads. A Feed that is read step by step alone is fed so. Variables and weights stay
even when this phase does not read them.
Does not: reorder arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Ref, refs
from compiler.ir.space import Affine, plain_dim


def _is_copy(node: l1.Map) -> bool:
    """out = x0, element by element."""
    return node.body == Ref("x0") and node.maps == (tuple(range(len(node.out.shape))),)


def _as_map(node: l1.Contract) -> l1.Contract | l1.Map:
    """A Contract without reduction dims as an elementwise Map."""
    axis_of = {a.terms[0][0]: i for i, a in enumerate(node.out_map) if len(a.terms) == 1}
    if len(axis_of) != len(node.dims) or len(axis_of) != len(node.out_map) or refs(node.body) & axis_of.keys():
        return node
    if any(a != Affine() and plain_dim(a) is None for m in (node.out_map, *node.in_maps) for a in m):
        return node
    maps = tuple(tuple(axis_of[a.terms[0][0]] if a.terms else None for a in m) for m in node.in_maps)
    return l1.Map(node.out, node.ins, maps, node.body, node.scalars, node.span)


Moved = l1.Gather | l1.ScatterAdd | l1.Move | l1.Reindex | l1.StepsFirst
Computed = l1.Map | l1.Contract | l1.Attention | Moved


def _computed(node: Computed) -> tuple[object, ...]:
    """Key that is equal for nodes that compute the same."""
    out = (node.out.shape, node.out.dtype, node.out.batched)
    match node:
        case l1.Map():
            return (l1.Map, out, node.ins, node.maps, node.body, node.scalars)
        case l1.Contract():
            walks = (node.dims, node.out_map, node.ins, node.in_maps)
            return (l1.Contract, out, walks, node.body, node.combine, node.fill, node.scalars)
        case l1.Attention() | l1.Gather() | l1.ScatterAdd() | l1.Move():
            return (type(node), replace(node, out=replace(node.out, name="")))
        case l1.Reindex() | l1.StepsFirst():
            return (type(node), out, node.source)


def _share(nodes: tuple[l1.Node, ...]) -> list[l1.Node]:
    names: dict[str, str] = {}
    seen: dict[object, str] = {}
    turned: dict[tuple[str, bool], str] = {}
    kept: list[l1.Node] = []
    for old in nodes:
        node = l1.renamed(old, names)
        if isinstance(node, l1.Contract):
            node = _as_map(node)
        if isinstance(node, l1.Map) and _is_copy(node):
            names[node.out.name] = node.ins[0]
            continue
        if isinstance(node, l1.Scan):
            node = _sharing(node, names)
        if isinstance(node, l1.StepsFirst):
            if (node.source, not node.back) in turned:  # and back again
                names[node.out.name] = turned[node.source, not node.back]
                continue
            turned[node.out.name, node.back] = node.source
        if isinstance(node, Computed):
            out = node.out
            first = seen.setdefault(_computed(node), out.name)
            if first != out.name:
                names[out.name] = first
                continue
        kept.append(node)
    return kept


def _sharing(scan: l1.Scan, names: dict[str, str]) -> l1.Scan:
    """A Scan that computes everything once; outputs that have become equal are one, by `names`."""
    scan = l1.inside(scan, lambda body: tuple(_share(body)))
    first: dict[str, l1.Stacked] = {}
    for s in scan.stacked:
        if first.setdefault(s.part, s) is not s:
            names[s.whole.name] = first[s.part].whole.name
    return replace(scan, stacked=tuple(first.values()))


def needed(scan: l1.Scan, live: Set[str]) -> l1.Scan:
    """A Scan without what nothing reads."""
    stacked = tuple(s for s in scan.stacked if s.whole.name in live)
    last = [c.last if c.last is not None and c.last.name in live else None for c in scan.carried]
    carried = [replace(c, last=t) for c, t in zip(scan.carried, last, strict=True)]
    wanted = {s.part for s in stacked} | {c.after for c in carried if c.last is not None}
    while True:
        for node in reversed(scan.body):
            if node.out.name in wanted:
                wanted.update(l1.operands(node))
        more = {c.after for c in carried if c.state.name in wanted} - wanted
        if not more:
            break
        wanted |= more
    kept = tuple(c for c in carried if c.state.name in wanted or c.last is not None)
    given = tuple(g for g in scan.given if g.part.name in wanted)
    body = tuple(n for n in scan.body if n.out.name in wanted)
    return replace(scan, stacked=stacked, carried=kept, given=given, body=body)


def simplify_graph(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """The live nodes, each computed once."""
    return live_nodes(_fed_by_steps(_share(nodes), outputs), outputs)


def _fed_by_steps(nodes: Sequence[l1.Node], outputs: Sequence[str]) -> list[l1.Node]:
    """The nodes, where what only puts the samples of a Feed in the order of steps is such a Feed."""
    readers = Counter([*outputs, *(name for node in nodes for name in l1.operands(node))])
    feeds: dict[str, l1.Feed] = {}  # by what has its elements, and one reader
    made: list[l1.Node] = []
    for node in nodes:
        if isinstance(node, l1.StepsFirst) and not node.back and node.source in feeds:
            node = replace(feeds[node.source], out=node.out, steps=node.steps)
        elif isinstance(node, l1.Feed | l1.Reindex) and readers[node.out.name] == 1:
            source = node if isinstance(node, l1.Feed) else feeds.get(node.source)
            if source is not None and not source.steps:
                feeds[node.out.name] = source
        made.append(node)
    return made


def live_nodes(nodes: Sequence[l1.Node], outputs: Iterable[str]) -> tuple[l1.Node, ...]:
    """The nodes that outputs and effects depend on, and what persists."""
    live = set(outputs)
    kept: list[l1.Node] = []
    for node in reversed(nodes):
        effect = isinstance(node, (l1.Store, l1.Update, l1.Weight, l1.Variable))
        if effect or any(out.name in live for out in l1.results(node)):
            if isinstance(node, l1.Scan):
                node = needed(node, live)
            kept.append(node)
            live.update(l1.operands(node))
    return tuple(reversed(kept))
