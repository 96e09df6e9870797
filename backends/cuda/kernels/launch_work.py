"""launch_work: what a launch has to do, and calls of functions for rows of it.

Assumes: the host's tables (compiler/layout/write_tables.py).
Guarantees: the result is data: calls with a grid, a list of jobs and counters. Grids stay below MOST_BLOCKS: larger
work gets larger parts.
Does not: choose how threads share work (launch_geometry.py), or launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.cuda.kernels.kernel import BLOCK
from backends.kernel_ir.descriptor import CompiledFunction, CompiledKernel
from compiler.ir.level2.target import Target
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

MOST_BLOCKS: Final = 1 << 20


@dataclass(frozen=True)
class TensorMap:
    """`formal`: the operand of row `row` of the table; extents and the box that is fetched at once in elements, which
    have `size` bytes (2: bf16, 4: float32, rounded to tf32), strides of all axes but the first in bytes. Where pixels
    are gathered, the box is of channels and pixels, and along columns and rows `corners` are those of the box of places
    of a window's first tap, and `steps` from one to the next."""

    formal: str
    row: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    size: int
    corners: tuple[tuple[int, int], ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Call:
    """One kernel launch: `row` is the first row of the table; `jobs` (blocks, 4) u32 or None (one row, each block a
    part of it). `memory`: bytes of counters, zero before the call, that begin with `places` (u64) if there are any.
    `group`: threads of an element, or the template's number, where several share the function. `shared`: bytes of
    dynamic shared memory; `enough`: those on other architectures than sm_90, if fewer. `maps`: for each row of the
    launch two tensor maps, whose address takes the place of `chunk`. `library`: the columns of a row that the library
    that `function` names computes."""

    function: str
    grid: int
    block: int
    row: int
    chunk: int
    jobs: npt.NDArray[np.uint32] | None = None
    group: int = 1
    memory: int = 0
    places: Words | None = None
    shared: int = 0
    enough: int = 0
    maps: tuple[TensorMap, ...] = ()
    library: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Work:
    """One launch with its kernel, table and sizes. `synapses`: the number of stored elements of an array, by name;
    `blocks`: that may walk them."""

    template: l2.Template
    kernel: CompiledKernel
    rows: l2.Rows
    table: Words
    launch: l2.Launch
    synapses: Callable[[str], int]
    blocks: int
    device: Target = H200

    @property
    def real_bytes(self) -> int:
        """Of what its results are computed in."""
        return next(f.dtype.computed.bytes for f in self.template.formals if f.name == "y")

    def at_once(self, each: int) -> int:
        return cost.at_once(self.device, each)

    def column(self, name: str) -> Ints:
        """An integer column, for the rows of the launch."""
        position = [f.name for f in self.template.formals].index(name)
        return self.table[self.launch.lo : self.launch.hi, position].view(np.int64)

    def extent(self, dims: tuple[l2.Dim, ...], summed: bool) -> Ints:
        """Products of the extents of all dims that are summed over, or that are not, one per row."""
        total = np.ones(self.launch.hi - self.launch.lo, np.int64)
        for d in dims:
            if (d.kind is l2.DimKind.RED) == summed:
                total = total * (d.extent if isinstance(d.extent, int) else self.column(d.extent))
        return total


def spread(
    function: str,
    w: Work,
    counts: Ints,
    per_block: int,
    chosen: Ints | None = None,
    most: int = MOST_BLOCKS,
    **more: Any,
) -> list[Call]:
    """Blocks of `per_block` elements over the rows `chosen` (default all), `counts` elements each."""
    rows = np.arange(len(counts), dtype=np.int64) if chosen is None else chosen
    counts = counts[rows]
    chunk = per_block
    while int((-(-counts // chunk)).sum()) > max(most, len(counts)):
        chunk *= 2
    parts = -(-counts // chunk)
    return in_blocks(function, w, rows, parts, chunk, **more)


def in_blocks(
    function: str, w: Work, rows: Ints, parts: Ints, chunk: int, block: int = BLOCK, **more: Any
) -> list[Call]:
    """A call of so many blocks for each of the rows, if there are any."""
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


def in_kernels(
    w: Work, parts: Ints, words: Ints, more: Callable[[CompiledFunction, list[int]], dict[str, Any]]
) -> list[Call]:
    """All rows, in the kernels of their tiles (`s_tile`), in the order of the kernels: so many blocks of each, with
    words of memory; `more`: what else the call of a kernel for some of them has."""
    calls = list[Call]()
    for function in w.kernel.functions:
        rows = np.arange(len(parts), dtype=np.int64)
        if function.tiles:
            rows = rows[np.isin(w.column("s_tile"), function.tiles)]
        if len(rows):
            places, memory = places_of(rows, words[rows])
            given = {"parts": parts[rows], "places": places, "memory": memory, **more(function, rows.tolist())}
            calls += in_blocks(function.name, w, rows, chunk=1, block=function.block, group=w.template.index, **given)
    return calls


def places_of(rows: Ints, words: Ints) -> tuple[Words | None, int]:
    """The memory offset of each row of a call, in words of 4 bytes, from a multiple of 16 bytes on, and the total
    bytes."""
    if not words.any():
        return None, 0
    count = 1 if len(rows) == 1 else int(rows.max()) + 1
    places = np.zeros(count, np.uint64)
    first = -(-2 * count // 4) * 4
    places[rows if count > 1 else [0]] = first + np.cumsum(words) - words
    return places, 4 * first + 4 * int(words.sum())
