"""sites: the contractions of a program for which there is a choice.

Assumes: graphs as lowering has them; a target restricted to what a model permits (compiler/strategies/permissions.py).
Guarantees: only candidates of the model's order class; the first is the choice of the rules; the nest is among them.
What reads a tensor of windows (window_choices) or panels (pack_panels) is left to the rules.
Does not: measure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.ir.level2.target import Capabilities, Target
from compiler.ir.space import DType
from compiler.layout.assign_layouts import real_lanes
from compiler.strategies.choice import Choice
from compiler.strategies.pins import path_of, problem_digest, structure_digest
from compiler.strategies.variants import identity, ways


@dataclass(frozen=True)
class Site:
    """A contraction of a program: `path` is its path in the model (train/dense1.sum), one for all steps of a
    sequence."""

    path: str
    node: l1.Contract
    tensors: Mapping[str, l1.Tensor]
    lanes: int
    problem: str
    structure: str
    ways: tuple[Choice | None, ...]

    @property
    def span(self) -> Span:
        return self.node.span

    @property
    def names(self) -> tuple[str, ...]:
        """The identities of its candidates."""
        return tuple(map(identity, self.ways))

    @property
    def operations(self) -> float:
        """Of the definition: a product and a sum for each term."""
        return 2.0 * prod(extent for _, extent in self.node.dims)

    def bytes(self, real: int) -> int:
        """Of its operands and its result."""
        return real * sum(prod(t.shape) for t in (*(self.tensors[n] for n in self.node.ins), self.node.out))

    def least_microseconds(self, device: Target, real: int) -> float:
        """The time of its operations, or of its memory, at the limit of the device's arithmetic on float32. What a core
        has in its caches is no matter of its memory; a GPU's second cache is only about twice as fast as the memory."""
        near = device.caches[-1] if device.caches and device.warp == 1 else 0
        moved = self.bytes(real) if self.bytes(real) > near else 0
        moving = moved / device.bandwidth / 1e3 if device.bandwidth else 0.0
        return max(self.operations / device.gflops / 1e3 * (real / 4), moving)


def lanes_of(capabilities: Capabilities, precision: DType, order: l2.Order) -> int:
    """Lanes of a program's tensors, as lowering has them."""
    return 0 if order is l2.Order.BITWISE else real_lanes(capabilities.lanes, precision)


def workspace_of(choice: Choice | None) -> int:
    """Bytes beside the arrays of the program that a candidate takes."""
    return 0 if choice is None else choice.scratch_bytes


def sites(
    graphs: Iterable[l1.TensorGraph], precision: DType, order: l2.Order, capabilities: Capabilities
) -> tuple[Site, ...]:
    """The contractions for which there is a choice, in the order of the graphs; none with order bitwise."""
    if order is l2.Order.BITWISE:
        return ()
    lanes, real = lanes_of(capabilities, precision, order), precision.bytes
    found: list[Site] = []
    known: dict[str, tuple[Choice | None, ...]] = {}
    for graph in graphs:
        tensors = l1.tensors_of(graph.nodes)
        for node, _ in l1.with_bodies(graph.nodes):
            if not isinstance(node, l1.Contract) or len(node.ins) != 2:
                continue
            used = {name: tensors[name] for name in node.ins}
            if any(t.windows or t.panel for t in used.values()):
                continue
            problem = problem_digest(node, used, lanes, real, order.value)
            if problem not in known:
                known[problem] = ways(node, used, lanes, real, capabilities.strategies, capabilities.device)
            possible = known[problem]
            if len(possible) > 1:
                structure = structure_digest(node, used, lanes, real, order.value)
                path = path_of(graph.phase, node.out)
                found.append(Site(path, node, used, lanes, problem, structure, possible))
    return tuple(found)
