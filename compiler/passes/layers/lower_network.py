"""lower_network: layers (level 0) become a pure tensor graph (level 1) for one phase.

Assumes: shapes were inferred and checked; names are unique.
Guarantees: layers of one kind give structurally equal nodes (same bodies, same order of operands), so that their
kernels merge; user-defined numbers (rates, epsilons) are scalars of nodes, never text. Weights: `<layer>.weight`,
`<layer>.bias`, drawn glorot_uniform (Glorot & Bengio 2010, eq. 16), biases zero.
Does not: differentiate, fuse, or choose layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import substitute
from compiler.ir.level1.builder import GraphBuilder, identity
from compiler.layers import KIND
from compiler.layers.shared.activations import activation
from compiler.layers.shared.context import X0, Context
from compiler.passes.layers.load_data import trial_data

Attend = Callable[[GraphBuilder, str, l1.Attention], int]


def _activated(c: Context, layer: l0.Layer, y: l1.Tensor) -> l1.Tensor:
    function: l0.FunctionDef | None = layer.function
    if layer.activation in (None, "linear", "identity"):
        return y
    if function is not None:
        body = substitute(function.body, {function.args[0]: X0})
    else:
        assert layer.activation is not None
        body = substitute(activation(layer.activation), {"x": X0})
    return c.graph.map(f"{layer.name}.activated", body, (identity(y),), span=layer.span)


def lower_network(
    network: l0.Network, train: l0.Train, phase: str, attend: Attend = lambda graph, name, node: 0
) -> tuple[Context, dict[str, l1.Tensor]]:
    """The forward graph of a phase ("train": batch statistics, dropout; "eval": neither). `attend`: see
    Context.attention.

    Returns the context (graph, mask, count) and the output tensor of every layer and input by name.
    """
    g = GraphBuilder()
    batch = train.batch
    with g.of(train.data.span):
        mask = g.add(l1.BatchMask(l1.Tensor("batch.mask", (batch,), "real", True)))
        count = g.reduce("batch.count", X0, (identity(mask),), mask, ())
    c = Context(g, phase == "train", mask, count, {}, seed=train.seed, attention=partial(attend, g))
    sources = {name: (array, scale) for name, array, scale in train.data.arrays}
    for item in network.inputs:
        dtype = "real" if item.dtype == "real" else "int"
        out = l1.Tensor(item.name, (batch, *item.shape), dtype, True)
        if item.activity is not None:
            c.named[item.name] = g.add(l1.Feed(out, trial_data(item.name), 1.0, span=item.span))
            continue
        array, scale = sources[item.name]
        c.named[item.name] = g.add(l1.Feed(out, f"data.{array}", scale, span=item.span))
    for layer in network.layers:
        before = len(g.tensors)
        y = KIND[layer.kind].lower(c, layer, *(c.named[i] for i in layer.inputs))
        c.named[layer.name] = _activated(c, layer, y)
        if layer.checkpoint:
            c.blocks |= dict.fromkeys(islice(g.tensors, before, None), layer.checkpoint)
    return c, c.named
