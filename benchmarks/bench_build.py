"""Claim: what is compiled does not depend on how many populations, projections or parameters there
are: `build` of a ring of 10 and of 10,000 populations takes the same time in the C compiler, at
most 4 CPU seconds and 300 MB in all for 10,000; `build` of 64,516 projections (multi_area_structure)
takes at most 7 CPU seconds; `build` of cuba from nothing takes at most 1 CPU second, of which the
compiler at most 0.4 (Brian2: 15 for the compiler alone). `build` of 10, 50 and 200 equal convolutions
with rectifiers, as a training (forward pass, gradients and updates), takes the same time within 20 %
and at most 2 CPU seconds.

Measured: CPU seconds and peak memory of the process `netloom build` and its children, with an empty
cache, and Python's bytecode as in an installed package; the C compiler's share by a wrapper that stands in for it.
Brian2's build of cuba runs in turn.

Usage: bench_build.py [--sizes 10,10000] [--layers 10,50,200] [--rounds 3] [--only cuba,areas,ring,convs,brian2]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from common import (
    HERE,
    ROOT,
    WORK,
    execute,
    median,
    netloom,
    peer_python,
    rounds,
    table,
    write_results,
)

# `times` prints, on its second line, the user and system seconds of the children waited for.
WRAPPER = """\
#!/usr/bin/env bash
{compiler} "$@"
status=$?
times > {log}.last  # not into a pipe, whose end of it would count no children
tail -n 1 {log}.last >> {log}
exit $status
"""


BYTECODE = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": ""}


def compiler_command() -> str:
    return os.environ.get("CC") or next(c for c in ("cc", "gcc", "clang") if shutil.which(c))


def logged_seconds(log: Path) -> float:
    """CPU seconds that the wrapper counted: `0m0.412s 0m0.031s` per call."""
    total = 0.0
    for word in log.read_text(encoding="utf-8").split() if log.exists() else ():
        minutes, seconds = word.rstrip("s").split("m")
        total += 60 * float(minutes) + float(seconds.replace(",", "."))
    return total


def sources_digest(folder: Path) -> tuple[int, str]:
    """Bytes of the emitted C, and what identifies it."""
    text = b"".join(p.read_bytes() for p in sorted(folder.rglob("*.c")))
    return len(text), hashlib.sha256(text).hexdigest()[:12]


def measure_build(name: str, model: Path, settings: tuple[str, ...]) -> dict[str, float]:
    """`netloom build` from nothing; leaves the emitted code in work/build-<name>."""
    folder = WORK / f"build-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(model, folder)
    for beside in ("data", "library"):
        (folder / beside).symlink_to(ROOT / "models" / beside)
    wrapper, log = folder / "cc-timed", folder / "cc.log"
    wrapper.write_text(WRAPPER.format(compiler=compiler_command(), log=shlex.quote(str(log))), encoding="utf-8")
    wrapper.chmod(0o755)
    environment = {
        "CC": str(wrapper),
        "NETLOOM_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(ROOT),
        **BYTECODE,
    }
    command = [*netloom(), "build", model.name, "--target", "cpu"]
    for setting in settings:
        command += ["--set", setting]
    done = execute(command, cwd=folder, env=environment)
    compiler = logged_seconds(log)
    if not compiler:
        raise SystemExit(f"{name}: the C compiler was not called; was the cache not empty?")
    return {
        "cpu_seconds": done.cpu_seconds,
        "compiler_cpu_seconds": compiler,
        "peak_mb": done.peak_bytes / 1e6,
        "wall_seconds": done.wall_seconds,
        "source_bytes": float(sources_digest(folder / "build")[0]),
    }


def write_images() -> None:
    """What convs.yaml reads; the values do not matter to a build."""
    WORK.mkdir(exist_ok=True)
    np.savez(WORK / "convs.npz", images=np.zeros((32, 16, 32, 32), np.uint8), labels=np.zeros(32, np.int32))


def measure_brian2(python: Path) -> dict[str, float]:
    folder = WORK / "build-brian2"
    shutil.rmtree(folder, ignore_errors=True)
    done = execute([python, HERE / "peers" / "cuba_brian2.py", folder, "1"])
    return {
        "cpu_seconds": done.cpu_seconds,
        "compiler_cpu_seconds": json.loads(done.output.splitlines()[-1])["compiler_cpu_seconds"],
        "peak_mb": done.peak_bytes / 1e6,
        "wall_seconds": done.wall_seconds,
        "source_bytes": float(sum(p.stat().st_size for p in folder.rglob("*.cpp"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10,10000", help="populations of the rings")
    parser.add_argument("--layers", default="10,50,200", help="convolutions of the networks of layers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="cuba,areas,ring,convs,brian2", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))
    sizes = [int(size) for size in arguments.sizes.split(",")]

    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    if "cuba" in only:
        contestants["cuba"] = partial(measure_build, "cuba", ROOT / "models" / "cuba.yaml", ())
    if "areas" in only:
        model = ROOT / "models" / "multi_area_structure.yaml"
        contestants["areas"] = partial(measure_build, "areas", model, ())
    if "ring" in only:
        for size in sizes:
            name = f"ring-{size}"
            contestants[name] = partial(measure_build, name, HERE / "models" / "ring.yaml", (f"n={size}",))
    layers = [int(count) for count in arguments.layers.split(",")]
    if "convs" in only:
        write_images()
        for count in layers:
            name = f"convs-{count}"
            contestants[name] = partial(measure_build, name, HERE / "models" / "convs.yaml", (f"n={count}",))
    if "brian2" in only and (python := peer_python("brian2")):
        contestants["cuba in brian2"] = partial(measure_brian2, python)

    execute([sys.executable, "-m", "compileall", "-q", "compiler", "backends", "netloom"], env=BYTECODE)
    results = rounds(contestants, arguments.rounds)
    keys = ["cpu_seconds", "compiler_cpu_seconds", "wall_seconds", "peak_mb", "source_bytes"]
    print(f"build from nothing, {arguments.rounds} rounds, medians")
    table(["", *keys], [[n, *(median(r, key) for key in keys)] for n, r in results.items()])
    digests = {name: sources_digest(WORK / f"build-{name}" / "build")[1] for name in results if "-" in name}
    for family in ("ring", "convs"):
        found = {digest for name, digest in digests.items() if name.startswith(family)}
        if found:
            print(f"the emitted C of {family} is " + ("the same, byte for byte" if len(found) == 1 else "NOT the same"))
    if "convs" in only:
        seconds = [median(results[f"convs-{count}"], "cpu_seconds") for count in layers]
        print(f"convs: {max(seconds) / min(seconds) - 1:.0%} between the fastest and the slowest")
    write_results("build", {"rounds": results, "sources": digests})


if __name__ == "__main__":
    main()
