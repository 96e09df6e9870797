"""lower_cells: instances of cells become arrays, initialisation rows and a few neuron kernels per cell.

Assumes: integrate_odes and split_cells have run; dt in ms.
Guarantees: one kernel per part of a cell's step (split_cells; without pools and events it is one) with one row per
population; scalar params are columns, per-neuron params are arrays. Spike emission is part of the kernel. Deliveries
are added to the input itself or to an array that the first neuron kernel adds to it (see Deliveries). Events of phases
are separate launches, in the steps at which they occur. Where populations read each other, step_order has the order.
Does not: connect anything (lower_projections), reduce (lower_pools).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, is_derived, model_name, symbol
from compiler.expr.ast import Call, Expr, Num, Ref, refs
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_arrays import (
    FLAT,
    SLOT,
    Deliveries,
    N,
    add_ring,
    array_name,
    delivered_access,
    delivered_name,
    ring_formals,
)
from compiler.passes.cells.cell_columns import column_values
from compiler.passes.cells.lower_pools import POOL_INDEX, Part, PoolLowering, at_event, due, pool_arrays, shared_formals
from compiler.passes.cells.lower_spike_times import lower_spike_times
from compiler.passes.cells.step_order import Piece, Pieces, Row, names_in, run_in_order
from compiler.passes.model.integrate_odes import PERIOD
from compiler.passes.program.build_program import ProgramBuilder, Prototype
from compiler.passes.program.decisions import Decision
from compiler.passes.program.init_values import initialise


@dataclass(frozen=True)
class _Lowering:
    """One cell while it is lowered. `folds`: inputs with a separate array of deliveries -> slots of their ring buffer
    or 0."""

    cell: l1.Cell
    arrays: tuple[str, ...]
    folds: Mapping[str, int]
    fixed_point: bool
    real: DType


def _formals(at: _Lowering, part: Part, body: Sequence[l0.Set]) -> tuple[l2.Formal, ...]:
    """Formals in a fixed order: states, inputs, deliveries, counters, arrays, variables of pools, locals kept between
    parts, ring buffer, n, columns that are used."""
    used = set[str]().union(*(refs(s.value) for s in body))
    folds = at.folds if part.fold else {}
    arrays = _array_formals(at, folds, used, {s.target for s in body})
    crossing = [
        l2.ArrayFormal(n, at.real, l2.Mode.WRITE, l2.ELEMENT) for n in _crossing(body, {s.target for s in body})
    ]
    kept = [l2.ArrayFormal(n, at.real, l2.Mode.READ, l2.ELEMENT) for n in sorted(used) if is_derived(n, Way.KEPT)]
    ring = ring_formals() if part.emits else ()
    return (*arrays, *crossing, *kept, *ring, N, *_column_formals(at, folds, used))


def _array_formals(at: _Lowering, folds: Mapping[str, int], used: set[str], written: set[str]) -> list[l2.Formal]:
    cell, real = at.cell, at.real
    formals: list[l2.Formal] = []
    for name in (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state):
        dtype = DType.I32 if name in cell.int_state else real
        if name in written:
            formals.append(l2.ArrayFormal(name, dtype, l2.Mode.UPDATE, l2.ELEMENT))
        elif name in used:
            formals.append(l2.ArrayFormal(name, dtype, l2.Mode.READ, l2.ELEMENT))
    for name, slots in folds.items():
        held = DType.I64 if at.fixed_point else real
        formals.append(l2.ArrayFormal(derived(name, Way.DELIVERED), held, l2.Mode.UPDATE, delivered_access(slots)))
    formals += [l2.ArrayFormal(name, real, l2.Mode.READ, l2.ELEMENT) for name in at.arrays if name in used]
    return [*formals, *shared_formals(cell, used, real)]


def _column_formals(at: _Lowering, folds: Mapping[str, int], used: set[str]) -> list[l2.ScalarFormal]:
    cell, units = at.cell, {"dt": "ms", **dict(at.cell.units)}
    columns = {name: at.real for name in (*cell.params, *(d.name for d in cell.derived), "dt") if name not in at.arrays}
    columns |= {c.every: DType.I64 for c in cell.counters}
    if PERIOD in columns:
        columns[PERIOD] = DType.I64
    formals = [l2.ScalarFormal(name, t, units.get(name, "")) for name, t in columns.items() if name in used]
    if at.fixed_point:
        formals += [l2.ScalarFormal(derived(name, Way.QUANTUM), at.real) for name in folds]
    formals += [l2.ScalarFormal("ring_slots", DType.I64)] if any(folds.values()) else []
    formals += [l2.ScalarFormal("key", DType.U64)] if "key" in used else []
    return formals


def _crossing(body: Sequence[l0.Set], written: set[str]) -> list[str]:
    return [s.target for s in body if is_derived(s.target, Way.KEPT) and s.target in written]


def _body(at: _Lowering, part: Part) -> tuple[l0.Set, ...]:
    """The statements of a part, after those that add deliveries and locate the neuron's pool."""
    fold: list[l0.Set] = []
    if part.fold:
        fold = [SLOT] if any(at.folds.values()) else []
        for name in at.folds:
            delivered: Expr = Ref(derived(name, Way.DELIVERED))
            if at.fixed_point:
                delivered = Call("float", (delivered,)) * Ref(derived(name, Way.QUANTUM))
            fold.append(l0.Set(name, Ref(name) + delivered))
            fold.append(l0.Set(derived(name, Way.DELIVERED), Num(0)))
    used = set().union(*(refs(s.value) for s in part.statements))
    several = {v for p in at.cell.pools if p.several for v in p.variables}
    several |= {r.name for r in at.cell.others if r.how == "pool"}
    return (*((POOL_INDEX,) if used & several else ()), *fold, *part.statements)


def _statements(cell: l1.Cell, body: Sequence[l0.Set], emits: bool) -> tuple[l2.Statement, ...]:
    out: list[l2.Statement] = [l2.Assign(s.target, s.value, s.span) for s in body]
    if emits:
        out.append(l2.Emit("spikes", "spike_count", "slots", Ref("spiked"), cell.span))
    return tuple(out)


def lower_cells(
    builder: ProgramBuilder,
    graph: SpikingGraph,
    dt: float,
    units: Mapping[tuple[str, str], str],
    deliveries: Deliveries,
    decisions: list[Decision],
) -> None:
    """Arrays, initial values and neuron kernels of all populations. `units`: (population, variable) -> unit."""
    ordered, found = any(cell.others for cell in graph.cells), list[Pieces]()
    for number, cell in enumerate(graph.cells):
        group = [g for g in graph.instances if g.cell == number]
        if group[0].source != "equations":
            for instance in group:
                lower_spike_times(builder, instance, dt)
            continue
        arrays = graph.array_params[number]
        ways = {name: deliveries.of(group[0].name, model_name(name)) for name, _ in cell.inputs}
        folds = {name: slots for name, (through, slots) in ways.items() if through}
        at = _Lowering(cell, arrays, folds, deliveries.fixed_point, builder.precision)
        values = column_values(cell, group, dt, arrays)
        bound = [_arrays(builder, at, instance, units, deliveries) for instance in group]
        columns = [_columns(at, instance, values, row, deliveries, graph.phases) for row, instance in enumerate(group)]
        rows = tuple(zip(group, bound, columns, strict=True))
        pieces = Pieces(cell, tuple(_pieces(builder, at, number, graph.phases)), rows)
        if ordered:
            found.append(pieces)
        else:
            for piece in pieces.pieces:
                piece.run(rows, True)
    if ordered:
        run_in_order(builder, found, decisions)


def _pieces(builder: ProgramBuilder, at: _Lowering, number: int, phases: Mapping[str, l0.PhaseDef]) -> Iterator[Piece]:
    """The kernels of a step."""
    cell, late = at.cell, at.cell.after_pools

    def neurons(stage: str, part: Part) -> Piece:
        return Piece(stage, names_in(part.statements), partial(_launch, builder, at, number, part, phases))

    pools = PoolLowering(builder, cell, at.arrays, number)
    folds = (Part(f"deliveries at {p}.{e}", (), True, when=(p, e, True)) for p, e in cell.folds)
    for part in (*folds, *(at_event(e) for e in cell.on if e.start)):
        yield from pools.before(part, phases)
        if _body(at, part):
            yield neurons("start", part)
    for pool in cell.pools:
        yield from pools.events(pool, phases, True)
    emits = cell.when is not None
    yield neurons("neurons", Part("neuron update", cell.step, True, emits and late is None))
    for pool in cell.pools:
        yield from pools.pieces(pool)
    if late is not None:
        yield neurons("neurons", Part("neuron update after pools", late, False, emits))
    for part in (at_event(e) for e in cell.on if not e.start):
        yield from pools.before(part, phases)
        yield neurons("end", part)
    for pool in cell.pools:
        yield from pools.events(pool, phases, False)


def _launch(
    builder: ProgramBuilder,
    at: _Lowering,
    number: int,
    part: Part,
    phases: Mapping[str, l0.PhaseDef],
    rows: Sequence[Row],
    join: bool,
) -> None:
    """The rows of one part, one per population."""
    body = _body(at, part)
    formals = _formals(at, part, body)
    nest = l2.Nest(FLAT, _statements(at.cell, body, part.emits))
    every, offset = due(part, phases)
    title, text = f"{rows[0][0].name}: {part.label} ({at.cell.name})", Prototype(l2.Kind.MAP, formals, nest)
    kernel = builder.kernel_of(text, title, at.cell.span, (number, part.label))
    for instance, bound, columns in rows:
        kernel.add_row(bound, columns, instance.name).launch("step", every, offset, join)


def _arrays(
    builder: ProgramBuilder,
    at: _Lowering,
    instance: l1.Instance,
    units: Mapping[tuple[str, str], str],
    deliveries: Deliveries,
) -> dict[str, str]:
    """A population's arrays by formal, with their initial values."""
    cell, real, folds = at.cell, at.real, at.folds
    bound = add_ring(builder, instance) if cell.when is not None else {}
    for name in (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state):
        user, counts = model_name(name), name in cell.int_state
        dtype = DType.I32 if counts else real
        bound[name] = builder.array(
            l2.Array(
                f"{instance.name}.{name}" if counts else array_name(instance.name, user),
                dtype,
                (instance.size,),
                Role.STATE,
                unit=units.get((instance.name, user), "1"),
                span=instance.span,
            )
        )
    most = deliveries.ring_slots.get(instance.name, 0)
    for name in folds:
        # One slot count per population: inputs that need fewer slots share the larger ring size.
        shape = (most, instance.size) if folds[name] else (instance.size,)
        held = DType.I64 if at.fixed_point else real
        delivered = l2.Array(
            delivered_name(instance.name, model_name(name)), held, shape, Role.STATE, span=instance.span
        )
        bound[derived(name, Way.DELIVERED)] = builder.array(delivered)
    for name, value in instance.params:
        if (formal := symbol(name)) in at.arrays:
            given = array_name(instance.name, name)
            bound[formal] = initialise(builder, given, value, instance, Role.CONST, "1")
    for name, value in instance.init:
        if not (isinstance(value, l0.Const) and value.value == 0):
            unit = units.get((instance.name, name), "1")
            initialise(builder, array_name(instance.name, name), value, instance, Role.STATE, unit)
    for name in cell.kept:
        kept = l2.Array(
            f"{instance.name}.{model_name(name)}.kept", real, (instance.size,), Role.WORK, span=instance.span
        )
        bound[derived(name, Way.KEPT)] = builder.array(kept)
    return bound | pool_arrays(builder, cell, instance, units)


def _columns(
    at: _Lowering,
    instance: l1.Instance,
    values: Mapping[str, npt.NDArray[np.float64]],
    row: int,
    deliveries: Deliveries,
    phases: Mapping[str, l0.PhaseDef],
) -> dict[str, l2.ColumnValue]:
    """A population's scalars by column."""
    columns: dict[str, l2.ColumnValue] = {"n": instance.size, "slots": instance.slots}
    for name, vector in values.items():
        columns[name] = float(vector[row])
    for name in at.folds if at.fixed_point else ():
        columns[derived(name, Way.QUANTUM)] = deliveries.quanta.get((instance.name, model_name(name)), 1.0)
    columns["ring_slots"] = deliveries.ring_slots.get(instance.name, 0)
    if PERIOD in columns:
        columns[PERIOD] = math.floor(float(values[PERIOD][row]) + 0.5)
    for counter in at.cell.counters:
        columns[counter.every] = phases[counter.phase].every
    columns["key"] = l2.StreamKey(f"{instance.name}/{at.cell.name}")
    return columns
