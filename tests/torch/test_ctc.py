"""Connectionist temporal classification against PyTorch's ctc_loss, in float64: lengths, means, infinite losses.
By definition: tests/numeric/test_ctc.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.numeric.test_ctc import BLANK, LENGTHS, TEXT, samples, stepped
from tests.numeric.trained import load

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc", "not_optimized")]


@pytest.mark.parametrize("settings", ["", "mean: samples, ", "zero_infinity: true, "])
def test_lengths(tmp_path: Path, settings: str) -> None:
    """The sixth sample has an infinite loss."""
    data = {n: torch.tensor(v) for n, v in samples(tmp_path).items()}
    trained = load(TEXT.replace("LENGTHS", LENGTHS + settings), tmp_path)
    start = trained.weights()
    zero = settings.startswith("zero")
    for rows in (np.array([0, 1, 2, 3, 4, 5 if zero else 6]), np.array([7, 8, 0])):
        w = {k: torch.tensor(v, requires_grad=True) for k, v in start.items()}
        x, words, steps, count = (data[n][rows] for n in ("x", "words", "steps", "count"))
        logs = torch.log_softmax(functional.linear(x, w["scores.weight"], w["scores.bias"]), -1).transpose(0, 1)
        mean = "sum" if "samples" in settings else "mean"
        loss = functional.ctc_loss(logs, words, steps, count, BLANK, reduction=mean, zero_infinity=zero)
        if mean == "sum":
            loss = loss / len(rows)
        loss.backward()
        found, gradients = stepped(trained, start, rows)
        assert found["loss"] == pytest.approx(loss.item(), rel=1e-12)
        for key, gradient in gradients.items():
            grad = w[key].grad
            assert grad is not None
            np.testing.assert_allclose(gradient, grad.numpy(), rtol=1e-10, atol=1e-12, err_msg=key)
