"""Multilayer perceptron training steps in PyTorch eager, one thread (see bench_mlp.py).

Usage: mlp_torch.py DATA.npz BATCH STEPS     prints one JSON object.

A step takes the next batch of a shuffled epoch, computes the loss and its gradients and applies
Adam, as a plain training loop does.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch import nn


def main() -> None:
    path, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    data = np.load(path)
    images = torch.from_numpy(data["images"].astype(np.float32) / 255)
    labels = torch.from_numpy(data["labels"].astype(np.int64))
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, 10),
    )
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
