"""Claim: a training step of a small transformer encoder (28 steps, width 64, 2 blocks, 4 heads) and of an LSTM (28
steps, 64 units) takes less time than in PyTorch eager, each on one thread.

Measured: CPU milliseconds of a step: taking a shuffled batch of 64, loss, gradients and Adam on every weight. Netloom
trains for a few and for more epochs and the difference is counted, so that start-up, building and reading the data
drop out; PyTorch counts its loop after some steps. `tuned` is Netloom with the lock file that `netloom tune` has
written. The data are synthetic images, read row by row; the last loss is printed as a check that all learn.

Usage: bench_sequences.py [--kinds transformer,lstm] [--epochs 8] [--rounds 5] [--only netloom,tuned,torch]
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
from common import HERE, ROOT, WORK, compare, execute, median, netloom, peer_python, rounds, table, write_results

BATCH = 64
STEPS_PER_EPOCH = 50
KINDS = ("transformer", "lstm")


def make_data(path: Path) -> None:
    """images uint8 (N, 1, 28, 28), labels int32 (N,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    count = BATCH * STEPS_PER_EPOCH
    patterns = np.kron(random.random((10, 7, 7)), np.ones((4, 4)))
    labels = random.integers(0, 10, count, dtype=np.int32)
    images = 0.5 * patterns[labels] + 0.5 * random.random((count, 28, 28))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, images=(255 * images[:, None]).astype(np.uint8), labels=labels)


def prepare_netloom(kind: str, folder: Path, data: Path, epochs: int, tuned: bool) -> Callable[[], dict[str, float]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(data, folder / "images.npz")
    text = (HERE / "models" / f"{kind}.yaml").read_text(encoding="utf-8")
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    for name, length in {"short": 1, "long": 1 + epochs}.items():
        changed, count = re.subn(r"(?m)^(  epochs:).*$", rf"\1 {length}", text)
        assert count == 1, f"{kind}.yaml does not look as this script expects"
        (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
        if tuned:
            execute([*netloom(), "tune", f"{name}.yaml", "--quiet"], cwd=folder, env=environment)

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
        return {"cpu_ms_per_step": 1000 * (long - short) / (epochs * STEPS_PER_EPOCH), "last_loss": loss}

    train("short")  # builds
    train("long")
    return measure


def measure_torch(python: Path, kind: str, data: Path, epochs: int) -> dict[str, float]:
    script = HERE / "peers" / "sequences_torch.py"
    return execute([python, script, kind, data, str(BATCH), str(epochs * STEPS_PER_EPOCH)]).last_json()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--epochs", type=int, default=8, help=f"epochs of {STEPS_PER_EPOCH} steps to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="netloom,tuned,torch", help="contestants")
    arguments = parser.parse_args()
    only = set(arguments.only.split(","))
    data = WORK / "sequences.npz"
    make_data(data)
    for kind in arguments.kinds.split(","):
        contestants: dict[str, Callable[[], dict[str, float]]] = {}
        for name in ("netloom", "tuned"):
            if name in only:
                folder = WORK / f"{kind}-{name}"
                contestants[name] = prepare_netloom(kind, folder, data, arguments.epochs, name == "tuned")
        if "torch" in only and (python := peer_python("torch")):
            contestants["torch"] = partial(measure_torch, python, kind, data, arguments.epochs)
        results = rounds(contestants, arguments.rounds)
        print(f"{kind}, 28 steps, batch {BATCH}, Adam, {arguments.rounds} rounds, one thread")
        ratios = compare(results, "cpu_ms_per_step")
        table(["last_loss", "median"], [[n, median(r, "last_loss")] for n, r in results.items()])
        write_results(kind, {"batch": BATCH, "rounds": results, "ratios": ratios})


if __name__ == "__main__":
    main()
