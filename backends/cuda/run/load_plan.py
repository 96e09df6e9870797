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

import compiler.ir.level2.program as l2
from backends.c_family.watched import watched
from backends.cuda.device.device import Device
from backends.cuda.kernels.launch_geometry import Call, Words, Work, array_elements, calls_of
from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import Shapes, shapes_of
from backends.cuda.persistent.rnn_table import Walk
from backends.cuda.persistent.rnn_table import walk as chain_walk
from backends.cuda.persistent.spread_table import spread_walk
from backends.cuda.run import cublaslt, cudnn
from backends.cuda.run.cuda_graphs import STEPS, KernelCall, LibraryCall, Plan, Timed, WaveKernels, WaveLists, release
from backends.cuda.run.libraries import WORKSPACE
from backends.cuda.run.split_launches import split
from backends.cuda.waves.waves import PER_PROCESSOR, PHASE, PhaseContext, counters, staged, waves
from backends.kernel_ir.descriptor import Compiled
from backends.protocol import AnyArray, BackendError
from compiler.ir.level2.dependence import beside, conflicts, joined, launched, paired, parts_of, touched
from compiler.layout.plan_memory import Placement, overlaps
from compiler.layout.write_tables import device_table, with_columns

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
    words = [device_table(t, table, bases) for t, table in zip(program.templates, tables, strict=True)]
    rows = [out.keep(with_columns(x, k.columns), "tables") for x, k in zip(words, kernels, strict=True)]
    elements = array_elements(sizes, {a.name: a.physical_size for a in program.arrays})
    shared = overlaps(program, placement)
    shapes = shapes_of(program)
    sized = all(a.size_from is None or a.name in sizes for a in program.arrays)

    def work(launch: l2.Launch) -> Work:
        t = launch.template
        return Work(program.templates[t], kernels[t], program.tables[t], tables[t], launch, elements, device.blocks)

    for phase in program.phases:
        parts = launched_at_once(device, program, kernels, phase, words, shapes)
        if phase.name in l2.LAYERS:
            parts = _apart(program, parts, shared)
        steps = sized and phase.name == PHASE and not shared and not phase.chains
        known = [launched(program, x) for x in phase.launches] if steps else []
        pairs = paired(known)
        apart = conflicts([touched(program.templates, program.tables, x, {}, shared) for x, _ in parts])
        free = beside(pairs, STEPS) if steps else [frozenset[tuple[int, int]]()] * len(parts)
        timed = []
        for (launches, walk), others, besides in zip(parts, apart, free, strict=True):
            label = _label(program, launches[0], len(launches))
            if walk is not None:
                timed.append(_chained(out, walk, label, others))
            else:
                place = rows[launches[0].template], words[launches[0].template]
                timed.append(_timed(out, work(launches[0]), place, program, others, besides))
        run = None
        if steps and any(k.waved for k in kernels):
            ground = PhaseContext(program, kernels, phase, tables, words, rows, elements, out.keep, known, pairs)
            run = _waves(out, ground, PER_PROCESSOR * device.processors)
        out.plans[phase.name] = Plan(tuple(timed), run)
        out.watch[phase.name] = _watch(out, program, phase, tables, address)
    return out


def launched_at_once(
    device: Device,
    program: l2.Merged,
    kernels: Compiled,
    phase: l2.MergedPhase,
    words: Sequence[Words],
    shapes: Shapes,
) -> list[tuple[tuple[l2.Launch, ...], Walk | None]]:
    """The units of launching, in order: single launches, and the chains that pay and fit on this device. The launches
    of other chains are batched again where they are independent."""
    if not phase.chains:
        return [((x,), None) for x in phase.launches]
    found: list[tuple[tuple[l2.Launch, ...], Walk | None]] = []
    done, parts = 0, parts_of(program.arrays)

    def single(last: int) -> list[tuple[tuple[l2.Launch, ...], Walk | None]]:
        return [((x,), None) for x in joined(program.templates, program.tables, phase.launches[done:last], parts)]

    for chain in phase.chains:
        if not chain.pays:
            continue
        make, function = (spread_walk, spread.NAME) if chain.spread > 1 else (chain_walk, rnn.NAME)
        walk = make(program, kernels, phase, chain, words, shapes, device.processors, device.room(function))
        if walk is not None:
            found += [*single(chain.first), (phase.launches[chain.first : chain.last], walk)]
            done = chain.last
    return [*found, *single(len(phase.launches))]


def _apart(
    program: l2.Merged,
    units: Sequence[tuple[tuple[l2.Launch, ...], Walk | None]],
    shared: Mapping[str, frozenset[str]],
) -> list[tuple[tuple[l2.Launch, ...], Walk | None]]:
    """Launches whose rows are ready at different times, as several; chains stay whole."""
    if any(walk is not None for _, walk in units):
        return list(units)
    return [((x,), None) for parts in split(program, [x for (x,), _ in units], shared) for x in parts]


def _chained(out: Prepared, walk: Walk, label: str, others: frozenset[int]) -> Timed:
    table = out.keep(walk.table)
    counters = out.keep(np.zeros(walk.counters, np.uint32)) if walk.counters else 0
    call = KernelCall(walk.function, walk.blocks, walk.threads, table, 0, walk.samples, counters, 1, label, walk.shared)
    return Timed((replace(call, together=walk.counters > 0),), 1, 0, others)


def _label(program: l2.Merged, launch: l2.Launch, many: int) -> str:
    template, rows = program.templates[launch.template], program.tables[launch.template]
    path = rows.paths[launch.lo] if launch.lo < len(rows.paths) else template.name
    more = f" and {many - 1} more" if many > 1 else ""
    return f"{template.name} (`{path}`{more})"


def _timed(
    out: Prepared,
    work: Work,
    place: tuple[int, Words],
    program: l2.Merged,
    others: frozenset[int],
    besides: frozenset[tuple[int, int]],
) -> Timed:
    """The calls of a launch. `place`: the address of its table, and the rows with all columns."""
    base, words = place
    label = _label(program, work.launch, work.launch.hi - work.launch.lo)
    ready: list[KernelCall | LibraryCall] = []
    for call in calls_of(work):
        if call.library is not None:
            ready.append(LibraryCall(label, _library(out.device, work, call, words)))
            continue
        jobs = 0 if call.jobs is None else out.keep(call.jobs)
        memory = counters(out.keep, call)
        at = base + call.row * work.kernel.row_bytes
        chunk = _maps(out, work, call, words) if call.maps and out.device.arch == COPY_ENGINE else call.chunk
        part = KernelCall(call.function, call.grid, call.block, at, jobs, chunk, memory, call.group, label)
        ready.append(replace(part, shared=_shared(out, call, label)))
    return Timed(tuple(ready), work.launch.every, work.launch.offset, others, besides)


def _library(device: Device, work: Work, call: Call, words: Words) -> Callable[[int], None]:
    """What runs a contraction by a library, for the addresses in the table."""
    names = [f.name for f in work.template.formals]
    types = {f.name: f.dtype for f in work.template.formals}
    used = ("x0", "x1", "y", WORKSPACE)
    operands = {name: (int(words[call.row, names.index(name)]), types[name]) for name in used}
    made = cudnn.convolution if call.function in cudnn.STRATEGIES else cublaslt.product
    assert call.library is not None
    return made(call.function, call.library, operands, device.stream.handle)


def _shared(out: Prepared, call: Call, label: str) -> int:
    """Dynamic shared memory of a call. Raises BackendError (E0922) where the device has less."""
    if not call.shared:
        return 0
    room = out.device.room(call.function)
    wanted = call.shared if call.enough == 0 or out.device.arch == COPY_ENGINE else call.enough
    if room < wanted:
        what = f"{label} needs {wanted} bytes of shared memory, a block here has {room}"
        more = "precision: float32" if call.maps else "products: float32"
        raise BackendError("E0922", what, f"`numerics: {{{more}}}` takes smaller tiles", exit_code=3)
    return wanted


def _maps(out: Prepared, work: Work, call: Call, words: Words) -> int:
    """The address of the encoded tensor maps of a call."""
    names = [f.name for f in work.template.formals]
    encode = out.device.driver.tensor_map
    parts = [
        encode(int(words[m.row, names.index(m.formal)]), m.extents, m.strides, m.box, m.size, m.corners, m.steps)
        for m in call.maps
    ]
    return out.keep(np.frombuffer(b"".join(parts), np.uint8), "tensor maps")


def _waves(out: Prepared, ground: PhaseContext, blocks: int) -> WaveKernels | None:
    """A phase as waves, their lists on the device; None where it cannot run so."""
    made = waves(ground, blocks)
    if not made:
        return None
    around = bool(made[0].work_items["later"].any())
    lists = []
    for x in made:
        items, early = staged(ground, x)
        words = out.keep(x.words) if len(x.words) else 0
        lists.append(WaveLists(out.keep(items), items.shape[1] // 16, early, words, len(x.words) // 2, x.delivering))
    return WaveKernels(blocks, tuple(lists), around)


def _watch(
    out: Prepared, program: l2.Merged, phase: l2.MergedPhase, tables: tuple[Words, ...], address: Address
) -> Watch:
    found = watched(program, phase, tables)
    rings = [(address(count), slots) for count, slots in found.rings]
    buffers = [(address(used), room, most, every) for used, room, most, every in found.buffers]
    ring = out.keep(np.array(rings, np.int64)) if rings else 0
    buffer = out.keep(np.array(buffers, np.int64)) if buffers else 0
    return Watch(ring, len(rings), buffer, len(buffers))
