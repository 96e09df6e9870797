"""Gradient accumulation, weight averaging, early stopping, best weights and learning rate reduction on a plateau:
whole runs against their metrics and against larger batches, and resumed bit for bit."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from compiler.core.diagnostics import RunError
from compiler.ir.level0.model import Plateau, Plot, Stop, Watched
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.trained import model_of_run
from compiler.runtime.common.options import Options
from compiler.runtime.common.watch import best_epoch, plateau_factor, stops
from compiler.runtime.execute import run_model
from compiler.runtime.plots.training import training
from netloom import evaluate, predict, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_spiking import Signalling
from tests.cpu.test_run_training import last_state, rows, same_training
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

Variant = Callable[..., Path]


@pytest.fixture
def variant(here: Path, root: Path) -> Variant:
    """The small net without dropout, with further keys of `train`."""
    shutil.copy(root / "models" / "data" / "digits.npz", here)

    def made(*keys: str, **changed: str) -> Path:
        text = DIGITS.replace("    - dropout: {rate: 0.1}\n", "")
        for old, new in changed.items():
            key = {"batch": "  batch: 50", "checkpoint": "  checkpoint: {every: 3}", "rate": "learning_rate: rate"}[old]
            assert key in text
            text = text.replace(key, new)
        for key in keys:
            text = text.replace("train:\n", f"train:\n  {key}\n")
        return write(here, text, f"{abs(hash(text))}.yaml")

    return made


# -------------------------------------------------------------------------------------------- accumulation


def test_accumulated_batches_are_one_large_batch(variant: Variant) -> None:
    """1,348 samples: 27 batches of 50 (the last of 48), or 9 of 150 (the last of 148)."""
    small = run(variant("accumulate: 3", "clip: {norm: 0.1}"), epochs=2, precision="float64")
    large = run(variant("clip: {norm: 0.1}", batch="  batch: 150"), epochs=2, precision="float64")
    plain = run(variant("clip: {norm: 0.1}"), epochs=2, precision="float64")
    for name, value in large.weights().items():
        assert np.allclose(small.weights()[name], value, rtol=1e-7, atol=1e-9), name
        assert not np.allclose(plain.weights()[name], value, rtol=1e-3, atol=1e-4), name


def test_sums_go_on_into_the_next_epoch(variant: Variant) -> None:
    """27 batches by fours: the weights change 13 times in two epochs."""
    result = run(variant("accumulate: 4", rate="learning_rate: rate + 0 * step"), epochs=2, precision="float64")
    assert last_state(result)["accumulated.batches"] == 2
    plain = run(variant("accumulate: 4"), epochs=2, precision="float64")
    for name, value in plain.weights().items():
        assert np.array_equal(result.weights()[name], value)


def test_accumulation_in_the_reference(variant: Variant) -> None:
    path = variant("accumulate: 2", "average: 0.9", "clip: {value: 0.01}", batch="  batch: 400")
    a = run(path, epochs=2, precision="float64")
    b = run(path, "reference", epochs=2, precision="float64")
    for name, value in a.weights().items():
        assert np.allclose(b.weights()[name], value, rtol=1e-9, atol=1e-12), name


def test_one_text_for_any_number_of_batches(variant: Variant, here: Path) -> None:
    """The number is data; templates are those of another one."""
    from backends.registry import backend

    chosen = backend("cpu")
    texts = []
    for n in (2, 13):
        model = model_of(variant(f"accumulate: {n}", "average: 0.99").read_text(), here, name=f"n{n}")
        lowered = lower(model, chosen.capabilities, verify=True)
        texts.append([t.digest for t in lowered.merged.templates])
    assert texts[0] == texts[1]


# -------------------------------------------------------------------------------------------------- turns

TURNS = (
    "groups: [{of: biases, every: 4, first: 3}, {of: logits, every: 3, optimizer: {momentum: {learning_rate: 0.1}}}]"
)


def test_weights_that_take_turns_in_the_reference(variant: Variant) -> None:
    """Two epochs of 4 batches."""
    path = variant(TURNS, batch="  batch: 400", rate="learning_rate: rate * cos(step / steps)")
    ours, theirs = (
        run(path, target, epochs=2, precision="float64", order="bitwise") for target in ("cpu", "reference")
    )
    for name, value in ours.weights().items():
        assert np.array_equal(theirs.weights()[name], value), name


def test_turns_go_on_where_a_run_was_stopped(variant: Variant) -> None:
    path = variant(TURNS, rate="learning_rate: rate * cos(step / steps)")
    stopped = run_model(path, Options(), Signalling(3, signal.SIGINT))
    assert stopped.status == "interrupted"
    same_training(run(path), run(path, resume=stopped.folder))


def test_one_text_for_any_turns(variant: Variant, here: Path) -> None:
    """The numbers of the steps are data; a group in which no step is left out has a text of its own."""
    from backends.registry import backend

    chosen = backend("cpu")
    texts = []
    for every, first in ((4, 3), (7, 2)):
        turns = TURNS.replace("every: 4, first: 3", f"every: {every}, first: {first}")
        model = model_of(variant(turns).read_text(), here, name=f"n{every}")
        texts.append([t.digest for t in lower(model, chosen.capabilities, verify=True).merged.templates])
    assert texts[0] == texts[1]


# ---------------------------------------------------------------------------------------------- averages


def test_averages_of_weights(variant: Variant, root: Path) -> None:
    """One epoch with every set of weights kept by single-batch epochs would be slow: the recursion is followed through
    checkpoints of one batch per epoch instead."""
    path = variant("average: 0.75", "checkpoint: {every: 1}", batch="  batch: 2000", checkpoint="  x-none: 1")
    result = run(path, epochs=4, precision="float64")
    states = [load_file(p) for p in sorted((result.folder / "checkpoints").iterdir())]
    average = states[0]["logits.weight"]
    for state in states[1:]:
        average = 0.75 * average + 0.25 * state["logits.weight"]
    assert np.allclose(states[-1]["logits.weight.param.average"], average, rtol=1e-12)
    assert np.array_equal(result.weights()["logits.weight"], states[-1]["logits.weight.param.average"])
    assert not np.allclose(result.weights()["logits.weight"], states[-1]["logits.weight"], rtol=1e-3)
    assert set(result.weights()) == {"hidden.weight", "hidden.bias", "logits.weight", "logits.bias"}


def test_validation_uses_the_averages(variant: Variant) -> None:
    """A run that begins with the saved averages and a rate of 0 validates to the same numbers."""
    result = run(variant("average: 0.9"), epochs=2)
    again = run(variant(), epochs=1, set={"rate": 0}, weights=result.folder)
    assert again.metrics["validation_loss"] == result.metrics["validation_loss"]
    plain = run(variant(), epochs=2)
    assert rows(plain)[-1]["loss"] == rows(result)[-1]["loss"]
    assert plain.metrics["validation_loss"] != result.metrics["validation_loss"]


# ---------------------------------------------------------------------------------------------- watching


def watched(*values: float) -> list[dict[str, float]]:
    return [{"loss": v} for v in values]


def test_when_a_training_stops() -> None:
    stop = Stop(Watched("loss", False), 2, 0.0)
    assert not stops(watched(3, 2, 2, 1), stop)
    assert stops(watched(3, 2, 2, 2), stop)
    assert stops(watched(1, float("nan"), 1), stop)
    assert not stops([], stop)
    assert stops(watched(1, 0.95, 0.9), Stop(Watched("loss", False), 2, 0.2))
    assert not stops(watched(1, 2, 3), Stop(Watched("loss", True), 2, 0.0))
    assert stops(watched(3, 2, 1), Stop(Watched("loss", True), 2, 0.0))


def test_how_far_a_rate_is_lowered() -> None:
    plateau = Plateau(Watched("loss", False), 2, 0.5, 0.2, 0.0)
    factors = [plateau_factor(watched(*[1.0] * n), plateau) for n in range(8)]
    assert factors == [1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.2]
    assert plateau_factor(watched(5, 4, 3, 2), plateau) == 1


def test_which_epoch_is_best() -> None:
    assert best_epoch(watched(3, 1, 2, 1), Watched("loss", False)) == 2
    assert best_epoch(watched(3, 1, 2, 3), Watched("loss", True)) == 1
    assert best_epoch(watched(float("nan")), Watched("loss", True)) == 0


def test_early_stopping(variant: Variant) -> None:
    path = variant("stop: {metric: validation_loss, patience: 2, margin: 0.3}")
    result = run(path, epochs=30)
    history = rows(result)
    assert result.status == "ok"
    assert 3 <= len(history) < 30
    losses = [r["validation_loss"] for r in history]
    stop = Stop(Watched("validation_loss", False), 2, 0.3)
    assert [stops(history[:n], stop) for n in range(len(history) + 1)] == [False] * len(losses) + [True]
    with pytest.raises(RunError, match="where `stop` ended"):
        run(path, epochs=30, resume=result.folder)
    for progress in (5, 9):
        stopped = run_model(path, Options(epochs=30), Signalling(progress, signal.SIGINT))
        assert stopped.status == "interrupted"
        same_training(result, run(path, epochs=30, resume=stopped.folder))


def test_the_best_weights(variant: Variant) -> None:
    """Rising losses by a rate that is too high: the best epoch is not the last."""
    path = variant(rate="learning_rate: rate if epoch < 3 else 0.5", checkpoint="  checkpoint: {best: validation_loss}")
    result = run(path, epochs=5)
    losses = [r["validation_loss"] for r in rows(result)]
    assert int(np.argmin(losses)) + 1 < 5
    best = load_file(result.folder / "best.safetensors")
    checkpoint = load_file(result.folder / "checkpoints" / f"epoch-{int(np.argmin(losses)) + 1:06d}.safetensors")
    assert set(best) == set(result.weights())
    assert all(np.array_equal(v, checkpoint[n]) for n, v in best.items())
    for n in (1, 2, 4):
        first = result.folder / "checkpoints" / f"epoch-{n:06d}.safetensors"
        resumed = run(path, epochs=5, resume=first)
        same_training(result, resumed)
        again = load_file(resumed.folder / "best.safetensors")
        assert all(np.array_equal(v, best[n]) for n, v in again.items())


def test_the_best_weights_are_the_weights(variant: Variant, here: Path) -> None:
    """Stopped after the best epoch: weights, evaluate and predict are of it, also after a resume from any moment; what
    the run says fits its metrics."""
    stop = "stop: {metric: validation_loss, patience: 2}"
    path = variant(stop, rate="learning_rate: rate if epoch < 3 else 0.5")
    result = run(path, epochs=30)
    losses = [r["validation_loss"] for r in rows(result)]
    best = int(np.argmin(losses)) + 1
    assert best < len(losses) < 30
    assert result.course == (
        f"stopped at epoch {len(losses)} of 30; best epoch {best} (validation_loss {losses[best - 1]:.4g})"
    )
    assert result.record["summary"]["training"] == {
        "epoch": len(losses), "epochs": 30, "stopped": True, "best": best, "metric": "validation_loss",
        "value": losses[best - 1], "weights": "best", "asked": False,
    }  # fmt: skip
    assert evaluate(result.folder)["loss"] == losses[best - 1]
    for name, value in load_file(result.folder / "best.safetensors").items():
        assert value.tobytes() == result.weights()[name].tobytes()
    images = np.load(here / "digits.npz")["flat"][:9]
    logits = predict(result.folder, images)["logits"]
    other = predict(path, images, weights=result.folder / "checkpoints" / f"epoch-{len(losses):06d}.safetensors")
    assert logits.tobytes() != other["logits"].tobytes()
    last = run(variant(stop, "weights: last", rate="learning_rate: rate if epoch < 3 else 0.5"), epochs=30)
    assert last.course == f"{result.course}, but the weights are those of the last"
    assert evaluate(last.folder)["loss"] == losses[-1] != losses[best - 1]
    assert predict(last.folder, images)["logits"].tobytes() == other["logits"].tobytes()
    for update in (2, 5):
        stopped = run_model(path, Options(epochs=30), Signalling(update, signal.SIGINT))
        assert stopped.status == "interrupted"
        resumed = run(path, epochs=30, resume=stopped.folder)
        same_training(result, resumed)
        assert resumed.course == result.course
        assert (resumed.folder / "best.safetensors").read_bytes() == (result.folder / "best.safetensors").read_bytes()


def test_resumed_by_another_metric(variant: Variant) -> None:
    """The best weights of the checkpoint are of another epoch than the one that was best by the metric of now: they are
    not taken for it."""
    done = run(variant(checkpoint="  checkpoint: {best: validation_loss, every: 2}"), epochs=4)
    assert done.record["summary"]["training"]["best"] > 1
    lines = (done.folder / "metrics.jsonl").read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "validation_accuracy": 1.0})
    (done.folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    other = variant(checkpoint="  checkpoint: {best: validation_accuracy}")
    again = run(other, epochs=5, resume=done.folder)
    training = again.record["summary"]["training"]
    assert (training["best"], training["weights"]) == (1, "last")
    assert again.course == "best epoch 1 (validation_accuracy 1), but the weights are those of the last"
    assert not (again.folder / "best.safetensors").exists()


def test_the_plot_marks_the_best_epoch(variant: Variant) -> None:
    pytest.importorskip("matplotlib")
    result = run(variant(checkpoint="  checkpoint: {best: validation_loss}"), epochs=3)
    best = result.record["summary"]["training"]["best"]
    model, plot = model_of_run(result.folder), Plot("training", ())
    assert model.train is not None and model.train.best == Watched("validation_loss", False)
    figure = training(result.folder, model, plot, None)
    for axes in figure.axes:
        (line,) = [x for x in axes.lines if x.get_label() == f"best epoch {best}"]
        assert list(line.get_xdata()) == [best, best]
    unwatched = replace(model, train=replace(model.train, best=None))
    axes = training(result.folder, unwatched, plot, None).axes
    assert not [x for at in axes for x in at.lines if "best" in str(x.get_label())]


def test_a_rate_on_a_plateau(variant: Variant) -> None:
    """Nothing is better by 100, so the rate becomes a tenth in every epoch after the first; with plain gradient descent
    and one batch per epoch, steps say so."""
    text = "plateau: {metric: loss, patience: 1, margin: 100, factor: 0.1, lowest: 1e-3}"
    path = variant(text, batch="  batch: 2000", checkpoint="  checkpoint: {every: 1}")
    result = run(path, epochs=5, precision="float64")
    states = [load_file(p) for p in sorted((result.folder / "checkpoints").iterdir())]
    assert [s["plateau.factor"].item() for s in states] == pytest.approx([1, 0.1, 0.01, 1e-3, 1e-3], rel=1e-12)
    steps = [np.abs(b["logits.weight"] - a["logits.weight"]).max() for a, b in itertools.pairwise(states)]
    assert steps[1] / steps[0] == pytest.approx(0.1, rel=0.5)
    assert steps[2] / steps[1] == pytest.approx(0.1, rel=0.5)
    third = result.folder / "checkpoints" / "epoch-000003.safetensors"
    same_training(result, run(path, epochs=5, precision="float64", resume=third))


def test_metrics_that_are_missing(variant: Variant, here: Path) -> None:
    path = variant("plateau: {metric: loss, patience: 1}")
    result = run(path, epochs=2)
    alone = here / "alone" / "alone.safetensors"
    alone.parent.mkdir()
    shutil.copy(max((result.folder / "checkpoints").iterdir()), alone)
    with pytest.raises(RunError, match="of the epochs before it is not known"):
        run(path, resume=alone)


def test_all_of_it_resumed_in_the_middle_of_an_epoch(variant: Variant) -> None:
    path = variant(
        "accumulate: 4",
        "average: 0.95",
        "plateau: {metric: validation_loss, patience: 1, margin: 0.1, factor: 0.5}",
        "stop: {metric: loss, patience: 3}",
        checkpoint="  checkpoint: {best: validation_accuracy}",
    )
    unbroken = run(path)
    for update in (3, 6):
        stopped = run_model(path, Options(), Signalling(update, signal.SIGINT))
        assert stopped.status == "interrupted"
        same_training(unbroken, run(path, resume=stopped.folder))
