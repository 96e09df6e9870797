"""Connectivity: from a resolved block of `connect` to the rule of a family and its arguments per member; of
`connect: {rule: ...}` an expression over indices, positions and distance.

Assumes: populations have been built; the values of the family are known.
Guarantees: numbers are within the bounds of their keys, counts are integers; the rule (compiler/connect) accepts the
populations of every member; a storage incompatible with the rule is an error. A rule's expression is one for the
family, a Boolean or a probability, over `i`, `j`, sizes, positions and extents of both populations, and numbers among
the arguments of each member; `distance` is expanded.
Does not: draw connections, read lists of pairs (pairs.py) or weights of kernels (kernels.py), evaluate an expression,
or check that probabilities are at most 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.connect import CONNECT, RULES, ConnectRule, Form
from compiler.connect.probability import EXPRESSION
from compiler.connect.rule import Args, Misfit, Place, Setting, as_given
from compiler.core.diagnostics import Related, declared_at
from compiler.core.source import Span
from compiler.expr.ast import Bool, Cond, Expr, Num, Ref, refs, substitute
from compiler.expr.keys.kinds import Block, Flag, OneOf, Value
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.places.names import EXTENTS, MEANINGS, NAMES, Space, check_grids, extents, pool_extents
from compiler.frontend.build.projections.kernels import Kernels
from compiler.frontend.build.projections.pairs import Pairs, read_pairs
from compiler.frontend.build.projections.storage import check_bits, read_storage
from compiler.frontend.build.shared.readers import Reader, default_of, part
from compiler.frontend.build.shared.scope import Scope, Wanted, check_expression
from compiler.frontend.build.shared.values import Context, mapping
from compiler.frontend.build.spiking.family import SIZES, WORD, Family
from compiler.frontend.yaml import tree


@dataclass(frozen=True)
class Rule:
    """`probability`: the expression of level 0. `used`: names of the model and the family that it reads, with their
    kinds. `near`: where `distance` stands, if it reads that."""

    probability: Expr
    own: int
    space: Space
    used: Mapping[str, Kind]
    near: tree.Node | None
    family: Family

    def arguments(self, source: str, target: str, env: dict[str, Any]) -> Args | None:
        """See connect.py."""
        a, b = self.family.populations.built[source], self.family.populations.built[target]
        if self.near is not None and not check_grids(a, b, self.near, self.family):
            return None
        out = place_arguments(a, b, self.own, self.probability)
        if "spacing" in refs(self.probability):
            out.append(("spacing", self.space.spacing))
        for name, kind in self.used.items():
            value = env[name] if name in env else self.family.names.numbers[name]
            if value is None:
                return None
            out.append((name, float(value) if kind is Kind.REAL else int(value)))
        return tuple(out)


def place_arguments(a: l0.Population, b: l0.Population, own: int, e: Expr) -> list[tuple[str, float | int]]:
    """What a rule with the expression `e` is told about two populations. `own`: autapses are allowed."""
    sizes = dict(zip(EXTENTS, (*extents(a), *extents(b)), strict=True))
    sizes |= {n: v for n, v in pool_extents(a, b).items() if n in refs(e)}
    return [("autapses", own), *sizes.items()]


def read_rule(r: Reader, own: int, space: Space, family: Family) -> Rule | None:
    """The rule of a validated block; None after an error."""
    c = family.c
    hidden = next((name for name in family.values if name in NAMES), None)
    if hidden is not None:
        message = f"`{hidden}` has a meaning of its own in a `rule`, which a value of that name would hide"
        c.sink.error("E0107", message, r.span, "give the value another name")
        return None
    whole = _whole(r, space.scope(family.names.scope), c)
    if whole is None or _ambiguous(r, whole, c):
        return None
    near = (r.get("probability") or r.get("when")) if "distance" in refs(whole) else None
    names = refs(whole) & (family.names.numbers.keys() | family.values.keys())
    kinds = family.names.scope.kinds
    used = {name: kinds[name] for name in sorted(names - {*NAMES, *SIZES})}
    # Truth values are 0 and 1 among the arguments.
    bindings: dict[str, Expr] = {name: Ref(name).ne(0) for name, kind in used.items() if kind is Kind.BOOL}
    return Rule(substitute(space.expanded(whole), bindings), own, space, used, near, family)


def _ambiguous(r: Reader, whole: Expr, c: Context) -> bool:
    """Whether the rule reads a name of places that a parameter of the model has, too; reports it."""
    scope = c.names.scope
    name = min(refs(whole) & {*NAMES, *SIZES} & scope.kinds.keys(), default=None)
    if name is None:
        return False
    texts = [x for key in ("when", "probability") for x in tree.texts(r.get(key))]
    places = (tree.within(x, *m.span()) for x in texts for m in WORD.finditer(x.text) if m[0] == name)
    span = next(places, r.span)
    message = f"`{name}` is the {MEANINGS.get(name, '`spacing` of places')} in a `rule`, and a parameter of the model"
    related = declared_at(scope.places.get(name), "the parameter")
    c.sink.error("E0107", message, span, "give the parameter another name", related)
    return True


def _whole(r: Reader, scope: Scope, c: Context) -> Expr | None:
    """The condition, the probability, or where both stand the probability under the condition; None after an error."""
    parts: dict[str, Expr] = {}
    no_random = "random numbers cannot stand here; pairs are drawn with `probability`"
    for key, dimension in (("probability", DIMENSIONLESS), ("when", None)):
        node = r.get(key)
        if node is None:
            continue
        checked = check_expression(node, scope, Wanted(f"`{key}`", dimension, key == "when", no_random), c.sink)
        if checked is None:
            return None
        parts[key] = checked.expr
    if len(parts) == 2:
        return Cond(parts["when"], parts["probability"], Num(0.0))
    return next(iter(parts.values()), None)


Arguments = Callable[[str, str, dict[str, Any]], "Args | None"]
"""(source, target, environment of the member) -> numbers of the rule; None after an error, or where the member is left
out."""


@dataclass
class Connectivity:
    """The connectivity of one family. `storage`, `probability`, `planes`: as in Projection (ir/level0/model.py);
    `condition`: the probability is a truth value; `span`: of the rule's name."""

    rule: ConnectRule
    span: Span
    storage: str
    arguments: Arguments
    probability: Expr | None = None
    condition: bool = False
    planes: l0.Planes | None = None
    pairs: Pairs | None = None
    kernels: Kernels = field(default_factory=Kernels)

    @property
    def count(self) -> int | None:
        """The number of values in a list or file, where it is known: one per pair."""
        return None if self.pairs is None else len(self.pairs.pairs)

    def weight(self, value: l0.Value, source: str, target: str, family: Family) -> l0.Value | None:
        """The level-0 weight of one member; None after an error."""
        if self.planes is None:
            return value
        if isinstance(value, l0.Placed):
            message = "the weights of a kernel are shared by all positions: they cannot follow from places"
            family.c.sink.error("E0802", message, value.span, "give one number, a distribution, a list or an array")
            return None
        return self.kernels.weight(value, self.planes, source, target, family)


def connectivity(entry: tree.Entry, space: Space, family: Family, common: bool) -> Connectivity | None:
    """The alternative that `connect` chooses; None after an error that makes checking members impossible. `space`: what
    `distance` means; `common`: source and target are different parts of one population, which share neurons."""
    at, c = entry.key.span, family.c
    rule = next(x for x in RULES if x.keys.name == entry.name)
    r = Reader(part(CONNECT.by_name[entry.name].kind, Block), mapping(entry.value), c, family.names)
    storage = read_storage(rule, r)
    if rule.expression:
        whole = read_rule(r, int(r.flag("autapses")), space, family)
        return (
            None
            if whole is None
            else Connectivity(rule, at, storage, whole.arguments, whole.probability, r.get("probability") is None)
        )
    if rule.expressed is not None:
        return _expressed(rule, r, at, storage, family)
    if rule.form is Form.GIVEN:
        pairs = read_pairs(r)
        if pairs is None:
            return None
        check_bits(storage, rule, pairs, r)
        return Connectivity(rule, at, storage, _pairs(pairs, family), pairs=pairs)
    planes: l0.Planes | None = None
    if rule.planes is not None:
        settings = _settings(r)
        if settings is None:
            return None
        planes = rule.planes(settings)
    numbers = _numbers(rule, r, planes, at, family)
    if common and rule.form is Form.DIAGONAL and not r.flag("autapses"):
        _check_one_to_one(family, at)
    if common and rule.each is not None and not r.flag("autapses"):
        return _pair_by_pair(rule.each, numbers, at, storage, family)
    return Connectivity(rule, at, storage, numbers, planes=planes)


def _check_one_to_one(family: Family, at: Span) -> None:
    """E0802 where a neuron of two parts would be connected to itself, against `autapses: false`."""
    parts = (*family.parts_from.items(), *family.parts_to.items())
    name = parts[0][0]
    size = family.populations.built[name].size
    one, two = (np.arange(size) if p is None else p.indices for p in family.parts(name, name))
    both = min(len(one), len(two))
    same = one[:both][one[:both] == two[:both]]
    if len(same):
        message = f"neuron {same[0]} of `{name}` has the same place in both parts: it would be connected to itself"
        family.c.sink.error("E0802", message, at, "other parts, or `pairs: {list: [...]}`")


def _pair_by_pair(each: Expr, numbers: Arguments, at: Span, storage: str, family: Family) -> Connectivity:
    """A rule that decides pair by pair as an expression over places, which tells neurons of different parts apart."""

    def arguments(source: str, target: str, env: dict[str, Any]) -> Args | None:
        args = numbers(source, target, env)
        if args is None:
            return None
        a, b = (family.populations.built[p] for p in (source, target))
        return (*place_arguments(a, b, 0, each), *((n, v) for n, v in args if n in refs(each)))

    return Connectivity(EXPRESSION, at, storage, arguments, each, isinstance(each, Bool))


def _expressed(rule: ConnectRule, r: Reader, at: Span, storage: str, family: Family) -> Connectivity | None:
    """A rule that stands for a condition over places."""
    settings = _settings(r)
    if settings is None or rule.expressed is None:
        return None
    made, told = rule.expressed(settings), set[str]()

    def arguments(source: str, target: str, env: dict[str, Any]) -> Args | None:
        a, b = (family.populations.built[p] for p in (source, target))
        try:
            own = made.arguments(Place(a, b, {}))
        except Misfit as misfit:
            if misfit.message not in told:
                told.add(misfit.message)
                _report(misfit, at, r, family)
            return None
        return (*place_arguments(a, b, int(r.flag("autapses")), made.condition), *own)

    return Connectivity(EXPRESSION, at, storage, arguments, made.condition, True)


def _pairs(pairs: Pairs, family: Family) -> Arguments:
    def fit(source: str, target: str, env: dict[str, Any]) -> Args:
        pairs.check(source, target, family.populations, family.c)
        return ()

    return fit


def _settings(r: Reader) -> dict[str, Setting] | None:
    """Flags and pairs of integers of a family; None after an error."""
    found: dict[str, Setting | None] = {}
    for key in r.kind.fields:
        if isinstance(key.kind, Flag):
            found[key.name] = r.flag(key.name)
        elif isinstance(key.kind, OneOf) and (r.get(key.name) is not None or key.default is not None or key.required):
            both = r.each(key.name, 2)
            found[key.name] = None if both is None else (both[0], both[1])
    good = {name: setting for name, setting in found.items() if setting is not None}
    return good if len(good) == len(found) else None


def _numbers(rule: ConnectRule, r: Reader, planes: l0.Planes | None, at: Span, family: Family) -> Arguments:
    """Numbers and flags of the rule; what is wrong with a number is reported for the first member that has it."""
    fixed: dict[str, float | int] = {}
    numbers: dict[str, Callable[[dict[str, Any]], float | None]] = {}
    for key in r.kind.fields:
        node = r.get(key.name)
        if isinstance(key.kind, Flag):
            fixed[key.name] = int(r.flag(key.name))
        elif isinstance(key.kind, Value):
            fixed[key.name] = 0 if key.default is None else default_of(key.default)
            if node is None and key.required:
                return lambda s, t, env: None
            if node is not None:
                numbers[key.name] = _number(key.kind, node, f"`{key.name}`", family)
    if rule.arguments is as_given and not numbers:
        same = tuple(fixed.items())
        return lambda s, t, env: same
    told, known = set[str](), dict[Args, Args]()

    def arguments(source: str, target: str, env: dict[str, Any]) -> Args | None:
        values = dict(fixed)
        for key, number in numbers.items():
            value = number(env)
            if value is None:
                return None
            values[key] = value
        try:
            args = (
                tuple(values.items())
                if rule.arguments is as_given
                else rule.arguments(Place(*family.drawn(source, target), values, planes))
            )
        except Misfit as misfit:
            if misfit.key not in told:
                told.update(() if misfit.key is None else (misfit.key,))
                _report(misfit, at, r, family)
            return None
        return None if args is None else known.setdefault(args, args)  # members of a family have few distinct ones

    return arguments


def _number(kind: Value, node: tree.Node, what: str, family: Family) -> Callable[[dict[str, Any]], float | int | None]:
    """A number of `kind` for each member, an integer where it is one."""
    real = family.real(kind, node, what)
    if not kind.integer:
        return real

    def whole(env: dict[str, Any]) -> int | None:
        value = real(env)
        if value is None or value == int(value):
            return None if value is None else int(value)
        family.c.sink.error("E0102", f"{what} must be a whole number; it is {value:g}", node.span, "use `round(...)`")
        return None

    return whole


def _report(misfit: Misfit, at: Span, r: Reader, family: Family) -> None:
    node = None if misfit.key is None else r.get(misfit.key)
    places = family.populations.places
    related = tuple(Related("declared here", places[p]) for p in dict.fromkeys(p.name for p in misfit.places))
    family.c.sink.error(misfit.code, misfit.message, at if node is None else node.span, misfit.help, related)
