"""Peak memory of a training in PyTorch, one thread (see bench_memory.py).

Usage: memory_torch.py lenet5|resnet20|vgg eager|channels_last DATA.npz BATCH STEPS    prints one JSON object.

Counted from after the imports and one product of small matrices, so that libraries are loaded and their pools exist.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from peak import Peak
from torch import nn
from training_torch import lenet5, resnet20


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for width in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(before, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 512), nn.ReLU(inplace=True), nn.Linear(512, 10))


def main() -> None:
    name, mode, path, batch, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    small = nn.Linear(8, 8)
    small(torch.zeros(8, 8)).sum().backward()
    peak = Peak()
    data = np.load(path)
    images = torch.from_numpy(data["images"].astype(np.float32) / 255)
    labels = torch.from_numpy(data["labels"].astype(np.int64))
    model = {"lenet5": lenet5, "resnet20": resnet20, "vgg": vgg}[name]()
    if mode == "channels_last":
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if name == "lenet5":
        optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(steps):
        at = step * batch % len(images)
        chosen = images[at : at + batch]
        if mode == "channels_last":
            chosen = chosen.to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(chosen), labels[at : at + batch]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    print(json.dumps({"peak_mb": peak.bytes() / 1e6}))


if __name__ == "__main__":
    main()
