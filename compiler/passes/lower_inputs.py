"""lower_inputs: Poisson inputs become rows of two elementwise kernels, run at the end of each step.

Assumes: lower_cells has made the populations' arrays.
Guarantees: no source neurons exist: each neuron draws its number of events per step by counter (stream
`<input>[<population>]`, index = neuron), as a delivery of the step that ends. Small means are drawn by comparing one
uniform number with the cumulative distribution (columns, no loop, so that it is vector code), others by poisson();
which of the two is data (a row without elements in the other), so that changing a rate compiles nothing.
Does not: record the trains.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref
from compiler.ir.graph import Instance
from compiler.ir.model import Model
from compiler.ir.program import (
    ELEMENT,
    ArrayFormal,
    Assign,
    ColumnValue,
    Dim,
    Formal,
    Kind,
    Mode,
    Nest,
    ScalarFormal,
    StreamKey,
)
from compiler.ir.space import DType
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.lower_cells import array_name

OUTCOMES = 16
"""Thresholds of the comparison: at most this many events in a step."""
SMALL = 3.0
"""Largest mean that is drawn by comparison: more than 16 events have probability 6e-9 then."""


def _count(small: bool) -> Expr:
    if not small:
        return Call("poisson", (Ref("key"), Ref("i"), Num(0), Ref("mean")))
    total: Expr | None = None
    for k in range(OUTCOMES):
        one = Cond(Binary(">=", Ref("u"), Ref(f"below_{k}")), Num(1.0), Num(0.0))
        total = one if total is None else Binary("+", total, one)
    assert total is not None
    return total


def lower_inputs(builder: ProgramBuilder, model: Model, instances: Mapping[str, Instance]) -> None:
    """Two rows per population of each Poisson input: one for small means, one for others; one has no elements."""
    real = builder.precision
    assert model.simulate is not None
    if not model.poisson:
        return
    from scipy.special import pdtr  # the distribution function of Poisson's; slow to import

    # Every input has a row of both kernels, one of them without elements: a rate is data and never changes the text.
    for small, item in product((True, False), model.poisson):
        instance = instances[item.population]
        mean = item.rate * model.simulate.dt
        columns: dict[str, ColumnValue] = {
            "n": instance.size if (mean <= SMALL) == small else 0,
            "weight": item.weight,
            "mean": mean,
            "key": StreamKey(f"{item.name}[{item.population}]"),
        }
        for k in range(OUTCOMES):
            columns[f"below_{k}"] = float(pdtr(k, mean))
        used = [f"below_{k}" for k in range(OUTCOMES)] if small else ["mean"]
        formals: tuple[Formal, ...] = (
            ArrayFormal("input", real, Mode.UPDATE, ELEMENT),
            ScalarFormal("n", DType.I64),
            ScalarFormal("weight", real),
            ScalarFormal("key", DType.U64),
            *(ScalarFormal(c, real) for c in used),
        )
        draw = (Assign("u", Call("uniform", (Ref("key"), Ref("i"), Num(0)))),) if small else ()
        delivered = Binary("+", Ref("input"), Binary("*", Ref("weight"), _count(small)))
        key = ("poisson input", small)
        row = builder.row(
            key,
            f"{item.name}[{item.population}]: Poisson input into {item.into}",
            Kind.MAP,
            formals,
            Nest((Dim("i", "n"),), (*draw, Assign("input", delivered, item.span))),
            {"input": array_name(item.population, item.into)},
            columns,
            f"{item.name}[{item.population}]",
            item.span,
        )
        builder.launch("step", key, row, row + 1, join=False)
