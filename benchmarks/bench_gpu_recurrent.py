"""Claim: a training step of recurrent layers on one GPU is faster as chains (one launch walks all steps and keeps the
weights on chip) than launch by launch.

Measured as bench_gpu_lenet5.py measures LeNet-5, with Adam, beside cuDNN's layers in PyTorch, eager and as one captured
graph per step. "launches" is Netloom without chains. The samples are random sequences of 8 numbers a step, which
nothing can be learned from but by heart.

Usage: bench_gpu_recurrent.py [--subjects lstm_64,...] [--steps 100] [--rounds 5]
    [--only netloom,launches,eager,graph] [--kernels]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT
from gpu_training import MAKERS, Subject, main

sys.path.insert(0, str(ROOT))
from compiler.ir.level0.model import Model
from tests.recurrent import Network, network

NETWORKS = {
    "rnn_128": Network("rnn", 128, 50),
    "gru_64_two_layers": Network("gru", 64, 50, layers=2),
    "lstm_64": Network("lstm", 64, 50),
    "lstm_64_two_layers_both_ways": Network("lstm", 64, 50, layers=2, bidirectional=True),
    "gru_128": Network("gru", 128, 50),
    "gru_128_batch_256": Network("gru", 128, 50, batch=256),
    "lstm_32_batch_512": Network("lstm", 32, 50, batch=512),
    "gru_128_batch_16": Network("gru", 128, 50, batch=16),
    "lstm_128": Network("lstm", 128, 50),
    "lstm_128_both_ways": Network("lstm", 128, 50, bidirectional=True),
    "lstm_200": Network("lstm", 200, 50),
    "rnn_256": Network("rnn", 256, 50),
    "gru_256": Network("gru", 256, 50),
    "lstm_256": Network("lstm", 256, 50),
    "lstm_512": Network("lstm", 512, 100),
    "gru_512": Network("gru", 512, 100),
    "lstm_1024": Network("lstm", 1024, 100),
}


def make_data(n: Network, folder: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """sequences.npz: float32 (samples, steps, 8), int32 (samples,)."""
    assert batch == n.batch, "a subject has its own batch size"
    network(folder, n)
    data = np.load(folder / "sequences.npz")
    return data["x"], data["label"]


def model(n: Network, folder: Path, batch: int) -> Model:
    return network(folder, n)


def torch_model(n: Network) -> tuple[Any, Callable[[bool], Any]]:
    """The same layers by cuDNN, the state after the last step into a dense layer, and Adam."""
    import torch
    from torch import nn

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[n.kind]
            settings = {"num_layers": n.layers, "bidirectional": n.bidirectional, "batch_first": True}
            self.cells = layer(8, n.units, **settings)
            self.outside = nn.Linear(n.units * (1 + n.bidirectional), 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            _, state = self.cells(x)
            hidden = state[0] if n.kind == "lstm" else state
            last = torch.cat([hidden[-2], hidden[-1]], 1) if n.bidirectional else hidden[-1]
            y: torch.Tensor = self.outside(last)
            return y

    found = Last().to("cuda")
    return found, lambda captured: torch.optim.Adam(found.parameters(), lr=1e-2, capturable=captured)


def subject(name: str, n: Network) -> Subject:
    makers = partial(make_data, n), partial(model, n), partial(torch_model, n)
    return Subject(name, name.replace("_", " "), (n.batch,), *makers, contestants=(*MAKERS, "launches"))


if __name__ == "__main__":
    main([subject(name, n) for name, n in NETWORKS.items()], __doc__ or "", __file__, 100)
