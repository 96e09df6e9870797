"""stopwatch: timing of the steps of a loaded program, and the name of the machine.

Assumes: nothing.
Guarantees: CPU seconds for code that runs on the host, seconds between events for an instance with its own clock
(`timed`).
Does not: repeat, warm up or judge.
"""

from __future__ import annotations

import time
from typing import cast

from backends.processor import processor
from backends.protocol import Backend, Instance


def seconds(instance: Instance, phase: str, steps: int) -> float:
    """Seconds that `steps` steps of a phase take."""
    timed = getattr(instance, "timed", None)
    if timed is not None:
        return cast(float, timed(phase, 1, steps))
    start = time.process_time()
    instance.run(phase, 1, steps)
    return time.process_time() - start


def machine(backend: Backend) -> str:
    """The processor, or the GPU, that a backend runs on."""
    if backend.capabilities.name == "cuda":
        from backends.cuda.device.driver import Driver

        return Driver().describe()[getattr(backend, "device", 0)]
    return processor().name
