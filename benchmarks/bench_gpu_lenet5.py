"""Claim: a training step of LeNet-5 (28x28 images, Adam, float32) on one GPU is faster than PyTorch's captured CUDA
graph: at batch 64 at most 120 us, at batch 1024 at most 500 us (H200).

Measured, on one GPU, one contestant after the other, each in a process of its own: microseconds of a step (taking a
shuffled batch from data on the device, loss, gradients and the update of every weight), as the median over rounds of
`--steps` steps each, waiting for the device only at the end of a round. Netloom runs its graphs of several steps;
PyTorch runs eager and as one captured graph per step (capturable Adam). The last loss of each is printed as a check
that all of them learn.

Usage: bench_gpu_lenet5.py [--batches 64,1024] [--steps 400] [--rounds 5] [--only netloom,eager,graph] [--kernels]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))

EPOCH = 20
"""Batches of the data set."""
Contestant = Callable[[int], float]


@dataclass(frozen=True)
class Subject:
    """What is trained. `name`: of its model in benchmarks/models; `make_data`: (folder, batch) -> images and labels;
    `torch_model`: () -> (module, captured -> optimizer) of PyTorch; `script`: what runs one contestant (`--one`)."""

    name: str
    title: str
    make_data: Callable[[Path, int], tuple[np.ndarray, np.ndarray]]
    torch_model: Callable[[], tuple[Any, Callable[[bool], Any]]]
    script: str


def make_data(folder: Path, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """images.npz: uint8 (n, 1, 28, 28), int32 (n,): a pattern for each class, and noise."""
    random = np.random.default_rng(1)
    patterns = np.kron(random.random((10, 7, 7)), np.ones((4, 4)))
    labels = random.integers(0, 10, EPOCH * batch, dtype=np.int32)
    noisy = 0.5 * patterns[labels] + 0.5 * random.random((len(labels), 28, 28))
    images = (255 * noisy[:, None]).astype(np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "images.npz", images=images, labels=labels)
    return images, labels


def netloom(name: str, folder: Path, batch: int, kernels: bool) -> tuple[Contestant, Callable[[], float]]:
    """(run steps and wait, last loss)."""
    from backends.cuda.backend import CudaBackend
    from compiler.frontend.load import load_model
    from compiler.passes.pipeline import lower

    text = (HERE / "models" / f"{name}.yaml").read_text(encoding="utf-8")
    changed, count = re.subn(r"(?m)^(  batch:).*$", rf"\1 {batch}", text)
    assert count == 1, f"{name}.yaml does not look as this script expects"
    (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
    backend = CudaBackend()
    program = lower(load_model(folder / f"{name}.yaml", {}), backend.capabilities).merged
    begin = time.perf_counter()
    artifact = backend.build(program, folder / "build", {})
    build = time.perf_counter() - begin
    instance = backend.load(artifact, program, 1)
    shape = next(a.shape for a in program.arrays if a.name == "train.order")
    order = np.full(shape, -1, np.int32)
    order[:, :batch] = np.random.default_rng(2).permutation(EPOCH * batch).reshape(EPOCH, batch)
    instance.write("train.order", order)
    done = 0

    def run(steps: int) -> float:
        nonlocal done
        begin = time.perf_counter()
        left = steps
        while left > 0:
            ran = instance.run("train", done + 1, left)
            done, left = done + ran, left - ran
        return time.perf_counter() - begin

    run(10)
    launches = next(p.launches for p in program.phases if p.name == "train")
    compiled = f"{artifact.compile_seconds:.2f} CPU s of compiling"
    print(f"netloom, batch {batch}: built in {build:.2f} s, {compiled}, {len(launches)} launches", flush=True)
    if kernels:
        times_of_kernels(instance)
    loss = next(a.name for a in program.arrays if a.name == "train/loss")
    return run, lambda: float(instance.read(loss)[0])


def times_of_kernels(instance: Any) -> None:
    """Each call of a training step 20 times in a row, timed by events."""
    import pycuda.driver as cuda

    rows = []
    device = instance._device
    with device.current():
        for launch in instance._prepared.plans["train"].launches:
            for call in launch.calls:
                for _ in range(2):
                    start, end = cuda.Event(), cuda.Event()
                    start.record(device.stream)
                    for _ in range(20):
                        device.launch(call.function, call.grid, call.block, call.arguments(0))
                    end.record(device.stream)
                    end.synchronize()
                code = device._functions[call.function]
                used = f"{call.grid} blocks, {code.num_regs} registers, {code.local_size_bytes} bytes of stack"
                rows.append((start.time_till(end) * 50, call.function, call.label[:50], used))
    for us, *what in rows:
        print(f"{us:8.2f} us ", *what)
    print(f"{sum(r[0] for r in rows):8.2f} us  in {len(rows)} calls", flush=True)


def torch_lenet5() -> tuple[Any, Callable[[bool], Any]]:
    """The same network and Adam in PyTorch, on the device."""
    import torch
    from torch import nn

    features = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()]
    head = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    model = nn.Sequential(*features, nn.MaxPool2d(2), nn.Flatten(), *head).to("cuda")
    return model, lambda captured: torch.optim.Adam(model.parameters(), lr=1e-3, capturable=captured)


def torch_steps(
    subject: Subject, images: np.ndarray, labels: np.ndarray, batch: int, captured: bool
) -> tuple[Contestant, Any]:
    """PyTorch with everything on the device; `captured`: a step is one CUDA graph."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    device = torch.device("cuda")
    x = torch.from_numpy(images.astype(np.float32) / 255).to(device)
    y = torch.from_numpy(labels.astype(np.int64)).to(device)
    model, make_optimizer = subject.torch_model()
    optimizer = make_optimizer(captured)
    loss_of = nn.CrossEntropyLoss()
    order = torch.randperm(len(x), device=device).reshape(EPOCH, batch)
    chosen = order[0].clone()
    last = torch.zeros((), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x[chosen]), y[chosen])
        loss.backward()
        optimizer.step()
        last.copy_(loss.detach())

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    once = step
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        once = graph.replay
    done = 0

    def run(steps: int) -> float:
        nonlocal done
        begin = time.perf_counter()
        for _ in range(steps):
            chosen.copy_(order[done % EPOCH])
            once()
            done += 1
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run, lambda: float(last)


MAKERS = ("eager", "graph", "netloom")


def contest(subject: Subject, name: str, batch: int, steps: int, rounds: int, kernels: bool) -> dict[str, Any]:
    """The times of one contestant, in us per step, and its last loss."""
    folder = WORK / f"gpu-{subject.name}-{batch}"
    images, labels = subject.make_data(folder, batch)
    if name == "netloom":
        run, loss = netloom(subject.name, folder, batch, kernels)
    else:
        run, loss = torch_steps(subject, images, labels, batch, name == "graph")
    run(steps)
    times = [1e6 * run(steps) / steps for _ in range(rounds)]
    return {"us_per_step": times, "last_loss": loss()}


def main(subject: Subject, description: str, batches_by_default: str, steps: int) -> None:
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--batches", default=batches_by_default)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(MAKERS), help="contestants")
    parser.add_argument("--kernels", action="store_true", help="also time each of Netloom's kernels")
    parser.add_argument("--one", choices=MAKERS, help="this contestant in this process, for the first batch size")
    arguments = parser.parse_args()
    batches = [int(b) for b in arguments.batches.split(",")]
    if arguments.one:
        result = contest(subject, arguments.one, batches[0], arguments.steps, arguments.rounds, arguments.kernels)
        print(json.dumps(result))
        return
    results: dict[str, Any] = {}
    for batch in batches:
        found: dict[str, dict[str, Any]] = {}
        for name in arguments.only.split(","):
            numbers = ["--batches", str(batch), "--steps", str(arguments.steps), "--rounds", str(arguments.rounds)]
            more = ["--kernels"] if arguments.kernels else []
            command = [sys.executable, subject.script, "--one", name, *numbers, *more]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            *shown, last = done.stdout.strip().splitlines()
            print("\n".join(shown), flush=True)
            found[name] = json.loads(last)
        print(
            f"{subject.title}, batch {batch}, float32: us per step, "
            f"{arguments.rounds} rounds of {arguments.steps} steps"
        )
        rows = []
        for name, result in found.items():
            t = result["us_per_step"]
            rows.append([name, statistics.median(t), min(t), max(t), result["last_loss"]])
        table(["", "median", "least", "most", "last loss"], rows)
        results[str(batch)] = found
    write_results(f"gpu_{subject.name}", {"batches": results, "steps": arguments.steps})


if __name__ == "__main__":
    lenet5 = Subject("lenet5", "LeNet-5, Adam", make_data, torch_lenet5, __file__)
    main(lenet5, __doc__ or "", "64,1024", 400)
