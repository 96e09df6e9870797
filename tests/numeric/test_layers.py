"""Layers against their definitions in numpy: the loss of a batch whose last row is missing.

Gradients are checked against the loss (test_gradients.py); this file checks the loss itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import erf

from compiler.ir.level0.model import Layer
from tests.evaluate_graph import Values, evaluate_graph
from tests.numeric.test_gradients import (
    conv,
    dense,
    flat,
    inputs_of,
    layer,
    out_size,
    pool,
    training,
)

Array = npt.NDArray[Any]

ACTIVATIONS: dict[str, Any] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
}


def convolution(x: Array, w: Array, bias: Array, item: Layer) -> Array:
    """Cross-correlation, element by element."""
    (stride_h, stride_w), (dilation_h, dilation_w) = item.attr("stride"), item.attr("dilation")  # type: ignore[misc]
    top, bottom, left, right = item.attr("padding")  # type: ignore[misc]
    groups = item.attr("groups")
    assert isinstance(groups, int)
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    out = np.zeros((len(x), *item.shape))
    per_out, per_in = item.shape[0] // groups, x.shape[1] // groups
    for n, k, i, j in np.ndindex(*out.shape):
        group = k // per_out
        for c, r, s in np.ndindex(per_in, w.shape[2], w.shape[3]):
            pixel = padded[n, group * per_in + c, i * stride_h + r * dilation_h, j * stride_w + s * dilation_w]
            out[n, k, i, j] += w[k, c, r, s] * pixel
    return out + bias[:, None, None]


def pooling(x: Array, item: Layer) -> Array:
    (size_h, size_w), (stride_h, stride_w) = item.attr("size"), item.attr("stride")  # type: ignore[misc]
    top, bottom, left, right = item.attr("padding")  # type: ignore[misc]
    largest = item.kind == "max_pool2d"
    fill = -np.inf if largest else 0.0
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    out = np.zeros((len(x), *item.shape))
    for n, c, i, j in np.ndindex(*out.shape):
        window = padded[n, c, i * stride_h : i * stride_h + size_h, j * stride_w : j * stride_w + size_w]
        out[n, c, i, j] = window.max() if largest else window.sum() / (size_h * size_w)
    return out


def normalised(x: Array, rows: Array, scale: Array, shift: Array, epsilon: float) -> Array:
    """By mean and variance of each channel over the rows that exist."""
    there = x[rows]
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    mean, var = there.mean(axes).reshape(shape), there.var(axes).reshape(shape)
    return (x - mean) / np.sqrt(var + epsilon) * scale.reshape(shape) + shift.reshape(shape)


def loss_of(layers: tuple[Layer, ...], given: Values, loss: str) -> float:
    """The mean loss of the rows that exist."""
    rows = given["batch.mask"] == 1
    named = {"image": given["image"]}
    for item in layers:
        x = named[item.inputs[0]]
        match item.kind:
            case "dense":
                y = x @ given[f"{item.name}.weight"].T
                y = y + given[f"{item.name}.bias"] if item.attr("bias") else y
            case "conv2d":
                y = convolution(x, given[f"{item.name}.weight"], given[f"{item.name}.bias"], item)
            case "max_pool2d" | "avg_pool2d":
                y = pooling(x, item)
            case "batch_norm":
                scale, shift = given[f"{item.name}.weight"], given[f"{item.name}.bias"]
                epsilon = item.attr("epsilon")
                assert isinstance(epsilon, float)
                y = normalised(x, rows, scale, shift, epsilon)
            case "flatten":
                y = x.reshape(len(x), -1)
            case "add":
                y = sum((named[n] for n in item.inputs), np.zeros(()))
            case "dropout":
                rate = item.attr("rate")
                assert isinstance(rate, float)
                drawn = given[f"{item.name}.random"]
                drawn = drawn.reshape(drawn.shape + (1,) * (x.ndim - drawn.ndim))
                y = np.where(drawn >= rate, x / (1 - rate), 0.0)
            case _:
                raise AssertionError(item.kind)
        named[item.name] = ACTIVATIONS[item.activation](y) if item.activation else y
    prediction, target = named[layers[-1].name][rows], given["target"][rows]
    if loss == "mean_squared_error":
        return float(np.mean((prediction - target) ** 2))
    total = np.log(np.exp(prediction).sum(1))
    return float(np.mean(total - prediction[np.arange(len(prediction)), target]))


def check(image: tuple[int, ...], layers: tuple[Layer, ...], loss: str = "softmax_cross_entropy") -> None:
    nodes, gathered, total, _ = training(image, layers, loss)
    given = inputs_of(nodes, 11)
    assert given["batch.mask"].tolist() == [1.0, 1.0, 0.0]
    expected = loss_of(layers, given, loss)
    assert float(evaluate_graph(nodes, given)[total]) == pytest.approx(expected, rel=1e-12)
    assert float(evaluate_graph(gathered, given)[total]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_dense_and_activations(activation: str | None) -> None:
    check((4,), (dense("hidden", "image", 5, activation), dense("logits", "hidden", 3, bias=False)))


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [
        ((3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 3), (2, 1), (1, 0, 2, 1), (1, 1), 1),
        ((3, 2), (2, 3), (1, 1, 1, 1), (2, 1), 1),
        ((2, 2), (1, 1), (0, 1, 1, 0), (1, 3), 2),
        ((3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 4),
    ],
)
def test_conv2d(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    groups: int,
) -> None:
    h = out_size(6, kernel[0], stride[0], padding[0] + padding[1], dilation[0])
    w = out_size(7, kernel[1], stride[1], padding[2] + padding[3], dilation[1])
    layers = (
        conv("c", "image", (4, h, w), kernel, stride, padding, dilation, groups, "tanh"),
        flat("c", 4 * h * w),
        dense("logits", "flat", 3),
    )
    check((4, 6, 7), layers)


@pytest.mark.parametrize("kind", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(
    ("size", "stride", "padding"),
    [((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 2), (2, 1), (1, 1, 0, 1)), ((3, 3), (1, 2), (2, 1, 1, 1))],
)
def test_pooling(kind: str, size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int, int, int]) -> None:
    h = out_size(5, size[0], stride[0], padding[0] + padding[1])
    w = out_size(6, size[1], stride[1], padding[2] + padding[3])
    layers = (
        pool(kind, "image", (2, h, w), size, stride, padding),
        flat("pool", 2 * h * w),
        dense("logits", "flat", 3),
    )
    check((2, 5, 6), layers)


def test_batch_norm_of_images() -> None:
    norm = layer("batch_norm", "norm", "image", (3, 4, 2), "tanh", momentum=0.1, epsilon=1e-3)
    check((3, 4, 2), (norm, flat("norm", 24), dense("logits", "flat", 3)))


def test_batch_norm_of_features() -> None:
    norm = layer("batch_norm", "norm", "hidden", (5,), momentum=0.1, epsilon=1e-3)
    check((4,), (dense("hidden", "image", 5), norm, dense("logits", "norm", 3)))


def test_running_statistics() -> None:
    """new = (1 - momentum) old + momentum (mean, or unbiased variance) over the rows that exist."""
    norm = layer("batch_norm", "norm", "image", (3, 4, 2), momentum=0.3, epsilon=1e-3)
    nodes, _, _, _ = training((3, 4, 2), (norm, flat("norm", 24), dense("logits", "flat", 3)), "softmax_cross_entropy")
    given = inputs_of(nodes, 2)
    values = evaluate_graph(nodes, given)
    there = given["image"][:2]
    mean, var = there.mean((0, 2, 3)), there.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(values["norm.new_mean"], 0.7 * given["norm.running_mean"] + 0.3 * mean, rtol=1e-12)
    np.testing.assert_allclose(values["norm.new_var"], 0.7 * given["norm.running_var"] + 0.3 * var, rtol=1e-12)


def test_dropout_and_add() -> None:
    layers = (
        dense("a", "image", 4, "tanh"),
        layer("dropout", "drop", "a", (4,), rate=0.4),
        layer("add", "sum", ("drop", "a"), (4,), "sigmoid"),
        dense("logits", "sum", 3),
    )
    check((5,), layers)


@pytest.mark.parametrize("draws", ["channel", "sample"])
def test_dropout_of_more(draws: str) -> None:
    drop = layer("dropout", "drop", "first", (2, 3, 3), rate=0.4, draws=draws)
    layers = (conv("first", "image", (2, 3, 3), (2, 2)), drop, flat("drop", 18), dense("logits", "flat", 3))
    check((1, 4, 4), layers)


def test_mean_squared_error() -> None:
    check((4,), (dense("hidden", "image", 5, "tanh"), dense("y", "hidden", 2)), "mean_squared_error")
