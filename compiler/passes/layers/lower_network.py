"""lower_network: layers (level 0) become a pure tensor graph (level 1) for one phase.

Assumes: shapes were inferred and checked; names are unique.
Guarantees: layers of one kind give structurally equal nodes (same bodies, same order of operands), so that their
kernels merge; numbers that a user may change (rates, epsilons) are scalars of nodes, never text. Weights:
`<layer>.weight`, `<layer>.bias`, drawn glorot_uniform (Glorot & Bengio 2010, eq. 16), biases zero.
Does not: differentiate, fuse, or know layouts.
"""

from __future__ import annotations

from itertools import islice

from compiler.expr.activations import ACTIVATIONS, activation
from compiler.expr.ast import substitute
from compiler.ir.level0.model import FunctionDef, Layer, Network, Train
from compiler.ir.level1.builder import GraphBuilder, identity
from compiler.ir.level1.graph import BatchMask, Feed, Tensor
from compiler.layers import augment, conv, norm, recurrent, shape
from compiler.layers.shared.context import X0, Context, linear, reshape

__all__ = ["ACTIVATIONS", "lower_network"]


def _activated(c: Context, layer: Layer, y: Tensor) -> Tensor:
    function: FunctionDef | None = layer.function
    if layer.kind in ("map", "augment") or layer.activation in (None, "linear", "identity"):
        return y
    if function is not None:
        body = substitute(function.body, {function.args[0]: X0})
    else:
        assert layer.activation is not None
        body = substitute(activation(layer.activation), {"x": X0})
    return c.graph.map(f"{layer.name}.activated", body, (identity(y),), span=layer.span)


def _layer(c: Context, layer: Layer) -> Tensor:
    ins = [c.named[i] for i in layer.inputs]
    x = ins[0] if ins else c.mask
    match layer.kind:
        case "dense":
            y = linear(c, layer, x, layer.shape[-1])
        case "conv1d" | "conv2d" | "conv3d":
            y = conv.conv(c, layer, x)
        case "conv_transpose1d" | "conv_transpose2d":
            y = conv.conv_transpose(c, layer, x)
        case "max_pool1d" | "avg_pool1d" | "max_pool2d" | "avg_pool2d":
            y = conv.pool(c, layer, x)
        case "global_max_pool" | "global_avg_pool":
            y = conv.global_pool(c, layer, x)
        case "upsample":
            y = conv.upsample(c, layer, x)
        case "flatten" | "reshape":
            y = reshape(c, f"{layer.name}.y", x, (x.shape[0], *layer.shape), layer)
        case "permute":
            y = shape.permute(c, layer, x)
        case "concat":
            y = shape.concat(c, layer, ins)
        case "slice":
            y = shape.slice_of(c, layer, x)
        case "pad":
            y = shape.pad(c, layer, x)
        case "add":
            y = shape.combined(c, layer, ins, "+")
        case "multiply":
            y = shape.combined(c, layer, ins, "*")
        case "map":
            y = shape.map_of(c, layer, ins)
        case "batch_norm":
            y = norm.batch_norm(c, layer, x)
        case "layer_norm":
            y = norm.layer_norm(c, layer, x)
        case "group_norm" | "instance_norm":
            y = norm.group_norm(c, layer, x)
        case "softmax" | "log_softmax":
            y = norm.softmax(c, layer, x)
        case "dropout":
            y = shape.dropout(c, layer, x)
        case "noise":
            y = augment.noise(c, layer, x)
        case "augment":
            y = augment.augment(c, layer, x)
        case "random_flip":
            y = augment.random_flip(c, layer, x)
        case "random_crop":
            y = augment.random_crop(c, layer, x)
        case "activation":
            y = x
        case "embedding":
            y = shape.embedding(c, layer, x)
        case "one_hot":
            y = shape.one_hot(c, layer, x)
        case "learned":
            y = shape.learned(c, layer)
        case "positions":
            y = shape.positions(c, layer, x)
        case "attention":
            y = recurrent.attention(c, layer, ins)
        case "dot_attention":
            y = recurrent.dot_attention(c, layer, ins)
        case "rnn" | "gru" | "lstm":
            y = recurrent.recurrent(c, layer, x)
        case _:
            raise AssertionError(f"layer kind {layer.kind} passed the frontend")
    return _activated(c, layer, y)


def lower_network(network: Network, train: Train, phase: str) -> tuple[Context, dict[str, Tensor]]:
    """The forward graph of a phase ("train": batch statistics, dropout; "eval": neither).

    Returns the context (graph, mask, count) and the output tensor of every layer and input by name.
    """
    g = GraphBuilder()
    batch = train.batch
    mask = g.add(BatchMask(Tensor("batch.mask", (batch,), "real", True)))
    count = g.reduce("batch.count", X0, (identity(mask),), mask, ())
    c = Context(g, phase == "train", mask, count, {}, seed=train.seed)
    sources = {name: (array, scale) for name, array, scale in train.data.arrays}
    for item in network.inputs:
        array, scale = sources[item.name]
        dtype = "real" if item.dtype == "real" else "int"
        out = Tensor(item.name, (batch, *item.shape), dtype, True)
        c.named[item.name] = g.add(Feed(out, f"data.{array}", scale, item.span))
    for layer in network.layers:
        before = len(g.tensors)
        c.named[layer.name] = _layer(c, layer)
        if layer.checkpoint:
            c.blocks |= dict.fromkeys(islice(g.tensors, before, None), layer.checkpoint)
    return c, c.named
