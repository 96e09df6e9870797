"""Claim: a training step of ResNet-20 (32x32 images, gradient descent with momentum, float32) on one GPU is faster than
PyTorch's captured CUDA graph: at batch 32 at most 1.5 ms, at batch 256 at most 8 ms (H200).

Measured as bench_gpu_lenet5.py measures LeNet-5.

Usage: bench_gpu_resnet20.py [--batches 32,256] [--steps 100] [--rounds 5] [--only netloom,eager,graph] [--kernels]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE
from gpu_training import EPOCH, Subject, main, model_of_benchmarks


def make_data(folder: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """images.npz: uint8 (n, 3, 32, 32), int32 (n,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    patterns = np.kron(random.random((10, 3, 8, 8)), np.ones((4, 4)))
    labels = random.integers(0, 10, EPOCH * batch, dtype=np.int32)
    noisy = 0.5 * patterns[labels] + 0.5 * random.random((len(labels), 3, 32, 32))
    images = (255 * noisy).astype(np.uint8)
    np.savez(folder / "images.npz", images=images, labels=labels)
    return images, labels


def torch_resnet20() -> tuple[Any, Callable[[bool], Any]]:
    """The same network and optimizer in PyTorch, on the device."""
    import torch

    sys.path.insert(0, str(HERE / "peers"))
    from training_torch import resnet20

    model = resnet20().to("cuda")
    return model, lambda captured: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True)


if __name__ == "__main__":
    model = partial(model_of_benchmarks, "resnet20")
    subject = Subject("resnet20", "ResNet-20, momentum", (32, 256), make_data, model, torch_resnet20)
    main([subject], __doc__ or "", __file__, 100)
