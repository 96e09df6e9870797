"""Masked losses and metrics: values by their definitions in numpy, gradients by central
differences, in float64, on a full batch, a short one and a fully masked one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of
from tests.numeric.test_losses import log_softmax
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: masks
network:
  inputs: {{x: {{shape: [5]}}, y: {target}{mask}}}
  layers:
    - dense: {{name: hidden, inputs: x, units: 6, activation: tanh}}
    - dense: {{units: 12}}
    - reshape: {{name: out, shape: {shape}}}
train:
  data: {{file: samples.npz, inputs: {{x: xs, y: ys{array}}}, shuffle: false{split}}}
  loss: {loss}
  {extra}
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 8
  epochs: 1
numerics: {{precision: float64}}
"""
SAMPLES = 20
Each = Callable[[Array, Array], Array]


def entropy(p: Array, t: Array) -> Array:
    found: Array = -np.take_along_axis(log_softmax(p), np.maximum(t, 0)[..., None], -1)[..., 0]
    return found


def binary(p: Array, t: Array) -> Array:
    found: Array = np.logaddexp(0, p) - p * t
    return found


def cosine(p: Array, t: Array) -> Array:
    found: Array = 1 - (p * t).sum(-1) / np.linalg.norm(p, axis=-1) / np.linalg.norm(t, axis=-1)
    return found


WEIGHTS = np.array([1, 0.5, 2, 0.25])
CLASS, STEPS = "{shape: [], dtype: int32}", "{shape: [3], dtype: int32}"
# name: shape of the output and of the target, shape and type of the mask, the loss, and its value for every element
CASES: dict[str, tuple[str, str, str, str, Each]] = {
    "samples": ("[12]", CLASS, "[]", "softmax_cross_entropy: {logits: out, target: y, mask: m}", entropy),
    "steps": ("[3, 4]", STEPS, "[3]", "softmax_cross_entropy: {logits: out, target: y, mask: m}", entropy),
    "whole_sequences": ("[3, 4]", STEPS, "[]", "softmax_cross_entropy: {logits: out, target: y, mask: m}", entropy),
    "ignored": ("[3, 4]", STEPS, "", "softmax_cross_entropy: {logits: out, target: y, ignore: -7}", entropy),
    "ignored_samples": ("[12]", CLASS, "", "softmax_cross_entropy: {logits: out, target: y, ignore: 3}", entropy),
    "both": ("[3, 4]", STEPS, "[]", "softmax_cross_entropy: {logits: out, target: y, mask: m, ignore: -7}", entropy),
    "weights": ("[3, 4]", STEPS, "[3]",
        "softmax_cross_entropy: {logits: out, target: y, mask: m, class_weights: [1, 0.5, 2, 0.25]}",
        lambda p, t: entropy(p, t) * WEIGHTS[t]),
    "labels": ("[12]", "{shape: [12]}", "[12]", "binary_cross_entropy: {logits: out, target: y, mask: m}", binary),
    "numbers": ("[3, 4]", "{shape: [3, 4]}", "[3]", "mean_squared_error: {prediction: out, target: y, mask: m}",
        lambda p, t: (p - t) ** 2),
    "whole_numbers": ("[3, 4]", "{shape: [3, 4]}", "[], dtype: int32",
        "mean_absolute_error: {prediction: out, target: y, mask: m}", lambda p, t: np.abs(p - t)),
    "angles": ("[3, 4]", "{shape: [3, 4]}", "[3]", "cosine: {prediction: out, target: y, mask: m}", cosine),
    "divergence": ("[3, 4]", "{shape: [3, 4]}", "[3]", "kl_divergence: {prediction: out, target: y, mask: m}",
        lambda p, t: (t * (np.log(t) - p)).sum(-1)),
    "formula": ("[3, 4]", "{shape: [3, 4]}", "[3, 4]", "expression: {value: (out - y) ** 4, mask: m}",
        lambda p, t: (p - t) ** 4),
    "output": ("[3, 4]", "{shape: [3, 4]}", "[3, 4]", "expression: {value: out, mask: m}", lambda p, t: p),
}  # fmt: skip


def sizes(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split("[")[1].split("]")[0].split(",") if n.strip())


def samples(folder: Path, name: str) -> tuple[Array, Array, Array]:
    _, target, mask, loss, _ = CASES[name]
    rng = np.random.default_rng(11)
    xs, shape = rng.normal(size=(SAMPLES, 5)), (SAMPLES, *sizes(target))
    if "int32" in target:
        ys = rng.integers(0, 4, shape).astype(np.int32)
    else:
        ys = rng.dirichlet(np.ones(shape[-1]), shape[:-1])
    ms = np.ones(SAMPLES)
    if mask:
        ms = (rng.random((SAMPLES, *sizes(mask))) < 0.6) * (1 if "int32" in mask else rng.choice([1, 1, 0.5], SAMPLES)[
            (..., *[None] * len(sizes(mask)))])  # fmt: skip
        ms[14:] = 0
    if "-7" in loss:
        ys[rng.random(shape) < 0.3] = -7
        ys[14:] = -7
    if "ignore: 3" in loss:
        ys[14:] = 3
    np.savez(folder / "samples.npz", xs=xs, ys=ys, ms=ms.astype(np.int32) if "int32" in mask else ms)
    return xs, ys, ms


def text(name: str, extra: str = "", split: str = "") -> str:
    shape, target, mask, loss, _ = CASES[name]
    declared, array = (f", m: {{shape: {mask}}}", ", m: ms") if mask else ("", "")
    return TEXT.format(
        target=target, mask=declared, shape=shape, array=array, loss=f"{{{loss}}}", extra=extra, split=split
    )


def counts(name: str, each: Array, ys: Array, ms: Array) -> Array:
    """The mask weight of every element of the losses."""
    ignored = -7 if "-7" in CASES[name][3] else 3 if "ignore: 3" in CASES[name][3] else None
    m = ms.reshape(ms.shape + (1,) * (each.ndim - ms.ndim)) * np.ones(each.shape)
    found: Array = m if ignored is None else m * (ys != ignored)
    return found


def output(w: dict[str, Array], xs: Array, name: str) -> Array:
    h = np.tanh(xs @ w["hidden.weight"].T + w["hidden.bias"])
    last = next(n.removesuffix(".weight") for n in w if n.endswith(".weight") and not n.startswith("hidden"))
    found: Array = (h @ w[f"{last}.weight"].T + w[f"{last}.bias"]).reshape(len(xs), *sizes(CASES[name][0]))
    return found


def mean(name: str, w: dict[str, Array], xs: Array, ys: Array, ms: Array) -> float:
    each = CASES[name][4](output(w, xs, name), ys)
    m = counts(name, each, ys, ms)
    return float((each * m).sum() / m.sum()) if m.sum() else 0.0


def slopes(name: str, w: dict[str, Array], *data: Array) -> dict[str, Array]:
    found = {}
    for key, value in w.items():
        found[key] = np.zeros_like(value)
        for at in np.ndindex(*value.shape):
            moved = [value.copy(), value.copy()]
            for one, sign in zip(moved, (1, -1), strict=True):
                one[at] += sign * 1e-6
            ends = [mean(name, {**w, key: one}, *data) for one in moved]
            found[key][at] = (ends[0] - ends[1]) / 2e-6
    return found


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(tmp_path: Path, name: str) -> None:
    data = samples(tmp_path, name)
    trained = load(text(name), tmp_path)
    begin = trained.weights()
    for number, chosen in ((1, range(8)), (2, range(9, 14)), (3, range(14, 20))):
        for key, value in begin.items():
            trained.write(key, value)
        part = tuple(a[list(chosen)] for a in data)
        wanted = slopes(name, begin, *part)
        trained.step(number, chosen)
        total, count = trained.metric("loss"), trained.metric("count")
        if number == 3:
            assert (total, count) == (0, 0)
        else:
            assert total / count == pytest.approx(mean(name, begin, *part), rel=1e-12)
            assert max(float(np.abs(s).max()) for s in wanted.values()) > 1e-3
        for key, value in trained.weights().items():
            np.testing.assert_allclose(begin[key] - value, wanted[key], rtol=0, atol=2e-8, err_msg=key)


@pytest.mark.parametrize("name", ["steps", "ignored", "numbers"])
def test_accumulated(tmp_path: Path, name: str) -> None:
    """Two batches of different counts, and one without any, are one large one."""
    data = samples(tmp_path, name)
    trained = load(text(name, "accumulate: 3"), tmp_path)
    begin = trained.weights()
    for number, chosen in ((1, range(8)), (2, range(9, 14)), (3, range(14, 20))):
        trained.step(number, chosen)
    chosen = [*range(8), *range(9, 20)]
    wanted = slopes(name, begin, *(a[chosen] for a in data))
    for key, value in trained.weights().items():
        np.testing.assert_allclose(begin[key] - value, wanted[key], rtol=0, atol=2e-8, err_msg=key)
    for number in (4, 5, 6):
        now = trained.weights()
        trained.step(number, range(14, 20))
    for key, value in trained.weights().items():
        np.testing.assert_array_equal(value, now[key])


def measured(folder: Path, name: str, metrics: str) -> tuple[dict[str, float], Array, Array, Array]:
    xs, ys, ms = samples(folder, name)
    trained = load(text(name, f"metrics: {metrics}", ", split: {validation: 0.65}"), folder)
    for number, chosen in ((1, range(8)), (2, range(8, 13))):
        trained.step(number, chosen, "eval")
    p = output(trained.weights(), xs[:13], name)
    return (
        metrics_of(take_sums(trained.instance, trained.program)),
        p,
        ys[:13],
        counts(name, CASES[name][4](p, ys[:13]), ys[:13], ms[:13]),
    )


@pytest.mark.parametrize("name", ["samples", "steps", "whole_sequences", "ignored", "both"])
def test_metrics_of_classes(tmp_path: Path, name: str) -> None:
    found, p, t, m = measured(tmp_path, name, "[accuracy, {top: 2}, precision, recall, f1]")
    first = p.argmax(-1)
    rank = (p > np.take_along_axis(p, np.maximum(t, 0)[..., None], -1)[..., 0][..., None]).sum(-1)
    wanted = {
        "loss": (entropy(p, t) * m).sum() / m.sum(),
        "accuracy": ((first == t) * m).sum() / m.sum(),
        "top_2": ((rank < 2) * m).sum() / m.sum(),
    }
    assert {k: found[k] for k in wanted} == pytest.approx(wanted, rel=1e-12)
    hits, taken, there = (
        np.array([(m * test(k)).sum() for k in range(p.shape[-1])])
        for test in (lambda k: (first == k) & (t == k), lambda k: first == k, lambda k: t == k)
    )
    precision, recall = hits / np.maximum(taken, 1e-9), hits / np.maximum(there, 1e-9)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    for key, value in (("precision", precision), ("recall", recall), ("f1", f1)):
        assert found[key] == pytest.approx(value.mean(), rel=1e-12), key


@pytest.mark.parametrize("name", ["numbers", "whole_numbers"])
def test_metrics_of_numbers(tmp_path: Path, name: str) -> None:
    found, p, t, m = measured(tmp_path, name, "[mean_squared_error, mean_absolute_error, r2]")
    average = (t * m).sum() / m.sum()
    assert found["mean_squared_error"] == pytest.approx(((p - t) ** 2 * m).sum() / m.sum(), rel=1e-12)
    assert found["mean_absolute_error"] == pytest.approx((np.abs(p - t) * m).sum() / m.sum(), rel=1e-12)
    wanted = 1 - ((p - t) ** 2 * m).sum() / ((t - average) ** 2 * m).sum()
    assert found["r2"] == pytest.approx(wanted, rel=1e-9)


SUM = (
    "sum: [{loss: {softmax_cross_entropy: {logits: out, target: y, mask: m, ignore: -7}}}, "
    "{weight: 0.25, loss: {expression: {value: out ** 2}}}, "
    "{weight: 2, loss: {expression: {value: abs(out), mask: m}}}]"
)


def test_sum_of_masked_losses(tmp_path: Path) -> None:
    """Each term is a mean over what counts for it; an epoch's loss is that of all of its batches together."""
    xs, ys, ms = samples(tmp_path, "both")
    whole = text("both", "metrics: [accuracy]").replace(f"{{{CASES['both'][3]}}}", f"{{{SUM}}}")
    trained = load(whole, tmp_path)
    begin = trained.weights()

    def loss(w: dict[str, Array], chosen: list[int]) -> float:
        p = output(w, xs[chosen], "both")
        m = np.broadcast_to(ms[chosen][:, None, None], p.shape)
        value = mean("both", w, xs[chosen], ys[chosen], ms[chosen]) + 0.25 * float((p * p).mean())
        return value + 2 * (float((np.abs(p) * m).sum() / m.sum()) if m.sum() else 0.0)

    for number, chosen in ((1, [*range(8)]), (2, [*range(9, 14)]), (3, [*range(14, 20)])):
        for key, value in begin.items():
            trained.write(key, value)
        trained.step(number, chosen)
        for key, value in trained.weights().items():
            direction = np.random.default_rng(number).normal(size=value.shape)
            ends = [loss({**begin, key: begin[key] + s * 1e-6 * direction}, chosen) for s in (1, -1)]
            slope = float(((begin[key] - value) * direction).sum())
            assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7), key
    found = metrics_of(take_sums(trained.instance, trained.program))
    every = [*range(8), *range(9, 20)]
    assert found["loss"] == pytest.approx(loss(begin, every), rel=1e-12)
    each = entropy(output(begin, xs[every], "both"), ys[every])
    m = counts("both", each, ys[every], ms[every])
    right = output(begin, xs[every], "both").argmax(-1) == ys[every]
    assert found["accuracy"] == pytest.approx((right * m).sum() / m.sum(), rel=1e-12)


@pytest.mark.parametrize(
    ("target", "penalty"), diagonal(["cpu", "reference"], ["", "penalty: [{of: weights, l2: 0.01}]"])
)
def test_accumulated_sum(tmp_path: Path, penalty: str, target: str) -> None:
    """Terms with masks of their own over three batches, in one of which little counts, are those of one large batch;
    so are their updates after it, where sums begin again."""
    samples(tmp_path, "both")
    after = []
    for batch, accumulate, steps in ((20, 1, [[*range(20)]]), (8, 3, [[*range(8)], [*range(8, 14)], [*range(14, 20)]])):
        whole = text("both", f"{penalty}\n  accumulate: {accumulate}").replace(f"{{{CASES['both'][3]}}}", f"{{{SUM}}}")
        trained = load(whole.replace("batch: 8", f"batch: {batch}"), tmp_path, target)
        begin = trained.weights()
        for again in range(2):
            for k, chosen in enumerate(steps):
                trained.step(again * len(steps) + k + 1, chosen)
        after.append(trained.weights())
    for key, value in after[0].items():
        assert np.abs(value - begin[key]).max() > 1e-3
        np.testing.assert_allclose(after[1][key], value, rtol=0, atol=1e-13, err_msg=key)


def test_nothing_counts(tmp_path: Path) -> None:
    """The metrics of a fully masked epoch are undefined, not 0."""
    samples(tmp_path, "steps")
    trained = load(text("steps", "metrics: [accuracy]", ", split: {validation: 0.65}"), tmp_path)
    trained.step(1, range(14, 20), "eval")
    assert all(np.isnan(v) for v in metrics_of(take_sums(trained.instance, trained.program)).values())


def test_reference(tmp_path: Path) -> None:
    samples(tmp_path, "both")
    whole = text("both", "metrics: [accuracy]") + "  order: bitwise\n"
    whole = whole.replace("precision: float64}\n  order: bitwise", "precision: float32, order: bitwise}")
    both = [load(whole, tmp_path, target) for target in ("cpu", "reference")]
    for trained in both:
        for number, chosen in ((1, range(8)), (2, range(9, 14)), (3, range(14, 20))):
            trained.step(number, chosen)
    for key, value in both[0].weights().items():
        assert value.tobytes() == both[1].weights()[key].tobytes(), key


def test_the_text_does_not_depend_on_sizes(tmp_path: Path) -> None:
    cpu, found = backend("cpu"), []
    for steps, classes in ((3, 4), (6, 2)):
        rng = np.random.default_rng(1)
        np.savez(tmp_path / "samples.npz", xs=rng.normal(size=(20, 5)), ys=np.zeros((20, steps), np.int32),
                 ms=np.ones((20, steps)))  # fmt: skip
        whole = text("steps").replace("[3, 4]", f"[{steps}, {classes}]").replace("[3]", f"[{steps}]")
        found.append(cpu.emit(lower(model_of(whole, tmp_path), cpu.capabilities).merged))
    assert found[0] == found[1]
