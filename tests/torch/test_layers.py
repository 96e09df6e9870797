"""Layers, losses and small networks against PyTorch, where it is installed: outputs and gradients in float64, through
YAML, lowering and generated C. The harness is nets.py's."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.numeric.trained import Trained, load
from tests.torch.nets import as_torch, attention, dense, model, published_gru, recurrent, samples, wave

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc")]

functional: Any = torch.nn.functional
Weights = dict[str, Any]
Forward = Callable[[Weights, Any], Any]
Case = tuple[str, tuple[int, ...], Forward]

HEAD = "    - flatten: {}\n    - dense: {name: logits, units: 3}\n"


def case(layers: str, shape: tuple[int, ...], apply: Forward) -> Case:
    """Layers between the input (made a function of weights by a scale and shift per element) and a dense head."""
    first = "    - layer_norm: {name: first, inputs: image, epsilon: 1e-3}\n"

    def forward(w: Weights, x: Any) -> Any:
        x = functional.layer_norm(x, x.shape[-1:], w["first.weight"], w["first.bias"], 1e-3)
        return dense(w, "logits", apply(w, x).flatten(1))

    return first + "".join(f"    - {line}\n" for line in layers.split("\n")) + HEAD, shape, forward


def sequence(layers: str, apply: Forward, shape: tuple[int, ...] = (6, 5)) -> Case:
    return case(layers, shape, apply)


def wb(w: Weights, name: str) -> tuple[Any, Any]:
    return w[f"{name}.weight"], w[f"{name}.bias"]


def normed(x: Any, axes: int, epsilon: float = 1e-5) -> Any:
    return functional.layer_norm(x, x.shape[-axes:], eps=epsilon)


def last_state(kind: str, w: Weights, x: Any, units: int, both: bool = False) -> Any:
    return torch.cat(list(recurrent(kind, w, x, units, both)[1]), -1)


def dotted(x: Any, v: Any, parts: Any) -> Any:
    """Attention of two heads, written out; `parts`: what is added, and what is not seen up to 0.2."""
    q, w = (y.reshape(-1, 5, 2, y.shape[2] // 2).transpose(1, 2) for y in (x, v))
    seen = parts[..., 5:] > 0.2
    scores = torch.where(seen, q @ q.mT / math.sqrt(3) + parts[..., :5], -1e30)
    assert not seen.any(-1).all()  # some steps see nothing, and give zeros
    return (scores.softmax(-1) * seen @ w).transpose(1, 2).flatten(2)


def ceil_pool(x: Any) -> Any:
    return functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True)


IMAGE = (4, 7, 6)
CASES: dict[str, Case] = {
    "conv1d": case("conv1d: {name: c, filters: 5, kernel: 3, stride: 2, padding: [2, 1]}", (4, 9), lambda w, x:
        functional.conv1d(functional.pad(x, (2, 1)), *wb(w, "c"), stride=2)),
    "conv1d_groups": case("conv1d: {name: c, filters: 6, kernel: 2, dilation: 3, groups: 2, padding: same}", (4, 9),
        lambda w, x: functional.conv1d(functional.pad(x, (1, 2)), *wb(w, "c"), dilation=3, groups=2)),
    "conv2d_sides": case("conv2d: {name: c, filters: 3, kernel: [3, 2], padding: [0, 2, 1, 0]}", IMAGE, lambda w, x:
        functional.conv2d(functional.pad(x, (1, 0, 0, 2)), *wb(w, "c"))),
    "conv2d_depthwise": case("conv2d: {name: c, filters: 8, kernel: 3, groups: 4, padding: 1}", IMAGE, lambda w, x:
        functional.conv2d(x, *wb(w, "c"), padding=1, groups=4)),
    "conv3d": case("conv3d: {name: c, filters: 3, kernel: [2, 3, 2], stride: [1, 2, 1], padding: [1, 0, 1]}",
        (2, 4, 5, 4), lambda w, x: functional.conv3d(x, *wb(w, "c"), stride=(1, 2, 1), padding=(1, 0, 1))),
    "transpose1d": case("conv_transpose1d: {name: c, filters: 3, kernel: 4, stride: 3, padding: 1, output_padding: 2}",
        (4, 5), lambda w, x: functional.conv_transpose1d(x, *wb(w, "c"), stride=3, padding=1, output_padding=2)),
    "volumes": case("conv3d: {name: c, filters: 4, kernel: [3, 3, 2], stride: [2, 1, 1], padding: 1, dilation:"
        " [1, 2, 1], groups: 2}", (2, 5, 6, 4), lambda w, x: functional.conv3d(
            x, *wb(w, "c"), stride=(2, 1, 1), padding=1, dilation=(1, 2, 1), groups=2)),
    "transpose3d": case("conv_transpose3d: {name: c, filters: 3, kernel: [3, 2, 3], stride: [2, 1, 2],"
        " padding: [1, 0, 1], output_padding: [1, 0, 1]}", (2, 3, 4, 3), lambda w, x: functional.conv_transpose3d(
            x, *wb(w, "c"), stride=(2, 1, 2), padding=(1, 0, 1), output_padding=(1, 0, 1))),
    "max_pool3d": case("max_pool3d: {size: 2, stride: [1, 2, 2]}", (2, 4, 5, 6), lambda w, x:
        functional.max_pool3d(x, 2, (1, 2, 2))),
    "avg_pool3d": case("avg_pool3d: {size: [2, 3, 2], padding: [0, 1, 1], count_padding: false}", (2, 4, 6, 4),
        lambda w, x: functional.avg_pool3d(x, (2, 3, 2), padding=(0, 1, 1), count_include_pad=False)),
    "transpose2d": case("conv_transpose2d: {name: c, filters: 3, kernel: [3, 2], stride: [2, 1], padding: [1, 0],"
        " output_padding: [1, 0]}", IMAGE, lambda w, x:
        functional.conv_transpose2d(x, *wb(w, "c"), stride=(2, 1), padding=(1, 0), output_padding=(1, 0))),
    "transpose2d_groups": case("conv_transpose2d: {name: c, filters: 6, kernel: 3, stride: 2, dilation: 2, groups: 2}",
        IMAGE, lambda w, x: functional.conv_transpose2d(x, *wb(w, "c"), stride=2, dilation=2, groups=2)),
    "max_pool1d": case("max_pool1d: {size: 3, stride: 2, padding: 1}", (4, 9), lambda w, x:
        functional.max_pool1d(x, 3, 2, 1)),
    "avg_pool1d": case("avg_pool1d: {size: 4, padding: 1, count_padding: false}", (4, 9), lambda w, x:
        functional.avg_pool1d(x, 4, 4, 1, count_include_pad=False)),
    "avg_pool_ceil": case("avg_pool2d: {size: 3, stride: 2, padding: 1, ceil: true}", (4, 8, 6), lambda w, x:
        ceil_pool(x)),
    "avg_pool_inside": case("avg_pool2d: {size: 3, stride: 2, padding: 1, ceil: true, count_padding: false}",
        (4, 8, 6), lambda w, x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    "max_pool_ceil": case("max_pool2d: {size: 2, stride: 3, ceil: true}", (4, 7, 6), lambda w, x:
        functional.max_pool2d(x, 2, 3, ceil_mode=True)),
    "global_max": case("global_max_pool: {}", IMAGE, lambda w, x: x.amax((2, 3))),
    "global_avg": case("global_avg_pool: {}", IMAGE, lambda w, x: x.mean((2, 3))),
    "upsample": case("upsample: {factor: [2, 3]}", IMAGE, lambda w, x:
        functional.interpolate(x, scale_factor=(2, 3)) ** 1),
    "pad": case("pad: {before: [0, 1, 2], after: [1, 0, 3], value: 0.5}", IMAGE, lambda w, x:
        functional.pad(x, (2, 3, 1, 0, 0, 1), value=0.5)),
    "reshape_permute": case("reshape: {shape: [6, 4, 7]}\npermute: {axes: [2, 0, 1]}\n"
        "conv2d: {name: c, filters: 2, kernel: 3}", IMAGE, lambda w, x:
        functional.conv2d(x.reshape(-1, 6, 4, 7).permute(0, 3, 1, 2), *wb(w, "c"))),
    "concat": case("activation: {name: t, function: tanh}\nconcat: {inputs: [first, t, first], axis: 1}", (3, 4),
        lambda w, x: torch.cat([x, torch.tanh(x), x], 2)),
    "split": case("split: {into: [a, b], axis: 1, sizes: [4, 2]}\nactivation: {name: s, function: sigmoid, inputs: b}\n"
        "concat: {inputs: [s, a], axis: 1}", (3, 6), lambda w, x:
        torch.cat([torch.sigmoid(x[..., 4:]), x[..., :4]], 2)),
    "slice": case("slice: {axis: 1, from: 1, to: 4}", (3, 6), lambda w, x: x[..., 1:4]),
    "multiply": case("activation: {name: s, function: sigmoid}\nmultiply: {inputs: [s, first]}", (6,), lambda w, x:
        torch.sigmoid(x) * x),
    "map": case("dense: {name: a, units: 6}\nmap: {g: 'first * sigmoid(a) - min(a, 0.3) * 2', y: g * g + a}", (6,),
        lambda w, x: (lambda a: (x * torch.sigmoid(a) - torch.clamp(a, max=0.3) * 2) ** 2 + a)(dense(w, "a", x))),
    "map_broadcast": case("global_avg_pool: {name: m}\nreshape: {name: s, shape: [4, 1, 1]}\n"
        "map: {y: first * exp(s)}", IMAGE, lambda w, x: x * torch.exp(x.mean((2, 3), keepdim=True))),
    "layer_norm": case("layer_norm: {name: l, axes: 2}", IMAGE, lambda w, x:
        functional.layer_norm(x, x.shape[-2:], *wb(w, "l"))),
    "layer_norm_all": case("layer_norm: {axes: 3, affine: false}", IMAGE, lambda w, x: normed(x, 3)),
    "group_norm": case("group_norm: {name: l, groups: 2, epsilon: 1e-3}", IMAGE, lambda w, x:
        functional.group_norm(x, 2, *wb(w, "l"), eps=1e-3)),
    "instance_norm": case("instance_norm: {name: l}", IMAGE, lambda w, x:
        functional.instance_norm(x, weight=w["l.weight"], bias=w["l.bias"])),
    "softmax": case("softmax: {}", (3, 6), lambda w, x: torch.softmax(x, -1)),
    "softmax_axis": case("softmax: {axis: 0}", (3, 6), lambda w, x: torch.softmax(x, 1)),
    "log_softmax": case("log_softmax: {}", (3, 6), lambda w, x: torch.log_softmax(x, -1)),
    "dense_steps": sequence("dense: {name: d, units: 7, activation: gelu}", lambda w, x:
        functional.gelu(dense(w, "d", x))),
    "positions": sequence("positions: {}", lambda w, x: wave(x)),
    "positions_trained": sequence("positions: {name: p, encoding: trained}", lambda w, x: x + w["p.weight"]),
    "attention": sequence("attention: {name: a, heads: 2}", lambda w, x: attention(w, x, x, x, 2), (5, 6)),
    "attention_causal": sequence("attention: {name: a, heads: 3, size: 12, causal: true}", lambda w, x:
        attention(w, x, x, x, 3, True), (5, 6)),
    "attention_cross": sequence("slice: {name: q, axis: 0, to: 3}\n"
        "attention: {name: a, heads: 2, inputs: [q, first, first]}", lambda w, x:
        attention(w, x[:, :3], x, x, 2), (5, 6)),
    "attention_mask": sequence("slice: {axis: 1, to: 1}\nreshape: {name: s, shape: [5]}\n"
        "map: {valid: 1.0 if s > -0.5 else 0.0}\nattention: {name: a, inputs: first, heads: 2, mask: valid}",
        lambda w, x: attention(w, x, x, x, 2, mask=(x[:, None, None, :, 0] > -0.5)), (5, 6)),
    "attention_offset": sequence("dense: {name: o, units: 5}\nattention: {name: a, inputs: first, heads: 3, offset: o}",
        lambda w, x: attention(w, x, x, x, 3, mask=dense(w, "o", x)[:, None]), (5, 6)),
    "dot_attention": sequence("dense: {name: o, units: 20}\nreshape: {name: r, shape: [2, 5, 10]}\n"
        "slice: {name: p, axis: 2, to: 5}\nslice: {name: m, inputs: r, axis: 2, from: 5}\n"
        "map: {seen: 1.0 if m > 0.2 else 0.0}\ndense: {name: v, inputs: first, units: 4}\n"
        "dot_attention: {inputs: [first, first, v], heads: 2, offset: p, mask: seen}", lambda w, x:
        dotted(x, dense(w, "v", x), dense(w, "o", x).reshape(-1, 2, 5, 10)), (5, 6)),
    "learned": sequence("learned: {name: t, shape: [2, 5]}\nconcat: {inputs: [t, first, t]}", lambda w, x:
        (lambda t: torch.cat([t, x, t], 1))(w["t.weight"].expand(len(x), -1, -1))),
    "rnn": sequence("rnn: {name: r, units: 4}", lambda w, x: last_state("rnn", w, x, 4)),
    "gru": sequence("gru: {name: r, units: 4}", lambda w, x: last_state("gru", w, x, 4)),
    "lstm": sequence("lstm: {name: r, units: 4}", lambda w, x: last_state("lstm", w, x, 4)),
    "lstm_both": sequence("lstm: {name: r, units: 4, bidirectional: true}", lambda w, x:
        last_state("lstm", w, x, 4, True)),
    "gru_all": sequence("gru: {name: r, units: 3, sequence: true, bidirectional: true}", lambda w, x:
        recurrent("gru", w, x, 3, True)[0], (11, 5)),
    "gru_before": sequence("gru: {name: r, units: 4, reset: before}", lambda w, x:
        published_gru(w, x, 4, False)[1][0]),
    "gru_before_all": sequence("gru: {name: r, units: 3, reset: before, sequence: true, bidirectional: true}",
        lambda w, x: published_gru(w, x, 3, True)[0], (7, 5)),
    "lstm_all": sequence("lstm: {name: r, units: 3, sequence: true, bias: false}", lambda w, x:
        recurrent("lstm", w, x, 3, False, False)[0], (10, 5)),
    **{name: case(f"activation: {{function: {name}}}", (9,), lambda w, x, f=function: f(x)) for name, function in {
        "selu": functional.selu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "relu6": functional.relu6,
        "hard_sigmoid": lambda x: functional.relu6(x + 3) / 6,
        "hard_swish": functional.hardswish,
        "hard_tanh": functional.hardtanh,
        "mish": functional.mish,
        "softsign": functional.softsign,
        "log_sigmoid": functional.logsigmoid,
    }.items()},
}  # fmt: skip


def given_weights(trained: Trained) -> None:
    """Weights of a size that neither lets anything vanish nor saturates the loss, whatever the model draws."""
    rng = np.random.default_rng(9)
    for name in trained.names:
        value = trained.read(name)
        spread = 0.3 if value.ndim == 1 else 1.0 / math.sqrt(math.prod(value.shape[1:]))
        trained.write(name, rng.normal(1.0 if name == "first.weight" else 0.0, spread, value.shape))


@pytest.mark.parametrize("name", CASES)
def test_layer(tmp_path: Path, name: str) -> None:
    """The loss and every gradient of a full batch and of a short one."""
    layers, shape, forward = CASES[name]
    images, labels = samples(tmp_path, shape)
    trained = load(model(layers, str(list(shape))), tmp_path)
    given_weights(trained)
    for number, chosen in ((1, range(8)), (2, range(10, 15))):
        weights = as_torch(trained)
        trained.step(number, chosen)
        index = torch.tensor(list(chosen))
        loss = functional.cross_entropy(forward(weights, images[index]), labels[index])
        loss.backward()
        assert trained.metric("loss") / trained.metric("count") == pytest.approx(loss.item(), rel=1e-10)
        after = trained.weights()
        largest = 0.0
        for key, before in weights.items():
            gradient = before.detach().numpy() - after[key]
            np.testing.assert_allclose(gradient, before.grad.numpy(), rtol=0, atol=1e-10, err_msg=key)
            largest = max(largest, float(np.abs(gradient).max()))
        assert largest > 1e-3
