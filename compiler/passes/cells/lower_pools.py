"""lower_pools: reductions over pools become REDUCE kernels, the pools' own equations a MAP over the pools.

Assumes: split_cells has run; pools are equal parts of consecutive neurons.
Guarantees: one kernel per reduction (two for argmax) and one for the update, with one row per population; numbers and
sizes of pools are columns. The order of summation is the one that the backend declares for the program's order class:
index order under `bitwise`. Variables are arrays `<population>.pool.<name>` of one element per pool.
Does not: place pools in the step (split_cells, order_populations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.symbols import Way, is_derived, model_name
from compiler.expr.ast import Call, Cond, Expr, Ref, refs
from compiler.ir.level1.stages import PAST
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.cells.cell_arrays import FLAT, KEY, CellLowering, CellRow, N, assigned
from compiler.passes.program.build_program import Place, ProgramBuilder, Prototype
from compiler.passes.program.init_values import initialise
from compiler.passes.program.long_sums import BLOCK

POOL_INDEX: Final = l0.Set("pool_index", Ref("pool_of"))
"""The pool of a neuron, before anything of it is read."""
OF_POOL: Final = l2.Strided((l2.Axis((("pool_index", 1),)),))
MEMBER: Final = l2.Strided((l2.Axis((("i", 1),), stride="members"), l2.Axis((("k", 1),))))
"""Neuron k of pool i."""
POOLED: Final = (l2.Dim("i", "n"), l2.Dim("k", "members", l2.DimKind.RED))
MEMBERS: Final = l2.ScalarFormal("members", DType.I64)
BLOCKS: Final = l2.Blocks("k", BLOCK)
_COMBINE: Final = {"sum": "add", "mean": "add", "min": "min", "max": "max", "argmax": "max"}
_EXACT: Final = 1 << 24
"""Whole numbers up to this are exact in 32-bit floating point."""


def shared_formals(cell: l1.Cell, real: DType) -> list[l2.Formal]:
    """Formals through which a kernel over neurons reads variables of pools and of other populations."""
    out: list[l2.Formal] = [l2.ArrayFormal("pool_of", DType.I32, l2.Mode.READ, l2.ELEMENT)]
    for pool in cell.pools:
        access: l2.Access = OF_POOL if pool.several else l2.SCALAR
        out += [l2.ArrayFormal(v, real, l2.Mode.READ, access) for v in pool.variables]
    return out + _of_others(cell, real, l2.ELEMENT, OF_POOL)


def _of_others(cell: l1.Cell, real: DType, each: l2.Access, pool: l2.Access) -> list[l2.Formal]:
    """Formals through which a kernel reads variables of other populations: of each neuron, of one, of each pool."""
    ways = {"each": each, "one": l2.SCALAR, "pool": pool}
    return [l2.ArrayFormal(r.name, real, l2.Mode.READ, ways[r.how]) for r in cell.others]


def per_neuron(builder: ProgramBuilder, instance: l1.Instance, variable: str) -> str:
    """The array of a variable of several pools (by its name at level 0) with one element per neuron, copied once all
    neurons are done with their step; returns its name."""
    array, index = array_name(instance.name, variable), own_array(instance.name, "pool_of")
    name, real = own_array(array, "each"), builder.precision
    if name in builder.arrays:
        return name
    builder.array(l2.Array(name, real, (instance.size,), Role.WORK, span=instance.span))
    k = builder.kernel(f"{instance.name}: {variable} of each neuron", instance.span)
    k.read("pool_of", DType.I32, index)
    k.read("x", real, array, OF_POOL)
    k.write("each", real, name)
    k.column("n", instance.size)
    nest = l2.Nest(FLAT, (l2.Assign(POOL_INDEX.target, POOL_INDEX.value), l2.Assign("each", Ref("x"))))
    k.add_row(nest, name).run(Place(PAST))
    return name


def _count(pool: l1.Pool, instance: l1.Instance) -> int:
    return instance.pools if pool.scope == "pool" else 1


def largest_of(r: l0.Reduction) -> str:
    """The formal of the largest value, of which an `argmax` is the place."""
    return f"{r.name}/largest"


def pool_arrays(at: CellLowering, instance: l1.Instance, units: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """The arrays of a population's pools, by formal."""
    bound: dict[str, str] = {}
    builder, real, init = at.builder, at.real, dict(instance.pool_init)
    reduced = [(x.scope, x.reduction, x.due) for x in at.cell.operations if isinstance(x, l1.Reduce)]
    for pool in at.cell.pools:
        count = _count(pool, instance)
        if pool.several:
            name, size = own_array(instance.name, "pool_of"), instance.size
            contents = (np.arange(size) // (size // count)).astype(np.int32)
            array = l2.Array(name, DType.I32, (size,), Role.CONST, span=instance.span)
            bound["pool_of"] = builder.array(array, contents)
        at_events = {r.name for scope, r, due in reduced if scope == pool.scope and due is not None}
        for variable in pool.variables:
            user = model_name(variable)
            name, unit = array_name(instance.name, user), units.get((instance.name, user), "1")
            role = Role.WORK if variable in at_events else Role.STATE
            bound[variable] = builder.array(l2.Array(name, real, (count,), role, unit=unit, span=instance.span))
            value = init.get(user)
            if value is not None and value.value != 0:
                initialise(builder, name, value, instance, Role.STATE, unit, size=count)
        for r in (r for scope, r, _ in reduced if scope == pool.scope and r.op == "argmax"):
            if real is DType.F32 and instance.size // count > _EXACT:
                message = f"a pool of `{instance.name}` has too many neurons for `argmax` in float32"
                help = f"write `numerics: {{precision: float64}}`; float32 counts up to {_EXACT:,}"
                raise ModelError([Diagnostic("E0802", message, r.span, help)])
            largest = own_array(array_name(instance.name, model_name(r.name)), "largest")
            bound[largest_of(r)] = builder.array(l2.Array(largest, real, (count,), Role.WORK))
    return bound


def _own(pool: l1.Pool, cell: l1.Cell, real: DType, written: set[str]) -> list[l2.Formal]:
    """Variables of pools in a kernel over the pools of one scope."""
    out: list[l2.Formal] = []
    for other in cell.pools:
        access = l2.ELEMENT if other.scope == pool.scope else l2.SCALAR
        modes = [(v, l2.Mode.UPDATE if v in written else l2.Mode.READ) for v in other.variables]
        out += [l2.ArrayFormal(v, real, mode, access) for v, mode in modes]
    return out


def _columns(at: CellLowering) -> list[l2.Formal]:
    names = [p for p in (*at.cell.params, "dt") if p not in at.arrays]
    every = dict.fromkeys(c.every for c in at.cell.counters)
    return [*(l2.ScalarFormal(n, at.real) for n in names), *(l2.ScalarFormal(n, DType.I64) for n in every)]


def reduce_pools(at: CellLowering, x: l1.Reduce, rows: Sequence[CellRow]) -> None:
    """The kernels of a reduction, with one row per population: for `argmax` that of the largest value comes first."""
    for largest in (True, False) if x.reduction.op == "argmax" else (False,):
        _reduce(at, x, _pool(at.cell, x.scope), largest, rows)


def _pool(cell: l1.Cell, scope: str) -> l1.Pool:
    return next(p for p in cell.pools if p.scope == scope)


def _reduce(at: CellLowering, x: l1.Reduce, pool: l1.Pool, largest: bool, rows: Sequence[CellRow]) -> None:
    cell, real, r = at.cell, at.real, x.reduction
    term, combine = r.value, _COMBINE[r.op]
    result: Expr = Ref("acc")
    if r.op == "mean":
        result = result / Call("float", (Ref("members"),))
    if r.op == "argmax" and not largest:
        index, none = Call("float", (Ref("k"),)), Call("float", (Ref("members"),))
        term, combine = Cond(term.eq(Ref("largest")), index, none), "min"
    kept = sorted(n for n in refs(term) if is_derived(n, Way.KEPT))
    read = (*cell.state, *(name for name, _ in cell.inputs), *cell.int_state, *at.arrays, *kept)
    formals: list[l2.Formal] = [
        l2.ArrayFormal(n, DType.I32 if n in cell.int_state else real, l2.Mode.READ, MEMBER) for n in read
    ]
    formals += [*_own(pool, cell, real, set()), *_of_others(cell, real, MEMBER, l2.ELEMENT)]
    formals.append(l2.ArrayFormal("largest", real, l2.Mode.READ, l2.ELEMENT))
    formals += [l2.ArrayFormal("out", real, l2.Mode.WRITE, l2.ELEMENT), N, MEMBERS, *_columns(at)]
    blocks = BLOCKS if combine == "add" else None  # whatever the number of members is, which is data
    nest = l2.Nest(POOLED, (), combine, term, "acc", (l2.Assign("out", result),), blocks=blocks)
    title, text = f"{rows[0][0].name}: {model_name(r.name)} ({r.op})", Prototype(tuple(formals), nest)
    kernel = at.builder.kernel_of(text, title, pool.span, (at.number, r.name, largest))
    for instance, bound, columns in rows:
        count, found = _count(pool, instance), bound.get(largest_of(r), "")
        row = kernel.add_row(
            {**bound, "out": found if largest else bound[r.name], "largest": found},
            {**columns, "n": count, "members": instance.size // count},
            f"{instance.name}.{model_name(r.name)}",
        )
        row.run(at.place(x), not cell.others)


def each_pool(at: CellLowering, x: l1.EachPool, rows: Sequence[CellRow]) -> None:
    """The kernel over the pools of a scope, with one row per population."""
    cell, real, pool = at.cell, at.real, _pool(at.cell, x.scope)
    written = {s.target for s in x.statements} & set(pool.variables)
    several = sorted(l1.reads(x) & set(at.arrays))
    if several:
        user = model_name(several[0])
        user = f"{user[1:]}(t)" if user == l0.hidden(user[1:]) else user  # a timed array is held per neuron
        message = f"the equations of the {pool.scope} of `{cell.name}` read `{user}`"
        help = f"it differs from neuron to neuron; reduce it: `reduce: {{...: mean({user})}}`"
        raise ModelError([Diagnostic("E0802", message, x.statements[0].span, help)])
    formals = [*_own(pool, cell, real, written), *_of_others(cell, real, MEMBER, l2.ELEMENT), N, *_columns(at), KEY]
    nest = l2.Nest(FLAT, assigned(x.statements))
    title, text = f"{rows[0][0].name}: {x.what} ({cell.name})", Prototype(tuple(formals), nest)
    kernel = at.builder.kernel_of(text, title, pool.span, (at.number, x.what))
    for instance, bound, columns in rows:
        key = l2.StreamKey(f"{instance.name}/{cell.name}/{pool.scope}")
        row = kernel.add_row(bound, {**columns, "n": _count(pool, instance), "key": key}, instance.name)
        row.run(at.place(x), not cell.others)
