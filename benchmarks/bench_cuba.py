"""Claim: cuba (4,000 neurons, dt 0.1 ms) runs at least 2x faster than in Brian2's C++ standalone
mode and 5x faster than in NEST, each on one thread.

Measured: CPU seconds per biological second of the simulation alone, after building and connecting;
every contestant simulates the same network rule with spikes of all neurons recorded, Netloom and
Brian2 in float32 (NEST has float64 only). The mean rate is printed as a check that the networks do
the same. Netloom's number is what the runner counts around its stepping loop (recording and
draining included); the CPU seconds of the whole process stand beside it.

Usage: bench_cuba.py [--seconds 10] [--rounds 5] [--only NAME,...]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

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

NEURONS = 4000


def model_text(seconds: float) -> str:
    """models/cuba.yaml for this benchmark: its duration, float32, spikes only, no plots."""
    text = (ROOT / "models" / "cuba.yaml").read_text(encoding="utf-8")
    text = text[: text.index("\nplots:")] + "\nnumerics: {precision: float32}\n"
    text, durations = re.subn(r"(?m)^(  duration:).*$", rf"\1 {seconds:g} s", text)
    text, traces = re.subn(r"(?m)^  - trace:.*\n", "", text)
    assert durations == 1 and traces == 1, "models/cuba.yaml does not look as this script expects"
    return text


def prepare_netloom(folder: Path, seconds: float) -> Callable[[], dict[str, float]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "cuba.yaml").write_text(model_text(seconds), encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [*netloom(), "run", "cuba.yaml", "--quiet"]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        done = execute(command, cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        record = json.loads((run / "run.json").read_text(encoding="utf-8"))
        return {
            "cpu_seconds_per_second": record["times"]["simulation_cpu_seconds"] / seconds,
            "rate_hz": spike_count(run / "spikes.h5") / NEURONS / seconds,
            "process_cpu_seconds": done.cpu_seconds,
        }

    measure()  # builds
    return measure


def spike_count(path: Path) -> int:
    import h5py

    with h5py.File(path) as file:
        return sum(len(group["timestamps"]) for group in file["spikes"].values())


def prepare_brian2(python: Path, folder: Path, seconds: float) -> tuple[Callable[[], dict[str, float]], float]:
    """How to measure Brian2, and the CPU seconds that its C++ compiler took."""
    shutil.rmtree(folder, ignore_errors=True)
    script = HERE / "peers" / "cuba_brian2.py"
    built = json.loads(execute([python, script, folder, str(seconds)]).output.splitlines()[-1])

    def measure() -> dict[str, float]:
        done = execute([folder / "main"], cwd=folder)
        found = re.search(r"run_cpu_seconds (\S+)", done.output)
        assert found, done.output
        (spikes,) = struct.unpack("i", (folder / "results" / built["spikes_file"]).read_bytes())
        return {
            "cpu_seconds_per_second": float(found[1]) / seconds,
            "rate_hz": spikes / NEURONS / seconds,
            "process_cpu_seconds": done.cpu_seconds,
        }

    return measure, built["compiler_cpu_seconds"]


def measure_nest(python: Path, seconds: float) -> dict[str, float]:
    done = execute([python, HERE / "peers" / "cuba_nest.py", str(seconds)])
    return {**done.last_json(), "process_cpu_seconds": done.cpu_seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="biological seconds of a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="netloom,brian2,nest", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))

    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    compiler: dict[str, float] = {}
    if "netloom" in only:
        contestants["netloom"] = prepare_netloom(WORK / "cuba-netloom", arguments.seconds)
    if "brian2" in only and (python := peer_python("brian2")):
        contestants["brian2"], compiler["brian2"] = prepare_brian2(python, WORK / "cuba-brian2", arguments.seconds)
    if "nest" in only and (python := peer_python("nest")):
        contestants["nest"] = partial(measure_nest, python, arguments.seconds)

    results = rounds(contestants, arguments.rounds)
    print(f"cuba, {arguments.seconds:g} biological seconds, {arguments.rounds} rounds, one thread")
    ratios = compare(results, "cpu_seconds_per_second")
    table(["rate_hz", "median"], [[n, median(r, "rate_hz")] for n, r in results.items()])
    for name, seconds in compiler.items():
        print(f"{name}: building it took {seconds:.1f} CPU seconds of the C++ compiler")
    write_results(
        "cuba",
        {
            "biological_seconds": arguments.seconds,
            "rounds": results,
            "ratios": ratios,
            "compiler_cpu_seconds": compiler,
        },
    )


if __name__ == "__main__":
    main()
