"""Claim: eight convolutions (three configurations of a document about Theano's meta-optimizer, and convnet-benchmarks'
L1 to L5), forwards and towards input and weights, take at most 10 ms together on one H200 in the float32 class, each
with an error no larger than that of a float32 sum in order.

Measured: for each of the 24 every candidate that the rules expect to be at most `--within` times slower than the best:
us (median of `--rounds`), and its relative error (Frobenius) against float64 on some samples or channels, beside that
of float32 sums in order. With PyTorch: cuDNN in float32 in its benchmark mode, and the best of its three algorithms for
each (a forward pass is also the gradient of another convolution's input, or weights, and so on; what is transposed or
turned beforehand is not counted). cuDNN runs in a process of its own for each configuration.

Usage: bench_gpu_convolutions.py [--only L2,L5] [--rounds 7] [--within 4] [--kernels] [--no-cudnn | --no-exchanged]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
from common import ROOT, WORK, table, write_results

sys.path.insert(0, str(ROOT))

from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.cudnn import STRATEGIES as CUDNN
from backends.protocol import Instance
from backends.stopwatch import seconds
from compiler.core.source import NOWHERE
from compiler.ir.level0.model import Numerics
from compiler.ir.level1.graph import Contract, Tensor, TensorGraph, Variable
from compiler.ir.level2.program import Array, Order
from compiler.ir.space import DType, Role
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.layers.load_data import DataSet
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.merge import merge
from compiler.strategies.choice import Choice
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pin, path_of, problem_digest
from compiler.strategies.variants import identity, ways
from tests.cpu.contractions import Conv, conv, gradient

Reals = npt.NDArray[np.float32]
CONFIGURATIONS = {
    "A": (64, 3, 64, 64, 128, 7, 7),
    "B": (256, 32, 80, 15, 64, 5, 5),
    "C": (256, 128, 12, 36, 64, 3, 6),
    "L1": (128, 3, 128, 128, 96, 11, 11),
    "L2": (128, 64, 64, 64, 128, 9, 9),
    "L3": (128, 128, 32, 32, 128, 9, 9),
    "L4": (128, 128, 16, 16, 128, 7, 7),
    "L5": (128, 384, 13, 13, 384, 3, 3),
}
"""Batch, channels, rows, columns, filters, window; stride 1, no padding."""
DIRECTIONS = ("forward", "input", "weights")
SAMPLES = 8
"""Samples (or channels, of the gradient of the weights) that are compared with float64, at the beginning."""
SUMS = 64
"""Outputs that are summed in order."""


@dataclass(frozen=True)
class Problem:
    """One of the 24: a contraction of the arrays `x`, `w`, `d` of its configuration, and its candidates."""

    name: str
    direction: str
    node: Contract
    tensors: Mapping[str, Tensor]
    candidates: tuple[Choice, ...]

    def phase(self, choice: Choice) -> str:
        return f"{self.name} {self.direction} {self.candidates.index(choice)}"


def problems(names: list[str], within: float, available: frozenset[str]) -> list[Problem]:
    found = []
    for name in names:
        n, c, h, w, k, r, s = CONFIGURATIONS[name]
        forward = conv(Conv(n, c, k, h, w, (r, s)))
        for number, (node, tensors) in enumerate((forward, gradient(*forward, 0), gradient(*forward, 1))):
            own = {t: replace(x, name=f"{name}.{t}") for t, x in tensors.items() if t != "y"}
            node = replace(node, ins=tuple(f"{name}.{t}" for t in node.ins))
            used = {x.name: x for x in own.values()}
            every = [x for x in ways(node, used, 0, 4, available) if x is not None and x.microseconds]
            limit = within * min(x.microseconds for x in every)
            chosen = tuple(x for x in every if x.microseconds <= limit)
            found.append(Problem(name, DIRECTIONS[number], node, used, chosen))
    return found


def program(found: list[Problem], backend: CudaBackend) -> Any:
    """A phase for every candidate of every problem."""
    builder = ProgramBuilder("convolutions", DType.F32, Order.REPRODUCIBLE)
    tensors = {t.name: t for p in found for t in p.tensors.values()}
    for t in tensors.values():
        builder.array(Array(t.name, DType.F32, t.shape, Role.STATE))
    graphs, pins = [], {}
    for p in found:
        inputs = tuple(Variable(t, 0.0) for t in p.tensors.values())
        for c in p.candidates:
            graphs.append(TensorGraph(p.phase(c), (*inputs, p.node)))
            problem = problem_digest(p.node, p.tensors, 0, 4, Order.REPRODUCIBLE.value)
            pins[path_of(p.phase(c), p.node.out)] = Pin(problem, identity(c), "measuring", 0.0)
    capabilities = permitted(backend.capabilities, Numerics())
    lower_tensors(builder, tuple(graphs), DataSet({}, {}, NOWHERE), capabilities, pins)
    return merge(builder.finish())


def arrays(name: str) -> dict[str, Reals]:
    """Normal numbers, the same in each process."""
    n, c, h, w, k, r, s = CONFIGURATIONS[name]
    random = np.random.default_rng(list(CONFIGURATIONS).index(name))
    shapes = {"x": (n, c, h, w), "w": (k, c, r, s), "d": (n, k, h - r + 1, w - s + 1)}
    return {key: random.standard_normal(shape, np.float32) for key, shape in shapes.items()}


def some(direction: str, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What of a result is compared."""
    return y[:, :SAMPLES] if direction == "weights" else y[:SAMPLES]


def error(y: npt.NDArray[Any], exact: npt.NDArray[Any]) -> float:
    return float(np.linalg.norm(y.astype(np.float64) - exact) / np.linalg.norm(exact))


def in_order(direction: str, a: Mapping[str, Reals]) -> float:
    """The error of float32 sums in order, of some outputs."""
    random, found = np.random.default_rng(1), []
    x, w, d = a["x"], a["w"], a["d"]
    (n, c, h, wide), (k, _, r, s), (_, _, oh, ow) = x.shape, w.shape, d.shape
    for _ in range(SUMS if direction != "weights" else SUMS // 4):
        b, o, i = random.integers(n), random.integers(k), random.integers(c)
        if direction == "forward":
            y, z = random.integers(oh), random.integers(ow)
            left, right = x[b, :, y : y + r, z : z + s], w[o]
        elif direction == "input":
            y, z = random.integers(h), random.integers(wide)
            at = [(u, v) for u in range(r) for v in range(s) if 0 <= y - u < oh and 0 <= z - v < ow]
            left = np.stack([d[b, :, y - u, z - v] for u, v in at], 1)
            right = np.stack([w[:, i, u, v] for u, v in at], 1)
        else:
            u, v = random.integers(r), random.integers(s)
            left, right = d[:, o], x[:, i, u : u + oh, v : v + ow]
        terms = (left * right).reshape(-1)
        found.append((np.add.accumulate(terms)[-1], (left.astype(np.float64) * right).sum()))
    sums, exact = np.array(found).T
    return error(sums, exact)


# ------------------------------------------------------------------------------------------- cuDNN


def cudnn(name: str, exchanged: bool) -> None:
    """In a process of its own: exact results of some samples to a file; times and errors so far as a line of JSON."""
    import torch
    import torch.nn.functional as f

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    a = {key: torch.from_numpy(v).cuda() for key, v in arrays(name).items()}
    x, w, d = a["x"], a["w"], a["d"]
    _, _, _, _, _, r, s = CONFIGURATIONS[name]
    exact = {
        "forward": f.conv2d(x[:SAMPLES].double(), w.double()),
        "input": f.conv_transpose2d(d[:SAMPLES].double(), w.double()),
        "weights": f.conv2d(x[:, :SAMPLES].double().transpose(0, 1), d.double().transpose(0, 1)).transpose(0, 1),
    }
    np.savez(WORK / f"convolutions-{name}.npz", **{key: v.cpu().numpy() for key, v in exact.items()})

    def back(d: Any, x: Any, w: Any, padding: tuple[int, int], which: int) -> Any:
        mask = [which == 0, which == 1, False]
        y = torch.ops.aten.convolution_backward(d, x, w, None, [1, 1], list(padding), [1, 1], False, [0, 0], 1, mask)
        return y[which]

    plain: dict[str, Callable[[], Any]] = {
        "forward": lambda: f.conv2d(x, w),
        "input": lambda: back(d, x, w, (0, 0), 0),
        "weights": lambda: back(d, x, w, (0, 0), 1),
    }
    result: dict[str, dict[str, float]] = {}
    for direction, run in plain.items():
        y = run()
        near = y[:, :SAMPLES] if direction == "weights" else y[:SAMPLES]
        wrong = float((near.double() - exact[direction]).norm() / exact[direction].norm())
        del y
        result[direction] = {"us": timed(torch, run), "error": wrong}
    del exact
    print(json.dumps(result), flush=True)
    if exchanged:
        for direction, runs in others(x, w, d, (r, s), f, back).items():
            for number, make in enumerate(runs):
                try:
                    run, check = make()
                    y = plain[direction]()
                    wrong = float((check(run()) - y).norm() / y.norm())
                    del y
                    if wrong > 1e-4:  # no sum of float32 products: cuDNN takes such algorithms on some devices
                        print(name, direction, number, f"error {wrong:.1e}, not counted", file=sys.stderr)
                        continue
                    result[direction][f"other {number}"] = timed(torch, run, 3)
                    print(json.dumps(result), flush=True)
                except RuntimeError as e:  # no memory for its workspace
                    print(direction, number, str(e).splitlines()[0], file=sys.stderr)
                torch.cuda.empty_cache()


def others(x: Any, w: Any, d: Any, window: tuple[int, int], f: Any, back: Any) -> dict[str, list[Callable[[], Any]]]:
    """For each direction the other two algorithms: () -> (run, result -> as that of the direction)."""
    full = window[0] - 1, window[1] - 1
    whole = d.shape[2] - 1, d.shape[3] - 1

    def turned(t: Any) -> Any:
        return t.flip(2, 3).contiguous()

    def swapped(t: Any) -> Any:
        return t.transpose(0, 1).contiguous()

    def as_input(image: Any, weights: Any, padding: tuple[int, int], out: Any) -> Any:
        weights = swapped(turned(weights))
        like = out.new_empty(out.shape)
        return lambda: back(image, like, weights, padding, 0)

    def as_weights(image: Any, weights: Any, padding: tuple[int, int], out: Any) -> Any:
        image, weights = swapped(image), swapped(weights)
        like = out.new_empty((out.shape[1], out.shape[0], *out.shape[2:]))
        return lambda: back(weights, image, like, padding, 1)

    def same(y: Any) -> Any:
        return y

    def transposed(y: Any) -> Any:
        return y.transpose(0, 1)

    def forward(image: Any, weights: Any, padding: tuple[int, int]) -> Any:
        return lambda: f.conv2d(image, weights, padding=padding)

    return {
        "forward": [
            lambda: (as_input(x, w, full, d), same),
            lambda: (as_weights(x, w, (0, 0), d), transposed),
        ],
        "input": [
            lambda: (forward(d, swapped(turned(w)), full), same),
            lambda: (as_weights(d, swapped(turned(w)), full, x), transposed),
        ],
        "weights": [
            lambda: (forward(swapped(x), swapped(d), (0, 0)), transposed),
            lambda: (as_input(swapped(x), swapped(d), whole, swapped(w)), transposed),
        ],
    }


def timed(torch: Any, run: Callable[[], Any], rounds: int = 7) -> float:
    """Microseconds, the median of some rounds; the first call, which chooses the algorithm, does not count."""
    run()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    taken = []
    for _ in range(rounds):
        start.record()
        for _ in range(3):
            run()
        end.record()
        torch.cuda.synchronize()
        taken.append(float(1e3 * start.elapsed_time(end) / 3))
    return median(taken)


def peers(names: list[str], exchanged: bool, limit: float) -> dict[str, dict[str, dict[str, float]]]:
    """What each process has measured in `limit` seconds."""
    found = {}
    for name in names:
        command = [sys.executable, __file__, "--one", name, *([] if exchanged else ["--no-exchanged"])]
        try:
            said = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=limit).stdout
        except subprocess.TimeoutExpired as e:
            print(f"{name}: not all exchanged algorithms in {limit:.0f} s")
            said = e.stdout or b"{}"
        found[name] = json.loads(said.decode().strip().splitlines()[-1])
    return found


# ------------------------------------------------------------------------------------------- Netloom


def measure(instance: Instance, phase: str, rounds: int) -> float:
    """Microseconds, the median."""
    once = max(seconds(instance, phase, 2) / 2, 1e-7)
    steps = max(1, min(200, round(0.01 / once)))
    return median(1e6 * seconds(instance, phase, steps) / steps for _ in range(rounds))


def kernels(instance: Any, phase: str) -> str:
    """The calls of a phase, each 20 times in a row: us."""
    import pycuda.driver as cuda

    device, said = instance._device, []
    with device.current():
        for call in (c for launch in instance._prepared.plans[phase].launches for c in launch.calls):
            for _ in range(2):
                start, end = cuda.Event(), cuda.Event()
                start.record(device.stream)
                for _ in range(20):
                    device.launch(call.function, call.grid, call.block, call.arguments(0), shared=call.shared)
                end.record(device.stream)
                end.synchronize()
            said.append(f"{call.function} {start.time_till(end) * 50:.0f}")
    return ", ".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(CONFIGURATIONS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--within", type=float, default=4.0)
    parser.add_argument("--kernels", action="store_true", help="also time each kernel of the winner")
    parser.add_argument("--no-cudnn", action="store_true")
    parser.add_argument("--no-exchanged", action="store_true")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of cuDNN for a configuration")
    parser.add_argument("--one", help="cuDNN for this configuration, in this process")
    arguments = parser.parse_args()
    if arguments.one:
        cudnn(arguments.one, not arguments.no_exchanged)
        return
    WORK.mkdir(exist_ok=True)
    names = arguments.only.split(",")
    peer = {} if arguments.no_cudnn else peers(names, not arguments.no_exchanged, arguments.limit)
    backend = CudaBackend()
    available = permitted(backend.capabilities, Numerics()).strategies - CUDNN
    found = problems(names, arguments.within, available)
    whole = program(found, backend)
    artifact = backend.build(whole, WORK / "convolutions", {})
    print(f"{artifact.compile_seconds:.1f} CPU s of compiling", flush=True)
    instance = backend.load(artifact, whole, 1)
    rows, results, total = [], {}, {"netloom": 0.0, "cudnn": 0.0, "exchanged": 0.0}
    for name in names:
        a = arrays(name)
        for key, values in a.items():
            instance.write(f"{name}.{key}", values)
        file = WORK / f"convolutions-{name}.npz"
        exact = np.load(file) if not arguments.no_cudnn else None
        for p in (p for p in found if p.name == name):
            times, errors = {}, {}
            for c in p.candidates:
                instance.run(p.phase(c), 1, 1)
                y = some(p.direction, instance.read(f"{p.phase(c)}/{p.node.out.name}").reshape(p.node.out.shape))
                errors[identity(c)] = error(y, exact[p.direction]) if exact is not None else float("nan")
                times[identity(c)] = measure(instance, p.phase(c), arguments.rounds)
                taken, wrong = times[identity(c)], errors[identity(c)]
                print(f"{p.phase(c)}: {taken:.1f} us, expected {c.microseconds:.0f}, error {wrong:.1e}, {identity(c)}")
            rule, best = identity(p.candidates[0]), min(times, key=lambda w: times[w])
            if arguments.kernels:
                winner = next(c for c in p.candidates if identity(c) == best)
                print(f"{p.phase(winner)}: {kernels(instance, p.phase(winner))}")
            theirs = peer.get(name, {}).get(p.direction, {})
            plain = theirs.get("us", float("nan"))
            known = min((v for k, v in theirs.items() if k != "error"), default=float("nan"))
            own = in_order(p.direction, a)
            total["netloom"] += times[best]
            total["cudnn"] += plain
            total["exchanged"] += known
            results[f"{name} {p.direction}"] = {"us": times, "error": errors, "in order": own, "cudnn": theirs}
            numbers = times[best], times[rule], plain, known, f"{errors[best]:.1e}", f"{own:.1e}"
            rows.append([f"{name} {p.direction}", *numbers, best])
    instance.close()
    table(["", "us", "by rule", "cuDNN", "exchanged", "error", "in order", "winner"], rows)
    print(", ".join(f"{k} {v / 1000:.2f} ms" for k, v in total.items()))
    write_results(Path(__file__).stem, {"total": total, **results})


if __name__ == "__main__":
    main()
