"""cuda_graphs: the calls of one phase, step after step, as CUDA graphs.

Assumes: calls whose arguments are constant during the plan's lifetime; the device keeps the step (nl_run.step).
Guarantees: conflicting launches run in the order of the phase and of the steps, each in its own steps. Several steps
are captured into one graph, in which a launch depends only on those that it conflicts with (also of the previous step);
a graph is captured once for each pattern of launches that occurs. Runs are split so that few patterns occur, for any
periods of launches and any first and last step. Where a phase can also run as waves (backends/cuda/waves/waves.py),
both modes are timed first.
Does not: track the free space of record buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from statistics import median
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.cuda.device.device import BRANCHES, Device
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.waves.waves import ARGUMENTS

STEPS: Final = 32
"""Steps of one graph, about: more bring nothing, the launch of one graph then takes less than it runs."""
NODES: Final = 512
MOST_GRAPHS: Final = 128
WAVES: Final = 64
"""Steps of one graph of waves, at most."""
SLACK: Final = 1
"""Calls by which a path is at most shorter than the longest one of a graph whose kernels go before others."""
LEAST_TRIED: Final = 8
MOST_TRIED: Final = 128
"""Steps for which a way is tried at a time; and how often."""
TRIALS: Final = 9


Pattern = tuple[tuple[int, int], ...] | None
"""(launch, step) of the launches that are not in every step, steps counted from the first; None: waves."""


class Blocks(StrEnum):
    """Whether the blocks of a kernel wait for each other, so that all have to run at the same time: then it is launched
    as cooperative, unless there is room for them beside those of all others that wait and may run then."""

    FREE = "free"
    WAIT = "wait"
    ROOM = "room"


@dataclass(frozen=True)
class KernelCall:
    """One call with its addresses; `label` names what it runs for messages; `shared`: bytes of dynamic
    shared memory. (rows, jobs, chunk, memory, group). `by_step`: bytes from the rows, and from what is at `chunk`, of a
    step of a loop to those of the next."""

    function: str
    grid: int
    block: int
    rows: int
    jobs: int
    chunk: int
    memory: int
    group: int
    label: str
    shared: int = 0
    blocks: Blocks = Blocks.FREE
    by_step: tuple[int, int] = (0, 0)

    def arguments(self, ahead: int, at: int = 0) -> tuple[int, ...]:
        """Of the steps of a phase, and of the loop that the call is in."""
        rows, chunk = self.by_step
        return self.rows + rows * at, self.jobs, self.chunk + chunk * at, ahead, self.memory, self.group


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, which launches kernels of its own on a stream (by its handle): one for each step of the loop
    that it is in."""

    label: str
    runs: tuple[Callable[[int], None], ...]


@dataclass(frozen=True)
class Timed:
    """The calls of one launch of the phase (or the one of a chain), in steps k with k % every == offset. `apart`:
    launches by their position in the phase that it may not run concurrently with (compiler/ir/level2/dependence.py),
    but for `beside`: (launch, steps before) of those that then access other slots of a ring buffer."""

    calls: tuple[KernelCall | LibraryCall, ...]
    every: int
    offset: int
    apart: frozenset[int] = frozenset()
    beside: frozenset[tuple[int, int]] = frozenset()

    def due(self, step: int) -> bool:
        return self.every == 1 or step % self.every == self.offset


@dataclass(frozen=True)
class WaveLists:
    """The kernel of a wave, the address of its work items, how many times 16 bytes one is, and how many a block finds
    by its number; the address of the data of its deliveries, how many times 16 bytes they are, and the first block that
    reads them."""

    kernel: str
    work_items: int
    size: int
    early: int
    deliveries: int
    many: int
    delivering: int


@dataclass(frozen=True)
class WaveKernels:
    """A phase as one kernel between each two barriers: their blocks, and what each wave of a step reads. `around`: so
    many of the first ones also complete the previous step."""

    blocks: int
    waves: tuple[WaveLists, ...]
    around: int


class ExecutionMode(StrEnum):
    """How a phase runs."""

    GRAPHS = "graphs"
    WAVES = "waves"


@dataclass
class Plan:
    """A phase that is ready to run. `graphs`: by number of steps and the launches that do not run in every step. `way`:
    the fastest mode, once measured: `times`, ms of a step. `loops`: of its launches."""

    launches: tuple[Timed, ...]
    waves: WaveKernels | None = None
    loops: tuple[l2.Loop, ...] = ()
    graphs: dict[tuple[int, Pattern], int] = field(default_factory=dict)
    way: ExecutionMode | None = None
    times: dict[ExecutionMode, list[float]] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[ExecutionMode, ...]:
        """The available modes."""
        return tuple(ExecutionMode) if self.waves is not None else (ExecutionMode.GRAPHS,)

    @property
    def period(self) -> int:
        """Period of the launches in steps, without those that are too rare for one graph to hold a period."""
        period = 1
        for every in sorted({x.every for x in self.launches}):
            if math.lcm(period, every) <= self._most:
                period = math.lcm(period, every)
        return period

    @property
    def _most(self) -> int:
        calls = sum(len(self.launches[n].calls) for n, _ in self.in_order())
        return max(1, min(STEPS, NODES // max(1, calls)))

    def in_order(self) -> Iterator[tuple[int, int]]:
        """The launches by number, with the step of the loop that they are in."""
        return l2.in_order(len(self.launches), self.loops)

    @property
    def steps(self) -> int:
        """Steps per graph: a multiple of the period, so that few patterns occur."""
        return self._most // self.period * self.period

    def parts(self, step: int, count: int) -> Iterator[int]:
        """How `count` steps from `step` on are split into graphs: those of `steps` steps begin at step 1 + a multiple
        of it (at any step where all launches but rare ones run in every step); where one does not fit, powers of two
        that divide the distance from there. A step with a rare launch is a separate graph. So at most about 2 * `steps`
        graphs and one for each combination of rare launches occur."""
        most, period = self.steps, self.period
        rare = [x for x in self.launches if period % x.every]
        while count > 0:
            free = min((x.offset - step) % x.every for x in rare) if rare else count
            at = (step - 1) % most if period > 1 else 0
            room = min(count, max(free, 1), most - at)
            size = most if room == most else 1 << room.bit_length() - 1
            if at:
                size = min(size, at & -at)
            yield size
            step += size
            count -= size


def launch_pattern(plan: Plan, step: int, count: int) -> Pattern:
    """(launch, step) of the launches that are not in every step, steps counted from `step`."""
    return tuple(
        (number, at)
        for number, x in enumerate(plan.launches)
        if x.every != 1
        for at in range((x.offset - step) % x.every, count, x.every)
    )


def calls_due(plan: Plan, step: int, count: int) -> Iterator[tuple[KernelCall | LibraryCall, int, int]]:
    """(call, steps ahead, step of a loop) in order."""
    for ahead in range(count):
        for x, at in ((plan.launches[n], at) for n, at in plan.in_order()):
            if x.due(step + ahead):
                for call in x.calls:
                    yield call, ahead, at


@dataclass(frozen=True)
class Node:
    """One launch of a graph. `after`: its dependences, transitively reduced; `stream`: the stream of its launch, in
    order; `slack`: calls by which the longest path through it is shorter than the longest path of the graph. `at`: the
    step of a loop."""

    launch: Timed
    ahead: int
    at: int
    after: tuple[int, ...]
    stream: int
    slack: int


@dataclass(frozen=True)
class Due:
    """A launch that is due, in the order of the phase: its number there, its dependences (transitively reduced), all
    of them as bits, and the longest paths of calls that end and begin with it."""

    number: int
    ahead: int
    at: int
    after: tuple[int, ...]
    before: int
    depth: int
    height: int


def due(plan: Plan, step: int, count: int) -> list[Due]:
    """The launches of steps step .. step + count - 1 in the order of the phase, and what each waits for."""
    found: list[Due] = []
    for ahead in range(count):
        for number, at in plan.in_order():
            x = plan.launches[number]
            if not x.due(step + ahead) or not x.calls:
                continue
            known, after = 0, list[int]()
            for n in reversed(range(len(found))):
                other = found[n]
                if other.number not in x.apart or (other.number, ahead - other.ahead) in x.beside:
                    continue
                if not known >> n & 1:
                    after.append(n)
                    known |= other.before | 1 << n
                    if known & (rest := (1 << n) - 1) == rest:
                        break
            depth = len(x.calls) + max((found[n].depth for n in after), default=0)
            found.append(Due(number, ahead, at, tuple(after), known, depth, 0))
    heights = [len(plan.launches[x.number].calls) for x in found]
    for at in reversed(range(len(found))):
        for n in found[at].after:
            heights[n] = max(heights[n], heights[at] + len(plan.launches[found[n].number].calls))
    return [replace(x, height=h) for x, h in zip(found, heights, strict=True)]


def heirs_of(todo: Sequence[Due]) -> dict[int, int]:
    """By launch the one that goes on with its stream: of those that wait for it the one with the longest path."""
    found: dict[int, int] = {}
    for at, x in enumerate(todo):
        for n in x.after:
            if n not in found or x.height > todo[found[n]].height:
                found[n] = at
    return found


def nodes(plan: Plan, step: int, count: int) -> list[Node]:
    """The launches of steps step .. step + count - 1, in order. A node goes on with a stream that it inherits; else it
    takes one whose last node precedes it and has no other heir, or a new one, or (of BRANCHES) the one that was left
    longest ago."""
    todo = due(plan, step, count)
    heirs = heirs_of(todo)
    calls = [len(plan.launches[x.number].calls) for x in todo]
    longest = max((x.depth + x.height - own for x, own in zip(todo, calls, strict=True)), default=0)
    found: list[Node] = []
    before: list[int] = []  # by node: what precedes it, as bits
    ends: list[int] = []  # by stream: its last node
    for at, x in enumerate(todo):
        known = x.before
        for n in x.after:
            known |= before[n]
        inherited = [s for s, end in enumerate(ends) if heirs.get(end) == at]
        free = [s for s, end in enumerate(ends) if known >> end & 1 and heirs.get(end, -1) < at]
        if inherited:
            stream = max(inherited, key=lambda s: todo[ends[s]].depth)
        elif free:
            stream = free[0]
        elif len(ends) < BRANCHES:
            stream = len(ends)
            ends.append(at)
        else:
            stream = min(range(BRANCHES), key=lambda s: ends[s])
        if ends[stream] != at:
            known |= before[ends[stream]] | 1 << ends[stream]
        ends[stream] = at
        before.append(known)
        slack = longest - x.depth - x.height + calls[at]
        found.append(Node(plan.launches[x.number], x.ahead, x.at, x.after, stream, slack))
    return found


def _launch(device: Device, call: KernelCall | LibraryCall, node: Node, stream: Any) -> frozenset[int]:
    """Launch a call; gives the nodes that a library has added to the graph that is being captured, or the one of blocks
    that wait for each other."""
    own = isinstance(call, KernelCall) and call.blocks is Blocks.FREE
    before = frozenset[int]() if own else device.driver.captured(stream.handle)
    if isinstance(call, LibraryCall):
        call.runs[node.at](stream.handle)
    else:
        device.launch(call.function, call.grid, call.block, call.arguments(node.ahead, node.at), stream, call.shared)
        if node.slack <= SLACK:
            device.driver.hurry(stream.handle)
    return before if own else device.driver.captured(stream.handle) - before


def _record(device: Device, plan: Plan, step: int, count: int) -> int:
    others, together = frozenset[int](), frozenset[int]()
    device.driver.begin_capture(device.stream.handle)
    try:
        todo = nodes(plan, step, count)
        streams = device.streams(max((n.stream for n in todo), default=0) + 1)
        start, begun = device.mark(), {0}
        marks: list[Any] = []
        for node in todo:
            stream = streams[node.stream]
            if node.stream not in begun:
                begun.add(node.stream)
                stream.wait_for_event(start)
            for n in node.after:
                if todo[n].stream != node.stream:
                    stream.wait_for_event(marks[n])
            for call in node.launch.calls:
                found = _launch(device, call, node, stream)
                others |= found
                alone = isinstance(call, KernelCall) and call.blocks is Blocks.WAIT
                together |= found if alone else frozenset()
            marks.append(device.mark(stream))
        for number in sorted(begun - {0}):
            device.stream.wait_for_event(device.mark(streams[number]))
        device.call("nl_advance", "q", 1, 1, count)
    except BaseException:
        device.driver.give_up_capture(device.stream.handle)
        raise
    return device.driver.end_capture(device.stream.handle, device.begins_early, others, together)


def run_steps(device: Device, plan: Plan, step: int, count: int) -> None:
    """Launch steps step .. step + count - 1; the device's step must be `step`. A phase with several modes is timed
    first, in turn, for some steps of each run, and then runs in the fastest one."""
    while plan.way is None and len(plan.ways) > 1 and count >= LEAST_TRIED:
        part = min(count, MOST_TRIED)
        _try(device, plan, step, part)
        step, count = step + part, count - part
    _run(device, plan, plan.way or ExecutionMode.GRAPHS, step, count)


def _run(device: Device, plan: Plan, way: ExecutionMode, step: int, count: int) -> None:
    if way is ExecutionMode.WAVES and plan.waves is not None:
        _wave(device, plan, plan.waves, count)
    else:
        _walk(device, plan, step, count)


def _try(device: Device, plan: Plan, step: int, count: int) -> None:
    """Run steps in the mode that was timed least often; decides when all were timed TRIALS times. Some times include
    one-time preparation, so medians are compared."""
    way = min(plan.ways, key=lambda w: len(plan.times.get(w, ())))
    begin = device.mark(timing=True)
    _run(device, plan, way, step, count)
    end = device.mark(timing=True)
    end.synchronize()
    plan.times.setdefault(way, []).append(float(end.time_since(begin)) / count)
    if all(len(plan.times.get(w, ())) == TRIALS for w in plan.ways):
        plan.way = min(plan.ways, key=lambda w: median(plan.times[w]))


def _walk(device: Device, plan: Plan, step: int, count: int) -> None:
    """Launch steps as graphs of single launches."""
    for size in plan.parts(step, count):
        _replay(device, plan, (size, launch_pattern(plan, step, size)), partial(_record, device, plan, step, size))
        step += size


def _wave(device: Device, plan: Plan, waves: WaveKernels, count: int) -> None:
    """Launch `count` steps as graphs of waves: of WAVES steps, then of powers of two."""
    while count > 0:
        size = min(WAVES, 1 << count.bit_length() - 1)
        _replay(device, plan, (size, None), partial(record_waves, device, waves, size))
        count -= size


def _replay(device: Device, plan: Plan, key: tuple[int, Pattern], record: Callable[[], int]) -> None:
    """Launch a graph, captured on first use."""
    graph = plan.graphs.get(key)
    if graph is None:
        if len(plan.graphs) >= MOST_GRAPHS:
            release(device, plan)
        graph = plan.graphs[key] = record()
    device.driver.launch(graph, device.stream.handle)


def record_waves(device: Device, waves: WaveKernels, count: int) -> int:
    device.driver.begin_capture(device.stream.handle)
    try:
        for ahead in range(count + (waves.around > 0)):
            for x in waves.waves[: waves.around if ahead == count else None]:
                given = x.work_items, x.size, x.early, ahead, count, x.deliveries, x.many, x.delivering
                device.call(x.kernel, ARGUMENTS, waves.blocks, BLOCK, *given)
        device.call("nl_advance", "q", 1, 1, count)
    finally:
        graph = device.driver.end_capture(device.stream.handle, device.begins_early)
    return graph


def run_checked(device: Device, plan: Plan, step: int, count: int) -> Iterator[KernelCall | LibraryCall]:
    """Launch the same steps one call at a time; yields every call after it has been launched."""
    for at in range(count):
        for call, _, inner in calls_due(plan, step + at, 1):
            if isinstance(call, KernelCall):
                device.launch(call.function, call.grid, call.block, call.arguments(0, inner), shared=call.shared)
            else:
                call.runs[inner](device.stream.handle)
            yield call
        device.call("nl_advance", "q", 1, 1, 1)


def release(device: Device, plan: Plan) -> None:
    """Destroy the graphs, after the device is idle."""
    device.synchronize()
    for graph in plan.graphs.values():
        device.driver.destroy(graph)
    plan.graphs.clear()
