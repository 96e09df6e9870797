"""Claims: a training step, on one thread, of LeNet-5 (28x28 images, batch 64, Adam) is at least 3x faster than the
best of PyTorch eager, eager with channels last and torch.compile; of a multilayer perceptron (784-512-512-10, batch
64, Adam) and of ResNet-20 (32x32 images, batch 32, momentum) 1.5x. One of a small transformer encoder (28 steps, width
64, 2 blocks, 4 heads) and of LSTMs (28 steps, 64 units; 28 steps, 256 units), batch 64, Adam, is faster than PyTorch's.
One of a language model like GPT-2 (2 blocks of width 512, 8 heads, 128 of 256 words), batch 8 and 16, Adam, is no
slower than PyTorch's.

Measured: CPU milliseconds of a step: taking a shuffled batch, loss, gradients and the update of every weight. Netloom
trains for a few and for more epochs and the difference is counted, so that start-up, building and reading the data drop
out; PyTorch counts its loop after some steps. `tuned` is Netloom with the lock file that `netloom tune` has written.
The data are synthetic (a blurred pattern for each class, plus noise) and of MNIST's or CIFAR-10's form, which sequences
read row by row, or words at random; the last loss is printed as a check that all learn.

Usage: bench_training.py [--cases lenet5,mlp,resnet20,transformer,lstm,lstm256,gpt8,gpt16] [--epochs 4] [--rounds 5]
                         [--only netloom,tuned,eager,channels_last,compile]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Case:
    """One network. `shape`: channels, height, width of images, or the number of words; `steps`: of an epoch; `modes`:
    of PyTorch; `changed`: what the file (`model`) has instead of its own, by the parameter's name."""

    title: str
    batch: int
    steps: int
    shape: tuple[int, ...]
    modes: tuple[str, ...]
    model: str = ""
    changed: tuple[str, int] | None = None


CASES = {
    "lenet5": Case("LeNet-5, batch 64, Adam", 64, 100, (1, 28, 28), ("eager", "channels_last", "compile")),
    "mlp": Case("MLP 784-512-512-10, batch 64, Adam", 64, 100, (1, 28, 28), ("eager", "compile")),
    "resnet20": Case("ResNet-20, batch 32, momentum", 32, 10, (3, 32, 32), ("eager", "channels_last", "compile")),
    "transformer": Case("transformer, 28 steps, batch 64, Adam", 64, 100, (1, 28, 28), ("eager", "compile")),
    "lstm": Case("LSTM of 64 units, 28 steps, batch 64, Adam", 64, 100, (1, 28, 28), ("eager", "compile")),
    "lstm256": Case(
        "LSTM of 256 units, 28 steps, batch 64, Adam", 64, 50, (1, 28, 28), ("eager", "compile"), "lstm", ("units", 256)
    ),
    "gpt8": Case("GPT-2 of 2 blocks, batch 8, Adam", 8, 4, (128,), ("eager", "compile"), "gpt", ("batch", 8)),
    "gpt16": Case("GPT-2 of 2 blocks, batch 16, Adam", 16, 4, (128,), ("eager", "compile"), "gpt", ("batch", 16)),
}
CONTESTANTS = "netloom,tuned,eager,channels_last,compile"


def make_data(path: Path, case: Case) -> None:
    """images uint8 (N, channels, height, width), labels int32 (N,): a pattern for each class, and noise; or words and
    the ones after them, int32 (N, words)."""
    random = np.random.default_rng(1)
    count = case.batch * case.steps
    path.parent.mkdir(parents=True, exist_ok=True)
    if len(case.shape) == 1:
        words = random.integers(0, 256, (count, case.shape[0] + 1), dtype=np.int32)
        np.savez(path, words=words[:, :-1], next=words[:, 1:])
        return
    channels, height, width = case.shape
    patterns = np.kron(random.random((10, channels, height // 4, width // 4)), np.ones((4, 4)))
    labels = random.integers(0, 10, count, dtype=np.int32)
    images = 0.5 * patterns[labels] + 0.5 * random.random((count, *case.shape))
    np.savez(path, images=(255 * images).astype(np.uint8), labels=labels)


def prepare_netloom(name: str, case: Case, data: Path, epochs: int, tuned: bool) -> Callable[[], dict[str, float]]:
    folder = WORK / f"{name}-{'tuned' if tuned else 'netloom'}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(data, folder / ("images.npz" if len(case.shape) > 1 else "words.npz"))
    text = (HERE / "models" / f"{case.model or name}.yaml").read_text(encoding="utf-8")
    if case.changed:
        parameter, value = case.changed
        text, found = re.subn(rf"(?m)^(  {parameter}: \{{value: )\d+", rf"\g<1>{value}", text)
        assert found == 1, f"{case.model}.yaml does not look as this script expects"
    environment = {"NETLOOM_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    for part, length in {"short": 1, "long": 1 + epochs}.items():
        changed, count = re.subn(r"(?m)^(  epochs:).*$", rf"\1 {length}", text)
        assert count == 1, f"{name}.yaml does not look as this script expects"
        (folder / f"{part}.yaml").write_text(changed, encoding="utf-8")
        if tuned:
            execute([*netloom(), "tune", f"{part}.yaml", "--quiet"], cwd=folder, env=environment)

    def train(part: str) -> tuple[float, float]:
        """CPU seconds of a whole run, and the loss of its last epoch."""
        shutil.rmtree(folder / "runs", ignore_errors=True)
        done = execute([*netloom(), "run", f"{part}.yaml", "--quiet"], cwd=folder, env=environment)
        (run,) = (folder / "runs").iterdir()
        last = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        return done.cpu_seconds, json.loads(last)["loss"]

    def measure() -> dict[str, float]:
        short, _ = train("short")
        long, loss = train("long")
        return {"cpu_ms_per_step": 1000 * (long - short) / (epochs * case.steps), "last_loss": loss}

    train("short")  # builds, and makes what a phase of a certain length needs
    train("long")
    return measure


def measure_torch(python: Path, name: str, mode: str, data: Path, steps: int) -> dict[str, float]:
    script = HERE / "peers" / "training_torch.py"
    return execute([python, script, name, mode, data, str(CASES[name].batch), str(steps)]).last_json()


def run_case(name: str, epochs: int, count: int, only: set[str]) -> None:
    case = CASES[name]
    data = WORK / f"{name}.npz"
    make_data(data, case)
    contestants: dict[str, Callable[[], dict[str, float]]] = {}
    for ours in ("netloom", "tuned"):
        if ours in only:
            contestants[ours] = prepare_netloom(name, case, data, epochs, ours == "tuned")
    for mode in case.modes:
        if mode in only and (python := peer_python("torch")):
            contestants[mode] = partial(measure_torch, python, name, mode, data, epochs * case.steps)
    results = rounds(contestants, count)
    print(f"{case.title}, {count} rounds, one thread")
    ratios = compare(results, "cpu_ms_per_step")
    table(["last_loss", "median"], [[n, median(r, "last_loss")] for n, r in results.items()])
    write_results(name, {"batch": case.batch, "rounds": results, "ratios": ratios})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument(
        "--epochs", type=int, default=4, help="epochs to measure (of 100 steps; ResNet-20: 10, lstm256: 50, gpt: 4)"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=CONTESTANTS, help="contestants")
    arguments = parser.parse_args()
    for name in arguments.cases.split(","):
        run_case(name, arguments.epochs, arguments.rounds, set(arguments.only.split(",")))


if __name__ == "__main__":
    main()
