"""lower_pools: reductions over pools become REDUCE kernels, the pools' own equations a MAP over the pools.

Assumes: split_cells has run; pools are equal parts of consecutive neurons.
Guarantees: one kernel per reduction (two for argmax) and one for the update, with one row per population; numbers and
sizes of pools are columns. The order of summation is the one that the backend declares for the program's order class:
index order under `bitwise`. Variables are arrays `<population>.pool.<name>` of one element per pool.
Does not: schedule pools within the step (split_cells).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import ModelError
from compiler.core.symbols import Way, is_derived, model_name
from compiler.expr.ast import Call, Cond, Expr, Ref, refs
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_arrays import FLAT, N, array_name
from compiler.passes.cells.step_order import Piece, Row, names_in
from compiler.passes.program.build_program import ProgramBuilder, Prototype
from compiler.passes.program.init_values import initialise

POOL_INDEX: Final = l0.Set("pool_index", Ref("pool_of"))
"""The pool of a neuron, before anything of it is read."""
OF_POOL: Final = l2.Strided((l2.Axis((("pool_index", 1),)),))
MEMBER: Final = l2.Strided((l2.Axis((("i", 1),), stride="members"), l2.Axis((("k", 1),))))
"""Neuron k of pool i."""
POOLED: Final = (l2.Dim("i", "n"), l2.Dim("k", "members", l2.DimKind.RED))
MEMBERS: Final = l2.ScalarFormal("members", DType.I64)
_COMBINE: Final = {"sum": "add", "mean": "add", "min": "min", "max": "max", "argmax": "max"}
_EXACT: Final = 1 << 24
"""Whole numbers up to this are exact in 32-bit floating point."""


@dataclass(frozen=True)
class Part:
    """Statements of one kernel over the neurons, or over the pools. `fold`: deliveries are added first. `when`: (phase,
    event, at the start) instead of every step. `reductions`: those that are computed before it, by scope."""

    label: str
    statements: tuple[l0.Set, ...]
    fold: bool = False
    emits: bool = False
    when: tuple[str, str, bool] | None = None
    reductions: tuple[tuple[str, l0.Reduction], ...] = ()


def at_event(event: l1.AtEvent, scope: str = "") -> Part:
    """What neurons, or the pools of a scope, do at an event."""
    number = f" ({event.part + 1})" if event.part else ""
    label = f"{scope} at {event.phase}.{event.event}{number}".lstrip()
    when = (event.phase, event.event, event.start)
    return Part(label, event.actions, event.start and not scope, False, when, event.reductions)


def due(part: Part, phases: Mapping[str, l0.PhaseDef]) -> tuple[int, int]:
    """`every` and `offset` of a part's launches: the first step of each trial, or the step that ends at the event."""
    if part.when is None:
        return 1, 0
    phase, event, start = part.when
    every = phases[phase].every
    return every, (1 if start else dict(phases[phase].events)[event]) % every


def shared_formals(cell: l1.Cell, used: set[str], real: DType) -> list[l2.Formal]:
    """Formals through which a kernel over neurons reads variables of pools and of other populations."""
    out: list[l2.Formal] = []
    if "pool_of" in used:
        out.append(l2.ArrayFormal("pool_of", DType.I32, l2.Mode.READ, l2.ELEMENT))
    for pool in cell.pools:
        access: l2.Access = OF_POOL if pool.several else l2.SCALAR
        out += [l2.ArrayFormal(v, real, l2.Mode.READ, access) for v in pool.variables if v in used]
    ways: dict[str, l2.Access] = {"each": l2.ELEMENT, "one": l2.SCALAR, "pool": OF_POOL}
    return out + [l2.ArrayFormal(r.name, real, l2.Mode.READ, ways[r.how]) for r in cell.others if r.name in used]


def _of_others(cell: l1.Cell, used: set[str], real: DType) -> list[l2.Formal]:
    """Formals through which a kernel over pools, or over their members, reads variables of other populations."""
    ways: dict[str, l2.Access] = {"each": MEMBER, "one": l2.SCALAR, "pool": l2.ELEMENT}
    return [l2.ArrayFormal(r.name, real, l2.Mode.READ, ways[r.how]) for r in cell.others if r.name in used]


def per_neuron(builder: ProgramBuilder, instance: l1.Instance, variable: str) -> str:
    """The array of a variable of several pools (by its name at level 0) with one element per neuron, copied once all
    neurons are done with their step; returns its name."""
    array, index = array_name(instance.name, variable), array_name(instance.name, "pool_of.index")
    name, real = f"{array}.each", builder.precision
    if name in builder.arrays:
        return name
    builder.array(l2.Array(name, real, (instance.size,), Role.WORK, span=instance.span))
    k = builder.kernel(f"{instance.name}: {variable} of each neuron", l2.Kind.MAP, instance.span)
    k.read("pool_of", DType.I32, index)
    k.read("x", real, array, OF_POOL)
    k.write("each", real, name)
    k.column("n", instance.size)
    nest = l2.Nest(FLAT, (l2.Assign(POOL_INDEX.target, POOL_INDEX.value), l2.Assign("each", Ref("x"))))
    k.add_row(nest, name).launch("step")
    return name


def _count(pool: l1.Pool, instance: l1.Instance) -> int:
    return instance.pools if pool.scope == "pool" else 1


def pool_arrays(
    builder: ProgramBuilder, cell: l1.Cell, instance: l1.Instance, units: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """The arrays of a population's pools, by formal."""
    bound: dict[str, str] = {}
    init = dict(instance.pool_init)
    real = builder.precision
    for pool in cell.pools:
        count = _count(pool, instance)
        if pool.several:
            name, size = array_name(instance.name, "pool_of"), instance.size
            contents = (np.arange(size) // (size // count)).astype(np.int32)
            array = l2.Array(f"{name}.index", DType.I32, (size,), Role.CONST, span=instance.span)
            bound["pool_of"] = builder.array(array, contents)
        at_events = {r.name for r in pool.at_events}
        for variable in pool.variables:
            user = model_name(variable)
            name, unit = array_name(instance.name, user), units.get((instance.name, user), "1")
            role = Role.WORK if variable in at_events else Role.STATE
            bound[variable] = builder.array(l2.Array(name, real, (count,), role, unit=unit, span=instance.span))
            value = init.get(user)
            if value is not None and value.value != 0:
                initialise(builder, name, value, instance, Role.STATE, unit, size=count)
        for r in (*pool.reductions, *pool.at_events):
            if r.op == "argmax":
                if real is DType.F32 and instance.size // count > _EXACT:
                    message = f"a pool of `{instance.name}` has too many neurons for `argmax` in float32"
                    help = f"write `numerics: {{precision: float64}}`; float32 counts up to {_EXACT:,}"
                    raise ModelError([Diagnostic("E0802", message, r.span, help)])
                largest = l2.Array(
                    f"{array_name(instance.name, model_name(r.name))}.largest", real, (count,), Role.WORK
                )
                bound[f"{r.name}/largest"] = builder.array(largest)
    return bound


@dataclass(frozen=True)
class PoolLowering:
    """A cell while its pools are lowered: its number, and its params that are arrays."""

    builder: ProgramBuilder
    cell: l1.Cell
    arrays: tuple[str, ...]
    number: int

    def pieces(self, pool: l1.Pool) -> Iterator[Piece]:
        """The kernels of one scope in each step: its reductions and its update."""
        for r in pool.reductions:
            yield from self._reductions(pool, r, "pools", 1, 0)
        if pool.update:
            yield self._map(pool, Part(f"{pool.scope} update", pool.update), "pools", 1, 0)

    def events(self, pool: l1.Pool, phases: Mapping[str, l0.PhaseDef], start: bool) -> Iterator[Piece]:
        """The kernels of its events at the start or the end of a step."""
        for event in pool.on:
            if event.start == start:
                part = at_event(event, pool.scope)
                yield from self.before(part, phases)
                yield self._map(pool, part, "start" if start else "end", *due(part, phases))

    def before(self, event: Part, phases: Mapping[str, l0.PhaseDef]) -> Iterator[Piece]:
        """The reductions that the statements of an event read."""
        pools = {pool.scope: pool for pool in self.cell.pools}
        for scope, r in event.reductions:
            assert event.when is not None
            yield from self._reductions(pools[scope], r, "start" if event.when[2] else "end", *due(event, phases))

    def _reductions(self, pool: l1.Pool, r: l0.Reduction, stage: str, every: int, offset: int) -> Iterator[Piece]:
        for step in ("largest", "") if r.op == "argmax" else ("",):
            run = partial(_reduce, self.builder, self.cell, self.arrays, self.number, pool, r, step, every, offset)
            yield Piece(stage, frozenset(refs(r.value)), run)

    def _map(self, pool: l1.Pool, part: Part, stage: str, every: int, offset: int) -> Piece:
        run = partial(_map, self.builder, self.cell, self.arrays, self.number, pool, part, every, offset)
        return Piece(stage, names_in(part.statements), run)


def _own(pool: l1.Pool, cell: l1.Cell, used: set[str], real: DType, written: set[str]) -> list[l2.Formal]:
    """Variables of pools in a kernel over the pools of one scope."""
    out: list[l2.Formal] = []
    for other in cell.pools:
        access = l2.ELEMENT if other.scope == pool.scope else l2.SCALAR
        for v in other.variables:
            if v in written:
                out.append(l2.ArrayFormal(v, real, l2.Mode.UPDATE, access))
            elif v in used:
                out.append(l2.ArrayFormal(v, real, l2.Mode.READ, access))
    return out


def _columns(cell: l1.Cell, arrays: tuple[str, ...], used: set[str], real: DType) -> list[l2.Formal]:
    names = [p for p in cell.params if p not in arrays and p in used] + [n for n in ("dt",) if n in used]
    every = dict.fromkeys(c.every for c in cell.counters if c.every in used)
    return [*(l2.ScalarFormal(n, real) for n in names), *(l2.ScalarFormal(n, DType.I64) for n in every)]


def _reduce(
    builder: ProgramBuilder,
    cell: l1.Cell,
    arrays: tuple[str, ...],
    number: int,
    pool: l1.Pool,
    r: l0.Reduction,
    stage: str,
    every: int,
    offset: int,
    rows: Sequence[Row],
    join: bool,
) -> None:
    real = builder.precision
    term: Expr = r.value
    result: Expr = Ref("acc")
    combine = _COMBINE[r.op]
    if r.op == "mean":
        result = result / Call("float", (Ref("members"),))
    if r.op == "argmax" and not stage:
        index, none = Call("float", (Ref("k"),)), Call("float", (Ref("members"),))
        term, combine = Cond(term.eq(Ref("largest")), index, none), "min"
    used = refs(term)
    variables = (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state, *arrays)
    read = [n for n in variables if n in used]
    kept = sorted(n for n in used if is_derived(n, Way.KEPT))
    formals: list[l2.Formal] = [
        l2.ArrayFormal(n, DType.I32 if n in cell.int_state else real, l2.Mode.READ, MEMBER) for n in (*read, *kept)
    ]
    formals += _own(pool, cell, used - {r.name}, real, set())
    formals += _of_others(cell, used, real)
    formals += [l2.ArrayFormal("largest", real, l2.Mode.READ, l2.ELEMENT)] if "largest" in used else []
    formals += [l2.ArrayFormal("out", real, l2.Mode.WRITE, l2.ELEMENT), N, MEMBERS, *_columns(cell, arrays, used, real)]
    nest = l2.Nest(POOLED, (), combine, term, "acc", (l2.Assign("out", result),))
    largest = f"{r.name}/largest"
    title, text = f"{rows[0][0].name}: {model_name(r.name)} ({r.op})", Prototype(l2.Kind.REDUCE, tuple(formals), nest)
    kernel = builder.kernel_of(text, title, pool.span, (number, r.name, stage))
    for instance, bound, columns in rows:
        count = _count(pool, instance)
        out = bound[largest] if stage else bound[r.name]
        row = kernel.add_row(
            bound | {"out": out, "largest": bound.get(largest, "")},
            columns | {"n": count, "members": instance.size // count},
            f"{instance.name}.{model_name(r.name)}",
        )
        row.launch("step", every, offset, join)


def _map(
    builder: ProgramBuilder,
    cell: l1.Cell,
    arrays: tuple[str, ...],
    number: int,
    pool: l1.Pool,
    part: Part,
    every: int,
    offset: int,
    rows: Sequence[Row],
    join: bool,
) -> None:
    real = builder.precision
    used = set().union(*(refs(s.value) for s in part.statements))
    written = {s.target for s in part.statements} & set(pool.variables)
    several = sorted(used & set(arrays))
    if several:
        user = model_name(several[0])
        user = f"{user[1:]}(t)" if user == l0.hidden(user[1:]) else user  # a timed array is held per neuron
        message = f"the equations of the {pool.scope} of `{cell.name}` read `{user}`"
        help = f"it differs from neuron to neuron; reduce it: `reduce: {{...: mean({user})}}`"
        raise ModelError([Diagnostic("E0802", message, part.statements[0].span, help)])
    shared = [*_own(pool, cell, used, real, written), *_of_others(cell, used, real)]
    formals = [*shared, N, *_columns(cell, arrays, used, real)]
    formals += [l2.ScalarFormal("key", DType.U64)] if "key" in used else []
    nest = l2.Nest(FLAT, tuple(l2.Assign(s.target, s.value, s.span) for s in part.statements))
    title, text = f"{rows[0][0].name}: {part.label} ({cell.name})", Prototype(l2.Kind.MAP, tuple(formals), nest)
    kernel = builder.kernel_of(text, title, pool.span, (number, part.label))
    for instance, bound, columns in rows:
        path = f"{instance.name}/{cell.name}/{pool.scope}"
        values = columns | {"n": _count(pool, instance), "key": l2.StreamKey(path)}
        kernel.add_row(bound, values, instance.name).launch("step", every, offset, join)
