"""Claims: one step of Adam over the 161 arrays of ResNet-50 (25.6 million weights, float32) moves data at 80 % or more
of the machine's copy bandwidth, and a fused sigmoid(x) * tanh(y) + z over 10 million floats takes at most 1.3x the time
of x + y + z, on one thread.

Measured: CPU seconds of kernels as the CPU backend prints them, with their arrays in place, in turn with a copy of
memory (the C library's memmove, 256 MB to 256 MB). Adam reads the gradient and reads and writes the weight and two
moments: 28 bytes for each weight; a copy moves two bytes for each that it copies.

Usage: bench_updates.py [--rounds 9]
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from common import HERE, ROOT, WORK, rounds, table, write_results

sys.path.insert(0, str(ROOT))

from backends.cpu.backend import CpuBackend
from backends.cpu.run.load import CpuInstance
from compiler.core.source import NOWHERE
from compiler.expr.ast import Binary, Call, Expr, Ref
from compiler.ir.level1.graph import Map, Node, Tensor, TensorGraph, Update, Variable, Weight
from compiler.ir.level2.program import Order
from compiler.ir.space import DType
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.merge import merge
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare

COPIED = 1 << 26
ELEMENTS = 10_000_000
BYTES_PER_WEIGHT = 28


def resnet50() -> list[tuple[int, ...]]:
    """Shapes of the trained arrays of ResNet-50 (He et al. 2016, table 1): convolutions, norms, the dense layer."""
    shapes: list[tuple[int, ...]] = []

    def conv(before: int, after: int, size: int) -> None:
        shapes.extend(((after, before, size, size), (after,), (after,)))

    conv(3, 64, 7)
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for number in range(blocks):
            conv(before, width, 1)
            conv(width, width, 3)
            conv(width, 4 * width, 1)
            if number == 0:
                conv(before, 4 * width, 1)
            before = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def load(name: str, nodes: tuple[Node, ...]) -> CpuInstance:
    """A program with one phase `train` of these nodes, its arrays filled with random numbers."""
    backend = CpuBackend()
    builder = ProgramBuilder(name, DType.F32, Order.REPRODUCIBLE)
    lower_tensors(builder, (TensorGraph("train", nodes),), DataSet({}, {}, NOWHERE), backend.capabilities)
    program = merge(builder.finish())
    with tempfile.TemporaryDirectory() as folder:
        artifact = backend.build(program, Path(folder) / "build", {})
    instance = backend.load(artifact, program, 1)
    random = np.random.default_rng(1)
    for array in program.arrays:  # moments of second order are positive
        values = random.random(array.physical_size, np.float32)
        instance.write(array.name, values if array.name.endswith(".v") else values - np.float32(0.5))
    return instance


def adam() -> CpuInstance:
    """Adam as the library has it, on every array of ResNet-50."""
    data = WORK / "updates"
    data.mkdir(parents=True, exist_ok=True)
    np.savez(data / "images.npz", images=np.zeros((64, 1, 28, 28), np.uint8), labels=np.zeros(64, np.int32))
    (data / "mlp.yaml").write_text((HERE / "models" / "mlp.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    graphs = prepare(data / "mlp.yaml", Options(lock=False), Times()).lowered.tensors
    update = next(n for n in graphs[0].nodes if isinstance(n, Update))
    assert not update.reads
    nodes: list[Node] = []
    updates: list[Node] = []
    for number, shape in enumerate(resnet50()):
        weight, gradient = f"w{number}", f"g{number}"
        nodes += [Weight(Tensor(weight, shape), "zeros"), Variable(Tensor(gradient, shape), 0.0)]
        updates.append(replace(update, weight=weight, gradient=gradient))
    return load("adam", (*nodes, *updates))


def elementwise(name: str, body: Expr) -> CpuInstance:
    tensors = [Tensor(n, (ELEMENTS,)) for n in ("x", "y", "z")]
    inputs = tuple(Variable(t, 0.0) for t in tensors)
    return load(name, (*inputs, Map(Tensor("out", (ELEMENTS,)), ("x", "y", "z"), ((0,),) * 3, body)))


def timed(instance: CpuInstance, steps: int) -> dict[str, float]:
    instance.run("train", 1, 1)
    start = time.process_time()
    instance.run("train", 1, steps)
    return {"cpu_ms": 1000 * (time.process_time() - start) / steps}


def copied(source: np.ndarray, target: np.ndarray) -> dict[str, float]:
    places = target.ctypes.data, source.ctypes.data, source.nbytes
    ctypes.memmove(*places)
    start = time.process_time()
    for _ in range(4):
        ctypes.memmove(*places)
    seconds = (time.process_time() - start) / 4
    return {"cpu_ms": 1000 * seconds, "gb_per_s": 2e-9 * source.nbytes / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    shapes = resnet50()
    weights = sum(prod(s) for s in shapes)
    assert len(shapes) == 161, len(shapes)
    x, y, z = (Ref(f"x{k}") for k in range(3))
    fused = Binary("+", Binary("*", Call("sigmoid", (x,)), Call("tanh", (y,))), z)
    plain = Binary("+", Binary("+", x, y), z)
    contestants: dict[str, Callable[[], dict[str, float]]] = {
        "copy": partial(copied, np.ones(COPIED, np.float32), np.zeros(COPIED, np.float32)),
        "adam": partial(timed, adam(), 2),
        "x + y + z": partial(timed, elementwise("plain", plain), 10),
        "sigmoid(x) * tanh(y) + z": partial(timed, elementwise("fused", fused), 10),
    }
    results = rounds(contestants, arguments.rounds)
    moved = 1e-6 * BYTES_PER_WEIGHT * weights
    shares = [moved / a["cpu_ms"] / c["gb_per_s"] for a, c in zip(results["adam"], results["copy"], strict=True)]
    ratios = [
        f["cpu_ms"] / p["cpu_ms"]
        for f, p in zip(results["sigmoid(x) * tanh(y) + z"], results["x + y + z"], strict=True)
    ]
    print(f"Adam over {len(shapes)} arrays, {weights / 1e6:.1f} million weights; {ELEMENTS / 1e6:.0f} million floats")
    table(["cpu_ms", "median", "min"], [
        [n, statistics.median(v["cpu_ms"] for v in r), min(v["cpu_ms"] for v in r)] for n, r in results.items()
    ])  # fmt: skip
    print(f"Adam moves data at {100 * statistics.median(shares):.0f} % of the copy bandwidth")
    print(f"sigmoid(x) * tanh(y) + z takes {statistics.median(ratios):.2f}x the time of x + y + z")
    write_results(
        "updates",
        {
            "weights": weights,
            "elements": ELEMENTS,
            "rounds": results,
            "share_of_copy_bandwidth": statistics.median(shares),
            "fused_to_plain": statistics.median(ratios),
        },
    )


if __name__ == "__main__":
    main()
