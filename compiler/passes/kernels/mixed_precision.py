"""mixed_precision: activations, their gradients and factors of products become bf16 (`numerics: {precision: mixed}`).

After Micikevicius et al. 2018, "Mixed Precision Training", with bf16, whose exponents are those of float32, so that
losses need no scaling (Kalamkar et al. 2019, "A Study of BFLOAT16 for Deep Learning Training").

Assumes: gather form; maps are fused; after this pass only axes of tensors are moved (channels_last).
Guarantees: what is bf16 is rounded where it is made (`bf16(x)`), on every target to the same bits; a target that can
store it so does (`stored`). What slices, pads or joins bf16 is not rounded again. Weights, state of the optimizer,
gradients of weights, statistics, sums and losses stay float32; a weight that is a factor of products is rounded once a
step. A sum of products that only one map reads, element by element, is not rounded before that map.
Does not: change recurrent layers, whose steps run in one kernel that keeps them in registers (persistent_rnn); scale
losses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Ref
from compiler.expr.functions import ROUNDED
from compiler.passes.program.decisions import Decision

NAME: Final = "mixed_precision"
BF16: Final = "bf16"


def mixed_precision(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], stored: bool
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph, and what each layer computes in. `outputs`: tensors that the host reads; `stored`: whether the target
    has arrays of bf16."""
    rewritten = _Rewriting(nodes, frozenset(outputs), stored).run()
    return rewritten.result, rewritten.decisions()


def _layer(name: str) -> str:
    return name.split(".")[0]


@dataclass
class _Rewriting:
    """`active`: tensors with an element for each element of an activation, whatever their type; `narrow`: those that
    are bf16; `factors`: tensor -> its rounded copy; `copies`: tensor -> the Map that rounds a sum of products."""

    nodes: tuple[l1.Node, ...]
    outputs: frozenset[str]
    stored: bool
    tensors: dict[str, l1.Tensor] = field(default_factory=dict)
    readers: dict[str, list[int]] = field(default_factory=dict)
    recurrent: frozenset[str] = frozenset()
    active: set[str] = field(default_factory=set)
    narrow: set[str] = field(default_factory=set)
    factors: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    result: tuple[l1.Node, ...] = ()

    def run(self) -> _Rewriting:
        self.tensors |= l1.tensors_of(self.nodes)
        self.readers |= l1.readers_of(self.nodes)
        self.recurrent = frozenset(_layer(n.name) for n in self.nodes if isinstance(n, l1.Scan))
        kept = {n.value for n in self.nodes if isinstance(n, l1.Store)}
        self.outputs |= kept
        for node in self.nodes:
            self._type(node)
        first = [n for n in self.nodes if isinstance(n, l1.Weight)]
        rest = [n for n in self.nodes if not isinstance(n, l1.Weight)]
        wanted = self._wanted()
        weights = [self._rounded(n.out, f"{n.out.name}.{BF16}") for n in first if n.out.name in wanted]
        made: list[l1.Node] = [*first, *weights]
        for node in rest:
            made += self._rewritten(node, wanted)
        self.result = tuple(made)
        return self

    # ------------------------------------------------------------------------------------------ deciding

    def _type(self, node: l1.Node) -> None:
        """Whether the result of a node is an activation, and stored as bf16."""
        if isinstance(node, l1.Scan):
            self.active |= {c.last.name for c in node.carried if c.last is not None}
            return
        out = getattr(node, "out", None)
        if not isinstance(out, l1.Tensor) or out.dtype != "real" or not out.batched:
            return
        free = out.name not in self.outputs and _layer(out.name) not in self.recurrent
        match node:
            case l1.Feed(steps=0):
                self.active.add(out.name)
            case l1.Reindex(_, source) if source in self.active:
                self._add(out, source in self.narrow)
            case l1.Move() if free and self.narrow.issuperset(node.ins) and self._is_copy(node):
                self._add(out, True)
            case l1.Map() if self._is_elementwise(node):
                self._add(out, free)
            case l1.Attention() if node.of != "norms":
                self._add(out, free)
            case l1.Contract() | l1.Gather() | l1.Move() if not self._is_statistic(node):
                copied = free and not self._is_read_once(out)
                self._add(out, copied)
                if copied:
                    self.copies[out.name] = f"{out.name}.{BF16}"

    def _add(self, out: l1.Tensor, narrow: bool) -> None:
        """An activation, which is bf16 if `narrow`."""
        self.active.add(out.name)
        if narrow:
            self.narrow.add(out.name)

    def _is_elementwise(self, node: l1.Map) -> bool:
        """Whether each of its elements reads one of an activation, in any order of the axes."""
        every = set(range(len(node.out.shape)))
        return any(n in self.active and {*axes} >= every for n, axes in zip(node.ins, node.maps, strict=True))

    def _is_statistic(self, node: l1.Contract | l1.Gather | l1.Move) -> bool:
        """Whether it is a number of a row of activations, and is none itself: a mean, a norm, a largest value."""
        if isinstance(node, l1.Gather):
            return node.own
        return isinstance(node, l1.Contract) and not l1.is_sum_of_products(node) and node.walks_plainly

    def _is_copy(self, node: l1.Move) -> bool:
        """Whether no element is the sum of several: what is bf16 stays so without rounding."""
        parts = [(self.tensors[n].shape, at) for n, at in zip(node.ins, node.offsets, strict=True)]
        return all(
            any(-p >= n - q or -q >= m - p for m, p, n, q in zip(first, a, second, b, strict=True))
            for (first, a), (second, b) in combinations(parts, 2)
        )

    def _is_read_once(self, out: l1.Tensor) -> bool:
        readers, every = [self.nodes[n] for n in self.readers.get(out.name, ())], tuple(range(len(out.shape)))
        node = readers[0] if len(readers) == 1 else None
        return (
            isinstance(node, l1.Map)
            and node.out.shape == out.shape
            and all(axes == every for n, axes in zip(node.ins, node.maps, strict=True) if n == out.name)
        )

    def _is_converted(self, node: l1.Node) -> bool:
        """Whether the factors of a node are to be bf16."""
        if not isinstance(node, l1.Contract) or not l1.is_sum_of_products(node):
            return False
        names = (node.out.name, *node.ins)
        return not any(_layer(n) in self.recurrent for n in names) and all(
            self.tensors[n].dtype == "real" for n in node.ins
        )

    def _wanted(self) -> frozenset[str]:
        """Factors that need a rounded copy."""
        converted = [n for n in self.nodes if self._is_converted(n)]
        return frozenset(x for n in converted for x in l1.operands(n) if x not in self.narrow)

    # ----------------------------------------------------------------------------------------- rewriting

    def _as_stored(self, tensor: l1.Tensor) -> l1.Tensor:
        return replace(tensor, dtype=BF16) if self.stored else tensor

    def _rounded(self, source: l1.Tensor, name: str) -> l1.Map:
        """A rounded copy of a tensor, by which products take it from then on."""
        self.factors[source.name] = name
        every = tuple(range(len(source.shape)))
        return l1.Map(
            self._as_stored(replace(source, name=name)), (source.name,), (every,), Call(ROUNDED, (Ref("x0"),))
        )

    def _rewritten(self, node: l1.Node, wanted: frozenset[str]) -> list[l1.Node]:
        """A node with the new types and operands, and the rounded copy of its result where one is needed."""
        given = {**self.factors, **self.copies} if self._is_converted(node) else self.copies
        found: list[l1.Node] = [self._typed(node, given)]
        out = getattr(node, "out", None)
        if isinstance(out, l1.Tensor):
            if out.name in self.copies:
                copy = self._rounded(out, self.copies[out.name])
                found.append(replace(copy, span=getattr(node, "span", copy.span)))
            elif out.name in wanted:
                found.append(self._rounded(out, f"{out.name}.{BF16}"))
        return found

    def _typed(self, node: l1.Node, given: Mapping[str, str]) -> l1.Node:
        """A node that reads other tensors in place of some, with its result as it is stored."""
        if not isinstance(node, l1.Scan | l1.Update):
            node = l1.renamed(node, given)
        match node:
            case l1.Map(out=out) if out.name in self.narrow:
                return replace(node, out=self._as_stored(out), body=Call(ROUNDED, (node.body,)))
            case l1.Move(out=out) if out.name in self.narrow - self.copies.keys():
                return replace(node, out=self._as_stored(out))
            case l1.Attention(out=out) | l1.Reindex(out=out) if out.name in self.narrow:
                return replace(node, out=self._as_stored(out))
        return node

    # ----------------------------------------------------------------------------------------- reporting

    def decisions(self) -> tuple[Decision, ...]:
        """A line a layer: how many of its tensors are bf16, and which of its sums are not."""
        bf16, real = Counter[str](), Counter[str]()
        rounded: Mapping[str, str] = self.factors
        for name, tensor in self.tensors.items():
            if tensor.batched and tensor.dtype == "real":
                (bf16 if name in self.narrow else real)[_layer(name)] += 1
        weights = Counter(_layer(n) for n in rounded if n not in self.copies)
        made = []
        for layer in dict.fromkeys((*bf16, *real)):
            if layer in self.recurrent:
                made.append(Decision(NAME, layer, "float32", "its steps run in one kernel, in registers"))
                continue
            parts = [f"{bf16[layer]} activations or gradients"] if bf16[layer] else []
            parts += [f"{weights[layer]} factors rounded"] if weights[layer] else []
            parts += [f"{real[layer]} sums, statistics or inputs in float32"] if real[layer] else []
            made.append(Decision(NAME, layer, "bf16" if bf16[layer] or weights[layer] else "float32", "; ".join(parts)))
        return tuple(made)
