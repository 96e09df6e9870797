"""shift_variances: the mean and the variance of a large batch come from one pass over it.

A variance is computed as sum((x - mean)**2), which waits for the mean: x is read twice. From a shift s close to the
mean, sum(x - s) and sum((x - s)**2) are one kernel (fuse_sums), and give both (Chan, Golub & LeVeque 1983, "Algorithms
for Computing the Sample Variance", shifted data). The shift is the mean of the first sample. As the square of its
distance from the mean of n samples is at most n variances, at most n + 1 times the error of a sum is in the variance,
however large the mean is; of images, about twice.

Assumes: gather form; maps are fused.
Guarantees: sums of squares of differences from a mean over a batch become so where an operand takes longer
to read again than a kernel to start, if only that mean reads the sum of its terms; as accurate as said. The order of
sums stays.
Does not: change statistics of single samples (layer norms), nor anything where the bits of targets are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Expr, Ref, substitute
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, plain_dim
from compiler.passes.program.decisions import Decision
from compiler.strategies.cost.cuda import worth_a_start

NAME: Final = "shift_variances"
_X0, _X1, _X2 = Ref("x0"), Ref("x1"), Ref("x2")
_RATIO: Final = _X0 / _X1


def shift_variances(nodes: tuple[l1.Node, ...], device: Target) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph, and a decision for each variance."""
    made = {t.name: n for n in nodes for t in l1.results(n)}
    readers = l1.readers_of(nodes)
    changed: dict[str, list[l1.Node]] = {}
    decisions, shifted = [], set[str]()
    for node in nodes:
        found = variance_of(node, made) if isinstance(node, l1.Contract) else None
        if found is None or len(readers[found.total.out.name]) > 1 or found.total.out.name in changed:
            continue
        every = tuple(range(len(found.square.out.shape)))
        if not all(_reads_as(nodes[x], found.square.out.name, every) for x in readers.get(found.square.out.name, ())):
            continue
        elements = prod(e for _, e in found.square.dims)
        if elements < worth_a_start(device):
            decisions.append(Decision(NAME, found.square.out.name, "not shifted", f"it is of {elements} elements"))
            continue
        changed |= _shifted(found)
        shifted.add(found.square.out.name)
        decisions.append(Decision(NAME, found.square.out.name, "shifted", "by the mean of the first sample"))
    result = [x for n in nodes for x in changed.get(_name(n), [n])]
    squares = {n.out.name: n for n in result if isinstance(n, l1.Map) and n.out.name in shifted}
    return tuple(_read(n, squares) for n in result if _name(n) not in squares), tuple(decisions)


def _read(node: l1.Node, squares: Mapping[str, l1.Map]) -> l1.Node:
    """A Map with the sum of squares computed in it."""
    if not isinstance(node, l1.Map):
        return node
    for name in [n for n in node.ins if n in squares]:
        at, square, count = node.ins.index(name), squares[name], len(node.ins)
        own = {f"x{k}": Ref(f"x{count + k}") for k in range(len(square.ins))}
        body = substitute(node.body, {f"x{at}": substitute(square.body, own)})
        node = replace(node, ins=(*node.ins, *square.ins), maps=(*node.maps, *square.maps), body=body)
        node = _without(node, at)
    return node


def _without(node: l1.Map, at: int) -> l1.Map:
    """Without operand `at`, which is not read, and with each of the others once."""
    found: dict[tuple[str, tuple[int | None, ...]], int] = {}
    names: dict[str, Expr] = {}
    for k, operand in enumerate(zip(node.ins, node.maps, strict=True)):
        if k != at:
            names[f"x{k}"] = Ref(f"x{found.setdefault(operand, len(found))}")
    ins, maps = tuple(n for n, _ in found), tuple(m for _, m in found)
    return replace(node, ins=ins, maps=maps, body=substitute(node.body, names))


def _reads_as(node: l1.Node, name: str, axes: tuple[int, ...]) -> bool:
    """Whether a node is a Map that reads a tensor element by element."""
    if not isinstance(node, l1.Map):
        return False
    return all(m == axes for n, m in zip(node.ins, node.maps, strict=True) if n == name)


def _name(node: l1.Node) -> str:
    return node.out.name if isinstance(node, l1.Contract | l1.Map) else ""


@dataclass(frozen=True)
class Variance:
    """`x`: the number of the operand whose variance is the sum `square`, and `mean` that of its mean, the ratio of the
    sum `total` and a count."""

    square: l1.Contract
    x: int
    mean: int
    total: l1.Contract
    ratio: l1.Map


def variance_of(node: l1.Contract, made: Mapping[str, l1.Node]) -> Variance | None:
    """The variance over a batch that a node sums the squares of, if it does."""
    off = _squared(node.body)
    if node.combine != "add" or off is None:
        return None
    x, mean = (int(side.name[1:]) for side in off)
    ratio = made.get(node.ins[mean])
    if not isinstance(ratio, l1.Map) or ratio.body != _RATIO or ratio.maps[1] != ():
        return None
    total = made.get(ratio.ins[0])
    if not isinstance(total, l1.Contract) or total.combine != "add" or not _is_over_batch(node, x, made):
        return None
    others = [k for k in range(len(node.ins)) if k != mean]
    same = (total.dims, total.out_map) == (node.dims, node.out_map) and node.in_maps[mean] == node.out_map
    read = [(node.ins[k], node.in_maps[k]) for k in others] == list(zip(total.ins, total.in_maps, strict=True))
    if not same or not read or mean != len(others) or total.body != (_X0 * _X1 if len(others) == 2 else _X0) or x != 0:
        return None
    return Variance(node, x, mean, total, ratio)


def _squared(body: Expr) -> tuple[Ref, Ref] | None:
    """(x, mean) of (x - mean) * (x - mean), weighted or not."""
    match body:
        case Binary("*", Binary("*", Binary("-", Ref() as x, Ref() as mean) as one, other), Ref("x1")) if one == other:
            return x, mean
        case Binary("*", Binary("-", Ref() as x, Ref() as mean) as one, other) if one == other:
            return x, mean
    return None


def _is_over_batch(node: l1.Contract, x: int, made: Mapping[str, l1.Node]) -> bool:
    """Whether the operand x is summed over its samples, each element once."""
    dims = [plain_dim(a) for a in node.in_maps[x]]
    (out,) = (t for t in l1.results(made[node.ins[x]]) if t.name == node.ins[x])
    kept = {plain_dim(a) for a in node.out_map}
    return out.batched and None not in dims and {*dims} == {d for d, _ in node.dims} and dims[0] not in kept


def _shifted(v: Variance) -> dict[str, list[l1.Node]]:
    """What takes the place of the sum, of the mean and of the variance."""
    node, total = v.square, v.total
    first = plain_dim(node.in_maps[v.x][0])
    dims = tuple(d for d in node.dims if d[0] != first)
    area = prod(e for d, e in dims if d not in {plain_dim(a) for a in node.out_map})
    shift = replace(node.out, name=f"{node.out.name}.shift")
    summed = replace(shift, name=f"{shift.name}.sum")
    every = tuple(range(len(shift.shape)))
    start = l1.Contract(
        summed, dims, node.out_map, (node.ins[v.x],), ((Affine(), *node.in_maps[v.x][1:]),), _X0, span=node.span
    )
    scaled = l1.Map(shift, (summed.name,), (every,), _X0 * Ref("share"), (("share", 1 / area),), span=node.span)
    weighted = len(total.ins) == 2
    off = _X0 - Ref(f"x{v.mean}")
    sums = replace(
        total,
        ins=(*total.ins, shift.name),
        in_maps=(*total.in_maps, node.out_map),
        body=off * _X1 if weighted else off,
    )
    squares = replace(
        node,
        out=replace(node.out, name=f"{node.out.name}.shifted"),
        ins=tuple(shift.name if k == v.mean else x for k, x in enumerate(node.ins)),
    )
    count = v.ratio.ins[1]
    mean = replace(
        v.ratio,
        ins=(total.out.name, count, shift.name),
        maps=(v.ratio.maps[0], (), every),
        body=_X2 + _X0 / _X1,
    )
    ins = (squares.out.name, total.out.name, count)
    square = l1.Map(node.out, ins, (every, every, ()), _X0 - _X1 * _X1 / _X2, span=node.span)
    return {total.out.name: [start, scaled, sums], mean.out.name: [squares, mean], node.out.name: [square]}
