"""reuse_arrays: the result of an elementwise kernel overwrites an operand whose lifetime ends there.

Assumes: nodes in topological order; the kernels that fuse_epilogues and horizontal_fusion chose.
Guarantees: a result takes the array of an operand of the same shape that is a temporary of this phase, that the kernel
reads elementwise, and that no later kernel reads: each point reads its own element before it writes it. A kernel reuses
an array at most once. What a Scan begins with has its place there.
Does not: consider epilogues of contractions; share memory between arrays (plan_memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import compiler.ir.level1.graph as l1
from compiler.passes.fusion.fuse_epilogues import Epilogue, Readers
from compiler.passes.fusion.horizontal_fusion import same_space, whole_operands
from compiler.passes.program.decisions import Decision


def reused(
    nodes: tuple[l1.Node, ...],
    outputs: tuple[str, ...],
    in_place: Mapping[str, str],
    fused: Mapping[str, Epilogue],
    groups: Mapping[str, Epilogue],
    early: Mapping[str, str],
) -> tuple[dict[str, str], list[Decision]]:
    """Result -> the operand whose array it takes; and the decisions. `in_place`: map -> the variable that it writes;
    `fused`: the epilogues of contractions; `groups`: all elementwise kernels, by their first map; `early`: the first
    reduction of the kernel that those in it belong to."""
    g = Readers(nodes)
    g.place |= {name: g.place[first] for name, first in early.items()}
    for name, kernel in (*fused.items(), *groups.items()):
        g.place |= dict.fromkeys((m.out.name for m in kernel.maps), g.place[name])
    made = l1.Map | l1.Contract | l1.Gather | l1.ScatterAdd | l1.Move | l1.Rand
    values = {n.out.name: n.out for n in nodes if isinstance(n, made)}
    fixed = {*outputs, *in_place, *(c.start for n in nodes if isinstance(n, l1.Scan) for c in n.carried)}
    for node in reversed(nodes):
        if isinstance(node, l1.Reindex) and node.out.name in fixed:
            fixed.add(node.source)
    found: dict[str, str] = {}
    for name, kernel in groups.items():
        inside = {m.out.name for m in kernel.maps}
        operands = dict.fromkeys(
            n for m in kernel.maps for n in m.ins if n in values and n not in inside and n not in fixed
        )
        free = [values[n] for n in operands if _is_whole(n, kernel.maps) and _last(g, n, g.place[name], inside)]
        free.sort(key=lambda t: g.place[t.name])  # the same choice in all layers, whatever was freed last
        for m in kernel.maps:
            if m.out.name in kernel.kept - fixed:
                fitting = [t for t in free if same_space(t, m.out) and (t.dtype, t.room) == (m.out.dtype, m.out.room)]
                fitting = [t for t in fitting if t.name in m.ins] or fitting
                if fitting:
                    free.remove(fitting[0])
                    found[m.out.name] = fitting[0].name
    why = "which nothing reads afterwards"
    return found, [Decision("reuse_arrays", y, "in place", f"where {x} was, {why}") for y, x in found.items()]


def _is_whole(name: str, maps: Iterable[l1.Map]) -> bool:
    """Whether all maps that read a tensor read it elementwise."""
    return all(name in whole_operands(m) and m.ins.count(name) == 1 for m in maps if name in m.ins)


def _last(g: Readers, name: str, at: int, inside: set[str]) -> bool:
    """Whether the lifetime of a tensor, and of tensors that share its array, ends at kernel number `at`, which computes
    `inside`."""
    for number in g.readers.get(name, ()):
        reader = g.nodes[number]
        out: l1.Tensor | None = getattr(reader, "out", None)
        if isinstance(reader, l1.Reindex) or (out is not None and out.windows):
            done = out is not None and _last(g, out.name, at, set())
        else:
            done = (out is not None and out.name in inside) or (g.place[out.name] if out is not None else number) < at
        if not done:
            return False
    return True
