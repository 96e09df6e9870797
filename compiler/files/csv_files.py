"""Tables of numbers in .csv files: columns with a line of names, or numbers alone.

Assumes: nothing.
Guarantees: a table is read in parts of bounded memory; a column of integers is int64 (labels differ from measurements),
any other float64; a broken file is a ValueError or OSError with one line of text.
Does not: read text or dates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from compiler.files.guard import regular

Floats = npt.NDArray[np.float64]
_PART: Final = 1 << 21  # numbers in a part: 16 MB
_LONGEST: Final = 1 << 24  # characters of a line


def column_names(path: Path) -> list[str]:
    """The names in the first line; [] where it holds numbers. Raises OSError, ValueError."""
    names = _first(path)
    if all(_is_number(n) for n in names):
        return []
    twice = next((n for k, n in enumerate(names) if n in names[:k]), None)
    if twice is not None:
        raise ValueError(f"its first line names `{twice}` twice")
    return names


def _open(path: Path) -> IO[str]:
    """A byte order mark, which spreadsheets write, is no part of the first name."""
    return path.open(encoding="utf-8-sig")


def _first(path: Path) -> list[str]:
    regular(path)
    with _open(path) as stream:
        line = next(_lines(stream), "")
    return [n.strip().strip('"') for n in line.strip().split(",")]


def _lines(stream: IO[str]) -> Iterator[str]:
    """The lines of a file. Raises ValueError for one that is too long."""
    for line in iter(lambda: stream.readline(_LONGEST), ""):
        if len(line) == _LONGEST:
            raise ValueError(f"a line of it is longer than {_LONGEST:,} characters")
        yield line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def table_parts(path: Path, columns: Sequence[str] | None) -> Iterator[Floats]:
    """(rows, columns) of the named columns, in parts; without names the whole table of a file that has none.
    Raises OSError, ValueError."""
    names = column_names(path)
    missing = next((c for c in columns or () if c not in names), None)
    if missing is not None:
        raise ValueError(f"it has no column `{missing}`")
    chosen = None if columns is None else [names.index(c) for c in columns]
    rows = max(_PART // max(len(_first(path)), 1), 1)
    with _open(path) as stream:
        lines_of = enumerate(_lines(stream), 1)
        if columns is not None:
            next(lines_of, None)
        for lines in iter(lambda: [x for x in islice(lines_of, rows) if x[1].strip()], []):
            table = _numbers(lines)
            if columns is not None and table.shape[1] != len(names):
                raise ValueError(f"its first line names {len(names)} columns, the others have {table.shape[1]}")
            yield table if chosen is None else np.ascontiguousarray(table[:, chosen])


def _numbers(lines: Sequence[tuple[int, str]]) -> Floats:
    """The numbers of lines, which come with their number in the file. Raises ValueError, which names the line."""
    try:
        return np.loadtxt([text for _, text in lines], delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(_mistake(lines) or str(error)) from None


def _mistake(lines: Sequence[tuple[int, str]]) -> str | None:
    """What is wrong in the first line that is."""
    columns = 0
    for number, text in lines:
        values = text.partition("#")[0].strip().split(",")
        if values == [""]:
            continue
        for k, value in enumerate(values, 1):
            if not value.strip():
                return f"column {k} of line {number} is empty"
            if not _is_number(value) or "_" in value:
                apart = "; columns stand apart by commas" if ";" in value or "\t" in value else ""
                return f"column {k} of line {number} is no number: `{value.strip()[:40]}`{apart}"
        if columns not in (0, len(values)):
            return f"line {number} has {len(values)} numbers, those before it {columns}"
        columns = len(values)
    return None


def csv_headers(path: Path) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Shape, kind and type of every column; {} for a file that holds numbers alone. The numbers are read."""
    names = column_names(path)
    if not names:
        return {}
    count, whole = 0, np.ones(len(names), bool)
    for part in table_parts(path, names):
        count += len(part)
        whole &= _whole(part)
    types = {True: ("i", "int64"), False: ("f", "float64")}
    return {n: ((count,), *types[bool(w and count)]) for n, w in zip(names, whole, strict=True)}


def _whole(part: Floats) -> npt.NDArray[np.bool_]:
    """Which columns hold only integers."""
    return np.asarray(np.all((np.abs(part) < 2**53) & (part == np.floor(part)), axis=0))


def read_table(path: Path) -> npt.NDArray[Any]:
    """The numbers of a file without names, in the shape that np.loadtxt gives them (one row, or one column, is a
    vector). Raises OSError, ValueError."""
    parts = list(table_parts(path, None))
    if len({part.shape[1] for part in parts}) > 1:
        raise ValueError("its lines have different numbers of columns")
    table = np.concatenate(parts) if parts else np.zeros((0, 1))
    return table.ravel() if 1 in table.shape else table


def read_columns(path: Path, columns: Sequence[str]) -> npt.NDArray[Any]:
    """(rows, columns), int64 where all numbers are integers. Raises OSError, ValueError."""
    parts = list(table_parts(path, columns))
    table = np.concatenate(parts) if parts else np.zeros((0, len(columns)))
    return table.astype(np.int64) if len(table) and bool(np.all(_whole(table))) else table
