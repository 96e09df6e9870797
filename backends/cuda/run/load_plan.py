"""load_plan: the phases of a program, ready to run on a device: tables, jobs, counters, dependences.

Assumes: arenas that exist and a placement in them; the sizes known so far.
Guarantees: all data that kernels read beside the arrays is on the device, for the lifetime of the `Prepared`.
Does not: run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.watched import watched
from backends.cuda.device.device import Device
from backends.cuda.kernels.launch_geometry import WORKSPACE, array_elements, calls_of
from backends.cuda.kernels.launch_work import Call, Words, Work
from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import Shapes, shapes_of
from backends.cuda.persistent.rnn_table import Walk
from backends.cuda.persistent.rnn_table import walk as chain_walk
from backends.cuda.persistent.spread_table import spread_walk
from backends.cuda.run import cublaslt, cudnn
from backends.cuda.run.cuda_graphs import (
    STEPS,
    Blocks,
    KernelCall,
    LibraryCall,
    Plan,
    Timed,
    WaveKernels,
    WaveLists,
    release,
)
from backends.cuda.run.split_launches import split
from backends.cuda.waves.waves import PER_PROCESSOR, PHASE, PhaseContext, counters, staged, waves
from backends.errors import BackendError, NoAlgorithm
from backends.kernel_ir.descriptor import Compiled
from backends.protocol import AnyArray
from compiler.ir.level2.dependence import beside, conflicts, launched, paired, touched
from compiler.ir.level2.target import Target
from compiler.layout.plan_memory import Placement, overlaps
from compiler.layout.write_tables import device_table, rows_of_steps, with_columns
from compiler.strategies.cost.cuda import EVENT_BLOCKS

COPY_ENGINE: Final = "sm_90"
"""The architecture whose kernels fetch tiles by tensor maps (templates/stored_products.cu.j2)."""
Address = Callable[[str], int]


@dataclass(frozen=True)
class Watch:
    """Lists on the device: ring buffers that nl_begin clears, buffers that nl_room checks, and their numbers."""

    rings: int
    ring_count: int
    buffers: int
    buffer_count: int


@dataclass
class Prepared:
    """Plans and watches by phase, and the memory that they reference."""

    device: Device
    plans: dict[str, Plan] = field(default_factory=dict)
    watch: dict[str, Watch] = field(default_factory=dict)
    memory: list[Any] = field(default_factory=list)

    def keep(self, values: AnyArray, what: str = "launches") -> int:
        """The address of a copy on the device."""
        memory = self.device.allocate(values.nbytes, {what: values.nbytes})
        self.memory.append(memory)
        self.device.upload(int(memory), values)
        return int(memory)

    def free(self) -> None:
        for plan in self.plans.values():
            release(self.device, plan)
        for memory in self.memory:
            memory.free()
        self.memory.clear()
        self.plans.clear()


def prepare(
    device: Device,
    program: l2.Merged,
    kernels: Compiled,
    tables: tuple[Words, ...],
    bases: Words,
    placement: Placement,
    sizes: Mapping[str, int],
    address: Address,
) -> Prepared:
    """All phases, for the compiled kernels and the host's tables; `bases`: addresses of the arenas by role number."""
    out = Prepared(device)
    shapes = shapes_of(program)
    words = [device_table(t, table, bases) for t, table in zip(program.templates, tables, strict=True)]
    at_once = {p.name: launched_at_once(device, program, kernels, p, words, shapes) for p in program.phases}
    walks = {(name, x.number) for name, units in at_once.items() for x in units if x.walk is not None}
    tables, begins = rows_of_steps(program, tables, walks)
    words = [device_table(t, table, bases) for t, table in zip(program.templates, tables, strict=True)]
    rows = [out.keep(with_columns(x, k.columns), "tables") for x, k in zip(words, kernels, strict=True)]
    elements = array_elements(sizes, {a.name: a.physical_size for a in program.arrays})
    shared = overlaps(program, placement)
    target = device.target
    sized = all(a.size_from is None or a.name in sizes for a in program.arrays)

    def work(launch: l2.Launch) -> Work:
        t, blocks = launch.template, EVENT_BLOCKS * target.processors
        return Work(program.templates[t], kernels[t], program.tables[t], tables[t], launch, elements, blocks, target)

    for phase in program.phases:
        units = at_once[phase.name]
        if phase.name in l2.LAYERS:
            units = _apart(program, units, shared, target)
        steps = sized and phase.name == PHASE and not shared and not phase.chains
        known = [launched(program, x) for x in phase.launches] if steps else []
        pairs = paired(known)
        apart = _not_beside(program, units, shared)
        free = beside(pairs, STEPS) if steps else [frozenset[tuple[int, int]]()] * len(units)
        timed = []
        for x, others, besides in zip(units, apart, free, strict=True):
            label, (first, *_) = _label(program, x.launches), x.launches
            if x.walk is not None:
                room = x.chain is not None and x.chain.abreast > 1
                timed.append(_chained(out, x.walk, label, others, room))
            else:
                t = first.template
                place = Place(rows[t], words[t], begins.get((phase.name, x.number), first.lo), x.steps)
                calls = _calls(out, work(first), place, label, phase.name)
                timed.append(Timed(calls, first.every, first.offset, others, besides))
        run = None
        if steps and any(k.wave for k in kernels):
            ground = PhaseContext(
                program, kernels, phase, tables, words, rows, elements, out.keep, known, pairs, target
            )
            run = _waves(out, ground, PER_PROCESSOR * target.processors)
        out.plans[phase.name] = Plan(tuple(timed), run, loops=_loops(units))
        out.watch[phase.name] = _watch(out, program, phase, tables, address)
    return out


@dataclass(frozen=True)
class Unit:
    """What is launched at once: a launch (number `number` of the phase, or a part of it), or those of a chain, as a
    walk (from launch `number` on) of `chain`. `loop`: the one that it is in."""

    launches: tuple[l2.Launch, ...]
    walk: Walk | None = None
    number: int = -1
    loop: l2.Loop | None = None
    chain: l2.Loop | None = None

    @property
    def steps(self) -> int:
        return 1 if self.loop is None else self.loop.steps


def launched_at_once(
    device: Device,
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.Phase,
    words: Sequence[Words],
    shapes: Shapes,
) -> list[Unit]:
    """The units of launching, in order: single launches, those of loops, and the chains that pay and fit on this
    device."""
    found: list[Unit] = []
    done = 0
    for loop in phase.loops:
        found += [Unit((x,)) for x in phase.launches[done : loop.first]]
        done = loop.last
        walk = None
        if loop.pays:
            own = rnn.name_of(loop.cluster)
            make, function = (spread_walk, spread.NAME) if loop.spread > 1 else (chain_walk, own)
            walk = make(program, kernels, phase, loop, words, shapes, device.target.processors, device.room(function))
        if walk is not None:
            found.append(Unit(phase.launches[loop.first : loop.last], walk, loop.first, chain=loop))
        else:
            found += [Unit((phase.launches[n],), None, n, loop) for n in range(loop.first, loop.last)]
    return [*found, *(Unit((x,)) for x in phase.launches[done:])]


def _apart(
    program: l2.Merged, units: Sequence[Unit], shared: Mapping[str, frozenset[str]], device: Target
) -> list[Unit]:
    """Launches whose rows are ready at different times, as several; chains and steps of loops stay whole."""
    if any(x.walk is not None for x in units):
        return list(units)
    found: list[Unit] = []
    for unit, parts in zip(units, split(program, [x.launches[0] for x in units], shared, device), strict=True):
        found += [unit] if unit.loop is not None else [Unit((x,)) for x in parts]
    return found


def _loops(units: Sequence[Unit]) -> tuple[l2.Loop, ...]:
    """The loops of a phase, over its units."""
    places: dict[l2.Loop, list[int]] = {}
    for n, x in enumerate(units):
        if x.loop is not None:
            places.setdefault(x.loop, []).append(n)
    return tuple(replace(loop, first=at[0], last=at[-1] + 1) for loop, at in places.items())


def _not_beside(
    program: l2.Merged, units: Sequence[Unit], shared: Mapping[str, frozenset[str]]
) -> list[frozenset[int]]:
    """For each unit those that may not run concurrently with it."""
    own, wide = (
        [touched(program.templates, program.tables, x.launches, {}, memory) for x in units] for memory in ({}, shared)
    )
    return in_turn(units, conflicts(own, wide))


def in_turn(units: Sequence[Unit], apart: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """With the chains that are spread over blocks, which wait for each other, one after the other, but for those that
    have the processors divided."""
    chains = [
        (n, x.chain) for n, x in enumerate(units) if x.chain is not None and x.walk is not None and x.walk.counters
    ]
    found = list(apart)
    for n, chain in chains:
        found[n] |= {m for m, other in chains if other.name not in chain.beside}
    return found


def _chained(out: Prepared, walk: Walk, label: str, others: frozenset[int], room: bool) -> Timed:
    """`room`: for the blocks of the chain beside those of others."""
    table = out.keep(walk.table)
    counters = out.keep(np.zeros(walk.counters, np.uint32)) if walk.counters else 0
    call = KernelCall(walk.function, walk.blocks, walk.threads, table, 0, walk.samples, counters, 1, label, walk.shared)
    waiting = Blocks.ROOM if room else Blocks.WAIT
    return Timed((replace(call, blocks=waiting if walk.counters else Blocks.FREE),), 1, 0, others)


def _label(program: l2.Merged, launches: Sequence[l2.Launch]) -> str:
    """What messages call launches of one kernel, or of a chain."""
    first, many = launches[0], max(len(launches), launches[0].hi - launches[0].lo)
    template, rows = program.templates[first.template], program.tables[first.template]
    path = rows.paths[first.lo] if first.lo < len(rows.paths) else template.name
    more = f" and {many - 1} more" if many > 1 else ""
    return f"{template.name} (`{path}`{more})"


@dataclass(frozen=True, eq=False)
class Place:
    """Where the rows of a launch are: the address of its table; the rows with all columns; its first row, in the first
    of so many steps of a loop, behind which the rows of the next steps are."""

    address: int
    words: Words
    first: int
    steps: int


def _calls(out: Prepared, work: Work, place: Place, label: str, phase: str) -> tuple[KernelCall | LibraryCall, ...]:
    """The calls of a launch of a phase, or of a step of a loop."""
    ready: list[KernelCall | LibraryCall] = []
    own, many = work.launch.lo, work.launch.hi - work.launch.lo
    for call in calls_of(work):
        steps = [place.first + many * at - own for at in range(place.steps)]  # to the rows of each
        if call.library is not None:
            runs = (_library(out.device, work, call, call.row + by, place.words, phase) for by in steps)
            ready.append(LibraryCall(label, tuple(runs)))
            continue
        jobs = 0 if call.jobs is None else out.keep(call.jobs)
        memory = counters(out.keep, call)
        at = place.address + (call.row + steps[0]) * work.kernel.row_bytes
        chunk, by_chunk = call.chunk, 0
        if call.maps and out.device.arch == COPY_ENGINE:
            maps = [_maps(out, work, call, place.words[by:]) for by in steps]
            chunk, by_chunk = out.keep(np.concatenate(maps), "tensor maps"), maps[0].nbytes
        part = KernelCall(call.function, call.grid, call.block, at, jobs, chunk, memory, call.group, label)
        moved = (many * work.kernel.row_bytes, by_chunk) if place.steps > 1 else (0, 0)
        ready.append(replace(part, shared=_shared(out, call, label), by_step=moved))
    return tuple(ready)


def _library(device: Device, work: Work, call: Call, at: int, words: Words, phase: str) -> Callable[[int], None]:
    """What runs a contraction by a library, for the addresses in row `at`. Raises NoAlgorithm where it does not."""
    names = [f.name for f in work.template.formals]
    types = {f.name: f.dtype for f in work.template.formals}
    used = ("x0", "x1", "y", WORKSPACE)
    operands = {name: (int(words[at][names.index(name)]), types[name]) for name in used}
    made = cudnn.convolution if call.function in cudnn.STRATEGIES else cublaslt.product
    assert call.library is not None
    try:
        return made(call.function, call.library, operands, device.stream.handle)
    except BackendError as e:
        if e.code != "E0924":
            raise
        path = work.rows.paths[at] if at < len(work.rows.paths) else work.template.name
        raise NoAlgorithm(phase, f"`{path}`: {e.message}") from None


def _shared(out: Prepared, call: Call, label: str) -> int:
    """Dynamic shared memory of a call. Raises BackendError (E0922) where the device has less."""
    if not call.shared:
        return 0
    room = out.device.room(call.function)
    wanted = call.shared if call.enough == 0 or out.device.arch == COPY_ENGINE else call.enough
    if room < wanted:
        what = f"{label} needs {wanted} bytes of shared memory, a block here has {room}"
        more = "precision: float32" if call.maps else "products: float32"
        raise BackendError("E0922", what, f"`numerics: {{{more}}}` takes smaller tiles")
    return wanted


def _maps(out: Prepared, work: Work, call: Call, words: Words) -> npt.NDArray[np.uint8]:
    """The encoded tensor maps of a call."""
    names = [f.name for f in work.template.formals]
    encode = out.device.driver.tensor_map
    parts = [
        encode(int(words[m.row, names.index(m.formal)]), m.extents, m.strides, m.box, m.size, m.corners, m.steps)
        for m in call.maps
    ]
    return np.frombuffer(b"".join(parts), np.uint8)


def _waves(out: Prepared, ground: PhaseContext, blocks: int) -> WaveKernels | None:
    """A phase as waves, their lists on the device; None where it cannot run so."""
    made = waves(ground, blocks)
    if not made:
        return None
    around = sum(bool(x.work_items["later"].any()) for x in made)
    lists = []
    for x in made:
        items, early = staged(ground, x)
        words = out.keep(x.words) if len(x.words) else 0
        of_items = out.keep(items), items.shape[1] // 16, early
        lists.append(WaveLists(x.kernel, *of_items, words, len(x.words) // 2, x.delivering))
    return WaveKernels(blocks, tuple(lists), around)


def _watch(out: Prepared, program: l2.Merged, phase: l2.Phase, tables: tuple[Words, ...], address: Address) -> Watch:
    found = watched(program, phase, tables)
    rings = [(address(count), slots) for count, slots in found.rings]
    buffers = [(address(used), room, most, every) for used, room, most, every in found.buffers]
    ring = out.keep(np.array(rings, np.int64)) if rings else 0
    buffer = out.keep(np.array(buffers, np.int64)) if buffers else 0
    return Watch(ring, len(rings), buffer, len(buffers))
