"""tuned_before: a model is measured again only when something has changed that the result depends on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import compiler.runtime.tuning as tuning
from compiler.runtime.common.options import Options
from compiler.runtime.tuned_before import tune
from compiler.tune.result import Row, Step, TuneResult, Way
from compiler.tune.wishes import Wishes

MODELS = Path(__file__).parents[2] / "models"

Changed = Callable[[Path], object]


def appended(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    shutil.copy(MODELS / "data" / "digits.npz", tmp_path / "data")
    shutil.copy(MODELS / "mlp.yaml", tmp_path)
    return tmp_path / "mlp.yaml"


@pytest.fixture
def measured(model: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The calls of what measures, which writes a lock file as it is already."""
    calls: list[Path] = []

    def fake(path: Path, options: Options, watch: object, wishes: Wishes) -> TuneResult:
        calls.append(path)
        lock = path.with_suffix(".lock")
        if not lock.exists():
            lock.write_text("{}\n")
        ways = Way("train/a.sum", "lanes_dense", "nest", 1.5, 2.5), Way("train/lstm", "chain", "chain", 3.0, 3.0)
        rows = (Row("train/a.sum", "nest", 2.5, None, 0, None, False, True, False),)
        left = ("train/b.sum",) if wishes.budget else ()
        steps = (Step("train", 2.0, 1.0, ("train/c.sum",)),)
        return TuneResult(lock, ways[:1], ways[1:], rows, (), left, steps, {"moves": 3}, "a core")

    monkeypatch.setattr(tuning, "tune_model", fake)
    return calls


def test_an_unchanged_model_is_not_measured_again(model: Path, measured: list[Path]) -> None:
    first = tune(model, Options(), Wishes())
    assert tune(model, Options(), Wishes()) == first
    assert len(measured) == 1


@pytest.mark.parametrize(
    "change",
    [
        appended,
        lambda model: model.with_suffix(".lock").unlink(),
        lambda model: appended(model.with_suffix(".lock")),
        lambda model: os.utime(model.parent / "data" / "digits.npz", (1, 1)),
    ],
    ids=["model", "no lock", "lock", "data"],
)
def test_files_that_changed(model: Path, measured: list[Path], change: Changed) -> None:
    tune(model, Options(), Wishes())
    change(model)
    tune(model, Options(), Wishes())
    tune(model, Options(), Wishes())
    assert len(measured) == 2


def test_what_else_it_depends_on(model: Path, measured: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    tune(model, Options(), Wishes())
    tune(model, Options(order="reproducible"), Wishes())
    tune(model, Options(), Wishes(rounds=3))
    monkeypatch.setenv("CC", "gcc")
    tune(model, Options(), Wishes())
    assert len(measured) == 4


def test_what_was_not_finished_goes_on(model: Path, measured: list[Path]) -> None:
    for _ in range(2):
        tune(model, Options(), Wishes(budget=1.0))
    assert len(measured) == 2


def test_a_compiler_that_was_replaced(model: Path, measured: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    own = model.parent / "own_cc"
    own.write_text('#!/bin/sh\nexec cc "$@"\n')
    own.chmod(0o755)
    monkeypatch.setenv("CC", str(own))
    for _ in range(2):
        tune(model, Options(), Wishes())
    assert len(measured) == 1
    appended(own)
    tune(model, Options(), Wishes())
    assert len(measured) == 2


def test_data_behind_a_link_are_looked_at(
    model: Path, measured: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The link may lead to another file next time."""
    data, elsewhere = model.parent / "data" / "digits.npz", tmp_path_factory.mktemp("elsewhere") / "digits.npz"
    shutil.move(data, elsewhere)
    data.symlink_to(elsewhere)
    for _ in range(2):
        tune(model, Options(), Wishes())
    assert len(measured) == 2
