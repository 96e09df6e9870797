"""step_order: the order of the kernels of all cells in a step, where populations read each other.

Assumes: lower_cells has divided every cell's step into pieces, in their order for one population.
Guarantees: variables of neurons are read from `<population>.<variable>.before`, copied at the beginning of the step,
before any piece runs: what is read depends neither on the order of populations nor on what is merged, and nothing
writes in a launch what the launch reads, which makes it safe where rows of a launch run side by side. Variables of
pools are read as they are, after the pools that compute them and before events change them; in events, and between two
populations where that order is a circle, from their copies. The order is the one without reads as far as these allow.
Does not: make rows of the pieces (lower_cells, lower_pools).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.expr.ast import Ref, refs
from compiler.ir.space import Role
from compiler.passes.cells.cell_arrays import FLAT, array_name
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision

Row = tuple[l1.Instance, dict[str, str], dict[str, l2.ColumnValue]]
Key = tuple[int, int, int]
"""A piece of one population: numbers of its cell, piece and row."""


@dataclass(frozen=True)
class Piece:
    """One kernel of a cell's step. `stage`: "neurons", "pools", or "start" and "end" of the step: events of phases.
    `run` adds its rows for some populations, in one launch if they are independent (`builder.launch`)."""

    stage: str
    reads: frozenset[str]
    run: Callable[[Sequence[Row], bool], None]


@dataclass(frozen=True)
class Pieces:
    """A cell with its pieces, in order, and its populations."""

    cell: l1.Cell
    pieces: tuple[Piece, ...]
    rows: tuple[Row, ...]


def before_name(population: str, variable: str) -> str:
    return f"{population}.{variable}.before"


def run_in_order(builder: ProgramBuilder, cells: Sequence[Pieces], decisions: list[Decision]) -> None:
    """Adds the rows of all pieces, and of the copies that they read."""
    order = _Order(cells)
    _copy(builder, order.copied(), {row[0].name: row[0] for c in cells for row in c.rows})
    for (cell, number), keys in groupby(order.sorted(), lambda key: key[:2]):
        piece = cells[cell].pieces[number]
        piece.run([order.bound(key) for key in keys], False)
    decisions += order.decisions()


def _population(key: Key) -> tuple[int, int]:
    """Numbers of its cell and row."""
    return key[0], key[2]


class _Order:
    """The pieces of all populations, and which of them must come before which."""

    def __init__(self, cells: Sequence[Pieces]) -> None:
        self.cells = cells
        self.place = {row[0].name: (c, r) for c, x in enumerate(cells) for r, row in enumerate(x.rows)}
        self.keys = [(c, k, r) for c, x in enumerate(cells) for k in range(len(x.pieces)) for r in range(len(x.rows))]
        self.after: dict[Key, list[Key]] = {key: [] for key in self.keys}
        for c, k, r in self.keys:
            if k:
                self.after[c, k - 1, r].append((c, k, r))
        reads = [(computed, key) for key in self.keys for computed in self._pools(key).values()]
        circle = self._circles(reads)
        self.late = {(_population(a), _population(b)) for a, b in reads if circle[a] == circle[b]}
        """Populations, and those that read variables of their pools of the step before."""
        for a, b in reads:
            if (_population(a), _population(b)) not in self.late:
                self.after[a].append(b)
                if (end := self._first_end(a)) is not None:
                    self.after[b].append(end)

    def _others(self, key: Key) -> Iterator[tuple[l1.OtherRead, str]]:
        """What a piece reads, and of which population."""
        c, k, r = key
        chosen = dict(self.cells[c].rows[r][0].others)
        for read in self.cells[c].cell.others:
            if read.name in self.cells[c].pieces[k].reads:
                yield read, chosen[read.other]

    def _pools(self, key: Key) -> dict[str, Key]:
        """The variables of pools that a piece of every step reads, and the piece that computes the last of them."""
        found: dict[str, Key] = {}
        if self.cells[key[0]].pieces[key[1]].stage in ("start", "end"):
            return found
        for read, population in self._others(key):
            if "." in read.variable:
                c, r = self.place[population]
                last = max(k for k, piece in enumerate(self.cells[c].pieces) if piece.stage == "pools")
                found[read.name] = (c, last, r)
        return found

    def _first_end(self, key: Key) -> Key | None:
        c, _, r = key
        return next(((c, k, r) for k, piece in enumerate(self.cells[c].pieces) if piece.stage == "end"), None)

    def _circles(self, reads: Sequence[tuple[Key, Key]]) -> dict[Key, int]:
        """A number for each piece, equal where pieces wait for each other when each of `reads` is of this step."""
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

    def _names(self, key: Key) -> dict[str, str]:
        """The arrays of a piece's reads of other populations."""
        now = {n for n, a in self._pools(key).items() if (_population(a), _population(key)) not in self.late}
        return {
            r.name: array_name(p, r.variable) if r.name in now else before_name(p, r.variable)
            for r, p in self._others(key)
        }

    def bound(self, key: Key) -> Row:
        c, _, r = key
        instance, bound, columns = self.cells[c].rows[r]
        return instance, bound | self._names(key), columns

    def copied(self) -> dict[tuple[str, str], None]:
        """(population, variable) of every copy."""
        return {
            (p, r.variable): None
            for key in self.keys
            for names in (self._names(key),)
            for r, p in self._others(key)
            if names[r.name] == before_name(p, r.variable)
        }

    def sorted(self) -> list[Key]:
        """All pieces, each as early as it may be."""
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
        names = [[self.cells[c].rows[r][0].name for c, r in pair] for pair in sorted(self.late)]
        return [Decision("step_order", b, f"reads the pools of `{a}` of the step before", why) for a, b in names]


def _copy(
    builder: ProgramBuilder, wanted: Mapping[tuple[str, str], None], instances: Mapping[str, l1.Instance]
) -> None:
    """The values of the step before, copied before anything changes them."""
    real = builder.precision
    nest = l2.Nest(FLAT, (l2.Assign("before", Ref("x")),))
    for population, variable in wanted:
        instance, name = instances[population], before_name(population, variable)
        array = array_name(population, variable)
        count = builder.arrays[array].shape[0]
        builder.array(l2.Array(name, real, (count,), Role.WORK, span=instance.span))
        k = builder.kernel(f"{population}: {variable} of the step before", l2.Kind.MAP, instance.span)
        k.read("x", real, array)
        k.write("before", real, name)
        k.column("n", count)
        k.add_row(nest, name).launch("step")


def names_in(statements: Sequence[l0.Set]) -> frozenset[str]:
    """The names that statements read."""
    return frozenset[str]().union(*(refs(s.value) for s in statements))
