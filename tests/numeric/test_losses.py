"""Losses, penalties and metrics of generated code against their definitions in numpy (values) and central differences
of the loss itself (gradients), in float64, on a full batch and a short one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netloom
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.numeric.simulated import Array
from tests.numeric.trained import Trained, load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: losses
params: {{tilt: {{value: 3}}}}
network:
  inputs: {{x: {{shape: [5]}}, y: {target}}}
  layers:
    - dense: {{name: hidden, inputs: x, units: 6, activation: tanh}}
    {layers}
train:
  data: {{file: samples.npz, inputs: {{x: xs, y: ys}}, shuffle: false}}
  loss: {loss}
  {extra}
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 8
  epochs: 1
numerics: {{precision: float64}}
"""
OUT = "- dense: {name: out, units: 4}"
LOGITS = "- dense: {name: out, units: 4}"
STEPS = "- dense: {units: 12}\n    - reshape: {name: out, shape: [3, 4]}"
SAMPLES = 20


def log_softmax(p: Array) -> Array:
    p = p - p.max(-1, keepdims=True)
    out: Array = p - np.log(np.exp(p).sum(-1, keepdims=True))
    return out


def entropy(p: Array, t: Array, smoothing: float = 0.0, weights: Array | None = None) -> float:
    q = log_softmax(p)
    weights = np.ones(p.shape[-1]) if weights is None else weights
    picked = np.take_along_axis(q, t[..., None], -1)[..., 0]
    return float((-(1 - smoothing) * picked * weights[t] - smoothing * (q * weights).mean(-1)).mean())


def by_weight(p: Array, t: Array, smoothing: float, weights: Array) -> float:
    return entropy(p, t, smoothing, weights) / float(weights[t].mean())


def huber(p: Array, t: Array) -> float:
    d = np.abs(p - t)
    return float(np.where(d <= 0.4, 0.5 * d * d, 0.4 * (d - 0.2)).mean())


def cosine(p: Array, t: Array) -> float:
    return float((1 - (p * t).sum(-1) / np.linalg.norm(p, axis=-1) / np.linalg.norm(t, axis=-1)).mean())


def own(p: Array, t: Array) -> float:
    return float(((p - t) ** 2 * np.where(t > p, 3.0, 1.0)).mean())


def two(p: Array, t: Array) -> float:
    return float((0.25 * (p - t) ** 2 + 2 * np.abs(p - t)).mean())


P = "{prediction: out, target: y}"
L = "{logits: out, target: y"
REAL, CLASS = "{shape: [4]}", "{shape: [], dtype: int32}"
Loss = Callable[[Any, Any], float]
CASES: dict[str, tuple[str, str, str, Loss]] = {
    "cross_entropy": (CLASS, LOGITS, f"{{softmax_cross_entropy: {L}}}}}", entropy),
    "smoothing": (CLASS, LOGITS, f"{{softmax_cross_entropy: {L}, smoothing: 0.1}}}}", lambda p, t: entropy(p, t, 0.1)),
    "class_weights": (CLASS, LOGITS, f"{{softmax_cross_entropy: {L}, class_weights: [1, 0.5, 2, 0]}}}}",
        lambda p, t: entropy(p, t, 0.0, np.array([1, 0.5, 2, 0]))),
    "smooth_weights": (CLASS, LOGITS,
        f"{{softmax_cross_entropy: {L}, class_weights: [1, 0.5, 2, 0], smoothing: 0.2, mean: weights}}}}",
        lambda p, t: by_weight(p, t, 0.2, np.array([1, 0.5, 2, 0]))),
    "steps_by_weight": ("{shape: [3], dtype: int32}", STEPS,
        f"{{softmax_cross_entropy: {L}, class_weights: [1, 0.5, 2, 0], mean: weights}}}}",
        lambda p, t: by_weight(p, t, 0.0, np.array([1, 0.5, 2, 0]))),
    "steps": ("{shape: [3], dtype: int32}", STEPS, f"{{softmax_cross_entropy: {L}, smoothing: 0.2}}}}",
        lambda p, t: entropy(p, t, 0.2)),
    "binary": (REAL, OUT, f"{{binary_cross_entropy: {L}, smoothing: 0.1}}}}",
        lambda p, t: float((np.logaddexp(0, p) - p * (0.9 * t + 0.05)).mean())),
    "squared": (REAL, OUT, f"{{mean_squared_error: {P}}}", lambda p, t: float(((p - t) ** 2).mean())),
    "absolute": (REAL, OUT, f"{{mean_absolute_error: {P}}}", lambda p, t: float(np.abs(p - t).mean())),
    "huber": (REAL, OUT, "{huber: {prediction: out, target: y, delta: 0.4}}", huber),
    "smooth_l1": (REAL, OUT, "{smooth_l1: {prediction: out, target: y, beta: 0.4}}", lambda p, t: huber(p, t) / 0.4),
    "poisson": (REAL, OUT, f"{{poisson: {P}}}", lambda p, t: float((np.exp(p) - t * p).mean())),
    "hinge": (REAL, OUT, f"{{hinge: {P}}}", lambda p, t: float(np.maximum(0, 1 - p * t).mean())),
    "kl": (REAL, OUT.replace("out", "raw") + "\n    - log_softmax: {name: out}", f"{{kl_divergence: {P}}}",
        lambda p, t: float((np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - p), 0)).sum(-1).mean())),
    "cosine": (REAL, OUT, f"{{cosine: {P}}}", cosine),
    "cosine_steps": ("{shape: [3, 4]}", STEPS, f"{{cosine: {P}}}", cosine),
    "expression": (REAL, OUT, "{expression: {value: (out - y) ** 2 * (tilt if y > out else 1)}}", own),
    "sum": (REAL, OUT, "{sum: [{weight: 0.25, loss: {mean_squared_error: {prediction: out, target: y}}}, "
        "{weight: 2, loss: {expression: {value: abs(out - y)}}}]}", two),
}  # fmt: skip


def data(folder: Path, target: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    xs = rng.normal(size=(SAMPLES, 5))
    shape = (SAMPLES, *(int(n) for n in target.split("[")[1].split("]")[0].split(",") if n))
    ys = rng.integers(0, 4, shape).astype(np.int32) if "int32" in target else rng.dirichlet(np.ones(4), shape[:-1])
    np.savez(folder / "samples.npz", xs=xs, ys=ys)
    return xs, ys


def output(trained: Trained, xs: Array, name: str) -> Array:
    """The network in numpy."""
    w = trained.weights()
    h = np.tanh(xs @ w["hidden.weight"].T + w["hidden.bias"])
    last = next(n.removesuffix(".weight") for n in reversed(list(w)) if n.endswith(".weight"))
    y = h @ w[f"{last}.weight"].T + w[f"{last}.bias"]
    if "steps" in name:
        return y.reshape(len(xs), 3, 4)
    return log_softmax(y) if name == "kl" else y


def start(folder: Path, name: str, extra: str = "") -> tuple[Trained, Array, Array, Loss]:
    target, layers, text, loss = CASES[name]
    xs, ys = data(folder, target)
    trained = load(TEXT.format(target=target, layers=layers, loss=text, extra=extra), folder)
    rng = np.random.default_rng(2)
    for key in trained.names:
        trained.write(key, trained.read(key) + rng.normal(0, 0.4, trained.read(key).shape))
    return trained, xs, ys, loss


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(tmp_path: Path, name: str) -> None:
    trained, xs, ys, loss = start(tmp_path, name)
    begin = trained.weights()
    for number, chosen in ((1, np.arange(8)), (2, np.arange(9, 14))):
        for key, value in begin.items():
            trained.write(key, value)
        wanted = loss(output(trained, xs[chosen], name), ys[chosen])
        slopes = {}
        for key, value in begin.items():
            slope = np.zeros_like(value)
            for at in np.ndindex(*value.shape):
                ends = []
                for sign in (1, -1):
                    moved = value.copy()
                    moved[at] += sign * 1e-6
                    trained.write(key, moved)
                    ends.append(loss(output(trained, xs[chosen], name), ys[chosen]))
                slope[at] = (ends[0] - ends[1]) / 2e-6
            trained.write(key, value)
            slopes[key] = slope
        trained.step(number, list(chosen))
        assert trained.metric("loss") / trained.metric("count") == pytest.approx(wanted, rel=1e-12)
        for key, value in trained.weights().items():
            np.testing.assert_allclose(begin[key] - value, slopes[key], rtol=0, atol=2e-8, err_msg=key)
        assert max(float(np.abs(s).max()) for s in slopes.values()) > 1e-3


def test_penalties(tmp_path: Path) -> None:
    """l1 |w| + l2 w ** 2 over the classes that are named; the loss that is reported has them in it."""
    plain, xs, ys, loss = start(tmp_path, "squared")
    extra = "penalty: [{l2: 0.05, l1: 0.01}, {l2: 0.3, of: [out, biases]}]"
    trained, *_ = start(tmp_path, "squared", extra)
    begin = trained.weights()
    for one in (plain, trained):
        one.step(1, range(6))
    added, slopes = 0.0, {}
    for key, w in begin.items():
        l1, l2 = (0.01, 0.05) if key.endswith("weight") else (0.0, 0.0)
        l2 += 0.3 if key.startswith("out") or key.endswith("bias") else 0.0
        added += l1 * float(np.abs(w).sum()) + l2 * float((w * w).sum())
        slopes[key] = l1 * np.sign(w) + 2 * l2 * w
    wanted = loss(output_of(begin, xs[:6]), ys[:6]) + added
    assert trained.metric("loss") / trained.metric("count") == pytest.approx(wanted, rel=1e-12)
    for key, value in trained.weights().items():
        np.testing.assert_allclose(plain.weights()[key] - value, slopes[key], rtol=0, atol=1e-12, err_msg=key)


def output_of(w: dict[str, Array], xs: Array) -> Array:
    h = np.tanh(xs @ w["hidden.weight"].T + w["hidden.bias"])
    out: Array = h @ w["out.weight"].T + w["out.bias"]
    return out


def epoch(trained: Trained, phase: str = "eval") -> dict[str, float]:
    """Metrics over 13 samples in two batches."""
    for number, chosen in ((1, range(8)), (2, range(8, 13))):
        trained.step(number, chosen, phase)
    return metrics_of(take_sums(trained.instance, trained.program))


SPLIT = "split: {validation: 0.65}"


def evaluated(folder: Path, name: str, metrics: str) -> tuple[dict[str, float], Array, Array]:
    target, layers, text, _ = CASES[name]
    xs, ys = data(folder, target)
    whole = TEXT.format(target=target, layers=layers, loss=text, extra=f"metrics: {metrics}")
    trained = load(whole.replace("shuffle: false", SPLIT), folder)
    return epoch(trained), output(trained, xs[:13], name), ys[:13]


def test_metrics_of_classes(tmp_path: Path) -> None:
    found, p, t = evaluated(tmp_path, "cross_entropy", "[accuracy, precision, {top: 2}, recall, f1]")
    first = p.argmax(-1)
    hits = np.array([((first == k) & (t == k)).sum() for k in range(4)], float)
    taken, there = np.bincount(first, minlength=4), np.bincount(t, minlength=4)
    precision = np.array([h / n if n else 0 for h, n in zip(hits, taken, strict=True)])
    recall = np.array([h / n if n else 0 for h, n in zip(hits, there, strict=True)])
    f1 = np.array([2 * a * b / (a + b) if a + b else 0 for a, b in zip(precision, recall, strict=True)])
    rank = (p > np.take_along_axis(p, t[:, None], 1)).sum(1)
    wanted = {
        "loss": entropy(p, t),
        "accuracy": (first == t).mean(),
        "precision": precision.mean(),
        "top_2": (rank < 2).mean(),
        "recall": recall.mean(),
        "f1": f1.mean(),
    }
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, rel=1e-12)
    assert 0 < found["accuracy"] < found["top_2"]


def test_metrics_of_steps(tmp_path: Path) -> None:
    found, p, t = evaluated(tmp_path, "steps", "[accuracy, {top: 3}]")
    rank = (p > np.take_along_axis(p, t[..., None], -1)).sum(-1)
    assert found["accuracy"] == pytest.approx((p.argmax(-1) == t).mean(), rel=1e-12)
    assert found["top_3"] == pytest.approx((rank < 3).mean(), rel=1e-12)


def test_metrics_of_numbers(tmp_path: Path) -> None:
    found, p, t = evaluated(tmp_path, "huber", "[mean_absolute_error, mean_squared_error, r2]")
    assert found["mean_absolute_error"] == pytest.approx(np.abs(p - t).mean(), rel=1e-12)
    assert found["mean_squared_error"] == pytest.approx(((p - t) ** 2).mean(), rel=1e-12)
    assert found["r2"] == pytest.approx(1 - ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum(), rel=1e-6)


def test_metrics_of_yes_or_no(tmp_path: Path) -> None:
    found, p, t = evaluated(tmp_path, "binary", "[accuracy, precision, recall, f1]")
    yes, right = p > 0, t > 0.5
    precision, recall = (yes & right).sum() / yes.sum(), (yes & right).sum() / right.sum()
    assert found["accuracy"] == pytest.approx((yes == right).mean(), rel=1e-12)
    assert found["precision"] == pytest.approx(precision, rel=1e-12)
    assert found["recall"] == pytest.approx(recall, rel=1e-12)
    assert found["f1"] == pytest.approx(2 * precision * recall / (precision + recall) if precision else 0, rel=1e-12)


def test_a_penalty_of_a_recurrent_layer() -> None:
    """Its weights are read by the loop over the steps and by the penalty, which adds 2 * l2 * w to their gradient."""
    rng = np.random.default_rng(0)
    samples = {"x": rng.normal(size=(4, 3, 2)), "y": rng.normal(size=(4, 2))}

    def trained(rate: float, **extra: object) -> dict[str, Array]:
        inputs = {"x": {"shape": [3, 2]}, "y": {"shape": [2]}}
        layers = [{"gru": {"name": "out", "inputs": "x", "units": 2}}]
        loss = {"mean_squared_error": {"prediction": "out", "target": "y"}}
        train = {"loss": loss, "optimizer": {"sgd": {"learning_rate": rate}}, "epochs": 1, **extra}
        model = {"language": 1, "network": {"inputs": inputs, "layers": layers}, "train": train}
        return netloom.load(model).fit(samples, target="reference", precision="float64").weights()

    start, plain, penalized = trained(1e-300), trained(0.5), trained(0.5, penalty={"l2": 0.25})
    for key, w in start.items():
        shrunk = 0.0 if key.endswith("bias") else 0.25 * w
        np.testing.assert_allclose(plain[key] - penalized[key], shrunk, rtol=0, atol=1e-12, err_msg=key)


def test_means_of_many_elements_are_exact(tmp_path: Path) -> None:
    """A float32 mean over 80,000 elements of each sample: sums of sums, whose errors are small."""
    x = np.random.default_rng(4).normal(size=(16, 2, 200, 200)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    text = """\
language: 1
network: {inputs: {x: {shape: [2, 200, 200]}}, layers: [scale_shift: {name: y}]}
train:
  data: {file: samples.npz, inputs: {x: x}}
  loss: {expression: {value: y * y}}
  optimizer: {sgd: {learning_rate: 0}}
  batch: 16
  epochs: 1
"""
    trained = load(text, tmp_path)
    trained.step(1, range(16))
    assert trained.metric("loss") / 16 == pytest.approx(np.mean(x.astype(np.float64) ** 2), rel=1e-6)
