"""Claim: none; the time of a step of cuba on one GPU at its published size (4,000 neurons) and with 1,000 times as many
neurons, each with as many synapses; and how many kernels a step launches.

Measured, on one GPU: microseconds of a step without recording, as the median over rounds of `--steps` steps after
2,000 steps of warm-up, stepping by the Python API, in the way that the run chose by measuring (schedule.py); seconds of
loading and connecting; kernels of a step as single launches, and as waves.

Usage: bench_gpu_cuba.py [--steps 5000] [--rounds 3] [--larger 1000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from common import ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))

P, EXCITATORY, INHIBITORY = 0.02, 3200, 800


def settings(larger: int) -> dict[str, str]:
    """The parameters of the model with `larger` times as many neurons, and as many synapses of each."""
    sizes = {"n_exc": str(EXCITATORY * larger), "n_inh": str(INHIBITORY * larger)}
    return {**sizes, "p": repr(P / larger)}


def silent(text: str) -> str:
    """The model without what it records and plots."""
    kept, place = text.split("\nrecord:\n"), "models/cuba.yaml does not look as this script expects"
    assert len(kept) == 2 and "\nplots:\n" in kept[1], place
    return kept[0] + "\n"


def stepping(larger: int, steps: int, rounds: int) -> dict[str, Any]:
    """Times and kernels of a step."""
    from backends.cuda.backend import CudaBackend
    from compiler.frontend.load import load_model
    from compiler.passes.pipeline import lower

    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "gpu-cuba.yaml"
    path.write_text(silent((ROOT / "models" / "cuba.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    backend = CudaBackend()
    program = lower(load_model(path, settings(larger)), backend.capabilities).merged
    artifact = backend.build(program, WORK / "build", {})
    begin = time.perf_counter()
    instance: Any = backend.load(artifact, program, 1)
    some = next(a.name for a in program.arrays if a.name.endswith(".spike_count"))
    instance.read(some)  # waits for the device
    loading = time.perf_counter() - begin
    done = 0

    def run(count: int) -> None:
        nonlocal done
        while count > 0:
            ran = instance.run("step", done + 1, count)
            done, count = done + ran, count - ran
        instance.read(some)

    run(max(2000, 30 * 128))  # long enough to choose between the ways
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run(steps)
        times.append(1e6 * (time.perf_counter() - begin) / steps)
    plan = instance._prepared.plans["step"]
    found = {
        "us": times,
        "loading_s": loading,
        "way": instance.measured.get("step", "graphs"),
        "launches": sum(len(x.calls) for x in plan.launches),
        "waves": len(plan.waves.waves) if plan.waves else 0,
    }
    instance.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--larger", type=int, default=1000)
    arguments = parser.parse_args()
    found = {n: stepping(n, arguments.steps, arguments.rounds) for n in (1, arguments.larger)}
    print(f"cuba, us per step of 0.1 ms without recording, {arguments.rounds} rounds of {arguments.steps} steps")
    rows = [
        [
            f"{(EXCITATORY + INHIBITORY) * n:,} neurons",
            statistics.median(x["us"]),
            min(x["us"]),
            max(x["us"]),
            x["way"],
            x["launches"],
            x["waves"] or "none",
            x["loading_s"],
        ]
        for n, x in found.items()
    ]
    table(["", "median", "least", "most", "way", "kernels as graphs", "as waves", "loading, s"], rows)
    write_results("gpu_cuba", {"larger": arguments.larger, "found": found})


if __name__ == "__main__":
    main()
