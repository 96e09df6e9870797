"""Masked values have no effect: NaN, infinities and huge numbers at masked positions of targets and predictions give
losses, metrics and gradients bitwise equal to those for zeros."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.cuda.emit.emit import emit
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.numeric.simulated import Array
from tests.numeric.trained import Trained, load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: masked
network:
  inputs: {{x: {{shape: [5]}}, z: {{shape: [3, 4]}}, y: {target}, m: {{shape: {mask}}}}}
  layers:
    - dense: {{name: hidden, inputs: x, units: 12, activation: tanh}}
    - reshape: {{name: scores, shape: [3, 4]}}
    - add: {{name: out, inputs: [scores, z]}}
train:
  data: {{file: samples.npz, inputs: {{x: xs, z: zs, y: ys, m: ms}}, shuffle: false}}
  loss: {loss}
  metrics: {metrics}
  optimizer: {{sgd: {{learning_rate: 0.5}}}}
  batch: 4
  epochs: 1
numerics: {{precision: {precision}}}
"""
REALS, STEPS = "{shape: [3, 4]}", "{shape: [3], dtype: int32}"
CLASSES = "[accuracy, {top: 2}, precision, recall, f1, confusion]"
NUMBERS = "[mean_absolute_error, mean_squared_error, r2]"
BINARY = "[accuracy, precision, recall, f1]"
PAIR = "prediction: out, target: y, mask: m"
SCORES = "logits: out, target: y"
# name: target, shape of the mask, loss, metrics
CASES = {
    "squares": (REALS, "[3]", f"{{mean_squared_error: {{{PAIR}}}}}", NUMBERS),
    "squares_each": (REALS, "[3, 4]", f"{{mean_squared_error: {{{PAIR}}}}}", NUMBERS),
    "distances": (REALS, "[]", f"{{mean_absolute_error: {{{PAIR}}}}}", NUMBERS),
    "huber": (REALS, "[3, 4]", f"{{huber: {{{PAIR}}}}}", NUMBERS),
    "hinge": (REALS, "[3]", f"{{hinge: {{{PAIR}}}}}", NUMBERS),
    "divergence": (REALS, "[3]", f"{{kl_divergence: {{{PAIR}}}}}", NUMBERS),
    "cosine": (REALS, "[3]", f"{{cosine: {{{PAIR}}}}}", NUMBERS),
    "binary": (REALS, "[3, 4]", f"{{binary_cross_entropy: {{{SCORES}, mask: m}}}}", BINARY),
    "binary_weighted": (REALS, "[3]",
        f"{{binary_cross_entropy: {{{SCORES}, mask: m, class_weights: [1, 3], smoothing: 0.1}}}}", "[f1]"),
    "classes": (STEPS, "[3]", f"{{softmax_cross_entropy: {{{SCORES}, mask: m}}}}", CLASSES),
    "sequences": (STEPS, "[]", f"{{softmax_cross_entropy: {{{SCORES}, mask: m, smoothing: 0.1}}}}", CLASSES),
    "ignored": (STEPS, "[3]", f"{{softmax_cross_entropy: {{{SCORES}, ignore: -1}}}}", CLASSES),
    "both": (STEPS, "[3]", f"{{softmax_cross_entropy: {{{SCORES}, mask: m, ignore: -1}}}}", CLASSES),
    "weighted": (STEPS, "[3]",
        f"{{softmax_cross_entropy: {{{SCORES}, mask: m, ignore: -1, class_weights: [1, 2, 0.5, 1]}}}}", CLASSES),
    "class_left_out": (STEPS, "[3]",
        f"{{softmax_cross_entropy: {{{SCORES}, ignore: -1, class_weights: [1, 2, 0, 1]}}}}", "[]"),
    "formula": (REALS, "[3]", "{expression: {value: 'log(abs(out)) * y + 1 / out', mask: m}}", "[]"),
    "sum": (REALS, "[3]", f"{{sum: [{{loss: {{mean_squared_error: {{{PAIR}}}}}}}, "
        "{weight: 2, loss: {expression: {value: 'sqrt(abs(out - y))', mask: m}}}]}", NUMBERS),
}  # fmt: skip
BAD = (np.nan, np.inf, -np.inf, 1e38, -1e38)
ROWS = 6


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Each case with its targets and what is added to the prediction, lowered and built once for each target."""

    @functools.cache
    def made(name: str, target: str) -> tuple[Trained, Array, Array]:
        folder: Path = tmp_path_factory.mktemp(f"{name}-{target}")
        kind, mask, loss, metrics = CASES[name]
        rng = np.random.default_rng(3)
        reals = "int32" not in kind
        ys = rng.dirichlet(np.ones(4), (ROWS, 3)) if reals else rng.integers(0, 4, (ROWS, 3)).astype(np.int32)
        arrays = {"xs": rng.normal(size=(ROWS, 5)), "zs": rng.normal(size=(ROWS, 3, 4)), "ys": ys}
        shape = tuple(int(n) for n in mask.strip("[]").split(",") if n)
        np.savez(folder / "samples.npz", **arrays, ms=np.ones((ROWS, *shape)))
        precision = "float64" if len(name) % 2 else "float32"
        text = TEXT.format(target=kind, mask=mask, loss=loss, metrics=metrics, precision=precision)
        if target == "cuda":  # what the GPU gets, by the oracle; its text is made, too
            trained = load(text, folder, "reference", lowered_for="cuda")
            assert emit(trained.program).text
            return trained, arrays["ys"], arrays["zs"]
        return load(text, folder, target), arrays["ys"], arrays["zs"]

    return made


def left_out(name: str, given: Array, mask: Array, draw: st.DrawFn) -> tuple[Array, Array]:
    """Where nothing counts (samples, 3, 4), and the targets."""
    _, shape, loss, _ = CASES[name]
    ys = given.reshape(ROWS, 3, -1).copy()
    axes = tuple(int(n) for n in shape.strip("[]").split(",") if n)
    masked = np.zeros((ROWS, 1, 1), bool)
    if "mask: m" in loss:
        masked = mask.reshape(ROWS, *axes, *[1] * (2 - len(axes))) == 0
    where = np.broadcast_to(masked, (ROWS, 3, 4)).copy()
    if "ignore" in loss:
        ignored = np.array(draw(st.lists(st.booleans(), min_size=ROWS * 3, max_size=ROWS * 3))).reshape(ROWS, 3)
        ys[ignored] = -1
        where |= ignored[..., None]
    if name == "class_left_out":
        where |= ys == 2
    return where, ys


def after_a_step(trained: Trained, begin: dict[str, Array], arrays: dict[str, Array]) -> list[bytes]:
    """Weights after a batch of all four rows and a short one, the loss and the metrics, as bytes."""
    for key, value in begin.items():
        trained.write(key, value)
    for key, value in arrays.items():
        trained.write(f"data.{key}", value.reshape(ROWS, -1))
    trained.step(1, [1, 2, 3, 4])
    found = [trained.read(n) for n in trained.names]
    trained.step(2, [5, 0])
    found += [trained.read(n) for n in trained.names]
    metrics = metrics_of(take_sums(trained.instance, trained.program))
    assert all(np.isfinite(v).all() for v in found)
    assert not np.isinf(list(metrics.values())).any()
    return [v.tobytes() for v in (*found, np.array(list(metrics.values())))]


COMPILED = (
    "squares",
    "divergence",
    "cosine",
    "binary_weighted",
    "classes",
    "weighted",
    "class_left_out",
    "formula",
    "sum",
)
"""What is compiled, too: the others are lowered to nothing else."""


TARGETS = [(n, t) for n in CASES for t in ("reference", "cuda") if n not in COMPILED]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((n, "cpu") for n in COMPILED),
        *(pytest.param(n, t, marks=pytest.mark.slow) for n in COMPILED for t in ("reference", "cuda")),
        *(x if k % 4 in (0, 3) else pytest.param(*x, marks=pytest.mark.slow) for k, x in enumerate(TARGETS)),
    ],
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(data=st.data())
def test_masked_places_are_as_if_zero(built, name: str, target: str, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
    trained, ys, zs = built(name, target)
    begin = {n: np.random.default_rng(5).normal(size=trained.read(n).shape) * 0.3 for n in trained.names}
    axes = tuple(int(n) for n in CASES[name][1].strip("[]").split(",") if n)
    size = ROWS * int(np.prod(axes))
    kept = st.sampled_from([0.0, 0.0, 1.0, 1.0, 0.5])
    mask = np.array(data.draw(st.lists(kept, min_size=size, max_size=size))).reshape(ROWS, -1)
    where, ys = left_out(name, ys, mask, data.draw)
    bad = np.array(data.draw(st.lists(st.sampled_from(BAD), min_size=7, max_size=7)))
    poison = np.resize(bad, (ROWS, 3, 4))
    reals = "int32" not in CASES[name][0]
    clean = {"zs": np.where(where, 0.0, zs), "ys": np.where(where, 0.0, ys) if reals else ys, "ms": mask}
    dirty = {"zs": np.where(where, poison, zs), "ys": np.where(where, poison[:, ::-1], ys) if reals else ys, "ms": mask}
    assert after_a_step(trained, begin, clean) == after_a_step(trained, begin, dirty)
