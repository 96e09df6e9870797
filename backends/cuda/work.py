"""work: how the rows of a launch are divided among blocks of threads.

Assumes: the host's tables (compiler/passes/write_tables.py) and the sizes known so far.
Guarantees: what follows from extents alone and is data: calls of functions with a grid, a list of jobs and counters.
Which of a reduction's two functions a row takes depends on its own extents, so merging rows, or another device,
changes no bit. Grids stay below MOST_BLOCKS: larger work gets larger parts.
Does not: know devices beyond the number of blocks they keep busy (propagation), or launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from backends.access import open_kernel
from backends.cprint import Dialect
from backends.cuda.contract import SUFFIXES, sides_of
from backends.cuda.events import SORT
from backends.cuda.kernel import BLOCK
from backends.cuda.nest import SHARED, WARP
from compiler.ir.program import (
    Connect,
    Contract,
    Csr,
    Dim,
    DimKind,
    EmitScheduled,
    Launch,
    Nest,
    Order,
    Propagate,
    RecordEvents,
    RecordTrace,
    Rows,
    Template,
)
from compiler.strategies.implicit_gemm import TILES, tiles

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MOST_BLOCKS: Final = 1 << 20
BUSY: Final = 1 << 17
"""Threads that keep a device busy."""
ENOUGH: Final = 1 << 14
"""Points from which on a thread for each is better than several that share the terms of a sum."""
LONG_SUM: Final = 2048
MOST_SHARES: Final = 64
"""Blocks that share a point of a reduction, at most."""


@dataclass(frozen=True, eq=False)
class Call:
    """One kernel launch: `row` is the first row of the table; `jobs` (blocks, 4) u32 or None (one row, each block a
    part of it). `memory`: bytes of counters, zero before the call, that begin with `places` (u64) if there are any."""

    function: str
    grid: int
    block: int
    row: int
    chunk: int
    jobs: npt.NDArray[np.uint32] | None = None
    group: int = 1
    memory: int = 0
    places: Words | None = None


@dataclass(frozen=True)
class Work:
    """What is known of one launch. `synapses`: the number of stored elements of an array, by name."""

    template: Template
    rows: Rows
    table: Words
    launch: Launch
    synapses: Callable[[str], int]
    blocks: int

    def column(self, name: str) -> Ints:
        """An integer column, for the rows of the launch."""
        position = [f.name for f in self.template.formals].index(name)
        return self.table[self.launch.lo : self.launch.hi, position].view(np.int64)

    def extent(self, dims: tuple[Dim, ...], summed: bool) -> Ints:
        """Products of the extents of all dims that are summed over, or that are not, one per row."""
        total = np.ones(self.launch.hi - self.launch.lo, np.int64)
        for d in dims:
            if (d.kind is DimKind.RED) == summed:
                total = total * (d.extent if isinstance(d.extent, int) else self.column(d.extent))
        return total


def _spread(
    function: str, w: Work, counts: Ints, per_block: int, chosen: Ints | None = None, **more: Any
) -> list[Call]:
    """Blocks of `per_block` elements over the rows `chosen` (default all), `counts` elements each."""
    rows = np.arange(len(counts), dtype=np.int64) if chosen is None else chosen
    counts = counts[rows]
    chunk = per_block
    while int((-(-counts // chunk)).sum()) > max(MOST_BLOCKS, len(counts)):
        chunk *= 2
    parts = -(-counts // chunk)
    return _call(function, w, rows, parts, chunk, **more)


def _call(function: str, w: Work, rows: Ints, parts: Ints, chunk: int, block: int = BLOCK, **more: Any) -> list[Call]:
    total = int(parts.sum())
    if total == 0:
        return []
    if len(rows) == 1:
        return [Call(function, total, block, w.launch.lo + int(rows[0]), chunk, None, **more)]
    jobs = np.zeros((total, 4), np.uint32)
    jobs[:, 0] = np.repeat(rows, parts)
    jobs[:, 1] = np.arange(total) - np.repeat(np.cumsum(parts) - parts, parts)
    jobs[:, 2] = np.repeat(parts, parts)
    return [Call(function, total, block, w.launch.lo, chunk, jobs, **more)]


def group_size(points: int, terms: int) -> int:
    """Threads that share one point of a reduction: 1, a warp, a block or several blocks."""
    if terms < WARP or points >= ENOUGH:
        return 1
    blocks = min(terms // LONG_SUM, BUSY // (points * BLOCK), MOST_SHARES)
    if terms >= 4 * LONG_SUM and blocks > 1:
        return blocks * BLOCK
    few = points * (WARP if terms >= LONG_SUM else BLOCK) < BUSY
    return BLOCK if few and terms >= BLOCK else WARP


def _nest(function: str, w: Work, nest: Nest) -> list[Call]:
    points = w.extent(nest.dims, False)
    if nest.combine is None or w.template.order is Order.BITWISE:
        return _spread(function, w, points, BLOCK)
    terms = w.extent(nest.dims, True)
    groups = np.array([group_size(int(p), int(t)) for p, t in zip(points, terms, strict=True)], np.int64)
    calls = _spread(function, w, points, BLOCK, np.flatnonzero(groups == 1))
    for group in (WARP, BLOCK):
        calls += _spread(function + SHARED, w, points, BLOCK // group, np.flatnonzero(groups == group), group=group)
    for group in np.unique(groups[groups > BLOCK]).tolist():
        rows, shares = np.flatnonzero(groups == group), group // BLOCK
        words = (points[rows] + 1) // 2 * 2 + 2 * points[rows] * shares
        places, memory = _places(rows, words)
        parts = points[rows] * shares
        calls += _call(function + SHARED, w, rows, parts, 1, group=group, places=places, memory=memory)
    return calls


def _contract(function: str, w: Work, nest: Nest) -> list[Call]:
    """A block for each tile and split; the rows of one tile shape are one call."""
    dims = {d.name: d for d in nest.dims}
    found = sides_of(w.template, nest)
    batch, m, n = (w.extent(tuple(dims[d] for d in part), False) for part in (found.batch, found.m, found.n))
    shape, splits = w.column("s_tile"), w.column("s_splits")
    bytes_ = next(f.dtype.bytes for f in w.template.formals if f.name == "y")
    calls = []
    for number, suffix in enumerate(SUFFIXES):
        rows = np.flatnonzero(shape == number)
        many = np.array([tiles(number, int(batch[r]), int(m[r]), int(n[r])) for r in rows], np.int64)
        sums = np.where(splits[rows] > 1, many * splits[rows], 0)
        words = np.where(sums > 0, (many + 1) // 2 * 2 + sums * (TILES[number].m * TILES[number].n * bytes_ // 4), 0)
        places, memory = _places(rows, words)
        calls += _call(function + suffix, w, rows, many * splits[rows], 1, places=places, memory=memory)
    return calls


def _places(rows: Ints, words: Ints) -> tuple[Words | None, int]:
    """Where the memory of each row of a call begins, in words of 4 bytes, and how many bytes there are in all."""
    if not words.any():
        return None, 0
    count = 1 if len(rows) == 1 else int(rows.max()) + 1
    places = np.zeros(count, np.uint64)
    places[rows if count > 1 else [0]] = 2 * count + np.cumsum(words) - words
    return places, 8 * count + 4 * int(words.sum())


def _elements(w: Work, p: Propagate) -> npt.NDArray[np.float64]:
    """How many synapses each row has."""
    match p.relation:
        case Csr(_, col):
            names = w.rows.arrays[col][w.launch.lo : w.launch.hi]
            return np.array([w.synapses(n) for n in names], np.float64)
    raise AssertionError(p.relation)


def _propagate(function: str, w: Work, p: Propagate) -> list[Call]:
    """Half of the blocks evenly (a step may bring events to any row), half by numbers of synapses: in all no more
    than run side by side. Many small rows take a small block each."""
    rows = w.launch.hi - w.launch.lo
    weight = _elements(w, p)
    even = max(1, w.blocks // (2 * rows))
    rest = max(0, w.blocks - even * rows)
    parts = even + np.floor(rest * weight / max(weight.sum(), 1.0)).astype(np.int64)
    block = BLOCK if rows <= w.blocks else 2 * WARP
    return _call(function, w, np.arange(rows, dtype=np.int64), parts, 1, block)


def _connect(function: str, w: Work, c: Connect) -> list[Call]:
    n_pre = w.column("n_pre")
    one = np.ones(len(n_pre), np.int64)
    if c.stage == "scan":
        return _spread(function, w, one, 1)
    if c.rule == "all_to_all" and c.stage == "fill":
        return _spread(function, w, n_pre * w.column("n_post"), BLOCK)
    if c.rule == "transpose":
        return _transpose(function, w, c.stage)
    if c.rule != "fixed_total":
        return _spread(function, w, n_pre, BLOCK)
    if c.stage == "count":
        return _spread(function, w, w.column("number"), BLOCK)
    places = (2 * len(n_pre) + np.cumsum(n_pre) - n_pre).astype(np.uint64)
    memory = 8 * len(n_pre) + 4 * int(n_pre.sum())
    fill = _spread(function, w, w.column("number"), BLOCK, memory=memory, places=places)
    return [*fill, *_spread(function + SORT, w, n_pre, 1)]


def _transpose(function: str, w: Work, stage: str) -> list[Call]:
    synapses = np.array([w.synapses(n) for n in w.rows.arrays["col"][w.launch.lo : w.launch.hi]], np.int64)
    if stage == "count":
        return _spread(function, w, synapses, BLOCK)
    n_post = w.column("n_post")
    places = (2 * len(n_post) + np.cumsum(n_post) - n_post).astype(np.uint64)
    memory = 8 * len(n_post) + 4 * int(n_post.sum())
    fill = _spread(function, w, synapses, BLOCK, memory=memory, places=places)
    return [*fill, *_spread(function + SORT, w, n_post, 1)]


def function_name(template: Template, dialect: Dialect) -> str:
    """The plain function of a template, without suffix."""
    return open_kernel(template, dialect, set()).function


def calls_of(w: Work, dialect: Dialect) -> list[Call]:
    """The calls of one launch, in order."""
    name = function_name(w.template, dialect)
    rows = w.launch.hi - w.launch.lo
    one = np.ones(rows, np.int64)
    match w.template.body:
        case Nest() as nest:
            return _nest(name, w, nest)
        case Contract(nest):
            return _contract(name, w, nest)
        case Propagate() as p:
            return _propagate(name, w, p)
        case Connect() as c:
            return _connect(name, w, c)
        case RecordTrace():
            return _spread(name, w, w.column("m"), BLOCK, memory=4 * rows)
        case RecordEvents() | EmitScheduled():
            return _spread(name, w, one, 1)


def array_elements(sizes: Mapping[str, int], physical: Mapping[str, int]) -> Callable[[str], int]:
    """Stored elements of an array: found by connecting, or known from its shape."""
    return lambda name: sizes[name] if name in sizes else max(physical[name], 0)
