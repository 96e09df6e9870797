"""simplify_graph: dead code elimination and common subexpression elimination.

Assumes: a tensor graph in topological order; effects are Store and Update nodes.
Guarantees: Contracts without reduction dims become Maps. Nodes that outputs and effects depend on stay, in order; Maps,
Contracts, Attentions or Reindexes with equal operands and bodies become one. Variables and weights stay even when this
phase does not read them.
Does not: reorder arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Ref, refs
from compiler.ir.space import Affine, plain_dim


def renamed(node: l1.Node, names: Mapping[str, str]) -> l1.Node:
    """The node with its operands renamed."""
    match node:
        case l1.Map() | l1.Contract() | l1.Attention():
            return replace(node, ins=tuple(names.get(i, i) for i in node.ins))
        case l1.Reindex():
            return replace(node, source=names.get(node.source, node.source))
        case l1.Store():
            return replace(node, value=names.get(node.value, node.value))
        case l1.Update():
            reads = tuple((n, names.get(t, t)) for n, t in node.reads)
            return replace(node, gradient=names.get(node.gradient, node.gradient), reads=reads)
        case _:
            return node


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


def _computed(node: l1.Map | l1.Contract | l1.Attention | l1.Reindex) -> tuple[object, ...]:
    """Key that is equal for nodes that compute the same."""
    out = (node.out.shape, node.out.dtype, node.out.batched)
    match node:
        case l1.Map():
            return (l1.Map, out, node.ins, node.maps, node.body, node.scalars)
        case l1.Contract():
            walks = (node.dims, node.out_map, node.ins, node.in_maps)
            return (l1.Contract, out, walks, node.body, node.combine, node.fill, node.scalars)
        case l1.Attention():
            return (l1.Attention, replace(node, out=replace(node.out, name="")))
        case l1.Reindex():
            return (l1.Reindex, out, node.source)


def _share(nodes: tuple[l1.Node, ...]) -> list[l1.Node]:
    names: dict[str, str] = {}
    seen: dict[object, str] = {}
    kept: list[l1.Node] = []
    for old in nodes:
        node = renamed(old, names)
        if isinstance(node, l1.Contract):
            node = _as_map(node)
        if isinstance(node, l1.Map) and _is_copy(node):
            names[node.out.name] = node.ins[0]
            continue
        if isinstance(node, (l1.Map, l1.Contract, l1.Attention, l1.Reindex)):
            out = node.out
            first = seen.setdefault(_computed(node), out.name)
            if first != out.name:
                names[out.name] = first
                continue
        kept.append(node)
    return kept


def simplify_graph(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """The live nodes, each computed once."""
    shared = _share(nodes)
    live = set(outputs)
    kept: list[l1.Node] = []
    for node in reversed(shared):
        if isinstance(node, (l1.Store, l1.Update, l1.Weight, l1.Variable)) or node.out.name in live:
            kept.append(node)
            live.update(l1.operands(node))
    return tuple(reversed(kept))
