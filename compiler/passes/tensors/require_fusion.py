"""require_fusion: in blocks with `fuse: required`, elementwise work that was not fused is an error.

Assumes: the graph of a phase that lower_tensors lowered, and the decisions about it.
Guarantees: E0503 at the layer for each Map of its forward pass that could be an epilogue of the kernel of an operand,
with the reason that fuse_maps or fuse_epilogues gave. Exempt: Maps that read a reduction of the whole tensor, such as
its mean, which is known only after the kernel; Maps without a batch; Maps whose operands all come from outside such
blocks.
Does not: fuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import NOWHERE
from compiler.passes.program.decisions import Decision

_PHASES = {"train": "the training", "eval": "the validation", "predict": "a prediction"}


def require_fusion(network: l0.Network, graphs: Iterable[l1.TensorGraph], decisions: Iterable[Decision]) -> None:
    """Raises ModelError where a fusion is missed."""
    asked = {layer.name: layer for layer in network.layers if layer.fuse is not NOWHERE}
    if not asked:
        return
    sink = Sink()
    told = [d for d in decisions if d.pass_name in ("fuse_maps", "fuse_epilogues", "fuse_siblings")]
    for graph in graphs:
        prefix = f"{graph.phase}: "
        here = [(d, d.subject.removeprefix(prefix)) for d in told if d.subject.startswith(prefix)]
        fused = {subject for d, subject in here if d.verdict == "fused" and d.pass_name != "fuse_siblings"}
        shared = {subject: _into(d) for d, subject in here if d.verdict == "fused" and d.pass_name == "fuse_siblings"}
        reasons = {(d.pass_name, subject): d.reason for d, subject in here if d.verdict != "fused"}
        every = [n for n, _ in l1.with_bodies(graph.nodes)]
        sums = {n.out.name for n in every if isinstance(n, l1.Contract | l1.Gather | l1.Move)}
        for node, sources in _missed(every, asked, fused, shared):
            layer = asked[_layer(node.out)]
            # The refusal of its own epilogue says most; then that of a map that it reads.
            places = [("fuse_epilogues", n) for n in (node.out.name, *sources) if n == node.out.name or n in sums]
            places += [("fuse_maps", n) for n in sources]
            why = next((reasons[p] for p in places if p in reasons), f"it reads {', '.join(sources)} in another shape")
            message = f"a fusion is missed: in {_PHASES[graph.phase]} `{node.out.name}` is a kernel of its own"
            related = (Related("the fusion is required here", layer.fuse),)
            sink.error("E0503", message, layer.span, why, related)
    sink.check()


def _layer(tensor: l1.Tensor) -> str:
    return tensor.name.partition(".")[0]


def _into(decision: Decision) -> list[str]:
    """The operands of a Map that the kernel it has joined also computes."""
    return decision.reason.removeprefix("into ").split(", ")


def _missed(
    nodes: Iterable[l1.Node], asked: Mapping[str, l0.Layer], fused: set[str], shared: Mapping[str, Sequence[str]]
) -> Iterable[tuple[l1.Map, tuple[str, ...]]]:
    """Maps with separate kernels, and the tensors whose kernels they could join. `shared`: operands of Maps that are
    computed by the kernel they have joined."""
    made: dict[str, l1.Node] = {}
    for node in nodes:
        out = getattr(node, "out", None)
        if out is None:
            continue
        made[out.name] = node
        parts = out.name.split(".")
        if not isinstance(node, l1.Map) or not out.batched or parts[0] not in asked or out.name in fused:
            continue
        if "grad" in parts or parts[-1] == "again":
            continue
        whole = tuple(range(len(out.shape)))
        read = [n for n, axes in zip(node.ins, node.maps, strict=True) if axes == whole and _is_inside(n, made, asked)]
        sources = tuple(n for n in read if n not in shared.get(out.name, ()) and not _known_before(n, node, made))
        if sources:
            yield node, sources


def _is_inside(name: str, made: Mapping[str, l1.Node], asked: Mapping[str, l0.Layer]) -> bool:
    """Whether a kernel of a layer with required fusion computes a tensor, or the tensor that it reshapes."""
    node = made.get(name)
    while isinstance(node, l1.Reindex):
        node = made.get(node.source)
    return (
        isinstance(node, (l1.Map, l1.Contract, l1.Gather, l1.Move)) and node.out.batched and _layer(node.out) in asked
    )


def _known_before(name: str, reader: l1.Map, made: Mapping[str, l1.Node]) -> bool:
    """Whether another operand of the reader is computed from the tensor: it needs all of it."""
    stack = [n for n in reader.ins if n != name]
    seen: set[str] = set()
    while stack:
        at = stack.pop()
        if at == name:
            return True
        if at not in seen and at in made:
            seen.add(at)
            stack += l1.operands(made[at])
    return False
