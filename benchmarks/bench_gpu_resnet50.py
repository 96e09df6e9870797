"""Claim: a training step of ResNet-50 (224x224 images, batch 64, gradient descent with momentum, mixed precision) on
one GPU takes no longer than PyTorch's captured CUDA graph in bf16 with channels last.

Measured as bench_gpu_lenet5.py measures LeNet-5.

Usage: bench_gpu_resnet50.py [--batches 64] [--steps 20] [--rounds 5] [--only netloom,eager,graph] [--kernels]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_training import Subject, main, model_of_benchmarks

BATCHES = 4
"""Of the data set."""
STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
"""Width, outputs, blocks, and the stride of the first one."""


def make_data(folder: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """images.npz: uint8 (n, 3, 224, 224), int32 (n,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 1000, BATCHES * batch, dtype=np.int32)
    patterns = np.kron(random.integers(0, 128, (1000, 3, 7, 7), dtype=np.uint8), np.ones((32, 32), np.uint8))
    images = patterns[labels] + random.integers(0, 128, (len(labels), 3, 224, 224), dtype=np.uint8)
    np.savez(folder / "images.npz", images=images, labels=labels)
    return images, labels


def torch_resnet50() -> tuple[Any, Callable[[bool], Any]]:
    """The same network and optimizer in PyTorch, on the device."""
    import torch
    from torch import nn

    def joined(before: int, out: int, kernel: int, stride: int = 1, active: bool = True) -> list[Any]:
        convolution = nn.Conv2d(before, out, kernel, stride, kernel // 2, bias=False)
        return [convolution, nn.BatchNorm2d(out), *([nn.ReLU()] if active else [])]

    class Block(nn.Module):
        def __init__(self, before: int, width: int, out: int, stride: int) -> None:
            super().__init__()
            layers = joined(before, width, 1) + joined(width, width, 3, stride) + joined(width, out, 1, active=False)
            self.body = nn.Sequential(*layers)
            wider = nn.Sequential(*joined(before, out, 1, stride, active=False))
            self.shortcut = nn.Identity() if before == out else wider

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(x) + self.shortcut(x))

    class ResNet50(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers, before = [*joined(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
            for width, out, blocks, stride in STAGES:
                for n in range(blocks):
                    layers.append(Block(before, width, out, stride if n == 0 else 1))
                    before = out
            self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                y: torch.Tensor = self.body(x.contiguous(memory_format=torch.channels_last))
            return y.float()

    model = ResNet50().to("cuda", memory_format=torch.channels_last)
    return model, lambda captured: torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9, foreach=True)


if __name__ == "__main__":
    model = partial(model_of_benchmarks, "resnet50")
    subject = Subject("resnet50", "ResNet-50, momentum", (64,), make_data, model, torch_resnet50, precision="mixed")
    main([subject], __doc__ or "", __file__, 20)
