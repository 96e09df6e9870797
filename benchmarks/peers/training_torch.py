"""Training steps in PyTorch, one thread (see bench_training.py).

Usage: training_torch.py lenet5|mlp|resnet20|transformer|lstm|lstm256|gpt8|gpt16 eager|channels_last|compile DATA.npz
       BATCH STEPS
prints one JSON object. Sequences are the rows of an image, or words.

A step takes the next batch of a shuffled epoch, computes the loss and its gradients and applies the optimizer, as a
plain training loop does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

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


class Attention(nn.Module):
    """Causal attention of several heads with trained projections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inside = nn.Linear(width, 3 * width)
        self.outside = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, steps, width = x.shape
        parts = self.inside(x).view(n, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        y: torch.Tensor = self.outside(seen.transpose(1, 2).reshape(n, steps, width))
        return y


class Gpt(nn.Module):
    """GPT-2 (Radford et al. 2019): the score of each word to come next."""

    def __init__(self, words: int = 256, steps: int = 128, width: int = 512, heads: int = 8, blocks: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Parameter(torch.zeros(steps, width))

        def block() -> nn.ModuleList:
            body = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            return nn.ModuleList([nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width), body])

        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.outside = nn.Linear(width, words)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.positions
        for first, attention, second, body in self.blocks:  # type: ignore[misc]
            x = x + attention(first(x))
            x = x + body(second(x))
        y: torch.Tensor = self.outside(self.norm(x)).transpose(1, 2)
        return y


def lenet5() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def resnet20() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    before = 16
    for width in (16, 32, 64):
        for _ in range(3):
            layers.append(Block(before, width))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def main() -> None:
    name, mode, path, batch, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    data = np.load(path)
    if name in ("gpt8", "gpt16"):
        images = torch.from_numpy(data["words"].astype(np.int64))
        labels = torch.from_numpy(data["next"].astype(np.int64))
    else:
        images = torch.from_numpy(data["images"].astype(np.float32) / 255)
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    if name in ("transformer", "lstm", "lstm256"):
        images = images[:, 0]
    kinds: dict[str, Callable[[], nn.Module]] = {
        "lenet5": lenet5,
        "mlp": mlp,
        "resnet20": resnet20,
        "transformer": Transformer,
        "lstm": Lstm,
        "lstm256": lambda: Lstm(256),
        "gpt8": Gpt,
        "gpt16": Gpt,
    }
    model = kinds[name]()
    if mode == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = images.to(memory_format=torch.channels_last)
    if name == "resnet20":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    run = torch.compile(model) if mode == "compile" else model
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
            loss = loss_of(run(images[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
        return loss.item()

    train(3 if name in ("resnet20", "gpt8", "gpt16") else 20)  # memory pools, lazily created state, compiling
    started = time.process_time()
    loss = train(steps)
    seconds = time.process_time() - started
    print(json.dumps({"cpu_ms_per_step": 1000 * seconds / steps, "last_loss": loss}))


if __name__ == "__main__":
    main()
