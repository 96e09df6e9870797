"""Values per element: one number, a distribution, an array in a file, a list.

Assumes: a validated node of the language's `initial value`, `weight` or `setting`.
Guarantees: a Value of level 0 in canonical units; distributions have the parameters defined by level 0 (a relative
standard deviation is resolved, the moments of a lognormal are those of its logarithm).
Does not: read the arrays of files beyond their headers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.expr.keys.values import DISTRIBUTION
from compiler.expr.units import DIMENSIONLESS, Dimension
from compiler.frontend.build.shared.data_files import check_array
from compiler.frontend.build.shared.random_help import with_distribution
from compiler.frontend.build.shared.readers import Reader, chosen, value_of
from compiler.frontend.build.shared.values import (
    Context,
    Names,
    number_and_dimension,
    out_of_bounds,
    plain_number,
    shown,
)
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence

_Found = tuple[l0.Value | None, Dimension | None]
_NUMBERS = ("low", "high", "mean", "std", "min", "max")


@dataclass(frozen=True)
class OneByOne:
    """Whether values of a projection may be given one by one, as lists or arrays. `count`: how many, where that does
    not depend on the member."""

    allowed: bool
    count: int | None = None


def initial_value(
    node: Node,
    c: Context,
    what: str,
    dimension: Dimension | None,
    names: Names | None = None,
    count: int | None = None,
    each: str = "neuron",
) -> _Found:
    """The value and its dimension; (None, ...) after an error.

    `dimension` None: any (then an array of a file has no unit). `count`: required length of a list or an array, where
    it is known; `each`: what its elements belong to.
    """
    match node:
        case Scalar():
            before = len(c.sink.items)
            found = number_and_dimension(node, c, what, dimension, names)
            if found is None:
                explain_draws(c.sink, before, node, dimension)
                return None, dimension
            return l0.Const(found[0], node.span), dimension if dimension is not None else found[1] or DIMENSIONLESS
        case Sequence(items=items):
            return _listed(items, node, c, what, dimension, names, count, each)
        case tree.Mapping():
            if node.get("file") is not None:
                return from_file(node, c, what, count, each), dimension or DIMENSIONLESS
            known = c.drawn.get(id(node))
            if known is not None and known[1:3] == (dimension, each):
                return known[3]
            before = len(c.sink.items)
            drawn = _distribution(node, c, what, dimension, names, each)
            if len(c.sink.items) == before and of_literals(node):
                c.drawn[id(node)] = node, dimension, each, drawn
            return drawn


def of_literals(node: Node) -> bool:
    """Whether all that stands in a value are literal numbers, flags and keys: it reads nothing."""
    match node:
        case Scalar(value=value):
            return isinstance(value, bool) or plain_number(node) is not None
        case Sequence(items=items):
            return all(map(of_literals, items))
        case tree.Mapping(entries=entries):
            return all(of_literals(e.value) for e in entries)


def explain_draws(sink: Sink, before: int, node: Node, dimension: Dimension | None, more: str = "") -> None:
    """Help with a random number where a distribution is allowed, `uniform(-65, -50)`; `more`: further requirements."""
    if isinstance(node, Scalar):
        found = sink.items[before:]
        sink.items[before:] = [with_distribution(d, node.text, dimension, more=more) for d in found]


def _listed(
    items: tuple[Node, ...],
    node: Node,
    c: Context,
    what: str,
    dimension: Dimension | None,
    names: Names | None,
    count: int | None,
    each: str,
) -> _Found:
    values: list[float] = []
    wrong = False
    for item in items:
        found = number_and_dimension(item, c, f"each number of {what}", dimension, names)
        if found is None:
            wrong = True
            continue
        dimension = dimension if dimension is not None else found[1]
        values.append(float(found[0]))
    if wrong:
        return None, dimension
    if count is not None and len(values) != count:
        message = f"{what} needs {count:,} numbers, one for each {each}; the list has {len(values):,}"
        c.sink.error("E0703", message, node.span)
        return None, dimension
    return l0.Listed(tuple(values), node.span), dimension or DIMENSIONLESS


def from_file(
    node: tree.Mapping, c: Context, what: str, count: int | None = None, each: str = "neuron"
) -> l0.FromFile | None:
    """The array `{file: ..., array: ...}`, checked against the file."""
    found = check_array(node, c)
    if found is None:
        return None
    path, name, header = found
    if count is not None and header is not None and header.size != count:
        message = f"{what} needs {count:,} numbers, one for each {each}; the array has the shape {list(header.shape)}"
        c.sink.error("E0703", message, (node.get("array") or node.get("file") or node).span)
        return None
    return l0.FromFile(str(path), name, 1.0, node.span)


def _distribution(
    node: tree.Mapping, c: Context, what: str, dimension: Dimension | None, names: Names | None, each: str
) -> _Found:
    one = chosen(DISTRIBUTION, node, c, names)
    if one is None:
        return None, dimension
    kind, r, at = one
    if kind == "permutation" and each != "neuron":
        c.sink.error("E0802", f"{what} cannot be a permutation, which is one of neurons", at, "use `uniform`")
        return None, dimension
    args, dimension, wrong = _arguments(r, what, dimension)
    if "relative_std" in r and r.get("relative_std") is not None:
        share = r.real("relative_std")
        if share is None:
            wrong = True
        elif "mean" in args:
            args["std"] = share * abs(args["mean"])
    if "keep_sign" in r and r.flag("keep_sign"):
        args["keep_sign"] = 1.0
    if wrong or not _complete(kind, args, r, what):
        return None, dimension
    if kind == "lognormal":
        args = _of_logarithm(args)
    return l0.Distribution(kind, tuple(args.items()), span=at), dimension or DIMENSIONLESS


def _arguments(r: Reader, what: str, dimension: Dimension | None) -> tuple[dict[str, float], Dimension | None, bool]:
    """The numbers of a distribution, their dimension, and whether one has a mistake (reported)."""
    args: dict[str, float] = {}
    wrong = False
    for name in _NUMBERS:
        item = r.get(name) if name in r else None
        if item is None:
            continue
        found = number_and_dimension(item, r.c, f"`{name}` of {what}", dimension, r.names)
        if found is None:
            wrong = True
            continue
        dimension = found[1] if dimension is None else dimension
        args[name] = float(found[0])
        problem = out_of_bounds(args[name], value_of(r.of(name)).low, None)
        if problem is not None:
            it = shown(args[name], dimension or DIMENSIONLESS)
            r.c.sink.error("E0106", f"`{name}` of {what} must be {problem}; it is {it}", item.span)
            wrong = True
    return args, dimension, wrong


def _complete(kind: str, args: Mapping[str, float], r: Reader, what: str) -> bool:
    """Whether the numbers are valid parameters of this distribution."""

    def fail(name: str, message: str) -> bool:
        node = r.get(name)
        r.c.sink.error("E0106", message, r.span if node is None else node.span)
        return False

    if kind in ("uniform", "permutation") and args["low"] > args["high"]:
        return fail("high", f"`high` of {what} is below `low`")
    if args.get("min", -math.inf) > args.get("max", math.inf):
        return fail("max", f"`max` of {what} is below `min`")
    if kind == "lognormal" and args["mean"] <= 0:
        return fail("mean", f"`mean` of {what} must be above 0 in a lognormal distribution")
    if kind == "lognormal" and args["std"] / args["mean"] > _WIDEST:
        return fail("std", f"`std` of {what} is more than {_WIDEST:g} times the mean")
    return True


_WIDEST: Final = 1e100
"""Largest coefficient of variation of a lognormal value; the square of a much larger one overflows float64."""


def _of_logarithm(args: Mapping[str, float]) -> dict[str, float]:
    """`args` with mean and standard deviation of the logarithm of a lognormal value with the given moments."""
    variance = math.log1p((args["std"] / args["mean"]) ** 2)
    return {**args, "mean": math.log(args["mean"]) - variance / 2, "std": math.sqrt(variance)}
