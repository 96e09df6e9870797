"""Random networks of layers, with losses and optimizers, drawn from a seed."""

from __future__ import annotations

import random

import numpy as np

ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu", "softplus", "elu", "leaky_relu")
OPTIMIZERS = (
    *("sgd", "momentum", "nesterov", "adam", "adamw", "amsgrad", "nadam", "rmsprop", "adagrad", "adadelta"),
    *("lamb", "lion"),
)  # fmt: skip
SAMPLES, BATCH = 22, 8


def data(seed: int) -> dict[str, np.ndarray]:
    """What the file of a model holds: images, lines, numbers; classes and values to be learned."""
    rng = np.random.default_rng(seed)
    return {
        "images": rng.normal(size=(SAMPLES, 2, 6, 6)).astype(np.float32),
        "lines": rng.normal(size=(SAMPLES, 5, 6)).astype(np.float32),
        "numbers": rng.normal(size=(SAMPLES, 7)).astype(np.float32),
        "classes": rng.integers(0, 3, SAMPLES),
        "values": rng.normal(size=(SAMPLES, 3)).astype(np.float32),
        "parts": rng.dirichlet([1, 1, 1], SAMPLES).astype(np.float32),
        "signs": rng.integers(0, 2, (SAMPLES, 3)).astype(np.float32),
    }


def layer_model(seed: int) -> str:
    """The text of a model, which reads `data.npz` beside it."""
    rng = random.Random(f"layers {seed}")
    kind = rng.choice(("images", "images", "lines", "lines", "numbers"))
    shape = {"images": "[2, 6, 6]", "lines": "[5, 6]", "numbers": "[7]"}[kind]
    layers = {"images": _of_images, "lines": _of_lines, "numbers": _of_numbers}[kind](rng)
    first = layers[0].replace("{", "{inputs: x, ", 1).replace(", }", "}") if "inputs:" not in layers[0] else layers[0]
    layers = [first, *layers[1:], "dense: {name: out, units: 3}"]
    loss, target, like = _loss(rng)
    optimizer = rng.choice(OPTIMIZERS)
    rate = rng.choice(("0.01", "1e-3", "'0.01 * cosine_decay(step, steps)'"))
    settings = "" if optimizer == "adadelta" else f"learning_rate: {rate}"
    batch = rng.choice((BATCH, 5, 16))
    extra = [f"  clip: {{norm: {rng.choice((1, 5))}}}"] if rng.random() < 0.3 else []
    extra += [f"  accumulate: {2}"] if batch < 10 and rng.random() < 0.3 else []
    return "\n".join(
        [
            "language: 1",
            f"name: layers_{seed}",
            "network:",
            "  inputs:",
            f"    x: {{shape: {shape}}}",
            f"    y: {{{like}}}",
            "  layers:",
            *(f"    - {x}" for x in layers),
            "train:",
            "  data:",
            "    file: data.npz",
            f"    inputs: {{x: {kind}, y: {target}}}",
            *(["    split: {validation: 0.3}"] if rng.random() < 0.6 else []),
            f"  loss: {loss}",
            f"  optimizer: {{{optimizer}: {{{settings}}}}}",
            *extra,
            f"  batch: {batch}",
            "  epochs: 2",
            f"  seed: {rng.randrange(1000)}",
            f"numerics: {{precision: {rng.choice(('float32', 'float64'))}, order: bitwise}}",
            "",
        ]
    )


def _loss(rng: random.Random) -> tuple[str, str, str]:
    """(the loss, the array of its targets, what the input of the targets is)."""
    like = "shape: [3]"
    return rng.choice(
        (
            ("{softmax_cross_entropy: {logits: out, target: y}}", "classes", "shape: [], dtype: int32"),
            ("{mean_squared_error: {prediction: out, target: y}}", "values", like),
            ("{mean_absolute_error: {prediction: out, target: y}}", "values", like),
            ("{huber: {prediction: out, target: y, delta: 0.7}}", "values", like),
            ("{binary_cross_entropy: {logits: out, target: y}}", "signs", like),
            ("{expression: {value: (out - y) ** 2 + 0.1 * abs(out)}}", "values", like),
        )
    )


def _activated(rng: random.Random) -> str:
    return f", activation: {rng.choice(ACTIVATIONS)}" if rng.random() < 0.6 else ""


def _between(rng: random.Random, norms: tuple[str, ...]) -> list[str]:
    """Layers that keep the shape."""
    found = []
    for _ in range(rng.randint(0, 2)):
        found.append(
            rng.choice(
                (
                    f"activation: {{function: {rng.choice(ACTIVATIONS)}}}",
                    *(f"{n}: {{}}" for n in norms),
                    "dropout: {rate: 0.3}",
                    "softmax: {}",
                    "noise: {std: 0.1}",
                )
            )
        )
    return found


def _of_images(rng: random.Random) -> list[str]:
    layers = []
    for first in rng.choice(((True,), (True, False))):
        kernel, stride = rng.choice((1, 2, 3)), rng.choice((1, 2)) if first else 1
        bias = rng.choice(("", ", bias: false"))
        padding = kernel // 2 if not first or kernel == 3 else 0
        groups = rng.choice(("", "", ", groups: 2"))
        layers.append(
            f"conv2d: {{filters: {rng.choice((2, 4))}, kernel: {kernel}, stride: {stride}, padding: {padding}"
            f"{groups}{bias}{_activated(rng)}}}"
        )
        layers += _between(rng, ("batch_norm", "layer_norm"))
    moved = ("max_pool2d: {size: 2}", "avg_pool2d: {size: 2}", "upsample: {factor: 2}", "pad: {before: [0, 1, 2]}")
    layers.append(rng.choice(moved))
    end = rng.choice((["flatten: {}"], ["global_avg_pool: {}"]))
    return [*layers, *end]


def _of_lines(rng: random.Random) -> list[str]:
    layers = [rng.choice(("dense: {units: 4}", "positions: {encoding: trained}", "layer_norm: {}"))]
    both = rng.choice(("", ", bidirectional: true"))
    last = rng.choice(("", ", sequence: true"))
    layer = rng.choice(
        (
            *(f"lstm: {{units: 4{both}{last}}}", f"gru: {{units: 3{both}{last}}}"),
            *(f"rnn: {{units: 4{last}}}", "attention: {heads: 2}"),
        )
    )
    layers += [layer, *_between(rng, ("layer_norm",))]
    flat = "sequence" in layer or layer.startswith("attention")
    return [*layers, *(["flatten: {}"] if flat else [])]


def _of_numbers(rng: random.Random) -> list[str]:
    layers = [f"dense: {{name: a, units: {rng.randint(1, 9)}{_activated(rng)}}}"]
    layers += _between(rng, ("batch_norm", "layer_norm"))
    if rng.random() < 0.5:
        width = rng.randint(2, 6)
        layers += [
            f"dense: {{name: b, units: {width}}}",
            f"dense: {{name: c, units: {width}{_activated(rng)}}}",
            f"{rng.choice(('add', 'multiply'))}: {{inputs: [b, c]}}",
        ]
    return layers
