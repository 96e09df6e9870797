"""Claim: a step of the cortical microcircuit at full scale (77,169 neurons, 299 million synapses, 0.1 ms) takes at most
8 us on one GPU without recording (H200): a real-time factor of 0.08.

Measured, on one GPU: microseconds of a step, as the median over rounds of `--steps` steps after 2,000 steps of warm-up,
stepping by the Python API. With recording, buffers of spikes are emptied on the device whenever they are full and
nothing is copied to the host.

Usage: bench_gpu_microcircuit.py [--steps 20000] [--rounds 3] [--scale 1]
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from typing import Any

import numpy as np
from common import ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))


def silent(text: str) -> str:
    """The model without `record` and what is expected of it."""
    for block in ("record", "expect"):
        text, count = re.subn(rf"(?m)^{block}:.*\n(?:[ #-].*\n|\n)*", "", text)
        assert count == 1, "microcircuit.yaml does not look as this script expects"
    return text


def stepping(text: str, scale: str, steps: int, rounds: int) -> list[float]:
    """Microseconds of a step, by round."""
    from backends.cuda.backend import CudaBackend
    from compiler.frontend.load import load_model
    from compiler.passes.pipeline import lower

    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "gpu-microcircuit.yaml"
    path.write_text(text, encoding="utf-8")
    backend = CudaBackend()
    model = load_model(path, {"scale_n": scale, "scale_k": scale})
    program = lower(model, backend.capabilities).merged
    instance: Any = backend.load(backend.build(program, WORK / "build", {}), program, 1)
    used = [a.name for a in program.arrays if a.name.endswith(".used")]
    some = next(a.name for a in program.arrays if a.name.endswith(".spike_count"))
    done = 0

    def run(count: int) -> None:
        nonlocal done
        while count > 0:
            ran = instance.run("step", done + 1, count)
            done, count = done + ran, count - ran
            for name in used:
                instance.write(name, np.zeros(1, np.int64))
        instance.read(some)  # waits for the device

    run(2000)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run(steps)
        times.append(1e6 * (time.perf_counter() - begin) / steps)
    instance.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", default="1", help="of neurons and synapses")
    arguments = parser.parse_args()
    text = (ROOT / "models" / "microcircuit.yaml").read_text(encoding="utf-8")
    found = {
        name: stepping(changed, arguments.scale, arguments.steps, arguments.rounds)
        for name, changed in (("without recording", silent(text)), ("spikes recorded", text))
    }
    print(f"microcircuit, scale {arguments.scale}: us per step of 0.1 ms, {arguments.rounds} rounds")
    rows = [[name, statistics.median(t), min(t), max(t), statistics.median(t) / 100] for name, t in found.items()]
    table(["", "median", "least", "most", "real-time factor"], rows)
    write_results("gpu_microcircuit", {"us_per_step": found, "scale": arguments.scale})


if __name__ == "__main__":
    main()
