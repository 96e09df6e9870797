"""TensorBoard event files of a run: what it was given, metrics by epoch, rates over time.

Assumes: the package tensorboardX, which writes the files.
Guarantees: without it a run with this option is refused before it begins (E0943). A training has its events after each
epoch, a simulation at its end; a run that is resumed has those of the epochs before, too.
Does not: change what is run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.core.disk import make_folder, writing
from compiler.runtime.common.metrics import read_metrics
from compiler.runtime.common.progress import Progress
from compiler.runtime.common.rates import activities
from compiler.runtime.common.watch import plateau_factor
from compiler.runtime.session import Outcome

FOLDER: Final = "tensorboard"
BINS: Final = 200
"""The most points of a rate over time."""
_WHAT: Final = "the TensorBoard events"


def require_tensorboard() -> Any:
    """The package `tensorboardX`. Raises RunError (E0943, exit 3) when it is not installed."""
    try:
        import tensorboardX
    except ModuleNotFoundError as error:
        if error.name != "tensorboardX":
            raise
        message = "`--tensorboard` needs the package `tensorboardX`, which is not installed"
        raise RunError("E0943", message, "pip install 'netloom[tensorboard]'") from None
    return tensorboardX


class Board(Progress):
    """The progress of a run that also writes events into `folder`/tensorboard. Raises RunError (E0930, E0943)."""

    def __init__(self, shown: Progress, model: l0.Model, folder: Path) -> None:
        package = require_tensorboard()
        self._shown, self._model, self._folder = shown, model, folder
        make_folder(folder / FOLDER, _WHAT)
        with writing(folder / FOLDER, _WHAT):
            self._writer = package.SummaryWriter(logdir=str(folder / FOLDER))
        self._hparams = package.summary.hparams
        self._rows: list[dict[str, float]] = []

    def start(self, label: str, total: float) -> None:
        self._shown.start(label, total)

    def update(self, done: float, text: str) -> None:
        self._shown.update(done, text)

    def finish(self) -> None:
        self._shown.finish()

    def tell(self, text: str) -> None:
        self._shown.tell(text)

    def epoch(self, row: dict[str, float]) -> bool:
        for known in [*self._before(row), row]:
            self._epoch(known)
        with writing(self._folder / FOLDER, _WHAT):
            self._writer.flush()
        return self._shown.epoch(row)

    def end(self, outcome: Outcome) -> None:
        """Write what is known at the end."""
        if self._model.simulate is not None and outcome.window is not None:
            self._rates(outcome)
        results = {**{f"rate/{n}": v for n, v in outcome.rates.items()}, **outcome.metrics}
        for summary in self._hparams(self._given(), {n: v for n, v in results.items() if math.isfinite(v)}):
            self._writer.file_writer.add_summary(summary)
        with writing(self._folder / FOLDER, _WHAT):
            self._writer.flush()

    def close(self) -> None:
        """No event is written any more."""
        self._writer.close()

    def _before(self, row: Mapping[str, float]) -> list[dict[str, float]]:
        """The epochs of a run that this one goes on from."""
        return [] if self._rows else [r for r in read_metrics(self._folder) if r["epoch"] < row["epoch"]]

    def _epoch(self, row: Mapping[str, float]) -> None:
        number = int(row["epoch"])
        rate = self._learning_rate()
        self._rows.append({k: v for k, v in row.items() if k != "seconds"})
        values = {k: v for k, v in row.items() if k != "epoch"}
        for name, value in {**values, **({} if rate is None else {"learning_rate": rate})}.items():
            part = "validation" if name.startswith("validation_") else "training"
            self._writer.add_scalar(f"{name.removeprefix('validation_')}/{part}", value, number)

    def _learning_rate(self) -> float | None:
        """Of the epoch after those in `_rows`; None where the optimizer has none, or computes it at each step."""
        train = self._model.train
        assert train is not None
        params = dict(train.optimizer.params)
        base = params.get("learning_rate")
        if base is None or any(s.target == "learning_rate" for s in train.optimizer.update):
            return None
        return float(base) * (1.0 if train.plateau is None else plateau_factor(self._rows, train.plateau))

    def _rates(self, outcome: Outcome) -> None:
        """Mean rates over time, from the recorded spikes; a point stands at the end of its bin, in steps."""
        import h5py

        assert self._model.simulate is not None and outcome.window is not None
        found = activities(self._model, outcome.window)
        if not found:
            return
        with h5py.File(self._folder / "spikes.h5", "r") as file:
            for name, activity in found.items():
                group = file.get(f"spikes/{name}")
                if group is None:
                    continue
                edges, rates = activity.over_time(group["timestamps"][:], BINS)
                for end, rate in zip(edges[1:].tolist(), rates.tolist(), strict=True):
                    self._writer.add_scalar(f"rate/{name}", rate, round(end / self._model.simulate.dt))

    def _given(self) -> dict[str, float | int | bool | str]:
        """The hyper-parameters: parameters of the model, the seed, and the batch and epochs of a training."""
        model = self._model
        given: dict[str, float | int | bool | str] = {p.name: p.value for p in model.params}
        if model.train is not None:
            train = model.train
            given = {"seed": train.seed, "batch": train.batch, "epochs": train.epochs, **given}
            return {"optimizer": train.optimizer.name, **given}
        return given if model.simulate is None else {"seed": model.simulate.seed, **given}
