"""Trainings that end early because others were better: Optuna's median rule.

Assumes: Optuna.
Guarantees: whether a training ends depends on its own epochs and on the history it was given alone.
Does not: keep the history (search.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.core.diagnostics import RunError
from compiler.runtime.common.progress import Progress


@dataclass(frozen=True)
class Watch:
    """When a training is ended early: `history`: the goal by epoch of each trial that ended."""

    goal: str
    maximize: bool
    history: tuple[Mapping[int, float], ...]


def optuna_module() -> Any:
    """The package `optuna`. Raises RunError (E0941, exit 3) when it is not installed."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        message = "a `search` needs the package `optuna`, which is not installed"
        raise RunError("E0941", message, "pip install 'netloom[sweep]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Pruning(Progress):
    """Ends a training whose goal is worse than the median of others. Raises RunError (E0941)."""

    def __init__(self, watch: Watch) -> None:
        optuna = optuna_module()
        direction = "maximize" if watch.maximize else "minimize"
        study = optuna.create_study(direction=direction, pruner=optuna.pruners.MedianPruner())
        for epochs in watch.history:
            value = epochs[max(epochs)] if epochs else 0.0
            study.add_trial(optuna.trial.create_trial(value=value, intermediate_values=dict(epochs)))
        self._trial, self._goal = study.ask(), watch.goal

    def epoch(self, row: dict[str, float]) -> bool:
        value = row.get(self._goal, math.nan)
        if not math.isfinite(value):
            return False
        self._trial.report(value, int(row["epoch"]))
        return bool(self._trial.should_prune())
