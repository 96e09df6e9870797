"""The networks of bench_networks.py in PyTorch, and their training steps on one thread of a core.

Usage: networks_torch.py NETWORK FOLDER BATCH STEPS ROUNDS
prints one JSON object. FOLDER has the samples and labels, in a file with both, in this order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from steps_torch import Maker, torch_steps
from torch import nn
from training_torch import Gpt, lenet5, mlp, resnet20


def convolution(before: int, out: int, kernel: int = 3, active: Any = nn.ReLU, **more: int) -> list[Any]:
    joined = nn.Conv2d(before, out, kernel, padding=kernel // 2, bias=False, **more)
    return [joined, nn.BatchNorm2d(out), *([active()] if active else [])]


class Added(nn.Module):
    """What a part adds to its input, or gives instead of it."""

    def __init__(self, body: nn.Module, keep: bool) -> None:
        super().__init__()
        self.body, self.keep = body, keep

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return x + y if self.keep else y


class Joined(nn.Module):
    """The input and what is made of it, one behind the other."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.body(x)], 1)


def vgg() -> nn.Module:
    layers, before = [], 3
    for width in (64, 128, 256):
        layers += [*convolution(before, width), *convolution(width, width), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 512), nn.ReLU(), nn.Linear(512, 10))


def mobilenet() -> nn.Module:
    first = ((32, 16, 1), (96, 24, 2), (144, 24, 1), (144, 32, 2), (192, 32, 1), (192, 32, 1))
    second = ((192, 64, 2), (384, 64, 1), (384, 64, 1), (384, 96, 1), (576, 96, 1))
    layers, before = convolution(3, 32, active=nn.ReLU6, stride=2), 32
    for inner, out, step in first + second:
        parts = convolution(before, inner, 1, nn.ReLU6)
        parts += convolution(inner, inner, 3, nn.ReLU6, stride=step, groups=inner)
        parts += convolution(inner, out, 1, None)
        layers.append(Added(nn.Sequential(*parts), step == 1 and before == out))
        before = out
    layers += [*convolution(96, 640, 1, nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 100)]
    return nn.Sequential(*layers)


def densenet() -> nn.Module:
    def grow(before: int) -> nn.Module:
        parts = [nn.BatchNorm2d(before), nn.ReLU(), *convolution(before, 96, 1)]
        return Joined(nn.Sequential(*parts, nn.Conv2d(96, 24, 3, padding=1, bias=False)))

    layers: list[Any] = [nn.Conv2d(3, 48, 3, padding=1, bias=False), *(grow(48 + 24 * k) for k in range(6))]
    layers += [nn.BatchNorm2d(192), nn.ReLU(), nn.Conv2d(192, 96, 1, bias=False), nn.AvgPool2d(2)]
    layers += [*(grow(96 + 24 * k) for k in range(6)), nn.BatchNorm2d(240), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(240, 10))


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def double(before: int, width: int) -> nn.Module:
            return nn.Sequential(*convolution(before, width), *convolution(width, width))

        self.a, self.b, self.c = double(1, 32), double(32, 64), double(64, 128)
        self.d, self.e = double(128, 64), double(64, 32)
        self.up_b, self.up_a = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(self.pool(a))
        c = self.c(self.pool(b))
        d = self.d(torch.cat([b, self.up_b(c)], 1))
        y: torch.Tensor = self.last(self.e(torch.cat([a, self.up_a(d)], 1)))
        return y


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inside, self.outside = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, steps, width = x.shape
        parts = self.inside(x).view(n, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        y: torch.Tensor = self.outside(seen.transpose(1, 2).reshape(n, steps, width))
        return y


class Vit(nn.Module):
    def __init__(self, width: int = 192) -> None:
        super().__init__()

        def block() -> nn.Module:
            body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 768), nn.GELU(), nn.Linear(768, width))
            seen = nn.Sequential(nn.LayerNorm(width), Attention(width, 3))
            return nn.Sequential(Added(seen, True), Added(body, True))

        self.patches, self.places = nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.zeros(64, width))
        self.blocks = nn.Sequential(*(block() for _ in range(6)), nn.LayerNorm(width))
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2) + self.places
        y: torch.Tensor = self.last(self.blocks(rows).mean(1))
        return y


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.cells = nn.Embedding(10000, 256), nn.GRU(256, 512, 2, batch_first=True)
        self.last = nn.Linear(512, 10000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.cells(self.words(x.long()))[0]).transpose(1, 2)
        return y


class Gated(nn.Module):
    def __init__(self, apart: int) -> None:
        super().__init__()
        self.apart = apart
        self.value, self.gate = nn.Conv1d(64, 64, 2, dilation=apart), nn.Conv1d(64, 64, 2, dilation=apart)
        self.new = nn.Conv1d(64, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = nn.functional.pad(x, (self.apart, 0))
        y: torch.Tensor = x + self.new(torch.tanh(self.value(before)) * torch.sigmoid(self.gate(before)))
        return y


class Wavenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(256, 64)
        self.body = nn.Sequential(*(Gated(1 << k) for k in range(10)), nn.ReLU(), nn.Conv1d(64, 256, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(self.words(x.long()).transpose(1, 2))
        return y


def wide() -> nn.Module:
    layers: list[Any] = []
    for before in (1024, 4096, 4096):
        layers += [nn.Linear(before, 4096), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


class Mixed(nn.Module):
    """A network that computes in bf16 where PyTorch holds that to be exact enough."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            y: torch.Tensor = self.network(x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x)
        return y.float()


NETWORKS: Final[dict[str, Callable[[], nn.Module]]] = {
    "vgg": vgg,
    "mobilenet": mobilenet,
    "densenet": densenet,
    "unet": Unet,
    "vit": Vit,
    "words": Words,
    "wavenet": Wavenet,
    "wide": wide,
    "lenet5": lenet5,
    "mlp": mlp,
    "resnet20": resnet20,
    "gpt": Gpt,
}
ADAM: Final = ("words", "wavenet", "lenet5", "mlp", "gpt")
"""Networks that are trained by it; others with momentum."""


def optimizer_of(name: str, model: nn.Module) -> Maker:
    if name in ADAM:
        return lambda captured: torch.optim.Adam(model.parameters(), lr=1e-3, capturable=captured)
    return lambda captured: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from common import Plan, step_times

    name, folder, *numbers = sys.argv[1:]
    batch, steps, rounds = map(int, numbers)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    (path,) = Path(folder).glob("*.npz")
    data = np.load(path)
    samples, labels = (data[key] for key in data.files)
    model = NETWORKS[name]()
    run, loss = torch_steps(model, optimizer_of(name, model), samples, labels, batch, False)
    print(json.dumps({**step_times(run, Plan(steps, rounds, core=True)), "last_loss": loss()}))


if __name__ == "__main__":
    main()
