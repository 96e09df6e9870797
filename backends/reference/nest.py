"""Loop nests, interpreted: index grids by broadcasting, one numpy operation per operation of the
body.

Assumes: a legal Nest (verify/verify.py): PAR and LANE iterations are independent.
Guarantees: reductions add in the declared order (dims as listed, innermost last) whatever the block size, through
numpy's sequential `accumulate`; additions to shared elements happen in the order of the iterations. Grids above LIMIT
elements are processed in pieces: reductions in blocks of their index, maps in slices of their first dim.
Does not: use strategies: a Contract is evaluated as its nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.elementary import carried, maximum, minimum
from backends.reference.evaluate import Evaluator, Value, cast, loaded, rounded
from backends.reference.row import InterpretError, Row
from compiler.expr.ast import Expr
from compiler.expr.functions import CONSTANTS
from compiler.ir.space import DType

LIMIT: Final = 4_000_000
"""Elements of the largest grid that is evaluated at once."""

_INT64: Final = np.iinfo(np.int64)


def _identity(combine: str, dtype: np.dtype[Any]) -> Any:
    if combine == "add":
        return dtype.type(0)
    if dtype.kind == "f":
        return dtype.type(-math.inf if combine == "max" else math.inf)
    return dtype.type(_INT64.min if combine == "max" else _INT64.max)


class _BlockSum:
    """A sum of terms that come in order, by blocks."""

    def __init__(self, zero: Any, ends: Callable[[int], int]) -> None:
        self.zero, self.ends, self.done = zero, ends, 0
        self.total, self.part, self.lost = zero, zero, zero

    def added(self, terms: Any) -> Any:
        """The sum with more terms, the last of which ends a block or is followed by others."""
        at = 0
        while at < len(terms):
            end = self.ends(self.done)
            stop = min(len(terms), at + end - self.done)
            self.part = np.add.accumulate(np.concatenate([self.part[None], terms[at:stop]]), axis=0)[-1]
            self.done, at = self.done + stop - at, stop
            if self.done == end:
                self.total, self.lost = carried(self.total, self.part, self.lost)
                self.part = self.zero
        return self.total


class Points:
    """Some points of a nest: every point of a slice of its first dim, and the values of names
    there.

    Arrays of values broadcast against `shape` (one axis per PAR and LANE dim, in order); inside a
    reduction one more axis, the block of the flattened RED index, stands in front.
    """

    def __init__(self, row: Row, nest: l2.Nest, dims: Sequence[l2.Dim], ranges: Sequence[range], step: int) -> None:
        self.row, self.nest, self.step = row, nest, step
        self.shape = tuple(len(r) for r in ranges)
        self.values: dict[str, Value] = {"step": step, **row.scalars}
        rank = len(dims)
        for axis, (dim, r) in enumerate(zip(dims, ranges, strict=True)):
            index = np.arange(r.start, r.stop, dtype=np.int64)
            self.values[dim.name] = index.reshape((-1,) + (1,) * (rank - axis - 1))
        self.block: dict[str, Value] = {}
        self.indices: tuple[Any, ...] = ()
        self.evaluate = Evaluator(self.read, row.real, step)

    def read(self, name: str) -> Value:
        if name in self.block:
            return self.block[name]
        if name in self.values:
            return self.values[name]
        if name in self.row.array_formals:
            if isinstance(self.row.array_formals[name].access, l2.ByName):
                return self.row.arrays[name]
            value = self.load(self.row.array_formals[name])
            # loads inside a reduction may depend on its index: they last for one block
            (self.block if self.block else self.values)[name] = value
            return value
        return CONSTANTS[name]

    def address(self, formal: l2.ArrayFormal) -> tuple[Any, Any]:
        """(element addresses, mask of those in bounds or None), broadcastable to the points."""
        if not isinstance(formal.access, l2.Strided):
            raise InterpretError(f"{self.row.label}: `{formal.name}` has no element here")
        total: Any = np.int64(0)
        inside: Any = None
        for axis in formal.access.axes:
            index: Any = np.int64(self.row.size(axis.const))
            for name, coefficient in axis.terms:
                index = index + self.read(name) * np.int64(coefficient)
            tests = []
            if axis.div != 1:
                tests.append(index % axis.div == 0)
                index = index // axis.div
            if axis.extent is not None:
                tests += [index >= 0, index < self.row.size(axis.extent)]
            for test in tests:
                inside = test if inside is None else np.logical_and(inside, test)
            total = total + index * np.int64(self.row.size(axis.stride))
        if inside is not None:
            total = np.where(inside, total, 0)
        return total, inside

    def load(self, formal: l2.ArrayFormal) -> Any:
        buffer = self.row.arrays[formal.name]
        address, inside = self.address(formal)
        if inside is None:
            return loaded(buffer[self.row.checked(formal.name, address)])
        fill = cast(self.nest.fill, buffer.dtype)
        if not np.any(inside):
            return loaded(np.full(np.shape(inside), fill, buffer.dtype))
        self.row.checked(formal.name, address)
        return loaded(np.where(inside, buffer[address], fill))

    def run(self, statements: Sequence[l2.Statement]) -> None:
        for s in statements:
            match s:
                case l2.Emit():
                    self.emit(s)
                case l2.Add(target, value):
                    self.add(self.row.array_formals[target], self.evaluate(value))
                case l2.Assign(target, value) if target in self.row.array_formals:
                    self.store(self.row.array_formals[target], self.evaluate(value))
                case l2.Assign(target, value):
                    (self.block or self.values)[target] = self.evaluate.typed(value)

    def store(self, formal: l2.ArrayFormal, value: Value) -> None:
        buffer = self.row.arrays[formal.name]
        stored = cast(value, buffer.dtype)
        if formal.dtype is DType.BF16:
            stored = rounded(stored)
        address, inside = self.address(formal)
        self.row.checked(formal.name, address)
        if inside is None:
            buffer[address] = stored
        else:
            address, inside, wide = np.broadcast_arrays(address, inside, stored)
            buffer[address[inside]] = wide[inside]
        self.changed(formal)
        (self.block or self.values)[formal.name] = loaded(np.asarray(stored))

    def add(self, formal: l2.ArrayFormal, value: Value) -> None:
        buffer = self.row.arrays[formal.name]
        address, inside = self.address(formal)
        self.row.checked(formal.name, address)
        points = np.empty(self.shape, np.bool_)
        target, amount, *_ = np.broadcast_arrays(address, cast(value, buffer.dtype), points, *self.indices)
        if inside is not None:
            inside = np.broadcast_to(inside, target.shape)
            target, amount = target[inside], amount[inside]
        np.add.at(buffer, target.ravel(), amount.ravel())
        self.changed(formal)
        (self.block or self.values).pop(formal.name, None)

    def changed(self, formal: l2.ArrayFormal) -> None:
        """Invalidate values read through other formals of the same array."""
        name = self.row.names[formal.name]
        for other, bound in self.row.names.items():
            if bound == name and other != formal.name:
                self.values.pop(other, None)
                self.block.pop(other, None)

    def emit(self, s: l2.Emit) -> None:
        """Append the indices `i` where `when` holds to the list of this step."""
        events, counts = self.row.arrays[s.list], self.row.arrays[s.count]
        slots = self.row.size(s.slots)
        slot = self.step % slots
        when = np.broadcast_to(self.evaluate.test(s.when), self.shape)
        ids = np.broadcast_to(self.values["i"], self.shape)[when]
        append_events(self.row, events, counts, slots, slot, ids)

    def reduce(self, combine: str, term: Expr, dims: Sequence[l2.Dim], extents: Sequence[int]) -> Any:
        """acc = combine(acc, term) over the RED dims in order, for all points at once."""
        acc: Any = None
        ends = self.block_ends(dims, extents) if combine == "add" else None
        total: _BlockSum | None = None
        for terms in self.blocks(dims, extents):
            value = self.evaluate(term)
            dtype = self.evaluate.joined(value)
            block = np.broadcast_to(cast(value, dtype), (terms, *self.shape))
            if acc is None:
                acc = np.full(self.shape, _identity(combine, dtype))
                total = None if ends is None else _BlockSum(acc, ends)
            if total is not None:
                acc = total.added(block)
            elif combine == "add":
                acc = np.add.accumulate(np.concatenate([acc[None], block]), axis=0)[-1]
            else:
                for x in block:
                    acc = (minimum if combine == "min" else maximum)(acc, x)
        return np.full(self.shape, _identity(combine, self.row.real)) if acc is None else acc

    def block_ends(self, dims: Sequence[l2.Dim], extents: Sequence[int]) -> Callable[[int], int] | None:
        """The number of the term behind a term's block (l2.Blocks)."""
        cut = self.nest.blocks
        if cut is None:
            return None
        at = [d.name for d in dims].index(cut.dim)
        inner = math.prod(extents[at + 1 :])
        whole, block = extents[at] * inner, self.row.size(cut.length) * inner
        return lambda n: n - n % whole + min((n % whole // block + 1) * block, whole)

    def each(self, statements: Sequence[l2.Statement], dims: Sequence[l2.Dim], extents: Sequence[int]) -> None:
        """The statements for all points and all of the RED dims."""
        for _ in self.blocks(dims, extents) if statements else ():
            self.run(statements)

    def blocks(self, dims: Sequence[l2.Dim], extents: Sequence[int]) -> Iterator[int]:
        """How many points of the RED dims are in each block, in order; their indices are `block` meanwhile."""
        total = math.prod(extents)
        size = max(1, LIMIT // max(math.prod(self.shape), 1))
        for start in range(0, total, size):
            stop = min(start + size, total)
            index = np.unravel_index(np.arange(start, stop), tuple(extents) or (1,))
            lead = (-1,) + (1,) * len(self.shape)
            self.block = {d.name: at.astype(np.int64).reshape(lead) for d, at in zip(dims, index, strict=False)}
            self.indices = tuple(self.block.values())
            yield stop - start
        self.block, self.indices = {}, ()


def append_events(row: Row, events: Any, counts: Any, slots: int, slot: int, ids: Any) -> None:
    """Append `ids` to the list of `slot`; the list of a slot is full at len(events) / slots
    entries."""
    room = len(events) // slots
    used = int(counts[slot])
    if used + len(ids) > room:
        raise InterpretError(f"{row.label}: more than {room} events in one step")
    events[slot * room + used : slot * room + used + len(ids)] = ids
    counts[slot] = used + len(ids)


def _emits(nest: l2.Nest) -> list[l2.Emit]:
    return [s for s in nest.statements if isinstance(s, l2.Emit)]


def run_nest(row: Row, nest: l2.Nest, step: int, ends: Sequence[Expr] = ()) -> list[Any]:
    """Run one row of a MAP, REDUCE, EMIT or CONTRACT kernel. Returns what `ends` are at its points, after them."""
    parallel, reduced = nest.par, nest.red
    extents = [row.size(d.extent) for d in parallel]
    red_extents = [row.size(d.extent) for d in reduced]
    for s in _emits(nest):
        row.arrays[s.count][step % row.size(s.slots)] = 0
    rest = math.prod(extents[1:])
    slab = max(1, LIMIT // max(rest, 1)) if extents else 1
    starts = range(0, extents[0], slab) if extents else range(1)
    found_at_ends: list[list[Any]] = [[] for _ in ends]
    for start in starts:
        ranges = [range(n) for n in extents]
        if extents:
            ranges[0] = range(start, min(start + slab, extents[0]))
        points = Points(row, nest, parallel, ranges, step)
        points.run(nest.prologue)
        if nest.combine is not None:
            for stage in nest.stages:
                found = {s.acc: points.reduce(stage.combine, s.term, reduced, red_extents) for s in stage.sums}
                points.values |= found
                points.run(stage.epilogue)
            points.each(nest.each, reduced, red_extents)
        for parts, end in zip(found_at_ends, ends, strict=True):
            parts.append(np.broadcast_to(points.evaluate(end), points.shape))
    return [np.concatenate(parts) for parts in found_at_ends]
