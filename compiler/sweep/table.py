"""The table of a sweep: its rows, and the files that hold them.

Assumes: rows as compiler/sweep/trial.py makes them.
Guarantees: sweep.csv, sweep.json and, where pyarrow is installed, sweep.parquet are written whole or not at all.
Does not: run trials.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.core.disk import new_file, write_text
from compiler.core.strict_json import dumps
from compiler.files.parquet_files import parquet_bytes
from compiler.runtime.artifacts.results import package
from compiler.sweep.plan import Plan
from compiler.sweep.trial import Row


@dataclass(frozen=True)
class SweepResult:
    """`rows`: one per trial, in the order of the plan: `trial`, `seed`, `set.NAME` of each swept parameter, `status`
    ("ok", "pruned", "failed", "interrupted", "missing"), `seconds` (CPU), `message`, and results (`rate.POPULATION` in
    Hz, `spikes.POPULATION`, metrics by name). `ran`: how many of them ran this time. `best`: of a search, the row that
    its `goal` prefers, None while there is none."""

    folder: Path
    rows: tuple[Row, ...]
    ran: int
    interrupted: bool = False
    goal: str | None = None
    best: Row | None = None

    @property
    def failed(self) -> int:
        return sum(row["status"] == "failed" for row in self.rows)

    def column(self, name: str) -> list[Any]:
        """The values of a column, None where a trial has none."""
        return [row.get(name) for row in self.rows]

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame. Raises RunError (E0939 without pandas)."""
        return package("pandas", "pandas").DataFrame(list(self.rows))


def goal_of(row: Row, goal: str) -> float | None:
    """The value that a search looks for; None where the trial did not end well or has no finite one."""
    value = row.get(goal) if row["status"] == "ok" else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def best_of(rows: Iterable[Row], plan: Plan) -> Row | None:
    """The row that the goal of a search prefers, the first of equal ones."""
    if plan.search is None:
        return None
    goal, sign = plan.search.goal, -1 if plan.search.maximize else 1
    known = [(sign * value, row) for row in rows if (value := goal_of(row, goal)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def write_table(folder: Path, plan: Plan, rows: Sequence[Row]) -> None:
    """Write the files. Raises RunError (E0930)."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(folder / "sweep.csv", text.getvalue(), "the table of the sweep")
    record: dict[str, Any] = {"model": str(plan.path), "name": plan.name, "swept": plan.swept, "trials": len(rows)}
    record["ok"] = sum(row["status"] == "ok" for row in rows)
    if plan.search is not None:
        best = best_of(rows, plan)
        record |= {"goal": plan.search.goal, "best": None if best is None else best["trial"]}
    write_text(folder / "sweep.json", dumps(record) + "\n", "the sweep")
    with suppress(ImportError):
        _write_parquet(folder / "sweep.parquet", rows, columns)


def _write_parquet(path: Path, rows: Sequence[Row], columns: list[str]) -> None:
    content = parquet_bytes({name: [row.get(name) for row in rows] for name in columns})
    with new_file(path, "the table of the sweep", len(content)) as stream:
        stream.write(content)
