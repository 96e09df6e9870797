"""The networks of bench_networks.py in PyTorch, and their training steps on one thread of a core.

Usage: networks_torch.py NETWORK eager|channels_last FOLDER BATCH STEPS ROUNDS
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
        y: torch.Tensor = self.last(self.cells(self.words(x.long()))[0]).flatten(0, 1)
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


class Last(nn.Module):
    """Layers that see the channels of an image as its last axis."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return y


class Scaled(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift


def convnext() -> nn.Module:
    layers: list[Any] = [nn.Conv2d(3, 96, 4, 4), Last(nn.LayerNorm(96))]
    for width in (96, 192, 384):
        if width > 96:
            layers += [Last(nn.LayerNorm(width // 2)), nn.Conv2d(width // 2, width, 2, 2)]
        for _ in range(3):
            inside = [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
            seen = nn.Conv2d(width, width, 7, padding=3, groups=width)
            layers.append(Added(nn.Sequential(seen, Last(*inside, Scaled(width))), True))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(384), nn.Linear(384, 100))


class Weighted(nn.Module):
    """Channels that are weighted by what all pixels tell."""

    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        inside = [nn.Linear(width, squeezed), nn.SiLU(), nn.Linear(squeezed, width), nn.Sigmoid()]
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *inside)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x * self.gate(x)[:, :, None, None]
        return y


def efficientnet() -> nn.Module:
    first = ((32, 8, 16, 3, 1), (96, 4, 24, 3, 2), (144, 6, 24, 3, 1), (144, 6, 40, 5, 2), (240, 10, 40, 5, 1))
    second = ((240, 10, 80, 3, 2), (480, 20, 80, 3, 1), (480, 20, 80, 3, 1), (480, 20, 112, 5, 1), (672, 28, 112, 5, 1))
    layers, before = convolution(3, 32, active=nn.SiLU, stride=2), 32
    for inner, squeezed, out, kernel, step in first + second:
        parts = convolution(before, inner, 1, nn.SiLU)
        parts += [*convolution(inner, inner, kernel, nn.SiLU, stride=step, groups=inner), Weighted(inner, squeezed)]
        parts += convolution(inner, out, 1, None)
        layers.append(Added(nn.Sequential(*parts), step == 1 and before == out))
        before = out
    layers += [*convolution(112, 640, 1, nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 100)]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    def __init__(self, body: nn.Module, short: nn.Module) -> None:
        super().__init__()
        self.body, self.short = body, short

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x) + self.short(x)
        return y


def resnext() -> nn.Module:
    layers, before = convolution(3, 64, stride=2), 64
    for inner, out, first in ((128, 256, 1), (256, 512, 2), (512, 1024, 2)):
        for step in (first, 1):
            parts = [*convolution(before, inner, 1), *convolution(inner, inner, 3, stride=step, groups=32)]
            body = nn.Sequential(*parts, *convolution(inner, out, 1, None))
            changed = before != out
            short = nn.Sequential(*convolution(before, out, 1, None, stride=step)) if changed else nn.Identity()
            layers += [Residual(body, short), nn.ReLU()]
            before = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 100))


def video() -> nn.Module:
    layers: list[Any] = []
    for before, out, step in ((3, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)):
        layers += [nn.Conv3d(before, out, 3, step, 1, bias=False), nn.BatchNorm3d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 20))


class Seen(nn.Module):
    """Attention among the pixels of an image."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.inside, self.seen = nn.GroupNorm(8, width), Attention(width, heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.inside(x).flatten(2).transpose(1, 2)
        y: torch.Tensor = self.seen(rows).transpose(1, 2).reshape(x.shape)
        return y


class Segments(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def part(before: int, width: int) -> nn.Module:
            body = [nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, width, 3, padding=1)]
            body += [nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)]
            return Residual(nn.Sequential(*body), nn.Conv2d(before, width, 1) if before != width else nn.Identity())

        def up(before: int, width: int) -> nn.Module:
            return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(before, width, 3, padding=1))

        self.a = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), part(64, 64))
        self.b = nn.Sequential(nn.Conv2d(64, 64, 3, 2, 1), part(64, 128))
        inside = (part(128, 256), Added(Seen(256, 4), True), part(256, 256))
        self.c = nn.Sequential(nn.Conv2d(128, 128, 3, 2, 1), *inside)
        self.up_b, self.d, self.up_a = up(256, 128), part(256, 128), up(128, 64)
        self.e = nn.Sequential(part(128, 64), nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 8, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a(x)
        b = self.b(a)
        d = self.d(torch.cat([b, self.up_b(self.c(b))], 1))
        y: torch.Tensor = self.e(torch.cat([a, self.up_a(d)], 1))
        return y


class Turned(nn.Module):
    """Layers that see the first axis of a sample as its last one."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x.transpose(1, 2)).transpose(1, 2)
        return y


class Mixer(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()

        def mixed(width: int, inner: int) -> list[nn.Module]:
            return [nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)]

        def block() -> nn.Module:
            tokens = nn.Sequential(nn.LayerNorm(width), Turned(*mixed(64, 128)))
            return nn.Sequential(
                Added(tokens, True), Added(nn.Sequential(nn.LayerNorm(width), *mixed(width, 1024)), True)
            )

        self.patches, self.last = nn.Conv2d(3, width, 4, 4), nn.Linear(width, 10)
        self.blocks = nn.Sequential(*(block() for _ in range(8)), nn.LayerNorm(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))
        return y


def points() -> nn.Module:
    layers: list[Any] = []
    for before, out in ((3, 64), (64, 64), (64, 128), (128, 1024)):
        layers += [nn.Conv1d(before, out, 1, bias=False), nn.BatchNorm1d(out), nn.ReLU()]
    last = [nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 40)]
    return nn.Sequential(*layers, nn.AdaptiveMaxPool1d(1), nn.Flatten(), *last)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10000, 128)
        self.cells = nn.LSTM(128, 256, 2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(512, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.cells(self.words(x.long()))[0]).flatten(0, 1)
        return y


class Shared(nn.Module):
    """Causal attention whose heads share keys and values."""

    def __init__(self, width: int, heads: int, keys: int) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, width // heads
        self.inside = nn.Linear(width, (heads + 2 * keys) * self.size, bias=False)
        self.outside = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, steps, width = x.shape
        parts = self.inside(x).view(n, steps, -1, self.size).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.keys, self.keys], 1)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        y: torch.Tensor = self.outside(seen.transpose(1, 2).reshape(n, steps, width))
        return y


class Swiglu(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.inside, self.outside = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.inside(x).chunk(2, -1)
        y: torch.Tensor = self.outside(value * nn.functional.silu(gate))
        return y


class Sentences(nn.Module):
    """Words and their places, blocks, and what follows each word."""

    def __init__(self, words: int, steps: int, width: int, blocks: list[nn.Module], bias: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(steps, width))
        self.blocks, self.last = nn.Sequential(*blocks), nn.Linear(width, words, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.blocks(self.words(x.long()) + self.places)).flatten(0, 1)
        return y


def llama() -> nn.Module:
    blocks: list[nn.Module] = []
    for _ in range(4):
        blocks.append(Added(nn.Sequential(nn.RMSNorm(512), Shared(512, 8, 2)), True))
        blocks.append(Added(nn.Sequential(nn.RMSNorm(512), Swiglu(512, 1408)), True))
    return Sentences(8192, 512, 512, [*blocks, nn.RMSNorm(512)], False)


def long() -> nn.Module:
    blocks: list[nn.Module] = []
    for _ in range(2):
        inside = [nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)]
        blocks.append(Added(nn.Sequential(nn.LayerNorm(256), Attention(256, 4)), True))
        blocks.append(Added(nn.Sequential(*inside), True))
    return Sentences(256, 2048, 256, [*blocks, nn.LayerNorm(256)], True)


class ChannelsLast(nn.Module):
    """A network whose images have channels last."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        volumes = any(isinstance(m, nn.Conv3d) for m in network.modules())
        self.format = torch.channels_last_3d if volumes else torch.channels_last
        self.network = network.to(memory_format=self.format)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.network(x.contiguous(memory_format=self.format) if x.dim() > 3 else x)
        return y


class Mixed(ChannelsLast):
    """One that computes in bf16 where PyTorch holds that to be exact enough."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            y = super().forward(x)
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
    "convnext": convnext,
    "efficientnet": efficientnet,
    "resnext": resnext,
    "video": video,
    "segments": Segments,
    "mixer": Mixer,
    "points": points,
    "tagger": Tagger,
    "llama": llama,
    "long": long,
    "lenet5": lenet5,
    "mlp": mlp,
    "resnet20": resnet20,
    "gpt": Gpt,
}
ADAM: Final = ("words", "wavenet", "tagger", "llama", "long", "lenet5", "mlp", "gpt")
"""Networks that are trained by it; others with momentum."""


def optimizer_of(name: str, model: nn.Module) -> Maker:
    if name in ADAM:
        return lambda captured: torch.optim.Adam(model.parameters(), lr=1e-3, capturable=captured)
    return lambda captured: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from common import Plan, step_times

    name, mode, folder, *numbers = sys.argv[1:]
    batch, steps, rounds = map(int, numbers)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_flush_denormal(True)
    (path,) = Path(folder).glob("*.npz")
    data = np.load(path)
    samples, labels = (data[key] for key in data.files)
    model = NETWORKS[name]()
    if mode == "channels_last":
        model = ChannelsLast(model)
    run, loss = torch_steps(model, optimizer_of(name, model), samples, labels, batch, False)
    print(json.dumps({**step_times(run, Plan(steps, rounds, core=True)), "last_loss": loss()}))


if __name__ == "__main__":
    main()
