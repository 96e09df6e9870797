"""pack_panels: weights of products are stored as panels for predictions, which read them in order.

Products of a few rows sum neighbouring terms in the lanes and add these up at the end (rows_dense of
compiler/strategies/cpu/), or pack their columns again and again (rows_product). Weights of a prediction are the same
each time: their panels are made once (prepare_weights), beside the weights, which are the host's.

Assumes: the graph of a prediction in gather form, in which nothing writes weights; row-major tensors; a target that has
rows_panels.
Guarantees: only operands of products change, where these are faster so by estimate, by more than MARGIN, or where many
rows read what no cache holds. What is read once for a single row, by no step of a Scan, is not packed: it would take
twice the memory for little.
Does not: pack what a lock file computes otherwise, or parts of weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Ref
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import Affine, along, plain_dim
from compiler.passes.program.decisions import Decision
from compiler.strategies import in_rows
from compiler.strategies.cost.cpu import PANEL_FAR_BYTES, PANEL_NEAR_BYTES, within
from compiler.strategies.cpu import rows_panels
from compiler.strategies.pins import Pins, path_of

NAME: Final = "pack_panels"
MARGIN: Final = 0.8
FAR_MARGIN: Final = 1.05
"""Where weights are far."""


@dataclass
class _Packing:
    """What is found while a graph is rewritten. `packed`: weight -> the nodes that make its panels."""

    phase: str
    tensors: Mapping[str, l1.Tensor]
    weights: frozenset[str]
    target: Capabilities
    real: int
    pins: Pins
    packed: dict[str, tuple[l1.Contract, l1.Reindex]] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)

    def node(self, node: l1.Node) -> l1.Node:
        """With panels in place of weights."""
        if isinstance(node, l1.Scan):
            return replace(
                node, body=tuple(self.product(n, True) if isinstance(n, l1.Contract) else n for n in node.body)
            )
        return self.product(node, False) if isinstance(node, l1.Contract) else node

    def product(self, node: l1.Contract, again: bool) -> l1.Contract:
        """A contraction, which may be a product. `again`: it is computed for each step."""
        if not l1.is_sum_of_products(node):
            return node
        for side in (0, 1):
            name, axes = node.ins[side], node.in_maps[side]
            rows = prod(node.out.shape) // self.tensors[name].shape[0] if self.tensors[name].shape else 0
            plain = [plain_dim(a) for a in axes]
            if name not in self.weights or len(axes) != 2 or None in plain or not (again or rows > 1):
                continue
            nodes = self.packed.get(name) or self._panels(name, node)
            ins = tuple(nodes[1].out.name if k == side else n for k, n in enumerate(node.ins))
            after = replace(node, ins=ins)
            known = {**self.tensors, **{t.name: t for n in nodes for t in l1.results(n)}}
            before, now = (in_rows(*x, self.target, self.real) for x in ((node, self.tensors), (after, known)))
            if path_of(self.phase, node.out) in self.pins or now is None or before is None:
                continue
            margin = self._margin(prod(self.tensors[name].shape) * self.real, rows)
            if now.strategy == rows_panels.NAME and now.microseconds < margin * before.microseconds:
                self.packed[name] = nodes
                why = f"{node.out.name}: about {now.microseconds:.1f} us so, {before.microseconds:.1f} us as it is"
                self.decisions.append(Decision(NAME, name, "packed", why))
                return after
        return node

    def _margin(self, size: int, rows: int) -> float:
        """What share of its time a product of so many rows may take with panels of so many bytes."""
        if rows <= rows_panels.FEW:
            return MARGIN
        near, far = (within(x, self.target.device) for x in (PANEL_NEAR_BYTES, PANEL_FAR_BYTES))
        return 0.0 if size < near else FAR_MARGIN if size >= far else MARGIN

    def _panels(self, name: str, reader: l1.Contract) -> tuple[l1.Contract, l1.Reindex]:
        weight, wide = self.tensors[name], rows_panels.panel_of(self.real)
        whole = l1.Tensor(f"{name}.panels", (-(-weight.shape[0] // wide), weight.shape[1], wide))
        dims = tuple(zip(("p", "k", "j"), whole.shape, strict=True))
        axes = (Affine((("p", wide), ("j", 1))), along("k"))
        plain = tuple(along(d) for d, _ in dims)
        made = l1.Contract(whole, dims, plain, (name,), (axes,), Ref("x0"), span=reader.span)
        read = replace(weight, name=f"{name}.packed", panel=wide)
        return made, l1.Reindex(read, whole.name, span=reader.span)


def pack_panels(
    nodes: tuple[l1.Node, ...], phase: str, target: Capabilities, real: int, pins: Pins
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph with packed weights, and a decision for each product that reads them so. `real`: bytes."""
    written = {n.target for n in nodes if isinstance(n, l1.Store)}
    weights = frozenset(n.out.name for n in nodes if isinstance(n, l1.Weight)) - written
    packing = _Packing(phase, l1.tensors_of(nodes), weights, target, real, pins)
    after = [packing.node(n) for n in nodes]
    result = list[l1.Node]()
    for node in after:
        result.append(node)
        if isinstance(node, l1.Weight):
            result += packing.packed.get(node.out.name, ())
    return tuple(result), tuple(packing.decisions)
