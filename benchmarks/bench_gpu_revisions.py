"""Claim: no model is slower on a GPU than at another revision by more than 3 %.

Measured, on one GPU: microseconds of a step, the two revisions in turn and the one first that was second in the round
before; medians over the rounds, and the median of the rounds' ratios. Each revision runs in a process of its own from
its own tree (its passes, kernels, models and data of benchmarks), on the same GPU as the other. Simulations are without
recording and have chosen how to make steps; trainings are those of the other GPU benchmarks.

BEFORE and AFTER are revisions, which are unpacked into a temporary folder, or folders with a tree.

Usage: bench_gpu_revisions.py BEFORE [AFTER=.] [--rounds 10] [--only microcircuit,lstm_64]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from common import ROOT, table, write_results

STEPS = {
    "microcircuit": 20_000,
    "microcircuit_0.1": 40_000,
    "cuba": 40_000,
    "lenet5_64": 1_200,
    "lenet5_1024": 250,
    "resnet20_32": 100,
    "resnet20_256": 30,
    "lstm_64": 400,
    "gru_128": 300,
    "gru_128_batch_256": 150,
    "lstm_512": 40,
    "gru_512": 40,
    "lstm_1024": 20,
}
"""Of a round: about 0.1 s."""

WORKER = '''
"""One subject of one tree, in whose folder this runs: "ready", then for each line that asks for steps their us."""
import sys, time
from pathlib import Path

sys.path[:0] = [str(Path("benchmarks").resolve()), str(Path.cwd())]
name, folder = sys.argv[1], Path(sys.argv[2])
import numpy as np
import gpu_training


def simulation(model, scale):
    import bench_gpu_cuba, bench_gpu_microcircuit
    from gpu_stepping import CHOOSING

    silent = {"cuba": bench_gpu_cuba.silent, "microcircuit": bench_gpu_microcircuit.silent}[model]
    path = folder / f"{model}.yaml"
    path.write_text(silent(Path("models", f"{model}.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    backend = gpu_training.CudaBackend()
    settings = {"scale_n": scale, "scale_k": scale} if scale else {}
    program = gpu_training.lower(gpu_training.load_model(path, settings), backend.capabilities).merged
    instance = backend.load(backend.build(program, folder / "build", {}), program, 1)
    some = next(a.name for a in program.arrays if a.name.endswith(".spike_count"))
    done = 0

    def run(count):
        nonlocal done
        begin = time.perf_counter()
        while count > 0:
            ran = instance.run("step", done + 1, count)
            done, count = done + ran, count - ran
        instance.read(some)  # waits for the device
        return time.perf_counter() - begin

    run(CHOOSING)
    return run


def training():
    import bench_gpu_lenet5, bench_gpu_recurrent, bench_gpu_resnet20

    if name in bench_gpu_recurrent.NETWORKS:
        network = bench_gpu_recurrent.NETWORKS[name]
        bench_gpu_recurrent.make_data(network, folder, network.batch)
        model, batch = bench_gpu_recurrent.model(network, folder, network.batch), network.batch
    else:
        subject, words = name.split("_")
        batch = int(words)
        {"lenet5": bench_gpu_lenet5, "resnet20": bench_gpu_resnet20}[subject].make_data(folder, batch)
        model = gpu_training.model_of_benchmarks(subject, folder, batch)
    run, _ = gpu_training.netloom(model, folder, batch, True, False)
    run(30)
    return run


model, _, scale = name.partition("_")
run = simulation(model, scale or "1" * (model == "microcircuit")) if model in ("microcircuit", "cuba") else training()
print("ready", flush=True)
for line in sys.stdin:
    steps = int(line)
    print(1e6 * run(steps) / steps, flush=True)
'''


@dataclass(frozen=True)
class Contestant:
    """A subject in the tree of one revision."""

    process: subprocess.Popen[str]
    label: str

    def answer(self) -> str:
        """Its next line. Raises SystemExit where it ended in place of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.label}: exit {self.process.wait()}")
        return line.strip()

    def wait_until_ready(self) -> None:
        """Until it is built, loaded and warm."""
        while (line := self.answer()) != "ready":
            print(f"{self.label}: {line}", file=sys.stderr, flush=True)

    def us(self, steps: int) -> float:
        """Of a step, over some of them."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.answer())


def tree(given: str, folder: Path) -> Path:
    """The folder of a tree, or of the tree of a revision, which is unpacked there."""
    if Path(given, "benchmarks").is_dir():
        return Path(given).resolve()
    folder.mkdir()
    archive = subprocess.run(["git", "archive", given], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder


def start(subject: str, label: str, place: Path, work: Path) -> Contestant:
    work.mkdir(parents=True)
    command = [sys.executable, "-c", WORKER, subject, str(work)]
    path = os.pathsep.join(p for p in (str(place), os.environ.get("PYTHONPATH")) if p)
    process = subprocess.Popen(
        command, cwd=place, env={**os.environ, "PYTHONPATH": path}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    return Contestant(process, f"{subject}, {label}")


def measured(subject: str, places: dict[str, Path], work: Path, rounds: int) -> dict[str, list[float]]:
    """us of a step of each tree, by round."""
    with ExitStack() as stack:
        pair = {label: start(subject, label, place, work / label / subject) for label, place in places.items()}
        for x in pair.values():
            stack.enter_context(x.process)
            stack.callback(x.process.kill)
        for x in pair.values():
            x.wait_until_ready()
        found: dict[str, list[float]] = {label: [] for label in pair}
        for number in range(rounds):
            order = list(pair) if number % 2 == 0 else list(reversed(pair))
            for label in order:
                found[label].append(pair[label].us(STEPS[subject]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="revision or folder")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="revision or folder; default: this tree")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", help=f"subjects, with commas, of {', '.join(STEPS)}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="netloom-revisions-") as folder:
        work = Path(folder)
        given = {"before": arguments.before, "after": arguments.after}
        places = {label: tree(what, work / f"tree-{label}") for label, what in given.items()}
        found = {}
        print(f"us of a step, medians of {arguments.rounds} rounds: {arguments.before} and {arguments.after}")
        for subject in arguments.only.split(",") if arguments.only else STEPS:
            found[subject] = measured(subject, places, work, arguments.rounds)
    rows = []
    for subject, times in found.items():
        ratios = [b / a for a, b in zip(times["before"], times["after"], strict=True)]
        least, most = min(ratios), max(ratios)
        rows.append([subject, *map(statistics.median, times.values()), statistics.median(ratios), least, most])
    table(["", "before", "after", "after / before", "least", "most"], rows)
    write_results("gpu_revisions", {**given, "us_per_step": found})


if __name__ == "__main__":
    main()
