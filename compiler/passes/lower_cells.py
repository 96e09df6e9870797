"""lower_cells: instances of cells become arrays, initialisation rows and one neuron kernel per cell.

Assumes: integrate_odes has run; dt in ms.
Guarantees: one kernel per cell with one row per population; params that are one number are columns, params
that differ from neuron to neuron are arrays; columns that derive from params (propagators by
scipy.linalg.expm, decays) are computed here for all rows at once. Emission of spikes is part of the kernel.
Deliveries go into the input itself or into an array that the neuron kernel folds in first (see Deliveries).
Does not: connect anything (lower_projections).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.diagnostics import Diagnostic, ModelError
from compiler.expr.ast import Binary, Call, Expr, Num, Ref, children, refs, with_children
from compiler.expr.interp import evaluate
from compiler.ir.graph import Cell, DerivedScalar, Instance, Propagator
from compiler.ir.model import Const, FromFile, Set, Value
from compiler.ir.program import (
    ELEMENT,
    Array,
    ArrayFormal,
    Assign,
    Axis,
    ColumnValue,
    Dim,
    Emit,
    EmitScheduled,
    Formal,
    Kind,
    Mode,
    Nest,
    ScalarFormal,
    Statement,
    StreamKey,
    Strided,
    Whole,
)
from compiler.ir.space import DType, Role
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.init_values import initialise, read_file
from compiler.passes.lower_model import SpikingGraph

N = ScalarFormal("n", DType.I64)
FLAT = (Dim("i", "n"),)
RANDOM = {
    "random": "uniform",
    "normal": "normal",
    "exponential": "exponential",
    "poisson": "poisson",
}


@dataclass(frozen=True)
class Deliveries:
    """How events reach inputs. Directly (added to the input itself), or through an array `<input>.delivered` that
    the neuron kernel folds in at the start of the next step: in fixed point (`quanta`: value of one count), and as
    a ring where synapses have delays of their own (`rings`: its slots)."""

    fixed_point: bool
    quanta: Mapping[tuple[str, str], float]
    rings: Mapping[tuple[str, str], int]

    def of(self, population: str, name: str) -> tuple[bool, int]:
        """(through an array of its own, slots of its ring or 0)."""
        slots = self.rings.get((population, name), 0)
        return self.fixed_point or slots > 0, slots


def array_name(population: str, variable: str) -> str:
    return f"{population}.{variable}"


def delivered_name(population: str, variable: str) -> str:
    return f"{population}.{variable}.delivered"


def ring_formals() -> tuple[Formal, ...]:
    """The event ring of a population: lists, counts and the number of slots."""
    return (
        ArrayFormal("spikes", DType.I32, Mode.WRITE, Whole()),
        ArrayFormal("spike_count", DType.I32, Mode.WRITE, Whole()),
        ScalarFormal("slots", DType.I64),
    )


def _number_draws(e: Expr, count: list[int]) -> Expr:
    """Random calls become draws of the row's stream at (step, neuron): key, index, number of the draw."""
    if isinstance(e, Call) and e.func in RANDOM:
        draw = Num(count[0])
        count[0] += 1
        args = tuple(_number_draws(a, count) for a in e.args)
        return Call(RANDOM[e.func], (Ref("key"), Ref("i"), draw, *args), e.span)
    kids = children(e)
    if not kids:
        return e
    new = tuple(_number_draws(k, count) for k in kids)
    return e if all(a is b for a, b in zip(kids, new, strict=True)) else with_children(e, new)


def _column_values(
    cell: Cell, group: Sequence[Instance], dt: float, arrays: tuple[str, ...]
) -> dict[str, npt.NDArray[np.float64]]:
    """Every scalar param, dt and every derived column, one number per row."""
    env: dict[str, Any] = {"dt": np.full(len(group), dt)}
    for position, name in enumerate(cell.params):
        if name not in arrays:
            user = cell.shown(name)
            values = [dict(g.params)[user] if g.params[position][0] != user else g.params[position][1] for g in group]
            env[name] = np.array([v.value for v in values if isinstance(v, Const)], np.float64)
    # Systems are shared by many propagators: one matrix exponential per distinct system.
    systems: dict[int, npt.NDArray[np.float64]] = {}
    for column in cell.derived:
        if isinstance(column, DerivedScalar):
            if refs(column.value) & set(arrays):
                raise ModelError(
                    [
                        Diagnostic(
                            "E0802",
                            f"a time constant or refractory period of `{cell.name}` differs from neuron to neuron",
                            cell.span,
                            "give one number per population, or write the decay in `dynamics`",
                        )
                    ]
                )
            env[column.name] = np.broadcast_to(np.asarray(evaluate(column.value, env), np.float64), (len(group),))
        else:
            env[column.name] = _propagator(column, env, len(group), dt, systems)
    return env


def _propagator(
    column: Propagator,
    env: Mapping[str, Any],
    rows: int,
    dt: float,
    systems: dict[int, npt.NDArray[np.float64]],
) -> npt.NDArray[np.float64]:
    key = id(column.matrix)
    if key not in systems:
        from scipy.linalg import expm

        n = len(column.matrix)
        augmented = np.zeros((rows, n + 1, n + 1))
        for i in range(n):
            for j in range(n):
                augmented[:, i, j] = evaluate(column.matrix[i][j], dict(env))
            augmented[:, i, n] = evaluate(column.offset[i], dict(env))
        systems[key] = expm(augmented * dt)
    return systems[key][:, column.row, column.column]


def _formals(
    cell: Cell,
    body: Sequence[Set],
    arrays: tuple[str, ...],
    real: DType,
    fixed_point: bool,
    folds: Mapping[str, int],
    emits: bool,
) -> tuple[Formal, ...]:
    """Formals in a fixed order: states, inputs, deliveries, counters, arrays, ring, n, columns that are used."""
    used: set[str] = set()
    written: set[str] = set()
    for s in body:
        used |= refs(s.value)
        written.add(s.target)
    variables = (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state)
    formals: list[Formal] = []
    for name in variables:
        dtype = DType.I32 if name in cell.int_state else real
        if name in written:
            formals.append(ArrayFormal(name, dtype, Mode.UPDATE, ELEMENT))
        elif name in used:
            formals.append(ArrayFormal(name, dtype, Mode.READ, ELEMENT))
    for name, slots in folds.items():
        held = DType.I64 if fixed_point else real
        formals.append(ArrayFormal(f"{name}_delivered", held, Mode.UPDATE, delivered_access(slots)))
    for name in arrays:
        if name in used:
            formals.append(ArrayFormal(name, real, Mode.READ, ELEMENT))
    if emits:
        formals += ring_formals()
    formals.append(N)
    columns = [p for p in cell.params if p not in arrays] + [d.name for d in cell.derived] + ["dt"]
    for name in columns:
        if name in used:
            formals.append(ScalarFormal(name, DType.I64 if name == "refractory_steps" else real))
    if fixed_point:
        formals += [ScalarFormal(f"{name}_quantum", real) for name in folds]
    formals += [ScalarFormal("ring_slots", DType.I64)] if any(folds.values()) else []
    if "key" in used:
        formals.append(ScalarFormal("key", DType.U64))
    return tuple(formals)


def delivered_access(slots: int) -> Strided:
    """Element i of the deliveries of the step before: the one array, or its slot of the ring."""
    if slots == 0:
        return ELEMENT
    return Strided((Axis((("slot", 1),), stride="n"), Axis((("i", 1),))))


SLOT = Set("slot", Binary("%", Binary("-", Ref("step"), Num(1)), Ref("ring_slots")))
"""The slot of the ring that filled up until the end of the last step."""


def _body(cell: Cell, fixed_point: bool, folds: Mapping[str, int]) -> tuple[Set, ...]:
    """The step with numbered random draws, deliveries folded in first."""
    fold: list[Set] = [SLOT] if any(folds.values()) else []
    for name in folds:
        part: Expr = Ref(f"{name}_delivered")
        if fixed_point:
            part = Binary("*", Call("float", (part,)), Ref(f"{name}_quantum"))
        fold.append(Set(name, Binary("+", Ref(name), part)))
        fold.append(Set(f"{name}_delivered", Num(0)))
    count = [0]
    return (*fold, *(Set(s.target, _number_draws(s.value, count), s.span) for s in cell.step))


def _statements(cell: Cell, body: Sequence[Set], emits: bool) -> tuple[Statement, ...]:
    out: list[Statement] = [Assign(s.target, s.value, s.span) for s in body]
    if emits:
        out.append(Emit("spikes", "spike_count", "slots", Ref("spiked"), cell.span))
    return tuple(out)


def add_ring(builder: ProgramBuilder, instance: Instance) -> dict[str, str]:
    """The arrays of a population's event ring, by formal name."""
    name = instance.name
    spikes = builder.array(
        Array(
            f"{name}.spikes",
            DType.I32,
            (instance.slots, instance.size),
            Role.EVENT,
            span=instance.span,
        )
    )
    count = builder.array(Array(f"{name}.spike_count", DType.I32, (instance.slots,), Role.EVENT, span=instance.span))
    return {"spikes": spikes, "spike_count": count}


def _scheduled(builder: ProgramBuilder, instance: Instance, dt: float) -> None:
    """spike_times: a given list of (time, index) becomes an emission of step round(time / dt)."""
    params: dict[str, Value] = dict(instance.params)
    columns: dict[str, npt.NDArray[np.float64]] = {}
    for name in ("times", "indices"):
        value = params[name]
        columns[name] = (
            read_file(value)
            if isinstance(value, FromFile)
            else np.array(getattr(value, "values", None) or [getattr(value, "value", 0.0)], np.float64)
        )
    span = instance.span
    if len(columns["times"]) != len(columns["indices"]):
        raise ModelError(
            [
                Diagnostic(
                    "E0703",
                    f"`{instance.name}` has {len(columns['times'])} times and {len(columns['indices'])} indices",
                    span,
                    "each spike needs one time and one index",
                )
            ]
        )
    steps = np.rint(columns["times"] / dt).astype(np.int64)
    ids = columns["indices"].astype(np.int64)
    off_grid = np.abs(columns["times"] / dt - steps) > 1e-6
    bad = off_grid | (steps < 1) | (ids < 0) | (ids >= instance.size)
    if bad.any():
        first = int(np.argmax(bad))
        raise ModelError(
            [
                Diagnostic(
                    "E0603",
                    f"spike {first} of `{instance.name}` (time {columns['times'][first]:g} ms, "
                    f"index {ids[first]}) cannot be emitted",
                    span,
                    f"times are whole steps of {dt:g} ms from {dt:g} ms on, indices 0 to {instance.size - 1}",
                )
            ]
        )
    order = np.lexsort((ids, steps))
    m = max(len(order), 1)
    name = instance.name
    pairs = {"steps": steps[order], "ids": ids[order]}
    ring = add_ring(builder, instance)
    bound = {"list": ring["spikes"], "count": ring["spike_count"]}
    for key, values in pairs.items():
        stored = np.zeros(m, np.int32)
        stored[: len(order)] = values
        bound[key] = builder.array(Array(f"{name}.{key}", DType.I32, (m,), Role.CONST, span=span), stored)
    bound["cursor"] = builder.array(Array(f"{name}.cursor", DType.I64, (1,), Role.STATE, span=span))
    formals: tuple[Formal, ...] = (
        ArrayFormal("steps", DType.I32, Mode.READ, Whole()),
        ArrayFormal("ids", DType.I32, Mode.READ, Whole()),
        ArrayFormal("cursor", DType.I64, Mode.UPDATE, Whole()),
        ArrayFormal("list", DType.I32, Mode.WRITE, Whole()),
        ArrayFormal("count", DType.I32, Mode.WRITE, Whole()),
        ScalarFormal("slots", DType.I64),
        N,
        ScalarFormal("m", DType.I64),
    )
    row = builder.row(
        "spike_times",
        f"{name}: given spikes",
        Kind.EMIT,
        formals,
        EmitScheduled(),
        bound,
        {"slots": instance.slots, "n": instance.size, "m": len(order)},
        name,
        span,
    )
    builder.launch("step", "spike_times", row, row + 1)


def lower_cells(
    builder: ProgramBuilder,
    graph: SpikingGraph,
    dt: float,
    units: Mapping[tuple[str, str], str],
    deliveries: Deliveries,
) -> None:
    """Arrays, initial values and neuron kernels of all populations. `units`: (population, variable) -> unit."""
    real = builder.precision
    for number, cell in enumerate(graph.cells):
        group = [g for g in graph.instances if g.cell == number]
        if group[0].source != "equations":
            for instance in group:
                _scheduled(builder, instance, dt)
            continue
        arrays = graph.array_params[number]
        emits = cell.when is not None
        fixed_point = deliveries.fixed_point
        ways = {name: deliveries.of(group[0].name, cell.shown(name)) for name, _ in cell.inputs}
        folds = {name: slots for name, (through, slots) in ways.items() if through}
        body = _body(cell, fixed_point, folds)
        formals = _formals(cell, body, arrays, real, fixed_point, folds, emits)
        nest = Nest(FLAT, _statements(cell, body, emits))
        values = _column_values(cell, group, dt, arrays)
        variables = (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state)
        key = ("neuron", number)
        formal_of = {user: name for name, user in cell.renamed}
        for at, instance in enumerate(group):
            bound = add_ring(builder, instance) if emits else {}
            for name in variables:
                dtype = DType.I32 if name in cell.int_state else real
                user = cell.shown(name)
                bound[name] = builder.array(
                    Array(
                        array_name(instance.name, user),
                        dtype,
                        (instance.size,),
                        Role.STATE,
                        unit=units.get((instance.name, user), "1"),
                        span=instance.span,
                    )
                )
            most = max((deliveries.rings.get((instance.name, cell.shown(name)), 0) for name in folds), default=0)
            for name in folds:
                # One slot count per population: inputs that need fewer slots share the larger ring size.
                shape = (most, instance.size) if folds[name] else (instance.size,)
                held = DType.I64 if fixed_point else real
                bound[f"{name}_delivered"] = builder.array(
                    Array(
                        delivered_name(instance.name, cell.shown(name)),
                        held,
                        shape,
                        Role.STATE,
                        span=instance.span,
                    )
                )
            for name, value in instance.params:
                if (formal := formal_of.get(name, name)) in arrays:
                    given = array_name(instance.name, name)
                    bound[formal] = initialise(builder, given, value, instance, Role.CONST, "1")
            for name, value in instance.init:
                if not (isinstance(value, Const) and value.value == 0):
                    initialise(
                        builder,
                        array_name(instance.name, name),
                        value,
                        instance,
                        Role.STATE,
                        units.get((instance.name, name), "1"),
                    )
            columns: dict[str, ColumnValue] = {"n": instance.size, "slots": instance.slots}
            for name, vector in values.items():
                columns[name] = float(vector[at])
            for name in folds if fixed_point else ():
                columns[f"{name}_quantum"] = deliveries.quanta.get((instance.name, cell.shown(name)), 1.0)
            columns["ring_slots"] = most
            if "refractory_steps" in columns:
                columns["refractory_steps"] = math.floor(float(values["refractory_steps"][at]) + 0.5)
            columns["key"] = StreamKey(f"{instance.name}/{cell.name}")
            row = builder.row(
                key,
                f"{instance.name}: neuron update ({cell.name})",
                Kind.MAP,
                formals,
                nest,
                bound,
                columns,
                instance.name,
                cell.span,
            )
            builder.launch("step", key, row, row + 1)
