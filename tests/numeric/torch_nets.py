"""What the comparisons with PyTorch share: a model's text, its data, weights as tensors, a dense layer.

Assumes: PyTorch where its functions are called; this module can be imported without.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.numeric.trained import Trained

Weights = dict[str, Any]


def model(layers: str, shape: str, optimizer: str = "{sgd: {learning_rate: 1}}", loss: str = "") -> str:
    loss = loss or "{softmax_cross_entropy: {logits: logits, target: label}}"
    label = "{shape: [3]}" if "mean" in loss else "{shape: [], dtype: int32}"
    return f"""\
language: 1
name: compared
network:
  inputs: {{image: {{shape: {shape}}}, label: {label}}}
  layers:
{layers}
train:
  data: {{file: samples.npz, inputs: {{image: images, label: labels}}, shuffle: false}}
  loss: {loss}
  optimizer: {optimizer}
  batch: 8
  epochs: 1
  seed: 1
numerics: {{precision: float64}}
functions:
  bump(x): x * exp(-x * x) + 0.1 * abs(x)
"""


def samples(folder: Path, shape: tuple[int, ...], real_labels: bool = False, ties: bool = False) -> tuple[Any, Any]:
    """20 samples, written as the model's data; with `ties` many pixels are equal."""
    rng = np.random.default_rng(5)
    images = rng.normal(size=(20, *shape))
    if ties:
        images = np.round(images)
    labels: Any = rng.normal(size=(20, 3)) if real_labels else rng.integers(0, 3, 20).astype(np.int32)
    np.savez(folder / "samples.npz", images=images, labels=labels)
    import torch

    return torch.tensor(images), torch.tensor(labels if real_labels else labels.astype(np.int64))


def as_torch(trained: Trained) -> Weights:
    """The weights as leaves of PyTorch's graph."""
    import torch

    return {n: torch.tensor(v, requires_grad=True) for n, v in trained.weights().items()}


def dense(w: Weights, name: str, x: Any) -> Any:
    import torch

    return torch.nn.functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))
