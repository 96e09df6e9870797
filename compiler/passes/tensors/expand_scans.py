"""expand_scans: the steps of Scans one after the other, and the rows of sequences as views of their wholes.

Assumes: a simplified graph in gather form, in topological order.
Guarantees: no Scan is left. Tensors of step t of a Scan `lstm.at` are named `lstm.at_<t>.<...>` and know their Scan,
step and name in the body (l1.Step). What one Scan makes in a step and another one reads there is read itself; other
tensors of all steps are Stacks of those of the steps, and parts of others are Parts: nothing is copied
(passes/kernels/lower_parts.py). The states before all steps and those after them lie in one Stack, shifted by a step.
Nodes that nothing reads are not kept.
Does not: change what a step computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import compiler.ir.level1.graph as l1
from compiler.passes.tensors.simplify_graph import live_nodes, renamed


@dataclass(frozen=True)
class Expanded:
    """`made`: for each new tensor, one that the nodes had before and that its Scan made; `names`: tensors
    that are now called otherwise."""

    nodes: tuple[l1.Node, ...]
    made: Mapping[str, str]
    names: Mapping[str, str]


def expand_scans(nodes: Iterable[l1.Node], outputs: Sequence[str]) -> Expanded:
    """The graph without Scans."""
    e = _Expansion()
    for node in nodes:
        e.origin = next((t.name for t in l1.results(node)), "")
        match node:
            case l1.Scan():
                e.scan(node)
            case _:
                e.add(renamed(node, e.names))
    kept = live_nodes(e.nodes, [e.names.get(n, n) for n in outputs])
    return Expanded(kept, e.made, e.names)


@dataclass
class _Expansion:
    """`parts`: of tensors of all steps, those of each step."""

    nodes: list[l1.Node] = field(default_factory=list)
    tensors: dict[str, l1.Tensor] = field(default_factory=dict)
    parts: dict[str, list[l1.Tensor]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    origin: str = ""

    def add(self, node: l1.Node) -> None:
        self.nodes.append(node)
        for out in l1.results(node):
            self.tensors[out.name] = out
            self.made[out.name] = self.origin

    def of_steps(self, whole: str, steps: int) -> list[l1.Tensor]:
        """The rows of each step."""
        if whole not in self.parts:
            out = self.tensors[whole]
            rows = out.shape[0] // steps
            self.parts[whole] = [
                replace(out, name=f"{whole}.part_{t}", shape=(rows, *out.shape[1:])) for t in range(steps)
            ]
            for t, part in enumerate(self.parts[whole]):
                self.add(l1.Part(part, whole, t * rows))
        return self.parts[whole]

    # ------------------------------------------------------------------------------------------- scans

    def scan(self, node: l1.Scan) -> None:
        given = {g.part.name: self.of_steps(self.names.get(g.whole, g.whole), node.steps) for g in node.given}
        now = {c.state.name: self.tensors[self.names.get(c.start, c.start)] for c in node.carried}
        made: dict[str, list[l1.Tensor]] = {s.part: [] for s in node.stacked}
        starts = dict(now)
        for t in reversed(range(node.steps)) if node.reverse else range(node.steps):
            here = {**now, **{name: parts[t] for name, parts in given.items()}}
            for inner in node.body:
                label = inner.out.name
                name = f"{node.name}_{t}{label.removeprefix(node.name)}"
                out = replace(inner.out, name=name, step=l1.Step(self.origin, t, label))
                names = {n: here[n].name if n in here else self.names.get(n, n) for n in l1.operands(inner)}
                step = renamed(inner, names)
                assert isinstance(step, l1.Map | l1.Contract | l1.Reindex)
                self.add(replace(step, out=out))
                here[label] = out
            for name, tensors in made.items():
                tensors.append(here[name])
            now = {c.state.name: here[c.after] for c in node.carried}
        for c in node.carried:
            if c.last is not None:
                self.names[c.last.name] = now[c.state.name].name
        self._stacked(node, made, starts)

    def _stacked(self, node: l1.Scan, made: Mapping[str, list[l1.Tensor]], starts: Mapping[str, l1.Tensor]) -> None:
        """The tensors of all steps. States before and after steps share one."""
        wholes = {s.part: s.whole for s in node.stacked}
        for s in node.stacked:
            self.parts[s.whole.name] = made[s.part][::-1] if node.reverse else made[s.part]
        for c in node.carried:
            if c.state.name in wholes and c.after in wholes:
                before, after = wholes.pop(c.state.name), wholes.pop(c.after)
                rows = c.state.shape[0]
                both = replace(after, name=f"{after.name}.both", shape=(after.shape[0] + rows, *after.shape[1:]))
                ins = [starts[c.state.name], *made[c.after]]
                self.add(l1.Stack(both, tuple(x.name for x in (ins[::-1] if node.reverse else ins)), node.span))
                self.add(l1.Part(before, both.name, rows if node.reverse else 0, node.span))
                self.add(l1.Part(after, both.name, 0 if node.reverse else rows, node.span))
        for whole in wholes.values():
            self.add(l1.Stack(whole, tuple(x.name for x in self.parts[whole.name]), node.span))
