"""Claim: training LeNet-5 (28x28 images, batch 64, Adam), ResNet-20 and a network in the manner of VGG (32x32 images,
batch 32, momentum) needs at most the memory that PyTorch needs; blocks with `checkpoint: true` less still.

Measured: the most memory that a process holds during a short training, less what it held after its imports. Both read
the same samples (four batches) and keep them as 32-bit numbers. Netloom's share includes reading and lowering the
model and writing its results; the program was compiled before. `arenas_mb` is what its program allocates (`netloom
show --memory`). `checkpoint`: each copy of a `repeat` is a checkpointed block. PyTorch: eager, and with channels last.

Usage: bench_memory.py [--cases lenet5,resnet20,vgg] [--rounds 3]
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from common import HERE, ROOT, WORK, compare, execute, median, netloom, peer_python, rounds, table, write_results

BATCHES = 4


@dataclass(frozen=True)
class Case:
    """One network. `shape`: channels, height, width; `blocks`: whether it has repeats that can be checkpointed."""

    title: str
    batch: int
    shape: tuple[int, int, int]
    blocks: bool


CASES = {
    "lenet5": Case("LeNet-5, batch 64, Adam", 64, (1, 28, 28), False),
    "resnet20": Case("ResNet-20, batch 32, momentum", 32, (3, 32, 32), True),
    "vgg": Case("VGG of six convolutions, batch 32, momentum", 32, (3, 32, 32), True),
}


def prepare_netloom(name: str, case: Case, checkpoint: bool) -> Callable[[], dict[str, float]]:
    folder = WORK / f"memory-{name}-{checkpoint}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (BATCHES * case.batch, *case.shape), np.uint8)
    labels = random.integers(0, 10, len(images), dtype=np.int32)
    np.savez(folder / "images.npz", images=images, labels=labels)
    text = (HERE / "models" / f"{name}.yaml").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^ *checkpoint: .*\n", "", text)
    if checkpoint:
        text, count = re.subn(r"(?m)^( *)(times: .*)$", r"\1\2\n\1checkpoint: true", text)
        assert count, f"{name}.yaml has no repeat"
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(HERE / "peers" / "memory_netloom.py"), f"{name}.yaml"]

    def measure() -> dict[str, float]:
        shutil.rmtree(folder / "runs", ignore_errors=True)
        return execute(command, cwd=folder, env=environment).last_json()

    execute([*netloom(), "build", f"{name}.yaml"], cwd=folder, env=environment)
    return measure


def measure_torch(python: Path, name: str, mode: str) -> dict[str, float]:
    script, data = HERE / "peers" / "memory_torch.py", WORK / f"memory-{name}-False" / "images.npz"
    return execute([python, script, name, mode, data, str(CASES[name].batch), str(BATCHES)]).last_json()


def run_case(name: str, count: int) -> dict[str, float]:
    case = CASES[name]
    contestants: dict[str, Callable[[], dict[str, float]]] = {"netloom": prepare_netloom(name, case, False)}
    if case.blocks:
        contestants["checkpoint"] = prepare_netloom(name, case, True)
    for mode in ("eager", "channels_last"):
        if python := peer_python("torch"):
            contestants[mode] = partial(measure_torch, python, name, mode)
    results = rounds(contestants, count)
    print(f"{case.title}, {count} rounds")
    ratios = compare(results, "peak_mb")
    ours = {n: r for n, r in results.items() if "arenas_mb" in r[0]}
    table(["arenas_mb", "median"], [[n, median(r, "arenas_mb")] for n, r in ours.items()])
    write_results(f"memory_{name}", {"rounds": results, "ratios": ratios})
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.cases.split(","):
        run_case(name, arguments.rounds)


if __name__ == "__main__":
    main()
