"""Masked losses and recurrent layers against PyTorch, in float64. Losses by definition: tests/numeric/test_masks.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.numeric.test_masks import samples, text
from tests.numeric.trained import load
from tests.torch.nets import recurrent

SEQUENCES = """\
language: 1
name: packed
network:
  inputs: {{x: {{shape: [5, 3]}}, there: {{shape: [5]}}, y: {{shape: [2]}}}}
  layers:
    - {kind}: {{name: r, inputs: x, units: 4, bidirectional: {both}, mask: there}}
    - dense: {{name: out, units: 2}}
train:
  data: {{file: samples.npz, inputs: {{x: x, there: there, y: y}}}}
  loss: {{mean_squared_error: {{prediction: out, target: y}}}}
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 6
  epochs: 1
numerics: {{precision: float64}}
"""

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc", "not_optimized")]


def test_ignore(tmp_path: Path) -> None:
    """`ignore` is PyTorch's ignore_index, its gradients too."""
    xs, ys, _ = samples(tmp_path, "ignored")
    trained = load(text("ignored"), tmp_path)
    begin = trained.weights()
    w = {k: torch.tensor(v, requires_grad=True) for k, v in begin.items()}
    last = next(n.removesuffix(".weight") for n in w if n.endswith(".weight") and not n.startswith("hidden"))
    h = torch.tanh(torch.tensor(xs[:8]) @ w["hidden.weight"].T + w["hidden.bias"])
    p = (h @ w[f"{last}.weight"].T + w[f"{last}.bias"]).reshape(-1, 4)
    loss = torch.nn.functional.cross_entropy(p, torch.tensor(ys[:8].reshape(-1), dtype=torch.long), ignore_index=-7)
    loss.backward()
    trained.step(1, range(8))
    assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-12)
    for key, value in trained.weights().items():
        grad = w[key].grad
        assert grad is not None
        np.testing.assert_allclose(begin[key] - value, grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("both", [False, True])
def test_packed_sequences(tmp_path: Path, kind: str, both: bool) -> None:
    """A mask of the steps that a sequence has is PyTorch's pack_padded_sequence, the gradients too."""
    lengths = np.array([5, 2, 1, 4, 5, 3])
    rng = np.random.default_rng(3)
    x, there, y = rng.normal(size=(6, 5, 3)), 1.0 * (np.arange(5) < lengths[:, None]), rng.normal(size=(6, 2))
    np.savez(tmp_path / "samples.npz", x=x, there=there, y=y)
    trained = load(SEQUENCES.format(kind=kind, both="true" if both else "false"), tmp_path)
    begin = trained.weights()
    w = {k: torch.tensor(v, requires_grad=True) for k, v in begin.items()}
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), torch.tensor(lengths), True, False)
    ends = recurrent(kind, w, packed, 4, both)[1]
    prediction = torch.cat(list(ends), -1) @ w["out.weight"].T + w["out.bias"]
    loss = torch.nn.functional.mse_loss(prediction, torch.tensor(y))
    loss.backward()
    trained.step(1, range(6))
    assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-12)
    for key, value in trained.weights().items():
        grad = w[key].grad
        assert grad is not None
        np.testing.assert_allclose(begin[key] - value, grad.numpy(), rtol=0, atol=1e-12, err_msg=key)
