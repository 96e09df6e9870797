"""Training runs end to end: metrics, weights, checkpoints, resuming in and between epochs, failures."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.results import RunResult
from compiler.runtime.common.options import Options
from compiler.runtime.execute import run_model
from compiler.runtime.training.data import as_batches, epoch_order, split
from netloom import run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_spiking import Signalling

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")


@pytest.fixture
def model(here: Path, root: Path) -> Path:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    return write(here, DIGITS)


def rows(result: RunResult) -> list[dict[str, float]]:
    """The metrics without the seconds, which differ from run to run."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in result.history()]


def same_training(a: RunResult, b: RunResult) -> None:
    """Weights, checkpointed state and metrics are equal, bit for bit."""
    assert rows(a) == rows(b)
    for left, right in ((a.weights(), b.weights()), (last_state(a), last_state(b))):
        assert left.keys() == right.keys()
        assert all(np.array_equal(left[k], right[k]) for k in left)


def last_state(result: RunResult) -> dict[str, np.ndarray]:
    return load_file(max((result.folder / "checkpoints").iterdir()))


def test_the_run_directory(model: Path) -> None:
    result = run(model)
    assert result.status == "ok"
    history = result.history()
    assert [r["epoch"] for r in history] == [1, 2, 3, 4]
    assert set(history[0]) == {"epoch", "loss", "accuracy", "validation_loss", "validation_accuracy", "seconds"}
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]
    assert result.metrics["validation_accuracy"] == history[-1]["validation_accuracy"] > 0.5
    weights = result.weights()
    assert {n: w.shape for n, w in weights.items()} == {
        "hidden.weight": (12, 64),
        "hidden.bias": (12,),
        "logits.weight": (10, 12),
        "logits.bias": (10,),
    }
    names = sorted(p.name for p in (result.folder / "checkpoints").iterdir())
    assert names == ["epoch-000003.safetensors", "epoch-000004.safetensors"]
    record = json.loads((result.folder / "run.json").read_text())
    assert record["summary"]["metrics"] == result.metrics
    assert record["times"]["training_cpu_seconds"] > 0


def test_metrics_are_means_over_the_samples(model: Path, root: Path) -> None:
    """Validation metrics of the last epoch, computed from the weights with numpy."""
    result = run(model, precision="float64")
    with np.load(root / "models" / "data" / "digits.npz") as file:
        x, labels = file["flat"] / 16, file["labels"]
    _, held_out = split(len(x), 0.25, 2)
    w = result.weights()
    hidden = np.maximum(x[held_out] @ w["hidden.weight"].T + w["hidden.bias"], 0)
    logits = hidden @ w["logits.weight"].T + w["logits.bias"]
    target = labels[held_out]
    largest = logits.max(axis=1)
    losses = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1)) - logits[np.arange(len(target)), target]
    assert result.metrics["validation_loss"] == pytest.approx(losses.mean(), rel=1e-9)
    assert result.metrics["validation_accuracy"] == pytest.approx((logits.argmax(axis=1) == target).mean(), rel=1e-12)


def test_one_seed_gives_one_result(model: Path) -> None:
    a, b = run(model, epochs=2), run(model, epochs=2)
    same_training(a, b)
    assert rows(run(model, epochs=2, seed=3)) != rows(a)


def test_resuming_between_epochs(model: Path, here: Path) -> None:
    unbroken = run(model)
    first = run(model, epochs=2)
    same_training(unbroken, run(model, resume=first.folder))
    third = unbroken.folder / "checkpoints" / "epoch-000003.safetensors"
    same_training(unbroken, run(model, resume=third))
    with pytest.raises(RunError, match="where the training ends"):
        run(model, resume=unbroken.folder)
    with pytest.raises(RunError, match="another model"):
        run(model, set={"width": 13}, resume=first.folder)


def test_a_learning_rate_may_change_on_resuming(model: Path) -> None:
    """The model's hash excludes `train`, and parameters used only there."""
    first = run(model, epochs=1)
    second = run(model, set={"rate": 1e-4}, resume=first.folder)
    assert second.status == "ok"
    assert rows(second)[0] == rows(first)[0]


@pytest.mark.parametrize("update", [2, 4, 7])
def test_a_signal_in_the_middle_of_an_epoch(model: Path, here: Path, update: int) -> None:
    unbroken = run(model)
    progress = Signalling(update, signal.SIGINT)
    stopped = run_model(model, Options(), progress)
    assert stopped.status == "interrupted"
    assert stopped.signal == signal.SIGINT
    assert len(rows(stopped)) < 4
    same_training(unbroken, run(model, resume=stopped.folder))


def test_without_validation(model: Path, here: Path) -> None:
    text = DIGITS.replace("    split: {validation: 0.25}\n", "")
    result = run(write(here, text, "all.yaml"), epochs=1)
    assert set(result.history()[0]) == {"epoch", "loss", "accuracy", "seconds"}


def test_a_loss_that_is_not_finite_fails_the_run(model: Path, here: Path) -> None:
    with pytest.raises(RunError, match="in epoch") as caught:
        run(model, set={"rate": 1e30}, out=here / "failed")
    assert caught.value.exit_code == 5
    assert json.loads((here / "failed" / "run.json").read_text())["status"] == "failed"


def test_the_reference_trains_alike(model: Path) -> None:
    """One epoch on 1/8 of the data in float64: only the order of sums differs."""
    text = DIGITS.replace("0.25", "0.875")
    path = write(model.parent, text, "few.yaml")
    a = run(path, epochs=1, precision="float64")
    b = run(path, "reference", epochs=1, precision="float64")
    for name, value in a.metrics.items():
        assert b.metrics[name] == pytest.approx(value, rel=1e-9), name
    for name, weight in a.weights().items():
        assert np.allclose(b.weights()[name], weight, rtol=1e-9, atol=1e-12), name


# ------------------------------------------------------------------------------------------------ orders


def test_the_split_depends_on_the_seed_alone() -> None:
    train, validation = split(1797, 0.2, 3)
    assert len(validation) == 359
    assert sorted([*train, *validation]) == list(range(1797))
    assert np.array_equal(split(1797, 0.2, 3)[1], validation)
    assert not np.array_equal(split(1797, 0.2, 4)[1], validation)
    # Old checkpoints resume with the same split of samples: these numbers must not change.
    assert list(split(20, 0.25, 1)[1]) == [2, 5, 8, 10, 13]


def test_orders_are_permutations_that_differ_by_epoch() -> None:
    samples = np.arange(5, 40, dtype=np.int32)
    orders = [epoch_order(samples, 1, e, True) for e in (1, 2, 1)]
    assert all(sorted(o) == list(samples) for o in orders)
    assert np.array_equal(orders[0], orders[2])
    assert not np.array_equal(orders[0], orders[1])
    assert np.array_equal(epoch_order(samples, 1, 1, False), samples)


def test_a_short_last_batch_is_filled_with_missing_rows() -> None:
    rows = as_batches(np.arange(5, dtype=np.int32), 3, (2, 4))
    assert rows.tolist() == [[0, 1, 2, -1], [3, 4, -1, -1]]
