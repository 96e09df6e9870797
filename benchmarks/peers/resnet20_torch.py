"""ResNet-20 training steps in PyTorch eager, one thread (see bench_resnet20.py).

Usage: resnet20_torch.py DATA.npz BATCH STEPS     prints one JSON object.

A step takes the next batch of a shuffled epoch, computes the loss and its gradients and applies
momentum, as a plain training loop does.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions and what they are added to (He et al. 2016); a 1x1 convolution where the shape changes."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        stride = 1 if before == width else 2
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride == 2:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, 2, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def main() -> None:
    path, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    data = np.load(path)
    images = torch.from_numpy(data["images"].astype(np.float32) / 255)
    labels = torch.from_numpy(data["labels"].astype(np.int64))
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for width in (16, 32, 64):
        for _ in range(3):
            layers.append(Block(before, width))
            before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
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

    train(3)  # memory pools, lazily created state
    started = time.process_time()
    loss = train(steps)
    seconds = time.process_time() - started
    print(json.dumps({"cpu_ms_per_step": 1000 * seconds / steps, "last_loss": loss}))


if __name__ == "__main__":
    main()
