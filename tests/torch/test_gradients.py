"""Gradients and training against PyTorch, where it is installed: in float64, through YAML, lowering and generated C.

With plain gradient descent at a rate of 1 the difference of the weights is the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.numeric.trained import Trained, load
from tests.torch.nets import as_torch, dense, model, samples

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc")]

functional: Any = torch.nn.functional
Weights = dict[str, Any]
Forward = Callable[[Weights, Any], Any]


def randomised(trained: Trained) -> None:
    """Weights of a size that lets nothing vanish: biases and shifts are zero at the start."""
    rng = np.random.default_rng(9)
    for name in trained.names:
        value = trained.read(name)
        trained.write(name, value + rng.normal(0, 0.3, value.shape))


def conv(w: Weights, name: str, x: Any, **options: Any) -> Any:
    return functional.conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), **options)


def head(w: Weights, x: Any) -> Any:
    return dense(w, "logits", x.flatten(1))


CONV = "    - conv2d: {name: first, filters: 4, kernel: 1}\n    - conv2d: {name: second, OPTIONS}\n"
HEAD = "    - flatten: {}\n    - dense: {name: logits, units: 3}\n"
FIRST = "    - conv2d: {name: first, filters: 4, kernel: 3, padding: 1}\n"


def conv_case(options: str, **torch_options: Any) -> tuple[str, tuple[int, ...], Forward]:
    def forward(w: Weights, x: Any) -> Any:
        return head(w, conv(w, "second", conv(w, "first", x), **torch_options))

    return CONV.replace("OPTIONS", options) + HEAD, (2, 7, 6), forward


def layer_case(layer: str, apply: Callable[[Weights, Any], Any]) -> tuple[str, tuple[int, ...], Forward]:
    def forward(w: Weights, x: Any) -> Any:
        return head(w, apply(w, conv(w, "first", x, padding=1)))

    return f"{FIRST}    - {layer}\n{HEAD}", (2, 6, 6), forward


def activation_case(name: str, function: Callable[[Any], Any]) -> tuple[str, tuple[int, ...], Forward]:
    def forward(w: Weights, x: Any) -> Any:
        return dense(w, "logits", function(dense(w, "hidden", x)))

    layers = f"    - dense: {{name: hidden, units: 9, activation: {name}}}\n    - dense: {{name: logits, units: 3}}\n"
    return layers, (5,), forward


def skip(w: Weights, x: Any) -> Any:
    return torch.tanh(conv(w, "side", x, padding=1) + x)


def batch_norm(w: Weights, x: Any) -> Any:
    return functional.batch_norm(x, None, None, w["norm.weight"], w["norm.bias"], training=True, eps=1e-3)


CASES: dict[str, tuple[str, tuple[int, ...], Forward]] = {
    "conv": conv_case("filters: 5, kernel: 3"),
    "conv_stride": conv_case("filters: 5, kernel: [3, 2], stride: [2, 3]", stride=(2, 3)),
    "conv_padding": conv_case("filters: 5, kernel: [2, 3], padding: [2, 1]", padding=(2, 1)),
    "conv_same": conv_case("filters: 5, kernel: [3, 5], padding: same", padding=(1, 2)),
    "conv_dilation": conv_case("filters: 5, kernel: 2, dilation: [3, 2]", dilation=(3, 2)),
    "conv_groups": conv_case("filters: 6, kernel: 3, groups: 2", groups=2),
    "conv_depthwise": conv_case("filters: 4, kernel: 3, groups: 4, bias: false", groups=4),
    "conv_everything": conv_case(
        "filters: 6, kernel: [3, 2], stride: 2, padding: [2, 1], dilation: [1, 2], groups: 2",
        stride=2, padding=(2, 1), dilation=(1, 2), groups=2,
    ),
    "max_pool": layer_case("max_pool2d: {size: 2}", lambda w, x: functional.max_pool2d(x, 2)),
    "max_pool_overlap": layer_case(
        "max_pool2d: {size: 3, stride: [2, 1], padding: 1}", lambda w, x: functional.max_pool2d(x, 3, (2, 1), 1)
    ),
    "avg_pool": layer_case("avg_pool2d: {size: [2, 3]}", lambda w, x: functional.avg_pool2d(x, (2, 3))),
    "avg_pool_overlap": layer_case(
        "avg_pool2d: {size: 3, stride: 2, padding: 1}", lambda w, x: functional.avg_pool2d(x, 3, 2, 1)
    ),
    "batch_norm": layer_case("batch_norm: {name: norm, epsilon: 1e-3}", batch_norm),
    "add": layer_case(
        "conv2d: {name: side, filters: 4, kernel: 3, padding: 1}\n"
        "    - add: {name: sum, inputs: [side, first]}\n    - activation: {function: tanh}",
        skip,
    ),
    "relu": activation_case("relu", torch.relu),
    "sigmoid": activation_case("sigmoid", torch.sigmoid),
    "tanh": activation_case("tanh", torch.tanh),
    "softplus": activation_case("softplus", functional.softplus),
    "silu": activation_case("silu", functional.silu),
    "gelu": activation_case("gelu", functional.gelu),
    "elu": activation_case("elu", functional.elu),
    "leaky_relu": activation_case("leaky_relu", functional.leaky_relu),
    "own_function": activation_case("bump", lambda x: x * torch.exp(-x * x) + 0.1 * torch.abs(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_an_operator(tmp_path: Path, name: str) -> None:
    """A full batch and a short one, and the loss of both."""
    layers, shape, forward = CASES[name]
    images, labels = samples(tmp_path, shape, ties="max_pool" in name or name == "relu")
    trained = load(model(layers, str(list(shape))), tmp_path)
    randomised(trained)
    for number, chosen in ((1, range(8)), (2, range(10, 15))):
        weights = as_torch(trained)
        trained.step(number, chosen)
        index = torch.tensor(list(chosen))
        loss = functional.cross_entropy(forward(weights, images[index]), labels[index])
        loss.backward()
        assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-10)
        after = trained.weights()
        assert after.keys() == weights.keys()
        largest = 0.0
        for key, before in weights.items():
            gradient = before.detach().numpy() - after[key]
            np.testing.assert_allclose(gradient, before.grad.numpy(), rtol=0, atol=1e-9, err_msg=key)
            largest = max(largest, float(np.abs(gradient).max()))
        assert largest > 1e-3


def test_mean_squared_error(tmp_path: Path) -> None:
    images, targets = samples(tmp_path, (5,), real_labels=True)
    layers = (
        "    - dense: {name: hidden, inputs: image, units: 7, activation: tanh}\n    - dense: {name: y, units: 3}\n"
    )
    loss_text = "{mean_squared_error: {prediction: y, target: label}}"
    trained = load(model(layers, "[5]", loss=loss_text), tmp_path)
    randomised(trained)
    weights = as_torch(trained)
    trained.step(1, range(6))
    prediction = dense(weights, "y", torch.tanh(dense(weights, "hidden", images[:6])))
    loss = functional.mse_loss(prediction, targets[:6])
    loss.backward()
    assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-12)
    for key, value in trained.weights().items():
        gradient = weights[key].detach().numpy() - value
        np.testing.assert_allclose(gradient, weights[key].grad.numpy(), rtol=0, atol=1e-12, err_msg=key)


OPTIMIZERS: dict[str, tuple[str, Callable[[list[Any]], Any]]] = {
    "sgd": ("{sgd: {learning_rate: 0.05}}", lambda p: torch.optim.SGD(p, lr=0.05)),
    "momentum": (
        "{momentum: {learning_rate: 0.02, momentum: 0.8}}",
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.8),
    ),
    "adam": (
        "{adam: {learning_rate: 3e-3, beta1: 0.85, beta2: 0.99}}",
        lambda p: torch.optim.Adam(p, lr=3e-3, betas=(0.85, 0.99)),
    ),
    "nesterov": (
        "{nesterov: {learning_rate: 0.02, momentum: 0.8, decay: 0.01}}",
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.8, weight_decay=0.01, nesterov=True),
    ),
    "adamw": (
        "{adamw: {learning_rate: 3e-3, decay: 0.1}}",
        lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.1),
    ),
    "amsgrad": (
        "{amsgrad: {learning_rate: 3e-3, beta2: 0.9}}",
        lambda p: torch.optim.Adam(p, lr=3e-3, betas=(0.9, 0.9), amsgrad=True),
    ),
    "radam": ("{radam: {learning_rate: 3e-3, beta2: 0.9}}", lambda p: torch.optim.RAdam(p, lr=3e-3, betas=(0.9, 0.9))),
    "adamax": ("{adamax: {learning_rate: 3e-3}}", lambda p: torch.optim.Adamax(p, lr=3e-3)),
    "nadam": ("{nadam: {learning_rate: 3e-3}}", lambda p: torch.optim.NAdam(p, lr=3e-3)),
    "rmsprop": (
        "{rmsprop: {learning_rate: 2e-3, smoothing: 0.9, momentum: 0.5}}",
        lambda p: torch.optim.RMSprop(p, lr=2e-3, alpha=0.9, momentum=0.5),
    ),
    "adagrad": (
        "{adagrad: {learning_rate: 0.02, learning_rate_decay: 0.1}}",
        lambda p: torch.optim.Adagrad(p, lr=0.02, lr_decay=0.1),
    ),
    "adadelta": ("{adadelta: {learning_rate: 0.5}}", lambda p: torch.optim.Adadelta(p, lr=0.5)),
}

NET = """\
    - conv2d: {name: one, filters: 6, kernel: 3, padding: same, activation: relu}
    - batch_norm: {name: norm, momentum: 0.8}  # the part that is kept; PyTorch counts the other one
    - max_pool2d: {size: 2}
    - conv2d: {name: two, filters: 8, kernel: [3, 2], stride: 1, groups: 2, activation: silu}
    - flatten: {}
    - dropout: {rate: 0}
    - dense: {name: hidden, units: 11, activation: tanh}
    - dense: {name: logits, units: 3}
"""


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ten_training_steps(tmp_path: Path, optimizer: str) -> None:
    """A convolutional network with batch statistics, trained for ten batches, the last of an epoch a short one; then
    evaluated with the running statistics."""
    images, labels = samples(tmp_path, (2, 8, 8))
    text, make = OPTIMIZERS[optimizer]
    trained = load(model(NET, "[2, 8, 8]", text), tmp_path)
    weights = as_torch(trained)
    mean, var = torch.zeros(6, dtype=torch.float64), torch.ones(6, dtype=torch.float64)
    rule = make(list(weights.values()))

    def forward(x: Any, training: bool) -> Any:
        x = torch.relu(conv(weights, "one", x, padding=1))
        x = functional.batch_norm(
            x, mean, var, weights["norm.weight"], weights["norm.bias"], training, momentum=0.2, eps=1e-5
        )
        x = functional.silu(conv(weights, "two", functional.max_pool2d(x, 2), groups=2))
        return dense(weights, "logits", torch.tanh(dense(weights, "hidden", x.flatten(1))))

    batches = [range(8), range(8, 16), range(16, 20)]
    for number in range(1, 11):
        chosen = list(batches[(number - 1) % 3])
        trained.step(number, chosen)
        loss = functional.cross_entropy(forward(images[chosen], True), labels[chosen])
        rule.zero_grad()
        loss.backward()
        rule.step()
        assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-8)
    start = load(model(NET, "[2, 8, 8]", text), tmp_path).weights()
    for key, value in trained.weights().items():
        np.testing.assert_allclose(value, weights[key].detach().numpy(), rtol=0, atol=1e-8, err_msg=key)
        assert np.abs(value - start[key]).max() > 1e-4
    for key, wanted in (("norm.running_mean", mean), ("norm.running_var", var)):
        np.testing.assert_allclose(trained.read(key), wanted.numpy(), rtol=0, atol=1e-9)
    trained.metric("loss"), trained.metric("count")
    trained.step(1, range(5), "eval")
    with torch.no_grad():
        loss = functional.cross_entropy(forward(images[:5], False), labels[:5])
    assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-8)
