"""Connectivity: from a resolved block of `connect` to the rule of a family and its arguments per member.

Assumes: populations have been built.
Guarantees: probabilities are in [0, 1], counts are integers within the range of the random generator; populations are
compatible with the rule (sizes, shapes, pairs); a storage incompatible with the rule is an error.
Does not: draw connections, read lists of pairs (pairs.py), expressions (rule.py) or kernels
(kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import Span
from compiler.expr.ast import Expr
from compiler.expr.keys.kinds import Block
from compiler.frontend.build.projections.kernels import Kernels, check_planes, read_planes
from compiler.frontend.build.projections.pairs import Pairs, read_pairs
from compiler.frontend.build.projections.rule import read_rule
from compiler.frontend.build.projections.storage import check_bits, read_storage
from compiler.frontend.build.shared.readers import Reader, part
from compiler.frontend.build.shared.values import Context, mapping
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.language.spiking.connect import CONNECT
from compiler.frontend.yaml import tree

Args = tuple[tuple[str, float | int], ...]
Arguments = Callable[[str, str, dict[str, Any]], "Args | None"]
"""(source, target, environment of the member) -> numbers of the rule; None after an error."""


@dataclass
class Connectivity:
    """The connectivity of one family. `rule`, `storage`, `probability`, `planes`: as in Projection
    (ir/level0/model.py)."""

    rule: str
    written: str  # the rule's name in the file
    span: Span
    storage: str
    arguments: Arguments
    probability: Expr | None = None
    planes: l0.Planes | None = None
    pairs: Pairs | None = None
    kernels: Kernels = field(default_factory=Kernels)

    @property
    def count(self) -> int | None:
        """The number of values in a list or file, where it is known: one per pair."""
        return None if self.pairs is None else len(self.pairs.pairs)

    @property
    def listed(self) -> bool:
        """Whether weights may be a list or a file: for pairs, and for the elements of a kernel (whose `weight` rejects
        invalid ones)."""
        return self.pairs is not None or self.planes is not None

    def weight(self, value: l0.Value, source: str, target: str, family: Family) -> l0.Value | None:
        """The level-0 weight of one member; None after an error."""
        if self.planes is None:
            return value
        return self.kernels.weight(value, self.planes, source, target, family)


def connectivity(entry: tree.Entry, family: Family) -> Connectivity | None:
    """The alternative that `connect` chooses; None after an error that makes checking members impossible."""
    name, at, c = entry.name, entry.key.span, family.c
    r = Reader(part(CONNECT.by_name[name].kind, Block), mapping(entry.value), c, family.names)
    storage = read_storage(name, r)
    own = int("autapses" not in r or r.flag("autapses"))
    match name:
        case "all_to_all":
            return Connectivity(name, name, at, storage, lambda s, t, env: (("autapses", own),))
        case "one_to_one":
            return Connectivity(name, name, at, storage, _one_to_one(at, own, family))
        case "fixed_probability":
            return Connectivity(name, name, at, storage, _probability(r, own, family))
        case "fixed_total" | "fixed_indegree" | "fixed_outdegree":
            return Connectivity(name, name, at, storage, _number(name, r, own, family))
        case "rule":
            rule = read_rule(r, own, family)
            if rule is None:
                return None
            return Connectivity("expression", name, at, storage, rule.arguments, rule.probability)
        case "pairs":
            pairs = read_pairs(r)
            if pairs is None:
                return None
            check_bits(storage, pairs, r)
            return Connectivity(name, name, at, storage, _pairs(pairs, family), pairs=pairs)
        case "conv2d" | "avg_pool2d":
            planes = read_planes(name, r)
            if planes is None:
                return None

            def shaped(source: str, target: str, env: dict[str, Any]) -> Args | None:
                return () if check_planes(name, planes, source, target, at, family) else None

            return Connectivity(name, name, at, storage, shaped, planes=planes)
    return None


def _one_to_one(at: Span, own: int, family: Family) -> Arguments:
    def sizes(source: str, target: str, env: dict[str, Any]) -> Args | None:
        if source == target and own == 0:
            return None
        same_sizes(source, target, at, family.populations, family.c)
        return ()

    return sizes


def _pairs(pairs: Pairs, family: Family) -> Arguments:
    def fit(source: str, target: str, env: dict[str, Any]) -> Args:
        pairs.check(source, target, family.populations, family.c)
        return ()

    return fit


def _probability(r: Reader, own: int, family: Family) -> Arguments:
    node = r.get("p")
    if node is None:
        return lambda s, t, env: None
    probability = family.real(r.of("p"), node, "`p`")

    def with_p(source: str, target: str, env: dict[str, Any]) -> Args | None:
        p = probability(env)
        return None if p is None else (("p", p), ("autapses", own))

    return with_p


def _number(rule: str, r: Reader, own: int, family: Family) -> Arguments:
    """`number` of the rules with a fixed count; the first member for which it is too large is reported."""
    node, c = r.get("number"), family.c
    if node is None:
        return lambda s, t, env: None
    repeat = int(r.flag("multapses"))
    count = family.real(r.of("number"), node, "`number`")
    told, known = False, dict[float, Args]()

    def with_number(source: str, target: str, env: dict[str, Any]) -> Args | None:
        nonlocal told
        n = count(env)
        if n is None:
            return None
        if n != int(n):
            message = f"`number` must be a whole number; it is {n:g}"
            c.sink.error("E0102", message, node.span, "use `round(...)`")
            return None
        alone = int(source == target and not own)
        n_from, n_to = int(env["n_from"]), int(env["n_to"])
        pool = n_from - alone if rule == "fixed_indegree" else n_to - alone
        pool *= n_from if rule == "fixed_total" else 1
        if (n > 0 and pool == 0) or (not repeat and n > pool):
            if not told:
                told = True
                _too_many(rule, int(n), pool, source, target, bool(alone), node, family)
            return None
        args = known.get(n)
        if args is None:
            args = known[n] = (("number", int(n)), ("multapses", repeat), ("autapses", own))
        return args

    return with_number


def _too_many(
    rule: str, n: int, pool: int, source: str, target: str, alone: bool, node: tree.Node, family: Family
) -> None:
    places = family.populations.places
    other = " but itself" if alone else ""
    if pool == 0:
        message = f"`{source}` has one neuron, which has no other to connect to"
        family.c.sink.error("E0604", message, node.span, "leave `autapses: false` out")
        return
    each = {
        "fixed_total": f"there are {pool:,} pairs of neurons of `{source}` and `{target}`",
        "fixed_indegree": f"each neuron of `{target}` has {pool:,} possible sources in `{source}`{other}",
        "fixed_outdegree": f"each neuron of `{source}` has {pool:,} possible targets in `{target}`{other}",
    }[rule]
    if rule == "fixed_total" and alone:
        each += " without autapses"
    message = f"`number` is {n:,}, but {each}, and `multapses: false` takes each at most once"
    related = tuple(Related("declared here", places[p]) for p in dict.fromkeys((source, target)))
    family.c.sink.error("E0106", message, node.span, "a smaller number, or `multapses: true`", related)


def same_sizes(source: str, target: str, at: Span, populations: Populations, c: Context) -> None:
    n, m = populations.built[source].size, populations.built[target].size
    if n != m:
        message = f"`one_to_one` needs populations of one size: `{source}` has {n:,}, `{target}` has {m:,}"
        related = tuple(Related("declared here", populations.places[p]) for p in dict.fromkeys((source, target)))
        c.sink.error("E0604", message, at, None, related)
