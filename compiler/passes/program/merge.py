"""merge: kernels -> templates and tables.

Assumes: a legal Program; equal digests mean equal text up to names (ir/digest.py).
Guarantees: one Template per distinct text, numbered by first appearance; its table holds the rows of all
kernels that share it, in program order, so bind(template, row) is the unmerged kernel; launches of a phase that
follow each other, share a template and touch neighbouring rows become one launch (they were independent: hazards
between them are checked by `independent`).
Does not: reorder launches or place arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.ir.digest import digest
from compiler.ir.level2.program import (
    ArrayFormal,
    ColumnValue,
    Formal,
    Kernel,
    Launch,
    Merged,
    MergedPhase,
    Mode,
    Program,
    Rows,
    Template,
)

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64] | tuple[ColumnValue, ...]


def _join_scalars(parts: Sequence[Column]) -> Column:
    """Concatenates one column over several kernels, keeping vectors as vectors."""
    vectors = [p for p in parts if isinstance(p, np.ndarray)]
    if len(vectors) == len(parts):
        joined: npt.NDArray[Any] = np.concatenate(vectors)
        return joined
    values: list[ColumnValue] = []
    for part in parts:
        values.extend(part.tolist() if isinstance(part, np.ndarray) else part)
    return tuple(values)


def _join(formals: tuple[Formal, ...], kernels: Sequence[Kernel]) -> Rows:
    """The rows of `kernels` under the formal names of the first one (kernels match position by position)."""
    if len(kernels) == 1:
        return kernels[0].rows
    arrays: dict[str, tuple[str, ...]] = {}
    scalars: dict[str, Column] = {}
    for position, formal in enumerate(formals):
        names = [k.formals[position].name for k in kernels]
        if isinstance(formal, ArrayFormal):
            arrays[formal.name] = tuple(a for k, name in zip(kernels, names, strict=True) for a in k.rows.arrays[name])
        else:
            scalars[formal.name] = _join_scalars([k.rows.scalars[name] for k, name in zip(kernels, names, strict=True)])
    return Rows(
        sum(k.rows.count for k in kernels),
        arrays,
        scalars,
        tuple(p for k in kernels for p in k.rows.paths),
    )


def touched(formals: tuple[Formal, ...], rows: Rows, lo: int, hi: int) -> tuple[set[str], set[str], set[str]]:
    """Arrays that rows [lo, hi) read, write and accumulate into."""
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for formal in formals:
        if isinstance(formal, ArrayFormal):
            names = rows.arrays[formal.name][lo:hi]
            if formal.mode in (Mode.READ, Mode.UPDATE):
                read.update(names)
            if formal.mode in (Mode.WRITE, Mode.UPDATE):
                written.update(names)
            if formal.mode is Mode.ACCUMULATE:
                added.update(names)
    return read, written, added


def joined(templates: Sequence[Template], tables: Sequence[Rows], launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """Launches in their order; those that follow each other, run neighbouring rows of one template and are independent
    as one."""
    found: list[Launch] = []
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for x in launches:
        r, w, a = touched(templates[x.template].formals, tables[x.template], x.lo, x.hi)
        last = found[-1] if found else None
        joins = (
            last is not None
            and last.template == x.template
            and last.hi == x.lo
            and (last.every, last.offset) == (x.every, x.offset)
            and not (w & (read | written | added))
            and not (r & (written | added))
            and not (a & (read | written))
        )
        if joins and last is not None:
            found[-1] = replace(last, hi=x.hi)
            read |= r
            written |= w
            added |= a
        else:
            found.append(x)
            read, written, added = r, w, a
    return tuple(found)


def merge(program: Program) -> Merged:
    """The merged form of a program."""
    groups: dict[str, list[int]] = {}
    for index, kernel in enumerate(program.kernels):
        groups.setdefault(digest(kernel), []).append(index)
    templates: list[Template] = []
    tables: list[Rows] = []
    where: dict[int, tuple[int, int]] = {}
    for number, (key, members) in enumerate(groups.items()):
        kernels = [program.kernels[i] for i in members]
        first = kernels[0]
        templates.append(
            Template(
                number,
                first.name,
                key,
                first.kind,
                first.formals,
                first.body,
                first.order,
                first.span,
            )
        )
        tables.append(_join(first.formals, kernels))
        base = 0
        for index, kernel in zip(members, kernels, strict=True):
            where[index] = (number, base)
            base += kernel.rows.count
    phases = []
    for phase in program.phases:
        launches = []
        for item in phase.launches:
            number, base = where[item.kernel]
            launches.append(Launch(number, base + item.lo, base + item.hi, item.every, item.offset))
        phases.append(MergedPhase(phase.name, joined(templates, tables, launches)))
    return Merged(
        program.name,
        program.precision,
        program.order,
        program.arrays,
        tuple(templates),
        tuple(tables),
        tuple(phases),
        program.constants,
    )
