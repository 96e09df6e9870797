"""synapse_values: arrays of synapses and traces, and the binding of a synapse model's names in one projection.

Assumes: lower_cells has made the neurons' arrays; the relation exists.
Guarantees: `<projection>[a->b].<state>` per synapse, `<...>.pre.<x>` and `<...>.post.<y>` per neuron of that end,
`<...>.pre.last_spike` in steps; shared arrays are named after the first instance. Scalar params are columns, others
arrays per synapse. Formulas of initial values may read the params and earlier states.
Does not: create rows of statements (synapse_rows).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import model_name
from compiler.expr.ast import Call, Cond, Num, Ref
from compiler.ir.level1.synapses import DELAYS, External
from compiler.ir.level2.synapse_values import COUNTED
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.cells.lower_pools import per_neuron
from compiler.passes.model.synapse_symbols import CONNECTED, TOTAL
from compiler.passes.program.init_values import from_formula, initialise
from compiler.passes.projections.synapse_arrays import count_of, delays_of, per_synapse
from compiler.passes.projections.synapse_rows import BoundArray, Synapses
from compiler.passes.relations.relations import LoweredRelation
from compiler.passes.relations.stored_rows import Link


def bind_names(s: Synapses, found: LoweredRelation, model_numbers: dict[str, float], dt: float) -> None:
    """Fills in `numbers` and `arrays` of `s`, and makes the arrays."""
    definition = s.cell.definition
    s.numbers["dt"] = dt
    s.numbers["copies"] = float(s.copies)
    for name in definition.model_params:
        s.numbers[name] = model_numbers[model_name(name)]
    known = {"dt": dt, **model_numbers}  # by the user's names, which formulas use
    drawn = l0.as_drawn(s.member.parts, s.pre, s.post)
    sizes = {"n_from": float(drawn[0].size), "n_to": float(drawn[1].size)} | dict(s.member.sums)
    known = {**sizes, **known}
    _connected(s, found, sizes)
    arrays: dict[str, str] = {}
    params, init = dict(s.member.params), dict(s.member.init)
    for p in definition.params:
        shown = model_name(p.name)
        value = params.get(shown, p.default)
        assert value is not None
        if isinstance(value, l0.Const):
            s.numbers[p.name] = known[shown] = float(value.value)
        elif isinstance(value, l0.Placed) and isinstance(found.relation, l2.Procedural | l2.Bitmask):
            s.again[p.name] = value
        else:
            arrays[shown] = _per_synapse(s, shown, value, found, p.unit, known, arrays)
            s.arrays[p.name] = BoundArray(arrays[shown], s.builder.precision, "syn")
    for state in definition.state:
        shown = model_name(state.name)
        holder = s if state.name in (definition.shared or ()) else replace(s, member=replace(s.member, like=None))
        value = init.get(shown, state.init)
        arrays[shown] = _per_synapse(holder, shown, value, found, state.unit, known, arrays)
        s.arrays[state.name] = BoundArray(arrays[shown], s.builder.precision, "syn")
    if definition.vacancies:
        s.arrays["exists"] = _occupied(s, found.extent)
    _traces(s, known)
    _neurons(s)
    for end, called in DELAYS.items():
        if s.member.delays_of(end) is not None:
            delays = delays_of(s, found, end)
            s.arrays[called] = BoundArray(delays, s.builder.arrays[delays].dtype, "syn")


def _connected(s: Synapses, found: LoweredRelation, sizes: dict[str, float]) -> None:
    """What expressions read of the connections: sizes and sums over projections, and numbers of synapses."""
    for name, external in s.cell.externals.items():
        if external.end == TOTAL:
            s.numbers[name] = sizes[f"{TOTAL}.{external.variable}"]
        elif external.end == CONNECTED and external.variable in COUNTED:
            held = count_of(s, found, external.variable)
            s.arrays[name] = BoundArray(held, DType.I64, COUNTED[external.variable])
        elif external.end == CONNECTED:
            s.numbers[name] = sizes[external.variable]


def _per_synapse(
    link: Link,
    shown: str,
    value: l0.Value,
    found: LoweredRelation,
    unit: str,
    known: dict[str, float],
    arrays: dict[str, str],
) -> str:
    name = array_name(link.stored, shown)
    if not isinstance(value, l0.Formula):
        return per_synapse(link, name, value, found, unit)
    if link.member.like is not None and name in link.builder.arrays:
        return name
    return from_formula(link.builder, name, value, known, arrays, found.extent, Role.SYNAPSE, unit)


def _occupied(s: Synapses, extent: int | l2.SizeOf) -> BoundArray:
    """Which slots hold a synapse initially, drawn by counter."""
    held = steps_array(s, own_array(s.name, "exists"), "syn", extent)
    chance = Call("uniform", (Ref("key"), Ref("i"), Num(0)))
    value = Cond(chance < Ref("occupied"), Num(1), Num(0))
    k = s.builder.kernel(f"{s.name}: occupied places", s.projection.span)
    k.write("exists", DType.I32, held.array)
    k.column("n", extent)
    k.column("occupied", s.member.occupied, s.builder.precision)
    k.column("key", l2.StreamKey(f"{s.name}.exists"), DType.U64)
    k.add_row(l2.Nest((l2.Dim("i", "n"),), (l2.Assign("exists", value),)), s.name).launch("init")
    return held


def _traces(s: Synapses, known: dict[str, float]) -> None:
    """States of `pre:` and `post:`, and steps of spikes that are read."""
    for end in ("pre", "post"):
        block, instance = s.cell.end(end), s.instance(end)
        units = {} if block is None else {x.name: x for x in block.state}
        for name, external in s.cell.externals.items():
            if external.end != end or external.delayed:
                continue
            array = f"{s.name}.{end}.{external.variable}"
            if name in units:
                value = dict(s.member.init).get(f"{end}.{external.variable}", units[name].init)
                if isinstance(value, l0.Formula):
                    from_formula(s.builder, array, value, known, {}, instance.size, Role.STATE, units[name].unit)
                else:
                    span = s.projection.span
                    initialise(s.builder, array, value, None, Role.STATE, units[name].unit, instance.size, span)
                s.arrays[name] = BoundArray(array, s.builder.precision, end)
            elif external.variable in s.cell.definition.times(end):
                s.arrays[name] = steps_array(s, array, end, instance.size)


def steps_array(s: Synapses, array: str, end: str, extent: int | l2.SizeOf) -> BoundArray:
    """An array of steps, 0 at the start."""
    role = Role.SYNAPSE if end == "syn" else Role.STATE
    s.builder.vector(array, DType.I32, extent, role, span=s.projection.span)
    return BoundArray(array, DType.I32, end)


def _neurons(s: Synapses) -> None:
    """Variables and params of the neurons at both ends."""
    for name, external in s.cell.externals.items():
        if name in s.arrays or external.end in (CONNECTED, TOTAL):
            continue
        other = dict(s.member.others).get(external.end)
        if other is not None or "." in external.variable:
            s.arrays[name] = _shared(s, other or s.instance(external.end).name, external)
            continue
        instance = s.instance(external.end)
        if external.delayed:
            ring = s.builder.arrays[own_array(array_name(instance.name, external.variable), "past")]
            s.arrays[name] = BoundArray(ring.name, ring.dtype, external.end, ring.shape[0])
            continue
        array = s.builder.arrays.get(array_name(instance.name, external.variable))
        value = dict(instance.params).get(external.variable)
        if isinstance(value, l0.Const):
            s.numbers[name] = float(value.value)
        else:
            assert array is not None, f"{s.name}: `{instance.name}` has no `{external.variable}`"
            s.arrays[name] = BoundArray(array.name, array.dtype, external.end)


def _shared(s: Synapses, population: str, external: External) -> BoundArray:
    """A variable of one neuron or pool for all synapses, or a copy per neuron where its pools differ."""
    array = s.builder.arrays[array_name(population, external.variable)]
    if array.shape[0] == 1:
        return BoundArray(array.name, array.dtype, "one")
    return BoundArray(per_neuron(s.builder, s.instance(external.end), external.variable), array.dtype, external.end)
