"""Shared helpers of the comparisons with PyTorch: a model's text, its data, weights as tensors, composite layers.

Assumes: PyTorch where its functions are called; this module can be imported without.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.numeric.trained import Trained

Weights = dict[str, Any]


def model(layers: str, shape: str, optimizer: str = "{sgd: {learning_rate: 1}}", loss: str = "") -> str:
    loss = loss or "{softmax_cross_entropy: {logits: logits, target: label}}"
    label = "{shape: [3]}" if "mean" in loss else "{shape: [], dtype: int32}"
    return f"""\
language: 1
name: compared
network:
  inputs: {{image: {{shape: {shape}}}, label: {label}}}
  layers:
{layers}
train:
  data: {{file: samples.npz, inputs: {{image: images, label: labels}}, shuffle: false}}
  loss: {loss}
  optimizer: {optimizer}
  batch: 8
  epochs: 1
  seed: 1
numerics: {{precision: float64}}
functions:
  bump(x): x * exp(-x * x) + 0.1 * abs(x)
"""


def samples(folder: Path, shape: tuple[int, ...], real_labels: bool = False, ties: bool = False) -> tuple[Any, Any]:
    """20 samples, written as the model's data; with `ties` many pixels are equal."""
    rng = np.random.default_rng(5)
    images = rng.normal(size=(20, *shape))
    if ties:
        images = np.round(images)
    labels: Any = rng.normal(size=(20, 3)) if real_labels else rng.integers(0, 3, 20).astype(np.int32)
    np.savez(folder / "samples.npz", images=images, labels=labels)
    import torch

    return torch.tensor(images), torch.tensor(labels if real_labels else labels.astype(np.int64))


def as_torch(trained: Trained) -> Weights:
    """The weights as leaves of PyTorch's graph."""
    import torch

    return {n: torch.tensor(v, requires_grad=True) for n, v in trained.weights().items()}


def dense(w: Weights, name: str, x: Any) -> Any:
    import torch

    return torch.nn.functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def attention(
    w: Weights, q: Any, k: Any, v: Any, heads: int, causal: bool = False, name: str = "a", mask: Any = None,
    kv_heads: int | None = None,
) -> Any:  # fmt: skip
    """The layer `attention` called `name`."""
    parts = (dense(w, f"{name}.{part}", x) for part, x in (("query", q), ("key", k), ("value", v)))
    return dense(w, f"{name}.out", dot_attention(*parts, heads, causal, mask, kv_heads=kv_heads))


def dot_attention(
    q: Any, k: Any, v: Any, heads: int, causal: bool = False, mask: Any = None, scale: Any = None,
    kv_heads: int | None = None,
) -> Any:  # fmt: skip
    """The layer `dot_attention`. `mask`: PyTorch's attn_mask, True where a key is seen, or numbers that are added."""
    import torch

    counts = (heads, kv_heads or heads, kv_heads or heads)
    parts = (x.reshape(*x.shape[:2], n, -1).transpose(1, 2) for x, n in zip((q, k, v), counts, strict=True))
    dot: Any = torch.nn.functional.scaled_dot_product_attention
    y = dot(*parts, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=kv_heads is not None)
    return y.transpose(1, 2).flatten(2)


def recurrent(
    kind: str,
    w: Weights,
    x: Any,
    units: int,
    both: bool,
    bias: bool = True,
    name: str = "r",
    function: str = "tanh",
    initial: Any = None,
) -> tuple[Any, Any]:
    """All states and the last ones of a recurrent layer, by PyTorch's own module with our arrays in its places.
    `initial`: (samples, directions * units), of the memory too."""
    import torch

    module = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[kind]
    options = {"nonlinearity": function} if kind == "rnn" else {}
    values_of = x.data if isinstance(x, torch.nn.utils.rnn.PackedSequence) else x
    net = module(values_of.shape[-1], units, batch_first=True, bidirectional=both, bias=bias, **options)
    net = net.to(values_of.dtype)
    gates = {
        "rnn": ["state"],
        "gru": ["reset", "update", "candidate"],
        "lstm": ["input", "forget", "cell", "output"],
    }[kind]
    values = {}
    for way, suffix in (("", ""), ("backward.", "_reverse"))[: 2 if both else 1]:
        values[f"weight_ih_l0{suffix}"] = torch.cat([w[f"{name}.{way}{g}.weight"] for g in gates])
        values[f"weight_hh_l0{suffix}"] = torch.cat([w[f"{name}.{way}{g}.recurrent"] for g in gates])
        if bias:
            values[f"bias_ih_l0{suffix}"] = torch.cat([w[f"{name}.{way}{g}.bias"] for g in gates])
            zero = torch.zeros(units, dtype=values_of.dtype)
            last = w[f"{name}.{way}candidate.recurrent_bias"] if kind == "gru" else zero
            values[f"bias_hh_l0{suffix}"] = torch.cat([zero] * (len(gates) - 1) + [last])
    begin: tuple[Any, ...] = ()
    if initial is not None:
        begin = (initial.reshape(len(initial), -1, units).transpose(0, 1).contiguous(),)
        begin = (begin * 2,) if kind == "lstm" else begin
    states, ends = torch.func.functional_call(net, values, (x, *begin))
    return states, (ends[0] if kind == "lstm" else ends)


def published_gru(w: Weights, x: Any, units: int, both: bool, bias: bool = True, name: str = "r") -> tuple[Any, Any]:
    """As `recurrent`, of `gru: {reset: before}`, which PyTorch has no module for: Cho et al. 2014, eq. 5 to 8."""
    import torch

    def gate(way: str, part: str, now: Any, h: Any) -> Any:
        return dense(w, f"{name}.{way}{part}", now) + h @ w[f"{name}.{way}{part}.recurrent"].T

    assert bias == (f"{name}.candidate.bias" in w)
    ways, ends = [], []
    for way in ("", "backward.")[: 2 if both else 1]:
        h, states = x.new_zeros(len(x), units), []
        for now in x.unbind(1)[:: -1 if way else 1]:
            reset, update = (torch.sigmoid(gate(way, part, now, h)) for part in ("reset", "update"))
            h = (1 - update) * torch.tanh(gate(way, "candidate", now, reset * h)) + update * h
            states.append(h)
        ends.append(h)
        ways.append(torch.stack(states[:: -1 if way else 1], 1))
    return torch.cat(ways, -1), torch.stack(ends)


def wave(x: Any) -> Any:
    """`positions: {encoding: sinusoidal}`."""
    import torch

    steps, size = x.shape[1:]
    t = torch.arange(steps, dtype=torch.float64)[:, None]
    e = torch.arange(size, dtype=torch.float64)[None]
    angle = t * torch.exp(-math.log(10000.0) / size * (e - e % 2))
    return x + torch.where(e % 2 == 0, torch.sin(angle), torch.cos(angle))
