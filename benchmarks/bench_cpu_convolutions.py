"""Claim: each of the layers L1 to L5 of convnet-benchmarks (Chintala 2014) at batch 16 takes at most 1.05 times
oneDNN's time in each direction, on one thread; L2 and L3, whose windows are large, less; gradients of depthwise and 1x1
convolutions at most half of it, or at most 0.9 of it where oneDNN is above half of what the machine can do.

Measured: CPU milliseconds of one contraction by the strategy of the rules, and of PyTorch, which computes convolutions
with oneDNN; in turn, medians over the rounds. Shares are those of the direct algorithm's multiplications in what the
machine can do, which a loop of them in registers says in the same run. --all: every candidate of the tuner, each beside
the best of them. --points: convolutions of one pixel of many sizes, for which lanes or rows are taken by the batch.

Usage: bench_cpu_convolutions.py [--rounds 3] [--only NAME,...] [--points [SIZES]] [--all] [--ours]
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import statistics
import sys
import tempfile
import time
from math import nan, prod
from pathlib import Path

import numpy as np
from common import HERE, ROOT, execute, peer_python, processor, table, write_results

sys.path.insert(0, str(ROOT))

from backends.cpu.backend import LANES, CpuBackend
from backends.cpu.run.load import CpuInstance
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.level2.program import Order
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.strategies import layout
from compiler.strategies.choice import Choice
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import identity, ways
from compiler.tune.measure import alone, phase_of
from compiler.tune.sites import Site
from tests.cpu.contractions import Conv, conv, gradient

LAYERS = {
    "L1": Conv(16, 3, 96, 128, 128, (11, 11)),
    "L2": Conv(16, 64, 128, 64, 64, (9, 9)),
    "L3": Conv(16, 128, 128, 32, 32, (9, 9)),
    "L4": Conv(16, 128, 128, 16, 16, (7, 7)),
    "L5": Conv(16, 384, 384, 13, 13, (3, 3)),
    "depthwise": Conv(16, 128, 128, 28, 28, (3, 3), pad=1, groups=128),
    "1x1": Conv(16, 256, 128, 28, 28, (1, 1)),
}
SIZES = """
    64-64x56 64-256x56 256-64x56 512-128x28 128-512x28 512-512x7 256-256x14b32 256-128x28b1 512-512x7b1 128-512x14b3
    128-128x28b8 17-33x13b20 100-300x9b32 256-512x28s2 256-512x28b1s2 96-80x15b5s2 100-300x15b32s3"""
"""Channels in and out, rows and columns; the batch, 16 if it is not said, and the step."""


def point(size: str) -> Conv:
    """The convolution of one pixel of that size."""
    found = re.fullmatch(r"(\d+)-(\d+)x(\d+)(?:b(\d+))?(?:s(\d+))?", size)
    assert found, size
    channels, filters, rows, batch, step = (int(x or 0) for x in found.groups())
    return Conv(batch or 16, channels, filters, rows, rows, (1, 1), (step or 1, step or 1))


DIRECTIONS = ("forward", "to input", "to weights")


def problem(c: Conv, direction: str) -> tuple[Contract, dict[str, Tensor]]:
    forward = conv(c)
    return forward if direction == "forward" else gradient(*forward, DIRECTIONS.index(direction) - 1)


PEAK = """
typedef float v __attribute__((vector_size(WIDTH)));
float peak(long n) {
    v a[12], b = {0}, c = {0};
    for (int i = 0; i < WIDTH / 4; i++) b[i] = 0.5f, c[i] = 1;
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) a[i] = c * (float)i;
    for (; n > 0; n--) _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) a[i] = a[i] * b + c;
    _Pragma("GCC unroll 12") for (int i = 1; i < 12; i++) a[0] += a[i];
    return a[0][0];
}
"""


def peak(folder: Path) -> float:
    """Multiplications and additions in a ms of CPU time: of fused ones in registers, the median of 30 loops."""
    width = 64 if "avx512f" in processor() else 32
    (folder / "peak.c").write_text(PEAK.replace("WIDTH", str(width)), encoding="utf-8")
    binary = folder / "peak.so"
    compiler = os.environ.get("CC", "cc")
    execute(
        [compiler, "-O3", "-march=native", "-ffp-contract=fast", "-fPIC", "-shared", folder / "peak.c", "-o", binary]
    )
    loop, many = ctypes.CDLL(str(binary)).peak, 2_000_000
    loop.argtypes, loop.restype = [ctypes.c_long], ctypes.c_float

    def once() -> float:
        start = time.process_time()
        loop(many)
        return 1e3 * (time.process_time() - start)

    return many * 12 * width / 4 * 2 / statistics.median(once() for _ in range(30))


def load(
    backend: CpuBackend, node: Contract, tensors: dict[str, Tensor], choice: Choice | None, target: Capabilities
) -> CpuInstance:
    """The kernels of a choice with their arrays in place."""
    problem, structure = (f(node, tensors, target.lanes, 4, "reproducible") for f in (problem_digest, structure_digest))
    site = Site("train/y", node, tensors, target.lanes, problem, structure, (choice,))
    merged = alone([site], DType.F32, Order.REPRODUCIBLE, target)
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
        instance.run(phase_of(0, 0), 1, 1)
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def run(
    name: str, c: Conv, arguments: argparse.Namespace, backend: CpuBackend, most: float
) -> dict[str, dict[str, float]]:
    """Direction -> contestant -> median of the rounds; the rules' choice comes first. `most`: what `peak` says."""
    target = layout.row_major(backend.capabilities) if c.batch % LANES else backend.capabilities
    instances: dict[str, dict[str, CpuInstance]] = {}
    for direction in DIRECTIONS:
        node, tensors = problem(c, direction)
        found = ways(node, tensors, target.lanes, 4, target.strategies, target.device)
        taken = found if arguments.all else found[:1]
        instances[direction] = {identity(w): load(backend, node, tensors, w, target) for w in taken}
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
        share = 2 * prod(c.out) * c.batch * c.channels // c.groups * c.filters * prod(c.kernel) / most
        theirs = of.get("oneDNN", nan)
        lines = [[f"{name} {direction}: {rule}", of[rule], theirs, of[rule] / theirs, share / of[rule], share / theirs]]
        if arguments.all:
            lines += [
                [f"    {w}", t, "", t / of[best], share / t, ""] for w, t in sorted(of.items(), key=lambda x: x[1])
            ]
        table(["ms", "ours", "oneDNN", "ratio", "share", "of oneDNN"], lines)
        sys.stdout.flush()
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(LAYERS), help="layers, comma-separated")
    parser.add_argument(
        "--points", nargs="?", const=SIZES, help="convolutions of one pixel, all or these, not the layers"
    )
    parser.add_argument("--all", action="store_true", help="every candidate")
    parser.add_argument("--ours", action="store_true", help="without PyTorch")
    arguments = parser.parse_args()
    backend = CpuBackend()
    with tempfile.TemporaryDirectory() as folder:
        most = peak(Path(folder))
    print(f"{most / 1e6:.0f} GFLOP/s in registers")
    chosen = {s: point(s) for s in arguments.points.split()} if arguments.points else LAYERS
    names = list(chosen) if arguments.points else arguments.only.split(",")
    results = {name: run(name, chosen[name], arguments, backend, most) for name in names}
    write_results("cpu_convolutions", {"rounds": arguments.rounds, "milliseconds": results})


if __name__ == "__main__":
    main()
