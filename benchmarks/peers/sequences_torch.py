"""Training steps of a transformer and of an LSTM in PyTorch eager, one thread (see bench_sequences.py).

Usage: sequences_torch.py transformer|lstm DATA.npz BATCH STEPS     prints one JSON object.

A step takes the next batch of a shuffled epoch, computes the loss and its gradients and applies Adam, as a plain
training loop does.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch import nn


class Transformer(nn.Module):
    """Two encoder blocks with the normalisation first, trained positions, the mean over steps."""

    def __init__(self, width: int = 64, heads: int = 4, blocks: int = 2) -> None:
        super().__init__()
        self.inside = nn.Linear(28, width)
        self.positions = nn.Parameter(torch.zeros(28, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, nn.LayerNorm(width), enable_nested_tensor=False)
        self.outside = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.outside(self.blocks(self.inside(x) + self.positions).mean(1))
        return y


class Lstm(nn.Module):
    """The last state of one LSTM layer."""

    def __init__(self, units: int = 64) -> None:
        super().__init__()
        self.cells = nn.LSTM(28, units, batch_first=True)
        self.outside = nn.Linear(units, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, (last, _) = self.cells(x)
        y: torch.Tensor = self.outside(last[0])
        return y


def main() -> None:
    kind, path, batch, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    data = np.load(path)
    images = torch.from_numpy(data["images"][:, 0].astype(np.float32) / 255)
    labels = torch.from_numpy(data["labels"].astype(np.int64))
    model = Transformer() if kind == "transformer" else Lstm()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()

    def train(count: int) -> float:
        """Run `count` steps; the loss of the last one."""
        order = torch.randperm(len(images))
        per_epoch = len(images) // batch
        loss = torch.zeros(())
        for step in range(count):
            if step % per_epoch == 0:
                order = torch.randperm(len(images))
            chosen = order[step % per_epoch * batch :][:batch]
            optimizer.zero_grad()
            loss = loss_of(model(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
        return loss.item()

    train(20)  # memory pools, lazily created state
    started = time.process_time()
    loss = train(steps)
    seconds = time.process_time() - started
    print(json.dumps({"cpu_ms_per_step": 1000 * seconds / steps, "last_loss": loss}))


if __name__ == "__main__":
    main()
