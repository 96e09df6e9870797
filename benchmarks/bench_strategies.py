"""Claim: every contraction of LeNet-5 (batch 64, float32) runs above 80 % of the speed of its
hand-written prototype: forward passes and both gradients of the convolutions above 80 GFLOP/s,
dense layers above 50 GFLOP/s, on one thread of a 3.7 GHz AVX-512 core (118 GFLOP/s at best).

Measured: CPU time of one kernel as the CPU backend prints it, with its arrays in place, by strategy and
(with --nest) as the generic loop nest. Operations count products with elements that exist, so that a
gradient that also multiplies a border with zeros does not look faster than it is. Strategies that take
fewer products than the definition (winograd_conv) may show more than the core's peak.

Usage: bench_strategies.py [--rounds 15] [--only NAME,...] [--nest] [--float64]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from common import ROOT, table, write_results

sys.path.insert(0, str(ROOT))

from backends.cpu.backend import LANES, CpuBackend
from backends.cpu.run.load import CpuInstance
from compiler.expr.ast import Binary, Call, Ref
from compiler.ir.level1.graph import Contract, Map, Tensor
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from tests.cpu.contractions import Case, Conv, conv, dense, gradient, program

BATCH = 64
CONVS = {
    "conv1": Conv(BATCH, 1, 6, 28, 28, (5, 5), pad=2),
    "conv2": Conv(BATCH, 6, 16, 14, 14, (5, 5)),
    "conv64": Conv(16, 64, 64, 28, 28, (3, 3), pad=1),
    "stride2": Conv(BATCH, 16, 32, 16, 16, (3, 3), (2, 2), pad=1),
    "depthwise": Conv(BATCH, 32, 32, 16, 16, (3, 3), pad=1, groups=32),
}
DENSE = {"dense1": (BATCH, 400, 120), "dense2": (BATCH, 120, 84), "dense3": (BATCH, 84, 10)}
FUSED = ("conv1", "conv2", "dense1", "dense2")


def problems() -> dict[str, tuple[Contract, dict[str, Tensor], Map | None, float]]:
    """Name -> contraction, its tensors, its epilogue and the operations that count."""
    found: dict[str, tuple[Contract, dict[str, Tensor], Map | None, float]] = {}
    layers = {n: (conv(c), _operations(c)) for n, c in CONVS.items()}
    layers |= {n: (dense(*d), 2.0 * d[0] * d[1] * d[2]) for n, d in DENSE.items()}
    for name, ((node, tensors), count) in layers.items():
        found[f"{name} forward"] = (node, tensors, None, count)
        if name in FUSED:
            found[f"{name} forward, bias, relu"] = (*_biased(node, tensors), count)
        found[f"{name} to input"] = (*gradient(node, tensors, 0), None, count)
        found[f"{name} to weights"] = (*gradient(node, tensors, 1), None, count)
    return found


def _operations(c: Conv) -> float:
    """Products of the forward pass that do not meet the border, times two."""

    def inside(extent: int, out: int, kernel: int, stride: int) -> int:
        at = np.arange(out)[:, None] * stride + np.arange(kernel)[None] * c.dilate - c.pad
        return int(((at >= 0) & (at < extent)).sum())

    rows = inside(c.rows, c.out[0], c.kernel[0], c.stride[0])
    cols = inside(c.cols, c.out[1], c.kernel[1], c.stride[1])
    return 2.0 * c.batch * c.channels * c.filters / c.groups * rows * cols


def _biased(node: Contract, tensors: Mapping[str, Tensor]) -> tuple[Contract, dict[str, Tensor], Map]:
    body = Call("relu", (Binary("+", Ref("x0"), Ref("x1")),))
    rank = len(node.out.shape)
    bias = Tensor("b", (node.out.shape[1],))
    out = Tensor("z", node.out.shape, "real", True)
    return node, {**tensors, "b": bias}, Map(out, (node.out.name, "b"), (tuple(range(rank)), (1,)), body)


def load(
    backend: CpuBackend, node: Contract, tensors: Mapping[str, Tensor], after: Map | None, nest: bool, real: DType
) -> tuple[CpuInstance, float]:
    """The kernel with its arrays in place, and the CPU seconds that the compiler took."""
    lanes = LANES * 4 // real.bytes
    choice, reason = choose(node, tensors, lanes, real.bytes, backend.capabilities.strategies)
    if choice is None:
        raise SystemExit(f"no strategy: {reason}")
    merged = merge(program([Case(node, tensors, None if nest else choice, after)], real))
    with tempfile.TemporaryDirectory() as folder:
        artifact = backend.build(merged, Path(folder), {})
    instance = backend.load(artifact, merged, 1)
    random = np.random.default_rng(1)
    for array in merged.arrays:
        instance.write(array.name, random.standard_normal(array.physical_size))
    return instance, artifact.compile_seconds


def measure(instance: CpuInstance, seconds: float = 0.02) -> float:
    """CPU seconds of one call."""
    instance.run("train", 1, 2)
    start = time.process_time()
    instance.run("train", 1, 1)
    once = max(time.process_time() - start, 1e-6)
    count = max(1, int(seconds / once))
    start = time.process_time()
    instance.run("train", 1, count)
    return (time.process_time() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="beginnings of names, comma-separated")
    parser.add_argument("--nest", action="store_true", help="also the generic loop nest")
    parser.add_argument("--float64", action="store_true")
    arguments = parser.parse_args()
    real = DType.F64 if arguments.float64 else DType.F32
    only = tuple(arguments.only.split(","))
    backend = CpuBackend()
    kinds = ("strategy", "nest") if arguments.nest else ("strategy",)
    loaded = {}
    operations = {}
    for name, (node, tensors, after, count) in problems().items():
        if name.startswith(only):
            operations[name] = count
            for kind in kinds:
                loaded[name, kind] = load(backend, node, tensors, after, kind == "nest", real)
    times: dict[tuple[str, str], list[float]] = {key: [] for key in loaded}
    for _ in range(arguments.rounds):
        for key, (instance, _) in loaded.items():
            times[key].append(measure(instance))
    rows = []
    for (name, kind), values in times.items():
        middle = statistics.median(values)
        speed = operations[name] / middle * 1e-9
        rows.append([f"{name} ({kind})", middle * 1e6, speed, operations[name] / min(values) * 1e-9])
    table(["contraction", "us", "GFLOP/s", "best"], rows)
    write_results("strategies", {"batch": BATCH, "real": real.value, "rows": rows})


if __name__ == "__main__":
    main()
