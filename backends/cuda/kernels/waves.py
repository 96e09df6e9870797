"""simulation: a phase as one persistent kernel that runs many steps, or as waves: one kernel for all launches between
two grid barriers.

Assumes: a phase without contractions and without redrawn relations; the host's tables.
Guarantees: every block has a list of work items, parts of calls in the order of the phase, that it runs in each step;
grid barriers are where backends/cuda/kernels/barrier_placement.py places them. Rows that share elements are assigned to
the same blocks, so that neurons and their inputs need no barrier; other calls go to the remaining blocks. Lists are
data.
Does not: decide whether this is faster than a graph of single launches (backends/cuda/run/cuda_graphs.py measures it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.cprint import Dialect
from backends.cuda.kernels.barrier_placement import Launched, Meetings, Pairs, alike, meetings
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.launch_geometry import Call, Work, calls_of, function_name, row_bytes

NAME: Final = "nl_stay"
ARGUMENTS: Final = "PPqPq"
PHASE: Final = "step"
"""The phase that a resident kernel is for: that of simulations."""
WAVE: Final = "nl_wave"
WAVE_ARGUMENTS: Final = "PPqq"
WAVE_BLOCKS: Final = 3
"""Blocks of a wave that a processor has registers for."""
THREADS: Final = 512
"""Threads of a block, one on each processor: the fewer blocks there are, the sooner all have met."""
COUNTERS: Final = 4
"""Counters of a meeting."""
APART: Final = 32
"""Words between them."""
ROOM: Final = 46 * 1024
"""Bytes of shared memory for the work items of a block and their rows."""
ERRAND: Final = np.dtype(
    [
        ("self", "u8"),
        ("memory", "u8"),
        ("chunk", "i8"),
        ("group", "u4"),
        ("bytes", "u4"),
        ("row", "u4"),
        ("part", "u4"),
        ("parts", "u4"),
        ("function", "u4"),
        ("every", "u4"),
        ("offset", "u4"),
        ("meet", "u4"),
        ("later", "i4"),
    ]
)
"""nl_errand of templates/waves.cu.j2."""
NOTHING: Final = 0xFFFFFFFF
"""The function of a work item that only waits."""

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Stayed:
    """A function that the persistent kernel calls. `flat`: thread t takes points t, t + block, ... of a part
    (meetings.is_flat); `shares`: the threads of a block share memory in it; `joins`: BLOCK of them."""

    name: str
    flat: bool
    shares: bool
    joins: bool


def threads(functions: Sequence[Stayed]) -> int:
    """Threads of a block of the kernel."""
    return BLOCK if any(f.joins for f in functions) else THREADS


def resident_templates(program: l2.Merged) -> tuple[int, ...]:
    """The templates that run in the phase; none if it cannot be a persistent kernel."""
    phase = next((p for p in program.phases if p.name == PHASE), None)
    if phase is None:
        return ()
    used = sorted({x.template for x in phase.launches})
    if any(isinstance(program.templates[t].body, l2.Connect | l2.Contract) for t in used):
        return ()
    return tuple(used)


WorkItem = tuple[int, ...]
"""The first eight fields of an ERRAND."""


@dataclass
class _Blocks:
    """The work items of each block. `waiting`: (every, offset) of a pending barrier; `at`: the block that takes the
    next work item without an assigned block."""

    count: int
    lists: list[list[WorkItem]] = field(default_factory=list)
    waiting: list[tuple[int, int] | None] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        self.lists = [[] for _ in range(self.count)]
        self.waiting = [None] * self.count

    def meet(self, launch: l2.Launch) -> None:
        """A grid barrier, in the steps of the launch."""
        for block in range(self.count):
            self._flush(block)
            self.waiting[block] = launch.every, launch.offset

    def _flush(self, block: int) -> None:
        waits = self.waiting[block]
        if waits is not None:
            self.lists[block].append((0, 0, 0, 0, 0, 0, 0, 0, NOTHING, *waits, 1, 0))
            self.waiting[block] = None

    def add(self, work_item: WorkItem, launch: l2.Launch, later: int = 0, block: int | None = None) -> None:
        """A work item for a block, or for the next one; `later`: for which step."""
        if block is None:
            block, self.at = self.at, (self.at + 1) % self.count
        when = launch.every, launch.offset
        if self.waiting[block] not in (None, when):
            self._flush(block)
        meets, self.waiting[block] = self.waiting[block] is not None, None
        self.lists[block].append((*work_item, *when, int(meets), later))

    def packed(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint32]]:
        """All work items, block after block, and the offsets of each block's."""
        for block in range(self.count):
            self._flush(block)
        first = np.cumsum([0, *(len(x) for x in self.lists)]).astype(np.uint32)
        return np.array([e for x in self.lists for e in x], ERRAND), first


@dataclass(frozen=True)
class Resident:
    """Launch arguments of the kernel of a phase. `before`: the launches preceded by a grid barrier."""

    work_items: npt.NDArray[np.void]
    first: npt.NDArray[np.uint32]
    before: frozenset[int]


@dataclass(frozen=True)
class _Source:
    """The source of the work items of one launch: the work, the address and width of its table's rows, the
    functions."""

    work: Work
    base: int
    width: int
    functions: Mapping[str, int]

    def work_item(self, call: Call, memory: int, row: int, part: int, parts: int) -> WorkItem:
        """A part of a call for one row, counted from the call's first one."""
        place, number = self.base + (call.row + row) * self.width, self.functions[call.function]
        return place, memory, call.chunk, call.group, self.width, row, part, parts, number

    def all_of(self, calls: Sequence[Call], keep: Callable[[Words], int]) -> Iterator[WorkItem]:
        """All parts of calls."""
        for call in calls:
            memory = counters(keep, call)
            if call.jobs is None:
                yield from (self.work_item(call, memory, 0, part, call.grid) for part in range(call.grid))
            else:
                yield from (self.work_item(call, memory, *map(int, job[:3])) for job in call.jobs)


def counters(keep: Callable[[Words], int], call: Call) -> int:
    """The address of a call's counters, initialised; 0 if it has none."""
    if not call.memory:
        return 0
    words = np.zeros(-(-call.memory // 8), np.uint64)
    if call.places is not None:
        words[: len(call.places)] = call.places
    return keep(words)


@dataclass(frozen=True, eq=False)
class PhaseContext:
    """The data from which work items are built. `bases`: addresses of the tables; `keep`: copies an array to the
    device; `known` and `pairs`: accesses of the launches of the phase."""

    program: l2.Merged
    phase: l2.MergedPhase
    tables: tuple[Words, ...]
    bases: Sequence[int]
    elements: Callable[[str], int]
    keep: Callable[[Words], int]
    functions: Sequence[Stayed]
    known: Sequence[Launched]
    pairs: Pairs


def work_items(ground: PhaseContext, blocks: int) -> Resident:
    """The work items of `blocks` blocks of the persistent kernel."""
    found, order = meetings(ground.known, ground.pairs), [(n, 0) for n in range(len(ground.known))]
    return Resident(*_lists(ground, found, order, blocks, True).packed(), found.before)


def waves(ground: PhaseContext, blocks: int) -> list[Resident]:
    """The work items of `blocks` blocks of each wave of a step, in order: none, where some launches do not run in every
    step. The last wave continues into the next step, with the launches before its first barrier."""
    found, many = meetings(ground.known, ground.pairs), len(ground.known)
    if found.alone:
        return []
    *cuts, last = sorted(found.before)
    early = cuts[0] if cuts else last
    segments = [[(n, 0) for n in range(a, b)] for a, b in pairwise((*cuts, last))]
    # the last one begins in a step and ends in the next one: it is the first wave of that
    around = [*((n, -1 if early else 0) for n in range(last, many)), *((n, 0) for n in range(early))]
    order = [around, *segments] if early else [*segments, around]
    return [Resident(*_lists(ground, found, x, blocks, False).packed(), found.before) for x in order]


def _lists(
    ground: PhaseContext, found: Meetings, order: Sequence[tuple[int, int]], blocks: int, meets: bool
) -> _Blocks:
    """The work items of launches: (position in the phase, step). `meets`: whether grid barriers are inserted; launches
    of a wave leave half of all blocks to the other calls."""
    program, phase, known = ground.program, ground.phase, ground.known
    numbers, dialect = {f.name: n for n, f in enumerate(ground.functions)}, Dialect(program.precision)
    sources = []
    for x in phase.launches:
        template, table = program.templates[x.template], ground.tables[x.template]
        work = Work(template, program.tables[x.template], table, x, ground.elements, blocks)
        sources.append(_Source(work, ground.bases[x.template], row_bytes(template), numbers))
    flat = {n: _points(sources[n].work) for n, x in enumerate(known) if x.flat and n not in found.alone}
    groups = alike(known, flat)
    if meets:
        points = threads(ground.functions)
    else:
        most = max((int(x.sum()) for x in flat.values()), default=0)
        points = BLOCK if 5 * most <= 2 * blocks * BLOCK else 2 * BLOCK
    parts = _Parts.of(flat, groups, blocks, points)
    free = blocks - parts.taken if 4 * parts.taken < 3 * blocks else blocks
    out = _Blocks(blocks, at=0 if meets else parts.taken % blocks)
    for n, later in order:
        launch = phase.launches[n]
        if meets and n in found.before:
            out.meet(launch)
            out.at = parts.taken % blocks
        source, name = sources[n], function_name(program.templates[launch.template], dialect)
        if n in flat:
            call = Call(name, 0, BLOCK, launch.lo, parts.chunk)
            for row, points in enumerate(flat[n].tolist()):
                many, begin = -(-points // parts.chunk), parts.begins[groups[n, row]]
                for part in range(many):
                    work_item = source.work_item(call, 0, row, part, many)
                    out.add(work_item, launch, later, (begin + part) % blocks)
        else:
            for work_item in source.all_of(calls_of(replace(source.work, blocks=free), dialect), ground.keep):
                out.add(work_item, launch, later)
        if meets and n in found.alone:
            out.meet(launch)
    return out


@dataclass(frozen=True)
class _Parts:
    """Partition of flat launches: points of a part, the block of the first part of each group of rows that are assigned
    to the same blocks, and the number of blocks with any."""

    chunk: int
    begins: Mapping[int, int]
    taken: int

    @staticmethod
    def of(points: Mapping[int, Ints], groups: Mapping[tuple[int, int], int], blocks: int, block: int) -> _Parts:
        """Parts of as many points as a block has threads, or more if there would be more parts than blocks."""
        largest: dict[int, int] = {}
        for n, counts in points.items():
            for row, count in enumerate(counts.tolist()):
                group = groups[n, row]
                largest[group] = max(largest.get(group, 0), count)
        chunk = block * max(1, -(-sum(largest.values()) // (block * blocks)))
        begins, at = dict[int, int](), 0
        for group, count in sorted(largest.items()):
            begins[group] = at
            at += -(-count // chunk)
        return _Parts(chunk, begins, min(at, blocks))


def _points(work: Work) -> Ints:
    """Points of each row of a flat launch."""
    assert isinstance(work.template.body, l2.Nest)
    return work.extent(work.template.body.dims, False)
