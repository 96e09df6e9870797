"""Other populations that a definition reads: `others: {driver: {burst: "1"}}`, and `others: {driver: V1}` at its users.

Assumes: blocks have been validated; populations have been built before their users are checked.
Guarantees: a definition reads `driver.burst` with a declared dimension, so that it is checked by itself; each user
names one population for each of its names, which has these variables with these units, in numbers that fit.
Does not: place reads in the step (passes/model/order_populations.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import refs
from compiler.expr.units import describe, parse_unit
from compiler.frontend.build.shared.definition_builder import Draft, unit_dimension, unit_name
from compiler.frontend.build.shared.values import Context, entries_of
from compiler.frontend.schema.wording import allowed, suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node

WORDS: Final = ("pool", "population", "self", "pre", "post")
"""Names before a dot that have a meaning already."""
_UNKNOWN: Final = re.compile(r"unknown name `(\w+)\.([\w.]+)`")


def build_others(d: Draft) -> tuple[l0.OtherDecl, ...]:
    """The declarations of a definition; the dimensions of what it reads join `d.others`."""
    out: list[l0.OtherDecl] = []
    for entry in entries_of(d.node.get("others")):
        name, at = entry.name, entry.key.span
        if name in WORDS or name in {p.name for p in d.c.phases}:
            what = "a phase" if name not in WORDS else "a word of the language"
            d.c.sink.error("E0107", f"`{name}` is {what} and cannot name another population", at)
            d.others.update({f"{name}.{variable.name}": None for variable in entries_of(entry.value)})
            continue
        if not d.declare(entry.key, "another population"):
            continue
        reads: list[tuple[str, str]] = []
        for variable in entries_of(entry.value):
            dimension = unit_dimension(variable.value, d.c)
            d.others[f"{name}.{variable.name}"] = dimension
            d.places[f"{name}.{variable.name}"] = variable.key.span
            reads.append((variable.name, unit_name(dimension)))
        out.append(l0.OtherDecl(name, tuple(reads), at))
    return tuple(out)


def explain_undeclared(d: Draft, start: int) -> None:
    """Explains how a variable of another population is declared, where only the population is."""
    declared = {e.name for e in entries_of(d.node.get("others"))}
    for i, item in enumerate(d.c.sink.items[start:], start):
        found = _UNKNOWN.match(item.message)
        if found is not None and found[1] in declared:
            name = f"{found[1]}.{found[2]}"
            help = did_you_mean(name, d.others) if name not in d.others else "what is held per neuron does not read it"
            help = help or f"declare it, with its unit: `others: {{{found[1]}: {{{found[2]}: ...}}}}`"
            d.c.sink.items[i] = replace(item, help=help)


@dataclass(frozen=True)
class User:
    """A population or projection that uses the definition `of`, called `noun`, and what it gives under `others`."""

    name: str
    at: Span
    given: Node | None
    noun: str
    of: str
    declared_at: Span


def bind_others(
    user: User,
    declared: Sequence[l0.OtherDecl],
    populations: Mapping[str, l0.Population],
    names: Collection[str],
    c: Context,
) -> tuple[tuple[str, str], ...] | None:
    """The population of each name; None after an error (reported here, or where the population stands)."""
    before, given = len(c.sink.items), {e.name: e for e in entries_of(user.given)}
    here = declared_at(user.declared_at, f"the {user.noun}") if user.declared_at.via is None else ()
    for name, entry in given.items():
        if name not in {o.name for o in declared}:
            help = did_you_mean(name, [o.name for o in declared])
            help = help or (allowed("it reads", [o.name for o in declared]) if declared else "it reads no others")
            message = f"{user.noun} `{user.of}` reads no other population as `{name}`"
            c.sink.error("E0201", message, entry.key.span, help, here)
    bound: list[tuple[str, str]] = []
    for other in declared:
        chosen = given.get(other.name)
        if chosen is None and len(c.sink.items) > before:
            continue  # it may be meant by the name that is unknown
        if chosen is None:
            message = f"`{user.name}` does not say which population {user.noun} `{user.of}` reads as `{other.name}`"
            c.sink.error("E0103", message, user.at, f"write `others: {{{other.name}: ...}}`", declared_at(other.span))
            continue
        population = chosen.value.text if isinstance(chosen.value, tree.Scalar) else ""
        if population not in names:
            help = suggested(population, "the populations are", names)
            c.sink.error("E0201", f"there is no population `{population}`", chosen.value.span, help)
        elif population in populations:
            _check_variables(other, populations[population], chosen.value.span, c)
            bound.append((other.name, population))
    return tuple(bound) if len(c.sink.items) == before and len(bound) == len(declared) else None


def _check_variables(other: l0.OtherDecl, read: l0.Population, at: Span, c: Context) -> None:
    units, neuron = read.neuron.units, read.neuron
    inputs, params = {i.name for i in neuron.inputs}, {p.name for p in neuron.params}
    declared = (Related("it is read by this", other.span),)
    for variable, unit in other.reads:
        if variable in inputs or variable in params:
            what = "an input" if variable in inputs else "a parameter"
            message = f"`{other.name}.{variable}` is {what} of `{read.name}`: only states and pools are read"
            help = f"read a state that follows it: `update: [x = {variable}]`"
            c.sink.error("E0802", message, at, help, declared)
        elif variable not in units:
            known = [n for n in units if n not in inputs]
            message = f"`{read.name}` has no `{variable}`, which is read as `{other.name}.{variable}`"
            c.sink.error("E0201", message, at, suggested(variable, "it has", known, "it has no states"), declared)
        elif (wanted := parse_unit(unit)) and (has := parse_unit(units[variable])) and wanted[0] != has[0]:
            message = f"`{read.name}.{variable}` is {describe(has[0])}, but `{other.name}.{variable}` is declared as "
            c.sink.error("E0401", message + describe(wanted[0]), at, None, declared)


def check_numbers(p: l0.Population, populations: Mapping[str, l0.Population], at: Span, c: Context) -> None:
    """E0604 where a population cannot read the neurons or pools of another one by one; E0802 where its own pools
    cannot."""
    chosen = dict(p.others)
    for other in p.neuron.others:
        read = populations[chosen[other.name]]
        for variable, _ in other.reads:
            has, own = read.count(variable), p.count(variable)
            if has in (1, own):
                continue
            what = "pools" if "." in variable else "neurons"
            message = f"`{p.name}` has {own:,} {what}; `{read.name}`, which it reads as `{other.name}`, has {has:,}"
            help = "each one reads the one with its number, or all read the only one"
            if what == "neurons":
                help += f"; of several they read a reduction: `{other.name}.pool.{variable}_mean`"
            c.sink.error("E0604", message, at, help, declared_at(other.span))
            return
        _check_pools(p, read, other, c)


def _check_pools(p: l0.Population, read: l0.Population, other: l0.OtherDecl, c: Context) -> None:
    """What is computed per pool reads numbers per pool, over the whole population one number."""
    for pool in p.neuron.pools:
        reductions = [r.value for r in pool.reductions]
        equations = [s.value for s in (*pool.update, *(s for h in pool.on for s in h.actions))]
        for variable, _ in other.reads:
            name = f"{other.name}.{variable}"
            if read.count(variable) == 1:
                continue
            if "." not in variable and any(name in refs(e) for e in equations):
                message = f"the equations of the {pool.scope} of `{p.neuron.name}` read `{name}`"
                short = name.replace(".", "_")
                help = f"it differs from neuron to neuron; reduce it: `reduce: {{{short}: mean({name})}}`"
                c.sink.error("E0802", message, pool.span, help)
            elif (
                "." in variable
                and pool.scope == "population"
                and any(name in refs(e) for e in (*reductions, *equations))
            ):
                message = f"what is computed over all of `{p.name}` reads `{name}`, which has a value for each pool"
                c.sink.error("E0802", message, pool.span, "read it under `pool`, or in `update` of the neuron")


def check_one(
    bound: tuple[tuple[str, str], ...],
    declared: Sequence[l0.OtherDecl],
    populations: Mapping[str, l0.Population],
    at: Span,
    c: Context,
) -> bool:
    """Whether what synapses read is one number for all of them; E0604 where it is not."""
    chosen = dict(bound)
    for other in declared:
        read = populations[chosen[other.name]]
        for variable, _ in other.reads:
            if (has := read.count(variable)) == 1:
                continue
            what = "pools" if "." in variable else "neurons"
            message = f"`{read.name}`, which all synapses here read as `{other.name}`, has {has:,} {what}"
            help = "a population of one neuron, or of one pool, has one value for all; of their own neurons, "
            help += f"synapses read `pre.{variable}` and `post.{variable}`"
            c.sink.error("E0604", message, at, help, declared_at(other.span))
            return False
    return True
