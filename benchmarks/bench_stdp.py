"""Claim: spike-timing dependent plasticity (Song, Miller & Abbott 2000; models/stdp.yaml: 1,000 Poisson inputs onto one
neuron, dt 0.1 ms) runs at least 2x faster than in Brian2's C++ standalone mode, on one thread.

Measured: CPU seconds per biological second of the simulation alone, after building and connecting, both in float32.
The output's rate and the share of weights that end in the lowest and in the highest fifth of their range are printed as
a check that both learn the same.

Usage: bench_stdp.py [--seconds 50] [--rounds 5] [--only NAME,...]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import (
    HERE,
    ROOT,
    WORK,
    compare,
    execute,
    median,
    netloom,
    peer_python,
    rounds,
    table,
    write_results,
)

W_MAX = 0.01


def model_text(seconds: float) -> str:
    """models/stdp.yaml for this benchmark: its duration, float32, weights at the end, no plots."""
    text = (ROOT / "models" / "stdp.yaml").read_text(encoding="utf-8")
    text = text[: text.index("\nrecord:")]
    text, durations = re.subn(r"duration: [^,}]*", f"duration: {seconds:g} s", text)
    assert durations == 1, "models/stdp.yaml does not look as this script expects"
    record = "record: [{spikes: {from: output}}, {synapses: {from: plastic, variables: [w]}}]"
    return f"{text}\n{record}\nnumerics: {{precision: float32}}\n"


def ends(weights: np.ndarray) -> dict[str, float]:
    """Shares of the weights at the two ends."""
    return {
        "lowest_fifth": float((weights < 0.2 * W_MAX).mean()),
        "highest_fifth": float((weights > 0.8 * W_MAX).mean()),
    }


def prepare_netloom(folder: Path, seconds: float) -> Callable[[], dict[str, float]]:
    import h5py

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "stdp.yaml").write_text(model_text(seconds), encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [*netloom(), "run", "stdp.yaml", "--quiet"]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        execute(command, cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        record = json.loads((run / "run.json").read_text(encoding="utf-8"))
        with h5py.File(run / "synapses.h5") as file:
            weights = file["plastic/input->output/w"][-1]
        return {
            "cpu_seconds_per_second": record["times"]["simulation_cpu_seconds"] / seconds,
            "rate_hz": record["summary"]["rates_hz"]["output"],
            **ends(weights),
        }

    measure()  # builds
    return measure


def prepare_brian2(python: Path, folder: Path, seconds: float) -> tuple[Callable[[], dict[str, float]], float]:
    """How to measure Brian2, and the CPU seconds that its C++ compiler took."""
    shutil.rmtree(folder, ignore_errors=True)
    script = HERE / "peers" / "stdp_brian2.py"
    built = json.loads(execute([python, script, folder, str(seconds)]).output.splitlines()[-1])

    def measure() -> dict[str, float]:
        done = execute([folder / "main"], cwd=folder)
        found = re.search(r"run_cpu_seconds (\S+)", done.output)
        assert found, done.output
        results = folder / "results"
        spikes = np.fromfile(results / built["files"]["spikes"], np.int32)[0]
        weights = np.fromfile(results / built["files"]["weights"], np.float32)
        return {
            "cpu_seconds_per_second": float(found[1]) / seconds,
            "rate_hz": float(spikes) / seconds,
            **ends(weights),
        }

    return measure, built["compiler_cpu_seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=50.0, help="biological seconds of a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="netloom,brian2", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))

    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    compiler: dict[str, float] = {}
    if "netloom" in only:
        contestants["netloom"] = prepare_netloom(WORK / "stdp-netloom", arguments.seconds)
    if "brian2" in only and (python := peer_python("brian2")):
        contestants["brian2"], compiler["brian2"] = prepare_brian2(python, WORK / "stdp-brian2", arguments.seconds)

    results = rounds(contestants, arguments.rounds)
    print(f"stdp, {arguments.seconds:g} biological seconds, {arguments.rounds} rounds, one thread")
    ratios = compare(results, "cpu_seconds_per_second")
    shown = ("rate_hz", "lowest_fifth", "highest_fifth")
    table(["medians", *shown], [[n, *(median(r, key) for key in shown)] for n, r in results.items()])
    for name, seconds in compiler.items():
        print(f"{name}: building it took {seconds:.1f} CPU seconds of the C++ compiler")
    write_results("stdp", {"biological_seconds": arguments.seconds, "rounds": results, "ratios": ratios})


if __name__ == "__main__":
    main()
