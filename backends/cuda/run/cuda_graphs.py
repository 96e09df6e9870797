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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from statistics import median
from typing import Any, Final

from backends.cuda.device.device import BRANCHES, Device
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.waves.waves import ARGUMENTS, NAME

STEPS: Final = 32
"""Steps of one graph, about: more bring nothing, the launch of one graph then takes less than it runs."""
NODES: Final = 512
MOST_GRAPHS: Final = 128
WAVES: Final = 64
"""Steps of one graph of waves, at most."""
LEAST_TRIED: Final = 8
MOST_TRIED: Final = 128
"""Steps for which a way is tried at a time; and how often."""
TRIALS: Final = 9


Pattern = tuple[tuple[int, int], ...] | None
"""(launch, step) of the launches that are not in every step, steps counted from the first; None: waves."""


@dataclass(frozen=True)
class KernelCall:
    """One call with its addresses; `label` names what it runs for messages; `shared`: bytes of dynamic
    shared memory; `together`: all blocks have to run at the same time. (rows, jobs, chunk, memory, group)."""

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
    together: bool = False

    def arguments(self, ahead: int) -> tuple[int, ...]:
        return self.rows, self.jobs, self.chunk, ahead, self.memory, self.group


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, which launches kernels of its own on a stream (by its handle)."""

    label: str
    run: Callable[[int], None]


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
class WaveKernels:
    """A phase as one kernel between each two barriers: their blocks, and for each wave of a step the address of its
    work items, the bytes of one, and how many a block finds by its number. `around`: the first one also completes the
    previous step."""

    blocks: int
    waves: tuple[tuple[int, int, int], ...]
    around: bool


class ExecutionMode(StrEnum):
    """How a phase runs."""

    GRAPHS = "graphs"
    WAVES = "waves"


@dataclass
class Plan:
    """A phase that is ready to run. `graphs`: by number of steps and the launches that do not run in every step. `way`:
    the fastest mode, once measured: `times`, ms of a step."""

    launches: tuple[Timed, ...]
    waves: WaveKernels | None = None
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
        calls = max(1, sum(len(x.calls) for x in self.launches))
        return max(1, min(STEPS, NODES // calls))

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


def calls_due(plan: Plan, step: int, count: int) -> Iterator[tuple[KernelCall | LibraryCall, int]]:
    """(call, steps ahead) in order."""
    for ahead in range(count):
        for x in plan.launches:
            if x.due(step + ahead):
                for call in x.calls:
                    yield call, ahead


@dataclass(frozen=True)
class Node:
    """One launch of a graph. `after`: its dependences, transitively reduced; `stream`: the stream of its launch, in
    order."""

    launch: Timed
    ahead: int
    after: tuple[int, ...]
    stream: int


def nodes(plan: Plan, step: int, count: int) -> list[Node]:
    """The launches of steps step .. step + count - 1, in order. A node continues a stream whose last node it depends
    on; else it takes one whose last node precedes it anyway, or a new one, or (of BRANCHES) any."""
    found: list[Node] = []
    numbers: list[int] = []
    before: list[int] = []  # by node: its transitive dependences, as bits
    ends: list[int] = []  # by stream: its last node
    for ahead in range(count):
        for number, x in enumerate(plan.launches):
            if not x.due(step + ahead) or not x.calls:
                continue
            known, after = 0, []
            for n in reversed(range(len(found))):
                if numbers[n] not in x.apart or (numbers[n], ahead - found[n].ahead) in x.beside:
                    continue
                if not known >> n & 1:
                    after.append(n)
                    known |= before[n] | 1 << n
            stream = next((s for s, end in enumerate(ends) if end in after), None)
            if stream is None:
                stream = next((s for s, end in enumerate(ends) if known >> end & 1), None)
            if stream is None and len(ends) < BRANCHES:
                stream = len(ends)
                ends.append(-1)
            if stream is None:
                stream = min(range(BRANCHES), key=lambda s: ends[s])
            if ends[stream] >= 0:
                known |= before[ends[stream]] | 1 << ends[stream]
            ends[stream] = len(found)
            found.append(Node(x, ahead, tuple(after), stream))
            numbers.append(number)
            before.append(known)
    return found


def _launch(device: Device, call: KernelCall | LibraryCall, ahead: int, stream: Any) -> frozenset[int]:
    """Launch a call; gives the nodes that a library has added to the graph that is being captured, or the one of blocks
    that have to run together."""
    own = isinstance(call, KernelCall) and not call.together
    before = frozenset[int]() if own else device.driver.captured(stream.handle)
    if isinstance(call, LibraryCall):
        call.run(stream.handle)
    else:
        device.launch(call.function, call.grid, call.block, call.arguments(ahead), stream, call.shared)
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
                found = _launch(device, call, node.ahead, stream)
                others |= found
                together |= found if isinstance(call, KernelCall) else frozenset()
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
        for ahead in range(count + waves.around):
            for work_items, width, early in waves.waves[: 1 if ahead == count else None]:
                device.call(NAME, ARGUMENTS, waves.blocks, BLOCK, work_items, width, early, ahead, count)
        device.call("nl_advance", "q", 1, 1, count)
    finally:
        graph = device.driver.end_capture(device.stream.handle, device.begins_early)
    return graph


def run_checked(device: Device, plan: Plan, step: int, count: int) -> Iterator[KernelCall | LibraryCall]:
    """Launch the same steps one call at a time; yields every call after it has been launched."""
    for at in range(count):
        for call, _ in calls_due(plan, step + at, 1):
            if isinstance(call, KernelCall):
                device.launch(call.function, call.grid, call.block, call.arguments(0), shared=call.shared)
            else:
                call.run(device.stream.handle)
            yield call
        device.call("nl_advance", "q", 1, 1, 1)


def release(device: Device, plan: Plan) -> None:
    """Destroy the graphs, after the device is idle."""
    device.synchronize()
    for graph in plan.graphs.values():
        device.driver.destroy(graph)
    plan.graphs.clear()
