"""Axon's models on one thread: epochs of ra25 over seeds and CPU seconds for each, CPU seconds a trial of bench_lvis.

python benchmarks/bench_axon.py [--seeds 30] [--trials 5] [--target cpu]

With `--target cuda` only bench_lvis runs, and seconds are those of the clock. A trial of bench_lvis is 200 cycles of
47,204 neurons and what 32,448,512 synapses learn at its end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import netloom

MODELS = Path(__file__).resolve().parents[1] / "models" / "axon"


def associator(seeds: int, instances: int, learning_rate: float) -> None:
    model = netloom.load(MODELS / "ra25.yaml", set={"instances": instances, "learning_rate": learning_rate})
    model.run(duration="1 ms")  # compiles
    epochs, seconds = [], 0.0
    for seed in range(1, seeds + 1):
        s = model.simulation(seed=seed)
        begin = time.process_time()
        s.run("500 s")
        seconds += time.process_time() - begin
        epochs.append(len(s.table("learning")["trial"]))
    what = "epochs" if instances == 1 else f"rounds of {instances} instances"
    print(f"ra25: {epochs} {what}, median {statistics.median(epochs)}; {seconds / sum(epochs):.4f} CPU s for each")


def vision(trials: int, target: str) -> None:
    """The first ten trials are not measured: in them a GPU finds out which way of launching is the fastest."""
    clock, unit = (time.perf_counter, "s") if target == "cuda" else (time.process_time, "CPU s")
    s = netloom.load(MODELS / "bench_lvis.yaml").simulation(target=target)
    s.run("2 s")
    cycles, learning = [], []
    for _ in range(trials):
        begin = clock()
        s.run("199 ms")
        between = clock()
        s.run("1 ms")
        cycles.append(between - begin)
        learning.append(clock() - between)
    a, b = statistics.median(cycles), statistics.median(learning)
    print(f"bench_lvis: {a:.4f} {unit} for 199 cycles, {b:.4f} for the last one with learning, {a + b:.4f} a trial")
    begin = clock()
    s.run("4 s")
    mean = (clock() - begin) / 20
    print(f"bench_lvis: {mean:.4f} {unit} a trial, mean of 20 in one call, with the checks of the state")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    if given.target == "cpu":
        associator(given.seeds, 1, 0.06)
        associator(given.seeds, 4, 0.1)
    vision(given.trials, given.target)


if __name__ == "__main__":
    main()
