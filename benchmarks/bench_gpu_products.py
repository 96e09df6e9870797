"""Claim: on one H200 a product of 4096 x 4096 x 4096 reaches 80 TFLOP/s with the error of a float32 sum, 350 in tf32
and 680 in bf16; a training step of a GPT-like model (6 blocks of 512, sequences of 128 words, batch 32, AdamW) takes at
most 9 ms in float32, 5 in tf32 and 3.4 in mixed precision.

Products run alone, each strategy that applies in its best tiling by estimate, against torch.matmul, both in bursts of
5 ms. Training steps run as captured graphs, against PyTorch's, which uses its fused attention and optimizer. Every
contestant has a process of its own.

Usage: bench_gpu_products.py [--steps 40] [--rounds 3] [--only CONTESTANTS] [--kernels] [--no-products | --no-model]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, WORK, table, write_results
from gpu_training import EPOCH, Contestant, model_of_benchmarks, netloom

sys.path.insert(0, str(ROOT))
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.cuda.run.backend import CudaBackend
from compiler.expr.ast import Binary, Ref
from compiler.ir.space import DType, along
from compiler.strategies import GROUPS
from compiler.strategies.choice import Choice, product
from compiler.strategies.pins import problem_digest
from compiler.strategies.variants import identity
from compiler.tune.measure import alone, phase_of
from compiler.tune.sites import Site

BATCH = 32
BURST, AT_ONCE = 0.005, 10
# rows, columns, terms; whether the row and the column operand have their terms outside
SHAPES = [(4096, 4096, 4096, False, False), (4096, 4096, 4096, False, True), (4096, 4096, 4096, True, True)]
SHAPES += [(4096, 512, 512, False, False), (4096, 2048, 512, False, False), (4096, 512, 2048, False, False)]
SHAPES += [(512, 2048, 4096, True, True), (512, 512, 4096, True, True)]
HEADS = [(32, 8, 128, 128, 64, False), (32, 8, 128, 64, 128, True)]
KINDS = ("real", "bf16")
FAST = (
    "stored_products",
    "stored_products_tf32",
    "split_products",
    "tensor_products_float32",
    "tensor_products_tf32",
    "tensor_products_bf16",
)
MODEL = {"float32": ("float32", "float32"), "tf32": ("float32", "tf32"), "mixed": ("mixed", "float32")}
CONTESTANTS = (*(f"netloom-{n}" for n in MODEL), *(f"torch-{n}" for n in MODEL))


def matrices(m: int, n: int, k: int, rows: bool, columns: bool, kind: str) -> tuple[l1.Contract, dict[str, l1.Tensor]]:
    """y[i, j] = sum over k of x[i, k] w[j, k], or of x[k, i] (`rows`), w[k, j] (`columns`)."""
    i, j, d = along("i"), along("j"), along("k")
    tensors = {
        "x": l1.Tensor("x", (k, m) if rows else (m, k), kind),
        "w": l1.Tensor("w", (k, n) if columns else (n, k), kind),
    }
    maps = ((d, i) if rows else (i, d), (d, j) if columns else (j, d))
    out = l1.Tensor("y", (m, n), kind)
    dims = (("i", m), ("j", n), ("k", k))
    return l1.Contract(out, dims, (i, j), ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))), tensors


def heads(b: int, h: int, i: int, j: int, k: int, turned: bool, kind: str) -> tuple[l1.Contract, dict[str, l1.Tensor]]:
    """The products of attention: scores[b, h, i, j] of q[b, i, h, k] and k[b, j, h, k], or (`turned`) y[b, i, h, j] of
    scores[b, h, i, k] and v[b, k, h, j]."""
    at = {d: along(d) for d in "bhijk"}
    size = {"b": b, "h": h, "i": i, "j": j, "k": k}
    walks = ("bhik", "bkhj", "bihj") if turned else ("bihk", "bjhk", "bhij")
    shapes = [tuple(size[d] for d in w) for w in walks]
    tensors = {n: l1.Tensor(n, s, kind, True) for n, s in zip("xw", shapes, strict=False)}
    out = l1.Tensor("y", shapes[2], kind, True)
    dims = tuple((d, size[d]) for d in (*walks[2], "k"))
    maps = tuple(tuple(at[d] for d in w) for w in walks[:2])
    walked = tuple(at[d] for d in walks[2])
    return l1.Contract(out, dims, walked, ("x", "w"), maps, Binary("*", Ref("x0"), Ref("x1"))), tensors


def candidates(node: l1.Contract, tensors: dict[str, l1.Tensor], every: bool) -> list[Choice]:
    """The best by estimate of each strategy on matrix units (`every`: each of their tilings), or all that there are."""
    found = product(node, tensors, 0, 4)
    ways = [(s, s.choice(found)) for s in GROUPS[-1] if s.reads(found)]
    matched = [(s, w) for s, w in ways if w is not None]
    fast = [(s, w) for s, w in matched if s.name in FAST] or matched
    chosen = [v for s, w in fast for v in (w, *(s.variants(found, w) if every else ()))]
    return list({identity(w): w for w in chosen}.values())


def measured(node: l1.Contract, tensors: dict[str, l1.Tensor], every: bool) -> dict[str, tuple[float, float]]:
    """Microseconds and relative error (Frobenius; of the first rows) by way. A program has the ways of one strategy: of
    all together a tuner leaves some out."""
    found: dict[str, tuple[float, float]] = {}
    for name, ways in groupby(candidates(node, tensors, every), key=lambda w: w.strategy):
        found |= by_strategy(node, tensors, name, tuple(ways))
    return found


def by_strategy(
    node: l1.Contract, tensors: dict[str, l1.Tensor], name: str, ways: tuple[Choice, ...]
) -> dict[str, tuple[float, float]]:
    backend = CudaBackend()
    capabilities = replace(backend.capabilities, strategies=frozenset({name}))
    digest = problem_digest(node, tensors, 0, 4, "reproducible")
    site = Site("product", node, tensors, 0, digest, digest, ways)
    program = alone([site], DType.F32, l2.Order.REPRODUCIBLE, capabilities)
    found = {}
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        instance = backend.load(backend.build(program, Path(folder), {}), program, 1)
        for name, tensor in tensors.items():
            instance.write(f"0.{name}", random.standard_normal(tensor.shape, np.float32))
        for number, way in enumerate(ways):
            phase = phase_of(0, number)
            instance.run(phase, 1, 1)
            error = wrong(
                node, {n: instance.read(f"0.{n}").reshape(t.shape) for n, t in tensors.items()}, instance, phase
            )
            once = max(instance.timed(phase, 1, 3) / 3, 1e-6)
            times = bursts(partial(instance.timed, phase, 1), once)
            found[identity(way)] = (1e6 * times, error)
        instance.close()
    return found


def bursts(timed: Callable[[int], float], once: float) -> float:
    """Seconds of one, the median of five bursts of BURST seconds with a pause before each: in longer ones the card
    lowers its clock, as products take more power than it may."""
    steps = max(1, round(BURST / once / AT_ONCE)) * AT_ONCE
    times = []
    for _ in range(5):
        time.sleep(4 * BURST)
        times.append(timed(steps) / steps)
    return statistics.median(times)


def wrong(node: l1.Contract, given: dict[str, np.ndarray], instance: Any, phase: str) -> float:
    """The relative error of the first 64 rows of a product of matrices; NaN of others."""
    if len(node.out.shape) != 2:
        return float("nan")
    x = given["x"].T if node.in_maps[0][0] != node.out_map[0] else given["x"]
    w = given["w"].T if node.in_maps[1][0] != node.out_map[1] else given["w"]
    exact = x[:64].astype(np.float64) @ w.astype(np.float64).T
    result = instance.read(f"{phase}/y").reshape(node.out.shape)[:64]
    return float(np.linalg.norm(result - exact) / np.linalg.norm(exact))


def torch_products() -> dict[str, float]:
    """TFLOP/s of torch.matmul by shape and kind."""
    import torch

    found = {}
    for m, n, k, rows, columns in SHAPES:
        for kind in ("float32", "tf32", "bf16"):
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            dtype = torch.bfloat16 if kind == "bf16" else torch.float32
            x = torch.randn((k, m) if rows else (m, k), device="cuda", dtype=dtype)
            w = torch.randn((k, n) if columns else (n, k), device="cuda", dtype=dtype)
            a, b = x.T if rows else x, w if columns else w.T
            out = torch.empty((m, n), device="cuda", dtype=dtype)
            graph = torch.cuda.CUDAGraph()
            torch.matmul(a, b, out=out)
            with torch.cuda.graph(graph):
                for _ in range(AT_ONCE):
                    torch.matmul(a, b, out=out)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

            def timed(
                steps: int, graph: Any = graph, begin: torch.cuda.Event = begin, end: torch.cuda.Event = end
            ) -> float:
                begin.record()
                for _ in range(steps // AT_ONCE):
                    graph.replay()
                end.record()
                torch.cuda.synchronize()
                return float(begin.elapsed_time(end)) * 1e-3

            timed(AT_ONCE)
            found[f"{shown(m, n, k, rows, columns)} {kind}"] = 1e6 * bursts(timed, timed(AT_ONCE) / AT_ONCE)
    return found


def shown(m: int, n: int, k: int, rows: bool, columns: bool) -> str:
    return f"{m} x {n} x {k} {'T' if rows else 'N'}{'N' if columns else 'T'}"


def torch_model(kind: str) -> Contestant:
    """Training steps of the same model in PyTorch, as one captured graph."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(512), nn.LayerNorm(512)
            self.qkv, self.out = nn.Linear(512, 1536), nn.Linear(512, 512)
            self.up, self.down = nn.Linear(512, 2048), nn.Linear(2048, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, t, _ = x.shape
            q, k, v = (y.reshape(b, t, 8, 64).transpose(1, 2) for y in self.qkv(self.one(x)).split(512, 2))
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(b, t, 512))
            y: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.two(x))))
            return y

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(256, 512), nn.Parameter(torch.zeros(128, 512))
            self.blocks = nn.Sequential(*(Block() for _ in range(6)))
            self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.head(self.norm(self.blocks(self.words(x) + self.places)))
            return y

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    model = Gpt().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=True)
    words = torch.randint(0, 256, (BATCH, 129), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=kind == "mixed"):
            logits = model(words[:, :-1])
            loss = nn.functional.cross_entropy(logits.reshape(-1, 256).float(), words[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def run(steps: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(steps):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    return run


def netloom_model(kind: str, kernels: bool) -> Contestant:
    folder = WORK / f"gpu-gpt-{kind}"
    folder.mkdir(parents=True, exist_ok=True)
    words = np.random.default_rng(1).integers(0, 256, (EPOCH * BATCH, 129), dtype=np.int32)
    np.savez(folder / "words.npz", words=words[:, :-1], next=words[:, 1:])
    model = model_of_benchmarks("gpt_large", folder, BATCH)
    precision, products = MODEL[kind]
    model = replace(model, numerics=replace(model.numerics, precision=precision, products=products))
    return netloom(model, folder, BATCH, True, kernels)[0]


def one(arguments: argparse.Namespace) -> Any:
    """What a process of its own measures."""
    who, _, kind = arguments.one.partition("-")
    if arguments.one == "torch-products":
        return torch_products()
    run = torch_model(kind) if who == "torch" else netloom_model(kind, arguments.kernels)
    run(arguments.steps)
    return [1e3 * run(arguments.steps) / arguments.steps for _ in range(arguments.rounds)]


def products(every: bool) -> dict[str, Any]:
    """Prints and returns Netloom's products and PyTorch's."""
    done = subprocess.run([sys.executable, __file__, "--one", "torch-products"], stdout=subprocess.PIPE, check=False)
    peers = json.loads(done.stdout.decode().strip().splitlines()[-1]) if done.returncode == 0 else {}
    rows, found = [], {}
    problems = [(shown(*s), 2.0 * s[0] * s[1] * s[2], [matrices(*s, kind) for kind in KINDS]) for s in SHAPES]
    for b, h, i, j, k, turned in HEADS:
        text = f"{b} x {h} heads, {i} x {j} x {k}"
        problems.append((text, 2.0 * b * h * i * j * k, [heads(b, h, i, j, k, turned, kind) for kind in KINDS]))
    for text, operations, kinds in problems:
        for kind, (node, tensors) in zip(KINDS, kinds, strict=True):
            for way, (us, error) in measured(node, tensors, every and kind == "bf16").items():
                found[f"{text}, {kind}: {way}"] = us
                rows.append([f"{text}, {kind} arrays: {way}", us, operations / us / 1e6, f"{error:.1e}"])
        for kind in ("float32", "tf32", "bf16"):
            if (theirs := peers.get(f"{text} {kind}")) is not None:
                rows.append([f"{text}: PyTorch, {kind}", theirs, operations / theirs / 1e6, ""])
    table(["product", "us", "TFLOP/s", "relative error"], rows)
    return {"netloom": found, "torch": peers}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CONTESTANTS))
    parser.add_argument("--kernels", action="store_true", help="also time each of Netloom's kernels")
    parser.add_argument("--every", action="store_true", help="each tiling of products of bf16 arrays")
    parser.add_argument("--no-products", action="store_true")
    parser.add_argument("--no-model", action="store_true")
    parser.add_argument("--one", help="this contestant in this process")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one(arguments)))
        return
    results: dict[str, Any] = {} if arguments.no_products else {"products": products(arguments.every)}
    rows = []
    for name in () if arguments.no_model else arguments.only.split(","):
        command = [sys.executable, __file__, "--one", name, "--steps", str(arguments.steps)]
        command += ["--rounds", str(arguments.rounds), *(["--kernels"] if arguments.kernels else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        *told, last = done.stdout.strip().splitlines() or [""]
        print("\n".join(told), flush=True)
        if done.returncode == 0:
            results[name] = json.loads(last)
            rows.append([name, statistics.median(results[name]), min(results[name]), max(results[name])])
    if rows:
        table(["GPT-like step, ms", "median", "least", "most"], rows)
    write_results("gpu_products", results)


if __name__ == "__main__":
    main()
