"""Claim: on one GPU a prediction of ResNet-50, and of a small transformer, takes no longer than PyTorch's captured CUDA
graph of the same network, with one sample and with 32.

Each contestant runs in a process of its own, its samples on the device. Mixed precision is beside a network that is
bf16 as a whole, channels last; float32 beside PyTorch without tf32, channels apart. Outputs are compared with those of
the CPU backend first (of ResNet-50 with `--compare`). Weights are random.

Usage: bench_gpu_inference.py [--steps 200] [--rounds 5] [--only netloom,graph] [--cases resnet50:mixed:1,...]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_gpu_resnet50 import torch_resnet50
from common import ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))
from inference import weights_of, without_training

from backends.protocol import Instance
from backends.registry import backend as backend_of
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import ORDER, PHASE, Prediction, data_name, lower_predict
from compiler.passes.tensors.fold_norms import folded
from compiler.runtime.artifacts.safetensors import put_weights
from compiler.runtime.common.arrays import read_logical

CASES = tuple(
    f"{which}:{batch}" for which in ("resnet50:mixed", "resnet50:float32", "transformer:float32") for batch in (1, 32)
)
MODELS = {"resnet50": "benchmarks/resnet50", "transformer": "transformer"}
Steps = Callable[[int], float]
"""Runs so many predictions and waits; seconds."""


def predicting(target: str, name: str, precision: str, batch: int) -> tuple[Prediction, Instance]:
    """A loaded network with random weights and samples."""
    folder = WORK / f"gpu-inference-{name}-{precision}-{batch}"
    folder.mkdir(parents=True, exist_ok=True)
    model = without_training(MODELS[name], folder, precision)
    backend = backend_of(target)
    prediction = lower_predict(load_model(model), backend.capabilities, batch)
    program = prediction.lowered.merged
    begin = time.perf_counter()
    artifact = backend.build(program, folder / target, {})
    built = time.perf_counter() - begin
    instance = backend.load(artifact, program, 1)
    put_weights(instance, program, folded(weights_of(model), prediction.folds))
    random = np.random.default_rng(1)
    for item in prediction.inputs:
        samples = random.random((batch, *item.shape), np.float32)
        instance.write(data_name(item.name), samples.reshape(-1))
    instance.write(ORDER, np.arange(batch, dtype=np.int32))
    instance.run(PHASE, 1, 1)
    launches = sum(len(p.launches) for p in program.phases if p.name == PHASE)
    print(f"{target}, {name}, {precision}, batch {batch}: built in {built:.2f} s, {launches} launches", flush=True)
    return prediction, instance


def netloom(name: str, precision: str, batch: int, compare: bool) -> Steps:
    prediction, instance = predicting("cuda", name, precision, batch)
    if compare:
        by_target = []
        for made, loaded in ((prediction, instance), predicting("cpu", name, precision, batch)):
            arrays = {a.name: a for a in made.lowered.merged.arrays}
            by_target.append([read_logical(loaded, arrays[o.array]) for o in made.outputs])
        for a, b in zip(*by_target, strict=True):
            most = 1e-3 if precision == "float32" else 5e-2
            difference = float(np.linalg.norm(a - b) / np.linalg.norm(b))
            assert difference < most, f"{name}, {precision}: outputs differ from those of the CPU by {difference:.1e}"
            print(f"outputs differ from those of the CPU by {difference:.1e}", flush=True)

    def run(steps: int) -> float:
        begin, done = time.perf_counter(), 0
        while done < steps:
            done += instance.run(PHASE, 1 + done, steps - done)
        return time.perf_counter() - begin

    return run


def torch_transformer() -> Any:
    """models/transformer.yaml in PyTorch, on the device."""
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads, blocks = 32, 4, 2

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.given, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.thought = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            n, steps, _ = x.shape
            parts = self.given(self.first(x)).view(n, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(*parts.unbind(0))
            mixed = x + self.out(seen.transpose(1, 2).reshape(n, steps, width))
            y: torch.Tensor = mixed + self.thought(functional.gelu(self.wide(self.second(mixed))))
            return y

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows, self.last, self.logits = nn.Linear(8, width), nn.LayerNorm(width), nn.Linear(width, 10)
            self.positions = nn.Parameter(torch.zeros(8, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.logits(
                self.last(self.blocks(self.rows(image.view(-1, 8, 8)) + self.positions)).mean(1)
            )
            return y

    return Transformer().to("cuda")


def graph(name: str, precision: str, batch: int) -> Steps:
    """PyTorch's captured graph."""
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    model = torch_resnet50()[0] if name == "resnet50" else torch_transformer()
    model = (model.body if name == "resnet50" else model).eval()
    shape = (batch, 3, 224, 224) if name == "resnet50" else (batch, 1, 8, 8)
    x = torch.rand(shape, device="cuda")
    if precision == "mixed":
        model, x = model.to(torch.bfloat16), x.to(torch.bfloat16)
        if name == "resnet50":
            x = x.contiguous(memory_format=torch.channels_last)
    else:
        model = model.to(memory_format=torch.contiguous_format)
    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            model(x)

    def run(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            captured.replay()
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run


def contest(which: str, contestant: str, steps: int, rounds: int, compare: bool) -> list[float]:
    """Microseconds of a prediction, by round."""
    name, precision, batch = which.split(":")
    if contestant == "netloom":
        run = netloom(name, precision, int(batch), compare or name != "resnet50")
    else:
        run = graph(name, precision, int(batch))
    run(steps)
    return [1e6 * run(steps) / steps for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="netloom,graph", help="contestants")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--compare", action="store_true", help="outputs of all networks with those of the CPU")
    parser.add_argument("--one", help="this contestant in this process, for the first case")
    given = parser.parse_args()
    cases = given.cases.split(",")
    if given.one:
        print(json.dumps(contest(cases[0], given.one, given.steps, given.rounds, given.compare)))
        return
    results: dict[str, Any] = {}
    numbers = ["--steps", str(given.steps), "--rounds", str(given.rounds), *(["--compare"] if given.compare else [])]
    for case in cases:
        for contestant in given.only.split(","):
            command = [sys.executable, __file__, "--one", contestant, "--cases", case, *numbers]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            *shown, last = done.stdout.strip().splitlines()
            print("\n".join(shown), flush=True)
            results.setdefault(case, {})[contestant] = json.loads(last)
    rows = []
    for case, found in results.items():
        medians = {name: statistics.median(times) for name, times in found.items()}
        base = medians.get("graph")
        rows += [[case, n, m, f"{m / base:.2f}" if base else "-"] for n, m in medians.items()]
    table(["", "", "us", "of PyTorch's"], rows)
    write_results(Path(__file__).stem.removeprefix("bench_"), {"cases": results, "steps": given.steps})


if __name__ == "__main__":
    main()
