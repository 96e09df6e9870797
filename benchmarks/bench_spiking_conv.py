"""Claim: a spiking convolution of 32x32x16 neurons onto 32x32x32 by a 3x3 kernel costs at most 120 us per step at 5 %
input spikes on one 2.5 GHz core, and its Toeplitz storage costs at most twice what stored rows cost.

Measured: CPU seconds of the simulation alone, per step, of the same network with the connection stored as a doubly
blocked Toeplitz matrix (never stored), as rows (sparse), and left out; what the connection costs is the difference
from leaving it out, round by round. A plain C scatter beside them (cc -O3 -march=native, the same events, weights and
order of additions) says what a hand-written loop takes. All deliver the same sums, which is checked: Toeplitz and
sparse bit for bit.

Usage: bench_spiking_conv.py [--steps 3000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import ROOT, WORK, compare, execute, median, netloom, rounds, table, write_results

CHANNELS, HEIGHT, WIDTH, FILTERS = 16, 32, 32, 32
RATE = 0.05

MODEL = """\
language: 1
name: spiking_conv
neurons:
  chance:
    params: {p: RATE}
    state: {u: 0}
    update: [u = random()]
    spike: {when: u < p}
  sum:
    state: {v: 0}
    inputs: {i: {}}
    update: [v = v + i]
populations:
  input: {neuron: chance, shape: [CHANNELS, HEIGHT, WIDTH]}
  output: {neuron: sum, shape: [FILTERS, HEIGHT, WIDTH]}
PROJECTIONS
simulate: {dt: 1 ms, duration: STEPS ms, seed: 1}
record:
  - trace: {from: output, variables: [v], members: all, every: STEPS ms}
numerics: {precision: float32}
"""

PROJECTIONS = """\
projections:
  conv:
    from: input
    to: output
    connect: {conv2d: {kernel: [3, 3], padding: 1, stride: 1, storage: STORAGE}}
    deliver: {into: i, weight: {file: kernel.npz, array: kernel}}
    delay: 1 ms
"""

SCATTER = """\
void scatter(const int *ids, long n, float *g, const float *w) {
    for (long e = 0; e < n; e++) {
        const int c = ids[e] / (H * W), y = ids[e] / W % H, x = ids[e] % W;
        for (int o = 0; o < O; o++)
            for (int ky = 0; ky < 3; ky++) {
                const int row = y + 1 - ky;
                if ((unsigned)row >= H) continue;
                for (int kx = 0; kx < 3; kx++) {
                    const int column = x + 1 - kx;
                    if ((unsigned)column < W) g[(o * H + row) * W + column] += w[((o * C + c) * 3 + ky) * 3 + kx];
                }
            }
    }
}
"""


def kernel() -> np.ndarray:
    return np.random.default_rng(7).normal(size=(FILTERS, CHANNELS, 3, 3)).astype(np.float32)


def model_text(storage: str | None, steps: int) -> str:
    text = MODEL.replace("PROJECTIONS\n", "" if storage is None else PROJECTIONS.replace("STORAGE", storage))
    numbers = {"CHANNELS": CHANNELS, "HEIGHT": HEIGHT, "WIDTH": WIDTH, "FILTERS": FILTERS, "RATE": RATE, "STEPS": steps}
    for name, value in numbers.items():
        text = text.replace(name, str(value))
    return text


def prepare(folder: Path, storage: str | None, steps: int) -> Callable[[], dict[str, float]]:
    """How to measure one storage (None: no connection)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    np.savez(folder / "kernel.npz", kernel=kernel())
    (folder / "spiking_conv.yaml").write_text(model_text(storage, steps), encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [*netloom(), "run", "spiking_conv.yaml", "--quiet"]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        done = execute(command, cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        times = json.loads((run / "run.json").read_text(encoding="utf-8"))["times"]
        return {
            "us_per_step": 1e6 * times["simulation_cpu_seconds"] / steps,
            "peak_megabytes": done.peak_bytes / 1e6,
        }

    measure()  # builds
    return measure


def final_state(folder: Path) -> np.ndarray:
    """v of every target after the last step."""
    import h5py

    (run,) = (folder / "runs").iterdir()
    found: list[np.ndarray] = []
    with h5py.File(run / "traces.h5") as file:
        file.visititems(lambda name, x: found.append(x[()]) if name.endswith("/v") or name == "v" else None)
    (values,) = found
    return np.asarray(values[-1])


def prepare_scatter(folder: Path, steps: int) -> Callable[[], dict[str, float]]:
    """A plain C loop over as many events, drawn by numpy."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source, binary = folder / "scatter.c", folder / "scatter.so"
    defines = f"enum {{ C = {CHANNELS}, H = {HEIGHT}, W = {WIDTH}, O = {FILTERS} }};\n"
    source.write_text(defines + SCATTER, encoding="utf-8")
    execute([os.environ.get("CC", "cc"), "-O3", "-march=native", "-fPIC", "-shared", source, "-o", binary])
    run = ctypes.CDLL(str(binary)).scatter
    run.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    rng, weights = np.random.default_rng(3), kernel()
    events = [np.flatnonzero(rng.random(CHANNELS * HEIGHT * WIDTH) < RATE).astype(np.int32) for _ in range(200)]
    sums = np.zeros(FILTERS * HEIGHT * WIDTH, np.float32)

    def measure() -> dict[str, float]:
        started = time.process_time()
        for step in range(steps):
            ids = events[step % len(events)]
            run(ids.ctypes.data, len(ids), sums.ctypes.data, weights.ctypes.data)
        return {"us_per_step": 1e6 * (time.process_time() - started) / steps}

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    folder = WORK / "spiking_conv"
    contestants = {
        "no connection": prepare(folder / "none", None, args.steps),
        "toeplitz": prepare(folder / "toeplitz", "toeplitz", args.steps),
        "sparse": prepare(folder / "sparse", "sparse", args.steps),
        "C scatter": prepare_scatter(folder / "scatter", args.steps),
    }
    results = rounds(contestants, args.rounds)
    toeplitz, sparse = final_state(folder / "toeplitz"), final_state(folder / "sparse")
    assert toeplitz.any()
    assert np.array_equal(toeplitz, sparse), "the two storages deliver different sums"
    without = [r["us_per_step"] for r in results["no connection"]]
    costs = {
        name: [{"us_per_step": r["us_per_step"] - w} for r, w in zip(results[name], without, strict=True)]
        for name in ("toeplitz", "sparse")
    }
    costs["C scatter"] = results["C scatter"]
    print("\nthe connection alone, us per step (toeplitz: at most 120, and at most twice sparse)")
    ratios = compare(costs, "us_per_step", "toeplitz")
    print()
    memory = {name: median(results[name], "peak_megabytes") for name in ("no connection", "toeplitz", "sparse")}
    table(["peak memory", "MB"], [[name, value] for name, value in memory.items()])
    write_results(
        "spiking_conv",
        {
            "claim": (__doc__ or "").split("\n\n")[0].removeprefix("Claim: "),
            "steps": args.steps,
            "rounds": results,
            "connection_us_per_step": {name: median(c, "us_per_step") for name, c in costs.items()},
            "ratios_to_toeplitz": ratios,
            "peak_megabytes": memory,
        },
    )


if __name__ == "__main__":
    main()
