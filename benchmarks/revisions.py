"""What the comparisons of two revisions share: each in a process of its own, in its own tree, asked in turn.

A worker is the text of a script that runs in the folder of one tree, as `WORKER SUBJECT FOLDER`: it builds the subject
and defines `run`, which makes so many steps and gives their seconds. ANSWERS follows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from common import ONE_THREAD, ROOT, table, write_results

ANSWERS = """
print("ready", flush=True)
for line in sys.stdin:
    steps = int(line)
    print(1e6 * run(steps) / steps, flush=True)
"""
"""For each line that asks for so many steps the microseconds of one."""


@dataclass(frozen=True)
class Comparison:
    """What a script compares: the name of its results, what it says of itself, and each subject with the steps of a
    round."""

    name: str
    description: str
    worker: str
    steps: Mapping[str, int]


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


def start(worker: str, subject: str, label: str, place: Path, work: Path) -> Contestant:
    work.mkdir(parents=True)
    command = [sys.executable, "-c", worker + ANSWERS, subject, str(work)]
    path = os.pathsep.join(p for p in (str(place), os.environ.get("PYTHONPATH")) if p)
    process = subprocess.Popen(
        command, cwd=place, env={**os.environ, **ONE_THREAD, "PYTHONPATH": path}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    return Contestant(process, f"{subject}, {label}")


def measured(c: Comparison, subject: str, places: dict[str, Path], work: Path, rounds: int) -> dict[str, list[float]]:
    """us of a step of each tree, by round."""
    with ExitStack() as stack:
        pair = {
            label: start(c.worker, subject, label, place, work / label / subject) for label, place in places.items()
        }
        for x in pair.values():
            stack.enter_context(x.process)
            stack.callback(x.process.kill)
        for x in pair.values():
            x.wait_until_ready()
        found: dict[str, list[float]] = {label: [] for label in pair}
        for number in range(rounds):
            order = list(pair) if number % 2 == 0 else list(reversed(pair))
            for label in order:
                found[label].append(pair[label].us(c.steps[subject]))
    return found


def main(c: Comparison) -> None:
    parser = argparse.ArgumentParser(description=c.description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="revision or folder")
    parser.add_argument("after", nargs="?", default=str(ROOT), help="revision or folder; default: this tree")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", help=f"subjects, with commas, of {', '.join(c.steps)}")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="netloom-revisions-") as folder:
        work = Path(folder)
        given = {"before": arguments.before, "after": arguments.after}
        places = {label: tree(what, work / f"tree-{label}") for label, what in given.items()}
        found = {}
        print(f"us of a step, medians of {arguments.rounds} rounds: {arguments.before} and {arguments.after}")
        for subject in arguments.only.split(",") if arguments.only else c.steps:
            found[subject] = measured(c, subject, places, work, arguments.rounds)
    rows = []
    for subject, times in found.items():
        ratios = [b / a for a, b in zip(times["before"], times["after"], strict=True)]
        least, most = min(ratios), max(ratios)
        rows.append([subject, *map(statistics.median, times.values()), statistics.median(ratios), least, most])
    table(["", "before", "after", "after / before", "least", "most"], rows)
    write_results(c.name, {**given, "us_per_step": found})
