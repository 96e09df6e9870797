"""write_tables: the tables as bytes: one 8-byte word per row and formal.

Assumes: a placement that names every array of the rows.
Guarantees: array formals become (role number << 56) | byte offset; real columns f64 bits; integer columns i64;
random-stream keys u64 (compiler/ir/level0/streams.py). The word of an array that is not placed yet (sizes unknown
before connecting) is NOT_PLACED.
Does not: depend on the target: the same table serves host and device. `device_table` makes that of a device of it,
`with_columns` what kernels read of either, and `rows_of_steps` adds the rows of each step of loops, for targets whose
launches read a row while the next step is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.ir.level0.streams import stream_keys
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import Placement

NOT_PLACED = (1 << 64) - 1
ROLE_SHIFT = 56
ROLE_NUMBER = {role: number for number, role in enumerate(Role)}


def _table(
    template: l2.Template,
    rows: l2.Rows,
    words: Mapping[str, int],
    seed: int,
    sizes: Mapping[str, int],
) -> npt.NDArray[np.uint64]:
    table = np.empty((rows.count, len(template.formals)), np.uint64)
    for column, formal in enumerate(template.formals):
        if isinstance(formal, l2.ArrayFormal):
            names = rows.arrays[formal.name]
            table[:, column] = np.fromiter(map(words.__getitem__, names), np.uint64, rows.count)
            continue
        values: npt.NDArray[Any] | tuple[l2.ColumnValue, ...] = rows.scalars[formal.name]
        if not isinstance(values, np.ndarray):
            keys = iter(stream_keys(seed, [v.path for v in values if isinstance(v, l2.StreamKey)]))
            plain = [
                next(keys) if isinstance(v, l2.StreamKey) else sizes.get(v.array, 0) if isinstance(v, l2.SizeOf) else v
                for v in values
            ]
            values = np.array(
                plain,
                np.float64 if formal.dtype.is_real else np.uint64 if formal.dtype == "u64" else np.int64,
            )
        if formal.dtype.is_real:
            table[:, column] = values.astype(np.float64).view(np.uint64)
        else:
            table[:, column] = values.astype(np.uint64 if formal.dtype == "u64" else np.int64).view(np.uint64)
    return table


def placed_at(array: l2.Array, placement: Placement) -> int:
    """The word of an array."""
    offset = placement.offsets.get(array.name)
    return NOT_PLACED if offset is None else ROLE_NUMBER[array.role] << ROLE_SHIFT | offset


def write_tables(
    merged: l2.Merged, placement: Placement, seed: int, sizes: Mapping[str, int]
) -> tuple[npt.NDArray[np.uint64], ...]:
    """One (rows, formals) array of words per template."""
    roles = {role: number << ROLE_SHIFT for role, number in ROLE_NUMBER.items()}
    placed = ((a, placement.offsets.get(a.name)) for a in merged.arrays)
    words = {a.name: NOT_PLACED if offset is None else roles[a.role] | offset for a, offset in placed}
    return tuple(
        _table(template, rows, words, seed, sizes)
        for template, rows in zip(merged.templates, merged.tables, strict=True)
    )


def _moved(a: l2.Array, steps: int) -> npt.NDArray[np.uint64]:
    """Bytes from the part of the first step to that of each step, modulo 2^64."""
    step = np.arange(steps, dtype=np.int64)
    return (a.by_step * a.dtype.bytes * (step % a.ring if a.ring else step)).view(np.uint64)


def rows_of_steps(
    merged: l2.Merged, tables: Sequence[npt.NDArray[np.uint64]], without: Collection[tuple[str, int]] = ()
) -> tuple[tuple[npt.NDArray[np.uint64], ...], Mapping[tuple[str, int], int]]:
    """The tables with the rows of launches in loops once for each step, behind all others; by phase and launch, where
    those of its first step begin, behind which those of the next steps follow. `without`: loops by phase and first
    launch, whose rows stay as they are."""
    moving = {a.name: a for a in merged.arrays if a.by_step}
    more: list[list[npt.NDArray[np.uint64]]] = [[table] for table in tables]
    counts = [len(table) for table in tables]
    begins: dict[tuple[str, int], int] = {}
    for phase in merged.phases:
        for loop in phase.loops:
            for n in range(loop.first, loop.last) if (phase.name, loop.first) not in without else ():
                x = phase.launches[n]
                begins[phase.name, n] = counts[x.template]
                made = np.repeat(tables[x.template][None, x.lo : x.hi], loop.steps, axis=0)
                for column, f in enumerate(merged.templates[x.template].formals):
                    if not isinstance(f, l2.ArrayFormal):
                        continue
                    for row, name in enumerate(merged.tables[x.template].arrays[f.name][x.lo : x.hi]):
                        if (a := moving.get(name)) is not None:
                            made[:, row, column] += _moved(a, loop.steps)
                counts[x.template] += loop.steps * (x.hi - x.lo)
                more[x.template].append(made.reshape(-1, made.shape[2]))
    return tuple(np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in more), begins


_OFFSET = np.uint64((1 << ROLE_SHIFT) - 1)


def device_table(
    template: l2.Template, table: npt.NDArray[np.uint64], bases: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """The rows with device addresses, and reals in their own type. `bases`: by role number."""
    out = table.copy()
    for column, formal in enumerate(template.formals):
        words = table[:, column]
        if isinstance(formal, l2.ArrayFormal):
            placed = words != np.uint64(NOT_PLACED)
            role = np.where(placed, words >> np.uint64(ROLE_SHIFT), 0).astype(np.int64)
            out[:, column] = np.where(placed, bases[role] + (words & _OFFSET), 0)
        elif formal.dtype == DType.F32:
            narrow = np.zeros((len(words), 2), np.float32)
            narrow[:, 0] = words.view(np.float64).astype(np.float32)
            out[:, column] = narrow.view(np.uint64)[:, 0]
    return out


def with_columns(table: npt.NDArray[np.uint64], columns: Sequence[int]) -> npt.NDArray[np.uint64]:
    """The rows with those columns that kernels read."""
    return np.ascontiguousarray(table[:, list(columns)])
