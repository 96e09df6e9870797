"""Selection of populations by `exc`, `[exc, inh]`, `all` or a class, and of parts: `exc[0..399]`, `exc[0, 3, 7]`,
`exc[x < w / 2]`.

Assumes: the names of all populations and classes are known.
Guarantees: each population at most once, in the order of first mention (a name that stands twice is E0212); `all` and
classes use the order of `populations`. Parts are ascending runs of indices, with a neuron at least; a population of
which a part is named stands once.
Does not: build anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.ast import refs
from compiler.expr.functions import CONSTANTS
from compiler.expr.types import Kind
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.self_names import PARAMS, place_values
from compiler.frontend.build.shared.values import Context, Names, items_of, valued
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.resolve.values import exact_span
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml.tree import Node, Scalar


def select(node: Node | None, populations: Populations, c: Context) -> tuple[str, ...] | None:
    """The populations selected by `node`; None after an error."""
    found: dict[str, None] = {}
    wrong = node is None or _repeated(node, c)
    for item in items_of(node):
        names = select_one(item, populations, c) if isinstance(item, Scalar) else None
        if names is None:
            wrong = True
        else:
            found.update(dict.fromkeys(names))
    return None if wrong else tuple(found)


def _repeated(node: Node, c: Context) -> bool:
    """Whether a name stands twice; reports it (E0212)."""
    texts = [(item.text.strip(), item.span) for item in items_of(node) if isinstance(item, Scalar)]
    first: dict[str, Span] = {}
    for text, span in texts:
        if text in first:
            related = (Related("the first time here", first[text]),)
            c.sink.error("E0212", f"`{text}` stands twice here", span, "leave it out: it counts once", related)
            return True
        first[text] = span
    return False


def select_having(
    node: Node | None, populations: Populations, c: Context, has: Callable[[str], bool]
) -> tuple[str, ...] | None:
    """The populations selected by `node`, without those of `all` and of classes for which `has` is false, unless it is
    so for all of them; None after an error."""
    names = select(node, populations, c)
    if names is None:
        return None
    named = {item.text for item in items_of(node) if isinstance(item, Scalar)}
    return tuple(n for n in names if n in named or has(n)) or names


def select_one(item: Scalar, populations: Populations, c: Context) -> tuple[str, ...] | None:
    """The populations that one name means; None after an error."""
    text = item.text
    if text == "all":
        return tuple(populations.names)
    members = populations.classes.get(text)
    if text in populations.places:
        if members is not None and set(members) != {text}:
            message = f"`{text}` is a population and a class; which one is meant?"
            related = declared_at(populations.places[text], "the population")
            c.sink.error("E0212", message, item.span, "give one of them another name", related)
            return None
        return (text,)
    if members is not None:
        return tuple(members)
    unknown_population(item, populations, c)
    return None


def unknown_population(item: Scalar, populations: Populations, c: Context) -> None:
    """E0201 for a name that is neither a population nor a class."""
    known = [*populations.names, *populations.classes]
    listed = allowed("the populations are", populations.names) if populations.names else None
    help = did_you_mean(item.text, known) or listed
    c.sink.error("E0201", f"there is no population `{item.text}`", item.span, help)


# ------------------------------------------------------------------------------------------ parts

_PART: Final = re.compile(r"^\s*([A-Za-z]\w*)\s*\[(.*)\]\s*$", re.DOTALL | re.ASCII)
_RANGE: Final = re.compile(r"\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?", re.ASCII)
_NAMES: Final = ("i", "n", "x", "y", "c", "w", "h", "px", "py", "pw", "ph")

Subsets = Mapping[str, l0.Subset]


def select_parts(
    node: Node | None, populations: Populations, names: Names, c: Context
) -> tuple[tuple[str, ...] | None, Subsets]:
    """The populations of `from` or `to` (None after an error), and the parts of those of which a part is meant."""
    found: dict[str, bool] = {}  # whether a part was named
    parts: dict[str, l0.Subset] = {}
    wrong = node is None or _repeated(node, c)
    for item in items_of(node):
        if not isinstance(item, Scalar):
            wrong = True
            continue
        split = _PART.match(item.text)
        part = None if split is None else _part(item, split[1], split[2], split.start(2), populations, names, c)
        chosen = select_one(item, populations, c) if split is None else (split[1],) if part is not None else None
        twice = next((n for n in chosen or () if n in found and (found[n] or split is not None)), None)
        if twice is not None:
            message = f"`{twice}` stands twice here, and a part of it once at least"
            c.sink.error("E0212", message, item.span, "write one part, `exc[0..9, 20..29]`, or another entry")
        wrong = wrong or chosen is None or twice is not None
        found |= dict.fromkeys(chosen or (), split is not None)
        if part is not None and split is not None and part.size < populations.built[split[1]].size:
            parts[split[1]] = part
    return None if wrong else tuple(found), parts


def _part(
    item: Scalar, name: str, text: str, offset: int, populations: Populations, names: Names, c: Context
) -> l0.Subset | None:
    """The neurons of a part; None after an error."""
    chosen = select_one(Scalar(name, name, item.plain, item.span), populations, c)
    if chosen is None:
        return None
    population = populations.built.get(name)
    if name not in populations.places:
        c.sink.error("E0201", f"`{name}` is no population, of which a part could be meant", item.span)
        return None
    if population is None:
        return None  # it has its own error
    pieces = [_RANGE.fullmatch(x) for x in text.split(",")]
    if all(pieces):
        runs = sorted((int(m[1]), int(m[2] or m[1])) for m in pieces if m is not None)
        last = max(high for _, high in runs)
        back = next((r for r in runs if r[0] > r[1]), None)
        if last >= population.size or back is not None:
            it = f"`{back[0]}..{back[1]}` has no neuron" if back is not None else f"there is no neuron {last:,}"
            message = f"{it}: `{name}` has {population.size:,}, from 0 to {population.size - 1:,}"
            c.sink.error("E0604", message, item.span)
            return None
        inside = np.zeros(population.size, np.bool_)
        for low, high in runs:
            inside[low : high + 1] = True
    else:
        found = _condition(item, text, offset, population, names, c)
        if found is None:
            return None
        inside = found
    if not inside.any():
        c.sink.error("E0604", f"the part has no neuron of `{name}`", item.span)
        return None
    return l0.Subset(_runs(inside))


def _condition(
    item: Scalar, text: str, offset: int, population: l0.Population, names: Names, c: Context
) -> npt.NDArray[np.bool_] | None:
    """Which neurons a condition holds for; None after an error."""
    span, exact = exact_span(item)
    at = type(span)(span.file, span.start + offset, span.start + offset + len(text), span.via) if exact else span
    scope = names.scope.extended(dict.fromkeys(_NAMES, DIMENSIONLESS), kind=Kind.INT)
    node = Scalar(text, text, exact, at)
    checked = check_expression(node, scope, Wanted("the part", None, condition=True), c.sink)
    if checked is None:
        return None
    places = place_values(population.size, population.shape)
    env = {**names.numbers, **{n: np.asarray(places[PARAMS[f"self.{n}"]]).astype(np.int64) for n in _NAMES}}
    missing = next((n for n in refs(checked.expr) if n not in env and n not in CONSTANTS), None)
    if missing is not None:
        c.sink.error("E0802", f"the part of `{population.name}` cannot read `{missing}`", at)
        return None
    found = valued(checked.expr, env, "the part", at, c.sink)
    return None if found is None else np.broadcast_to(np.asarray(found, np.bool_), (population.size,))


def _runs(inside: npt.NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(np.int8), [0]))))
    return tuple((int(a), int(b) - 1) for a, b in edges.reshape(-1, 2))
