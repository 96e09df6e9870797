"""order_populations: the operations of all populations, in their order within a step.

Assumes: split_cells has run.
Guarantees: `turns` are those of each cell one after the other, each for all of its instances, but where populations
read each other. Variables of neurons are read as they were before the step, from copies (`before`) made ahead of all
turns: what is read depends neither on the order of populations nor on what is merged, and nothing writes in a launch
what the launch reads, which makes it safe where rows of a launch run side by side. Variables of pools are read as they
are, after the pools that compute them and before events change them; in events, and between two populations where that
order is a circle (`late`), from their copies. The order is the one without reads as far as these allow.
Does not: make kernels or arrays (lower_cells), or order projections (ir/level1/stages.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import compiler.ir.level1.cells as l1
from compiler.ir.level1.spiking import SpikingGraph
from compiler.passes.program.decisions import Decision

Key = tuple[int, int, int]
"""An operation of one population: numbers of its cell, the operation and the instance."""


def order_populations(graph: SpikingGraph) -> tuple[SpikingGraph, list[Decision]]:
    """The graph with its turns, and which populations read the pools of others of the step before."""
    each = zip(graph.cells, graph.members, strict=True)
    keys = [(c, k, i) for c, (cell, of) in enumerate(each) for k in range(len(cell.operations)) for i in of]
    decisions: list[Decision] = []
    if any(cell.others for cell in graph.cells):
        order = _Order(graph, keys)
        graph = replace(graph, instances=order.instances(), before=order.copies())
        keys, decisions = order.sorted(), order.decisions()
    turns = (l1.Turn(c, k, tuple(i for _, _, i in same)) for (c, k), same in groupby(keys, lambda key: key[:2]))
    return replace(graph, turns=tuple(turns)), decisions


class _Order:
    """The operations of all populations, and which of them must come before which."""

    def __init__(self, graph: SpikingGraph, keys: Sequence[Key]) -> None:
        self.graph, self.keys = graph, keys
        self.number = {instance.name: i for i, instance in enumerate(graph.instances)}
        self.others = [[[r for r in c.others if r.name in l1.reads(x)] for x in c.operations] for c in graph.cells]
        self.after: dict[Key, list[Key]] = {key: [] for key in self.keys}
        for c, k, i in self.keys:
            if k:
                self.after[c, k - 1, i].append((c, k, i))
        reads = [read for key in self.keys for read in self._pools(key)]
        circle = self._circles(reads)
        self.late = {(a[2], b[2]) for a, b in reads if circle[a] == circle[b]}
        """Populations, and those that read variables of their pools of the step before."""
        for a, b in reads:
            if (a[2], b[2]) not in self.late:
                self.after[a].append(b)
                if (end := self._first_end(a)) is not None:
                    self.after[b].append(end)

    def _pools(self, key: Key) -> Iterator[tuple[Key, Key]]:
        """For each variable of pools that an operation of every step reads: what computes the last of these, and the
        operation."""
        c, k, i = key
        for read in self.others[c][k]:
            if l1.is_current(self.graph.cells[c].operations[k], self.graph.instances[i], read):
                other = self.number[dict(self.graph.instances[i].others)[read.other]]
                where = self.graph.instances[other].cell
                operations = enumerate(self.graph.cells[where].operations)
                last = max(n for n, x in operations if x.due is None and not isinstance(x, l1.EachNeuron))
                yield (where, last, other), key

    def _first_end(self, key: Key) -> Key | None:
        c, _, i = key
        operations = self.graph.cells[c].operations
        return next(((c, k, i) for k, x in enumerate(operations) if x.due is not None and not x.due[2]), None)

    def _circles(self, reads: Sequence[tuple[Key, Key]]) -> dict[Key, int]:
        """A number for each operation, equal where operations wait for each other when each of `reads` is of this
        step."""
        import numpy as np
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        number = {key: i for i, key in enumerate(self.keys)}
        pairs = [(number[a], number[b]) for a, after in self.after.items() for b in after]
        pairs += [(number[a], number[b]) for a, b in reads]
        rows, columns = np.array(pairs, np.int32).reshape(-1, 2).T
        matrix = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(number), len(number)))
        _, labels = connected_components(matrix, connection="strong")
        return dict(zip(self.keys, labels.tolist(), strict=True))

    def instances(self) -> tuple[l1.Instance, ...]:
        """The populations, with what they read late."""
        late = {b for _, b in self.late}
        return tuple(
            replace(x, late=tuple(name for name, p in x.others if (self.number[p], i) in self.late)) if i in late else x
            for i, x in enumerate(self.graph.instances)
        )

    def copies(self) -> tuple[l1.Before, ...]:
        """What populations read of others as it was before the step."""
        instances, found = self.instances(), dict[l1.Before, None]()
        for c, k, i in self.keys:
            for read in self.others[c][k]:
                if not l1.is_current(self.graph.cells[c].operations[k], instances[i], read):
                    found[l1.Before(dict(instances[i].others)[read.other], read.variable)] = None
        return tuple(found)

    def sorted(self) -> list[Key]:
        """All operations, each as early as it may be."""
        waiting = dict.fromkeys(self.keys, 0)
        for after in self.after.values():
            for key in after:
                waiting[key] += 1
        ready = [key for key in self.keys if not waiting[key]]
        heapq.heapify(ready)
        found: list[Key] = []
        while ready:
            found.append(heapq.heappop(ready))
            for key in self.after[found[-1]]:
                waiting[key] -= 1
                if not waiting[key]:
                    heapq.heappush(ready, key)
        return found

    def decisions(self) -> list[Decision]:
        """Whose pools are read of the step before."""
        why = "they wait for each other within a step"
        names = [[self.graph.instances[i].name for i in pair] for pair in sorted(self.late)]
        return [Decision("order_populations", b, f"reads the pools of `{a}` of the step before", why) for a, b in names]
