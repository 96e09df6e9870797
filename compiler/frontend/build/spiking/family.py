"""A family of projections under construction: its per-member values.

Assumes: populations have been built; the values of the family are known.
Guarantees: an expression is checked once and evaluated once per distinct set of the values that it reads, so that an
error is reported once.
Does not: interpret the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

import compiler.ir.level0.model as l0
from compiler.expr.ast import refs
from compiler.expr.keys.kinds import Kind
from compiler.expr.units import Dimension
from compiler.frontend.build.shared.initial_values import explain_draws
from compiler.frontend.build.shared.readers import value_of
from compiler.frontend.build.shared.scope import TOTAL, Wanted, check_expression, total_name
from compiler.frontend.build.shared.values import Context, Names, number, out_of_bounds, valued
from compiler.frontend.build.spiking.member_values import MemberValue
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

V = TypeVar("V")
SIZES = ("n_from", "n_to")
ENDS = "from to"
"""The names of source and target among a member's values; no name of a user has a space."""
WORD = re.compile(r"[A-Za-z]\w*(?:\.[A-Za-z]\w*)?", re.ASCII)


@dataclass
class Family:
    """One entry of `projections` under construction."""

    name: str
    c: Context
    populations: Populations
    names: Names
    values: dict[str, MemberValue]
    placed: bool = False
    """Whether values follow from the places of both ends: members then have ENDS."""
    parts_from: Mapping[str, l0.Subset] = field(default_factory=dict)
    parts_to: Mapping[str, l0.Subset] = field(default_factory=dict)
    """The parts of sources and targets that are meant, where that is not all."""
    paired: bool = False
    """Whether each source has one target, that of its number, instead of all."""

    def parts(self, source: str, target: str) -> tuple[l0.Subset | None, l0.Subset | None]:
        """The parts of both ends of a member; None: all neurons."""
        return self.parts_from.get(source), self.parts_to.get(target)

    def drawn(self, source: str, target: str) -> tuple[l0.Population, l0.Population]:
        """Source and target as a rule sees them (l0.as_drawn)."""
        built = self.populations.built
        return l0.as_drawn(self.parts(source, target), built[source], built[target])

    def members(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Source and target of each member, and what its names are. A family may have 100,000."""
        built = self.populations.built  # a model may have 10,000 projections: nothing here is of all populations
        sizes = {name: built[name].size for name in {*sources, *targets}}
        size_from = sizes | {n: part.size for n, part in self.parts_from.items()}
        size_to = sizes | {n: part.size for n, part in self.parts_to.items()}
        for k, source in enumerate(sources):
            self.c.between()
            rows = [(name, value.row(source, k)) for name, value in self.values.items()]
            for target in targets[k : k + 1] if self.paired else targets:
                env: dict[str, Any] = {"n_from": size_from[source], "n_to": size_to[target]}
                for name, row in rows:
                    env[name] = row(target)
                if self.placed:
                    env[ENDS] = (source, target)
                yield source, target, env

    def per_member(
        self, node: Node, what: str, dimension: Dimension | None
    ) -> Callable[[dict[str, Any]], float | None]:
        """The value of a number for each member; checked once, an error is reported once."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not self.mentions(node):
            before = len(self.c.sink.items)
            once = number(node, self.c, what, dimension, self.names)
            if what in ("`weight`", "`delay`"):
                more = ", round: nearest" if what == "`delay`" else ""
                explain_draws(self.c.sink, before, node, dimension, more)
            return lambda env: once
        checked = check_expression(node, self.names.scope, Wanted(what, dimension), self.c.sink)
        if checked is None:
            return lambda env: None
        expr = checked.expr
        used = tuple(n for n in refs(expr) if n in self.values or n in SIZES)
        known: dict[Any, float | None] = {}
        numbers = dict(self.names.numbers)

        def compute(key: tuple[Any, ...], env: dict[str, Any]) -> float | None:
            if None in key:
                return None
            found: float | None = valued(expr, {**numbers, **env}, what, node.span, self.c.sink, inside=True)
            return found

        if not used:
            once = compute((), {})
            return lambda env: once
        key_of = itemgetter(*used)  # of one name, its value itself

        def value(env: dict[str, Any]) -> float | None:
            key = key_of(env)
            if key not in known:
                known[key] = compute(key if len(used) > 1 else (key,), env)
            return known[key]

        return value

    def once(self, node: Node, compute: Callable[[Names], V | None]) -> Callable[[dict[str, Any]], V | None]:
        """What `compute` makes of the names of a member, once for all that differ in nothing that `node` reads; None
        where one of its names has no value."""
        used, known = self.mentions(node), dict[tuple[Any, ...], V | None]()

        def of(env: dict[str, Any]) -> V | None:
            key = tuple(env[n] for n in used)
            if key not in known:
                names = Names(self.names.scope, {**self.names.numbers, **dict(zip(used, key, strict=True))})
                known[key] = None if None in key else compute(names)
            return known[key]

        return of

    def real(self, kind: Kind, node: Node, what: str) -> Callable[[dict[str, Any]], float | None]:
        """A number of `kind` for each member, within its bounds."""
        v = value_of(kind)
        at = self.per_member(node, what, v.dimension)
        high = float(v.largest) if v.integer else v.high

        good = set[float]()

        def inside(env: dict[str, Any]) -> float | None:
            value = at(env)
            if value is not None and value not in good:
                problem = out_of_bounds(value, v.low, high, above=v.above, below=v.below)
                if problem is not None:
                    self.c.sink.error("E0106", f"{what} must be {problem}; it is {value:g}", node.span)
                    return None
                good.add(value)
            return value if v.integer or value is None else float(value)

        return inside

    def mentions(self, node: Node) -> tuple[str, ...]:
        """The per-member names in the texts of `node`."""
        words: set[str] = {word for x in tree.texts(node) for word in WORD.findall(x.text)}
        words |= {total_name(n) for n in words} if TOTAL in words else set()
        return tuple(sorted(n for n in words if n in self.values or n in SIZES))
