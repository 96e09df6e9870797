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
PENALTIES = (
    *(
        "{l2: 1e-2}",
        "{l1: 1e-3}",
        "{l1: 1e-3, l2: 1e-2, of: all}",
        "[{l2: 0.1, of: out}, {l1: 0.01, of: [biases, norms]}]",
    ),
)
RULES = (
    "{params: {rate: 0.02}, update: [param = param - rate * gradient]}",
    "{params: {rate: 0.02}, state: {m: 0}, update: [m = 0.9 * m + gradient, 'param = param - rate * tanh(m)']}",
    "{params: {rate: 0.01}, state: {s: 0, n: 1}, update: [s = s + gradient ** 2, n = n + 1, "
    "param = param - rate * gradient / (sqrt(s / n) + 1e-3)]}",
)


def data(seed: int) -> dict[str, np.ndarray]:
    """What the file of a model holds: images, lines, numbers; classes and values to be learned."""
    rng = np.random.default_rng(seed)
    return {
        "images": rng.normal(size=(SAMPLES, 2, 6, 6)).astype(np.float32),
        "lines": rng.normal(size=(SAMPLES, 5, 6)).astype(np.float32),
        "there": (np.arange(5) <= rng.integers(0, 5, (SAMPLES, 1))).astype(np.float32),
        "numbers": rng.normal(size=(SAMPLES, 7)).astype(np.float32),
        "classes": rng.integers(0, 3, SAMPLES),
        "values": rng.normal(size=(SAMPLES, 3)).astype(np.float32),
        "parts": rng.dirichlet([1, 1, 1], SAMPLES).astype(np.float32),
        "signs": rng.integers(0, 2, (SAMPLES, 3)).astype(np.float32),
    }


def layer_model(seed: int, order: str = "bitwise") -> str:
    """The text of a model, which reads `data.npz` beside it."""
    rng = random.Random(f"layers {seed}")
    kind = rng.choice(("images", "images", "lines", "lines", "numbers"))
    shape = {"images": "[2, 6, 6]", "lines": "[5, 6]", "numbers": "[7]"}[kind]
    layers = {"images": _of_images, "lines": _of_lines, "numbers": _of_numbers}[kind](rng)
    first = layers[0].replace("{", "{inputs: x, ", 1).replace(", }", "}") if "inputs:" not in layers[0] else layers[0]
    layers = [first, *layers[1:], "dense: {name: out, units: 3}"]
    loss, target, like = _loss(rng)
    optimizer, own = rng.choice(OPTIMIZERS), rng.random() < 0.15
    rate = rng.choice(("0.01", "1e-3", "'0.01 * cosine_decay(step, steps)'"))
    settings = "" if optimizer == "adadelta" else f"learning_rate: {rate}"
    batch = rng.choice((BATCH, 5, 16))
    extra = [f"  clip: {{norm: {rng.choice((1, 5))}}}"] if rng.random() < 0.3 else []
    extra += [f"  accumulate: {2}"] if batch < 10 and rng.random() < 0.3 else []
    extra += [f"  penalty: {rng.choice(PENALTIES)}"] if rng.random() < 0.4 else []
    extra += [f"  average: {rng.choice((0.5, 0.9))}"] if rng.random() < 0.3 else []
    extra += (
        [f"  groups: [{rng.choice(_groups(settings, own, any('average' in x for x in extra)))}]"]
        if rng.random() < 0.3
        else []
    )
    masked = any("mask: there" in x for x in layers)
    there = ("there: {shape: [5]}", ", there: there") if masked else ("", "")
    return "\n".join(
        [
            "language: 1",
            f"name: layers_{seed}",
            "network:",
            "  inputs:",
            f"    x: {{shape: {shape}}}",
            f"    y: {{{like}}}",
            *([f"    {there[0]}"] if masked else []),
            "  layers:",
            *(f"    - {x}" for x in layers),
            "train:",
            "  data:",
            "    file: data.npz",
            f"    inputs: {{x: {kind}, y: {target}{there[1]}}}",
            *(["    split: {validation: 0.3}"] if rng.random() < 0.6 else []),
            f"  loss: {loss}",
            f"  optimizer: {{{'own' if own else optimizer}: {{{'' if own else settings}}}}}",
            *extra,
            f"  batch: {batch}",
            "  epochs: 2",
            f"  seed: {rng.randrange(1000)}",
            f"numerics: {{precision: {rng.choice(('float32', 'float64'))}, order: {order}}}",
            *([f"optimizers: {{own: {rng.choice(RULES)}}}"] if own else []),
            "",
        ]
    )


def _groups(settings: str, own: bool, averaged: bool) -> tuple[str, ...]:
    """Groups of weights that are trained in another way."""
    fixed = not own and settings.startswith("learning_rate: ") and "'" not in settings
    rates = ("{of: out, set: {learning_rate: 1e-3}}", "{of: biases, set: {learning_rate: 0.1}}") if fixed else ()
    turns = ("{of: biases, every: 2}", "{of: all, every: 2, first: 1}, {of: out, every: 2}")
    return ("{of: biases, frozen: true}", "{of: out, frozen: true}", *rates, *(() if averaged else turns))


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
    conv = f"conv1d: {{filters: 4, kernel: {rng.choice((1, 3))}, padding: same}}"
    swap = "permute: {axes: [1, 0]}"
    first = (["dense: {units: 4}"], ["positions: {encoding: trained}"], ["layer_norm: {}"], [swap, conv, swap])
    layers = list(rng.choice(first))
    for _ in range(rng.choice((0, 0, 1))):
        layers.append(_recurrent(rng, ", sequence: true"))
    last = rng.choice(("", ", sequence: true"))
    mask = rng.choice(("", ", mask: there"))
    layer = _recurrent(rng, last) if rng.random() < 0.75 else f"attention: {{heads: 2, size: 4{mask}}}"
    layers += [layer, *_between(rng, ("layer_norm",))]
    flat = "sequence" in layer or layer.startswith("attention")
    return [*layers, *(["flatten: {}"] if flat else [])]


def _recurrent(rng: random.Random, last: str) -> str:
    both = rng.choice(("", "", ", bidirectional: true"))
    mask = rng.choice(("", "", ", mask: there"))
    bias = rng.choice(("", "", ", bias: false"))
    kind = rng.choice(("lstm", "gru", "gru", "rnn"))
    own = {"lstm": ("",), "gru": ("", ", reset: before"), "rnn": ("", ", function: relu")}[kind]
    return f"{kind}: {{units: {rng.randint(1, 5)}{both}{last}{mask}{bias}{rng.choice(own)}}}"


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
