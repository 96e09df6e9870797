"""Tables of numbers of the whole network, and the criterion that ends a run.

Assumes: rows are asked for in order of time.
Guarantees: a row is written as a whole, and is on disk when `flush` returns; a table that is there is continued;
numbers are written so that they are read back bit for bit.
Does not: decide what is measured (compiler/runtime/record/measured.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.core.disk import append_text, make_folder, new_file, sync, write_text
from compiler.files.parquet_files import PARQUET, parquet_bytes
from compiler.runtime.artifacts.results import package
from compiler.runtime.record.measured import Reader

TABLES: Final = "tables"
"""The folder of the tables in that of a run."""


def due(done: int, every: int, at: int | None) -> bool:
    """Whether a sample is taken at the end of step `done`, counted from the end of the warm-up."""
    return done > 0 and (done + l0.shift_of(every, at)) % every == 0


def header(table: l0.RecordTable) -> str:
    columns = ["time", *(["trial"] if table.at is not None else []), *(n for n, _ in table.columns)]
    return ",".join(columns) + "\n"


class TableWriter:
    """The tables of one run, in `folder`/tables, after step `start`. `last`: the latest row of each, by
    `table.column`."""

    def __init__(self, folder: Path, model: l0.Model, program: l2.Merged, start: int = 0) -> None:
        assert model.simulate is not None
        self._until = start
        self._folder, self._tables, self._reader = folder / TABLES, model.tables, Reader(model, program)
        self._dt, self._warmup = model.simulate.dt, model.simulate.warmup
        self._waiting: dict[str, list[str]] = {t.name: [] for t in model.tables}
        self.name, self.last = TABLES, dict[str, float]()
        self._rows = {t.name: 0 for t in model.tables}
        if any(t.parquet for t in model.tables):
            package("pyarrow", "parquet")
        if model.tables:
            make_folder(self._folder, "a table")
        for table in model.tables:
            path = self._path(table)
            if path.exists():
                self._take_last(table, path)
            else:
                append_text(path, header(table), "a table")

    def _path(self, table: l0.RecordTable) -> Path:
        return self._folder / f"{table.name}.csv"

    def _take_last(self, table: l0.RecordTable, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
        self._rows[table.name] = len(lines)
        if lines:
            values = lines[-1].split(",")[-len(table.columns) :]
            self.last |= {f"{table.name}.{n}": float(v) for (n, _), v in zip(table.columns, values, strict=True)}

    def next_sample(self, done: int) -> int:
        """The step after `done` at whose end the next row is due."""
        now = max(done - self._warmup, 0)
        return self._warmup + min(l0.next_sample(now, t.every, l0.shift_of(t.every, t.at)) for t in self._tables)

    def sample(self, instance: Instance, done: int) -> None:
        """The rows that are due at the end of step `done`, once."""
        if done <= self._until:
            return
        self._until = done
        now = done - self._warmup
        for table in self._tables:
            if not due(now, table.every, table.at):
                continue
            values = [self._reader.number(m, instance) for _, m in table.columns]
            self.last |= {f"{table.name}.{n}": v for (n, _), v in zip(table.columns, values, strict=True)}
            when = [repr(now * self._dt), *([str((now - 1) // table.every)] if table.at is not None else [])]
            self._waiting[table.name].append(",".join([*when, *map(repr, values)]) + "\n")
            self._rows[table.name] += 1

    @property
    def rows(self) -> list[int]:
        """The numbers of rows of the tables."""
        return list(self._rows.values())

    def flush(self) -> None:
        """Write the rows that wait. Raises RunError (E0930)."""
        for table in self._tables:
            if rows := self._waiting[table.name]:
                append_text(self._path(table), "".join(rows), "a table")
                rows.clear()

    def sync(self) -> None:
        """Write them as far as the disk. Raises RunError (E0930)."""
        self.flush()
        for table in self._tables:
            sync(self._path(table))

    def close(self) -> None:
        """Write the rows that wait, and what is not text. Raises RunError (E0930)."""
        self.flush()
        for table in self._tables:
            if table.parquet:
                path = self._path(table)
                content = parquet_bytes(table_rows(path))
                with new_file(path.with_suffix(PARQUET), "a table", len(content)) as stream:
                    stream.write(content)


class Criterion:
    """When a run ends by itself. `held`: how often in a row the condition was true."""

    def __init__(self, model: l0.Model, program: l2.Merged, held: int = 0) -> None:
        assert model.simulate is not None and model.simulate.stop is not None
        self._stop, self._warmup = model.simulate.stop, model.simulate.warmup
        self._reader = Reader(model, program)
        self.held = held

    def next_sample(self, done: int) -> int:
        """The step after `done` at whose end it is tested next."""
        every = self._stop.every
        return self._warmup + l0.next_sample(max(done - self._warmup, 0), every, l0.shift_of(every, self._stop.at))

    def met(self, instance: Instance, done: int) -> bool:
        """Whether the run ends with step `done`."""
        if not due(done - self._warmup, self._stop.every, self._stop.at):
            return False
        self.held = self.held + 1 if self._reader.number(self._stop.when, instance) == 1.0 else 0
        return self.held >= self._stop.times


def cut_table(path: Path, end: float) -> None:
    """Drop the rows after the time `end` [ms]. Raises OSError, ValueError."""
    head, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [row for row in rows if row.endswith("\n") and float(row.partition(",")[0]) <= end]
    write_text(path, "".join([head, *kept]), "a table")


def table_rows(path: Path) -> dict[str, Sequence[float]]:
    """The columns of a table by name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = lines[0].split(",")
    rows = [[float(v) for v in line.split(",")] for line in lines[1:]]
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}
