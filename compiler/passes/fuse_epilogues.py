"""fuse_epilogues: an elementwise Map that follows a Contract becomes the end of its kernel.

Assumes: nodes in topological order.
Guarantees: fused only when the Contract's result has no other reader, the Map reads it element by element, and the
Map's other operands are made before the Contract; every refusal is a Decision with its reason.
Does not: change the graph: lower_tensors asks for the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.graph import Contract, Map, Node, Variable, Weight
from compiler.passes.decisions import Decision
from compiler.passes.simplify_graph import operands


@dataclass(frozen=True)
class Epilogue:
    """`node` reads the contraction's result as operand number `operand`."""

    node: Map
    operand: int


def epilogues(
    nodes: tuple[Node, ...], outputs: tuple[str, ...], in_place: frozenset[str]
) -> tuple[dict[str, Epilogue], list[Decision]]:
    """Contract's tensor -> the Map to fuse; and what was decided about each candidate."""
    readers: dict[str, list[Node]] = {}
    place: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in operands(node):
            readers.setdefault(name, []).append(node)
        out = getattr(node, "out", None)
        if out is not None:
            # Weights and variables exist before a phase begins.
            place[out.name] = -1 if isinstance(node, (Weight, Variable)) else i
    fused: dict[str, Epilogue] = {}
    decisions: list[Decision] = []
    for i, node in enumerate(nodes):
        if not isinstance(node, Contract):
            continue
        following = [r for r in readers.get(node.out.name, ()) if isinstance(r, Map)]
        if not following:
            continue
        reader = following[0]

        def no(reason: str, subject: str = node.out.name) -> None:
            decisions.append(Decision("fuse_epilogues", subject, "not fused", reason))

        if len(readers[node.out.name]) > 1:
            others = {getattr(getattr(r, "out", None), "name", "an update") for r in readers[node.out.name]}
            no(f"it is read by {', '.join(sorted(others))}")
        elif node.out.name in outputs or reader.out.name in in_place:
            no("its result is kept for the host")
        elif reader.ins.count(node.out.name) != 1:
            no(f"{reader.out.name} reads it twice")
        elif reader.maps[reader.ins.index(node.out.name)] != tuple(range(len(reader.out.shape))):
            no(f"{reader.out.name} does not read it element by element")
        elif any(place[n] > i for n in reader.ins if n != node.out.name):
            no(f"{reader.out.name} needs a value that is made later")
        else:
            k = reader.ins.index(node.out.name)
            fused[node.out.name] = Epilogue(reader, k)
            decisions.append(Decision("fuse_epilogues", reader.out.name, "fused", f"into {node.out.name}"))
    return fused, decisions
