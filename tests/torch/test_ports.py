"""Networks as PyTorch's users write them, with their training loops, against the same in the language: the same
weights, batches and optimizers, so the losses of 20 steps are equal.

Assumes: PyTorch.
Guarantees: of each port the loss of every step, in float64 within 1e-9 of the first, in float32 within 1e-4.
Does not: learn anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.numeric.trained import load
from tests.torch.nets import recurrent

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("cc")]

functional: Any = torch.nn.functional
Weights = dict[str, Any]
Loss = Callable[[Weights, dict[str, Any]], Any]
STEPS, BATCH = 20, 6
CLOSE = {"float32": 1e-4, "float64": 1e-9}


@dataclass(frozen=True)
class Port:
    """`inputs`: shapes by name; whole numbers below `counts`; `text`: from `layers:` on; `step`: one step of PyTorch's
    loop, which returns the loss, made of the weights; `single`: steps in float32 (test_models.py says why rounding
    grows in residual networks)."""

    inputs: dict[str, tuple[int, ...]]
    text: str
    step: Callable[[Weights], Callable[[dict[str, Any]], Any]]
    counts: dict[str, int] = field(default_factory=dict)
    single: int = STEPS


def descent(loss: Loss, make: Callable[[Weights], Any] | None = None) -> Callable[[Weights], Callable[[Any], Any]]:
    """The plain loop."""

    def prepared(w: Weights) -> Callable[[dict[str, Any]], Any]:
        optimizer = torch.optim.Adam(w.values(), lr=1e-3) if make is None else make(w)

        def step(x: dict[str, Any]) -> Any:
            optimizer.zero_grad()
            value = loss(w, x)
            value.backward()
            optimizer.step()
            return value

        return step

    return prepared


def linear(w: Weights, name: str, x: Any, of: str = "") -> Any:
    return functional.linear(x, w[f"{of or name}.weight"], w.get(f"{of or name}.bias"))


# -------------------------------------------------------------------------------------------- two players

GAN = """\
  layers:
    - dense: {name: g1, inputs: z, units: 16, activation: relu}
    - dense: {name: fake, units: 8}
    - dense: {name: d1, inputs: x, units: 12, activation: {leaky}}
    - dense: {name: real, units: 1}
    - stop_gradient: {name: shown, inputs: fake}
    - dense: {units: 12, weights: d1, activation: {leaky}}
    - dense: {name: caught, units: 1, weights: real}
    - dense: {inputs: fake, units: 12, weights: d1, frozen: true, activation: {leaky}}
    - dense: {name: fooled, units: 1, weights: real, frozen: true}
train:
  loss:
    sum:
      - {weight: 1, loss: {expression: {value: softplus(-real)}}}
      - {weight: 1, loss: {expression: {value: softplus(caught)}}}
      - {weight: 1, loss: {expression: {value: softplus(-fooled)}}}
  optimizer: {adam: {learning_rate: 1e-3, beta1: 0.5}}
  groups: [{of: [g1, fake], optimizer: {rmsprop: {learning_rate: 2e-3, smoothing: 0.99}}}]
""".replace("{leaky}", "leaky_relu")


def gan(w: Weights) -> Callable[[dict[str, Any]], Any]:
    """Both players see what the other one was before the step, as in TensorFlow's tutorial."""
    of_g = [v for n, v in w.items() if n.startswith(("g1", "fake"))]
    of_d = [v for n, v in w.items() if not n.startswith(("g1", "fake"))]
    first = torch.optim.RMSprop(of_g, lr=2e-3, alpha=0.99)
    second = torch.optim.Adam(of_d, lr=1e-3, betas=(0.5, 0.999))

    def step(x: dict[str, Any]) -> Any:
        fake = linear(w, "fake", torch.relu(linear(w, "g1", x["z"])))
        of_judge = functional.softplus(-_judged(w, x["x"])).mean()
        of_judge = of_judge + functional.softplus(_judged(w, fake.detach())).mean()
        of_maker = functional.softplus(-_judged(w, fake)).mean()
        made = torch.autograd.grad(of_maker, of_g, retain_graph=True)
        caught = torch.autograd.grad(of_judge, of_d)
        for weights, gradients, optimizer in ((of_g, made, first), (of_d, caught, second)):
            for v, g in zip(weights, gradients, strict=True):
                v.grad = g
            optimizer.step()
        return of_judge + of_maker

    return step


_EVERY = "optimizer: {adam: {learning_rate: 2e-3 * (1 - 0.5 * step / steps)}}, every"
TAKING_TURNS = GAN.partition("  groups:")[0] + (
    f"  groups: [{{of: [g1, fake], {_EVERY}: 2}}, {{of: [d1, real], every: 2, first: 1}}]\n"
)
CRITIC = GAN.partition("  groups:")[0] + f"  groups: [{{of: [g1, fake], {_EVERY}: 3}}]\n"
CRITIC_OF_MORE = CRITIC.replace(": 3}", ": 3, first: 2}") + "  accumulate: 2\n"


def turns(
    maker: tuple[int, int], judge: tuple[int, int] = (1, 1), accumulate: int = 1
) -> Callable[[Weights], Callable[[dict[str, Any]], Any]]:
    """Each player's optimizer in its own steps, (every, first), with gradients that begin anew after each step."""

    def loop(w: Weights) -> Callable[[dict[str, Any]], Any]:
        of_g = [v for n, v in w.items() if n.startswith(("g1", "fake"))]
        of_d = [v for n, v in w.items() if not n.startswith(("g1", "fake"))]
        of_maker = torch.optim.Adam(of_g, lr=2e-3)
        of_judge = torch.optim.Adam(of_d, lr=1e-3, betas=(0.5, 0.999))
        every, first = maker
        own = (STEPS // accumulate - first) // every + 1
        schedule = torch.optim.lr_scheduler.LambdaLR(of_maker, lambda k: 1 - 0.5 * (k + 1) / own)
        batch = 0

        def step(x: dict[str, Any]) -> Any:
            nonlocal batch
            fake = linear(w, "fake", torch.relu(linear(w, "g1", x["z"])))
            caught = (
                functional.softplus(-_judged(w, x["x"])).mean() + functional.softplus(_judged(w, fake.detach())).mean()
            )
            fooled = functional.softplus(-_judged(w, fake)).mean()
            for loss, weights in ((fooled, of_g), (caught, of_d)):
                for v, g in zip(weights, torch.autograd.grad(loss, weights, retain_graph=True), strict=True):
                    v.grad = g / accumulate if v.grad is None else v.grad + g / accumulate
            batch += 1
            if batch % accumulate == 0:
                k = batch // accumulate
                if k >= first and (k - first) % every == 0:
                    of_maker.step()
                    schedule.step()
                if k >= judge[1] and (k - judge[1]) % judge[0] == 0:
                    of_judge.step()
                of_maker.zero_grad()
                of_judge.zero_grad()
            return (caught + fooled).detach()

        return step

    return loop


def _judged(w: Weights, x: Any) -> Any:
    return linear(w, "real", functional.leaky_relu(linear(w, "d1", x), 0.01))


# -------------------------------------------------------------------------------------------- one loss


def lines(*layers: str) -> str:
    return "  layers:\n" + "".join(f"    - {x}\n" for x in layers)


def train(loss: str, optimizer: str = "{adam: {learning_rate: 1e-3}}", more: str = "") -> str:
    return f"train:\n  loss: {loss}\n  optimizer: {optimizer}\n{more}"


SIAMESE = lines(
    "dense: {name: one, inputs: x, units: 12, activation: relu}", "dense: {name: two, units: 5}",
    "dense: {name: again, inputs: y, units: 12, weights: one, activation: relu}",
    "dense: {name: other, units: 5, weights: two}",
    "map: {squares: (two - other) ** 2}", "reduce: {name: far, function: sum}",
    "map: {d: sqrt(far + 1e-6)}", "map: {loss_of: same * far + (1 - same) * relu(1 - d) ** 2}",
) + train("{expression: {value: loss_of}}")  # fmt: skip


def siamese(w: Weights, x: dict[str, Any]) -> Any:
    """The contrastive loss of Hadsell et al. 2006."""
    one, two = (linear(w, "two", torch.relu(linear(w, "one", x[n]))) for n in "xy")
    far = ((one - two) ** 2).sum(1)
    return (x["same"] * far + (1 - x["same"]) * torch.clamp(1 - torch.sqrt(far + 1e-6), min=0) ** 2).mean()


VAE = lines(
    "dense: {inputs: x, units: 12, activation: gelu, name: h}", "dense: {name: both, units: 6}",
    "split: {inputs: both, into: [mu, logvar]}", "map: {z: mu + exp(0.5 * logvar) * eps}",
    "dense: {name: up, units: 12, activation: gelu}", "dense: {name: out, units: 8}",
    "map: {apart: -0.5 * (1 + logvar - mu ** 2 - exp(logvar))}", "reduce: {name: kl, function: sum}",
    "map: {errors: (out - x) ** 2}", "reduce: {name: error, function: sum}",
) + train("{expression: {value: error + 0.5 * kl}}")  # fmt: skip


def vae(w: Weights, x: dict[str, Any]) -> Any:
    mu, logvar = linear(w, "both", functional.gelu(linear(w, "h", x["x"]))).chunk(2, -1)
    z = mu + torch.exp(0.5 * logvar) * x["eps"]
    out = linear(w, "out", functional.gelu(linear(w, "up", z)))
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1)
    return (functional.mse_loss(out, x["x"], reduction="none").sum(1) + 0.5 * kl).mean()


GPT_HIDDEN, GPT_HEADS = 16, 4


def _gpt() -> str:
    """nanoGPT's block with attention by hand."""
    made = ["embedding: {name: wte, inputs: tokens, count: 11, size: 16}", "positions: {name: x0, encoding: trained}"]
    for k in range(2):
        made += [
            f"layer_norm: {{name: n{k}, inputs: x{k}}}", f"dense: {{name: qkv{k}, units: 48}}",
            f"reshape: {{name: r{k}, shape: [6, 3, 4, 4]}}", f"permute: {{name: p{k}, axes: [1, 2, 0, 3]}}",
            f"reshape: {{name: s{k}, shape: [12, 6, 4]}}", f"split: {{inputs: s{k}, into: [q{k}, k{k}, v{k}]}}",
            f"matmul: {{name: scores{k}, inputs: [q{k}, k{k}], transposed: second}}",
            f"map: {{seen{k}: 0.5 * scores{k} + late}}", f"softmax: {{name: shares{k}}}",
            f"matmul: {{name: y{k}, inputs: [shares{k}, v{k}]}}", f"permute: {{name: t{k}, axes: [1, 0, 2]}}",
            f"reshape: {{name: u{k}, shape: [6, 16]}}", f"dense: {{name: proj{k}, units: 16}}",
            f"add: {{name: m{k}, inputs: [x{k}, proj{k}]}}", f"layer_norm: {{name: l{k}}}",
            f"dense: {{name: fc{k}, units: 64, activation: gelu}}", f"dense: {{name: back{k}, units: 16}}",
            f"add: {{name: x{k + 1}, inputs: [m{k}, back{k}]}}",
        ]  # fmt: skip
    made += ["layer_norm: {name: last}", "dense: {name: logits, units: 11, weights: wte, bias: false}"]
    return lines(*made) + train(
        "{softmax_cross_entropy: {logits: logits, target: next}}",
        "{adamw: {learning_rate: 1e-3, beta2: 0.95, decay: 0.1}}",
        "  groups: [{of: [biases, norms], set: {decay: 0}}]\n  clip: {norm: 1}\n",
    )


def layer_norm(w: Weights, name: str, x: Any) -> Any:
    return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"])


def gpt(w: Weights, x: dict[str, Any]) -> Any:
    h = w["wte.weight"][x["tokens"]] + w["x0.weight"]
    for k in range(2):
        qkv = linear(w, f"qkv{k}", layer_norm(w, f"n{k}", h)).split(16, -1)
        q, key, v = (part.reshape(-1, 6, 4, 4).transpose(1, 2) for part in qkv)
        y = torch.softmax(q @ key.mT * 0.5 + x["late"][:, None], -1) @ v
        h = h + linear(w, f"proj{k}", y.transpose(1, 2).flatten(2))
        h = h + linear(w, f"back{k}", functional.gelu(linear(w, f"fc{k}", layer_norm(w, f"l{k}", h))))
    logits = layer_norm(w, "last", h) @ w["wte.weight"].T
    return functional.cross_entropy(logits.flatten(0, 1), x["next"].flatten())


def gpt_loop(w: Weights) -> Callable[[dict[str, Any]], Any]:
    def still(n: str) -> bool:
        return n.endswith("bias") or (n[0] in "nl" and n.endswith(".weight") and w[n].ndim == 1)

    groups = [
        {"params": [v for n, v in w.items() if still(n) == no], "weight_decay": 0.0 if no else 0.1}
        for no in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))

    def step(x: dict[str, Any]) -> Any:
        optimizer.zero_grad()
        loss = gpt(w, x)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        optimizer.step()
        return loss

    return step


POINTS = lines(
    "dense: {name: t1, inputs: x, units: 8, activation: relu}", "reduce: {name: t2, function: max, axes: 0}",
    "dense: {name: t3, units: 9}", "reshape: {name: t, shape: [3, 3]}", "matmul: {name: turned, inputs: [x, t]}",
    "dense: {name: p1, units: 10, activation: relu}", "dense: {name: p2, units: 12, activation: relu}",
    "reduce: {name: whole, function: max, axes: 0}", "dense: {name: logits, units: 4}",
    "matmul: {name: gram, inputs: [t, t], transposed: second}", "map: {off: (gram - unit) ** 2}",
) + train("{sum: [{loss: {softmax_cross_entropy: {logits: logits, target: label}}}, "
          "{weight: 0.01, loss: {expression: {value: off}}}]}")  # fmt: skip


def points(w: Weights, x: dict[str, Any]) -> Any:
    """PointNet: the points are turned by a matrix that is computed from them (Qi et al. 2017)."""
    t = linear(w, "t3", torch.relu(linear(w, "t1", x["x"])).amax(1)).reshape(-1, 3, 3)
    y = torch.relu(linear(w, "p2", torch.relu(linear(w, "p1", torch.bmm(x["x"], t))))).amax(1)
    off = ((torch.bmm(t, t.mT) - x["unit"]) ** 2).mean()
    return functional.cross_entropy(linear(w, "logits", y), x["label"]) + 0.01 * off


GCN = lines(
    "reduce: {name: degree, inputs: edges, function: sum, axes: [1], keep: true}",
    "map: {near: edges / degree}",
    "dense: {name: g1, inputs: x, units: 8}", "matmul: {name: m1, inputs: [near, g1]}",
    "activation: {name: h1, function: relu}", "dense: {name: g2, units: 3}",
    "matmul: {name: logits, inputs: [near, g2]}",
) + train("{softmax_cross_entropy: {logits: logits, target: kinds}}")  # fmt: skip


def gcn(w: Weights, x: dict[str, Any]) -> Any:
    near = x["edges"] / x["edges"].sum(2, keepdim=True)
    h = torch.relu(near @ linear(w, "g1", x["x"]))
    return functional.cross_entropy((near @ linear(w, "g2", h)).flatten(0, 1), x["kinds"].flatten())


MIXTURE = lines(
    "dense: {name: gate, inputs: x, units: 3}", "softmax: {name: shares}",
    *(f"dense: {{name: e{k}, inputs: x, units: 10, activation: silu}}" for k in range(3)),
    *(f"dense: {{name: o{k}, inputs: e{k}, units: 5}}" for k in range(3)),
    *(f"reshape: {{name: r{k}, inputs: o{k}, shape: [1, 5]}}" for k in range(3)),
    "concat: {name: all, inputs: [r0, r1, r2]}", "matmul: {name: y, inputs: [shares, all]}",
) + train("{mean_squared_error: {prediction: y, target: t}}")  # fmt: skip


def mixture(w: Weights, x: dict[str, Any]) -> Any:
    shares = torch.softmax(linear(w, "gate", x["x"]), -1)
    outs = torch.stack([linear(w, f"o{k}", functional.silu(linear(w, f"e{k}", x["x"]))) for k in range(3)], 1)
    return functional.mse_loss(torch.einsum("be,bed->bd", shares, outs), x["t"])


SEQ2SEQ = lines(
    "embedding: {name: words, inputs: source, count: 9, size: 6}", "gru: {name: memory, units: 8, sequence: true}",
    "slice: {name: end, axis: 0, from: 4, to: 5}", "reshape: {name: start, shape: [8]}",
    "embedding: {name: given, inputs: before, count: 9, size: 6}",
    "gru: {name: states, units: 8, sequence: true, initial: start}",
    "dense: {name: asked, units: 8, bias: false}",
    "matmul: {name: scores, inputs: [asked, memory], transposed: second}",
    "softmax: {name: shares}", "matmul: {name: context, inputs: [shares, memory]}",
    "concat: {name: both, inputs: [context, states], axis: 1}", "dense: {name: mixed, units: 8, activation: tanh}",
    "dense: {name: logits, units: 9}",
) + train("{softmax_cross_entropy: {logits: logits, target: after}}")  # fmt: skip


def seq2seq(w: Weights, x: dict[str, Any]) -> Any:
    """Luong et al. 2015, general."""
    memory, _ = recurrent("gru", w, w["words.weight"][x["source"]], 8, False, name="memory")
    start = memory[:, -1]
    states, _ = recurrent("gru", w, w["given.weight"][x["before"]], 8, False, name="states", initial=start)
    shares = torch.softmax(torch.bmm(linear(w, "asked", states), memory.mT), -1)
    mixed = torch.tanh(linear(w, "mixed", torch.cat([torch.bmm(shares, memory), states], -1)))
    return functional.cross_entropy(linear(w, "logits", mixed).flatten(0, 1), x["after"].flatten())


def _crf() -> str:
    """The logarithm of the sum over all paths, step by step, less the score of the right one (Lafferty et al. 2001)."""
    made = [
        "dense: {name: scores, inputs: x, units: 4}",
        "learned: {name: moves, shape: [4, 4], init: {normal: {std: 0.5}}}",
        "slice: {name: s0, inputs: scores, axis: 0, from: 0, to: 1}", "reshape: {name: a0, shape: [4]}",
    ]  # fmt: skip
    for t in range(1, 5):
        made += [
            f"reshape: {{name: c{t}, inputs: a{t - 1}, shape: [4, 1]}}", f"map: {{p{t}: c{t} + moves}}",
            f"reduce: {{name: m{t}, function: max, axes: [0], keep: true}}", f"map: {{e{t}: exp(p{t} - m{t})}}",
            f"reduce: {{name: z{t}, function: sum, axes: 0}}", f"reshape: {{name: b{t}, inputs: m{t}, shape: [4]}}",
            f"slice: {{name: s{t}, inputs: scores, axis: 0, from: {t}, to: {t + 1}}}",
            f"reshape: {{name: n{t}, shape: [4]}}", f"map: {{a{t}: b{t} + log(z{t}) + n{t}}}",
        ]  # fmt: skip
    made += [
        "reduce: {name: top, function: max, keep: true}", "map: {raised: exp(a4 - top)}",
        "reduce: {name: total, function: sum}", "reshape: {name: peak, inputs: top, shape: []}",
        "one_hot: {name: path, inputs: tags, count: 4}", "map: {own: path * scores}",
        "reduce: {name: stay, function: sum}",
        "slice: {name: first, inputs: path, axis: 0, to: 4}", "slice: {name: second, inputs: path, axis: 0, from: 1}",
        "matmul: {name: pairs, inputs: [first, second], transposed: first}", "map: {used: pairs * moves}",
        "reduce: {name: move, function: sum}",
    ]  # fmt: skip
    return lines(*made) + train("{expression: {value: peak + log(total) - stay - move}}")


def crf(w: Weights, x: dict[str, Any]) -> Any:
    scores, moves, tags = linear(w, "scores", x["x"]), w["moves.weight"], x["tags"]
    a = scores[:, 0]
    for t in range(1, 5):
        a = torch.logsumexp(a[:, :, None] + moves, 1) + scores[:, t]
    right = scores.gather(2, tags[..., None]).sum((1, 2)) + moves[tags[:, :-1], tags[:, 1:]].sum(1)
    return (torch.logsumexp(a, 1) - right).mean()


# -------------------------------------------------------------------------------------------- images, sounds

SGD = "{momentum: {learning_rate: 0.01, momentum: 0.9}}"


def momentum(w: Weights) -> Any:
    return torch.optim.SGD(w.values(), lr=0.01, momentum=0.9)


def norm(w: Weights, name: str, x: Any) -> Any:
    return functional.batch_norm(x, None, None, w[f"{name}.weight"], w[f"{name}.bias"], training=True)


def conv(w: Weights, name: str, x: Any, **more: Any) -> Any:
    return functional.conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), **more)


def _basic(name: str, x: str, filters: int, stride: int) -> list[str]:
    """ResNet's block of two convolutions."""
    made = [
        f"conv2d: {{name: {name}a, inputs: {x}, filters: {filters}, kernel: 3, stride: {stride}, padding: 1, "
        "bias: false}",
        f"batch_norm: {{name: {name}b}}", f"activation: {{name: {name}r, function: relu}}",
        f"conv2d: {{name: {name}c, filters: {filters}, kernel: 3, padding: 1, bias: false}}",
        f"batch_norm: {{name: {name}d}}",
    ]  # fmt: skip
    if stride > 1:
        made += [
            f"conv2d: {{name: {name}s, inputs: {x}, filters: {filters}, kernel: 1, stride: {stride}, bias: false}}",
            f"batch_norm: {{name: {name}t}}",
        ]
        x = f"{name}t"
    made += [f"add: {{name: {name}m, inputs: [{name}d, {x}]}}", f"activation: {{name: {name}, function: relu}}"]
    return made


_STAGES = ((1, 8, 1), (2, 12, 2), (3, 16, 2), (4, 24, 2))


def _resnet18() -> str:
    """As for 32 x 32 pixels: no pool behind the first convolution; two blocks a stage."""
    made = ["conv2d: {name: first, inputs: x, filters: 8, kernel: 3, padding: 1, bias: false}", "batch_norm: {name: n}",
            "activation: {name: h, function: relu}"]  # fmt: skip
    x = "h"
    for k, filters, stride in _STAGES:
        made += _basic(f"s{k}p", x, filters, stride) + _basic(f"s{k}q", f"s{k}p", filters, 1)
        x = f"s{k}q"
    made += ["global_avg_pool: {name: mean}", "dense: {name: logits, units: 5}"]
    return lines(*made) + train("{softmax_cross_entropy: {logits: logits, target: label}}", SGD)


def resnet18(w: Weights, x: dict[str, Any]) -> Any:
    def basic(name: str, x: Any, stride: int) -> Any:
        y = torch.relu(norm(w, f"{name}b", conv(w, f"{name}a", x, stride=stride, padding=1)))
        y = norm(w, f"{name}d", conv(w, f"{name}c", y, padding=1))
        return torch.relu(y + (norm(w, f"{name}t", conv(w, f"{name}s", x, stride=stride)) if stride > 1 else x))

    y = torch.relu(norm(w, "n", conv(w, "first", x["x"], padding=1)))
    for k, _, stride in _STAGES:
        y = basic(f"s{k}q", basic(f"s{k}p", y, stride), 1)
    return functional.cross_entropy(linear(w, "logits", y.mean((2, 3))), x["label"])


def _inverted(function: str, gate: str, squeeze: str, inner: int, kernel: int) -> str:
    """MobileNetV3's and EfficientNet's block, which is added to its input."""
    return lines(
        "conv2d: {name: stem, inputs: x, filters: 6, kernel: 3, padding: 1}",
        f"conv2d: {{name: wide, filters: {inner}, kernel: 1, bias: false}}", "batch_norm: {name: n1}",
        f"activation: {{name: a1, function: {function}}}",
        f"conv2d: {{name: deep, filters: {inner}, kernel: {kernel}, padding: same, groups: {inner}, bias: false}}",
        "batch_norm: {name: n2}", f"activation: {{name: a2, function: {function}}}",
        "global_avg_pool: {name: mean}", f"dense: {{name: less, units: 4, activation: {squeeze}}}",
        f"dense: {{name: more, units: {inner}, activation: {gate}}}",
        f"reshape: {{name: gate, shape: [{inner}, 1, 1]}}",
        "map: {gated: a2 * gate}", "conv2d: {name: narrow, filters: 6, kernel: 1, bias: false}",
        "batch_norm: {name: n3}", "add: {name: y, inputs: [n3, stem]}", "global_avg_pool: {name: whole}",
        "dense: {name: logits, units: 5}",
    ) + train("{softmax_cross_entropy: {logits: logits, target: label}}", SGD)  # fmt: skip


def inverted(function: Any, gate: Any, squeeze: Any) -> Loss:
    def loss(w: Weights, x: dict[str, Any]) -> Any:
        stem = conv(w, "stem", x["x"], padding=1)
        y = function(norm(w, "n1", conv(w, "wide", stem)))
        y = function(norm(w, "n2", conv(w, "deep", y, padding="same", groups=y.shape[1])))
        y = y * gate(linear(w, "more", squeeze(linear(w, "less", y.mean((2, 3))))))[..., None, None]
        y = norm(w, "n3", conv(w, "narrow", y)) + stem
        return functional.cross_entropy(linear(w, "logits", y.mean((2, 3))), x["label"])

    return loss


UNET = lines(
    "conv2d: {name: d1, inputs: x, filters: 6, kernel: 3, padding: 1, activation: relu}",
    "max_pool2d: {name: p1, size: 2}",
    "conv2d: {name: d2, filters: 8, kernel: 3, padding: 1, padding_mode: reflect, activation: relu}",
    "max_pool2d: {name: p2, size: 2}", "conv2d: {name: low, filters: 10, kernel: 3, padding: 1, activation: relu}",
    "conv_transpose2d: {name: u2, filters: 8, kernel: 2, stride: 2}", "concat: {name: c2, inputs: [d2, u2]}",
    "conv2d: {name: e2, filters: 8, kernel: 3, padding: 1, activation: relu}",
    "conv_transpose2d: {name: u1, filters: 6, kernel: 2, stride: 2}", "concat: {name: c1, inputs: [d1, u1]}",
    "conv2d: {name: e1, filters: 6, kernel: 3, padding: 1, activation: relu}",
    "conv2d: {name: out, filters: 1, kernel: 1}",
) + train("{mean_squared_error: {prediction: out, target: t}}", SGD)  # fmt: skip


def unet(w: Weights, x: dict[str, Any]) -> Any:
    def up(name: str, x: Any) -> Any:
        return functional.conv_transpose2d(x, w[f"{name}.weight"], w[f"{name}.bias"], stride=2)

    d1 = torch.relu(conv(w, "d1", x["x"], padding=1))
    around = functional.pad(functional.max_pool2d(d1, 2), (1, 1, 1, 1), mode="reflect")
    d2 = torch.relu(conv(w, "d2", around))
    low = torch.relu(conv(w, "low", functional.max_pool2d(d2, 2), padding=1))
    e2 = torch.relu(conv(w, "e2", torch.cat([d2, up("u2", low)], 1), padding=1))
    e1 = torch.relu(conv(w, "e1", torch.cat([d1, up("u1", e2)], 1), padding=1))
    return functional.mse_loss(conv(w, "out", e1), x["t"])


def _wavenet() -> str:
    made, skips = ["conv1d: {name: h0, inputs: x, filters: 6, kernel: 1}"], []
    for k, apart in enumerate((1, 2, 4)):
        made += [
            f"conv1d: {{name: f{k}, inputs: h{k}, filters: 12, kernel: 2, padding: [{apart}, 0], dilation: {apart}}}",
            f"split: {{inputs: f{k}, into: [t{k}, g{k}]}}", f"map: {{z{k}: tanh(t{k}) * sigmoid(g{k})}}",
            f"conv1d: {{name: s{k}, inputs: z{k}, filters: 5, kernel: 1}}",
            f"conv1d: {{name: r{k}, inputs: z{k}, filters: 6, kernel: 1}}",
            f"add: {{name: h{k + 1}, inputs: [h{k}, r{k}]}}",
        ]  # fmt: skip
        skips.append(f"s{k}")
    made += [f"add: {{name: all, inputs: [{', '.join(skips)}]}}", "activation: {name: a, function: relu}",
             "conv1d: {name: out, filters: 1, kernel: 1}"]  # fmt: skip
    return lines(*made) + train("{mean_squared_error: {prediction: out, target: t}}", SGD)


def wavenet(w: Weights, x: dict[str, Any]) -> Any:
    def line(name: str, x: Any, **more: Any) -> Any:
        return functional.conv1d(x, w[f"{name}.weight"], w[f"{name}.bias"], **more)

    h, skips = line("h0", x["x"]), 0
    for k, apart in enumerate((1, 2, 4)):
        t, g = line(f"f{k}", functional.pad(h, (apart, 0)), dilation=apart).chunk(2, 1)
        z = torch.tanh(t) * torch.sigmoid(g)
        skips, h = skips + line(f"s{k}", z), h + line(f"r{k}", z)
    return functional.mse_loss(line("out", torch.relu(skips)), x["t"])


PORTS = {
    "gan": Port({"z": (4,), "x": (8,)}, GAN, gan),
    "taking turns": Port({"z": (4,), "x": (8,)}, TAKING_TURNS, turns((2, 2), (2, 1))),
    "critic": Port({"z": (4,), "x": (8,)}, CRITIC, turns((3, 3))),
    "critic of more": Port({"z": (4,), "x": (8,)}, CRITIC_OF_MORE, turns((3, 2), accumulate=2)),
    "siamese": Port({"x": (7,), "y": (7,), "same": ()}, SIAMESE, descent(siamese)),
    "vae": Port({"x": (8,), "eps": (3,)}, VAE, descent(vae)),
    "gpt": Port({"tokens": (6,), "next": (6,), "late": (6, 6)}, _gpt(), gpt_loop, {"tokens": 11, "next": 11}),
    "points": Port({"x": (7, 3), "unit": (3, 3), "label": ()}, POINTS, descent(points), {"label": 4}),
    "graph": Port({"x": (6, 5), "edges": (6, 6), "kinds": (6,)}, GCN, descent(gcn), {"kinds": 3}),
    "mixture": Port({"x": (6,), "t": (5,)}, MIXTURE, descent(mixture)),
    "seq2seq": Port({n: (5,) for n in ("source", "before", "after")}, SEQ2SEQ, descent(seq2seq),
                    dict.fromkeys(("source", "before", "after"), 9)),
    "resnet18": Port({"x": (3, 16, 16), "label": ()}, _resnet18(), descent(resnet18, momentum), {"label": 5}, 10),
    "mobilenet_v3": Port(
        {"x": (3, 8, 8), "label": ()}, _inverted("hard_swish", "hard_sigmoid", "relu", 12, 5),
        descent(inverted(functional.hardswish, lambda x: functional.relu6(x + 3) / 6, torch.relu), momentum),
        {"label": 5}),
    "mbconv": Port(
        {"x": (3, 8, 8), "label": ()}, _inverted("silu", "sigmoid", "silu", 16, 3),
        descent(inverted(functional.silu, torch.sigmoid, functional.silu), momentum), {"label": 5}),
    "unet": Port({"x": (2, 8, 12), "t": (1, 8, 12)}, UNET, descent(unet, momentum)),
    "wavenet": Port({"x": (2, 15), "t": (1, 15)}, _wavenet(), descent(wavenet, momentum)),
    "crf": Port({"x": (5, 6), "tags": (5,)}, _crf(), descent(crf), {"tags": 4}),
}  # fmt: skip


def _samples(port: Port) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {n: (STEPS * BATCH, *shape) for n, shape in port.inputs.items()}
    out = {
        n: rng.integers(0, port.counts[n], shape, np.int32) if n in port.counts else rng.normal(size=shape).astype("f4")
        for n, shape in shapes.items()
    }
    fixed: dict[str, Callable[[Any], Any]] = {
        "same": lambda v: v > 0,
        "edges": lambda v: np.abs(v) * (v > -0.5) + np.eye(6),
        "late": lambda v: np.triu(np.full(v.shape, -1e9), 1),
        "unit": lambda v: np.broadcast_to(np.eye(3), v.shape),
    }
    return {n: fixed[n](v).astype("f4") if n in fixed else v for n, v in out.items()}


@pytest.mark.parametrize("precision", CLOSE)
@pytest.mark.parametrize("name", [n if n == "gan" else pytest.param(n, marks=pytest.mark.slow) for n in PORTS])
def test_port(tmp_path: Path, name: str, precision: str) -> None:
    port = PORTS[name]
    data = _samples(port)
    np.savez(tmp_path / "samples.npz", **data)
    inputs = "\n".join(
        f"    {n}: {{shape: {list(shape)}{', dtype: int32' if n in port.counts else ''}}}"
        for n, shape in port.inputs.items()
    )
    arrays = ", ".join(f"{n}: {n}" for n in data)
    text = (
        f"language: 1\nname: port\nnumerics: {{precision: {precision}}}\nnetwork:\n  inputs:\n{inputs}\n{port.text}"
        f"  data: {{file: samples.npz, shuffle: false, inputs: {{{arrays}}}}}\n"
        f"  batch: {BATCH}\n  epochs: 1\n  seed: 4\n"
    )
    ours = load(text, tmp_path)
    weights = {n: torch.tensor(v.astype(precision), requires_grad=True) for n, v in ours.weights().items()}
    step = port.step(weights)
    found, wanted = [], []
    for k in range(port.single if precision == "float32" else STEPS):
        rows = range(k * BATCH, (k + 1) * BATCH)
        ours.step(k + 1, rows)
        found.append(ours.metric("loss") / BATCH)
        given = {
            n: torch.tensor(v[list(rows)].astype(np.int64 if n in port.counts else precision)) for n, v in data.items()
        }
        wanted.append(step(given).item())
    np.testing.assert_allclose(found, wanted, rtol=CLOSE[precision], atol=CLOSE[precision] * abs(wanted[0]))
    off = [
        f"{n}: {np.abs(v - weights[n].detach().numpy()).max()}" for n, v in ours.weights().items()
        if not np.allclose(v, weights[n].detach().numpy(), rtol=10 * CLOSE[precision], atol=10 * CLOSE[precision])
    ]  # fmt: skip
    assert not off, off
