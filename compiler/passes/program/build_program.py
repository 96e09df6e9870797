"""ProgramBuilder: collects arrays, rows and launches while a graph is lowered.

Assumes: nothing of a body names a formal that no row declares.
Guarantees: a kernel is what its text is. Rows that are declared one by one (`kernel`) share one where their texts have
one digest and their formals the same names; rows of one prototype (`rows_of`) share the kernel that it makes, once. A
formal that the text does not read is neither a formal of the kernel nor a column of its rows. Kernels are numbered by
first use, so the text that follows from them does not depend on how many rows there are. The step of populations and
projections is in the order of its stages (ir/level1/stages.py), whatever was lowered first.
Does not: merge equal kernels of different prototypes (merge does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, ParamSpec

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import refs
from compiler.ir.digest import digest
from compiler.ir.level1.stages import IN_SEQUENCE, ORDER
from compiler.ir.space import DType, Role
from compiler.passes.program.clock import WARMUP
from compiler.passes.program.formals_read import formals_read
from compiler.passes.program.lookups import with_tables

_P = ParamSpec("_P")
Column = npt.NDArray[np.float64] | npt.NDArray[np.int64] | tuple[l2.ColumnValue, ...]


@dataclass(frozen=True)
class Prototype:
    """What all rows of a kernel have in common."""

    formals: tuple[l2.Formal, ...]
    body: l2.Body


@dataclass(eq=False)
class KernelRows:
    """A kernel, and its rows so far by column. It has the name of its row of lowest `rank`: the first in the order of
    the model, not in the order of execution, so that a deeper network (whose gradients begin at the last layer) has
    the same text."""

    builder: ProgramBuilder
    name: str
    prototype: Prototype
    span: Span
    rank: int
    tables: Mapping[str, str]
    arrays: dict[str, list[str]]
    scalars: dict[str, list[l2.ColumnValue]]
    paths: list[str] = field(default_factory=list)

    def add_row(self, arrays: Mapping[str, str], columns: Mapping[str, l2.ColumnValue], path: str) -> Row:
        """Adds one row, at a model path."""
        if self.tables:
            arrays = {**arrays, **self.tables}
        if WARMUP in self.scalars:
            columns = {**columns, WARMUP: self.builder.warmup}
        for formal, bound in self.arrays.items():
            bound.append(arrays[formal])
        for formal, values in self.scalars.items():
            values.append(columns[formal])
        self.paths.append(path)
        return Row(self, len(self.paths) - 1)

    def add_rows(
        self,
        arrays: Mapping[str, Sequence[str]],
        columns: Mapping[str, Sequence[l2.ColumnValue]],
        paths: Sequence[str],
    ) -> Row:
        """Adds a row at each model path; every formal has a value for each."""
        first, count = len(self.paths), len(paths)
        if self.tables:
            arrays = {**arrays, **{formal: (table,) * count for formal, table in self.tables.items()}}
        if WARMUP in self.scalars:
            columns = {**columns, WARMUP: (self.builder.warmup,) * count}
        for formal, bound in self.arrays.items():
            bound.extend(arrays[formal])
        for formal, values in self.scalars.items():
            values.extend(columns[formal])
        self.paths.extend(paths)
        return Row(self, first, count)


@dataclass
class Signature:
    """Formals of a kernel, each with what a row binds it to."""

    formals: list[l2.Formal] = field(default_factory=list)
    arrays: dict[str, str] = field(default_factory=dict)
    columns: dict[str, l2.ColumnValue] = field(default_factory=dict)

    def array(self, formal: l2.ArrayFormal, array: str) -> None:
        self.formals.append(formal)
        self.arrays[formal.name] = array

    def read(self, name: str, dtype: DType, array: str, access: l2.Access = l2.ELEMENT) -> None:
        self.array(l2.ArrayFormal(name, dtype, l2.Mode.READ, access), array)

    def write(self, name: str, dtype: DType, array: str, access: l2.Access = l2.ELEMENT) -> None:
        self.array(l2.ArrayFormal(name, dtype, l2.Mode.WRITE, access), array)

    def update(self, name: str, dtype: DType, array: str, access: l2.Access = l2.ELEMENT) -> None:
        self.array(l2.ArrayFormal(name, dtype, l2.Mode.UPDATE, access), array)

    def accumulate(self, name: str, dtype: DType, array: str, access: l2.Access = l2.ELEMENT) -> None:
        self.array(l2.ArrayFormal(name, dtype, l2.Mode.ACCUMULATE, access), array)

    def column(self, name: str, value: l2.ColumnValue, dtype: DType = DType.I64) -> None:
        """A column, declared at its first value."""
        if name not in self.columns:
            self.formals.append(l2.ScalarFormal(name, dtype))
        self.columns[name] = value

    def include(
        self, formals: tuple[l2.Formal, ...], arrays: Mapping[str, str], columns: Mapping[str, l2.ColumnValue]
    ) -> None:
        """Formals with what they are bound to, by name."""
        self.formals.extend(formals)
        self.arrays.update(arrays)
        self.columns.update(columns)


@dataclass(kw_only=True)
class Draft(Signature):
    """A row while it is declared."""

    builder: ProgramBuilder
    name: str
    span: Span
    group: object

    def add_row(self, body: l2.Body, path: str) -> Row:
        """Adds the row to the kernel of this text."""
        prototype = Prototype(tuple(self.formals), body)
        kernel = self.builder.kernel_of(prototype, self.name, self.span, self.group)
        return kernel.add_row(self.arrays, self.columns, path)


Due = tuple[int, int]
"""Steps k after the warm-up (and in it, where these are 0 and below) with k % every == offset."""
EVERY_STEP: Final[Due] = (1, 0)


@dataclass(frozen=True)
class Place:
    """When a row runs in a step: in a stage, if the step is due, after all rows of earlier parts of the stage. An
    operation has a `part` (order_synapses), and its rows run in `turn`."""

    stage: str
    due: Due = EVERY_STEP
    part: int = 0
    turn: int = 0

    def then(self, turns: int = 1) -> Place:
        """The place of later rows of an operation."""
        return Place(self.stage, self.due, self.part, self.turn + turns)


@dataclass(slots=True)
class _Launched:
    """Rows [lo, hi) of a kernel, in the steps k with k % every == offset."""

    kernel: KernelRows
    lo: int
    hi: int
    every: int
    offset: int


# Frozen by `Final`, as spans are (compiler/core/source.py): a program may have a million.
@dataclass(slots=True)
class Row:
    """Row `number` of a kernel, or `count` rows from there on."""

    kernel: Final[KernelRows]
    number: Final[int]
    count: Final[int] = 1

    def launch(self, phase: str, due: tuple[int, int] = (1, 0), join: bool = True) -> None:
        """Adds the row to a phase, in the steps k with k % every == offset (`due`). `join`: it is independent of
        adjacent launches of the same kernel, so that one launch may run both; without it, merge joins launches that it
        proves independent. Several rows are."""
        self._add(self.kernel.builder.phases.setdefault(phase, []), *due, join)

    def run(self, at: Place, join: bool = True) -> None:
        """Adds the row to the step of populations and projections. `join`: as above."""
        b, (every, offset) = self.kernel.builder, at.due
        together = b.step.setdefault((at.stage, at.part, at.turn), {})
        key = None if at.stage in IN_SEQUENCE else self.kernel
        self._add(together.setdefault(key, []), every, (offset + b.warmup) % every, join)

    def _add(self, items: list[_Launched], every: int, offset: int, join: bool) -> None:
        lo, last = self.number, items[-1] if join and items else None
        if last and last.kernel is self.kernel and (last.hi, last.every, last.offset) == (lo, every, offset):
            last.hi += self.count
        else:
            items.append(_Launched(self.kernel, lo, lo + self.count, every, offset))


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
    step: dict[tuple[str, int, int], dict[KernelRows | None, list[_Launched]]] = field(default_factory=dict)
    """By stage, part and turn (Place): of each kernel, or (None) of all."""
    loops: dict[str, list[l2.Loop]] = field(default_factory=dict)
    kernels: list[KernelRows] = field(default_factory=list)
    _of_text: dict[object, KernelRows] = field(default_factory=dict)
    _of_prototype: dict[object, KernelRows] = field(default_factory=dict)

    def array(self, array: l2.Array, contents: npt.NDArray[np.generic] | None = None) -> str:
        """Adds an array (with initial contents from the host); returns its name."""
        self.arrays[array.name] = array
        if contents is not None:
            self.constants[array.name] = contents
        return array.name

    def vector(
        self, name: str, dtype: DType, extent: int | l2.SizeOf, role: Role, unit: str = "1", span: Span = NOWHERE
    ) -> str:
        """Adds an array of one axis, of as many elements as another array says where that is not known; returns its
        name."""
        shape, size_from = ((-1,), extent.array) if isinstance(extent, l2.SizeOf) else ((extent,), None)
        return self.array(l2.Array(name, dtype, shape, role, None, size_from, unit, span))

    def loop(self, phase: str, first: int, steps: int, name: str) -> None:
        """The launches of a phase from number `first` on are the body of a loop."""
        self.loops.setdefault(phase, []).append(l2.Loop(first, self.launches(phase), steps, name))

    def launches(self, phase: str) -> int:
        """So many a phase has, so far."""
        return len(self.phases.get(phase, ()))

    def kernel(self, name: str, span: Span = NOWHERE, group: object = None) -> Draft:
        """A row that is to be declared; a kernel is named after its first row. Rows that run one after the other may
        say so by a `group`: no row of another group comes between them, though the text may be the same."""
        return Draft(builder=self, name=name, span=span, group=group)

    def kernel_of(self, prototype: Prototype, name: str, span: Span = NOWHERE, group: object = None) -> KernelRows:
        """The kernel of this text (and group)."""
        formals, body = prototype.formals, prototype.body
        none = l2.Rows(0, {}, {})
        text = digest(l2.Kernel(name, formals, body, none, self.order, span))
        key = (text, group, *(f.name for f in formals))
        return self._of_text.get(key) or self._of_text.setdefault(key, self._add(prototype, name, span, 0))

    def rows_of(
        self,
        make: Callable[_P, Prototype],
        name: str,
        span: Span = NOWHERE,
        rank: int = 0,
        /,
        *args: _P.args,
        **more: _P.kwargs,
    ) -> KernelRows:
        """The kernel of `make(*args, **more)`, which is called at its first row: for kernels of many rows."""
        key = (make, args, *more.values()) if more else (make, args)
        kernel = self._of_prototype.get(key)
        if kernel is None:
            kernel = self._of_prototype[key] = self._add(make(*args, **more), name, span, rank)
        elif rank < kernel.rank:
            kernel.name, kernel.span, kernel.rank = name, span, rank
        return kernel

    def _add(self, prototype: Prototype, name: str, span: Span, rank: int) -> KernelRows:
        """A new kernel without rows. One that reads the clock gets its column, one that reads lookup tables their
        arrays."""
        formals, body = prototype.formals, prototype.body
        tables: Mapping[str, str] = {}
        if self.lookups:
            formals, body, tables = with_tables(formals, body, self.precision)
        if any(WARMUP in refs(e) for e in body.expressions):
            formals = (*formals, l2.ScalarFormal(WARMUP, DType.I64))
        formals = formals_read(formals, body)
        arrays: dict[str, list[str]] = {f.name: [] for f in formals if isinstance(f, l2.ArrayFormal)}
        scalars: dict[str, list[l2.ColumnValue]] = {f.name: [] for f in formals if isinstance(f, l2.ScalarFormal)}
        made = KernelRows(self, name, Prototype(formals, body), span, rank, tables, arrays, scalars)
        self.kernels.append(made)
        return made

    def finish(self) -> l2.Program:
        for place in sorted(self.step, key=lambda at: (ORDER.index(at[0]), *at[1:])):
            self.phases.setdefault("step", []).extend(x for group in self.step[place].values() for x in group)
        number = {kernel: i for i, kernel in enumerate(self.kernels)}
        kernels = []
        for entry in self.kernels:
            prototype = entry.prototype
            formals, body = prototype.formals, prototype.body
            types = {f.name: f.dtype for f in prototype.formals if isinstance(f, l2.ScalarFormal)}
            scalars: dict[str, Column] = {}
            for formal, values in entry.scalars.items():
                column: Column = tuple(values)
                if all(issubclass(t, (int, float)) for t in set(map(type, values))):
                    column = np.array(values, np.float64) if types[formal].is_real else np.array(values, np.int64)
                scalars[formal] = column
            rows = l2.Rows(
                len(entry.paths),
                {f: tuple(a) for f, a in entry.arrays.items()},
                scalars,
                tuple(entry.paths),
            )
            kernels.append(l2.Kernel(entry.name, formals, body, rows, self.order, entry.span))
        phases = tuple(
            l2.Phase(
                name,
                tuple(l2.Launch(number[x.kernel], x.lo, x.hi, x.every, x.offset) for x in items),
                tuple(self.loops.get(name, ())),
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
