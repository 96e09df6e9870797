"""CPU and wall seconds of each part of a run.

Assumes: one thread.
Guarantees: CPU seconds include children that were waited for (the C compiler).
Does not: print.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass
class Times:
    """Seconds by part: `times.parts["load"] == {"cpu_seconds": ..., "wall_seconds": ...}`."""

    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    steps: dict[tuple[str, str], float] = field(default_factory=dict)
    """CPU seconds by part and step of it, such as a pass, in the order in which they began."""

    def step(self, part: str, name: str, seconds: float) -> None:
        self.steps[part, name] = self.steps.get((part, name), 0.0) + seconds

    def steps_of(self, part: str) -> Callable[[str], AbstractContextManager[None]]:
        """A function from the name of a step to a context that adds its time."""

        @contextmanager
        def timed(name: str) -> Iterator[None]:
            begin = cpu_seconds()
            try:
                yield
            finally:
                self.step(part, name, cpu_seconds() - begin)

        return timed

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds the time inside of the `with` block to part `name`."""
        cpu, wall = cpu_seconds(), time.perf_counter()
        try:
            yield
        finally:
            self.add(name, cpu_seconds() - cpu, time.perf_counter() - wall)

    def add(self, name: str, cpu: float, wall: float) -> None:
        part = self.parts.setdefault(name, {"cpu_seconds": 0.0, "wall_seconds": 0.0})
        part["cpu_seconds"] += cpu
        part["wall_seconds"] += wall

    def cpu(self, name: str) -> float:
        return self.parts.get(name, {}).get("cpu_seconds", 0.0)

    def rounded(self) -> dict[str, dict[str, float]]:
        """The parts with microseconds, for writing."""
        return {n: {k: round(v, 6) for k, v in p.items()} for n, p in self.parts.items()}
