"""report: all candidates of every contraction that was measured, all ways of forks, and what has one way.

Assumes: compiler/tune/choosing.py, compiler/tune/forks.py.
Guarantees: candidates by time, the fastest first; the share is of the device's limit: what the operations of the
definition would take at its peak of float32 arithmetic, or its memory. An algorithm with fewer operations, or units for
rounded factors, may show more than all of it.
Does not: measure or print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Target
from compiler.strategies.variants import identity
from compiler.tune.choosing import Tuned
from compiler.tune.forks import Settled
from compiler.tune.result import Row, Way
from compiler.tune.sites import workspace_of


def rows(tuned: Iterable[Tuned], device: Target, real: int) -> Iterator[Row]:
    """The candidates of all contractions, by path."""
    for t in tuned:
        site, found = t.site, t.measured
        least = site.least_microseconds(device, real)
        for way in sorted(site.ways, key=lambda w: found.microseconds[identity(w)]):
            name = identity(way)
            time = found.microseconds[name]
            yield Row(
                t.path,
                name,
                time,
                least / time if time and least else None,
                workspace_of(way),
                found.errors.get(name),
                name == t.way,
                name == site.names[0],
                name in found.wrong,
            )


def fork_rows(settled: Iterable[Settled]) -> Iterator[Row]:
    """The ways of all forks, by path."""
    for x in sorted(settled, key=lambda x: x.path):
        for way, time in sorted(x.microseconds.items(), key=lambda item: item[1]):
            yield Row(x.path, way, time, None, 0, None, way == x.way, way == x.site.names[0], False)


def ways(found: Iterable[Tuned | Settled]) -> tuple[Way, ...]:
    """What was chosen for each contraction or fork."""
    each = ((x, x.site.names[0]) for x in found)
    return tuple(Way(x.path, x.way, rule, x.microseconds[x.way], x.microseconds[rule]) for x, rule in each)


def one_way(graphs: Iterable[l1.TensorGraph], chosen: Set[str]) -> dict[str, int]:
    """How many nodes there is no choice for, by kind. `chosen`: the results that there is one for."""
    nodes = (n for g in graphs for n, _ in l1.with_bodies(g.nodes) if isinstance(n, _Computed))
    return dict(Counter(_kind(n) for n in nodes if n.out.name not in chosen))


_Computed = l1.Map | l1.Contract | l1.Gather | l1.ScatterAdd | l1.Move


def _kind(node: _Computed) -> str:
    if isinstance(node, l1.Map):
        return "elementwise"
    if isinstance(node, l1.Move):
        return "moves"
    if isinstance(node, l1.Gather | l1.ScatterAdd):
        return "lookups"
    if len(node.ins) == 2 and node.combine == "add":
        return "products"
    return "windows" if any(len(a.terms) > 1 for m in node.in_maps for a in m) else "sums and maxima"
