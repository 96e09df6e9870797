"""lower_drives: external drives of neurons become rows of elementwise kernels, run at the start of each step.

Assumes: source_cells has made drives; targets are inputs without decay and parameters that lower_model made arrays.
Guarantees: one kernel per operation of a source, with a row per drive. In step k a row adds the source's value at
(k-1) dt to the input (which holds what was delivered in step k-1), or to the parameter's array
`<population>.<parameter>`, which the first drive initialises with the parameter's own value; so a current of step k
acts on the dynamics of step k, and is constant during it. Then it advances the source's own state to the end of the
step. Random numbers are counter-based: stream `<drive>[<population>]`, index = neuron.
Does not: interpret sources; order drives with different targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.symbols import model_name, printed, symbol
from compiler.expr.ast import Cond, Expr, Ref
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level1.stages import DRIVES
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.cells.cell_arrays import FLAT, assigned, due_steps
from compiler.passes.cells.cell_columns import column_values
from compiler.passes.cells.lower_cells import given_values
from compiler.passes.cells.lower_timed import copy_of, read_timed
from compiler.passes.program.build_program import Draft, Place, ProgramBuilder
from compiler.passes.program.init_values import initialise


@dataclass(frozen=True)
class DriveLowering:
    """What all drives and rates share while they are lowered."""

    builder: ProgramBuilder
    graph: SpikingGraph
    model: l0.Model

    @cached_property
    def timed(self) -> Mapping[str, l0.TimedArray]:
        return {x.name: x for x in self.model.timed}

    @cached_property
    def populations(self) -> Mapping[str, l0.Population]:
        return {x.name: x for x in self.model.populations}

    def rows(self, drive: l1.Drive) -> SourceRows:
        """Those of an instance of a source, with the arrays of its states and parameters."""
        assert self.model.simulate is not None
        source, instance, builder = self.graph.sources[drive.instance.cell], drive.instance, self.builder
        cell, arrays = source.cell, dict[str, str]()
        role = dict.fromkeys(cell.state, Role.STATE) | dict.fromkeys(source.arrays, Role.CONST)
        values, units = {**dict(instance.params), **dict(instance.init)}, dict(cell.units)
        operations = [x for x in cell.operations if isinstance(x, l1.EachNeuron)]
        for x in sorted(operations, key=lambda x: x.due is not None):
            touched = l1.reads(x) | {s.target for s in x.statements}
            for name in (n for n in role if n in touched and n not in arrays):
                user = model_name(name)
                given = instance, user, values[user], role[name], units.get(name, "1")
                arrays[name] = given_values(builder, *given)
        numbers = column_values(cell, (instance,), self.model.simulate.dt, source.various)
        copy = copy_of(self.model, drive.population)
        return SourceRows(self, drive, source, operations, arrays, {n: float(v[0]) for n, v in numbers.items()}, copy)


@dataclass(frozen=True)
class SourceRows:
    """An instance of a source while its operations become rows. `arrays`: of states and params, by formal; `numbers`:
    the other params, and columns that follow from them; `copy`: the instance of the network that it belongs to."""

    shared: DriveLowering
    drive: l1.Drive
    source: l1.Source
    operations: list[l1.EachNeuron]
    arrays: Mapping[str, str]
    numbers: Mapping[str, float]
    copy: int

    def kernel(self, what: str, operation: str) -> Draft:
        instance = self.drive.instance
        group = instance.cell, operation
        return self.shared.builder.kernel(f"{instance.name}: {what}", instance.span, group)

    def bind(self, k: Draft, x: l1.EachNeuron, stream: str) -> None:
        """The formals of what an operation reads and writes; it draws from `stream`."""
        written, real = {s.target for s in x.statements}, k.builder.precision
        for name in (n for n in (*self.source.cell.state, *self.source.arrays) if n in self.arrays):
            (k.update if name in written else k.read)(name, real, self.arrays[name])
        for name, number in self.numbers.items():
            k.column(name, number, real)
        for c in self.source.cell.counters:
            k.column(c.every, self.shared.graph.phases[c.phase].every)
        k.column("key", l2.StreamKey(stream), DType.U64)

    def value(self, k: Draft) -> tuple[tuple[l0.Set, ...], Expr, tuple[l0.Set, ...]]:
        """The value in a step, with the statements before and after it; binds what they read."""
        step = next(x for x in self.operations if x.due is None)
        timed = [(self.shared.timed[array], local) for local, array in self.source.timed]
        body = [s for array, local in timed for s in read_timed(k, array, local, self.copy)]
        self.bind(k, step, self.drive.instance.name)
        at = [s.target for s in step.statements].index(symbol(l1.VALUE))
        return (*body, *step.statements[:at]), step.statements[at].value, step.statements[at + 1 :]

    def at_events(self, start: bool) -> None:
        """The rows of events: before the value is taken in a trial's first step, or after the source's own step."""
        name = self.drive.instance.name
        for x in self.operations:
            if x.due is not None and x.due[2] == start:
                k = self.kernel(f"{self.source.cell.name} at {x.what}", x.what)
                k.column("n", self.drive.instance.size)
                self.bind(k, x, f"{name}/{x.what}")
                place = Place(DRIVES, due_steps(self.shared.graph.phases, x.due[:2]))
                k.add_row(l2.Nest(FLAT, assigned(x.statements)), name).run(place, join=False)


def _bind_target(k: Draft, drive: l1.Drive, population: l0.Population) -> None:
    """The array that a drive adds to, and a parameter's value without drives: a number, or an array."""
    real, now = k.builder.precision, array_name(population.name, drive.into)
    k.update("driven", real, now)
    k.column("n", population.size)
    value = dict(population.params).get(drive.into)  # None: an input
    k.column("driven_first", int(drive.first and value is not None))
    if value is None or isinstance(value, l0.Const | l0.Driven):
        k.column("undriven", float(value.value) if isinstance(value, l0.Const) else 0.0, real)
        return
    given = population.params, population.init
    owner = l1.Instance(population.name, 0, population.size, 0, *given, span=population.span)
    k.read("undriven", real, initialise(k.builder, own_array(now, "base"), value, owner, Role.CONST, "1", stream=now))


def lower_drives(shared: DriveLowering) -> None:
    """One row per drive, in order."""
    before = Cond(Ref("driven_first") > 0, Ref("undriven"), Ref("driven"))
    for drive in shared.graph.drives:
        rows = shared.rows(drive)
        k = rows.kernel(f"{rows.source.cell.name} into {printed(symbol(drive.into))}", "")
        _bind_target(k, drive, shared.populations[drive.population])
        first, value, then = rows.value(k)
        rows.at_events(start=True)
        driven = l0.Set("driven", before + value, drive.instance.span)
        nest = l2.Nest(FLAT, assigned((*first, driven, *then)))
        k.add_row(nest, drive.instance.name).run(Place(DRIVES), join=False)
        rows.at_events(start=False)
