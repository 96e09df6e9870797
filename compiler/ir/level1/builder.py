"""GraphBuilder: nodes of a tensor graph under construction, in topological order.

Assumes: names are unique within a graph.
Guarantees: every operand exists when a node that reads it is added; index maps have the operand's rank.
Does not: simplify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import compiler.ir.level1.graph as l1
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.ir.space import Affine, along

Operand = tuple[l1.Tensor, tuple[int | None, ...]]
Scalars = tuple[tuple[str, float], ...]

FIRST = 1.0e9
"""Larger than any index: the identity of "first index that matches"."""


def identity(tensor: l1.Tensor) -> Operand:
    """The operand read elementwise."""
    return tensor, tuple(range(len(tensor.shape)))


def axis_dims(shape: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """Dims d0, d1, ... over the axes of a shape."""
    return tuple((f"d{a}", extent) for a, extent in enumerate(shape))


@dataclass
class GraphBuilder:
    """`made`: the node that defines a tensor, by name; `origin`: the span of nodes that have none of their own."""

    nodes: list[l1.Node] = field(default_factory=list)
    tensors: dict[str, l1.Tensor] = field(default_factory=dict)
    made: dict[str, l1.Node] = field(default_factory=dict)
    origin: Span = NOWHERE

    @contextmanager
    def of(self, origin: Span) -> Iterator[None]:
        """Nodes that are added here come from `origin`."""
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    def add(self, node: l1.Node) -> l1.Tensor:
        """Appends a node; returns the (first) tensor it defines (for effects, the one they act on)."""
        if self.origin is not NOWHERE and getattr(node, "span", self.origin) is NOWHERE:
            with_span: Callable[..., l1.Node] = replace
            node = with_span(node, span=self.origin)
        self.nodes.append(node)
        if isinstance(node, l1.Store):
            return self.tensors[node.target]
        if isinstance(node, l1.Update):
            return self.tensors[node.weight]
        results = l1.results(node)
        for out in results:
            if out.name in self.tensors:
                raise AssertionError(f"tensor {out.name} is defined twice")
            self.tensors[out.name] = out
            self.made[out.name] = node
        return results[0]

    def is_trained(self, name: str) -> bool:
        """Whether a tensor depends on a weight."""
        waiting, seen = [name], {name}
        while waiting:
            node = self.made[waiting.pop()]
            if isinstance(node, l1.Weight):
                return True
            waiting += [n for n in l1.operands(node) if n not in seen]
            seen.update(l1.operands(node))
        return False

    def map(
        self,
        name: str,
        body: Expr,
        operands: Sequence[Operand],
        *,
        like: l1.Tensor | None = None,
        scalars: Scalars = (),
        dtype: str = "real",
        span: Span = NOWHERE,
    ) -> l1.Tensor:
        """out = body(operands), shaped as `like` (default: the first operand)."""
        body, operands = compact_operands(body, operands)
        shape = like if like is not None else operands[0][0]
        out = l1.Tensor(name, shape.shape, dtype, shape.batched)
        used = refs(body)
        self.add(
            l1.Map(
                out,
                tuple(t.name for t, _ in operands),
                tuple(m for _, m in operands),
                body,
                tuple(s for s in scalars if s[0] in used),
                span,
            )
        )
        return out

    def contract(
        self,
        name: str,
        dims: Sequence[tuple[str, int]],
        out: Sequence[Affine],
        operands: Sequence[tuple[l1.Tensor, Sequence[Affine]]],
        body: Expr,
        *,
        batched: bool = True,
        combine: str = "add",
        fill: float = 0.0,
        scalars: Scalars = (),
        span: Span = NOWHERE,
    ) -> l1.Tensor:
        """Combines body over the dims that are not in `out`, which names a dim for each axis of the result."""
        extents = {along(d): extent for d, extent in dims}
        made = l1.Tensor(name, tuple(extents[axis] for axis in out), "real", batched)
        names, maps = tuple(t.name for t, _ in operands), tuple(tuple(m) for _, m in operands)
        return self.add(l1.Contract(made, tuple(dims), tuple(out), names, maps, body, combine, fill, scalars, span))

    def gather(self, name: str, table: l1.Tensor, index: l1.Tensor, span: Span = NOWHERE) -> l1.Tensor:
        """The rows of `table` that the integers `index` choose."""
        out = l1.Tensor(name, (*index.shape, *table.shape[1:]), "real", index.batched)
        return self.add(l1.Gather(out, table.name, index.name, span=span))

    def pick(self, name: str, table: l1.Tensor, index: l1.Tensor, span: Span = NOWHERE) -> l1.Tensor:
        """The element of each row of `table`, along its last axis, that the integers `index` choose."""
        out = l1.Tensor(name, index.shape, "real", index.batched)
        return self.add(l1.Gather(out, table.name, index.name, True, span))

    def reduce(
        self,
        name: str,
        body: Expr,
        operands: Sequence[Operand],
        over: l1.Tensor,
        keep: Sequence[int],
        *,
        combine: str = "add",
        fill: float = 0.0,
        scalars: Scalars = (),
        span: Span = NOWHERE,
    ) -> l1.Tensor:
        """Combines body over the elements of `over`'s shape, keeping the axes `keep`; dims are d0, d1, ..."""
        body, operands = compact_operands(body, operands)
        used = refs(body)
        return self.contract(
            name,
            axis_dims(over.shape),
            tuple(along(f"d{a}") for a in keep),
            [(t, [along(f"d{a}") if a is not None else Affine() for a in m]) for t, m in operands],
            body,
            batched=over.batched and bool(keep) and keep[0] == 0,
            combine=combine,
            fill=fill,
            scalars=tuple(s for s in scalars if s[0] in used),
            span=span,
        )


def _position(name: str) -> int | None:
    return int(name[1:]) if name.startswith("x") and name[1:].isdigit() else None


def used_operands(body: Expr) -> list[int]:
    """Numbers of the operands that a body reads, ascending."""
    found = {_position(r) for r in refs(body)}
    return sorted(p for p in found if p is not None)


def renumber(body: Expr, keep: Sequence[int]) -> Expr:
    """The body with operands `keep` renamed x0, x1, ... in that order."""
    bindings: dict[str, Expr] = {f"x{old}": Ref(f"x{new}") for new, old in enumerate(keep) if old != new}
    return substitute(body, bindings) if bindings else body


Node = TypeVar("Node", bound=l1.Map | l1.Contract)


def over(node: Node, body: Expr, ins: Sequence[str], walks: Sequence[tuple[Any, ...]]) -> Node:
    """The node with this body over operands, each with its index map, of which it has those that the body reads."""
    keep = used_operands(body)
    maps: dict[str, Any] = {"maps" if isinstance(node, l1.Map) else "in_maps": tuple(walks[k] for k in keep)}
    return replace(node, ins=tuple(ins[k] for k in keep), body=renumber(body, keep), **maps)


def compact_operands(body: Expr, operands: Sequence[Operand]) -> tuple[Expr, tuple[Operand, ...]]:
    """Drops operands that the body does not read."""
    keep = used_operands(body)
    if len(keep) == len(operands):
        return body, tuple(operands)
    return renumber(body, keep), tuple(operands[k] for k in keep)
