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
from compiler.passes.layers import lower_augment, lower_norms, lower_sequences, lower_shapes, lower_windows
from compiler.passes.layers.layer_context import X0, Context, linear, reshape

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
            y = lower_windows.conv(c, layer, x)
        case "conv_transpose1d" | "conv_transpose2d":
            y = lower_windows.conv_transpose(c, layer, x)
        case "max_pool1d" | "avg_pool1d" | "max_pool2d" | "avg_pool2d":
            y = lower_windows.pool(c, layer, x)
        case "global_max_pool" | "global_avg_pool":
            y = lower_windows.global_pool(c, layer, x)
        case "upsample":
            y = lower_windows.upsample(c, layer, x)
        case "flatten" | "reshape":
            y = reshape(c, f"{layer.name}.y", x, (x.shape[0], *layer.shape), layer)
        case "permute":
            y = lower_shapes.permute(c, layer, x)
        case "concat":
            y = lower_shapes.concat(c, layer, ins)
        case "slice":
            y = lower_shapes.slice_of(c, layer, x)
        case "pad":
            y = lower_shapes.pad(c, layer, x)
        case "add":
            y = lower_shapes.combined(c, layer, ins, "+")
        case "multiply":
            y = lower_shapes.combined(c, layer, ins, "*")
        case "map":
            y = lower_shapes.map_of(c, layer, ins)
        case "batch_norm":
            y = lower_norms.batch_norm(c, layer, x)
        case "layer_norm":
            y = lower_norms.layer_norm(c, layer, x)
        case "group_norm" | "instance_norm":
            y = lower_norms.group_norm(c, layer, x)
        case "softmax" | "log_softmax":
            y = lower_norms.softmax(c, layer, x)
        case "dropout":
            y = lower_shapes.dropout(c, layer, x)
        case "noise":
            y = lower_augment.noise(c, layer, x)
        case "augment":
            y = lower_augment.augment(c, layer, x)
        case "random_flip":
            y = lower_augment.random_flip(c, layer, x)
        case "random_crop":
            y = lower_augment.random_crop(c, layer, x)
        case "activation":
            y = x
        case "embedding":
            y = lower_shapes.embedding(c, layer, x)
        case "one_hot":
            y = lower_shapes.one_hot(c, layer, x)
        case "learned":
            y = lower_shapes.learned(c, layer)
        case "positions":
            y = lower_shapes.positions(c, layer, x)
        case "attention":
            y = lower_sequences.attention(c, layer, ins)
        case "dot_attention":
            y = lower_sequences.dot_attention(c, layer, ins)
        case "rnn" | "gru" | "lstm":
            y = lower_sequences.recurrent(c, layer, x)
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
