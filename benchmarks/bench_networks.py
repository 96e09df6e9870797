"""What a training step takes of networks that no rule of Netloom was made for, and of four that are known, beside
PyTorch: depthwise and grouped convolutions, concatenations, volumes, U-Nets, patches with attention, words, causal
convolutions, points.

Measured on a GPU as bench_gpu_lenet5.py measures LeNet-5, beside PyTorch's captured CUDA graph. In float32 PyTorch
computes with its defaults: products in float32, convolutions in tf32. Names that end in `_mixed`: mixed precision,
PyTorch in bf16 with channels last. With --target cpu on one thread of a core, at batch 8 and 32, beside PyTorch as it
comes (benchmarks/setup.sh torch): wall and CPU time of a step.

Usage: bench_networks.py [--target cuda|cpu] [--subjects vgg,mobilenet,...] [--batches N] [--steps 40] [--rounds 3]
       [--runs 1] [--only netloom,eager,graph] [--kernels]     (with --target cpu: netloom, eager, channels_last)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_training import PEERS, Subject, main, model_of_benchmarks

from compiler.ir.level0.model import Model

BATCHES = 8
"""Of the data set."""


def images(shape: tuple[int, ...], classes: int, labelled: tuple[int, ...], folder: Path, batch: int) -> Any:
    """images.npz: uint8 (n, *shape), int32 (n, *labelled): noise, whose mean tells the class of a whole image."""
    random = np.random.default_rng(1)
    labels = random.integers(0, classes, (BATCHES * batch, *labelled), dtype=np.int32)
    samples = random.integers(0, 128, (BATCHES * batch, *shape), dtype=np.uint8)
    if not labelled:
        samples += (labels * 127 // classes).astype(np.uint8).reshape(-1, *[1] * len(shape))
    np.savez(folder / "images.npz", images=samples, labels=labels)
    return samples, labels


def words(steps: int, count: int, folder: Path, batch: int, classes: int | None = None) -> Any:
    """words.npz: int32 (n, steps) words, and those that follow them in a walk of random steps, as one of `classes`."""
    random = np.random.default_rng(1)
    walk = np.cumsum(random.integers(1, 4, (BATCHES * batch, steps + 1), dtype=np.int32), 1, dtype=np.int32) % count
    first, then = np.ascontiguousarray(walk[:, :-1]), np.ascontiguousarray(walk[:, 1:] % (classes or count))
    np.savez(folder / "words.npz", words=first, next=then)
    return first, then


def in_torch(name: str, mixed: bool) -> tuple[Any, Callable[[bool], Any]]:
    sys.path.insert(0, str(PEERS))
    from networks_torch import NETWORKS, Mixed, optimizer_of

    model = NETWORKS[name]().to("cuda")
    if mixed:
        model = Mixed(model)
    return model, optimizer_of(name, model)


def in_mixed_precision(name: str, folder: Path, batch: int) -> Model:
    found = model_of_benchmarks(name, folder, batch)
    return replace(found, numerics=replace(found.numerics, precision="mixed"))


def subject(name: str, batch: int, data: Callable[[Path, int], Any], mixed: bool = False) -> Subject:
    title, own = f"benchmarks/models/{name}.yaml", name + "_mixed" * mixed
    model = partial(in_mixed_precision if mixed else model_of_benchmarks, name)
    torch, precision = partial(in_torch, name, mixed), "mixed" if mixed else "float32"
    return Subject(
        own, title, (batch,), data, model, torch, ("graph", "eager", "netloom"), precision, name * (not mixed)
    )


SUBJECTS = (
    subject("vgg", 128, partial(images, (3, 32, 32), 10, ())),
    subject("mobilenet", 64, partial(images, (3, 96, 96), 100, ())),
    subject("densenet", 64, partial(images, (3, 32, 32), 10, ())),
    subject("unet", 32, partial(images, (1, 64, 64), 4, (64, 64))),
    subject("vit", 128, partial(images, (3, 32, 32), 10, ())),
    subject("words", 32, partial(words, 64, 10000)),
    subject("wavenet", 16, partial(words, 1024, 256)),
    subject("wide", 256, partial(images, (1024,), 1000, ())),
    subject("convnext", 32, partial(images, (3, 128, 128), 100, ())),
    subject("efficientnet", 64, partial(images, (3, 96, 96), 100, ())),
    subject("resnext", 32, partial(images, (3, 64, 64), 100, ())),
    subject("video", 16, partial(images, (3, 16, 32, 32), 20, ())),
    subject("segments", 16, partial(images, (3, 64, 64), 8, (64, 64))),
    subject("mixer", 128, partial(images, (3, 32, 32), 10, ())),
    subject("points", 32, partial(images, (3, 1024), 40, ())),
    subject("tagger", 64, partial(words, 100, 10000, classes=50)),
    subject("llama", 8, partial(words, 512, 8192)),
    subject("long", 4, partial(words, 2048, 256)),
    subject("lenet5", 64, partial(images, (1, 28, 28), 10, ())),
    subject("mlp", 64, partial(images, (1, 28, 28), 10, ())),
    subject("resnet20", 32, partial(images, (3, 32, 32), 10, ())),
    subject("gpt", 16, partial(words, 128, 256)),
    subject("vgg", 128, partial(images, (3, 32, 32), 10, ()), mixed=True),
    subject("mobilenet", 64, partial(images, (3, 96, 96), 100, ()), mixed=True),
    subject("densenet", 64, partial(images, (3, 32, 32), 10, ()), mixed=True),
    subject("unet", 32, partial(images, (1, 64, 64), 4, (64, 64)), mixed=True),
    subject("vit", 128, partial(images, (3, 32, 32), 10, ()), mixed=True),
    subject("convnext", 32, partial(images, (3, 128, 128), 100, ()), mixed=True),
    subject("efficientnet", 64, partial(images, (3, 96, 96), 100, ()), mixed=True),
    subject("resnext", 32, partial(images, (3, 64, 64), 100, ()), mixed=True),
    subject("video", 16, partial(images, (3, 16, 32, 32), 20, ()), mixed=True),
    subject("segments", 16, partial(images, (3, 64, 64), 8, (64, 64)), mixed=True),
    subject("mixer", 128, partial(images, (3, 32, 32), 10, ()), mixed=True),
    subject("llama", 8, partial(words, 512, 8192), mixed=True),
    subject("long", 4, partial(words, 2048, 256), mixed=True),
)


if __name__ == "__main__":
    main(SUBJECTS, __doc__ or "", __file__, 40)
