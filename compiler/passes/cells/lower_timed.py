"""lower_timed: timed arrays and lookup tables become arrays, and reads of timed arrays statements.

Assumes: a legal model.
Guarantees: timed arrays are constants `<name>'timed` that are read at row (k-1) // every, the first row before time 0;
those of layers are data, of which each instance reads rows of its own, over again in each trial. The row of a shuffled
array is worked out once, when a trial begins.
Does not: lower what reads them (lower_drives).
"""

from __future__ import annotations

from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Expr, Num, Ref
from compiler.ir.level1.stages import TRIALS
from compiler.ir.space import DType, Role, own_array
from compiler.passes.cells.cell_arrays import FLAT
from compiler.passes.program.build_program import Draft, Place, ProgramBuilder
from compiler.passes.program.clock import BEFORE
from compiler.passes.program.init_values import numbers_of

NEVER: Final = 1 << 40  # longer than any run: what is due once


def lower_timed(builder: ProgramBuilder, model: l0.Model) -> None:
    """The timed arrays of the model as constants; those of layers as data, a part for each instance."""
    assert model.simulate is not None
    for item in model.timed:
        if item.layer:
            parts, name = model.simulate.instances * item.rows, own_array(item.name, "timed")
            whole = (parts, item.columns)
            builder.array(l2.Array(name, builder.precision, whole, Role.DATA, unit=item.unit, span=item.span))
            continue
        shape = (item.rows, item.columns) if item.columns else (item.rows,)
        array = l2.Array(
            own_array(item.name, "timed"), builder.precision, shape, Role.CONST, unit=item.unit, span=item.span
        )
        builder.array(array, numbers_of(item.values).reshape(shape).astype(builder.precision.numpy))


def lower_lookups(builder: ProgramBuilder, model: l0.Model) -> None:
    """The lookup tables of the model as constants."""
    for table in model.lookups:
        last = table.rows - 1
        head = [table.low, last / (table.high - table.low), last]
        data = np.concatenate([head, numbers_of(table.values)]).astype(builder.precision.numpy)
        name, shape = own_array(table.name, "table"), data.shape
        builder.array(l2.Array(name, builder.precision, shape, Role.CONST, unit=table.unit, span=table.span), data)
    builder.lookups = frozenset(x.name for x in model.lookups)


def _order_name(array: l0.TimedArray, copy: int) -> str:
    """The number of the row of this trial, for all shuffled arrays of a phase with as many rows, in one instance."""
    return own_array(f"{array.phase}", f"timed.{array.rows}.{copy}{'.dealt' if array.order == 'dealt' else ''}")


def copy_of(model: l0.Model, population: str) -> int:
    """The instance of the network that a population belongs to."""
    assert model.simulate is not None
    return int(population.rpartition("_")[2]) if model.simulate.instances > 1 else 0


def lower_orders(builder: ProgramBuilder, model: l0.Model) -> None:
    """The row of each trial of shuffled arrays: place `trial % rows` of permutation `trial // rows` (a swap-or-not
    network, as for draws without replacement), worked out once, when the trial begins. Rows that are dealt are those of
    one permutation for all instances, `copies` of them a trial."""
    assert model.simulate is not None
    for array in {(a.phase, a.rows, a.order): a for a in model.timed if a.order != "sequential"}.values():
        _lower_order(builder, array, model.simulate.instances)


def _lower_order(builder: ProgramBuilder, array: l0.TimedArray, copies: int) -> None:
    trial, dealt = BEFORE // Ref("every"), array.order == "dealt"
    if dealt:
        trial = trial * Ref("copies") + Ref("copy")
    place = Call("shuffled", (Ref("key"), trial // Ref("rows"), Ref("rows"), trial % Ref("rows")))
    nest = l2.Nest(FLAT, (l2.Assign("row", place),))
    for copy in range(copies):
        name = builder.array(l2.Array(_order_name(array, copy), DType.I64, (1,), Role.STATE, span=array.span))
        k = builder.kernel(f"{name}: the row of this trial", array.span)
        k.write("row", DType.I64, name)
        k.column("n", 1)
        k.column("every", array.every)
        k.column("rows", array.rows)
        k.column("copies", copies)
        k.column("copy", copy)
        stream = f"timed.{array.phase}.{array.rows}.{0 if dealt else copy}/order"
        k.column("key", l2.StreamKey(stream), DType.U64)
        row = k.add_row(nest, name)
        row.run(Place(TRIALS, (array.every, 1 % array.every)))
        if builder.warmup % array.every:  # the first trial has begun before the run
            row.run(Place(TRIALS, (NEVER, 1 - builder.warmup)))


def read_timed(k: Draft, array: l0.TimedArray, local: str, copy: int) -> list[l0.Set]:
    """The statements that set `local` to what a timed array holds in this step, in an instance of the network, and the
    formals of `k` that they read."""
    every, last, row = (derived(local, Way.TIMED, part) for part in ("every", "last", "row"))
    if array.order != "sequential":
        now = derived(row, Way.NOW)
        k.read(now, DType.I64, _order_name(array, copy), l2.SCALAR)
        body = [l0.Set(row, Ref(now))]
    else:
        first = derived(local, Way.TIMED, "first")
        k.column(every, array.every)
        k.column(last, array.rows - (array.phase is None and not array.layer))
        if array.layer:
            k.column(first, copy * array.rows)
        body = [l0.Set(row, _row_now(array, every, last, first))]
    held = derived(local, Way.TIMED)
    ends = [(row, held)]
    value: Expr = Ref(held)
    if array.interpolate:
        ahead, after = (derived(local, Way.TIMED, part) for part in ("row_ahead", "ahead"))
        body.append(l0.Set(ahead, Call("min", (Ref(row) + 1, Ref(last)))))
        ends.append((ahead, after))
        part = Call("float", (_SINCE % Ref(every),)) / Call("float", (Ref(every),))
        value = value + (Ref(after) - value) * part
    for at, formal in ends:
        row_axis = l2.Axis(((at, 1),), stride="n" if array.columns else 1)
        axes = (row_axis, l2.Axis((("i", 1),))) if array.columns else (row_axis,)
        k.read(formal, k.builder.precision, own_array(array.name, "timed"), l2.Strided(axes))
    return [*body, l0.Set(local, value)]


_SINCE: Final = Call("max", (BEFORE, Num(0)))
"""Steps between time 0 and the start of this one; 0 in the warm-up."""


def _row_now(array: l0.TimedArray, every: str, last: str, first: str) -> Expr:
    """The row of an array that holds in this step; `first`: the column of an instance's first row, of a layer."""
    cycle = BEFORE // Ref(every) % Ref(last)
    if array.layer:
        return Ref(first) + cycle
    return cycle if array.phase is not None else Call("min", (_SINCE // Ref(every), Ref(last)))
