"""Evaluates a tensor graph (level 1) with numpy in float64: a simple, slow oracle for gradients.

Assumes: a legal TensorGraph; values for weights, variables, feeds, the batch mask and random tensors are given.
Guarantees: every node is computed by its definition: a Contract by visiting its whole iteration space,
so scatter and gather forms, guards and exact divisions have the semantics of compiler/ir/level1/graph.py.
Does not: run Updates or Stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.expr.ast import Expr
from compiler.expr.interp import evaluate
from compiler.ir.level1.graph import (
    Attention,
    BatchMask,
    Constant,
    Contract,
    Feed,
    Gather,
    Map,
    Move,
    Node,
    Rand,
    Reindex,
    Scan,
    ScatterAdd,
    StepsFirst,
    Tensor,
    TileSum,
    Variable,
    Weight,
)
from compiler.ir.space import Affine
from compiler.layers.shared.context import HIDDEN

Values = dict[str, npt.NDArray[Any]]
NONE: Final[Mapping[str, npt.NDArray[Any]]] = MappingProxyType({})


def _index(axis: Affine, grids: Mapping[str, npt.NDArray[np.int64]]) -> tuple[Any, Any]:
    """Index of one axis at every point of the iteration space, and where it exists."""
    total: Any = np.int64(axis.const)
    for dim, coefficient in axis.terms:
        total = total + coefficient * grids[dim]
    return total // axis.div, total % axis.div == 0


def _read(
    operand: npt.NDArray[Any],
    axes: tuple[Affine, ...],
    grids: Mapping[str, npt.NDArray[np.int64]],
    fill: float,
    shape: tuple[int, ...],
) -> npt.NDArray[Any]:
    """The operand at every point; `fill` outside its extents and where a map does not divide."""
    inside: Any = np.bool_(True)
    indices = []
    for axis, extent in zip(axes, operand.shape, strict=True):
        index, exact = _index(axis, grids)
        inside = inside & exact & (index >= 0) & (index < extent)
        indices.append(np.clip(index, 0, extent - 1))
    values = operand[tuple(indices)] if indices else operand
    if operand.dtype.kind in "iu":
        return np.broadcast_to(np.where(inside, values, 0), shape)
    return np.broadcast_to(np.where(inside, values, fill), shape)


def evaluate_contract(node: Contract, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """out[out_map(d)] = combine of body over the iteration space."""
    shape = tuple(extent for _, extent in node.dims)
    grids = {
        name: np.arange(extent, dtype=np.int64).reshape([-1 if a == k else 1 for a in range(len(shape))])
        for k, (name, extent) in enumerate(node.dims)
    }
    env: dict[str, Any] = {n: np.broadcast_to(g, shape) for n, g in grids.items()}
    env.update(dict(node.scalars))
    for k, (name, axes) in enumerate(zip(node.ins, node.in_maps, strict=True)):
        env[f"x{k}"] = _read(values[name], axes, grids, node.fill, shape)
    term = np.broadcast_to(np.asarray(evaluate(node.body, env), np.float64), shape)
    start = {"add": 0.0, "max": -np.inf, "min": np.inf}[node.combine]
    out = np.full(node.out.shape, start)
    inside: Any = np.bool_(True)
    indices = []
    for axis, extent in zip(node.out_map, node.out.shape, strict=True):
        index, exact = _index(axis, grids)
        inside = inside & exact & (index >= 0) & (index < extent)
        indices.append(np.broadcast_to(np.clip(index, 0, extent - 1), shape))
    at = {"add": np.add, "max": np.maximum, "min": np.minimum}[node.combine].at
    chosen = np.broadcast_to(inside, shape)
    if not indices:
        reduce: Any = {"add": np.sum, "max": np.max, "min": np.min}[node.combine]
        return np.asarray(reduce(term))
    at(out, tuple(i[chosen] for i in indices), term[chosen])
    return out


def _map(node: Map, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    rank = len(node.out.shape)
    env: dict[str, Any] = dict(node.scalars)
    for k, (name, axes) in enumerate(zip(node.ins, node.maps, strict=True)):
        shape = [1] * rank
        for position, axis in enumerate(axes):
            if axis is not None:
                shape[axis] = values[name].shape[position]
        order = np.argsort([rank if a is None else a for a in axes], kind="stable")
        env[f"x{k}"] = np.broadcast_to(values[name].transpose(order).reshape(shape), node.out.shape)
    return np.broadcast_to(np.asarray(evaluate(node.body, env), np.float64), node.out.shape)


def _attention(node: Attention, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    q, k, v, *rest = (values[n].astype(np.float64) for n in node.ins)
    scores = node.scale * np.einsum("ntha,nsha->nhts", q, k)
    for name, x in zip(node.beside, rest, strict=False):
        x = x.reshape(len(x), *(1 for _ in range(4 - x.ndim)), *x.shape[1:])
        scores = scores + x if name == "offset" else np.where(x != 0, scores, HIDDEN)
    if node.causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, HIDDEN)
    most = scores.max(-1, keepdims=True)
    power = np.where(scores <= HIDDEN / 2, 0.0, np.exp(scores - most))
    total = power.sum(-1, keepdims=True)
    p = power / np.where(total == 0, 1.0, total)
    if node.of == "context":
        return np.einsum("nhts,nshe->nthe", p, v)
    if node.of == "norms":
        inverse = np.where(total == 0, 0.0, 1 / np.where(total == 0, 1.0, total))
        return np.concatenate([most, inverse], -1).transpose(0, 2, 1, 3)
    dy = rest[len(node.beside)]
    if node.of == "value":
        return np.einsum("nhts,nthe->nshe", p, dy)
    slope = np.einsum("nthe,nshe->nhts", dy, v)
    slope = node.scale * p * (slope - (slope * p).sum(-1, keepdims=True))
    return np.einsum(
        "nhts,nsha->ntha" if node.of == "query" else "nhts,ntha->nsha", slope, k if node.of == "query" else q
    )


def _rows(index: npt.NDArray[Any], rows: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """The rows that integers choose, and which of them there are."""
    chosen = index.astype(np.int64)
    return chosen, (chosen >= 0) & (chosen < rows)


def _gather(table: npt.NDArray[Any], index: npt.NDArray[Any]) -> npt.NDArray[Any]:
    chosen, inside = _rows(index, len(table))
    found = table[np.where(inside, chosen, 0)]
    return np.where(inside.reshape(*inside.shape, *(1 for _ in found.shape[inside.ndim :])), found, 0.0)


def _pick(table: npt.NDArray[Any], index: npt.NDArray[Any]) -> npt.NDArray[Any]:
    chosen, inside = _rows(index, table.shape[-1])
    found = np.take_along_axis(table, np.where(inside, chosen, 0)[..., None], -1)[..., 0]
    return np.where(inside, found, 0.0)


def _move(node: Move, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    grids = dict(zip("abcdef", np.indices(node.out.shape), strict=False))
    total = np.zeros(node.out.shape)
    for name, offset in zip(node.ins, node.offsets, strict=True):
        axes = tuple(Affine(((d, 1),), at) for d, at in zip(grids, offset, strict=True))
        total = total + _read(values[name], axes, grids, node.fill, node.out.shape)
    return total


def _tile_sum(node: TileSum, values: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Tiles are as many rows as fit, one after the other."""
    product = values[node.product]

    def rows(body: Expr) -> npt.NDArray[Any]:
        point = Map(Tensor("", product.shape), node.ins, node.maps, body)
        return _map(point, values).reshape(-1, product.shape[-1])

    x, w = (np.array_split(rows(e), node.out.shape[-1]) for e in (node.body, node.weight))
    count = [b.sum(0) for b in w]
    mean = [(a * b).sum(0) / np.maximum(n, 1e-300) for a, b, n in zip(x, w, count, strict=True)]
    found = {
        "sum": [a.sum(0) for a in x],
        "mean": mean,
        "square": [(b * (a - m) ** 2).sum(0) for a, b, m in zip(x, w, mean, strict=True)],
        "weight": [n[0] for n in count],
    }
    return np.array(found[node.of]).T


def steps_first(node: StepsFirst | Feed, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    apart = x.reshape(node.steps, -1, *x.shape[1:]) if isinstance(node, StepsFirst) and node.back else x
    return np.swapaxes(apart, 0, 1).reshape(node.out.shape)


def _scan(scan: Scan, values: Values) -> None:
    """Adds what the Scan defines."""
    state = {c.state.name: values[c.start] for c in scan.carried}
    rows: dict[str, list[npt.NDArray[Any]]] = {s.whole.name: [] for s in scan.stacked}
    for t in reversed(range(scan.steps)) if scan.reverse else range(scan.steps):
        parts = {g.part.name: np.split(values[g.whole], scan.steps)[t] for g in scan.given}
        here = evaluate_graph(scan.body, {}, {**values, **state, **parts})
        state = {c.state.name: here[c.after] for c in scan.carried}
        for s in scan.stacked:
            rows[s.whole.name].append(here[s.part])
    values |= {c.last.name: state[c.state.name] for c in scan.carried if c.last is not None}
    values |= {name: np.concatenate(found[::-1] if scan.reverse else found) for name, found in rows.items()}


def evaluate_graph(
    nodes: Iterable[Node], given: Mapping[str, npt.NDArray[Any]], known: Mapping[str, npt.NDArray[Any]] = NONE
) -> Values:
    """The value of every tensor. `given` names those that nodes do not compute (weights, feeds, mask, ...); `known` are
    there already."""
    values: Values = dict(known)
    for node in nodes:
        match node:
            case Weight() | Variable() | Feed() | BatchMask() | Rand():
                values[node.out.name] = given[node.out.name]
            case Constant():
                values[node.out.name] = np.array(node.values, np.float64).reshape(node.out.shape)
            case Map():
                values[node.out.name] = _map(node, values)
            case TileSum():
                values[node.out.name] = _tile_sum(node, values)
            case Contract():
                values[node.out.name] = evaluate_contract(node, values)
            case Gather():
                values[node.out.name] = (_pick if node.own else _gather)(values[node.table], values[node.index])
            case ScatterAdd():
                total = values[node.out.name] = np.zeros(node.out.shape)
                index, inside = _rows(values[node.index], len(total))
                np.add.at(total, index[inside], values[node.source][inside])
            case Move():
                values[node.out.name] = _move(node, values)
            case Attention():
                values[node.out.name] = _attention(node, values)
            case Reindex():
                values[node.out.name] = values[node.source].reshape(node.out.shape)
            case StepsFirst():
                values[node.out.name] = steps_first(node, values[node.source])
            case Scan():
                _scan(node, values)
            case _:
                pass
    return values
