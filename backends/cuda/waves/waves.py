"""waves: a phase as one kernel for all launches between two grid barriers.

Assumes: a phase without contractions and without redrawn relations; the host's tables.
Guarantees: every block has a list of work items, parts of calls in the order of the phase, that it runs in each step;
waves end where backends/cuda/waves/barrier_placement.py places grid barriers. Rows that share elements are assigned
to the same blocks, so that neurons and their inputs need no barrier; other calls go to the remaining blocks, those that
record events to blocks of their own. The rows of a delivery are divided by the events of each step, where these blocks
have room for them (shared_deliveries.py). Lists are data, a work item brings its row, and those that deliver find the
data of all deliveries of their wave side by side. A kernel calls functions of at most MOST_WORK: what many different
models take is divided among several kernels, and a wave of theirs into several, so that the time to compile grows no
faster than their number. A phase of which some launches do not run in every step has no kernels, only the functions.
Does not: decide whether this is faster than a graph of single launches (backends/cuda/run/cuda_graphs.py measures it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.device_library import long_functions
from backends.cuda.kernels.kernel import BLOCK, structure
from backends.cuda.kernels.launch_geometry import calls_of
from backends.cuda.kernels.launch_work import Call, Work
from backends.cuda.kernels.synapse_loops import EVENT
from backends.cuda.waves.barrier_placement import alike, meetings
from backends.cuda.waves.shared_deliveries import WORDS, shared_delivery
from backends.kernel_ir import tree
from backends.kernel_ir.descriptor import Compiled
from backends.kernel_ir.stmt import Stmt, trees, walk
from compiler.ir.level2.dependence import Launched, Pairs
from compiler.ir.level2.target import Target
from compiler.layout.write_tables import with_columns
from compiler.strategies.cost.devices import H200

PHASE: Final = "step"
"""The phase that waves are for: that of simulations."""
NAME: Final = "nl_wave"
ARGUMENTS: Final = "PqqqqPqq"
MOST_WORK: Final = 1_000
"""What the templates whose functions a kernel calls take to compile, unless it is one: the time grows faster."""
_OF_CALL: Final = 4
"""Of a call of an elementary function of so many lines, which each caller has; of a statement 1."""
_LINES: Final = 20
PER_PROCESSOR: Final = 3
"""Blocks of a wave that a processor has registers for."""
ROOM: Final = 4096
"""Bytes of a block for work items and their rows."""
_NONE: Final = (1 << 32) - 1
"""The function of a block without work items."""
WORK_ITEM: Final = structure(
    "self,memory:u8 chunk:i8 group,row,part,parts,function:u4 later:i4 next,more,place:u4", size=64
)
"""nl_errand of templates/waves.cu.j2."""
_FUNCTION: Final = (WORK_ITEM.names or ()).index("function")

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WaveFunction:
    """A function that waves call. `flat`: thread t takes points t, t + block, ... of a part
    (ir/level2/dependence.py: is_flat); `shares`: the threads of a block share memory in it; `event`: it is that of the
    synapses of an event, which nl_deliver calls. `number`: as work items name it; `wave`: that of the kernel."""

    name: str
    number: int
    wave: int
    flat: bool = False
    shares: bool = False
    event: bool = False


def wave_functions(kernels: Compiled) -> tuple[WaveFunction, ...]:
    """The functions that waves call, by their numbers."""
    functions = [(k, f) for k in kernels if k.wave for f in k.functions]
    events = [(k, f) for k, f in functions if f.by_event]
    return (
        *(WaveFunction(f.name, n, k.wave, k.flat, f.joins) for n, (k, f) in enumerate(functions)),
        *(WaveFunction(f.name + EVENT, n, k.wave, event=True) for n, (k, f) in enumerate(events, len(functions))),
    )


def kernel_name(wave: int) -> str:
    """The kernel of so many that waves have, counted from 1."""
    return NAME if wave == 1 else f"{NAME}_{wave}"


def wave_templates(program: l2.Merged) -> tuple[int, ...]:
    """The templates that run in the phase, in the order of their launches; none if it cannot run as waves."""
    phase = next((p for p in program.phases if p.name == PHASE), None)
    if phase is None:
        return ()
    used = dict.fromkeys(x.template for x in phase.launches)
    if any(isinstance(program.templates[t].body, l2.Connect | l2.Contract | l2.Attention) for t in used):
        return ()
    return tuple(used)


def compile_work(statements: Sequence[Stmt]) -> int:
    """What a template takes to compile, in statements."""
    long = long_functions(_LINES)
    calls = (x.function.text for e in trees(statements) for x in tree.nodes(e) if isinstance(x, tree.Call))
    return sum(1 for _ in walk(statements)) + _OF_CALL * sum(x in long for x in calls)


def wave_kernels(program: l2.Merged, work: Mapping[int, int]) -> dict[int, int]:
    """The kernel of each of these templates, which take so much `work` to compile: as few as have room for them, in
    this order; 0, where some launches do not run in every step: waves all do."""
    if any(x.every != 1 for p in program.phases if p.name == PHASE for x in p.launches):
        return dict.fromkeys(work, 0)
    found, wave, room = dict[int, int](), 1, MOST_WORK
    for template, own in work.items():
        if own > room and room < MOST_WORK:
            wave, room = wave + 1, MOST_WORK
        found[template] = wave
        room -= own
    return found


WorkItem = tuple[int, ...]
"""The fields of a WORK_ITEM up to `function`."""


@dataclass
class _Blocks:
    """The work items of each block. `at`: the block, of the last `free` ones, that takes the next work item without an
    assigned block."""

    lists: list[list[WorkItem]]
    free: int
    at: int

    def add(self, work_item: WorkItem, later: int, block: int | None = None) -> None:
        """A work item for a block, or for the next one; `later`: for which step, counted from that of the wave."""
        if block is None:
            block, many = self.at, len(self.lists)
            self.at = block + 1 if block + 1 < many else many - self.free
        self.lists[block].append((*work_item, later, 0, 0, 0))


@dataclass(frozen=True)
class Wave:
    """The work items of a wave, block after block, and the offsets of each block's. `words`: the data of its shared
    deliveries, one after the other, in which a work item names the first word of its own;
    `delivering`: the first block that reads them."""

    kernel: str
    work_items: npt.NDArray[np.void]
    first: npt.NDArray[np.uint32]
    words: Words
    delivering: int


@dataclass(frozen=True)
class _Source:
    """The source of the work items of one launch: the work, the address and width of its table's rows, the device's
    rows of the launch, the functions, and the data of the shared deliveries of the wave."""

    work: Work
    base: int
    width: int
    rows: Words
    functions: Mapping[str, int]
    shared: list[Words]

    def work_item(self, call: Call, memory: int, row: int, part: int, parts: int) -> WorkItem:
        """A part of a call for one row, counted from the call's first one."""
        place, number = self.base + (call.row + row) * self.width, self.functions[call.function]
        return place, memory, call.chunk, call.group, row, part, parts, number

    def all_of(self, calls: Sequence[Call], keep: Callable[[Words], int]) -> Iterator[WorkItem]:
        for call in calls:
            memory = counters(keep, call)
            if call.jobs is None:
                yield from (self.work_item(call, memory, 0, part, call.grid) for part in range(call.grid))
            else:
                yield from (self.work_item(call, memory, *map(int, job[:3])) for job in call.jobs)

    def every(self, blocks: int, keep: Callable[[Words], int]) -> Iterator[WorkItem]:
        """All parts of the launch, divided among `blocks` blocks."""
        taken = sum(map(len, self.shared))
        shared = shared_delivery(self.work, self.rows, WORDS - taken)
        if shared is None:
            return self.all_of(calls_of(replace(self.work, blocks=blocks)), keep)
        self.shared.append(shared.words)
        place, number = self.base + self.work.launch.lo * self.width, self.functions[self.work.kernel.function + EVENT]
        given = place, taken, 0, shared.rows, shared.sources
        return ((*given, part, blocks, number) for part in range(blocks))


def _left(free: int, short: int) -> int:
    """The blocks that deliveries are divided among, of `free` ones. Lists of events are recorded by blocks of their
    own, unless there are many: a delivery after one of them would end late, and the wave with it."""
    return free - short if 4 * short < free else free


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
    """The data from which work items are built. `words`: the device's tables, with all columns; `bases`: addresses of
    those columns that kernels read; `keep`: copies an array to the device; `known` and `pairs`: accesses of the
    launches of the phase."""

    program: l2.Merged
    kernels: Compiled
    phase: l2.Phase
    tables: tuple[Words, ...]
    words: Sequence[Words]
    bases: Sequence[int]
    elements: Callable[[str], int]
    keep: Callable[[Words], int]
    known: Sequence[Launched]
    pairs: Pairs
    device: Target = H200


def waves(ground: PhaseContext, blocks: int) -> list[Wave]:
    """The work items of `blocks` blocks of each wave of a step, in order: none, where rows are too wide. The last wave
    continues into the next step, with the launches before its first barrier. What is between two barriers is as many
    waves as it has kernels."""
    if _width(ground) > ROOM:
        return []
    *cuts, last = sorted(meetings(ground.pairs))
    many = len(ground.known)
    early = cuts[0] if cuts else last
    segments = [[(n, 0) for n in range(a, b)] for a, b in pairwise((*cuts, last))]
    # the last one begins in a step and ends in the next one: it is the first wave of that
    around = [*((n, -1 if early else 0) for n in range(last, many)), *((n, 0) for n in range(early))]
    order = [around, *segments] if early else [*segments, around]
    parts = (list(x) for segment in order for _, x in groupby(segment, lambda x: _kernel(ground, x[0])))
    return [_wave(ground, x, blocks) for x in parts]


def _kernel(ground: PhaseContext, launch: int) -> int:
    """The kernel that has the functions of a launch."""
    return ground.kernels[ground.phase.launches[launch].template].wave


def _wave(ground: PhaseContext, order: Sequence[tuple[int, int]], blocks: int) -> Wave:
    """The work items of launches: (position in the phase, step). They leave half of all blocks to the other calls."""
    program, phase, known = ground.program, ground.phase, ground.known
    functions = wave_functions(ground.kernels)
    numbers = {f.name: f.number for f in functions}
    sources, shared = list[_Source](), list[Words]()
    for x in phase.launches:
        t = x.template
        template, kernel, rows, table = program.templates[t], ground.kernels[t], program.tables[t], ground.tables[t]
        work = Work(template, kernel, rows, table, x, ground.elements, blocks, ground.device)
        own = ground.words[t][x.lo : x.hi]
        sources.append(_Source(work, ground.bases[t], kernel.row_bytes, own, numbers, shared))
    flat = {n: _points(sources[n].work) for n, x in enumerate(known) if x.flat}
    groups = alike(known, flat)
    most = max((int(x.sum()) for x in flat.values()), default=0)
    parts = _Parts.of(flat, groups, blocks, BLOCK if 5 * most <= 2 * blocks * BLOCK else 2 * BLOCK)
    free = blocks - parts.taken if 4 * parts.taken < 3 * blocks else blocks
    few = [n for n, _ in order if isinstance(sources[n].work.template.body, l2.RecordEvents)]
    short = {n: list(sources[n].every(blocks, ground.keep)) for n in few}
    left = _left(free, sum(map(len, short.values())))
    out = _Blocks([[] for _ in range(blocks)], free, parts.taken % blocks)
    for n, later in order:
        launch = phase.launches[n]
        source, name = sources[n], ground.kernels[launch.template].function
        if n in flat:
            call = Call(name, 0, BLOCK, launch.lo, parts.chunk)
            for row, points in enumerate(flat[n].tolist()):
                many, begin = -(-points // parts.chunk), parts.begins[groups[n, row]]
                for part in range(many):
                    out.add(source.work_item(call, 0, row, part, many), later, (begin + part) % blocks)
        else:
            for work_item in short.get(n) or source.every(left, ground.keep):
                out.add(work_item, later)
    first = np.cumsum([0, *(len(x) for x in out.lists)]).astype(np.uint32)
    words = np.concatenate([np.zeros(0, np.uint64), *shared])
    by_event = {f.number for f in functions if f.event}
    delivering = next((n for n, x in enumerate(out.lists) if any(e[_FUNCTION] in by_event for e in x)), blocks)
    items = np.array([e for x in out.lists for e in x], WORK_ITEM)
    return Wave(kernel_name(_kernel(ground, order[0][0])), items, first, words, delivering)


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


def _width(ground: PhaseContext) -> int:
    """Bytes of a work item and its row, whatever its function."""
    widest = max((k.row_bytes for k in ground.kernels if k.wave), default=0)
    return WORK_ITEM.itemsize + -(-widest // 16) * 16


def staged(ground: PhaseContext, wave: Wave) -> tuple[npt.NDArray[np.uint8], int]:
    """The work items as blocks read them, with their rows: some of each block (how many: the second result), so that it
    finds these by its number, then the others, those of a block one after the other. `place`: of the next one among as
    many in shared memory, 0 after the last of these."""
    many: Ints = np.diff(wave.first.astype(np.int64)).astype(np.int64)
    width, blocks = _width(ground), len(many)
    early = min(int(many.max(initial=1)), ROOM // width)
    rest = (many - early).clip(0)
    others = blocks * early + np.cumsum(rest) - rest
    block = np.repeat(np.arange(blocks), many)
    nth = np.arange(len(block)) - wave.first[block]
    place = np.where(nth < early, block * early + nth, others[block] + nth - early)
    items = wave.work_items.copy()
    items["more"] = many[block] - 1 - nth
    items["next"] = np.where(nth == early - 1, others[block], place + 1)
    items["place"] = (nth + 1) % early * (width // 16)
    out = np.zeros((blocks * early + int(rest.sum()), width), np.uint8)
    heads = np.zeros(len(out), WORK_ITEM)
    heads["function"] = _NONE
    heads[place] = items
    out[:, : WORK_ITEM.itemsize] = heads.view(np.uint8).reshape(len(out), WORK_ITEM.itemsize)
    names = [f.name for f in wave_functions(ground.kernels)]
    for kernel, words, base in zip(ground.kernels, ground.words, ground.bases, strict=True):
        numbers = [names.index(f.name) for f in kernel.functions if kernel.wave]
        mine = np.flatnonzero(np.isin(items["function"], numbers))
        if len(mine) and kernel.columns:
            rows = (items["self"][mine] - np.uint64(base)).astype(np.int64) // kernel.row_bytes
            own = with_columns(words, kernel.columns)[rows].view(np.uint8)
            out[place[mine], WORK_ITEM.itemsize : WORK_ITEM.itemsize + own.shape[1]] = own
    return out, early


def _points(work: Work) -> Ints:
    """Points of each row of a flat launch."""
    assert isinstance(work.template.body, l2.Nest)
    return work.extent(work.template.body.dims, False)
