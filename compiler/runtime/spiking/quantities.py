"""What a caller may read and write of a simulation: variables of populations and of projections, by the model's names.

Assumes: a lowered spiking model; arrays are named by model path (`exc.v`, `plastic[a->b].w`).
Guarantees: values are in canonical units; those of populations are by neuron (or by pool), those of synapses in the
order of the records (compiler/runtime/record/record_synapses.py), whatever layout the target stores them in.
Does not: run anything, or change connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.ir.level2.synapse_values import (
    member_name,
    own_name,
    synapse_unit,
    synapse_variables,
    variable_array,
)
from compiler.ir.space import array_name, own_array
from compiler.runtime.common.arrays import to_logical, to_physical
from compiler.runtime.record.record_synapses import moving, synapse_ends, user_order

Order = npt.NDArray[np.int64] | None
Ends = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Variable:
    """One variable. `array`: the one that holds it, or None where all elements have the value `constant`; `count`:
    elements that are shown (None: those of the array); `order`: of synapses, as `user_order` says; `scale`: the unit
    of what the array holds, of what is read alone."""

    name: str
    unit: str
    array: l2.Array | None
    constant: float = 0.0
    count: int | None = None
    order: Order = None
    scale: float | None = None

    def read(self, instance: Instance) -> AnyArray:
        if self.array is None:
            return np.full(self.count or 1, self.constant)
        values = to_logical(self.array, instance.read(self.array.name))[: self.count]
        shown: AnyArray = values if self.order is None else values[self.order]
        return shown if self.scale in (None, 1.0) else np.multiply(shown, self.scale)

    def write(self, instance: Instance, values: npt.ArrayLike) -> None:
        """Replace all elements; one number stands for all. Raises RunError (E0935)."""
        if self.array is None:
            help = "make it a parameter of the model and call `set`, or give it values that differ in the model"
            raise refused(f"`{self.name}` is one number of the model, {self.constant:g}", help)
        if self.scale is not None:
            raise refused(f"`{self.name}` can be read, but stays as it was drawn", "write a state of the synapses")
        stored = to_logical(self.array, instance.read(self.array.name))
        shown = stored[: self.count]
        try:
            given = np.broadcast_to(np.asarray(values), shown.shape)
        except ValueError:
            have, want = list(np.shape(values)), list(shown.shape)
            raise refused(f"`{self.name}` has the shape {want}, not {have}") from None
        if given.dtype.kind not in "biuf" or (stored.dtype.kind in "iu" and given.dtype.kind == "f"):
            raise refused(f"`{self.name}` holds numbers of type {stored.dtype}, not {given.dtype}")
        if self.order is None:
            shown[...] = given
        else:
            shown[self.order] = given
        instance.write(self.array.name, to_physical(self.array, stored))


class Missing(RunError, AttributeError, KeyError):
    """Nothing has this name; `hasattr`, `getattr` and `get` with a default, and `in` take it as Python's own errors."""


def refused(message: str, help: str | None = None, kind: type[RunError] = RunError) -> RunError:
    return kind("E0935", message, help)


def population_variables(population: l0.Population, program: l2.Merged) -> dict[str, Variable]:
    """The states, inputs and parameters of a population, and the variables of its pools."""
    arrays = {a.name: a for a in program.arrays}
    neuron, found = population.neuron, dict[str, Variable]()
    own = {n: u for n, u in neuron.units.items() if "." not in n}
    every = own | {x.name: x.unit for x in neuron.params} | neuron.units
    units = {n: u for n, u in every.items() if not n.startswith("_")}  # no user's name begins so
    constants, given = dict(population.params), {x.name for x in neuron.params}
    for name, unit in units.items():
        path = array_name(population.name, name)
        if (array := arrays.get(path)) is not None:  # of parameters, arrays have no unit
            found[name] = Variable(path, unit if name in given else array.unit or unit, array)
        elif isinstance(value := constants.get(name), l0.Const):
            found[name] = Variable(path, unit, None, float(value.value), population.size)
    return found


@dataclass(frozen=True)
class Synapses:
    """The synapses of a projection from one population to another. `count`: of them, or None where they are
    shared by positions (a convolution); `read_ends`: (sources, targets) as they are now."""

    source: str
    target: str
    variables: dict[str, Variable]
    count: int | None
    read_ends: Callable[[Instance], Ends | None]


def synapses_of(
    model: l0.Model, program: l2.Merged, instance: Instance, projection: l0.Projection
) -> Iterator[Synapses]:
    """Each member of a projection with its variables."""
    arrays = {a.name: a for a in program.arrays}
    names = frozenset(arrays)
    sizes = {p.name: p.size for p in model.populations}
    for member in projection.members:
        order = user_order(projection, member)

        def read_ends(instance: Instance, member: l0.Member = member, order: Order = order) -> Ends | None:
            ends = synapse_ends(instance, names, projection, member, sizes[member.source], sizes[member.target])
            if ends is not None and (exists := own_array(own_name(projection, member), "exists")) in names:
                held, by_target = instance.read(exists)[: len(ends[0])] != 0, moving(projection) == "source"
                return np.where(held | (not by_target), ends[0], -1), np.where(held | by_target, ends[1], -1)
            return ends if ends is None or order is None else (ends[0][order], ends[1][order])

        ends = read_ends(instance)
        count = None if ends is None else len(ends[0])
        found = dict[str, Variable]()
        for name in synapse_variables(projection):
            value = member.weight if name == "weight" else dict(member.init).get(name)
            path, array = f"{member_name(projection, member)}.{name}", variable_array(projection, member, name)
            unit = synapse_unit(projection, name, model.populations)
            found |= _variable(path, unit, arrays.get(array), value, count, order)
        found |= _unchanging(model, projection, member, arrays, count, order)
        for end in ("pre", "post"):
            prefix = f"{own_name(projection, member)}.{end}."
            found |= {
                f"{end}.{n.removeprefix(prefix)}": Variable(n, a.unit, a)
                for n, a in arrays.items()
                if n.startswith(prefix)
            }
        yield Synapses(member.source, member.target, found, count, read_ends)


def _variable(
    path: str, unit: str, array: l2.Array | None, value: l0.Value | None, count: int | None, order: Order
) -> dict[str, Variable]:
    """A variable by its name, if its values are in memory or one number."""
    name = path.rpartition(".")[2]
    if array is not None:
        return {name: Variable(path, unit, array, 0.0, count, order)}
    return {name: Variable(path, unit, None, float(value.value), count)} if isinstance(value, l0.Const) else {}


def _unchanging(
    model: l0.Model,
    projection: l0.Projection,
    member: l0.Member,
    arrays: dict[str, l2.Array],
    count: int | None,
    order: Order,
) -> dict[str, Variable]:
    """Parameters and delays of synapses; not those that are drawn anew at every spike, which are nowhere."""
    assert model.simulate is not None
    dt, stored, units = model.simulate.dt, member_name(projection, member), dict[str, str]()
    values: dict[str, l0.Value] = {"delay": l0.Const(member.delay * dt)}
    if member.back_delay:
        values["back_delay"] = l0.Const(member.back_delay * dt)
    if projection.synapse is not None:
        units = {p.name: p.unit for p in projection.synapse.params}
        values |= dict(member.params)
    found = dict[str, Variable]()
    for name, value in values.items():
        own = name not in units
        array = arrays.get((own_array if own else array_name)(stored, name))
        for made in _variable(f"{stored}.{name}", units.get(name, "ms"), array, value, count, order).values():
            found[name] = replace(made, scale=dt if own and array is not None else 1.0)
    return found
