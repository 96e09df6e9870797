"""write_tables: the tables as bytes: one 8-byte word per row and formal.

Assumes: a placement that names every array of the rows.
Guarantees: array formals become (role number << 56) | byte offset; real columns f64 bits; integer columns
i64; random-stream keys u64 (backends/reference/philox.py: stream_key). A row that names an array which is not
placed yet (sizes unknown before connecting) gets the word NOT_PLACED.
Does not: depend on the target: the same table serves host and device.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from compiler.ir.program import ArrayFormal, Merged, Rows, SizeOf, StreamKey, Template
from compiler.ir.space import Role
from compiler.passes.plan_memory import Placement

NOT_PLACED = (1 << 64) - 1
ROLE_SHIFT = 56
ROLE_NUMBER = {role: number for number, role in enumerate(Role)}
_MASK = (1 << 64) - 1


def _splitmix64(x: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def stream_key(seed: int, path: str) -> int:
    """The 64-bit Philox key of stream `path` under `seed`: independent of every other stream's existence."""
    stream = int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little")
    return _splitmix64(stream ^ _splitmix64(seed & _MASK))


def _table(
    template: Template,
    rows: Rows,
    words: Mapping[str, int],
    seed: int,
    sizes: Mapping[str, int],
) -> npt.NDArray[np.uint64]:
    table = np.empty((rows.count, len(template.formals)), np.uint64)
    for column, formal in enumerate(template.formals):
        if isinstance(formal, ArrayFormal):
            names = rows.arrays[formal.name]
            table[:, column] = np.fromiter(
                (words.get(n, NOT_PLACED) for n in names), np.uint64, rows.count
            )
            continue
        values = rows.scalars[formal.name]
        if not isinstance(values, np.ndarray):
            plain: list[int | float] = []
            for value in values:
                match value:
                    case SizeOf(array):
                        plain.append(sizes.get(array, 0))
                    case StreamKey(path):
                        plain.append(stream_key(seed, path))
                    case _:
                        plain.append(value)
            values = np.array(
                plain,
                np.float64
                if formal.dtype.is_real
                else np.uint64
                if formal.dtype == "u64"
                else np.int64,
            )
        if formal.dtype.is_real:
            table[:, column] = values.astype(np.float64).view(np.uint64)
        else:
            table[:, column] = values.astype(np.uint64 if formal.dtype == "u64" else np.int64).view(
                np.uint64
            )
    return table


def write_tables(
    merged: Merged, placement: Placement, seed: int, sizes: Mapping[str, int]
) -> tuple[npt.NDArray[np.uint64], ...]:
    """One (rows, formals) array of words per template."""
    role = {a.name: ROLE_NUMBER[a.role] << ROLE_SHIFT for a in merged.arrays}
    words = {name: role[name] | offset for name, offset in placement.offsets.items()}
    return tuple(
        _table(template, rows, words, seed, sizes)
        for template, rows in zip(merged.templates, merged.tables, strict=True)
    )
