"""What the GPU benchmarks of simulations share: a model stepped by the Python API, its record buffers dropped."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import ROOT, WORK

sys.path.insert(0, str(ROOT))

CHOOSING = 30 * 128
"""Steps in which a run chooses between the ways to make them (backends/cuda/run/cuda_graphs.py)."""


@dataclass(frozen=True)
class Stepped:
    """Microseconds of a step, by round; seconds of loading and connecting; stored synapses; how steps were made; and of
    a step, the kernels as single launches and as waves."""

    us: list[float]
    loading_s: float
    synapses: int
    way: str
    launches: int
    waves: int


def stepping(name: str, text: str, settings: Mapping[str, str], steps: int, rounds: int) -> Stepped:
    """`rounds` of `steps` steps after as many as it takes to choose a way. Record buffers are emptied on the device
    whenever they are full; nothing is copied to the host."""
    from backends.cuda.run.backend import CudaBackend
    from compiler.frontend.load import load_model
    from compiler.passes.pipeline.lower import lower

    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / f"gpu-{name}.yaml"
    path.write_text(text, encoding="utf-8")
    backend = CudaBackend()
    program = lower(load_model(path, settings), backend.capabilities).merged
    artifact = backend.build(program, WORK / "build", {})
    used = [a.name for a in program.arrays if a.name.endswith("'used")]
    some = next(a.name for a in program.arrays if a.name.endswith("'spike_count"))
    begin = time.perf_counter()
    instance: Any = backend.load(artifact, program, 1)
    instance.read(some)  # waits for the device
    loading = time.perf_counter() - begin
    synapses = sum(int(instance.read(a.name)[-1]) for a in program.arrays if a.name.endswith("'row"))
    done = 0

    def run(count: int) -> None:
        nonlocal done
        while count > 0:
            ran = instance.run("step", done + 1, count)
            done, count = done + ran, count - ran
            for buffer in used:
                instance.write(buffer, np.zeros(1, np.int64))
        instance.read(some)

    run(CHOOSING)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run(steps)
        times.append(1e6 * (time.perf_counter() - begin) / steps)
    plan, way = instance._prepared.plans["step"], instance.measured.get("step", "graphs")
    launches = sum(len(x.calls) for x in plan.launches)
    instance.close()
    return Stepped(times, loading, synapses, way, launches, len(plan.waves.waves) if plan.waves else 0)
