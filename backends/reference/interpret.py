"""Interpreter for the rows of a program, unmerged or merged.

Assumes: a legal Program or Merged.
Guarantees: `bind_row` binds one row at a time, so merging cannot change what is computed; a Merged is read through its
templates and tables.
Does not: allocate arrays (load.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

import compiler.ir.level2.program as l2
from backends.protocol import AnyArray
from backends.reference.attention import run_attention
from backends.reference.connect import run_connect
from backends.reference.contract import run_contract
from backends.reference.nest import run_nest
from backends.reference.propagate import run_propagate
from backends.reference.record import run_emit_scheduled, run_record_events, run_record_trace
from backends.reference.row import Row
from compiler.ir.level0.streams import stream_key
from compiler.ir.space import DType


@dataclass(frozen=True)
class Item:
    """Rows [lo, hi) of one kernel or template, in steps k with k % every == offset; `at`: the step of the loop that it
    is in, from 0."""

    code: l2.Kernel | l2.Template
    rows: l2.Rows
    lo: int
    hi: int
    every: int
    offset: int
    at: int = 0


def phases(program: l2.Program | l2.Merged) -> Mapping[str, tuple[Item, ...]]:
    """The launches of each phase, in order, those of a loop once for each of its steps."""
    found = dict[str, tuple[Item, ...]]()
    for p in program.phases:
        items = [_item(program, x) for x in p.launches]
        found[p.name] = tuple(
            replace(items[n], at=at) if at else items[n] for n, at in l2.in_order(len(items), p.loops)
        )
    return found


def _item(program: l2.Program | l2.Merged, x: l2.Launch) -> Item:
    if isinstance(program, l2.Merged):
        return Item(program.templates[x.template], program.tables[x.template], x.lo, x.hi, x.every, x.offset)
    kernel = program.kernels[x.template]
    return Item(kernel, kernel.rows, x.lo, x.hi, x.every, x.offset)


def column_value(value: Any, seed: int, sizes: Mapping[str, int]) -> Any:
    """A column's entry as a number: extents and stream keys are looked up."""
    match value:
        case l2.SizeOf(array):
            return sizes[array]
        case l2.StreamKey(path):
            return stream_key(seed, path)
    return value


def bind_row(
    code: l2.Kernel | l2.Template,
    rows: l2.Rows,
    index: int,
    real: DType,
    memory: Callable[[str], AnyArray],
    seed: int,
    sizes: Mapping[str, int],
) -> Row:
    """Row `index` with memory and numbers. Raises KeyError for an array that is not allocated."""
    precision = np.dtype(real.numpy)
    scalars: dict[str, Any] = {}
    for formal in code.formals:
        if isinstance(formal, l2.ArrayFormal):
            continue
        value = column_value(rows.scalars[formal.name][index], seed, sizes)
        if formal.dtype.is_real:
            dtype = np.dtype(formal.dtype.numpy)
            scalars[formal.name] = dtype.type(np.float64(value))
        else:
            scalars[formal.name] = np.uint64(value) if formal.dtype is DType.U64 else np.int64(value)
    names = {f.name: rows.arrays[f.name][index] for f in code.arrays}
    path = rows.paths[index] if index < len(rows.paths) else f"row {index}"
    return Row(
        f"{code.name} ({path})",
        code.formals,
        code.body,
        {formal: memory(name) for formal, name in names.items()},
        names,
        scalars,
        precision,
    )


def run_row(row: Row, step: int) -> bool:
    """Run one row in one step; True when a record buffer has to be drained."""
    match row.body:
        case l2.Nest() as nest:
            run_nest(row, nest, step)
        case l2.Contract() as body:
            run_contract(row, body, step)
        case l2.Attention() as body:
            run_attention(row, body)
        case l2.Propagate() as body:
            run_propagate(row, body, step)
        case l2.Connect() as body:
            run_connect(row, body, step)
        case l2.RecordEvents():
            return run_record_events(row, step)
        case l2.RecordTrace() as body:
            return run_record_trace(row, body, step)
        case l2.EmitScheduled():
            run_emit_scheduled(row, step)
        case unknown:
            assert_never(unknown)
    return False


Bind = Callable[[Item, int], Row]


def run_step(items: tuple[Item, ...], bind: Bind, step: int) -> bool:
    """Run what is due in `step`; True when a record buffer has to be drained."""
    full = False
    with np.errstate(all="ignore"):
        for item in items:
            if step % item.every == item.offset:
                for index in range(item.lo, item.hi):
                    full = run_row(bind(item, index), step) or full
    return full
