"""lower_drives: external drives of neurons become rows of elementwise kernels, run at the start of each step.

Assumes: a legal model; targets of drives are inputs without decay and parameters that lower_model made arrays.
Guarantees: one kernel per distinct text of a source, with a row per drive. In step k a row adds the source's value at
(k-1) dt to the input (which holds what was delivered in step k-1), or to the parameter's array
`<population>.<parameter>`, which the first drive initialises with the parameter's own value; so a current of step k
acts on the dynamics of step k, and is constant during it. Then it advances the source's own state to the end of the
step. Timed arrays are constants `<name>'timed` that are read at row (k-1) // every, the first row before time 0; those
of layers are data, of which each instance reads rows of its own, over again in each trial. Random
numbers are counter-based: stream `<drive>[<population>]`, index = neuron.
Does not: interpret sources; order drives with different targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, model_name, symbol
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.inline import named, reads_through
from compiler.ir.level2.variable_arrays import array_name, own_array
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_columns import column_values
from compiler.passes.model.bind_symbols import bind_symbols
from compiler.passes.model.integrate_odes import integrate_odes
from compiler.passes.model.split_cells import number_draws
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.clock import BEFORE, STEP_END, STEP_START, counter
from compiler.passes.program.decisions import Decision
from compiler.passes.program.init_values import initialise, read_file

VALUE = l0.hidden("value")
NEVER = 1 << 40  # longer than any run: what is due once


@dataclass(frozen=True)
class Source:
    """A source for one row: `body` computes `value` and, after `then`, the states; formals and columns beside the
    target's. `owner`: stands for the drive where values are initialised."""

    body: tuple[l0.Set, ...]
    value: Expr
    then: tuple[l0.Set, ...]
    formals: tuple[l2.Formal, ...]
    bound: Mapping[str, str]
    columns: Mapping[str, l2.ColumnValue]
    shape: tuple[object, ...]
    """What decides the text beside the source itself."""
    decision: Decision | None = None
    """How its equations are integrated."""
    events: tuple[SourceEvent, ...] = ()


@dataclass(frozen=True)
class SourceEvent:
    """What a source does at an event of a phase of `every` steps, `at` of which after the start of a trial."""

    what: str
    every: int
    at: int
    statements: tuple[l0.Set, ...]
    formals: tuple[l2.Formal, ...]
    bound: Mapping[str, str]
    columns: Mapping[str, l2.ColumnValue]


def lower_timed(builder: ProgramBuilder, model: l0.Model) -> None:
    """The timed arrays of the model as constants; those of layers as data, a part for each instance."""
    assert model.simulate is not None
    for item in model.timed:
        given = item.values
        if item.layer:
            parts, name = model.simulate.instances * item.rows, own_array(item.name, "timed")
            whole = (parts, item.columns)
            builder.array(l2.Array(name, builder.precision, whole, Role.DATA, unit=item.unit, span=item.span))
            continue
        data = read_file(given) if isinstance(given, l0.FromFile) else np.array(given.values, np.float64)
        shape = (item.rows, item.columns) if item.columns else (item.rows,)
        array = l2.Array(
            own_array(item.name, "timed"), builder.precision, shape, Role.CONST, unit=item.unit, span=item.span
        )
        builder.array(array, data.reshape(shape).astype(builder.precision.numpy))


def lower_lookups(builder: ProgramBuilder, model: l0.Model) -> None:
    """The lookup tables of the model as constants."""
    for table in model.lookups:
        given, last = table.values, table.rows - 1
        values = read_file(given) if isinstance(given, l0.FromFile) else np.array(given.values, np.float64)
        head = [table.low, last / (table.high - table.low), last]
        data = np.concatenate([head, values.ravel()]).astype(builder.precision.numpy)
        name, shape = own_array(table.name, "table"), data.shape
        builder.array(l2.Array(name, builder.precision, shape, Role.CONST, unit=table.unit, span=table.span), data)
    builder.lookups = frozenset(x.name for x in model.lookups)


def _order_name(array: l0.TimedArray, copy: int) -> str:
    """The number of the row of this trial, for all shuffled arrays of a phase with as many rows, in one instance."""
    return own_array(f"{array.phase}", f"timed.{array.rows}.{copy}{'.dealt' if array.order == 'dealt' else ''}")


def _copy_of(model: l0.Model, population: str) -> int:
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
    nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("row", place),))
    for copy in range(copies):
        name = builder.array(l2.Array(_order_name(array, copy), DType.I64, (1,), Role.STATE, span=array.span))
        k = builder.kernel(f"{name}: the row of this trial", l2.Kind.MAP, array.span)
        k.write("row", DType.I64, name)
        k.column("n", 1)
        k.column("every", array.every)
        k.column("rows", array.rows)
        k.column("copies", copies)
        k.column("copy", copy)
        stream = f"timed.{array.phase}.{array.rows}.{0 if dealt else copy}/order"
        k.column("key", l2.StreamKey(stream), DType.U64)
        row = k.add_row(nest, name)
        row.launch("step", array.every, 1 % array.every)
        if builder.warmup % array.every:  # the first trial has begun before the run
            row.launch("step", NEVER, (1 - builder.warmup) % NEVER)


def _timed_reads(
    names: Mapping[str, str], model: l0.Model, real: DType, copy: int
) -> tuple[list[l0.Set], list[l2.Formal], dict[str, str], dict[str, l2.ColumnValue], tuple[object, ...]]:
    """Locals that hold the values of timed arrays in this step. `names`: array -> local."""
    body: list[l0.Set] = []
    formals: list[l2.Formal] = []
    bound: dict[str, str] = {}
    columns: dict[str, l2.ColumnValue] = {}
    shape: list[object] = []
    arrays = {a.name: a for a in model.timed}
    for name, local in names.items():
        array = arrays[name]
        every, last, row = (derived(local, Way.TIMED, part) for part in ("every", "last", "row"))
        if array.order != "sequential":
            now = derived(row, Way.NOW)
            formals.append(l2.ArrayFormal(now, DType.I64, l2.Mode.READ, l2.SCALAR))
            bound[now] = _order_name(array, copy)
            body.append(l0.Set(row, Ref(now)))
        else:
            columns |= {every: array.every, last: array.rows - (array.phase is None and not array.layer)}
            formals += [l2.ScalarFormal(every, DType.I64), l2.ScalarFormal(last, DType.I64)]
            first = derived(local, Way.TIMED, "first")
            if array.layer:
                columns |= {first: copy * array.rows}
                formals.append(l2.ScalarFormal(first, DType.I64))
            body.append(l0.Set(row, _row_now(array, every, last, first)))
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
            formals.append(l2.ArrayFormal(formal, real, l2.Mode.READ, l2.Strided(axes)))
            bound[formal] = own_array(name, "timed")
        body.append(l0.Set(local, value))
        shape.append(
            (
                array.columns > 0,
                array.interpolate,
                array.phase is not None,
                array.order != "sequential",
                bool(array.layer),
            )
        )
    return body, formals, bound, columns, tuple(shape)


_SINCE: Final = Call("max", (BEFORE, Num(0)))
"""Steps between time 0 and the start of this one; 0 in the warm-up."""


def _row_now(array: l0.TimedArray, every: str, last: str, first: str) -> Expr:
    """The row of an array that holds in this step; `first`: the column of an instance's first row, of a layer."""
    cycle = BEFORE // Ref(every) % Ref(last)
    if array.layer:
        return Ref(first) + cycle
    return cycle if array.phase is not None else Call("min", (_SINCE // Ref(every), Ref(last)))


def _counters(source: l0.SourceDef, phases: Sequence[l0.PhaseDef]) -> dict[str, tuple[l0.PhaseDef, str]]:
    """The counters of phases that a source reads, by name."""
    n = source.neuron
    said = (*n.lets, *n.update, *(s for h in n.on for s in h.actions))
    read = refs(source.value).union(*(refs(o.rhs) for o in n.dynamics), *(refs(s.value) for s in said))
    every = {f"{p.name}.{x}": (p, x) for p in phases for x in ("count", "step")}
    return {name: every[name] for name in sorted(read & every.keys())}


def _cell(
    source: l0.SourceDef, counted: Mapping[str, object]
) -> tuple[l1.Cell, dict[str, str], tuple[l0.Handler, ...]]:
    """The source as a cell whose last let is its value, the names that replace hidden ones in it, and those of counters
    of phases (`counted`), and its events."""
    names = [l0.hidden(n) for n in (*source.timed, *source.noise, *counted)]
    hides: dict[str, Expr] = {n: Ref(l0.hidden(n)) for n in counted}

    def sets(items: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
        return tuple(replace(s, value=substitute(s.value, hides)) for s in items)

    n = source.neuron
    neuron = replace(
        n,
        params=(*n.params, *(l0.ParamDecl(name, "1", None) for name in names)),
        lets=sets((*n.lets, l0.Set(VALUE, source.value, source.span))),
        dynamics=tuple(replace(o, rhs=substitute(o.rhs, hides)) for o in n.dynamics),
        update=sets(n.update),
        on=tuple(replace(h, actions=sets(h.actions)) for h in n.on),
    )
    free = bind_symbols(neuron)
    cell = l1.Cell(
        name=free.name,
        params=(*(p.name for p in free.params), *free.model_params),
        state=tuple(s.name for s in free.state),
        inputs=(),
        lets=free.lets,
        dynamics=free.dynamics,
        update=free.update,
        when=None,
        reset=(),
        refractory=None,
        hold=(),
        method=free.method,
        span=free.span,
    )
    return cell, {n: symbol(n) for n in names}, free.on


def _evaluated_at_start(lets: Sequence[l0.Set], needed: set[str], body: list[l0.Set]) -> dict[str, Expr]:
    """Appends the named expressions that are needed, at the start of the step, to `body`; returns what stands for them
    and for the time."""
    at_start: dict[str, Expr] = {"t": STEP_START}
    for let in lets:
        if let.target in needed:
            begun = derived(let.target, Way.START)
            body.append(l0.Set(begun, substitute(let.value, at_start), let.span))
            at_start[let.target] = Ref(begun)
    return at_start


def lower_source(
    builder: ProgramBuilder, model: l0.Model, drive: l0.Drive, population: l0.Population, path: str
) -> Source:
    """A source for the neurons of a population; makes the arrays of its states and parameters."""
    real, source = builder.precision, drive.source
    assert model.simulate is not None
    counted = _counters(source, model.phases)
    cell, locals_, on = _cell(source, counted)
    values = {p.name: l0.Const(p.value) for p in model.params if isinstance(p.value, (int, float))}
    params = (*drive.params, *((n, values[n]) for n in source.neuron.model_params))
    owner = l1.Instance(path, 0, population.size, 0, params, drive.init, span=drive.span)
    spread = {name for name, value in params if not isinstance(value, l0.Const)}
    given = tuple(p for p in cell.params if model_name(p) in spread)
    done, decision = integrate_odes(cell, (*given, *locals_.values()))
    timed = {name: locals_[l0.hidden(name)] for name in source.timed}
    body, formals, bound, columns, shape = _timed_reads(timed, model, real, _copy_of(model, population.name))
    for name in source.noise:
        scaled = Call("normal", ()) / Call("sqrt", (Ref("dt"),))
        body.append(l0.Set(locals_[l0.hidden(name)], scaled))
    known = {locals_[l0.hidden(n)]: (phase.every, of) for n, (phase, of) in counted.items()}
    body += [l0.Set(local, counter(of, derived(local, Way.EVERY))) for local, (_, of) in known.items()]
    *lets, value = cell.lets
    at_start = _evaluated_at_start(lets, reads_through(value.value, [(x.target, x.value) for x in lets]), body)
    count = [0]

    def drawn(items: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
        return tuple(l0.Set(s.target, number_draws(s.value, count), s.span) for s in items)

    start = drawn(tuple(body))
    result = number_draws(substitute(value.value, at_start), count)
    then = drawn(done.step)
    numbers = column_values(done, (owner,), model.simulate.dt, (*given, *locals_.values()))
    names = _SourceNames(builder, drive, owner, cell, given, {n: float(v[0]) for n, v in numbers.items()}, known)
    found = names.bind(refs(result).union(*(refs(s.value) for s in (*start, *then))), {s.target for s in then}, path)
    events = tuple(_event(h, lets, known, names, path, model) for h in on)
    kinds = (given, shape)
    return Source(
        start,
        result,
        then,
        (*formals, *found[0]),
        {**bound, **found[1]},
        {**columns, **found[2]},
        kinds,
        decision,
        events,
    )


def _event(
    handler: l0.Handler,
    lets: Sequence[l0.Set],
    counted: Mapping[str, tuple[int, str]],
    names: _SourceNames,
    path: str,
    model: l0.Model,
) -> SourceEvent:
    """What a source does at an event of a phase."""
    phase = next(p for p in model.phases if p.name == handler.phase)
    at, count = dict(phase.events)[handler.event], [0]
    inner, now = named((x.target, x.value) for x in lets), STEP_START if at == 0 else STEP_END
    sets = [replace(s, value=substitute(substitute(s.value, inner), {"t": now})) for s in handler.actions]
    read = set[str]().union(*(refs(s.value) for s in sets))
    locals_ = [l0.Set(n, counter(of, derived(n, Way.EVERY))) for n, (_, of) in counted.items() if n in read]
    statements = tuple(replace(s, value=number_draws(s.value, count)) for s in (*locals_, *sets))
    used = set[str]().union(*(refs(s.value) for s in statements))
    what = f"{handler.phase}.{handler.event}"
    found = names.bind(used, {s.target for s in statements}, f"{path}/{what}")
    return SourceEvent(what, phase.every, at, statements, *found)


@dataclass(frozen=True)
class _SourceNames:
    """What the names of a source's statements are bound to. `given`: parameters that differ from neuron to neuron;
    `numbers`: columns; `counted`: locals of counters of phases, with the steps of a trial."""

    builder: ProgramBuilder
    drive: l0.Drive
    owner: l1.Instance
    cell: l1.Cell
    given: tuple[str, ...]
    numbers: Mapping[str, float]
    counted: Mapping[str, tuple[int, str]]

    def bind(
        self, used: set[str], written: set[str], stream: str
    ) -> tuple[tuple[l2.Formal, ...], dict[str, str], dict[str, l2.ColumnValue]]:
        """Formals, arrays and columns of statements that read and write these names, and draw from `stream`."""
        real, cell = self.builder.precision, self.cell
        formals: list[l2.Formal] = []
        bound: dict[str, str] = {}
        columns: dict[str, l2.ColumnValue] = {}
        for name in cell.state:
            if name in used or name in written:
                mode = l2.Mode.UPDATE if name in written else l2.Mode.READ
                formals.append(l2.ArrayFormal(name, real, mode, l2.ELEMENT))
                bound[name] = self._array(name, Role.STATE)
        for name in self.given:
            if name in used:
                formals.append(l2.ArrayFormal(name, real, l2.Mode.READ, l2.ELEMENT))
                bound[name] = self._array(name, Role.CONST)
        for name, number in self.numbers.items():
            if name in used:
                formals.append(l2.ScalarFormal(name, real))
                columns[name] = number
        for name, (steps, _) in self.counted.items():
            every = derived(name, Way.EVERY)
            if every in used:
                formals.append(l2.ScalarFormal(every, DType.I64))
                columns[every] = steps
        if "key" in used:
            formals.append(l2.ScalarFormal("key", DType.U64))
            columns["key"] = l2.StreamKey(stream)
        return tuple(formals), bound, columns

    def _array(self, name: str, role: Role) -> str:
        """The array of a state or a parameter, which is made on first use."""
        shown, drive = model_name(name), self.drive
        held = array_name(self.owner.name, shown)
        if held in self.builder.arrays:
            return held
        states = {s.name: s.unit for s in drive.source.neuron.state}
        initial = dict(drive.init if role is Role.STATE else self.owner.params)[shown]
        return initialise(self.builder, held, initial, self.owner, role, states.get(shown, "1"), span=drive.span)


def _target(
    builder: ProgramBuilder, drive: l0.Drive, population: l0.Population, first: bool
) -> tuple[str, l2.Formal, dict[str, str], dict[str, l2.ColumnValue]]:
    """The array that a drive adds to; `base`: the parameter's value without drives, as a formal, its array, columns."""
    real = builder.precision
    inputs = {i.name: i for i in population.neuron.inputs}
    scalar = l2.ScalarFormal("undriven", real)
    if drive.into in inputs:
        return array_name(population.name, drive.into), scalar, {}, {"undriven": 0.0, "driven_first": 0}
    now = array_name(population.name, drive.into)
    value = dict(population.params)[drive.into]
    if isinstance(value, l0.Const | l0.Driven):
        number = float(value.value) if isinstance(value, l0.Const) else 0.0
        return now, scalar, {}, {"undriven": number, "driven_first": int(first)}
    owner = l1.Instance(
        population.name, 0, population.size, 0, population.params, population.init, span=population.span
    )
    name = initialise(builder, own_array(now, "base"), value, owner, Role.CONST, "1", stream=now)
    return (
        now,
        l2.ArrayFormal("undriven", real, l2.Mode.READ, l2.ELEMENT),
        {"undriven": name},
        {"driven_first": int(first)},
    )


def with_driven(model: l0.Model) -> l0.Model:
    """The model with `Driven` as the value of every parameter that drives go into: lower_cells makes arrays of them."""
    into = {(d.population, d.into) for d in model.drives}
    if not into:
        return model

    def value(population: str, name: str, given: l0.Value) -> l0.Value:
        return l0.Driven(given.span) if (population, name) in into else given

    populations = tuple(
        replace(p, params=tuple((n, value(p.name, n, v)) for n, v in p.params)) for p in model.populations
    )
    return replace(model, populations=populations)


def lower_drives(builder: ProgramBuilder, model: l0.Model, decisions: list[Decision]) -> None:
    """One row per drive, in the order of the model, ahead of all other work of a step. Adds to `decisions`."""
    lower_orders(builder, model)
    populations = {p.name: p for p in model.populations}
    begun: set[tuple[str, str]] = set()
    done: set[tuple[str, str]] = set()
    for drive in model.drives:
        population = populations[drive.population]
        path = f"{drive.name}[{drive.population}]"
        assert (drive.name, drive.population) not in done
        done.add((drive.name, drive.population))
        source = lower_source(builder, model, drive, population, path)
        if source.decision is not None and source.decision not in decisions:
            decisions.append(source.decision)
        first = (drive.population, drive.into) not in begun
        begun.add((drive.population, drive.into))
        array, base, base_array, base_columns = _target(builder, drive, population, first)
        before = Cond(Ref("driven_first") > 0, Ref("undriven"), Ref("driven"))
        statements = (*source.body, l0.Set("driven", before + source.value, drive.span), *source.then)
        k = builder.kernel(
            f"{path}: {drive.source.neuron.name} into {drive.into.removeprefix('_')}",
            l2.Kind.MAP,
            drive.span,
            (id(drive.source), source.shape),
        )
        k.update("driven", builder.precision, array)
        k.column("n", population.size)
        k.include((l2.ScalarFormal("driven_first", DType.I64), base), base_array, base_columns)
        k.include(source.formals, source.bound, source.columns)
        for event in source.events:
            if event.at == 0:
                _at_event(builder, drive, event, population, path, source)
        assigned = tuple(l2.Assign(s.target, s.value, s.span) for s in statements)
        k.add_row(l2.Nest((l2.Dim("i", "n"),), assigned), path).launch("step", join=False)
        for event in source.events:
            if event.at > 0:
                _at_event(builder, drive, event, population, path, source)


def _at_event(
    builder: ProgramBuilder, drive: l0.Drive, event: SourceEvent, population: l0.Population, path: str, source: Source
) -> None:
    """The row of an event of a source: before its value is taken in a trial's first step, or after its own step."""
    group = (id(drive.source), event.what, source.shape)
    k = builder.kernel(f"{path}: {drive.source.neuron.name} at {event.what}", l2.Kind.MAP, drive.span, group)
    k.column("n", population.size)
    k.include(event.formals, event.bound, event.columns)
    nest = l2.Nest((l2.Dim("i", "n"),), tuple(l2.Assign(s.target, s.value, s.span) for s in event.statements))
    k.add_row(nest, path).launch("step", event.every, (1 if event.at == 0 else event.at) % event.every, join=False)
