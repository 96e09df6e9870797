"""What benchmarks of training steps share, on a GPU or on one thread of a core: one contestant after the other, each in
a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, ONE_THREAD, ROOT, WORK, Plan, peer_python, step_times, table, write_results

sys.path.insert(0, str(ROOT))
from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.space import Role
from compiler.passes.pipeline.lower import lower

EPOCH = 20
"""Batches of the data set."""
Contestant = Callable[[int], float]
CORE_BATCHES = (8, 32)
"""On one thread of a core."""

PEERS = HERE / "peers"
MAKERS = ("eager", "graph", "netloom")
ON_CORE = ("eager", "netloom", "channels_last")
"""Of PyTorch as it comes, Netloom, and PyTorch with channels last, which only who asks for it gets."""


@dataclass(frozen=True)
class Subject:
    """What is trained. `make_data`: (folder, batch) -> samples (uint8 ones are divided by 255) and labels; `model`:
    (folder, batch) -> the model that reads them there; `torch_model`: () -> (module, captured -> optimizer) of PyTorch;
    `contestants`: of MAKERS, and "launches", Netloom without chains; `precision`: of what is printed; `network`: its
    name in peers/networks_torch.py, which trains it on a core."""

    name: str
    title: str
    batches: tuple[int, ...]
    make_data: Callable[[Path, int], tuple[np.ndarray, np.ndarray]]
    model: Callable[[Path, int], Model]
    torch_model: Callable[[], tuple[Any, Callable[[bool], Any]]]
    contestants: tuple[str, ...] = MAKERS
    precision: str = "float32"
    network: str = ""


def model_of_benchmarks(name: str, folder: Path, batch: int) -> Model:
    """The model in benchmarks/models with this batch size, over data in `folder`."""
    text = (HERE / "models" / f"{name}.yaml").read_text(encoding="utf-8")
    settings = {"batch": str(batch)} if re.search("(?m)^  batch: batch$", text) else {}
    changed, count = (text, 1) if settings else re.subn(r"(?m)^(  batch:).*$", rf"\1 {batch}", text)
    assert count == 1, f"{name}.yaml does not look as this script expects"
    (folder / f"{name}.yaml").write_text(changed, encoding="utf-8")
    return load_model(folder / f"{name}.yaml", settings)


def netloom(
    model: Model, folder: Path, batch: int, chains: bool, kernels: bool, core: bool = False
) -> tuple[Contestant, Callable[[], float]]:
    """(run steps and wait, last loss). `core`: on one thread of it."""
    backend: Any = CpuBackend() if core else CudaBackend(chains=chains)
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

    run(2 if core else 10)
    phase = next(p for p in program.phases if p.name == "train")
    plan = phase.launches if core else [c for x in instance._prepared.plans["train"].launches for c in x.calls]
    launches = len(plan)
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


def contest(subject: Subject, name: str, batch: int, plan: Plan, kernels: bool) -> dict[str, Any]:
    """The times of one contestant, in us per step, and its last loss."""
    folder = made(subject, batch, plan.core)
    if name in ("netloom", "launches"):
        run, loss = netloom(subject.model(folder, batch), folder, batch, name == "netloom", kernels, plan.core)
    else:
        sys.path.insert(0, str(PEERS))
        from steps_torch import torch_steps

        run, loss = torch_steps(*subject.torch_model(), *subject.make_data(folder, batch), batch, name == "graph")
    return {**step_times(run, plan), "last_loss": loss()}


def made(subject: Subject, batch: int, core: bool) -> Path:
    """The folder of a subject's data, which is made."""
    folder = WORK / f"{'cpu' if core else 'gpu'}-{subject.name}-{batch}"
    folder.mkdir(parents=True, exist_ok=True)
    subject.make_data(folder, batch)
    return folder


def command_of(script: str, subject: Subject, name: str, batch: int, plan: Plan) -> list[str] | None:
    """Of the process of a contestant; None where its environment was not made."""
    if plan.core and name != "netloom":
        python = peer_python("torch")
        words = [subject.network, name, made(subject, batch, True), batch, *plan.words()]
        return [str(w) for w in (python, PEERS / "networks_torch.py", *words)] if python else None
    which = ["--one", name, "--subjects", subject.name, "--batches", str(batch)]
    which += ["--target", "cpu"] if plan.core else []
    return [sys.executable, script, *which, "--steps", str(plan.steps), "--rounds", str(plan.rounds)]


def main(subjects: Sequence[Subject], description: str, script: str, steps: int) -> None:
    """`script`: the file that calls this; it is run again for each contestant."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--target", choices=("cuda", "cpu"), default="cuda", help="cpu: one thread of a core")
    parser.add_argument("--batches", help="instead of those of each subject; on a core 8,32")
    parser.add_argument("--steps", type=int, default=steps, help="of a round; on a core those of a second at most")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=1, help="processes of each contestant, in turn")
    parser.add_argument("--only", help="contestants")
    parser.add_argument("--kernels", action="store_true", help="also time each of Netloom's kernels, on a GPU")
    parser.add_argument("--subjects", default="", help="by name; on a core none in mixed precision")
    parser.add_argument("--one", help="this contestant in this process, for the first subject and batch size")
    arguments = parser.parse_args()
    if arguments.kernels and arguments.target == "cpu":
        parser.error("kernels are timed on a GPU alone")
    plan = Plan(arguments.steps, arguments.rounds, arguments.target == "cpu")
    known = {s.name: s for s in subjects if not plan.core or s.network}
    if unknown := [name for name in arguments.subjects.split(",") if name and name not in known]:
        parser.error(f"no subjects for {arguments.target}: {', '.join(unknown)}")
    contestants = ON_CORE[:2] if plan.core else None
    if plan.core and arguments.only and not set(arguments.only.split(",")) <= set(ON_CORE):
        parser.error(f"on a core contestants are {', '.join(ON_CORE)}")
    chosen = [known[name] for name in (arguments.subjects or ",".join(known)).split(",")]
    given = [int(b) for b in arguments.batches.split(",")] if arguments.batches else CORE_BATCHES * plan.core
    if arguments.one:
        print(json.dumps(contest(chosen[0], arguments.one, given[0], plan, arguments.kernels)))
        return
    results: dict[str, Any] = {}
    for subject in chosen:
        for batch in given or subject.batches:
            names = arguments.only.split(",") if arguments.only else contestants or subject.contestants
            found = compared(script, subject, names, batch, plan, arguments.runs, arguments.kernels)
            results[f"{subject.name}, batch {batch}"] = found
    record = {"subjects": results, "steps": plan.steps, "target": arguments.target}
    write_results(Path(script).stem.removeprefix("bench_") + "_cpu" * plan.core, record)


def compared(
    script: str, subject: Subject, names: Iterable[str], batch: int, plan: Plan, runs: int, kernels: bool
) -> dict[str, list[dict[str, Any]]]:
    """The results of all runs by contestant, whose times are printed."""
    found: dict[str, list[dict[str, Any]]] = {}
    commands = {name: command_of(script, subject, name, batch, plan) for name in names}
    for _ in range(runs):
        for name, command in commands.items():
            if command is None:
                continue
            more = ["--kernels"] if kernels else []
            done = subprocess.run(
                [*command, *more], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **ONE_THREAD}
            )
            *shown, last = done.stdout.strip().splitlines()
            print(*shown, sep="\n", end="\n" * bool(shown), flush=True)
            found.setdefault(name, []).append(json.loads(last))
    print(f"{subject.title}, batch {batch}, {subject.precision}: us per step, {runs} x {plan.rounds} rounds")
    rows = []
    for name, results in found.items():
        wall, cpu = ([t for r in results for t in r[key]] for key in ("us_per_step", "cpu_us_per_step"))
        losses = results[-1]["last_loss"]
        rows.append([name, statistics.median(wall), min(wall), max(wall), statistics.median(cpu), min(cpu), losses])
    table(["", "median", "least", "most", "CPU median", "least", "last loss"], rows)
    return found
