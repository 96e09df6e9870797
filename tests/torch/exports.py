"""Networks as PyTorch exports them to ONNX: transformers of its own and ones written by hand.

Assumes: the packages torch, onnx and onnxscript. `python -m tests.torch.exports` writes the files of
tests/numeric/exported/, which test_onnx_exported.py imports without PyTorch.
Weights are random, so that no bias is zero and no two layers are equal.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

EXPORTED = Path(__file__).parent / "exported"
BATCH, STEPS = 3, 5


@dataclass(frozen=True)
class Case:
    """`batch`: the axis of each input that is the batch; `exporters`: those that can."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    batch: tuple[int, ...] = (0,)
    exporters: tuple[str, ...] = ("dynamo", "script")


def export(case: Case, path: Path, exporter: str, dynamic: bool, **more: Any) -> tuple[np.ndarray, ...]:
    """Write the case as an ONNX file, its batch of any size or (`dynamic` False) that of the inputs; returns these."""
    torch.manual_seed(1)
    model = case.make().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.4)
    inputs = case.inputs()
    names = [f"in{k}" for k in range(len(inputs))]
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            if exporter == "dynamo":
                free = tuple({axis: torch.export.Dim("batch")} for axis in case.batch)
                chosen = {"dynamic_shapes": free if dynamic else None, "external_data": False, "verbose": False, **more}
                torch.onnx.export(model, inputs, str(path), input_names=names, dynamo=True, **chosen)
            else:
                free = {n: {axis: "batch"} for n, axis in zip(names, case.batch, strict=True)} if dynamic else None
                torch.onnx.export(model, inputs, str(path), input_names=names, dynamo=False, dynamic_axes=free, **more)
        finally:
            logging.disable(logging.NOTSET)
    return tuple(x.numpy() for x in inputs)


# ------------------------------------------------------------------------------------------- models


def encoder(batch_first: bool = True, norm_first: bool = False, activation: str = "relu", final: bool = False,
            heads: int = 2, nested: bool = False) -> nn.TransformerEncoder:  # fmt: skip
    layer = nn.TransformerEncoderLayer(
        8, heads, 16, batch_first=batch_first, norm_first=norm_first, activation=activation
    )
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8) if final else None, enable_nested_tensor=nested)


class Masked(nn.Module):
    """An encoder with a mask of padded steps, and one of later steps."""

    def __init__(self, of: nn.TransformerEncoder, causal: bool = False, padded: bool = True) -> None:
        super().__init__()
        self.of, self.causal, self.padded = of, causal, padded
        kind = torch.bool if padded else torch.float32
        self.register_buffer("later", nn.Transformer.generate_square_subsequent_mask(STEPS).to(kind))

    def forward(self, x: torch.Tensor, pad: torch.Tensor | None = None) -> Any:
        later = self.later if self.causal else None
        if not self.padded:
            return self.of(x, mask=later, is_causal=True)
        return self.of(x, mask=later, src_key_padding_mask=pad)


class Attention(nn.Module):
    """nn.MultiheadAttention; `weights`: also the shares, of all heads together or of each."""

    def __init__(self, batch_first: bool = True, weights: str = "", **more: Any) -> None:
        super().__init__()
        self.of, self.weights = nn.MultiheadAttention(8, 2, batch_first=batch_first, **more), weights

    def forward(self, x: torch.Tensor, pad: torch.Tensor | None = None) -> Any:
        each = self.weights != "each"
        y, shares = self.of(x, x, x, pad, need_weights=bool(self.weights), average_attn_weights=each)
        return (y, shares) if self.weights else y


class Across(nn.Module):
    """Attention of one sequence to another, of other features."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.of = nn.MultiheadAttention(8, 2, batch_first=batch_first, kdim=6, vdim=6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.of(x, y, y, need_weights=False)[0]


class Patches(nn.Module):
    """A vision transformer: patches, a token for the class, trained positions, an encoder, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 3)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.randn(1, 5, 8))
        self.of = encoder(norm_first=True, activation="gelu", final=True)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.of(x)[:, 0])


class Words(nn.Module):
    """Embeddings of words and places, an encoder, a classifier of the mean; `pad`: the word 0 is hidden."""

    def __init__(self, pad: bool) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(11, 8, 0), nn.Embedding(STEPS, 8), nn.LayerNorm(8)
        self.of, self.pad = encoder(activation="gelu"), pad
        self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, words: torch.Tensor) -> Any:
        x = self.norm(self.words(words) + self.places(torch.arange(words.shape[1], device=words.device)))
        return self.head(self.of(x, src_key_padding_mask=(words == 0) if self.pad else None).mean(1))


class AddedMask(nn.Module):
    """An encoder layer written by hand, with kinds of words, a mask of integers that is added, and a pooled step."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.Embedding(2, 8)
        self.register_buffer("numbers", torch.arange(16)[None])
        self.q, self.k, self.v, self.o, self.pool = (nn.Linear(8, 8) for _ in range(5))
        self.wide, self.back, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 3)
        self.first, self.second, self.third = (nn.LayerNorm(8, 1e-12) for _ in range(3))

    def forward(self, words: torch.Tensor, kinds: torch.Tensor, seen: torch.Tensor) -> Any:
        x = self.words(words) + self.kinds(kinds) + self.places(self.numbers[:, : words.size(1)])
        x = self.first(x)
        low = (1.0 - seen[:, None, None, :].to(x.dtype)) * torch.finfo(torch.float32).min

        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view((*y.size()[:-1], 2, 4)).permute(0, 2, 1, 3)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        y = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / 2.0 + low, -1) @ v
        y = y.permute(0, 2, 1, 3).contiguous()
        x = self.second(x + self.o(y.view((*y.size()[:-2], 8))))
        x = self.third(x + self.back(nn.functional.gelu(self.wide(x))))
        return self.head(torch.tanh(self.pool(x[:, 0])))


class Decoder(nn.Module):
    """A language model: queries, keys and values in one product, a mask that fills, shared word weights; its output
    has the batch and the steps as one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm, self.last = (
            nn.Embedding(11, 8),
            nn.Embedding(5, 8),
            nn.LayerNorm(8),
            nn.LayerNorm(8),
        )
        self.all, self.o = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("seen", torch.tril(torch.ones(STEPS, STEPS)).view(1, 1, STEPS, STEPS))

    def forward(self, words: torch.Tensor) -> Any:
        b, t = words.size()
        x = self.words(words) + self.places(torch.arange(t, device=words.device))
        q, k, v = (y.view(b, t, 2, 4).transpose(1, 2) for y in self.all(self.norm(x)).split(8, dim=2))
        scores = (q @ k.transpose(-2, -1)) * 0.5
        shares = scores.masked_fill(self.seen[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        x = x + self.o((shares @ v).transpose(1, 2).contiguous().view(b, t, 8))
        return (self.last(x) @ self.words.weight.t()).view(-1, 11)


class Rotary(nn.Module):
    """Rotary positions, keys and values that heads share, a norm by the root of the mean square, a gated product."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.o = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.a, self.b, self.c = (
            nn.Linear(8, 12, bias=False),
            nn.Linear(8, 12, bias=False),
            nn.Linear(12, 8, bias=False),
        )
        self.scale = nn.Parameter(torch.ones(8))
        angle = torch.outer(torch.arange(float(STEPS)), torch.tensor([1.0, 1.0]))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, x: torch.Tensor) -> Any:
        b, t, c = x.shape
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        q, kv = self.q(h).view(b, t, 4, 2).transpose(1, 2), self.kv(h).view(b, t, 2, 2, 2)
        k, v = kv[:, :, 0].transpose(1, 2), kv[:, :, 1].transpose(1, 2)

        def turned(y: torch.Tensor) -> torch.Tensor:
            return y * self.cos + torch.cat([-y[..., 1:], y[..., :1]], -1) * self.sin

        def shared(y: torch.Tensor) -> torch.Tensor:
            return y[:, :, None].expand(b, 2, 2, t, 2).reshape(b, 4, t, 2)

        y = nn.functional.scaled_dot_product_attention(turned(q), shared(turned(k)), shared(v), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        return x + self.c(nn.functional.silu(self.a(x)) * self.b(x))


class Seen(nn.Module):
    """scaled_dot_product_attention with a mask of truth values; the last sample sees nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.o = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> Any:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, 2, c // 2).transpose(1, 2) for y in self.all(x).chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])
        return self.o(y.transpose(1, 2).flatten(2))


class Sums(nn.Module):
    """Attention by einsum, its projections too."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.randn(8, 2, 4)) for _ in range(3))
        self.o = nn.Parameter(torch.randn(2, 4, 8))

    def forward(self, x: torch.Tensor) -> Any:
        q, k, v = (torch.einsum("btc,chd->bthd", x, w) for w in (self.q, self.k, self.v))
        shares = torch.einsum("bthd,bshd->bhts", q, k).mul(0.5).softmax(-1)
        return torch.einsum("bthd,hdc->btc", torch.einsum("bhts,bshd->bthd", shares, v), self.o)


class Stepwise(nn.Module):
    """The same network for every step, steps and batch as one axis; the largest over the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> Any:
        b, t, c = x.shape
        return self.second(torch.relu(self.first(x.reshape(b * t, c)))).view(b, t, 4).max(1).values


class Recurrent(nn.Module):
    """A convolution over steps and an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(8, 6, 3, padding=1), nn.Linear(10, 3)
        self.of = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> Any:
        y, _ = self.of(torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))
        return self.head(y[:, -1])


# ------------------------------------------------------------------------------------------- cases


def steps(batch_first: bool = True, batch: int = BATCH) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, STEPS, 8) if batch_first else torch.randn(STEPS, batch, 8),)


def padding(batch: int = BATCH) -> torch.Tensor:
    pad = torch.zeros(BATCH, STEPS, dtype=torch.bool)
    pad[0, 3:] = pad[1, 4:] = True
    return pad[:batch]


def words() -> torch.Tensor:
    return torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 0], [8, 9, 10, 1, 2]])


def encoders() -> dict[str, Case]:
    """Every kind of nn.TransformerEncoder."""
    found = {}
    for first in (True, False):
        for norm in (True, False):
            for activation in ("relu", "gelu"):
                for final in (True, False):
                    name = f"encoder_{'batch' if first else 'steps'}_{'norm_' * norm}{activation}{'_final' * final}"
                    found[name] = Case(
                        lambda a=(first, norm, activation, final): encoder(*a),
                        lambda first=first: steps(first),
                        (int(not first),),
                    )
    return found


def both_ways() -> dict[str, Case]:
    """Masks and attention alone, the batch first or second."""
    found = {}
    for first in (True, False):
        way, axis = "batch" if first else "steps", int(not first)
        given = lambda first=first: steps(first)  # noqa: E731
        padded = lambda first=first: (*steps(first), padding())  # noqa: E731
        other = lambda first=first: (*steps(first), torch.randn(*((BATCH, 7) if first else (7, BATCH)), 6))  # noqa: E731
        kinds: dict[str, dict[str, Any]] = {
            "plain": {}, "no_bias": {"bias": False}, "extra_key": {"add_bias_kv": True}, "shares": {"weights": "all"}
        }  # fmt: skip
        for name, more in kinds.items():
            found[f"attention_{name}_{way}"] = Case(lambda a=(first, more): Attention(a[0], **a[1]), given, (axis,))
        found |= {
            f"padded_{way}": Case(lambda first=first: Masked(encoder(first)), padded, (axis, 0)),
            f"causal_{way}": Case(lambda first=first: Masked(encoder(first), True, False), given, (axis,)),
            f"across_{way}": Case(lambda first=first: Across(first), other, (axis, axis)),
        }
    return found


def others() -> dict[str, Case]:
    """Networks around attention; a batch of one, one as large as the steps are many."""
    one = lambda: (*steps(batch=1), padding(1))  # noqa: E731
    seen = lambda: (*steps(), torch.cat([~padding(2), torch.zeros(1, STEPS, dtype=torch.bool)]))  # noqa: E731
    typed = lambda: (words(), (words() > 4).long(), (~padding()).long())  # noqa: E731
    image = lambda: (torch.randn(BATCH, 3, 8, 8),)  # noqa: E731
    both = lambda: (*steps(), padding())  # noqa: E731
    return {
        "one_head": Case(lambda: encoder(heads=1), steps),
        "nested": Case(lambda: encoder(nested=True), steps),
        "nested_padded": Case(lambda: Masked(encoder(nested=True)), both, (0, 0)),
        "layer": Case(lambda: nn.TransformerEncoderLayer(8, 2, 16), lambda: steps(False), (1,), ("dynamo",)),
        "double": Case(lambda: encoder(False).double(), lambda: (steps(False)[0].double(),), (1,)),
        "batch_of_one": Case(encoder, lambda: steps(batch=1)),
        "batch_of_one_steps": Case(lambda: encoder(False), lambda: steps(False, 1), (1,)),
        "batch_of_one_padded": Case(lambda: Masked(encoder()), one, (0, 0)),
        "batch_of_one_shares": Case(lambda: Attention(False, "all"), lambda: steps(False, 1), (1,)),
        "as_many_as_steps": Case(lambda: encoder(False), lambda: steps(False, STEPS), (1,)),
        "causal_padded": Case(lambda: Masked(encoder(), True), both, (0, 0), ("script",)),
        "shares_of_heads": Case(lambda: Attention(weights="each"), both, (0, 0)),
        "patches": Case(Patches, image),
        "words": Case(lambda: Words(False), lambda: (words(),)),
        "words_padded": Case(lambda: Words(True), lambda: (words(),)),
        "added_mask": Case(AddedMask, typed, (0, 0, 0)),
        "decoder": Case(Decoder, lambda: (words(),)),
        "rotary": Case(Rotary, steps),
        "seen": Case(Seen, seen, (0, 0)),
        "sums": Case(Sums, steps),
        "stepwise": Case(Stepwise, steps),
        "recurrent": Case(Recurrent, steps),
    }


COMMITTED = (
    ("encoder_steps_norm_gelu_final", "dynamo", True), ("encoder_steps_relu", "script", False),
    ("encoder_batch_gelu", "script", True), ("padded_steps", "script", True), ("padded_batch", "dynamo", False),
    ("causal_steps", "dynamo", False), ("causal_padded", "script", True),
    ("attention_shares_steps", "dynamo", False),
    ("attention_extra_key_batch", "script", True), ("across_batch", "dynamo", True),
    ("shares_of_heads", "dynamo", True),
    ("batch_of_one_steps", "dynamo", False), ("as_many_as_steps", "script", False), ("patches", "script", True),
    ("words_padded", "dynamo", True), ("added_mask", "script", True), ("decoder", "script", True),
    ("rotary", "dynamo", True), ("seen", "script", True), ("sums", "dynamo", False), ("stepwise", "dynamo", True),
)  # fmt: skip
"""(case, exporter, any batch) of the files in tests/numeric/exported/."""


def main() -> None:
    import onnx

    cases = encoders() | both_ways() | others()
    EXPORTED.mkdir(exist_ok=True)
    for name, exporter, dynamic in COMMITTED:
        path = EXPORTED / f"{name}.onnx"
        inputs = export(cases[name], path, exporter, dynamic)
        model = onnx.load(path)
        for place in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
            del place.metadata_props[:]
            place.doc_string = ""
        del model.graph.value_info[:]
        onnx.save(model, path)
        np.savez_compressed(path.with_suffix(".npz"), *inputs)


if __name__ == "__main__":
    main()
