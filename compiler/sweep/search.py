"""Trials that follow from the results of others: Optuna's ask and tell.

Assumes: Optuna; the directories of the trials that ended.
Guarantees: what is suggested depends on the seed, the number of the trial and what was told before it; `asked.jsonl`
holds every suggestion, so that a search that is started again tells the study what has ended and runs the rest. A
suggestion that was made before is not run again: it counts once more with the same result.
Does not: run trials.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from compiler.core.disk import append_text, write_text
from compiler.core.version import VERSION
from compiler.ir.level0.streams import stream_key
from compiler.runtime.common.metrics import read_metrics
from compiler.sweep.plan import SearchPlan, bounds, key_of
from compiler.sweep.prune import Watch, optuna_module
from compiler.sweep.table import goal_of
from compiler.sweep.trial import TRIALS, Row, Trial, finished_row

ASKED: Final = "asked.jsonl"


class Search:
    """The trials of a search: it adds them to `trials`, and the `rows` of those that are in `folder` already. Raises
    RunError (E0941)."""

    def __init__(self, search: SearchPlan, folder: Path, trials: list[Trial], rows: dict[str, Row]) -> None:
        self._optuna, self._search, self._folder, self._trials, self._rows = (
            optuna_module(),
            search,
            folder,
            trials,
            rows,
        )
        direction = "maximize" if search.maximize else "minimize"
        self._study = self._optuna.create_study(direction=direction)
        self._space = {name: _space(self._optuna, rule) for name, rule in search.values.items()}
        self._asked: dict[str, list[Any]] = {}  # trials of the study that wait for a result, by key
        self._begin: list[Trial] = []  # suggestions of before that have not ended
        self._histories: dict[str, Mapping[int, float]] = {}
        self._numbers = 0
        self._path = folder / ASKED
        self._read()

    def next(self) -> tuple[Trial, Watch | None] | None:
        if self._begin:
            return self._begin.pop(0), self._watch()
        while self._numbers < self._search.trials:
            trial = self._ask(None)
            if trial is not None:
                return trial, self._watch()
        return None

    def tell(self, trial: Trial, row: Row) -> None:
        states, goal = self._optuna.trial.TrialState, self._search.goal
        value = goal_of(row, goal)
        if self._search.prune and row["status"] in ("ok", "pruned"):
            epochs = _epochs(self._folder / TRIALS / trial.key, goal)
            if value is not None:
                self._histories[trial.key] = epochs
        else:
            epochs = {}
        for asked in self._asked.pop(trial.key, ()):
            for epoch, number in epochs.items():
                asked.report(number, epoch)
            if value is not None:
                self._study.tell(asked, value)
            else:
                ended = row["status"] == "pruned" and epochs
                self._study.tell(asked, state=states.PRUNED if ended else states.FAIL)

    def _watch(self) -> Watch | None:
        if not self._search.prune:
            return None
        return Watch(self._search.goal, self._search.maximize, tuple(self._histories.values()))

    def _ask(self, before: Mapping[str, Any] | None) -> Trial | None:
        """The next suggestion, or that of `before`; None for one that runs or has ended already."""
        self._study.sampler = self._sampler(self._numbers)
        if before is not None:
            self._study.enqueue_trial(dict(before))
        asked = self._study.ask(dict(self._space))
        settings = {name: self._text(name, value) for name, value in asked.params.items()}
        trial = Trial(settings, None, key_of(self._search.text, settings, None))
        if before is None:
            line = json.dumps({"key": trial.key, "params": asked.params}) + "\n"
            append_text(self._path, line, "the suggestions of the search")
        self._numbers += 1
        runs = trial.key in self._asked
        self._asked.setdefault(trial.key, []).append(asked)
        if runs:
            return None
        if all(t.key != trial.key for t in self._trials):
            self._trials.append(trial)
        row = self._rows.get(trial.key) or finished_row(trial, self._folder)
        if row is None:
            return trial
        self._rows[trial.key] = row
        self.tell(trial, row)
        return None

    def _sampler(self, number: int) -> Any:
        seed = int(stream_key(self._search.seed, f"search/{number}")) % (1 << 32)
        if self._search.sampler == "random":
            return self._optuna.samplers.RandomSampler(seed=seed)
        return self._optuna.samplers.TPESampler(seed=seed, constant_liar=True)

    def _text(self, name: str, value: Any) -> str:
        """A suggestion as `--set` takes it."""
        ((kind, given),) = self._search.values[name].items()
        if kind == "choice":
            return str(value)
        return str(value) if kind == "integers" else f"{value:.12g}{bounds(given)[2]}"

    def _read(self) -> None:
        """Tell the study what a search of before has asked and found."""
        s = self._search
        what = [VERSION, s.sampler, s.seed, s.goal, s.maximize, s.prune, s.values, s.text]
        head = json.dumps({"search": hashlib.sha256(json.dumps(what).encode()).hexdigest()}) + "\n"
        lines = _lines(self._path)
        if lines[:1] != [head]:
            write_text(self._path, head, "the suggestions of the search")
            return
        for line in lines[1 : 1 + s.trials]:
            trial = self._ask(json.loads(line)["params"])
            if trial is not None:
                self._begin.append(trial)


def _space(optuna: Any, rule: Mapping[str, Any]) -> Any:
    ((kind, given),) = rule.items()
    if kind == "choice":
        return optuna.distributions.CategoricalDistribution(tuple(dict.fromkeys(given)))
    low, high, _ = bounds(given)
    if kind == "integers":
        return optuna.distributions.IntDistribution(int(low), int(high))
    return optuna.distributions.FloatDistribution(low, high, log=kind == "log_uniform")


def _epochs(folder: Path, goal: str) -> dict[int, float]:
    """The goal by epoch, where it is a number."""
    rows = read_metrics(folder)
    return {int(r["epoch"]): r[goal] for r in rows if math.isfinite(r.get(goal, math.nan))}


def _lines(path: Path) -> list[str]:
    """The whole lines of a file; the last may have been cut by a crash."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError:
        return []
    return [line for line in lines if line.endswith("\n")]
