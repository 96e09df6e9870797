"""What the benchmarks share: CPU seconds of a process tree, rounds in turn, tables, JSON results.

Assumes: POSIX; run by the Python of the project's own environment; peers in benchmarks/.venv-*.
Guarantees: contestants run in turn within a round, so that a busy spell hits all of them; every
number printed is also written to benchmarks/results/<name>.json with the machine it came from.
Does not: judge. Ratios are printed, a person reads them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = HERE / "work"

ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    )
}


@dataclass(frozen=True)
class Plan:
    """How often steps are measured: `rounds` of `steps` each; on one thread of a core of about a second, or less."""

    steps: int
    rounds: int
    core: bool = False

    def words(self) -> tuple[int, int]:
        return self.steps, self.rounds


@dataclass(frozen=True)
class Finished:
    """One process that ended well: CPU and wall seconds and peak memory of it and its children."""

    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    output: str

    def last_json(self) -> dict[str, float]:
        """The JSON object on the last line of its output, which is how peers report."""
        result: dict[str, float] = json.loads(self.output.strip().splitlines()[-1])
        return result


def execute(command: Sequence[str | Path], cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> Finished:
    """Run a command on one thread; its output is kept, its errors pass through."""
    environment = {**os.environ, **ONE_THREAD, **(env or {})}
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    # wait4 tells of this child alone; its counters include the children that it waited for.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {process.returncode}\n{output}")
    return Finished(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - started,
        usage.ru_maxrss * 1024,
        output,
    )


def peer_python(peer: str) -> Path | None:
    """The Python of a peer's environment, or None (with a word about it) when it was not made."""
    python = HERE / f".venv-{peer}" / "bin" / "python"
    if python.exists():
        return python
    print(f"{peer}: no environment, left out (benchmarks/setup.sh {peer})", file=sys.stderr)
    return None


def netloom() -> tuple[str, ...]:
    """The command of this checkout's Netloom."""
    return (sys.executable, "-m", "compiler.cli")


def rounds(contestants: Mapping[str, Callable[[], dict[str, float]]], count: int) -> dict[str, list[dict[str, float]]]:
    """Measure every contestant once per round, in turn."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for number in range(count):
        for name, measure in contestants.items():
            results[name].append(measure())
            values = "  ".join(f"{k} {v:.4g}" for k, v in results[name][-1].items())
            print(f"round {number + 1}/{count}  {name}: {values}", file=sys.stderr, flush=True)
    return results


def step_times(run: Callable[[int], float], plan: Plan) -> dict[str, list[float]]:
    """Wall and CPU microseconds of a step, by round. `run`: makes so many steps and gives their seconds."""
    steps = plan.steps
    if plan.core:
        run(1)
        steps = max(1, min(steps, round(1 / max(run(1), 1e-6))))
    run(steps)
    found: dict[str, list[float]] = {"us_per_step": [], "cpu_us_per_step": []}
    for _ in range(plan.rounds):
        begin = time.process_time()
        wall = run(steps)
        for key, seconds in zip(found, (wall, time.process_time() - begin), strict=True):
            found[key].append(1e6 * seconds / steps)
    return found


def median(results: Sequence[Mapping[str, float]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: the first column to the left, numbers to the right with four digits."""
    cells = [list(header)]
    cells += [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())


def compare(results: Mapping[str, Sequence[Mapping[str, float]]], key: str, ours: str = "netloom") -> dict[str, float]:
    """Print median, range and the ratio to ours of `key`; ratios are medians over the rounds."""
    ratios: dict[str, float] = {}
    rows: list[list[object]] = []
    for name, measured in results.items():
        values = [m[key] for m in measured]
        ratio: object = "-"
        if ours in results:
            pairs = zip(values, results[ours], strict=True)
            ratios[name] = statistics.median(value / our[key] for value, our in pairs)
            ratio = ratios[name]
        rows.append([name, statistics.median(values), min(values), max(values), ratio])
    table([key, "median", "min", "max", f"/ {ours}"], rows)
    return ratios


def write_results(name: str, results: Mapping[str, object]) -> None:
    """Write benchmarks/results/<name>.json."""
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    record = {
        "benchmark": name,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": {"processor": processor(), "system": platform.platform()},
        "python": platform.python_version(),
        **results,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")


def processor() -> str:
    """The processor's name and the vector extensions that matter here."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    found = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(found.get("flags", "").split())
    vector = [flag for flag in ("avx2", "fma", "avx512f") if flag in flags]
    return " ".join([found.get("model name", platform.processor()), *vector])
