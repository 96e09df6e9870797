"""ProgramBuilder: collects arrays, rows and launches while a graph is lowered.

Assumes: callers give the same prototype (formals, body, kind) for the same key.
Guarantees: rows that share a key become one Kernel, in order of arrival; kernels are numbered by first use, so
the text that follows from them does not depend on how many rows there are.
Does not: merge kernels of different keys that happen to be equal (merge does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import refs
from compiler.ir.space import DType
from compiler.passes.program.clock import WARMUP
from compiler.passes.program.lookups import with_tables

Column = npt.NDArray[np.float64] | npt.NDArray[np.int64] | tuple[l2.ColumnValue, ...]


@dataclass(eq=False)
class Collected:
    """A kernel, and its rows so far by column."""

    name: str
    kind: l2.Kind
    formals: tuple[l2.Formal, ...]
    body: l2.Body
    span: Span
    rank: int
    tables: Mapping[str, str]
    arrays: dict[str, list[str]]
    scalars: dict[str, list[l2.ColumnValue]]
    paths: list[str] = field(default_factory=list)
    scans: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Launched:
    """Rows [lo, hi) of a kernel, in the steps k with k % every == offset."""

    kernel: Collected
    lo: int
    hi: int
    every: int
    offset: int


# Frozen by `Final`, as spans are (compiler/core/source.py): a program may have a million.
@dataclass(slots=True)
class Row:
    """Row `number` of a kernel."""

    builder: Final[ProgramBuilder]
    kernel: Final[Collected]
    number: Final[int]

    def launch(self, phase: str, every: int = 1, offset: int = 0, join: bool = True) -> None:
        """Adds the row to a phase, in the steps k after the warm-up with k % every == offset (and in the warm-up, where
        these are 0 and below). `join`: it is independent of adjacent launches of the same kernel, so that one launch
        may run both; without it, merge joins launches that it proves independent."""
        b, lo = self.builder, self.number
        offset = (offset + b.warmup) % every if phase == "step" else offset
        items = b.phases.setdefault(phase, [])
        last = items[-1] if join and items else None
        if last and last.kernel is self.kernel and (last.hi, last.every, last.offset) == (lo, every, offset):
            last.hi += 1
        else:
            items.append(_Launched(self.kernel, lo, lo + 1, every, offset))


@dataclass
class ProgramBuilder:
    """Mutable while lowering; `finish` gives the Program."""

    name: str
    precision: DType
    order: l2.Order
    warmup: int = 0
    """Steps of the phase "step" before time 0."""
    lookups: frozenset[str] = frozenset()
    """Lookup tables of the model."""
    arrays: dict[str, l2.Array] = field(default_factory=dict)
    constants: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    phases: dict[str, list[_Launched]] = field(default_factory=dict)
    kernels: dict[object, Collected] = field(default_factory=dict)
    _keys: dict[object, int] = field(default_factory=dict)

    def array(self, array: l2.Array, contents: npt.NDArray[np.generic] | None = None) -> str:
        """Adds an array (with initial contents from the host); returns its name."""
        self.arrays[array.name] = array
        if contents is not None:
            self.constants[array.name] = contents
        return array.name

    def key(self, structure: object) -> int:
        """A short key for a structure that is costly to compare: equal structures have equal keys."""
        return self._keys.setdefault(structure, len(self._keys))

    def row(
        self,
        key: object,
        name: str,
        kind: l2.Kind,
        formals: tuple[l2.Formal, ...],
        body: l2.Body,
        arrays: Mapping[str, str],
        scalars: Mapping[str, l2.ColumnValue],
        path: str,
        span: Span = NOWHERE,
        rank: int = 0,
        scan: str = "",
    ) -> Row:
        """Adds one row to the kernel `key`.

        The kernel is named after its row of lowest `rank`: the first in the order of the model, not in the order of
        execution, so that a deeper network (whose gradients begin at the last layer) has the same text.
        """
        kernel = self.kernels.get(key) or self.kernel(key, name, kind, formals, body, span, rank)
        if rank < kernel.rank:
            kernel.name, kernel.span, kernel.rank = name, span, rank
        return self.bind(kernel, arrays, scalars, path, scan)

    def kernel(
        self,
        key: object,
        name: str,
        kind: l2.Kind,
        formals: tuple[l2.Formal, ...],
        body: l2.Body,
        span: Span = NOWHERE,
        rank: int = 0,
    ) -> Collected:
        """The new kernel `key`, without rows. One that reads the clock gets its column, one that reads lookup tables
        their arrays."""
        tables: Mapping[str, str] = {}
        if self.lookups:
            formals, body, tables = with_tables(formals, body, self.precision)
        if _reads_clock(body):
            formals = (*formals, l2.ScalarFormal(WARMUP, DType.I64))
        arrays: dict[str, list[str]] = {f.name: [] for f in formals if isinstance(f, l2.ArrayFormal)}
        scalars: dict[str, list[l2.ColumnValue]] = {f.name: [] for f in formals if isinstance(f, l2.ScalarFormal)}
        made = self.kernels[key] = Collected(name, kind, formals, body, span, rank, tables, arrays, scalars)
        return made

    def bind(
        self,
        kernel: Collected,
        arrays: Mapping[str, str],
        scalars: Mapping[str, l2.ColumnValue],
        path: str,
        scan: str = "",
    ) -> Row:
        """Adds one row to a kernel."""
        for formal, bound in kernel.arrays.items():
            bound.append(kernel.tables[formal] if formal in kernel.tables else arrays[formal])
        for formal, values in kernel.scalars.items():
            values.append(self.warmup if formal == WARMUP else scalars[formal])
        kernel.paths.append(path)
        kernel.scans.append(scan)
        return Row(self, kernel, len(kernel.paths) - 1)

    def finish(self) -> l2.Program:
        number = {kernel: i for i, kernel in enumerate(self.kernels.values())}
        kernels = []
        for entry in self.kernels.values():
            types = {f.name: f.dtype for f in entry.formals if isinstance(f, l2.ScalarFormal)}
            scalars: dict[str, Column] = {}
            for formal, values in entry.scalars.items():
                if all(issubclass(t, (int, float)) for t in set(map(type, values))):
                    scalars[formal] = (
                        np.array(values, np.float64) if types[formal].is_real else np.array(values, np.int64)
                    )
                else:
                    scalars[formal] = tuple(values)
            rows = l2.Rows(
                len(entry.paths),
                {f: tuple(a) for f, a in entry.arrays.items()},
                scalars,
                tuple(entry.paths),
                tuple(entry.scans) if any(entry.scans) else (),
            )
            kernels.append(l2.Kernel(entry.name, entry.kind, entry.formals, entry.body, rows, self.order, entry.span))
        phases = tuple(
            l2.Phase(
                name,
                tuple(l2.KernelLaunch(number[x.kernel], x.lo, x.hi, x.every, x.offset) for x in items),
            )
            for name, items in self.phases.items()
        )
        return l2.Program(
            self.name,
            self.precision,
            self.order,
            tuple(self.arrays.values()),
            tuple(kernels),
            phases,
            self.constants,
        )


def _reads_clock(body: l2.Body) -> bool:
    """Whether statements read the clock; names of equations never collide with its own (free_names)."""
    if isinstance(body, l2.Propagate):
        statements = body.statements
    elif isinstance(body, l2.Nest):
        statements = (*body.prologue, *body.epilogue)
        if body.term is not None and WARMUP in refs(body.term):
            return True
    else:
        return False
    values = [
        s.when if isinstance(s, l2.Emit) else s.value for s in statements if isinstance(s, l2.Assign | l2.Add | l2.Emit)
    ]
    return any(WARMUP in refs(value) for value in values)
