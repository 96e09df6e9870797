"""Claim: each of the layers L1 to L5 of convnet-benchmarks (Chintala 2014) at batch 16 takes at most 1.05 times
oneDNN's time in each direction, on one thread; L2 and L3, whose windows are large, less; gradients of depthwise and 1x1
convolutions at most half of it.

Measured: CPU milliseconds of one contraction by the strategy of the rules, and of PyTorch, which computes convolutions
with oneDNN; in turn, medians over the rounds. --all: every candidate of the tuner, each beside the best of them.

Usage: bench_cpu_convolutions.py [--rounds 3] [--only NAME,...] [--all] [--ours]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import HERE, ROOT, execute, peer_python, table, write_results

sys.path.insert(0, str(ROOT))

from backends.cpu.backend import LANES, CpuBackend
from backends.cpu.run.load import CpuInstance
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies.choice import Choice
from compiler.strategies.variants import identity, ways
from tests.cpu.contractions import Case, Conv, conv, gradient, program

LAYERS = {
    "L1": Conv(16, 3, 96, 128, 128, (11, 11)),
    "L2": Conv(16, 64, 128, 64, 64, (9, 9)),
    "L3": Conv(16, 128, 128, 32, 32, (9, 9)),
    "L4": Conv(16, 128, 128, 16, 16, (7, 7)),
    "L5": Conv(16, 384, 384, 13, 13, (3, 3)),
    "depthwise": Conv(16, 128, 128, 28, 28, (3, 3), pad=1, groups=128),
    "1x1": Conv(16, 256, 128, 28, 28, (1, 1)),
}
DIRECTIONS = ("forward", "to input", "to weights")


def problem(c: Conv, direction: str) -> tuple[Contract, dict[str, Tensor]]:
    forward = conv(c)
    return forward if direction == "forward" else gradient(*forward, DIRECTIONS.index(direction) - 1)


def load(backend: CpuBackend, node: Contract, tensors: dict[str, Tensor], choice: Choice | None) -> CpuInstance:
    """The kernel with its arrays in place."""
    merged = merge(program([Case(node, tensors, choice)], DType.F32))
    with tempfile.TemporaryDirectory() as folder:
        instance = backend.load(backend.build(merged, Path(folder), {}), merged, 1)
    random = np.random.default_rng(1)
    for array in merged.arrays:
        instance.write(array.name, random.standard_normal(array.physical_size))
    return instance


def measure(instance: CpuInstance, seconds: float = 0.2) -> float:
    """CPU milliseconds of one call: the median of two at least."""
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        start = time.process_time()
        instance.run("train", 1, 1)
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def run(name: str, c: Conv, arguments: argparse.Namespace, backend: CpuBackend) -> dict[str, dict[str, float]]:
    """Direction -> contestant -> median of the rounds; the rules' choice comes first."""
    instances: dict[str, dict[str, CpuInstance]] = {}
    for direction in DIRECTIONS:
        node, tensors = problem(c, direction)
        found = ways(node, tensors, LANES, 4, backend.capabilities.strategies, backend.capabilities.device)
        emitted = [w for w in found if w is not None and w.strategy in backend.capabilities.strategies]  # not exchanged
        taken = emitted if arguments.all else found[:1]
        instances[direction] = {identity(w): load(backend, node, tensors, w) for w in taken}
    times: dict[str, dict[str, list[float]]] = {d: {} for d in DIRECTIONS}
    sizes = (c.batch, c.channels, c.rows, c.cols, c.filters, c.kernel[0], c.pad, c.stride[0], c.groups)
    python = None if arguments.ours else peer_python("torch")
    for _ in range(arguments.rounds):
        for direction, ours in instances.items():
            for way, instance in ours.items():
                times[direction].setdefault(way, []).append(measure(instance))
        if python is not None:
            for direction, value in (
                execute([python, HERE / "peers" / "convolutions_torch.py", *map(str, sizes)]).last_json().items()
            ):
                times[direction].setdefault("oneDNN", []).append(value)
    for ours in instances.values():
        for instance in ours.values():
            instance.close()
    medians = {d: {w: statistics.median(t) for w, t in of.items()} for d, of in times.items()}
    for direction, of in medians.items():
        rule = next(iter(of))
        best = min((w for w in of if w != "oneDNN"), key=of.__getitem__)
        rows = [[f"{name} {direction}: {rule}", of[rule], of.get("oneDNN", 0.0), of[rule] / of.get("oneDNN", of[rule])]]
        if arguments.all:
            rows += [[f"    {w}", t, "", t / of[best]] for w, t in sorted(of.items(), key=lambda x: x[1])]
        table(["ms", "ours", "oneDNN", "ratio"], rows)
        sys.stdout.flush()
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(LAYERS), help="layers, comma-separated")
    parser.add_argument("--all", action="store_true", help="every candidate")
    parser.add_argument("--ours", action="store_true", help="without PyTorch")
    arguments = parser.parse_args()
    backend = CpuBackend()
    results = {name: run(name, LAYERS[name], arguments, backend) for name in arguments.only.split(",")}
    write_results("cpu_convolutions", {"rounds": arguments.rounds, "milliseconds": results})


if __name__ == "__main__":
    main()
