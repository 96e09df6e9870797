"""What the GPU benchmarks of training share: one contestant after the other, each in a process of its own."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.space import Role
from compiler.passes.pipeline.lower import lower

EPOCH = 20
"""Batches of the data set."""
Contestant = Callable[[int], float]


MAKERS = ("eager", "graph", "netloom")


@dataclass(frozen=True)
class Subject:
    """What is trained. `make_data`: (folder, batch) -> samples (uint8 ones are divided by 255) and labels; `model`:
    (folder, batch) -> the model that reads them there; `torch_model`: () -> (module, captured -> optimizer) of PyTorch;
    `contestants`: of MAKERS, and "launches", Netloom without chains; `precision`: of what is printed."""

    name: str
    title: str
    batches: tuple[int, ...]
    make_data: Callable[[Path, int], tuple[np.ndarray, np.ndarray]]
    model: Callable[[Path, int], Model]
    torch_model: Callable[[], tuple[Any, Callable[[bool], Any]]]
    contestants: tuple[str, ...] = MAKERS
    precision: str = "float32"


def model_of_benchmarks(name: str, folder: Path, batch: int) -> Model:
    """The model in benchmarks/models with this batch size, over data in `folder`."""
    text = (HERE / "models" / f"{name}.yaml").read_text(encoding="utf-8")
    changed, count = re.subn(r"(?m)^(  batch:).*$", rf"\1 {batch}", text)
    assert count == 1, f"{name}.yaml does not look as this script expects"
    (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
    return load_model(folder / f"{name}.yaml", {})


def netloom(
    model: Model, folder: Path, batch: int, chains: bool, kernels: bool
) -> tuple[Contestant, Callable[[], float]]:
    """(run steps and wait, last loss)."""
    backend = CudaBackend(chains=chains)
    program = lower(model, backend.capabilities).merged
    begin = time.perf_counter()
    artifact = backend.build(program, folder / "build", {})
    build = time.perf_counter() - begin
    instance = backend.load(artifact, program, 1)
    shape = next(a.shape for a in program.arrays if a.name == "train.order")
    order = np.full(shape, -1, np.int32)
    order[:, :batch] = np.random.default_rng(2).permutation(len(order) * batch).reshape(-1, batch)
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
    launches = sum(len(x.calls) for x in instance._prepared.plans["train"].launches)
    compiled = f"{artifact.compile_seconds:.2f} CPU s of compiling"
    name = "netloom" if chains else "netloom without chains"
    print(f"{name}, batch {batch}: built in {build:.2f} s, {compiled}, {launches} launches", flush=True)
    if kernels:
        kept = {a.name: instance.read(a.name) for a in program.arrays if a.role in (Role.STATE, Role.WEIGHT)}
        times_of_kernels(instance)
        for name_of_array, values in kept.items():
            instance.write(name_of_array, values)
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
                        device.launch(call.function, call.grid, call.block, call.arguments(0), shared=call.shared)
                    end.record(device.stream)
                    end.synchronize()
                code = device._functions[call.function]
                used = f"{call.grid} blocks, {code.num_regs} registers, {code.local_size_bytes} bytes of stack"
                rows.append((start.time_till(end) * 50, call.function, call.label[:50], used))
    for us, *what in rows:
        print(f"{us:8.2f} us ", *what)
    print(f"{sum(r[0] for r in rows):8.2f} us  in {len(rows)} calls", flush=True)


def torch_steps(
    subject: Subject, samples: np.ndarray, labels: np.ndarray, batch: int, captured: bool
) -> tuple[Contestant, Any]:
    """PyTorch with everything on the device; `captured`: a step is one CUDA graph."""
    import torch
    from torch import nn

    torch.manual_seed(1)
    device = torch.device("cuda")
    x = torch.from_numpy(samples.astype(np.float32) / (255 if samples.dtype == np.uint8 else 1)).to(device)
    y = torch.from_numpy(labels.astype(np.int64)).to(device)
    model, make_optimizer = subject.torch_model()
    optimizer = make_optimizer(captured)
    loss_of = nn.CrossEntropyLoss()
    order = torch.randperm(len(x), device=device).reshape(-1, batch)
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
            chosen.copy_(order[done % len(order)])
            once()
            done += 1
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run, lambda: float(last)


def contest(subject: Subject, name: str, batch: int, steps: int, rounds: int, kernels: bool) -> dict[str, Any]:
    """The times of one contestant, in us per step, and its last loss."""
    folder = WORK / f"gpu-{subject.name}-{batch}"
    folder.mkdir(parents=True, exist_ok=True)
    samples, labels = subject.make_data(folder, batch)
    if name in ("netloom", "launches"):
        run, loss = netloom(subject.model(folder, batch), folder, batch, name == "netloom", kernels)
    else:
        run, loss = torch_steps(subject, samples, labels, batch, name == "graph")
    run(steps)
    times = [1e6 * run(steps) / steps for _ in range(rounds)]
    return {"us_per_step": times, "last_loss": loss()}


def main(subjects: Sequence[Subject], description: str, script: str, steps: int) -> None:
    """`script`: the file that calls this; it is run again for each contestant."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--batches", help="instead of those of each subject")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="contestants")
    parser.add_argument("--kernels", action="store_true", help="also time each of Netloom's kernels")
    parser.add_argument("--subjects", default=",".join(s.name for s in subjects))
    parser.add_argument("--one", help="this contestant in this process, for the first subject and batch size")
    arguments = parser.parse_args()
    chosen = [next(s for s in subjects if s.name == name) for name in arguments.subjects.split(",")]
    given = [int(b) for b in arguments.batches.split(",")] if arguments.batches else None
    numbers = ["--steps", str(arguments.steps), "--rounds", str(arguments.rounds)]
    numbers += ["--kernels"] if arguments.kernels else []
    if arguments.one:
        batch = (given or chosen[0].batches)[0]
        result = contest(chosen[0], arguments.one, batch, arguments.steps, arguments.rounds, arguments.kernels)
        print(json.dumps(result))
        return
    results: dict[str, Any] = {}
    for subject in chosen:
        for batch in given or subject.batches:
            found: dict[str, dict[str, Any]] = {}
            for name in arguments.only.split(",") if arguments.only else subject.contestants:
                which = ["--one", name, "--subjects", subject.name, "--batches", str(batch)]
                command = [sys.executable, script, *which, *numbers]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                *shown, last = done.stdout.strip().splitlines()
                print("\n".join(shown), flush=True)
                found[name] = json.loads(last)
            print(
                f"{subject.title}, batch {batch}, {subject.precision}: us per step, "
                f"{arguments.rounds} rounds of {arguments.steps} steps"
            )
            rows = []
            for name, result in found.items():
                t = result["us_per_step"]
                rows.append([name, statistics.median(t), min(t), max(t), result["last_loss"]])
            table(["", "median", "least", "most", "last loss"], rows)
            results[f"{subject.name}, batch {batch}"] = found
    write_results(Path(script).stem.removeprefix("bench_"), {"subjects": results, "steps": arguments.steps})
