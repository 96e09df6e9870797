"""Claim: on one thread of a core the rules choose, for each convolution and product, a strategy that takes at most 1.1
times the fastest candidate's time, also where the constants of their estimates were fitted on other shapes.

Measured: microseconds of every candidate of the tuner for one contraction, in turn, the least of the rounds. A
measurement counts where wall time and CPU time agree, and is repeated where they do not: others that use the machine
add to the one, and what a hypervisor says it took is subtracted from the other, sometimes too much. What takes several
times the fastest is measured once. Problems that are near the bound or above it are measured twice more, after all
others, and the medians of the three count. Sets of problems:
`networks`: layers of published networks, which terms of the estimates were mended by; `fitted`: those of other
benchmarks and tests, on which constants were fitted; `random`: shapes that are drawn, by --seed, of which nobody knew
anything; `kinds`: drawn ones of kinds that these seldom are: dilated, depthwise, of windows that do not overlap, of
lines, and of channels as networks have them. Contractions have no epilogues. The batch is in the lanes where it fills
them, and tensors are row-major elsewhere; products are measured in both ways (`rows`).

Usage: bench_cpu_rules.py [--sets networks,fitted,random,kinds] [--seed 1] [--count 60] [--only REGEX] [--rounds 3]
                          [--all] [--list] [--stored benchmarks/results/cpu_rules.json]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan, prod
from pathlib import Path
from typing import Final

import numpy as np
from common import ROOT, table, write_results

sys.path.insert(0, str(ROOT))

from bench_cpu_convolutions import DIRECTIONS, LAYERS, SIZES, point

from backends.cpu.backend import LANES, CpuBackend
from backends.cpu.run.load import CpuInstance
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.level2.program import Order
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType, along
from compiler.strategies import choose, layout
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import identity, ways
from compiler.tune.measure import alone, phase_of, together
from compiler.tune.sites import Site
from tests.cpu.contractions import PRODUCT, Conv, conv, dense, gradient

BOUND: Final = 1.1
SECONDS: Final = 2e-3
"""CPU seconds of a measurement, at least one call."""
AGREE, TRIES = 0.03, 5
"""Wall and CPU time differ by at most this part of it where nobody else ran, and how often that is tried."""
HOPELESS: Final = 1.6
"""What takes so many times the fastest candidate's time is measured once."""
DOUBTFUL, AGAIN = 1.05, 2
"""A problem whose choice takes so many times the fastest candidate's time is surveyed so many times more, after all
others: medians count."""
LIBRARY: Final = "onednn"
"""No rule takes it: the best of our own candidates is compared with it."""
NEST: Final = 1e7
"""Terms up to which the generic nest is measured; of more it takes a second or longer."""

CONVOLUTIONS: Final = """
    vgg 3-64x112k3p1b1 64-64x56k3p1b1 128-256x28k3p1b1 512-512x14k3p1b1 3-64x32k3p1b64 64-64x32k3p1b16 256-256x8k3p1b64
    vgg 512-512x2k3p1b64
    resnet 3-64x224k7s2p3b1 64-64x56k3p1b4 64-128x56k3s2p1b1 128-128x28k3p1b16 128-256x28k3s2p1b16 256-256x14k3p1b1
    resnet 256-512x14k3s2p1b1 256-512x14k3s2p1b4 512-512x7k3p1b1 512-512x7k3p1b16 64-256x56k1b1 256-1024x14k1b4
    resnet 1024-256x14k1b16 2048-512x7k1b1 512-1024x28k1s2b1 64-128x56k1s2b16
    cifar 3-16x32k3p1b32 16-16x32k3p1b16 16-32x32k3s2p1b32 32-32x16k3p1b64 64-64x8k3p1b32
    cifar 16-16x32k3p1b4 32-64x16k3s2p1b1
    mobilenet 3-32x224k3s2p1b1 32-32x112k3p1g32b1 144-144x56k3p1g144b4 192-192x28k3s2p1g192b16 960-960x7k3p1g960b1
    mobilenet 16-96x112k1b1 144-24x56k1b4 192-64x14k1b16 384-64x14k1b1 160-960x7k1b16 320-1280x7k1b4
    efficientnet 144-144x56k5s2p2g144b1 480-480x14k5p2g480b16 1152-1152x7k5p2g1152b4 40-240x28k1b1 10-240x1k1b16
    unet 1-64x128k3b1 64-64x48k3b1 64-128x32k3p1b4 256-128x32k3p1b1 256-256x16k3p1b16 64-2x96k1b1
    convnext 3-96x56k4s4b4 96-96x56k7p3g96b1 384-384x14k7p3g384b16 96-192x56k2s2b1 384-768x14k2s2b16
    densenet 128-32x56k3p1b1 128-32x28k3p1b4 128-32x14k3p1b16 480-128x14k1b4 992-128x7k1b16
    inception 16-32x28k5p2b1 24-64x14k5p2b16 96-208x14k3p1b4 192-224x17k1*7b1 160-192x17k7*1b4
    inception 64-64x8k1*3b16 96-96x17k3s2b1
    alexnet 3-64x112k11s4p2b1 3-96x227k11s4b4 64-192x27k5p2b1 96-256x27k5p2g2b1 192-384x13k3p1b4 384-256x13k3p1b16
    superresolution 1-64x48k9p4b1 32-1x72k5p2b1 12-12x96k3p1b4 56-1x48k9p4b4 64-64x24k3p1b16 32-3x64k9p4b1
    audio 1-32x1*4000k1*80s4b1 32-32x1*1000k1*3b1 64-64x1*500k1*9b16 128-128x1*250k1*5b4 40-64x1*300k1*25s2b4
    odd 17-29x23k3p1b1 5-7x31k5p1b4 33-65x15k3s2b4 3-11x45k4b16 13-37x19k2s2b16 100-100x5k3b32 19-24x27k3s3b4
    odd 48-36x20k3p2d2b4 64-64x14k3p1g4b16 128-128x14k3p1g32b4 24-48x10k3p1b7"""
PRODUCTS: Final = """
    mlp 784-512b64 512-10b64 784-300b1 300-100b4 13-64b16 64-1b32 1024-1024b4 4096-1000b1 2048-1000b16 120-84b16
    transformer 768-768b128 512-2048b77 64-256b448 300-300b33"""
ATTENTION: Final = """
    attention 4x8x64x64 1x12x128x64 16x4x28x16 2x12x77x64"""
"""Batch, heads, steps and features of a head: scores and what they weigh, and their gradients."""


Problem = tuple[Contract, dict[str, Tensor]]


@dataclass(frozen=True)
class Posed:
    """A contraction by name, and its layout: `lanes` or `rows`."""

    name: str
    problem: Problem
    lanes: bool


def shape(size: str) -> Conv:
    """The convolution of that size: channels-filters x rows[*columns] k window, then s step, p border, d distance of
    the window's pixels, g groups, b batch."""
    number = r"(\d+)(?:\*(\d+))?"
    found = re.fullmatch(rf"(\d+)-(\d+)x{number}k{number}(?:s(\d+))?(?:p(\d+))?(?:d(\d+))?(?:g(\d+))?b(\d+)", size)
    assert found, size
    channels, filters, rows, cols, high, wide, step, pad, dilate, groups, batch = (int(x or 0) for x in found.groups())
    stride = (1 if rows == 1 else step or 1, step or 1)
    sizes = (batch, channels, filters, rows, cols or rows, (high, wide or high), stride)
    return Conv(*sizes, pad=pad, dilate=dilate or 1, groups=groups or 1)


def directions(name: str, forward: Problem, lanes: bool, parts: Sequence[str] = DIRECTIONS) -> list[Posed]:
    problems = (forward, gradient(*forward, 0), gradient(*forward, 1))
    return [Posed(f"{name} {part}", p, lanes) for part, p in zip(parts, problems, strict=True)]


def convolutions(sizes: Mapping[str, Conv]) -> list[Posed]:
    return [p for name, c in sizes.items() for p in directions(name, conv(c), c.batch % LANES == 0)]


def products(sizes: Mapping[str, tuple[int, int, int]]) -> list[Posed]:
    found: list[Posed] = []
    for name, (batch, ins, outs) in sizes.items():
        for lanes in (False, True)[: 2 if batch % LANES == 0 else 1]:
            found += directions(name + " rows" * (not lanes), dense(batch, ins, outs), lanes)
    return found


def attention(batch: int, heads: int, steps: int, features: int) -> dict[str, Problem]:
    """Scores y[n, h, t, u] = sum over k of q[n, h, t, k] k[n, h, u, k], and what they weigh."""
    whole = (batch, heads, steps, features)
    n, h, t, u, k = (along(d) for d in "nhtuk")
    dims = (("n", batch), ("h", heads), ("t", steps), ("u", steps), ("k", features))
    narrow, square = (
        (Tensor(name, whole, "real", True) for name in "xv"),
        Tensor("w", (*whole[:3], steps), "real", True),
    )
    x, v = narrow
    scores = Tensor("y", square.shape, "real", True)
    first = Contract(scores, dims, (n, h, t, u), ("x", "v"), ((n, h, t, k), (n, h, u, k)), PRODUCT)
    out = Tensor("y", whole, "real", True)
    second = Contract(out, dims, (n, h, t, k), ("w", "v"), ((n, h, t, u), (n, h, u, k)), PRODUCT)
    return {"scores": (first, {"x": x, "v": v, "y": scores}), "weighed": (second, {"w": square, "v": v, "y": out})}


def attentions(sizes: Mapping[str, tuple[int, ...]]) -> list[Posed]:
    found: list[Posed] = []
    for name, size in sizes.items():
        for what, problem in attention(*size).items():
            for lanes in (False, True)[: 2 if size[0] % LANES == 0 else 1]:
                label = f"{name} {what}" + " rows" * (not lanes)
                found += directions(label, problem, lanes, ("forward", "to first", "to second"))
    return found


def named(text: str) -> dict[str, str]:
    """`network size` of each line -> size."""
    lines = (line.split() for line in text.split("\n") if line.strip())
    return {f"{network} {size}": size for network, *sizes in lines for size in sizes}


def numbers(size: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", size)))


def of_networks() -> list[Posed]:
    dense_sizes = {n: numbers(s) for n, s in named(PRODUCTS).items()}
    return [
        *convolutions({n: shape(s) for n, s in named(CONVOLUTIONS).items()}),
        *products({n: (batch, ins, outs) for n, (ins, outs, batch) in dense_sizes.items()}),
        *attentions({n: numbers(s) for n, s in named(ATTENTION).items()}),
    ]


def fitted() -> list[Posed]:
    from tests.unit.test_rules_of_cores import IN_LANES, ROWS

    found = convolutions({n: c for n, c in LAYERS.items() if n not in ("L1", "L2", "L3")})
    found += convolutions({s: point(s) for s in SIZES.split()})
    for lanes, cases in ((False, ROWS), (True, IN_LANES)):
        for number, (problem, operand, _) in enumerate(cases):
            own = problem if operand is None else gradient(*problem, operand)
            found.append(Posed(f"test {'lanes' if lanes else 'rows'} {number}", own, lanes))
    return found


def drawn(seed: int, count: int) -> list[Posed]:
    """Convolutions of 3e5 to 3e8 terms, evenly by logarithm in what they have, and products."""
    random = np.random.default_rng(seed)

    def about(low: float, high: float) -> int:
        return round(float(np.exp(random.uniform(np.log(low), np.log(high)))))

    sizes: dict[str, Conv] = {}
    while len(sizes) < count * 3 // 4:
        window, step = int(random.choice([1, 1, 2, 3, 3, 3, 3, 5, 7, 9])), int(random.choice([1, 1, 1, 2, 3]))
        batch = int(random.choice([1, 2, 4, 6, 16, 16, 32, 48, 64]))
        channels, filters, rows = about(1, 600), about(1, 600), about(max(4, window), 120)
        groups = int(random.choice([1, 1, 1, 1, 2, 4, channels]))
        if groups == channels:
            filters = channels
        channels, filters = -(-channels // groups) * groups, -(-filters // groups) * groups
        pad = int(random.choice([0, window // 2]))
        c = Conv(batch, channels, filters, rows, rows, (window, window), (step, step), pad=pad, groups=groups)
        terms = prod(c.out) * batch * channels // groups * filters * window**2
        if 3e5 < terms < 3e8:
            name = f"{channels}-{filters}x{rows}k{window}s{step}p{pad}g{groups}b{batch}"
            sizes[name] = c
    dense_sizes: dict[str, tuple[int, int, int]] = {}
    while len(dense_sizes) < count // 4:
        batch, ins, outs = about(1, 600), about(4, 4000), about(4, 4000)
        if random.random() < 0.5:
            batch = max(1, batch // LANES) * LANES
        if 1e5 < batch * ins * outs < 3e8:
            dense_sizes[f"{ins}-{outs}b{batch}"] = batch, ins, outs
    return [*convolutions(sizes), *products(dense_sizes)]


def drawn_kinds(seed: int, count: int) -> list[Posed]:
    """As many convolutions of each kind, a half of them of 1 to 8 samples."""
    random = np.random.default_rng(seed)

    def size(kind: str) -> str:
        few = [1, 2, 4, 8]
        batch = int(random.choice(few if random.random() < 0.5 else [16, 32, 64]))
        channels, filters = (int(random.choice([8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384])) for _ in "io")
        rows, window = int(random.choice([7, 8, 14, 16, 28, 32, 56, 64])), int(random.choice([3, 3, 3, 5, 7]))
        step = int(random.choice([1, 1, 2]))
        if kind == "dilated":
            apart = int(random.choice([2, 2, 3, 4]))
            return f"{channels}-{filters}x{max(rows, 14)}k3p{apart}d{apart}b{batch}"
        if kind == "depthwise":
            return f"{channels}-{channels}x{rows}k{window}s{step}p{window // 2}g{channels}b{batch}"
        if kind == "apart":
            window = int(random.choice([2, 2, 3, 4, 7, 8]))
            return f"{channels}-{filters}x{window * max(1, rows // window)}k{window}s{window}b{batch}"
        if kind == "lines":
            return f"{channels}-{filters}x1*{rows**2 // 4}k1*{window}s{step}p{window // 2}b{batch}"
        return f"{channels}-{filters}x{rows}k{int(random.choice([1, 3, 3]))}s{step}p1b{batch}"

    sizes: dict[str, Conv] = {}
    for kind in ("dilated", "depthwise", "apart", "lines", "plain"):
        kept = len(sizes) + -(-count // 5)
        while len(sizes) < kept:
            c = shape(name := size(kind))
            if 3e5 < prod(c.out) * c.batch * c.channels // c.groups * c.filters * prod(c.kernel) < 3e8:
                sizes[f"{kind} {name}"] = c
    return convolutions(sizes)


@dataclass(frozen=True)
class Result:
    """CPU microseconds of the candidates, the rules' choice first, and the estimates of the model."""

    times: Mapping[str, float]
    estimates: Mapping[str, float]

    @property
    def rule(self) -> str:
        return next(iter(self.times))

    @property
    def best(self) -> str:
        """Of our own candidates."""
        return min((w for w in self.times if LIBRARY not in w), key=self.times.__getitem__)

    @property
    def library(self) -> float:
        """The library's time, if it is here."""
        return min((t for w, t in self.times.items() if LIBRARY in w), default=nan)

    @property
    def ratio(self) -> float:
        return self.times[self.rule] / self.times[self.best]


def site(posed: Posed, of: Capabilities) -> Site:
    """All candidates, but for nests that take long."""
    (node, tensors), lanes = posed.problem, of.lanes
    found = ways(node, tensors, lanes, 4, of.strategies, of.device)
    short = prod(e for _, e in node.dims) < NEST
    found = (*found[:1], *(w for w in found[1:] if w is not None or short))
    problem, structure = (f(node, tensors, lanes, 4, "reproducible") for f in (problem_digest, structure_digest))
    return Site(posed.name, node, tensors, lanes, problem, structure, found)


def survey(posed: Iterable[Posed], rounds: int, all_: bool) -> dict[str, Result]:
    """The times of all candidates of problems, by name."""
    backend, found = CpuBackend(), dict[str, Result]()
    targets = layout.row_major(backend.capabilities), backend.capabilities
    for part in together((site(p, targets[p.lanes]) for p in posed), 4):
        target = targets[part[0].lanes > 0]
        merged = alone(part, DType.F32, Order.REPRODUCIBLE, target)
        with tempfile.TemporaryDirectory() as folder:
            instance = backend.load(backend.build(merged, Path(folder), {}), merged, 1)
        random = np.random.default_rng(1)
        for array in merged.arrays:
            instance.write(array.name, random.standard_normal(array.physical_size))
        for number, s in enumerate(part):
            times = measure(instance, [phase_of(number, k) for k in range(len(s.ways))], rounds)
            estimates = {identity(w): w.microseconds for w in s.ways if w is not None}
            found[s.path] = Result({identity(w): t for w, t in zip(s.ways, times, strict=True)}, estimates)
            shown(s.path, found[s.path], all_)
        instance.close()
    return found


def measure(instance: CpuInstance, phases: Sequence[str], rounds: int) -> list[float]:
    """The least CPU microseconds of a call of each phase."""
    least = [once(instance, phase, 1) for phase in phases]
    least = [once(instance, phase, 1) if t < 0.1 else t for phase, t in zip(phases, least, strict=True)]
    calls = [max(1, round(SECONDS / max(t, 1e-7))) for t in least]
    for _ in range(rounds):
        most = HOPELESS * min(least)
        for k, phase in enumerate(phases):
            if k == 0 or least[k] <= most:
                least[k] = min(least[k], once(instance, phase, calls[k]))
    return [1e6 * t for t in least]


def once(instance: CpuInstance, phase: str, calls: int) -> float:
    """Seconds of a call."""
    found: list[float] = []
    for _ in range(TRIES):
        wall, cpu = time.perf_counter(), time.process_time()
        instance.run(phase, 1, calls)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        if abs(wall - cpu) <= AGREE * wall + 2e-6:
            return wall / calls
        found.append(cpu)
    return statistics.median(found) / calls


def shown(name: str, r: Result, all_: bool) -> None:
    taken = f"{name}: {r.rule} {r.times[r.rule]:.1f} us"
    other = f", {r.ratio:.2f} of {r.best} {r.times[r.best]:.1f}" if r.best != r.rule else ""
    print(taken + other, flush=True)
    for way, us in sorted(r.times.items(), key=lambda x: x[1]) if all_ else ():
        print(f"    {us:10.1f} {r.estimates.get(way, 0.0):10.1f}  {way}")


def compared(posed: Iterable[Posed], kept: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """What the rules choose now, over times that were measured before."""
    backend, ratios, unknown = CpuBackend(), list[float](), list[str]()
    targets = layout.row_major(backend.capabilities), backend.capabilities
    for p in posed:
        times = {w: t for w, t in kept[p.name]["times"].items() if LIBRARY not in w} if p.name in kept else {}
        own, (node, tensors) = targets[p.lanes], p.problem
        rule = identity(choose(node, tensors, own.lanes, 4, own.strategies, own.device)[0])
        if rule not in times:
            unknown.append(f"{p.name}: {rule}")
            continue
        best = min(times, key=times.__getitem__)
        ratios.append(times[rule] / times[best])
        if ratios[-1] > BOUND:
            print(f"{p.name}: {rule} {times[rule]:.1f} us, {ratios[-1]:.2f} of {best} {times[best]:.1f}")
    print("not measured:", *unknown, sep="\n    ")
    above = sum(r > BOUND for r in ratios)
    print(f"{above} of {len(ratios)} above {BOUND}, mean {statistics.fmean(ratios):.3f}, worst {max(ratios):.2f}")


def pooled(results: Sequence[Result]) -> Result:
    """The medians of several surveys."""
    first = results[0]
    return Result({w: statistics.median(r.times[w] for r in results) for w in first.times}, first.estimates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="networks,fitted,random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="shapes that are drawn")
    parser.add_argument("--only", default="", help="a regular expression that names match")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="every candidate: its time and its estimate")
    parser.add_argument("--list", action="store_true", help="the choices, without measuring")
    parser.add_argument("--stored", type=Path, help="times of an earlier run, over which today's choices are judged")
    arguments = parser.parse_args()
    sets: dict[str, Callable[[], list[Posed]]] = {
        "networks": of_networks,
        "fitted": fitted,
        "random": lambda: drawn(arguments.seed, arguments.count),
        "kinds": lambda: drawn_kinds(arguments.seed, arguments.count),
    }
    results: dict[str, object] = {}
    for name in arguments.sets.split(","):
        posed = {p.name: p for p in sets[name]() if re.search(arguments.only, p.name)}
        if arguments.stored:
            compared(posed.values(), json.loads(arguments.stored.read_text(encoding="utf-8"))["sets"][name])
            continue
        if arguments.list:
            targets = layout.row_major(CpuBackend().capabilities), CpuBackend().capabilities
            for p in posed.values():
                print(p.name, *map(identity, site(p, targets[p.lanes]).ways), sep="; ")
            continue
        first = survey(posed.values(), arguments.rounds, arguments.all)
        doubtful = [posed[n] for n, r in first.items() if r.ratio > DOUBTFUL]
        again = [survey(doubtful, 2 * arguments.rounds, arguments.all) for _ in range(AGAIN)]
        found = {n: pooled([r, *(a[n] for a in again if n in a)]) for n, r in first.items()}
        above = sorted((n for n, r in found.items() if r.ratio > BOUND), key=lambda n: -found[n].ratio)
        rows = [[n, found[n].rule, found[n].best, found[n].times[found[n].rule], found[n].ratio] for n in above]
        table(["problem", "rule", "best", "us", "ratio"], rows)
        ratios = [r.ratio for r in found.values()]
        mean, worst = statistics.geometric_mean(ratios), max(ratios)
        print(f"{name}: {len(above)} of {len(found)} above {BOUND}, geometric mean {mean:.3f}, worst {worst:.2f}")
        results[name] = {n: {"times": r.times, "estimates": r.estimates, "above": n in above} for n, r in found.items()}
    if not (arguments.list or arguments.stored):
        write_results("cpu_rules", {"rounds": arguments.rounds, "seed": arguments.seed, "sets": results})


if __name__ == "__main__":
    main()
