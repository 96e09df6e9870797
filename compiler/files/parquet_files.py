"""Columns of Parquet files, through pyarrow (extra `parquet`).

Assumes: nothing.
Guarantees: types come from the file's own header; a broken file, or a missing pyarrow, is a ValueError or OSError with
one line of text. A column of lists of one length is an array of two axes.
Does not: read text, dates or nested records.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.files.guard import expands, regular

PARQUET: Final = ".parquet"
_LENGTHS: Final = "the lists of the column `{}` are not of one length"


def _modules() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError("reading it needs pyarrow: install the extra `parquet`") from None
    return pyarrow, parquet


def _file(path: Path) -> tuple[Any, Any]:
    arrow, parquet = _modules()
    size = regular(path)
    try:
        file = parquet.ParquetFile(path)
        widths = [x.type.bit_width // 8 for x in file.schema_arrow if arrow.types.is_primitive(x.type)]
        expands(size, file.metadata.num_rows * max(widths, default=1))
        return arrow, file
    except arrow.ArrowException as error:
        raise ValueError(" ".join(str(error).split())) from None


def parquet_headers(path: Path) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Shape, kind and type of every column; for a column of lists, whose length is in no header, the data are read."""
    arrow, file = _file(path)
    rows = file.metadata.num_rows
    out: dict[str, tuple[tuple[int, ...], str, str]] = {}
    for item in file.schema_arrow:
        kind = item.type
        if arrow.types.is_boolean(kind) or arrow.types.is_integer(kind) or arrow.types.is_floating(kind):
            dtype = np.dtype(kind.to_pandas_dtype())
            out[item.name] = ((rows,), dtype.kind, str(dtype))
        elif arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
            try:
                widths = {(p.shape[1:], p.dtype) for p in parquet_parts(path, item.name)}
                if len(widths) > 1:
                    raise ValueError(_LENGTHS.format(item.name))
            except ValueError as error:
                out[item.name] = ((rows,), "O", str(error))
                continue
            width, dtype = next(iter(widths), ((0,), np.dtype(np.float64)))
            out[item.name] = ((rows, *width), dtype.kind, str(dtype))
        else:
            out[item.name] = ((rows,), "O", str(kind))
    return out


def read_parquet(path: Path, name: str) -> npt.NDArray[Any]:
    """One column. Raises OSError, ValueError."""
    arrow, file = _file(path)
    if name not in file.schema_arrow.names:
        raise ValueError(f"it has no column `{name}`")
    return _column(arrow, file.read(columns=[name]).column(name).combine_chunks(), name)


def parquet_parts(path: Path, name: str) -> Iterator[npt.NDArray[Any]]:
    """One column by row groups. Raises OSError, ValueError."""
    arrow, file = _file(path)
    if name not in file.schema_arrow.names:
        raise ValueError(f"it has no column `{name}`")
    for batch in file.iter_batches(columns=[name]):
        yield _column(arrow, batch.column(0), name)


def parquet_bytes(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A Parquet file with these columns, of one length. Raises ImportError without pyarrow."""
    import pyarrow
    from pyarrow import parquet

    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(dict(columns)), sink)
    return sink.getvalue()


def _column(arrow: Any, column: Any, name: str) -> npt.NDArray[Any]:
    if column.null_count:
        raise ValueError(f"the column `{name}` has {column.null_count:,} missing values")
    kind = column.type
    if arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind):
        flat = column.flatten()
        if flat.null_count or len({len(x) for x in column}) > 1:
            raise ValueError(_LENGTHS.format(name))
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
    return np.asarray(column.to_numpy(zero_copy_only=False))
