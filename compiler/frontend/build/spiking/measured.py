"""Numbers of a whole network: sums, means and extremes over neurons or synapses, for tables and criteria.

Assumes: populations and projections have been built.
Guarantees: every variable exists and is stored; each reduction reads one owner.
Does not: evaluate (compiler/runtime/record/measured.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.expr.ast import Call, Expr, Ref, refs, rewrite, show
from compiler.expr.units import DIMENSIONLESS, Dimension, canonical_name, parse_unit
from compiler.frontend.build.shared.scope import Wanted, check_tree, read_expression
from compiler.frontend.build.shared.values import Context, with_numbers
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.ir.level2.synapse_values import synapse_unit, synapse_variables

OPERATIONS: Final = ("sum", "mean", "min", "max")


@dataclass(frozen=True)
class Owners:
    """What may be measured: (population, variable) and (projection, variable) by `owner.variable`, with dimensions.
    `broken`: populations and projections with an error."""

    dimensions: Mapping[str, Dimension | None]
    populations: frozenset[str]
    broken: frozenset[str]

    def split(self, name: str) -> tuple[str, str]:
        """(owner, variable) of a name."""
        owner, _, variable = name.partition(".")
        return owner, variable


def owners_of(populations: Populations, projections: tuple[l0.Projection, ...], declared: Iterable[str]) -> Owners:
    """Everything that neurons and synapses hold. `declared`: the names of all projections."""
    found = {name: dimension for name, dimension in _all(populations, projections)}
    good = {*populations.built, *(p.name for p in projections)}
    return Owners(found, frozenset(populations.built), frozenset({*populations.names, *declared} - good))


def _all(populations: Populations, projections: tuple[l0.Projection, ...]) -> Iterator[tuple[str, Dimension | None]]:
    built = tuple(populations.built.values())
    for p in projections:
        if p.storage in ("bitmask", "procedural"):
            continue
        for variable in synapse_variables(p):
            if variable != "delay":
                yield f"{p.name}.{variable}", _dimension(synapse_unit(p, variable, built))
    for name, population in populations.built.items():
        for variable, unit in population.neuron.units.items():
            yield f"{name}.{variable}", _dimension(unit)


def _dimension(unit: str) -> Dimension | None:
    found = parse_unit(unit)
    return DIMENSIONLESS if found is None else found[0]


def build_measured(node: Node, what: str, owners: Owners, c: Context, condition: bool = False) -> l0.Measured | None:
    """An expression over reductions; None after an error."""
    if not isinstance(node, Scalar):
        return None
    names = c.names.scope.extended(owners.dimensions)
    whole = read_expression(node, names, c.sink)
    if whole is None or any(owners.split(n)[0] in owners.broken for n in refs(whole)):
        return None
    found: dict[str, tuple[l0.Measure, Dimension | None]] = {}
    before = len(c.sink.items)

    def reduced(e: Expr) -> Expr:
        if not (isinstance(e, Call) and e.func in OPERATIONS and len(e.args) == 1):
            return e
        one = _measure(e, node, what, owners, c)
        name = show(e)
        if one is not None:
            found[name] = one
        return Ref(name, e.span)

    outer = rewrite(whole, reduced, top_down=True)
    if len(c.sink.items) > before:
        return None
    bare = sorted(refs(outer) & owners.dimensions.keys() - c.names.scope.kinds.keys())
    if bare or not found:
        message = f"{what} must be made of `sum`, `mean`, `min` and `max` over neurons or synapses"
        example = bare[0] if bare else next(iter(owners.dimensions), "output.v")
        c.sink.error("E0311", message, node.span, f"for example `mean({example})`")
        return None
    known = {name: dimension for name, (_, dimension) in found.items()}
    scope = c.names.scope.extended(known)
    checked = check_tree(outer, node.span, scope, Wanted(what, None, condition), c.sink)
    if checked is None:
        return None
    unit = canonical_name(checked.dimension or DIMENSIONLESS)
    return l0.Measured(_numbers(checked.expr, c), tuple(m for m, _ in found.values()), unit)


def _numbers(e: Expr, c: Context) -> Expr:
    """`e` with the parameters of the model as numbers."""
    return with_numbers(e, {n: v for n, v in c.names.numbers.items() if isinstance(v, int | float)})


def _measure(
    e: Call, node: Scalar, what: str, owners: Owners, c: Context
) -> tuple[l0.Measure, Dimension | None] | None:
    """One reduction with its dimension; None after an error."""
    value = e.args[0]
    read = sorted(n for n in refs(value) if "." in n)
    unknown = next((n for n in read if n not in owners.dimensions), None)
    if unknown is not None:
        owner = owners.split(unknown)[0]
        own = [n for n in owners.dimensions if owners.split(n)[0] == owner]
        none = "states of neurons and synapses are read; a state that is 1 counts them"
        help = did_you_mean(unknown, owners.dimensions) or (allowed("there are", own) if own else none)
        c.sink.error("E0302", f"unknown name `{unknown}`", e.span if e.span is not node.span else node.span, help)
        return None
    several = sorted({owners.split(n)[0] for n in read})
    if len(several) != 1:
        message = f"a reduction in {what} reads " + (
            f"`{several[0]}` and `{several[1]}`" if several else "nothing of neurons or synapses"
        )
        help = "each reduction is over the neurons of one population, or the synapses of one projection"
        c.sink.error("E0311", message, node.span, help)
        return None
    scope = c.names.scope.extended({n: owners.dimensions[n] for n in read})
    checked = check_tree(value, node.span, scope, Wanted(what), c.sink)
    if checked is None:
        return None
    owner = several[0]
    bare = {n: owners.split(n)[1] for n in read}
    numbers = _numbers(checked.expr, c)
    inner = rewrite(numbers, lambda x: Ref(bare[x.name]) if isinstance(x, Ref) and x.name in bare else x)
    if owner in owners.populations:
        return l0.Measure(show(e), e.func, inner, (owner,)), checked.dimension
    return l0.Measure(show(e), e.func, inner, (), owner), checked.dimension
