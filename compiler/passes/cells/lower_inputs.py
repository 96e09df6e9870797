"""lower_inputs: Poisson inputs become rows of two elementwise kernels, run at the end of each step.

Assumes: lower_cells has made the populations' arrays.
Guarantees: there are no source neurons: each neuron draws its number of events per step with counter-based random
numbers (stream `<input>[<population>]`, index = neuron), as a delivery of the step that ends. Small means are drawn by
comparing one uniform number with the cumulative distribution (columns, no loop, so that it vectorises), others by
poisson(); which of the two is data (an empty row in the other), so that changing a rate compiles nothing. A
time-dependent rate is evaluated at the start of each step, by one kernel per distinct text.
Does not: record the spike trains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, substitute
from compiler.ir.level1.stages import POISSON
from compiler.ir.space import DType, array_name
from compiler.passes.cells.cell_arrays import FLAT, assigned
from compiler.passes.cells.lower_drives import DriveLowering, SourceRows
from compiler.passes.program.build_program import Place, Prototype

CLASSES = ((0.25, 6), (3.0, 16), (math.inf, 0))
"""(largest mean, thresholds of the comparison): more events than thresholds have probability 1e-8 at most; 0: poisson()
draws any number."""


def _class_of(mean: float) -> int:
    return next(outcomes for most, outcomes in CLASSES if mean <= most)


def _count(outcomes: int) -> Expr:
    if not outcomes:
        return Call("poisson", (Ref("key"), Ref("i"), Num(0), Ref("mean")))
    total: Expr | None = None
    for k in range(outcomes):
        one = Cond(Ref("u") >= Ref(f"below_{k}"), Num(1.0), Num(0.0))
        total = one if total is None else total + one
    assert total is not None
    return total


def _changing(item: l0.PoissonInput, rows: SourceRows, dt: float) -> None:
    """A row whose mean number of events is the rate at the start of the step times dt; rates below 0 are 0."""
    path, builder = rows.drive.instance.name, rows.shared.builder
    k = builder.kernel(f"{path}: Poisson input of changing rate into {item.into}", item.span)
    real = builder.precision
    k.update("driven", real, array_name(item.population, item.into))
    k.column("n", rows.drive.instance.size)
    k.column("event_weight", item.weight, real)
    k.column("key", l2.StreamKey(path), DType.U64)
    k.column("step_length", dt, real)
    first, value, _ = rows.value(k)
    count = substitute(_count(0), {"mean": Ref("event_mean")})
    statements = (
        *assigned(first),
        l2.Assign("event_mean", Call("max", (value, Num(0.0))) * Ref("step_length"), item.span),
        l2.Assign("drawn_events", count, item.span),
        l2.Assign("driven", Ref("driven") + Ref("event_weight") * Ref("drawn_events"), item.span),
    )
    k.add_row(l2.Nest(FLAT, statements), path).run(Place(POISSON), join=False)


def lower_inputs(drives: DriveLowering, instances: Mapping[str, l1.Instance]) -> None:
    """A row per population of each Poisson input and class of means; all but one of them are empty."""
    builder, model = drives.builder, drives.model
    assert model.simulate is not None
    if not model.poisson:
        return
    from scipy.special import pdtr  # the distribution function of Poisson's; slow to import

    # Every input has a row of each kernel, all but one empty: a rate is data and never changes the text.
    steady = [item for item in model.poisson if item.changing is None]
    for item, rate in zip((x for x in model.poisson if x.changing is not None), drives.graph.rates, strict=True):
        _changing(item, drives.rows(rate), model.simulate.dt)
    for outcomes, item in product((outcomes for _, outcomes in CLASSES), steady):
        instance = instances[item.population]
        mean = item.rate * model.simulate.dt
        columns: dict[str, l2.ColumnValue] = {
            "n": instance.size if _class_of(mean) == outcomes else 0,
            "weight": item.weight,
            "mean": mean,
            "key": l2.StreamKey(f"{item.name}[{item.population}]"),
        }
        for k in range(outcomes):
            columns[f"below_{k}"] = float(pdtr(k, mean))
        path = f"{item.name}[{item.population}]"
        title = f"{path}: Poisson input into {item.into}"
        kernel = builder.rows_of(_prototype, title, item.span, 0, outcomes, builder.precision)
        row = kernel.add_row({"input": array_name(item.population, item.into)}, columns, path)
        row.run(Place(POISSON), join=False)


def _prototype(outcomes: int, real: DType) -> Prototype:
    """The kernel of a class of means."""
    used = [f"below_{k}" for k in range(outcomes)] if outcomes else ["mean"]
    formals: tuple[l2.Formal, ...] = (
        l2.ArrayFormal("input", real, l2.Mode.UPDATE, l2.ELEMENT),
        l2.ScalarFormal("n", DType.I64),
        l2.ScalarFormal("weight", real),
        l2.ScalarFormal("key", DType.U64),
        *(l2.ScalarFormal(c, real) for c in used),
    )
    draw = (l2.Assign("u", Call("uniform", (Ref("key"), Ref("i"), Num(0)))),) if outcomes else ()
    drawn = l2.Assign("drawn", _count(outcomes))
    delivered = Ref("input") + Ref("weight") * Ref("drawn")
    nest = l2.Nest(FLAT, (*draw, drawn, l2.Assign("input", delivered)))
    return Prototype(formals, nest)
