"""Claim: a training step of LeNet-5 (28x28 images, Adam, float32) on one GPU is faster than PyTorch's captured CUDA
graph: at batch 64 at most 90 us, at batch 1024 at most 300 us (H100, H200).

Measured, on one GPU, one contestant after the other, each in a process of its own: microseconds of a step (taking a
shuffled batch from data on the device, loss, gradients and the update of every weight), as the median over rounds of
`--steps` steps each, waiting for the device only at the end of a round. Netloom runs its graphs of several steps;
PyTorch runs eager and as one captured graph per step (capturable Adam). The last loss of each is printed as a check
that all of them learn.

Usage: bench_gpu_lenet5.py [--batches 64,1024] [--steps 400] [--rounds 5] [--only netloom,eager,graph] [--kernels]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_training import EPOCH, Subject, main, model_of_benchmarks


def make_data(folder: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """images.npz: uint8 (n, 1, 28, 28), int32 (n,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    patterns = np.kron(random.random((10, 7, 7)), np.ones((4, 4)))
    labels = random.integers(0, 10, EPOCH * batch, dtype=np.int32)
    noisy = 0.5 * patterns[labels] + 0.5 * random.random((len(labels), 28, 28))
    images = (255 * noisy[:, None]).astype(np.uint8)
    np.savez(folder / "images.npz", images=images, labels=labels)
    return images, labels


def torch_lenet5() -> tuple[Any, Callable[[bool], Any]]:
    """The same network and Adam in PyTorch, on the device."""
    import torch
    from torch import nn

    features = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()]
    head = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    model = nn.Sequential(*features, nn.MaxPool2d(2), nn.Flatten(), *head).to("cuda")
    return model, lambda captured: torch.optim.Adam(model.parameters(), lr=1e-3, capturable=captured)


if __name__ == "__main__":
    model = partial(model_of_benchmarks, "lenet5")
    main([Subject("lenet5", "LeNet-5, Adam", (64, 1024), make_data, model, torch_lenet5)], __doc__ or "", __file__, 400)
