"""merge: kernels -> templates and tables.

Assumes: a legal Program; equal digests mean equal text up to names (ir/digest.py).
Guarantees: one Template per distinct text, numbered by first appearance; its table holds the rows of all kernels that
share it, in program order, so bind(template, row) is the unmerged kernel; consecutive launches of a phase that share a
template and run adjacent rows become one launch (they are independent: hazards between them are checked by
`independent`), in the body of a loop as outside.
Does not: reorder launches or place arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.ir.digest import digest
from compiler.ir.level2.dependence import joined, parts_of

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64] | tuple[l2.ColumnValue, ...]


def _join_scalars(parts: Sequence[Column]) -> Column:
    """Concatenates one column over several kernels, keeping vectors as vectors."""
    vectors = [p for p in parts if isinstance(p, np.ndarray)]
    if len(vectors) == len(parts):
        joined: npt.NDArray[Any] = np.concatenate(vectors)
        return joined
    values: list[l2.ColumnValue] = []
    for part in parts:
        values.extend(part.tolist() if isinstance(part, np.ndarray) else part)
    return tuple(values)


def _join(formals: tuple[l2.Formal, ...], kernels: Sequence[l2.Kernel]) -> l2.Rows:
    """The rows of `kernels` under the formal names of the first one (kernels match position by position)."""
    if len(kernels) == 1:
        return kernels[0].rows
    arrays: dict[str, tuple[str, ...]] = {}
    scalars: dict[str, Column] = {}
    for position, formal in enumerate(formals):
        names = [k.formals[position].name for k in kernels]
        if isinstance(formal, l2.ArrayFormal):
            arrays[formal.name] = tuple(a for k, name in zip(kernels, names, strict=True) for a in k.rows.arrays[name])
        else:
            scalars[formal.name] = _join_scalars([k.rows.scalars[name] for k, name in zip(kernels, names, strict=True)])
    return l2.Rows(sum(k.rows.count for k in kernels), arrays, scalars, tuple(p for k in kernels for p in k.rows.paths))


def _with_units(kernels: Sequence[l2.Kernel], rows: l2.Rows, units: Mapping[str, str]) -> tuple[l2.Formal, ...]:
    """The formals of the first kernel, with the units that all rows share; `units`: of arrays."""

    def one(position: int, formal: l2.Formal) -> l2.Formal:
        if isinstance(formal, l2.ArrayFormal):
            found = set(map(units.get, rows.arrays[formal.name]))
        else:
            found = {k.formals[position].unit for k in kernels}
        unit = (found.pop() or "") if len(found) == 1 else ""
        return formal if unit == formal.unit else replace(formal, unit=unit)

    return tuple(one(n, f) for n, f in enumerate(kernels[0].formals))


def _phase(
    phase: l2.Phase, launches: Sequence[l2.Launch], join: Callable[[Sequence[l2.Launch]], Sequence[l2.Launch]]
) -> l2.Phase:
    """The phase with joined launches: none of a loop with one outside of it."""
    found: list[l2.Launch] = []
    loops = []
    done = 0
    for loop in phase.loops:
        found += join(launches[done : loop.first])
        first = len(found)
        found += join(launches[loop.first : loop.last])
        loops.append(replace(loop, first=first, last=len(found)))
        done = loop.last
    return replace(phase, launches=(*found, *join(launches[done:])), loops=tuple(loops))


def merge(program: l2.Program) -> l2.Merged:
    groups: dict[str, list[int]] = {}
    units = {a.name: a.unit for a in program.arrays if a.unit != "1"}
    for index, kernel in enumerate(program.kernels):
        groups.setdefault(digest(kernel), []).append(index)
    templates: list[l2.Template] = []
    tables: list[l2.Rows] = []
    where: dict[int, tuple[int, int]] = {}
    for number, (key, members) in enumerate(groups.items()):
        kernels = [program.kernels[i] for i in members]
        first, rows = kernels[0], _join(kernels[0].formals, kernels)
        templates.append(
            l2.Template(
                number,
                first.name,
                key,
                _with_units(kernels, rows, units),
                first.body,
                first.order,
                first.span,
            )
        )
        tables.append(rows)
        base = 0
        for index, kernel in zip(members, kernels, strict=True):
            where[index] = (number, base)
            base += kernel.rows.count
    phases = []
    parts = parts_of(program.arrays)
    for phase in program.phases:
        launches = []
        for item in phase.launches:
            number, base = where[item.template]
            launches.append(replace(item, template=number, lo=base + item.lo, hi=base + item.hi))
        phases.append(_phase(phase, launches, partial(joined, templates, tables, parts=parts)))
    return l2.Merged(
        program.name,
        program.precision,
        program.order,
        program.arrays,
        tuple(templates),
        tuple(tables),
        tuple(phases),
        program.constants,
    )
