"""fuse_maps: elementwise chains become one Map; an elementwise producer joins the reduction that reads it.

Assumes: a simplified graph in topological order.
Guarantees: a Map is inlined into its reader when it is the only reader, visits every element of it exactly once (so no
work is repeated), reads it unguarded, and is no matrix product or convolution (strategies match those as products).
Refusals are Decisions with their reason. The same in the body of a Scan.
Does not: fuse horizontally, or across outputs and Stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Ref, substitute
from compiler.expr.simplify import has_random
from compiler.ir.level1.builder import over
from compiler.ir.space import Affine, plain_dim
from compiler.passes.program.decisions import Decision

LARGEST = 8
"""Operands of a fused kernel; more would spill registers."""


def _visits_once(reader: l1.Map | l1.Contract, k: int) -> str | None:
    """None when the reader reads each element of operand k exactly once, else the reason."""
    if isinstance(reader, l1.Map):
        whole = len(reader.out.shape)
        if sorted(a for a in reader.maps[k] if a is not None) == list(range(whole)):
            return None
        return f"{reader.out.name} reads each element several times"
    dims = [plain_dim(a) for a in reader.in_maps[k]]
    if None in dims:
        return f"{reader.out.name} reads it through windows"
    if len(set(dims)) != len(reader.dims):
        return f"{reader.out.name} reads each element several times"
    return None


def _is_product(reader: l1.Contract) -> bool:
    """x0 * x1 summed over something: a matrix product, a convolution or one of their gradients."""
    return reader.combine == "add" and _text_product(reader.body) and _both_vary(reader)


def _text_product(body: Expr) -> bool:
    return body in (Ref("x0") * Ref("x1"), Ref("x1") * Ref("x0"))


def _both_vary(reader: l1.Contract) -> bool:
    """Neither operand spans the whole iteration space: elements of both are reused."""
    return all(len({d for a in m for d, _ in a.terms}) < len(reader.dims) for m in reader.in_maps)


def _inlined(reader: l1.Map | l1.Contract, k: int, producer: l1.Map) -> l1.Map | l1.Contract:
    """The reader with operand k replaced by the producer's body."""
    base = len(reader.ins)
    shifted: dict[str, Expr] = {f"x{i}": Ref(f"x{base + i}") for i in range(len(producer.ins))}
    names = {n for n, _ in reader.scalars}
    scalars = list(reader.scalars)
    for name, value in producer.scalars:
        new = name
        while new in names and (new, value) not in scalars:
            new += "_"
        if new != name:
            shifted[name] = Ref(new)
        if (new, value) not in scalars:
            scalars.append((new, value))
            names.add(new)
    body = substitute(reader.body, {f"x{k}": substitute(producer.body, shifted)})
    through = _walks(reader)[k]
    nothing = None if isinstance(reader, l1.Map) else Affine()
    walks = (tuple(nothing if a is None else through[a] for a in m) for m in producer.maps)
    wide = replace(reader, scalars=tuple(scalars))
    return _shared(over(wide, body, (*reader.ins, *producer.ins), (*_walks(reader), *walks)))


def _walks(node: l1.Map | l1.Contract) -> tuple[tuple[Any, ...], ...]:
    """The index maps of operands."""
    return node.maps if isinstance(node, l1.Map) else node.in_maps


def _shared(node: l1.Map | l1.Contract) -> l1.Map | l1.Contract:
    """Duplicate operands with equal index maps become one."""
    if len(set(node.ins)) == len(node.ins):
        return node
    first: dict[object, int] = {}
    bindings: dict[str, Expr] = {}
    for i, pair in enumerate(zip(node.ins, _walks(node), strict=True)):
        if first.setdefault(pair, i) != i:
            bindings[f"x{i}"] = Ref(f"x{first[pair]}")
    return over(node, substitute(node.body, bindings), node.ins, _walks(node)) if bindings else node


def fuse_maps(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], effect: str = "an update or store"
) -> tuple[tuple[l1.Node, ...], list[Decision]]:
    """The graph with elementwise producers inlined into their only readers, and the decision about each. `effect`: what
    a reader without a result is called."""
    names = [next((out.name for out in l1.results(node)), effect) for node in nodes]
    readers = {name: {names[n] for n in by} for name, by in l1.readers_of(nodes).items()}
    made: dict[str, l1.Map] = {}
    gone: set[str] = set()
    told: set[str] = set()
    result: list[l1.Node] = []
    decisions: list[Decision] = []
    for node in nodes:
        if isinstance(node, l1.Scan):
            node = l1.inside(node, lambda body: _inside(body, decisions))
        if isinstance(node, (l1.Map, l1.Contract)):
            current: l1.Map | l1.Contract = _shared(node)
            tried: set[str] = set()
            while True:
                k = next((k for k, n in enumerate(current.ins) if n in made and n not in tried), None)
                if k is None:
                    break
                name = current.ins[k]
                tried.add(name)
                reason = _refusal(current, k, made[name], readers, outputs)
                if reason is None:
                    current = _inlined(current, k, made[name])
                    gone.add(name)
                    decisions.append(Decision("fuse_maps", name, "fused", f"into {node.out.name}"))
                elif name not in told:
                    told.add(name)
                    decisions.append(Decision("fuse_maps", name, "not fused", reason))
            node = current
        if isinstance(node, l1.Map):
            made[node.out.name] = node
        result.append(node)
    kept = tuple(n for n in result if not (isinstance(n, l1.Map) and n.out.name in gone))
    return kept, decisions


def _inside(body: tuple[l1.Node, ...], decisions: list[Decision]) -> tuple[l1.Node, ...]:
    nodes, made = fuse_maps(body, (), "another step or something outside")
    decisions += made
    return nodes


def _refusal(
    reader: l1.Map | l1.Contract,
    k: int,
    producer: l1.Map,
    readers: Mapping[str, set[str]],
    outputs: tuple[str, ...],
) -> str | None:
    """Why the producer stays a separate kernel; None when it can be fused."""
    name = producer.out.name
    if name in outputs:
        return "it is kept for the host"
    others = sorted(readers[name] - {reader.out.name})
    if others:
        return f"it is also read by {', '.join(others)}"
    if isinstance(reader, l1.Contract) and _is_product(reader):
        return f"{reader.out.name} is a contraction of two operands"
    if reader.ins.count(name) > 1:
        return f"{reader.out.name} reads it in two ways"
    if has_random(producer.body):
        return "it draws random numbers"
    if len(set(reader.ins) | set(producer.ins)) - 1 > LARGEST:
        return "the kernel would have too many operands"
    return _visits_once(reader, k)
