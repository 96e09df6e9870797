"""Claim: the cortical microcircuit (Potjans & Diesmann 2014) at a tenth of its size runs faster than in
Brian2's C++ standalone mode and in NEST, each on one thread, with the same rates.

Measured: CPU seconds per biological second of the simulation alone, after building and connecting; every
contestant simulates the same network rule (fixed total numbers of synapses, normal weights and delays,
Poisson input without source neurons) at dt 0.1 ms with the spikes of all neurons recorded, Netloom and Brian2
in float32 (NEST has float64 only). Half a biological second of warm-up is left out of the peers' seconds and
rates; Netloom's runner counts it, so its seconds are divided by the biological seconds with the warm-up. The
rates of the eight populations stand side by side with those of the full-size network.

Usage: bench_microcircuit.py [--seconds 5] [--rounds 3] [--scale 0.1] [--only NAME,...]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
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

sys.path.insert(0, str(HERE / "peers"))
import microcircuit_network as net

EXPECTED = (0.45, 2.1, 3.97, 4.99, 6.7, 7.76, 0.81, 7.0)
"""Hz, mean rates of the model with Poisson input."""


def model_text(seconds: float, scale: float) -> str:
    """models/microcircuit.yaml for this benchmark: its scale and duration, float32."""
    text = (ROOT / "models" / "microcircuit.yaml").read_text(encoding="utf-8")
    text, durations = re.subn(r"(?m)^(  duration:).*$", rf"\1 {seconds:g} s", text)
    text, warm_ups = re.subn(r"(?m)^(  warmup:).*$", rf"\1 {net.WARM_UP:g} s", text)
    text, scales = re.subn(r"(?m)^(  scale_[nk]: \{value:) [^,]*,", rf"\1 {scale:g},", text)
    assert (durations, warm_ups, scales) == (1, 1, 2), "models/microcircuit.yaml has changed"
    return text[: text.index("\nexpect:")] + "\nnumerics: {precision: float32}\n"


def prepare_netloom(folder: Path, seconds: float, scale: float) -> Callable[[], dict[str, float]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "microcircuit.yaml").write_text(model_text(seconds, scale), encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [*netloom(), "run", "microcircuit.yaml", "--quiet"]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        done = execute(command, cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        times = json.loads((run / "run.json").read_text(encoding="utf-8"))["times"]
        return {
            "cpu_seconds_per_second": times["simulation_cpu_seconds"] / (seconds + net.WARM_UP),
            **rates(spike_counts(run / "spikes.h5"), seconds, scale),
            "process_cpu_seconds": done.cpu_seconds,
        }

    measure()  # builds
    return measure


def spike_counts(path: Path) -> list[int]:
    import h5py

    with h5py.File(path) as file:
        return [len(file["spikes"][name]["timestamps"]) for name in net.POPULATIONS]


def rates(counts: list[int], seconds: float, scale: float) -> dict[str, float]:
    return {
        f"rate_{name}": count / size / seconds
        for name, count, size in zip(net.POPULATIONS, counts, net.sizes(scale), strict=True)
    }


def prepare_brian2(
    python: Path, folder: Path, seconds: float, scale: float
) -> tuple[Callable[[], dict[str, float]], float]:
    """How to measure Brian2, and the CPU seconds that its C++ compiler took."""
    import numpy as np

    shutil.rmtree(folder, ignore_errors=True)
    script = HERE / "peers" / "microcircuit_brian2.py"
    command: list[str | Path] = [python, script, folder, str(seconds), str(scale)]
    built = json.loads(execute(command).output.splitlines()[-1])
    first = np.concatenate([[0], np.cumsum(net.sizes(scale))])

    def measure() -> dict[str, float]:
        done = execute([folder / "main"], cwd=folder)
        found = re.search(r"run_cpu_seconds (\S+)", done.output)
        assert found, done.output
        neurons = np.fromfile(folder / "results" / built["i"], np.int32)
        times = np.fromfile(folder / "results" / built["t"], np.float64)
        assert len(neurons) == len(times)
        kept = neurons[times >= net.WARM_UP]
        counts = np.histogram(kept, bins=first)[0].tolist()
        return {
            "cpu_seconds_per_second": float(found[1]) / seconds,
            **rates(counts, seconds, scale),
            "process_cpu_seconds": done.cpu_seconds,
        }

    return measure, built["compiler_cpu_seconds"]


def measure_nest(python: Path, seconds: float, scale: float) -> dict[str, float]:
    script = HERE / "peers" / "microcircuit_nest.py"
    done = execute([python, script, str(seconds), str(scale)])
    return {**done.last_json(), "process_cpu_seconds": done.cpu_seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="biological seconds of a run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=0.1, help="of neurons and in-degrees")
    parser.add_argument("--only", default="netloom,brian2,nest", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))
    size = (arguments.seconds, arguments.scale)

    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    compiler: dict[str, float] = {}
    if "netloom" in only:
        contestants["netloom"] = prepare_netloom(WORK / "microcircuit-netloom", *size)
    if "brian2" in only and (python := peer_python("brian2")):
        folder = WORK / "microcircuit-brian2"
        contestants["brian2"], compiler["brian2"] = prepare_brian2(python, folder, *size)
    if "nest" in only and (python := peer_python("nest")):
        contestants["nest"] = partial(measure_nest, python, *size)

    results = rounds(contestants, arguments.rounds)
    synapses = sum(s.number for s in net.projections(arguments.scale))
    print(
        f"microcircuit at scale {arguments.scale:g}: {sum(net.sizes(arguments.scale)):,} neurons, "
        f"{synapses:,} synapses, {arguments.seconds:g} biological seconds, "
        f"{arguments.rounds} rounds, one thread"
    )
    ratios = compare(results, "cpu_seconds_per_second")
    table(
        ["rate in Hz (median)", *net.POPULATIONS],
        [
            *([n, *(median(r, f"rate_{p}") for p in net.POPULATIONS)] for n, r in results.items()),
            ["expected", *EXPECTED],
        ],
    )
    for name, seconds in compiler.items():
        print(f"{name}: building it took {seconds:.1f} CPU seconds of the C++ compiler")
    write_results(
        "microcircuit",
        {
            "biological_seconds": arguments.seconds,
            "scale": arguments.scale,
            "synapses": synapses,
            "rounds": results,
            "ratios": ratios,
            "compiler_cpu_seconds": compiler,
        },
    )


if __name__ == "__main__":
    main()
