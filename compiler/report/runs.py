"""Runs that are there: what was set, how they ended, their main results; and what differs between two of them.

Assumes: run directories as compiler/runtime/artifacts/run_folder.py leaves them.
Guarantees: folders without a readable run.json are passed over by `find_runs`, and refused (E0916) by `open_run`.
Does not: run or draw anything.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.core.diagnostics import RunError, did_you_mean
from compiler.runtime.artifacts.records import fault_of
from compiler.runtime.artifacts.safetensors import read_weights
from compiler.runtime.artifacts.trained import record_of_run

OWN: Final = ("name", "status", "started", "seconds")
"""What every run has."""


@dataclass(frozen=True)
class Run:
    """`record`: run.json."""

    folder: Path
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.record.get("name", ""))

    @property
    def started(self) -> str:
        return str(self.record.get("started", ""))

    @property
    def status(self) -> str:
        return str(self.record.get("status", ""))

    @property
    def settings(self) -> dict[str, str]:
        """What was set beside the model file: `--set`, and the seed and target."""
        found = {str(n): str(v) for n, v in (self.record.get("settings") or {}).items()}
        return found | {"seed": str(self.record.get("seed")), "target": str(self.record.get("target"))}

    @property
    def results(self) -> dict[str, float]:
        """Rates in Hz as `rate.NAME`, then metrics of the last epoch."""
        summary = self.record.get("summary") or {}
        rates = {f"rate.{n}": v for n, v in (summary.get("rates_hz") or {}).items()}
        return rates | dict(summary.get("metrics") or {})

    @property
    def seconds(self) -> float:
        """CPU seconds of all parts."""
        parts = (self.record.get("times") or {}).values()
        return float(sum(p["cpu_seconds"] for p in parts if isinstance(p, dict)))


def open_run(folder: Path) -> Run:
    """The run of a directory. Raises RunError (E0916, exit 2)."""
    return Run(folder, record_of_run(folder))


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """The runs in folders, or that folders are, by the time at which they began. Raises RunError (E0916, exit 2) for a
    folder that does not exist."""
    found: list[Run] = []
    for folder in folders:
        if not folder.is_dir():
            raise RunError("E0916", f"there is no folder `{folder}`")
        inside = [folder] if (folder / "run.json").is_file() else sorted(folder.glob("*/run.json"))
        for path in inside:
            place = path if path.is_dir() else path.parent
            try:
                record = json.loads((place / "run.json").read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if fault_of(record) is None and "status" in record and not place.name.startswith("."):
                found.append(Run(place, record))
    return sorted(found, key=lambda r: (r.started, r.folder.name))


def matching(runs: Iterable[Run], conditions: Iterable[str]) -> list[Run]:
    """The runs for which every condition holds: `name=cuba`, `status=ok`, `n_exc=400`, `rate.exc>5`, `loss<0.1`.
    Raises RunError (E0912, exit 2) for a text that is no condition, and for a name that no run has."""
    runs = list(runs)
    tests = [_condition(text) for text in conditions]
    for name, _, _ in tests:
        _refuse_unknown(runs, name)
    return [run for run in runs if all(_holds(run, *test) for test in tests)]


def ordered(runs: Sequence[Run], by: str) -> list[Run]:
    """The runs by a value, `-NAME` with the largest first: numbers, then texts, then those without one. Raises RunError
    (E0912, exit 2) for a name that no run has."""
    name, falling = by.removeprefix("-"), by.startswith("-")
    _refuse_unknown(runs, name)
    numbers = [r for r in runs if isinstance(value_of(r, name), int | float)]
    others = [r for r in runs if r not in numbers]
    numbers.sort(key=lambda r: float(value_of(r, name)), reverse=falling)
    return [*numbers, *sorted(others, key=lambda r: str(value_of(r, name)), reverse=falling)]


def _refuse_unknown(runs: Sequence[Run], name: str) -> None:
    if runs and all(value_of(run, name) is None for run in runs):
        known = {n: None for r in runs for n in (*OWN, *r.results, *r.settings, *(r.record.get("params") or {}))}
        raise RunError("E0912", f"no run has `{name}`", did_you_mean(name, known))


def _condition(text: str) -> tuple[str, str, str]:
    for sign in ("<=", ">=", "!=", "=", "<", ">"):
        name, found, value = text.partition(sign)
        if found and name.strip() and value.strip():
            return name.strip(), sign, value.strip()
    raise RunError("E0912", f"`{text}` is no condition", "for example `--filter status=ok` or `--filter 'rate.exc>5'`")


def value_of(run: Run, name: str) -> Any:
    """A setting, parameter, result, or `name`, `status`, `started`, `seconds`; None where the run has none."""
    if name in OWN:
        return getattr(run, name)
    for values in (run.results, run.settings, run.record.get("params") or {}):
        if name in values:
            return values[name]
    return None


def _holds(run: Run, name: str, sign: str, wanted: str) -> bool:
    value = value_of(run, name)
    if value is None:
        return sign == "!="
    try:
        a, b = float(value), float(wanted)
    except (TypeError, ValueError):
        same = str(value) == wanted
        return same if sign == "=" else not same if sign == "!=" else False
    signs = {"=": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}
    return signs[sign]


@dataclass(frozen=True)
class Difference:
    """`settings`, `results`: by name, (of the first, of the second); `model`: lines of a unified diff of model.yaml;
    `weights`: by array, the Euclidean distance over the norm of the first, or None for other shapes."""

    settings: Mapping[str, tuple[Any, Any]]
    results: Mapping[str, tuple[Any, Any]]
    model: tuple[str, ...]
    weights: Mapping[str, float | None]


def difference(a: Run, b: Run) -> Difference:
    """What differs between two runs. Raises RunError (E0916, E0927) for weights that cannot be read."""
    return Difference(
        _changed(_all_settings(a), _all_settings(b)),
        _changed(a.results, b.results),
        tuple(difflib.unified_diff(_model(a), _model(b), str(a.folder), str(b.folder), n=1, lineterm="")),
        _distances(a, b),
    )


def _all_settings(run: Run) -> dict[str, Any]:
    keys = ("netloom", "target", "seed", "data", "device", "git")
    numerics = {f"numerics.{k}": v for k, v in (run.record.get("numerics") or {}).items()}
    return {**run.settings, **(run.record.get("params") or {}), **numerics, **{k: run.record.get(k) for k in keys}}


def _changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys((*a, *b))
    return {n: (a.get(n), b.get(n)) for n in names if str(a.get(n)) != str(b.get(n))}


def _model(run: Run) -> list[str]:
    try:
        return (run.folder / "model.yaml").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return []


def _distances(a: Run, b: Run) -> dict[str, float | None]:
    paths = [run.folder / "weights.safetensors" for run in (a, b)]
    if not all(p.is_file() for p in paths):
        return {}
    first, second = (read_weights(p) for p in paths)
    out: dict[str, float | None] = {}
    for name in dict.fromkeys((*first, *second)):
        x, y = first.get(name), second.get(name)
        if x is None or y is None or x.shape != y.shape:
            out[name] = None
        elif not np.array_equal(x, y):
            x64, y64 = x.astype(np.float64), y.astype(np.float64)
            out[name] = float(np.linalg.norm(x64 - y64) / max(float(np.linalg.norm(x64)), 1e-300))
    return out
