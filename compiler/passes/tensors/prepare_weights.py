"""prepare_weights: what a prediction computes of weights alone is computed once, in a phase of its own.

Such nodes convert weights (to bf16, to another order of axes) or combine them. They become the graph of the phase
`prepare`, whose results are variables of the prediction.

Assumes: the graph of a prediction in gather form, in which nothing writes weights; the host runs `prepare` whenever it
has written weights.
Guarantees: nodes that depend on weights, variables and constants alone, but for random numbers, are in the other graph;
the same bits.
Does not: move what is a part of a larger expression, or inside the steps of a Scan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.passes.program.decisions import Decision

_Early = l1.Weight | l1.Variable | l1.Constant | l1.Map | l1.Contract | l1.Gather | l1.Move | l1.Reindex

NAME: Final = "prepare_weights"
PREPARE: Final = "prepare"
"""The phase that comes before a prediction."""
_GIVEN = (l1.Weight, l1.Variable, l1.Constant)
_COMPUTED = (l1.Map, l1.Contract, l1.Gather, l1.Move)


def prepare_weights(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...] = ()
) -> tuple[tuple[l1.Node, ...], tuple[l1.Node, ...], tuple[Decision, ...]]:
    """(nodes of `prepare`, nodes of the prediction, a decision for each result that is a variable now)."""
    early = _early(nodes, frozenset(outputs))
    late = (n for n in nodes if all(t.name not in early for t in l1.results(n)))
    used = _needed(early, {name for n in late for name in l1.operands(n)}, l1.Reindex)
    results = {n.out.name: n for n in early.values() if n.out.name in used and isinstance(n, _COMPUTED)}
    if not results:
        return (), nodes, ()
    sources = _needed(early, set(results), (*_COMPUTED, l1.Reindex))
    names = {name: f"{name}.value" for name in results}
    before = [l1.renamed(_named(n, names), names) for n in early.values() if n.out.name in sources]
    variables = tuple(l1.Variable(n.out, 0.0, inner=True, span=n.span) for n in results.values())
    stores = tuple(l1.Store(name, names[name], n.span) for name, n in results.items())
    decisions = tuple(Decision(NAME, name, "prepared", "it is of weights alone") for name in results)
    gone = early.keys() - used - {*outputs} | results.keys()
    after = (n for n in nodes if all(t.name not in gone for t in l1.results(n)))
    return (*variables, *before, *stores), (*variables, *after), decisions


def _early(nodes: tuple[l1.Node, ...], outputs: frozenset[str]) -> dict[str, _Early]:
    """What depends on weights alone, by name."""
    written = {n.target for n in nodes if isinstance(n, l1.Store)}
    found = dict[str, _Early]()
    for node in nodes:
        if isinstance(node, _GIVEN):
            if node.out.name not in written:
                found[node.out.name] = node
        elif isinstance(node, (*_COMPUTED, l1.Reindex)) and not node.out.batched and node.out.name not in outputs:
            names = l1.operands(node)
            if names and all(name in found for name in names):
                found[node.out.name] = node
    return found


def _needed(early: Mapping[str, _Early], names: set[str], through: type | tuple[type, ...]) -> set[str]:
    """Those of `early` that `names` are or need, by operands of nodes of some types."""
    found, left = set[str](), [*names]
    while left:
        name = left.pop()
        if name in early and name not in found:
            found.add(name)
            if isinstance(node := early[name], through):
                left += l1.operands(node)
    return found


def _named(node: _Early, names: Mapping[str, str]) -> _Early:
    """The node with the name of its result changed."""
    name = names.get(node.out.name)
    return node if name is None else replace(node, out=replace(node.out, name=name))
