"""Values by the places of both ends: weights, delays, parameters and initial values that read `i`, `j`, `distance`, ...

Assumes: populations have been built; names of the model, of the family and of the synapse keep their meaning.
Guarantees: a Placed value of level 0 per member, with numbers for all names but places, and with bounds: exact where
there are at most 2^22 pairs, or where the value follows from one end or from `distance` alone; else by interval
analysis. A value that is not finite for a pair that may be connected is an error.
Does not: evaluate it per synapse (passes/projections/synapse_arrays.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr, Ref, refs, rewrite, substitute
from compiler.expr.functions import CONSTANTS, Interval
from compiler.expr.interp import evaluate
from compiler.expr.intervals import ANY, interval
from compiler.expr.types import Kind
from compiler.expr.units import Dimension
from compiler.frontend.build.places.names import COUNTS, EXTENTS, NAMES, Space, check_grids, extents, pool_extents
from compiler.frontend.build.shared.scope import Checked, Scope, Wanted, check_expression
from compiler.frontend.build.shared.values import Context, Names, valued
from compiler.frontend.build.spiking.family import ENDS, WORD, Family
from compiler.frontend.yaml.tree import Node, Scalar

MOST_PAIRS: Final = 1 << 22
"""Pairs for which values are worked out while a model is checked."""
_READS: Final = {"x": ("w",), "y": ("w", "h"), "c": ("w", "h")}


def reads_places(node: Node | None, scope: Scope) -> bool:
    """Whether a value reads the places of its ends: names that mean nothing else in `scope`."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return False
    return any(w in NAMES and w not in scope.kinds for w in WORD.findall(node.value))


def warn_of_channels(p: l0.Projection, populations: Mapping[str, l0.Population], c: Context) -> None:
    """W0007 where a projection reads channels of a population without a shape."""
    values = [v for m in p.members[:1] for v in (m.weight, m.delays, m.back_delays)]
    values += [v for m in p.members[:1] for _, v in (*m.params, *m.init)]
    read = set[str]().union(*(refs(v.value) for v in values if isinstance(v, l0.Placed)))
    read |= refs(p.probability) if p.probability is not None else set()
    for name, ends in (("c_i", {m.source for m in p.members}), ("c_j", {m.target for m in p.members})):
        bare = sorted(n for n in ends if name in read and not populations[n].shape and populations[n].size > 1)
        if bare:
            message = f"`{p.name}` reads `{name}`, which is 0 for every neuron of `{bare[0]}`: it has no channels"
            c.sink.warning("W0007", message, p.span, "give it a `shape`, such as `shape: [channels, height, width]`")
            return


def place_numbers() -> dict[str, float]:
    """Any numbers for the names of places, where only dimensions are of interest."""
    return dict.fromkeys(NAMES, 1.0)


def placed_value(
    node: Node, what: str, dimension: Dimension | None, names: Names, space: Space, family: Family
) -> Callable[[Mapping[str, Any]], l0.Placed | None]:
    """The value of each member; an error is reported once. Bounds are those of interval analysis."""
    c, own = family.c, names.scope.kinds
    checked = check_expression(node, space.scope(names.scope, own, True), Wanted(what, dimension), c.sink)
    if checked is None:
        return lambda env: None
    places = {n for n in NAMES if n not in own}
    others = sorted(refs(checked.expr) - places - CONSTANTS.keys())
    flags = {n for n in others if own.get(n) is Kind.BOOL}
    known: dict[object, l0.Placed | None] = {}

    def at(env: Mapping[str, Any]) -> l0.Placed | None:
        a, b = (family.populations.built[p] for p in env[ENDS])
        numbers = {n: env.get(n, names.numbers.get(n)) for n in others}
        missing = next((n for n in others if numbers[n] is None), None)
        if missing is not None:
            if missing not in env:
                message = f"{what} reads the places of its ends and `{missing}`, which has no single number here"
                c.sink.error("E0802", message, node.span, "write it without one of them")
            return None
        key = (tuple(numbers.items()), a.size, b.size, a.shape, b.shape)
        if key not in known:
            near = "distance" in places & refs(checked.expr)
            fits = not near or check_grids(a, b, node, family)
            known[key] = _placed(checked, numbers, flags, a, b, space, node) if fits else None
        return known[key]

    return at


def _placed(
    checked: Checked,
    numbers: Mapping[str, float | int],
    flags: set[str],
    a: l0.Population,
    b: l0.Population,
    space: Space,
    node: Node,
) -> l0.Placed:
    plain = {n: n.replace(".", "_") for n in numbers if "." in n}  # `from.x`
    while set(plain.values()) & refs(checked.expr):
        plain = {n: f"{new}_" for n, new in plain.items()}
    numbers = {plain.get(n, n): value for n, value in numbers.items()}
    checked = replace(checked, expr=substitute(checked.expr, {n: Ref(new) for n, new in plain.items()}))
    given: dict[str, Expr] = {n: Ref(n).ne(0) for n in flags}
    e = substitute(space.expanded(checked.expr), given)
    every = {"n_from": a.size, "n_to": b.size, **dict(zip(EXTENTS, (*extents(a), *extents(b)), strict=True))}
    every |= pool_extents(a, b)
    read = refs(e)
    for name in read & NAMES:
        axis, _, end = name.partition("_")
        read |= {f"{size}_{'from' if end == 'i' else 'to'}" for size in _READS.get(axis, ()) if end in ("i", "j")}
    sizes = {n: v for n, v in every.items() if n in read and n not in numbers}
    used: dict[str, float | int] = {**{n: _number(v) for n, v in numbers.items()}, **sizes}
    if "spacing" in read and "spacing" not in numbers:
        used["spacing"] = space.spacing
    low, high = _by_intervals(checked.expr, used, every, space)
    return l0.Placed(e, tuple(sorted(used.items())), low, high, node.span)


def _number(value: float | int | bool) -> float | int:
    return int(value) if isinstance(value, bool | int | np.integer) else float(value)


def _by_intervals(e: Expr, used: Mapping[str, float | int], sizes: Mapping[str, int], space: Space) -> Interval:
    """Bounds on a value from those of the places."""
    env: dict[str, Interval] = {n: (float(v), float(v)) for n, v in used.items()}
    for index, end in (("i", "from"), ("j", "to")):
        n, w, h = sizes[f"n_{end}"], sizes[f"w_{end}"], sizes[f"h_{end}"]
        extent = {index: n, f"x_{index}": w, f"y_{index}": h, f"c_{index}": n // max(w * h, 1)}
        extent |= {f"px_{index}": sizes[f"pw_{end}"], f"py_{index}": sizes[f"ph_{end}"]}
        env = {**{name: (0.0, float(max(k - 1, 0))) for name, k in extent.items()}, **env}
    env |= {n: (1.0, math.inf) for n in COUNTS if n not in used}
    far = math.hypot(sizes["w_to"] - 1, sizes["h_to"] - 1) * space.spacing
    found = interval(e, {"distance": (0.0, far), "spacing": (space.spacing, space.spacing), **env})
    return ANY if any(math.isnan(x) for x in found) else found


# ------------------------------------------------------------------------------------------------ bounds


@dataclass
class Settling:
    """Exact bounds of the values of one family; errors are reported once. `probability`: of its `rule`."""

    probability: Expr | None
    space: Space
    family: Family
    known: dict[object, l0.Placed | None] = field(default_factory=dict)

    def _masked(self, a: l0.Population, b: l0.Population) -> bool:
        """Whether some pairs of the two populations are never connected, besides those of a neuron with itself."""
        return self.probability is not None or self.family.parts(a.name, b.name) != (None, None)

    def settled(self, value: l0.Placed, what: str, source: str, target: str, args: Any) -> l0.Placed | None:
        """`value` with bounds over the pairs that may be connected; None where it is not finite for one of them. What
        reads how many synapses there are keeps its bounds."""
        if refs(value.value) & {*COUNTS}:
            return value
        a, b = (self.family.populations.built[p] for p in (source, target))
        hole = source == target and not dict(args).get("autapses", 1)
        key = (value, what, a.size, b.size, extents(a), extents(b), hole, args, self.family.parts(source, target))
        if key not in self.known:
            self.known[key] = self._settled(value, what, a, b, hole, dict(args))
        return self.known[key]

    def _settled(
        self, value: l0.Placed, what: str, a: l0.Population, b: l0.Population, hole: bool, args: Mapping[str, Any]
    ) -> l0.Placed | None:
        probability, c = self.probability, self.family.c
        low, high, seen = math.inf, -math.inf, False
        for pairs in _chunks(value, a, b, self._masked(a, b), self.space):
            i, j = pairs["i"], pairs["j"]
            found = valued(value.value, {**dict(value.numbers), **pairs}, what, value.span, c.sink)
            if found is None:
                return None
            numbers = np.broadcast_to(np.asarray(found, np.float64), np.broadcast_shapes(i.shape, j.shape))
            counted = np.broadcast_to((i != j if hole else np.bool_(True)) & self._inside(i, j, a, b), numbers.shape)
            if probability is not None:
                with np.errstate(all="ignore"):
                    p = evaluate(probability, {**args, "n_from": a.size, "n_to": b.size, **pairs})
                counted = counted & (np.asarray(p, np.float64) > 0)
            bad = np.argwhere(counted & ~np.isfinite(numbers))
            if len(bad):
                at_i, at_j = (int(np.broadcast_to(x, numbers.shape)[tuple(bad[0])]) for x in (i, j))
                message = f"{what} is {numbers[tuple(bad[0])]} from neuron {at_i} of `{a.name}` to {at_j} of `{b.name}`"
                itself = a.name == b.name and at_i == at_j
                help = "`autapses: false` leaves out connections of neurons to themselves" if itself else None
                c.sink.error("E0308", message, value.span, help)
                return None
            if counted.any():
                seen, real = True, numbers[counted]
                low, high = min(low, float(real.min())), max(high, float(real.max()))
        return replace(value, low=low, high=high) if seen else value

    def _inside(
        self, i: npt.NDArray[np.int64], j: npt.NDArray[np.int64], a: l0.Population, b: l0.Population
    ) -> npt.NDArray[np.bool_] | np.bool_:
        """Which pairs belong to the parts that are meant."""
        inside: npt.NDArray[np.bool_] | np.bool_ = np.bool_(True)
        for part, k in zip(self.family.parts(a.name, b.name), (i, j), strict=True):
            if part is not None:
                inside = inside & np.any([(first <= k) & (k <= last) for first, last in part.runs], axis=0)
        return inside


def _chunks(
    value: l0.Placed, a: l0.Population, b: l0.Population, masked: bool, space: Space
) -> Iterator[Mapping[str, npt.NDArray[np.int64]]]:
    """Pairs that have all values: `i` and the rest as columns, `j` as rows. Nothing where they are too many."""
    apart = space.distance
    e = rewrite(value.value, lambda x: Ref("distance") if x == apart else x, top_down=True)
    ends = {n.rpartition("_")[2] for n in refs(e) & NAMES - {*EXTENTS, "spacing"}}
    ends = {"i"} if ends == {"distance"} else {"i", "j"} if "distance" in ends else ends  # from neuron 0 to all
    one = len(ends) < 2
    if a.size * b.size <= MOST_PAIRS and (masked or not one):
        sources, targets = a.size, b.size
    elif one and not masked:
        sources, targets = (a.size if "i" in ends else 1), (b.size if "j" in ends else 1)
    else:
        return
    step = max(1, (1 << 18) // targets)
    for first in range(0, sources, step):
        i = np.arange(first, min(first + step, sources), dtype=np.int64)[:, None]
        yield {**_places("i", i, a), **_places("j", np.arange(targets, dtype=np.int64)[None, :], b)}


def _places(index: str, k: npt.NDArray[np.int64], population: l0.Population) -> dict[str, npt.NDArray[np.int64]]:
    w, h = extents(population)
    return {index: k, f"x_{index}": k % w, f"y_{index}": k // w % h, f"c_{index}": k // (w * h)}
