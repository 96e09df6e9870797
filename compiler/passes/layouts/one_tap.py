"""one_tap: convolutions whose windows have one tap become products of matrices.

A window of one element that moves by one sees one pixel, so that the convolution is the product of its weights with all
pixels, and its gradients are such products, too. Units that take matrices as they lie in memory need neither copies of
pixels nor windows for them.

Assumes: gather form; row-major tensors of a target without lanes, in float32.
Guarantees: a contraction, forward, of the image's gradient or of the weights', is replaced where the product takes less
by estimate. It has the same terms; of weights and their gradients another tensor has the same elements without the axes
of the window.
Does not: replace strided convolutions, or those with a border.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import Affine, plain_dim
from compiler.passes.program.decisions import Decision
from compiler.strategies import in_rows

NAME: Final = "one_tap"
GAIN: Final = 0.75
"""Of the estimate of a convolution, at most: products of pixels take up to 1.3 times what is estimated."""


def one_tap(nodes: tuple[l1.Node, ...], target: Capabilities) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph with products, and a decision for each convolution of one tap."""
    tensors, made, result, decisions = l1.tensors_of(nodes), set[str](), list[l1.Node](), list[Decision]()
    for node in nodes:
        found = _OneTap.of(node, tensors)
        before, after = found.microseconds(target) if found is not None else (0.0, 0.0)
        if found is None or not before or not after:
            result.append(node)
            continue
        pays, why = after < GAIN * before, f"about {before:.1f} us, {after:.1f} us as a product of matrices"
        decisions.append(Decision(NAME, found.node.out.name, "a product" if pays else "as it is", why))
        result += found.replaced(made) if pays else [node]
    return tuple(result) if made else nodes, tuple(decisions)


@dataclass(frozen=True)
class _OneTap:
    """A convolution, or a gradient of one; `window`: the dims of its window, of one element each."""

    node: l1.Contract
    tensors: Mapping[str, l1.Tensor]
    window: frozenset[str]

    @staticmethod
    def of(node: l1.Node, tensors: Mapping[str, l1.Tensor]) -> _OneTap | None:
        """None where it is none, or an index would be another than those of a product."""
        if not isinstance(node, l1.Contract) or not l1.is_sum_of_products(node) or node.scalars:
            return None
        every = [(node.out, node.out_map), *zip((tensors[n] for n in node.ins), node.in_maps, strict=True)]
        images, weights = ([m for t, m in every if t.batched == batched] for batched in (True, False))
        if len(weights) != 1:
            return None
        ones, own = {d for d, extent in node.dims if extent == 1}, {plain_dim(a) for a in weights[0]}
        walked = {d for m in images for a in m if len(a.terms) > 1 for d, _ in a.terms}
        found = _OneTap(node, tensors, frozenset(walked & ones & own))
        plain = all(plain_dim(a) is not None for _, m in every for a in found.walk(m))
        return found if found.window and plain else None

    def walk(self, index: Sequence[Affine]) -> tuple[Affine, ...]:
        """The index of a tensor without the dims of the window."""
        kept = (a for a in index if plain_dim(a) not in self.window)
        return tuple(replace(a, terms=tuple(t for t in a.terms if t[0] not in self.window)) for a in kept)

    def tensor(self, tensor: l1.Tensor, index: Sequence[Affine]) -> l1.Tensor:
        """A tensor without the axes of the window."""
        shape = tuple(n for n, a in zip(tensor.shape, index, strict=True) if plain_dim(a) not in self.window)
        return tensor if len(shape) == len(tensor.shape) else replace(tensor, name=f"{tensor.name}.matrix", shape=shape)

    @property
    def operands(self) -> list[l1.Tensor]:
        """Those of the product."""
        return [self.tensor(self.tensors[n], m) for n, m in zip(self.node.ins, self.node.in_maps, strict=True)]

    @property
    def product(self) -> l1.Contract:
        node = self.node
        return replace(
            node,
            out=self.tensor(node.out, node.out_map),
            dims=tuple((d, n) for d, n in node.dims if d not in self.window),
            out_map=self.walk(node.out_map),
            ins=tuple(t.name for t in self.operands),
            in_maps=tuple(map(self.walk, node.in_maps)),
        )

    def microseconds(self, target: Capabilities) -> tuple[float, float]:
        """Estimates of both; 0 where there is none."""
        here, product = {n: self.tensors[n] for n in self.node.ins}, self.product
        ways = (self.node, here), (product, {t.name: t for t in self.operands})
        before, after = (in_rows(n, tensors, target) for n, tensors in ways)
        return before.microseconds if before else 0.0, after.microseconds if after else 0.0

    def replaced(self, made: set[str]) -> list[l1.Node]:
        """The nodes in place of the contraction; `made`: tensors without windows that there are."""
        found, product = list[l1.Node](), self.product
        for name, tensor in zip(self.node.ins, self.operands, strict=True):
            if tensor.name not in {name, *made}:
                made.add(tensor.name)
                found.append(l1.Reindex(tensor, name, self.node.span))
        made.add(product.out.name)
        last = [] if product.out == self.node.out else [l1.Reindex(self.node.out, product.out.name, self.node.span)]
        return [*found, product, *last]
