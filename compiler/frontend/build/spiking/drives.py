"""Drives implied by equations (timed arrays and white noise) and by time-dependent values.

Assumes: expressions of a definition are checked; timed arrays are read as hidden names
(frontend/build/shared/scope.py).
Guarantees: a neuron definition that reads a timed array or `xi` gets a hidden parameter for it, and every population
of it a drive into that parameter. Noise is additive or multiplicative (linear) in `dynamics`; where its factor reads
states the method is Euler-Maruyama, which computes the Ito integral.
Does not: handle currents (currents.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.core.source import Span
from compiler.expr.ast import Binary, Bool, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.diff import linear_in
from compiler.expr.inline import named, reads_through, too_deep
from compiler.expr.units import TIME, Dimension
from compiler.frontend.build.shared.definition_builder import Draft
from compiler.frontend.build.shared.phases import counters
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.self_names import HIDDEN, PARAMS, SELF, param_values
from compiler.frontend.build.shared.values import Context, Names
from compiler.frontend.yaml.tree import Node, Scalar

NOISE: Final = re.compile(r"\bxi(?:_[A-Za-z0-9_]+)?\b")
"""White noise: `xi`, and `xi_name` for further independent processes."""
NOISE_DIMENSION: Final = TIME ** Fraction(-1, 2)
_TIME: Final = re.compile(r"\bt\b")


# -------------------------------------------------------------------------------- noise in equations


def with_noise(nodes: Iterable[Node], scope: Scope) -> tuple[Scope, tuple[str, ...]]:
    """`scope` with the white noise processes of the expressions, unless a name of the file shadows them."""
    texts = [n.text for n in nodes if isinstance(n, Scalar) and isinstance(n.value, str)]
    found = dict.fromkeys(name for text in texts for name in NOISE.findall(text) if name not in scope.kinds)
    names = tuple(found)
    return scope.extended(dict.fromkeys(names, NOISE_DIMENSION)), names


def noise_method(
    d: Draft, odes: tuple[l0.Ode, ...], lets: tuple[l0.Set, ...], noise: tuple[str, ...], method: l0.Method
) -> l0.Method:
    """The method for equations with noise; E0313 where it is not linear, or the method does not support it."""
    noisy = [ode for ode in odes if reads_through((ode.rhs,), lets) & set(noise)]
    known = named(lets) if noisy else {}
    for ode in noisy:
        rhs = substitute(ode.rhs, known)
        if (how := too_deep(rhs)) is not None:
            d.c.sink.error("E0307", f"`d{ode.state}/dt` {how} when its named expressions are put in", ode.span)
            continue
        found = linear_in(rhs, noise)
        if found is None:
            message = f"`d{ode.state}/dt` is not linear in `{_first(rhs, noise)}`"
            d.c.sink.error("E0313", message, ode.span, "write it as `f + g * xi`")
            continue
        read = sorted(set().union(*(refs(g) for g in found[0].values())) & d.states.keys())
        if not read:
            continue
        if method is l0.Method.AUTO:
            method = l0.Method.EULER
        elif method is not l0.Method.EULER:
            which = _first(rhs, noise)
            message = f"the factor of `{which}` reads `{read[0]}`, which `method: {method.value}` cannot integrate"
            d.c.sink.error("E0313", message, ode.span, "write `method: euler`: the integral is Ito's")
    return method


def _first(e: Expr, noise: tuple[str, ...]) -> str:
    return next(n for n in noise if n in refs(e))


def timed_reads(d: Draft) -> tuple[str, ...]:
    """The timed arrays that the definition reads."""
    return tuple(n for n in d.c.names.scope.timed if l0.hidden(n) in d.read)


def hide_noise(definition: l0.NeuronDef, noise: tuple[str, ...]) -> l0.NeuronDef:
    """The definition with noise in `dynamics` under its hidden names."""
    if not noise:
        return definition
    names: dict[str, Expr] = {n: Ref(l0.hidden(n)) for n in noise}
    odes = tuple(l0.Ode(o.state, substitute(o.rhs, names), o.span) for o in definition.dynamics)
    return replace(definition, dynamics=odes)


def with_hidden(d: Draft, definition: l0.NeuronDef, noise: tuple[str, ...]) -> l0.NeuronDef:
    """The definition with a hidden parameter for each timed array, noise and place (`self.i`) that it reads."""
    found = (*(l0.hidden(n) for n in (*timed_reads(d), *noise)), *sorted(d.read & HIDDEN))
    if not found:
        return definition
    extra = tuple(l0.ParamDecl(n, "1", l0.Const(0.0), span=definition.span) for n in found)
    return replace(hide_noise(definition, noise), params=(*definition.params, *extra))


# ------------------------------------------------------------------------------------------- drives


@dataclass
class Drives:
    """The drives of a model, in order of discovery, and what they read."""

    c: Context
    timed: dict[str, l0.TimedArray] = field(default_factory=dict)
    found: list[l0.Drive] = field(default_factory=list)
    _hidden: dict[str, l0.SourceDef] = field(default_factory=dict)

    def add(self, drive: l0.Drive, size: int) -> None:
        """Adds a drive into a population of `size` neurons; E0703 where the columns of an array do not match."""
        self.found.append(drive)
        check_columns(drive.source, self.timed, size, drive.population, drive.span, self.c.sink)

    def add_hidden(self, populations: Iterable[l0.Population]) -> None:
        """The drives into hidden parameters."""
        for p in populations:
            for decl in p.neuron.params:
                if decl.name != l0.hidden(decl.name.removeprefix("_")) or decl.name in HIDDEN:
                    continue
                name = decl.name.removeprefix("_")
                if name not in self._hidden:
                    self._hidden[name] = self._source(name, decl.span)
                kind = "noise" if NOISE.fullmatch(name) else "timed"
                self.add(l0.Drive(f"{kind}.{name}", p.name, decl.name, self._hidden[name], span=p.span), p.size)

    def check_poisson(self, inputs: Iterable[l0.PoissonInput], populations: Mapping[str, l0.Population]) -> None:
        """E0703 for arrays in rates."""
        for item in inputs:
            if item.changing is not None:
                size = populations[item.population].size
                check_columns(item.changing.source, self.timed, size, item.population, item.span, self.c.sink)

    def _source(self, name: str, at: Span) -> l0.SourceDef:
        noise = NOISE.fullmatch(name) is not None
        neuron = l0.NeuronDef("white noise" if noise else "timed array", (), (), (), (), (), (), None, l0.Method.AUTO)
        return l0.SourceDef(neuron, Ref(l0.hidden(name)), () if noise else (name,), (name,) if noise else (), at)


def check_columns(
    source: l0.SourceDef, timed: Mapping[str, l0.TimedArray], size: int, population: str, at: Span, sink: Sink
) -> None:
    """E0703 for a timed array whose columns do not match the neurons of the population."""
    for name in source.timed:
        array = timed.get(name)
        if array is not None and array.columns not in (0, size):
            shown = name.partition(".")[2] or name
            message = f"`{shown}` has {array.columns:,} columns; `{population}` has {size:,} neurons"
            help = "a timed array with two axes has a column for each neuron"
            if array.layer:
                message = f"`{array.layer}` has {array.columns:,} values; `{population}` has {size:,} neurons"
                help = "a layer that drives a population has a value for each neuron"
            sink.error("E0703", message, at, help)


def reads_time(node: Node, c: Context) -> bool:
    """Whether a value is an expression of the time, or of counters of phases."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    counted = any(re.search(rf"\b{re.escape(name)}\b", node.text) for name in counters(c))
    return counted or ("t" not in c.names.scope.kinds and _TIME.search(node.text) is not None)


def _literals_apart(e: Expr) -> tuple[Expr, dict[str, float]]:
    """The expression with its literals as parameters, so that expressions that differ only in literals share one text;
    integer exponents are kept, as they are structure."""
    taken = refs(e)
    values: dict[str, float] = {}

    def apart(x: Expr) -> Expr:
        if isinstance(x, Num):
            name = next(n for k in count(len(values)) if (n := f"c{k}") not in taken)
            taken.add(name)
            values[name] = float(x.value)
            return Ref(name, x.span)
        if isinstance(x, Binary) and x.op == "**" and isinstance(x.right, Num):
            return replace(x, left=rewrite(x.left, apart, top_down=True, shared=False))
        return x

    return rewrite(e, apart, top_down=True, shared=False), values


def source_of(
    name: str,
    node: Node,
    what: str,
    dimension: Dimension | None,
    c: Context,
    names: Names,
    size: int,
    shape: tuple[int, ...],
) -> tuple[l0.SourceDef, tuple[tuple[str, l0.Value], ...]] | None:
    """An expression of time, and of places of neurons, as a source, and the values of its parameters (those of `names`
    that are not model parameters) for a population of that size and shape; None after an error."""
    scope = names.scope.extended({"t": TIME, "dt": TIME, **SELF, **counters(c)})
    found = check_expression(node, scope, Wanted(what, dimension), c.sink)
    if found is None:
        return None
    expr, literals = _literals_apart(found.expr)
    used = refs(expr)
    flags: dict[str, Expr] = {n: Ref(n).ne(0.0) for n in used if isinstance(names.numbers.get(n), bool)}
    model_params = tuple(n for n in c.names.numbers if n in used and names.numbers[n] is c.names.numbers[n])
    own: dict[str, Any] = {n: names.numbers[n] for n in sorted(used) if n in names.numbers and n not in model_params}
    own |= literals
    places = param_values(frozenset(used & HIDDEN), size, shape)
    decls = tuple(l0.ParamDecl(n, "1", None) for n in (*own, *places))
    neuron = l0.NeuronDef(
        name, decls, (), (), (), (), (), None, l0.Method.AUTO, model_params=model_params, span=node.span
    )
    timed = tuple(n for n in c.names.scope.timed if l0.hidden(n) in used)
    values = (*((n, l0.Const(float(v))) for n, v in own.items()), *places.items())
    return l0.SourceDef(neuron, substitute(expr, flags), timed, (), node.span), values


def restricted(drive: l0.Drive, part: l0.Subset | None, population: l0.Population) -> l0.Drive:
    """A drive of the neurons of a part alone: 0 for the others."""
    if part is None:
        return drive
    index = PARAMS["self.i"]
    inside: Expr = Bool(False)
    for first, last in part.runs:
        inside = inside | ((Ref(index) >= first) & (Ref(index) <= last))
    neuron, source = drive.source.neuron, drive.source
    params = drive.params
    if index not in {p.name for p in neuron.params}:
        neuron = replace(neuron, params=(*neuron.params, l0.ParamDecl(index, "1", None)))
        params = (*params, *param_values(frozenset({index}), population.size, population.shape).items())
    held = replace(source, neuron=neuron, value=Cond(inside, source.value, Num(0.0)))
    return replace(drive, source=held, params=params)
