"""lower_cells: instances of cells become arrays, initialisation rows and a few neuron kernels per cell.

Assumes: all passes over cells have run; dt in ms.
Guarantees: one kernel per operation of a cell with one row per population, in the order of their turns; scalar params
are columns, per-neuron params are arrays. Spike emission is part of the kernel. Deliveries are added to the input
itself or to an array that the first neuron kernel adds to it (see Deliveries). Events of phases are separate launches,
in the steps at which they occur.
Does not: connect anything (lower_synapses), reduce (lower_pools).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
import compiler.passes.cells.cell_arrays as cell_arrays
from compiler.core.symbols import Way, derived, is_derived, model_name, symbol
from compiler.expr.ast import Call, Expr, Num, Ref, refs
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.cells.cell_arrays import copy_before
from compiler.passes.cells.cell_columns import column_values
from compiler.passes.cells.lower_pools import POOL_INDEX, each_pool, pool_arrays, reduce_pools, shared_formals
from compiler.passes.cells.lower_spike_times import lower_spike_times
from compiler.passes.model.integrate_odes import PERIOD
from compiler.passes.program.build_program import ProgramBuilder, Prototype
from compiler.passes.program.init_values import from_formula, initialise


def _formals(at: cell_arrays.CellLowering, x: l1.EachNeuron, body: Sequence[l0.Set]) -> tuple[l2.Formal, ...]:
    """Formals in a fixed order, of which the builder takes those that the body names: states, inputs, counters,
    deliveries, arrays, variables of pools, locals kept between parts, ring buffer, n, columns."""
    cell, real, read = at.cell, at.real, set[str]().union(*(refs(s.value) for s in body))
    written = dict.fromkeys(s.target for s in body)
    formals: list[l2.Formal] = []
    for name in (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state):
        mode = l2.Mode.UPDATE if name in written else l2.Mode.READ
        formals.append(l2.ArrayFormal(name, DType.I32 if name in cell.int_state else real, mode, l2.ELEMENT))
    for name, slots in at.folds.items():
        held, access = DType.I64 if at.fixed_point else real, cell_arrays.delivered_access(slots)
        formals.append(l2.ArrayFormal(derived(name, Way.DELIVERED), held, l2.Mode.UPDATE, access))
    kept = [(n, l2.Mode.WRITE) for n in written if is_derived(n, Way.KEPT)]
    kept += [(n, l2.Mode.READ) for n in sorted(read) if is_derived(n, Way.KEPT)]
    formals += [l2.ArrayFormal(name, real, l2.Mode.READ, l2.ELEMENT) for name in at.arrays]
    formals += shared_formals(cell, real)
    formals += [l2.ArrayFormal(name, real, mode, l2.ELEMENT) for name, mode in kept]
    formals += [*(cell_arrays.ring_formals() if x.emits else ()), cell_arrays.N]
    units = {"dt": "ms", **dict(cell.units)}
    columns = {name: real for name in (*cell.params, *(d.name for d in cell.derived), "dt") if name not in at.arrays}
    columns |= {c.every: DType.I64 for c in cell.counters}
    if PERIOD in columns:
        columns[PERIOD] = DType.I64
    formals += [l2.ScalarFormal(name, t, units.get(name, "")) for name, t in columns.items()]
    formals += [l2.ScalarFormal(derived(name, Way.QUANTUM), real) for name in at.folds]
    return (*formals, cell_arrays.SLOTS, cell_arrays.KEY)


def _body(at: cell_arrays.CellLowering, x: l1.EachNeuron) -> tuple[l0.Set, ...]:
    """The statements of a part, after those that add deliveries and locate the neuron's pool."""
    fold: list[l0.Set] = []
    if x.folds:
        fold = [cell_arrays.SLOT] if any(at.folds.values()) else []
        for name in at.folds:
            delivered: Expr = Ref(derived(name, Way.DELIVERED))
            if at.fixed_point:
                delivered = Call("float", (delivered,)) * Ref(derived(name, Way.QUANTUM))
            fold.append(l0.Set(name, Ref(name) + delivered))
            fold.append(l0.Set(derived(name, Way.DELIVERED), Num(0)))
    used = set().union(*(refs(s.value) for s in x.statements))
    several = {v for p in at.cell.pools if p.several for v in p.variables}
    several |= {r.name for r in at.cell.others if r.how == "pool"}
    return (*((POOL_INDEX,) if used & several else ()), *fold, *x.statements)


def lower_cells(
    builder: ProgramBuilder,
    graph: SpikingGraph,
    dt: float,
    units: Mapping[tuple[str, str], str],
    deliveries: cell_arrays.Deliveries,
) -> None:
    """Arrays, initial values and neuron kernels of all populations. `units`: (population, variable) -> unit."""
    lowering, rows = list[cell_arrays.CellLowering](), dict[int, cell_arrays.CellRow]()
    for number, (cell, arrays) in enumerate(zip(graph.cells, graph.array_params, strict=True)):
        group = [graph.instances[i] for i in graph.members[number]]
        ways = {name: deliveries.of(group[0].name, model_name(name)) for name, _ in cell.inputs}
        folds = {name: slots for name, (through, slots) in ways.items() if through}
        at = cell_arrays.CellLowering(builder, number, cell, arrays, folds, deliveries.fixed_point, graph.phases)
        lowering.append(at)
        if cell.source == "equations":
            values = column_values(cell, group, dt, arrays)
            for row, (i, instance) in enumerate(zip(graph.members[number], group, strict=True)):
                bound = _arrays(at, instance, units, deliveries)
                rows[i] = instance, bound, _columns(at, instance, values, row, deliveries)
    copy_before(builder, graph)
    for turn in graph.turns:
        at, x = lowering[turn.cell], graph.cells[turn.cell].operations[turn.operation]
        of_turn = [rows[i] for i in turn.instances if i in rows]
        if at.cell.others:
            of_turn = [_reading(at, x, row) for row in of_turn]
        match x:
            case l1.GivenSpikes():
                for i in turn.instances:
                    lower_spike_times(builder, graph.instances[i], dt)
            case l1.EachNeuron():
                _each_neuron(at, x, of_turn)
            case l1.EachPool():
                each_pool(at, x, of_turn)
            case l1.Reduce():
                reduce_pools(at, x, of_turn)


def _reading(at: cell_arrays.CellLowering, operation: l1.Operation, row: cell_arrays.CellRow) -> cell_arrays.CellRow:
    """A row with the variables of other populations that the operation reads."""
    instance, bound, columns = row
    chosen, read = dict(instance.others), dict[str, str]()
    for r in at.cell.others:
        array = array_name(chosen[r.other], r.variable)
        read[r.name] = array if l1.is_current(operation, instance, r) else own_array(array, "before")
    return instance, {**bound, **read}, columns


def _each_neuron(at: cell_arrays.CellLowering, x: l1.EachNeuron, rows: Sequence[cell_arrays.CellRow]) -> None:
    """One row per population."""
    body = _body(at, x)
    if not body and x.due is not None:
        return
    emit = (l2.Emit("spikes", "spike_count", "slots", Ref("spiked"), at.cell.span),) if x.emits else ()
    nest = l2.Nest(cell_arrays.FLAT, (*cell_arrays.assigned(body), *emit))
    title, text = f"{rows[0][0].name}: {x.what} ({at.cell.name})", Prototype(_formals(at, x, body), nest)
    place = at.place(x)
    kernel = at.builder.kernel_of(text, title, at.cell.span, (at.number, x.what))
    for instance, bound, columns in rows:
        kernel.add_row(bound, columns, instance.name).run(place, not at.cell.others)


def _arrays(
    at: cell_arrays.CellLowering,
    instance: l1.Instance,
    units: Mapping[tuple[str, str], str],
    deliveries: cell_arrays.Deliveries,
) -> dict[str, str]:
    """A population's arrays by formal, with their initial values."""
    builder, cell, real, folds = at.builder, at.cell, at.real, at.folds
    bound = cell_arrays.add_ring(builder, instance) if cell.when is not None else {}
    shape, span = (instance.size,), instance.span
    for name, user in at.variables:
        array, unit = array_name(instance.name, user), units.get((instance.name, user), "1")
        bound[name] = builder.array(l2.Array(array, real, shape, Role.STATE, unit=unit, span=span))
    for name in cell.int_state:
        array = own_array(instance.name, name)
        bound[name] = builder.array(l2.Array(array, DType.I32, shape, Role.STATE, span=span))
    most = deliveries.ring_slots.get(instance.name, 0)
    for name in folds:
        # One slot count per population: inputs that need fewer slots share the larger ring size.
        held, array = DType.I64 if at.fixed_point else real, cell_arrays.delivered_name(instance.name, model_name(name))
        whole = (most, *shape) if folds[name] else shape
        bound[derived(name, Way.DELIVERED)] = builder.array(l2.Array(array, held, whole, Role.STATE, span=span))
    for name, value in instance.params if at.arrays else ():
        if (formal := symbol(name)) in at.arrays:
            bound[formal] = given_values(builder, instance, name, value, Role.CONST, "1")
    for name, value in instance.init:
        if not (isinstance(value, l0.Const) and value.value == 0):
            given_values(builder, instance, name, value, Role.STATE, units.get((instance.name, name), "1"))
    for name in cell.kept:
        array = own_array(array_name(instance.name, model_name(name)), "kept")
        bound[derived(name, Way.KEPT)] = builder.array(l2.Array(array, real, shape, Role.WORK, span=span))
    return bound | pool_arrays(at, instance, units) if cell.pools else bound


def given_values(
    builder: ProgramBuilder, instance: l1.Instance, name: str, value: l0.Value, role: Role, unit: str
) -> str:
    """The array of a parameter or a state, which may follow from parameters, and from initial values before it, of the
    same neuron."""
    array = array_name(instance.name, name)
    if not isinstance(value, l0.Formula):
        return initialise(builder, array, value, instance, role, unit)
    numbers, arrays = dict[str, float](), dict[str, str]()
    params = dict(instance.params)
    for read, known in (*instance.params, *instance.init):
        if isinstance(known, l0.Const):
            numbers[read] = known.value
        elif read in refs(value.expr):
            arrays[read] = array_name(instance.name, read)
            if arrays[read] not in builder.arrays:
                given_values(builder, instance, read, known, Role.CONST if read in params else Role.STATE, "1")
    return from_formula(builder, array, value, numbers, arrays, instance.size, role, unit)


def _columns(
    at: cell_arrays.CellLowering,
    instance: l1.Instance,
    values: Mapping[str, npt.NDArray[np.float64]],
    row: int,
    deliveries: cell_arrays.Deliveries,
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
        columns[counter.every] = at.phases[counter.phase].every
    columns["key"] = l2.StreamKey(f"{instance.name}/{at.cell.name}")
    return columns
