"""schedule: the calls of one phase, step after step, as CUDA graphs.

Assumes: calls whose arguments do not change while the plan lives; the device keeps the step (nl_run.step).
Guarantees: launches of a step run in the order of the phase, each in the steps that it is for. Several steps are
recorded into one graph, in which launches that need nothing of each other are branches; a graph is recorded once for
each pattern of launches that occurs.
Does not: know how much room record buffers have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from backends.cuda.device import Device

STEPS: Final = 32
"""Steps of one graph, about: more bring nothing, the launch of one graph then takes less than it runs."""
NODES: Final = 256
MOST_GRAPHS: Final = 128


@dataclass(frozen=True)
class Ready:
    """One call with its addresses; `label` names what it runs for messages. (rows, jobs, chunk, memory, group)."""

    function: str
    grid: int
    block: int
    rows: int
    jobs: int
    chunk: int
    memory: int
    group: int
    label: str

    def arguments(self, ahead: int) -> tuple[int, ...]:
        return self.rows, self.jobs, self.chunk, ahead, self.memory, self.group


@dataclass(frozen=True)
class Timed:
    """The calls of one launch of the phase, in steps k with k % every == offset. `meet`: it waits for the launches
    before it; otherwise it runs beside those since the last one that waits."""

    calls: tuple[Ready, ...]
    every: int
    offset: int
    meet: bool = True

    def due(self, step: int) -> bool:
        return self.every == 1 or step % self.every == self.offset


@dataclass
class Plan:
    """A phase that is ready to run. `graphs`: by number of steps and the launches that are not in every step."""

    launches: tuple[Timed, ...]
    graphs: dict[tuple[int, tuple[tuple[int, int], ...]], int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Steps that are recorded together: a multiple of the period, so that few patterns occur."""
        calls = max(1, sum(len(x.calls) for x in self.launches))
        most = max(1, min(STEPS, NODES // calls))
        period = math.lcm(*(x.every for x in self.launches)) if self.launches else 1
        return most // period * period if period <= most else most


def _pattern(plan: Plan, step: int, count: int) -> tuple[tuple[int, int], ...]:
    """(launch, step) of the launches that are not in every step, steps counted from `step`."""
    return tuple(
        (number, at)
        for number, x in enumerate(plan.launches)
        if x.every != 1
        for at in range((x.offset - step) % x.every, count, x.every)
    )


def _calls(plan: Plan, step: int, count: int) -> Iterator[tuple[Ready, int]]:
    """(call, steps ahead) in order."""
    for ahead in range(count):
        for x in plan.launches:
            if x.due(step + ahead):
                for call in x.calls:
                    yield call, ahead


def _groups(plan: Plan, step: int) -> list[list[Timed]]:
    """The launches that are due in a step; those of one group run side by side."""
    groups: list[list[Timed]] = [[]]
    for x in plan.launches:
        if x.meet:
            groups.append([])
        if x.due(step) and x.calls:
            groups[-1].append(x)
    return [g for g in groups if g]


def _record(device: Device, plan: Plan, step: int, count: int) -> int:
    device.driver.begin_capture(device.stream.handle)
    try:
        for ahead in range(count):
            for group in _groups(plan, step + ahead):
                with device.branches(len(group)) as streams:
                    for x, stream in zip(group, streams, strict=True):
                        for call in x.calls:
                            device.launch(call.function, call.grid, call.block, call.arguments(ahead), stream)
        device.call("nl_advance", "q", 1, 1, count)
    finally:
        graph = device.driver.end_capture(device.stream.handle)
    return graph


def run_steps(device: Device, plan: Plan, step: int, count: int) -> None:
    """Launch steps step .. step + count - 1; the device's step must be `step`."""
    size = plan.steps
    while count > 0:
        while size > count:
            size = (size + 1) // 2
        key = (size, _pattern(plan, step, size))
        graph = plan.graphs.get(key)
        if graph is None:
            if len(plan.graphs) >= MOST_GRAPHS:
                release(device, plan)
            graph = plan.graphs[key] = _record(device, plan, step, size)
        device.driver.launch(graph, device.stream.handle)
        step += size
        count -= size


def run_checked(device: Device, plan: Plan, step: int, count: int) -> Iterator[Ready]:
    """Launch the same steps one call at a time; yields every call after it has been launched."""
    for at in range(count):
        for call, _ in _calls(plan, step + at, 1):
            device.launch(call.function, call.grid, call.block, call.arguments(0))
            yield call
        device.call("nl_advance", "q", 1, 1, 1)


def release(device: Device, plan: Plan) -> None:
    """Destroy the graphs, once nothing runs."""
    device.synchronize()
    for graph in plan.graphs.values():
        device.driver.destroy(graph)
    plan.graphs.clear()
