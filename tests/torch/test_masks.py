"""Masked losses against PyTorch, in float64; tests/numeric/test_masks.py has them by their definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.numeric.test_masks import samples, text
from tests.numeric.trained import load

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
