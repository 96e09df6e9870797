"""Gradients of every layer and loss against central differences in float64, in scatter and in gather form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.expr.ast import Binary, Call, Num, Ref
from compiler.ir.level0.model import (
    Attr,
    Data,
    FunctionDef,
    Layer,
    Loss,
    Network,
    OptimizerDef,
    Set,
    TensorInput,
    Train,
)
from compiler.ir.level1.graph import BatchMask, Feed, Node, Rand, Tensor, TensorGraph, Variable, Weight, results
from compiler.passes.layers.lower_loss import add_loss
from compiler.passes.layers.lower_network import lower_network
from compiler.passes.tensors.decompose import decompose
from compiler.passes.tensors.differentiate import differentiate
from compiler.passes.tensors.simplify_graph import simplify_graph
from compiler.verify.graph import graph_violations
from tests.evaluate_graph import Values, evaluate_graph, steps_first
from tests.grids import diagonal

Array = npt.NDArray[Any]
SGD = OptimizerDef("sgd", (("rate", 0.1),), (), (Set("param", Ref("param")),))


def layer(
    kind: str,
    name: str,
    source: str | tuple[str, ...],
    shape: tuple[int, ...],
    activation: str | None = None,
    function: FunctionDef | None = None,
    **attrs: Attr,
) -> Layer:
    inputs = (source,) if isinstance(source, str) else source
    return Layer(kind, name, inputs, tuple(sorted(attrs.items())), activation, function, shape)


def conv(
    name: str,
    source: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    activation: str | None = None,
) -> Layer:
    return layer(
        "conv2d",
        name,
        source,
        shape,
        activation,
        filters=shape[0],
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        bias=True,
    )


def pool(
    kind: str,
    source: str,
    shape: tuple[int, ...],
    size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Layer:
    return layer(kind, "pool", source, shape, size=size, stride=stride, padding=padding)


def flat(source: str, n: int) -> Layer:
    return layer("flatten", "flat", source, (n,))


def dense(name: str, source: str, n: int, activation: str | None = None, bias: bool = True) -> Layer:
    return layer("dense", name, source, (n,), activation, units=n, bias=bias)


def out_size(size: int, k: int, s: int, p: int, d: int = 1) -> int:
    return (size + p - d * (k - 1) - 1) // s + 1


def training(
    image: tuple[int, ...], layers: tuple[Layer, ...], loss: str, batch: int = 3
) -> tuple[tuple[Node, ...], tuple[Node, ...], str, dict[str, str]]:
    """Forward and backward nodes in scatter form and, simplified, in gather form."""
    target = TensorInput("target", (), "int32")
    if loss == "mean_squared_error":
        target = TensorInput("target", layers[-1].shape, "real")
    network = Network((TensorInput("image", image, "real"), target), layers)
    train = Train(
        Data("", (("image", "images", 1.0), ("target", "labels", 1.0)), 0.0),
        Loss(loss, layers[-1].name, "target"),
        ("accuracy",) if loss != "mean_squared_error" else ("mean_absolute_error",),
        SGD,
        batch,
        1,
        0,
    )
    context, named = lower_network(network, train, "train")
    lost = add_loss(context.graph, train, named, context.mask, context.count)
    total = lost.loss
    gradients = {w: t.name for w, t in differentiate(context.graph, total, lost.constants).items()}
    nodes = tuple(context.graph.nodes)
    wanted = (total.name, *gradients.values())
    gathered = simplify_graph(decompose(nodes), wanted)
    return nodes, gathered, total.name, gradients


def inputs_of(nodes: tuple[Node, ...], seed: int) -> Values:
    rng = np.random.default_rng(seed)
    given: Values = {}
    for node in nodes:
        if isinstance(node, Weight):
            given[node.out.name] = rng.normal(0.0, 0.7, node.out.shape)
        elif isinstance(node, Variable):
            given[node.out.name] = np.full(node.out.shape, node.init)
        elif isinstance(node, Feed):
            shape = node.out.shape
            given[node.out.name] = rng.integers(0, 3, shape) if node.out.dtype == "int" else rng.normal(size=shape)
        elif isinstance(node, BatchMask):
            mask = np.ones(node.out.shape)
            mask[-1] = 0.0  # a short last batch
            given[node.out.name] = mask
        elif isinstance(node, Rand):
            given[node.out.name] = rng.uniform(size=node.out.shape)
    return given


def check(image: tuple[int, ...], layers: tuple[Layer, ...], loss: str = "softmax_cross_entropy") -> None:
    nodes, gathered, total, gradients = training(image, layers, loss)
    for graph in (nodes, gathered):
        assert graph_violations(TensorGraph("train", graph)) == []
    given = inputs_of(nodes, 7)
    fed = {n.array: given[n.out.name] for n in nodes if isinstance(n, Feed)}
    given |= {n.out.name: steps_first(n, fed[n.array]) for n in gathered if isinstance(n, Feed) and n.steps}
    scatter = evaluate_graph(nodes, given)
    gather = evaluate_graph(gathered, given)
    assert gradients, "something is trained"
    # Forward nodes stand before backward ones; the loss needs no more.
    forward = nodes[: 1 + next(i for i, n in enumerate(nodes) if getattr(n, "out", None) == loss_of(nodes, total))]
    rng = np.random.default_rng(3)
    for weight, gradient in gradients.items():
        # Sharing may have given the gradient another name: the same value is under one of the two.
        analytic = scatter[gradient]
        if gradient in gather:
            np.testing.assert_allclose(gather[gradient], analytic, rtol=1e-10, atol=1e-12)
        # A random direction sees an error in any coordinate; a few coordinates alone say where it is.
        directions = [rng.normal(size=analytic.shape)]
        for index in rng.choice(analytic.size, min(3, analytic.size), replace=False):
            directions.append(np.zeros(analytic.shape))
            directions[-1].flat[index] = 1.0
        for direction in directions:
            numeric = slope(forward, given, total, weight, direction)
            found = float(np.sum(analytic * direction))
            np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-8, err_msg=weight)


def loss_of(nodes: tuple[Node, ...], total: str) -> Tensor:
    """The tensor called `total`."""
    return next(t for n in nodes for t in results(n) if t.name == total)


def slope(nodes: tuple[Node, ...], given: Values, total: str, weight: str, direction: Array) -> float:
    """The derivative of the loss along a direction of one weight, by central differences."""
    epsilon = 1e-6
    values = []
    for sign in (1.0, -1.0):
        moved = {**given, weight: given[weight] + sign * epsilon * direction}
        values.append(float(evaluate_graph(nodes, moved)[total]))
    return (values[0] - values[1]) / (2 * epsilon)


SWISH = FunctionDef(
    "swish", ("x",), Binary("/", Ref("x"), Binary("+", Num(1), Call("exp", (Binary("-", Num(0), Ref("x")),))))
)


@pytest.mark.parametrize(
    "activation", [None, "relu", "sigmoid", "tanh", "softplus", "silu", "gelu", "elu", "leaky_relu"]
)
def test_dense_and_activations(activation: str | None) -> None:
    check((4,), (dense("hidden", "image", 3, activation), dense("logits", "hidden", 3)))


def test_user_function() -> None:
    hidden = replace(dense("hidden", "image", 3, "swish"), function=SWISH)
    check((4,), (hidden, dense("logits", "hidden", 3, bias=False)))


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"),
    diagonal([(1, 1), (2, 1), (2, 3)], [(0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 2)], [(1, 1), (2, 1)], leading=2),
)
def test_conv2d(stride: tuple[int, int], padding: tuple[int, int, int, int], dilation: tuple[int, int]) -> None:
    h = out_size(5, 2, stride[0], padding[0] + padding[1], dilation[0])
    w = out_size(6, 3, stride[1], padding[2] + padding[3], dilation[1])
    # The first convolution's gradients pass through the second one: its input gradient is tested too.
    first = conv("first", "image", (2, 5, 6), (1, 1))
    second = conv("second", "first", (2, h, w), (2, 3), stride, padding, dilation, activation="tanh")
    check((1, 5, 6), (first, second, flat("second", 2 * h * w), dense("logits", "flat", 3)))


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_conv2d(groups: int) -> None:
    first = conv("first", "image", (4, 4, 4), (1, 1))
    second = conv("second", "first", (4, 2, 2), (3, 3), groups=groups)
    check((1, 4, 4), (first, second, flat("second", 16), dense("logits", "flat", 3)))


@pytest.mark.parametrize("kind", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    ("size", "stride", "padding"),
    [((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 3), (2, 2), (1, 1, 1, 1)), ((3, 2), (1, 1), (0, 0, 0, 0))],
)
def test_pooling(kind: str, size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int, int, int]) -> None:
    h = out_size(4, size[0], stride[0], padding[0] + padding[1])
    w = out_size(4, size[1], stride[1], padding[2] + padding[3])
    first = conv("first", "image", (2, 4, 4), (3, 3), padding=(1, 1, 1, 1))
    layers = (
        first,
        pool(kind, "first", (2, h, w), size, stride, padding),
        flat("pool", 2 * h * w),
        dense("logits", "flat", 3),
    )
    check((1, 4, 4), layers)


def test_max_pool_of_negative_numbers_ignores_padding() -> None:
    """Zeros of the padding are not candidates for the maximum."""
    nodes, _, _, _ = training(
        (1, 2, 2),
        (
            pool("max_pool2d", "image", (1, 2, 2), (3, 3), (1, 1), (1, 1, 1, 1)),
            flat("pool", 4),
            dense("logits", "flat", 3),
        ),
        "softmax_cross_entropy",
    )
    given = inputs_of(nodes, 1)
    given["image"] = -1.0 - np.arange(12.0).reshape(3, 1, 2, 2)
    values = evaluate_graph(nodes, given)
    np.testing.assert_array_equal(values["pool.y"][0], np.full((1, 2, 2), -1.0))


def test_batch_norm() -> None:
    norm = layer("batch_norm", "norm", "first", (2, 3, 3), momentum=0.1, epsilon=1e-5)
    layers = (conv("first", "image", (2, 3, 3), (2, 2)), norm, flat("norm", 18), dense("logits", "flat", 3))
    check((1, 4, 4), layers)


def test_dropout_and_add() -> None:
    layers = (
        dense("a", "image", 4, "tanh"),
        layer("dropout", "drop", "a", (4,), rate=0.4),
        layer("add", "sum", ("drop", "a"), (4,), "sigmoid"),
        dense("logits", "sum", 3),
    )
    check((5,), layers)


def test_mean_squared_error() -> None:
    check((4,), (dense("hidden", "image", 5, "tanh"), dense("y", "hidden", 2)), "mean_squared_error")


RECURRENT = [("rnn", {"function": "tanh"}), ("gru", {"reset": "after"}), ("gru", {"reset": "before"}), ("lstm", {})]


@pytest.mark.parametrize(("kind_of", "both"), diagonal(RECURRENT, [False, True]))
def test_recurrent(kind_of: tuple[str, dict[str, str]], both: bool) -> None:
    """The first layer gives all its states, so that gradients come in at every step; the second one its last state."""
    kind, own = kind_of
    settings = (("bias", True), ("bidirectional", both), ("units", 2), *own.items())
    size = 2 * (1 + both)
    first = Layer(kind, "first", ("image",), (*settings, ("sequence", True)), None, None, (4, size))
    second = Layer(kind, "second", ("first",), (*settings, ("sequence", False)), None, None, (size,))
    check((4, 3), (first, second, dense("logits", "second", 3)))
