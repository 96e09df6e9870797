"""Claim: a training step of a multilayer perceptron (784-512-512-10, batch 64, Adam) is at least
1.5x faster than in PyTorch eager, each on one thread.

Measured: CPU milliseconds of a step: taking a shuffled batch, loss, gradients and the update of
every weight. Netloom trains for a few and for more epochs and the difference is counted, so that
start-up, building and reading the data drop out; PyTorch counts its loop after some steps. The data
are synthetic (a blurred pattern for each class, plus noise) and of MNIST's form; the last loss is printed as a
check that both learn.

Usage: bench_mlp.py [--epochs 4] [--rounds 5] [--only NAME,...]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from functools import partial
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

BATCH = 64
STEPS_PER_EPOCH = 100


def make_data(path: Path) -> None:
    """images uint8 (6400, 1, 28, 28), labels int32 (6400,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    count = BATCH * STEPS_PER_EPOCH
    patterns = np.kron(random.random((10, 7, 7)), np.ones((4, 4)))
    labels = random.integers(0, 10, count, dtype=np.int32)
    images = 0.5 * patterns[labels] + 0.5 * random.random((count, 28, 28))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, images=(255 * images[:, None]).astype(np.uint8), labels=labels)


def prepare_netloom(folder: Path, data: Path, epochs: int) -> Callable[[], dict[str, float]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(data, folder / "images.npz")
    text = (HERE / "models" / "mlp.yaml").read_text(encoding="utf-8")
    lengths = {"short": 1, "long": 1 + epochs}
    for name, length in lengths.items():
        changed, count = re.subn(r"(?m)^(  epochs:).*$", rf"\1 {length}", text)
        assert count == 1, "mlp.yaml does not look as this script expects"
        (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}

    def train(name: str) -> tuple[float, float]:
        """CPU seconds of a whole run, and the loss of its last epoch."""
        shutil.rmtree(folder / "runs", ignore_errors=True)
        done = execute([*netloom(), "run", f"{name}.yaml", "--quiet"], cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        last = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        return done.cpu_seconds, json.loads(last)["loss"]

    def measure() -> dict[str, float]:
        short, _ = train("short")
        long, loss = train("long")
        return {
            "cpu_ms_per_step": 1000 * (long - short) / (epochs * STEPS_PER_EPOCH),
            "last_loss": loss,
        }

    train("short")  # builds
    return measure


def measure_torch(python: Path, data: Path, epochs: int) -> dict[str, float]:
    script = HERE / "peers" / "mlp_torch.py"
    return execute([python, script, data, str(BATCH), str(epochs * STEPS_PER_EPOCH)]).last_json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4, help="epochs of 100 steps to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="netloom,torch", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))

    data = WORK / "mlp.npz"
    make_data(data)
    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    if "netloom" in only:
        contestants["netloom"] = prepare_netloom(WORK / "mlp-netloom", data, arguments.epochs)
    if "torch" in only and (python := peer_python("torch")):
        contestants["torch"] = partial(measure_torch, python, data, arguments.epochs)

    results = rounds(contestants, arguments.rounds)
    print(f"MLP 784-512-512-10, batch {BATCH}, Adam, {arguments.rounds} rounds, one thread")
    ratios = compare(results, "cpu_ms_per_step")
    table(["last_loss", "median"], [[n, median(r, "last_loss")] for n, r in results.items()])
    write_results("mlp", {"batch": BATCH, "rounds": results, "ratios": ratios})


if __name__ == "__main__":
    main()
