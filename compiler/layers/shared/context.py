"""Shared context of layer lowering: the graph under construction, its batch, weights and attributes.

Assumes: layers of level 0, whose attributes the frontend has checked.
Guarantees: trained arrays are named `<layer>.<part>`; random draws depend only on the name.
Does not: depend on any kind of layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.level1.builder import GraphBuilder, axis_dims, identity
from compiler.ir.space import Affine, along
from compiler.layers.shared.initial_weights import chosen

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))
PRODUCT = X0 * X1
HIDDEN = -1.0e30
"""The score of a masked step of attention."""


@dataclass
class Context:
    """`training`: batch statistics and dropout are active; `named`: the output of each layer and network input;
    `constants`: tensors whose gradient cancels (the shift of a softmax); `blocks`: the checkpointed block of a tensor;
    `running`: what running means are after the layers so far; `attention`: says of the attention of a layer which
    factors it has (0: it is to be contractions)."""

    graph: GraphBuilder
    training: bool
    mask: l1.Tensor
    count: l1.Tensor
    named: dict[str, l1.Tensor]
    constants: set[str] = field(default_factory=set)
    seed: int = 0
    blocks: dict[str, int] = field(default_factory=dict)
    running: dict[str, l1.Tensor] = field(default_factory=dict)
    attention: Callable[[str, l1.Attention], int] = lambda name, node: 0


def call(func: str, *args: Expr) -> Expr:
    return Call(func, args)


def ints(layer: l0.Layer, name: str) -> tuple[int, ...]:
    value = dict(layer.attrs).get(name, ())
    assert isinstance(value, tuple)
    return value


def whole(layer: l0.Layer, name: str, default: int | None = None) -> int:
    value = dict(layer.attrs).get(name, default)
    assert isinstance(value, int)
    return value


def number(layer: l0.Layer, name: str) -> float:
    value = layer.attr(name)
    assert isinstance(value, (int, float))
    return float(value)


def flag(layer: l0.Layer, name: str, default: bool = False) -> bool:
    return bool(dict(layer.attrs).get(name, default))


def weight(
    c: Context,
    name: str,
    shape: tuple[int, ...],
    init: str,
    args: tuple[float, ...],
    layer: l0.Layer,
    fans: tuple[int, int] | None = None,
) -> l1.Tensor:
    """A trained array, created on first use, also by another layer that shares it. `fans`: fan-in and fan-out, where
    its shape is not (outputs, inputs, ...)."""
    part = name.removeprefix(f"{layer.name}.")
    name = layer.array(part)
    if name in c.graph.tensors:
        return _still(c, layer, part) if flag(layer, "frozen") else c.graph.tensors[name]
    own = chosen(layer, shape, c.seed, fans) if name.rpartition(".")[2] in ("weight", "recurrent") else None
    init, args = own or (init, args)
    return c.graph.add(
        l1.Weight(l1.Tensor(name, shape), init, args, _file(layer) if init == "values" else None, layer.span)
    )


def _still(c: Context, layer: l0.Layer, part: str) -> l1.Tensor:
    """A shared array, which has no gradient through this layer."""
    name, array = f"{layer.name}.{part}.still", c.graph.tensors[layer.array(part)]
    if name not in c.graph.tensors:
        c.constants.add(c.graph.map(name, X0, (identity(array),), span=layer.span).name)
    return c.graph.tensors[name]


def _file(layer: l0.Layer) -> l0.FromFile:
    value = layer.attr("init_file")
    assert isinstance(value, l0.FromFile)
    return value


def arrays_of(
    lower: Callable[..., l1.Tensor], layer: l0.Layer, sources: Sequence[l0.TensorInput]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all trained arrays and running means that a layer would have alone, by the part of their names
    behind the layer's."""
    g = GraphBuilder()
    mask = g.add(l1.BatchMask(l1.Tensor("batch.mask", (1,), "real", True)))
    c = Context(g, False, mask, mask, {})
    feeds = [l1.Tensor(f"source {k}", (1, *s.shape), "real" if s.dtype == "real" else "int", True)
             for k, s in enumerate(sources)]  # fmt: skip
    lower(c, replace(layer, shared=()), *(g.add(l1.Feed(t, t.name, 1.0)) for t in feeds))
    made = [n.out for n in g.nodes if isinstance(n, l1.Weight | l1.Variable)]
    return {t.name.removeprefix(f"{layer.name}."): t.shape for t in made}


def glorot(fan_in: int, fan_out: int) -> tuple[float, ...]:
    """The bound of Glorot & Bengio 2010, eq. 16."""
    return (math.sqrt(6.0 / (fan_in + fan_out)),)


def reshape(c: Context, name: str, x: l1.Tensor, shape: tuple[int, ...], layer: l0.Layer) -> l1.Tensor:
    """The same elements in row-major order; the identity when the shape is the same."""
    if x.shape == shape:
        return x
    return c.graph.add(l1.Reindex(l1.Tensor(name, shape, x.dtype, x.batched), x.name, layer.span))


def biased(c: Context, layer: l0.Layer, y: l1.Tensor, axis: int, part: str = "") -> l1.Tensor:
    """y + bias along an axis, if the layer has one. `part`: "query" of "attention.query.bias"."""
    if not layer.attr("bias"):
        return y
    name = f"{layer.name}.{part}." if part else f"{layer.name}."
    bias = weight(c, f"{name}bias", (y.shape[axis],), "zeros", (), layer)
    return c.graph.map(f"{name}biased", X0 + X1, (identity(y), (bias, (axis,))), span=layer.span)


def linear(c: Context, layer: l0.Layer, x: l1.Tensor, units: int, part: str = "") -> l1.Tensor:
    """x W + b over the last axis. Weight (units, features), initialized glorot_uniform; (features, units) where it is
    another layer's, transposed."""
    features = x.shape[-1]
    name = f"{layer.name}.{part}." if part else f"{layer.name}."
    shape, axes = (units, features), (along("o"), along("k"))
    if flag(layer, "transposed"):
        shape, axes = (features, units), (along("k"), along("o"))
    w = weight(c, f"{name}weight", shape, "uniform", glorot(features, units), layer)
    outer = ("n", *(f"t{a or ''}" for a in range(len(x.shape) - 2)))
    kept = tuple(zip(outer, x.shape[:-1], strict=True))
    y = c.graph.contract(
        f"{name}sum",
        (*kept, ("o", units), ("k", features)),
        (*(along(d) for d in outer), along("o")),
        ((x, (*(along(d) for d in outer), along("k"))), (w, axes)),
        PRODUCT,
        span=layer.span,
    )
    return biased(c, layer, y, len(y.shape) - 1, part)


def moved(
    c: Context,
    name: str,
    parts: list[tuple[l1.Tensor, tuple[int, ...]]],
    shape: tuple[int, ...],
    fill: float,
    layer: l0.Layer,
) -> l1.Tensor:
    """The sum of tensors, each shifted by an offset per axis into `shape`; `fill` outside a tensor. Elements outside
    `shape` are cropped."""
    out = l1.Tensor(name, shape, parts[0][0].dtype, parts[0][0].batched)
    offsets = tuple(tuple(-at for at in offset) for _, offset in parts)
    return c.graph.add(l1.Move(out, tuple(t.name for t, _ in parts), offsets, fill, layer.span))


def joined(c: Context, name: str, ins: list[l1.Tensor], axis: int, layer: l0.Layer) -> l1.Tensor:
    """Concatenation of tensors that differ only along one axis."""
    if len(ins) == 1:
        return ins[0]
    rank = len(ins[0].shape)
    parts: list[tuple[l1.Tensor, tuple[int, ...]]] = []
    at = 0
    for t in ins:
        parts.append((t, tuple(at if a == axis else 0 for a in range(rank))))
        at += t.shape[axis]
    shape = tuple(at if a == axis else e for a, e in enumerate(ins[0].shape))
    return moved(c, name, parts, shape, 0.0, layer)


def turned(c: Context, name: str, x: l1.Tensor, axis: int, layer: l0.Layer) -> l1.Tensor:
    """The elements of an axis in reverse order."""
    dims = axis_dims(x.shape)
    plain = tuple(along(d) for d, _ in dims)
    back = Affine(((dims[axis][0], -1),), x.shape[axis] - 1)
    read = (x, tuple(back if a == axis else p for a, p in enumerate(plain)))
    return c.graph.contract(name, dims, plain, (read,), X0, span=layer.span)


def sliced(c: Context, name: str, x: l1.Tensor, axis: int, start: int, stop: int, layer: l0.Layer) -> l1.Tensor:
    """Elements [start, stop) of an axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    offset = tuple(-start if a == axis else 0 for a in range(len(x.shape)))
    shape = tuple(stop - start if a == axis else e for a, e in enumerate(x.shape))
    return moved(c, name, [(x, offset)], shape, 0.0, layer)
