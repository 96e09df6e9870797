"""Claim: NVRTC compiles the CUDA text of any model in models/ in at most 2 s from nothing, and of a ring of 10 and of
10,000 populations in the same time; ResNet-50 and a GPT are measured beside them. No GPU is needed.

Measured: seconds from the text to its machine code (its parts are compiled side by side, on as many processors as there
are), and CPU seconds in the compiler, with empty caches, the least of the rounds, since other work on the machine
only adds to them; KiB of machine code, which do not depend on the machine. Code is for the one device, as in a run.

Usage: bench_nvrtc.py [--arch sm_90] [--rounds 3] [--only lenet5,cuba]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from common import HERE, ROOT, rounds, table, write_results
from gpu_training import model_of_benchmarks

from backends.c_family.source_map import fixed_order
from backends.cuda.emit.compile import compile_text, find_compiler
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower

MODELS, RING = ROOT / "models", HERE / "models" / "ring.yaml"
RINGS = (10, 10_000)
LARGE = {
    "resnet50 mixed": ("resnet50", "mixed"),
    "gpt float32": ("gpt_large", "float32"),
    "gpt mixed": ("gpt_large", "mixed"),
}


def lowered(path: Path, settings: dict[str, str] | None = None) -> Merged:
    return lower(load_model(path, settings or {}), CudaBackend().capabilities).merged


def large(model: str, precision: str) -> Merged:
    """A network of benchmarks/models, over data of its shapes."""
    with tempfile.TemporaryDirectory(prefix="netloom-nvrtc-") as name:
        folder = Path(name)
        words = np.zeros((64, 128), np.int32)
        np.savez(folder / "words.npz", words=words, next=words)
        np.savez(folder / "images.npz", images=np.zeros((64, 3, 224, 224), np.uint8), labels=words[:, 0])
        found = model_of_benchmarks(model, folder, 64 if model == "resnet50" else 32)
        return lower(
            replace(found, numerics=replace(found.numerics, precision=precision)), CudaBackend().capabilities
        ).merged


def measure(program: Merged, arch: str) -> dict[str, float]:
    """One compilation with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="netloom-nvrtc-") as folder:
        os.environ["NETLOOM_CACHE"] = folder
        emitted = emit(program)
        begin = time.perf_counter()
        artifact = compile_text(emitted, program.name, fixed_order(program), arch, elsewhere=False)
        seconds = time.perf_counter() - begin
        assert artifact.compiled
        code = sum(x.stat().st_size for x in (artifact.binary, *artifact.beside)) / 1024
    return {"s": seconds, "cpu_s": artifact.compile_seconds, "code": code, "units": float(len(emitted.parts) or 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="models, with commas; default: all")
    arguments = parser.parse_args()
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # NVRTC has a cache of its own where there is a driver, which reads it once
    names = arguments.only.split(",") if arguments.only else sorted(p.stem for p in MODELS.glob("*.yaml"))
    programs = {name: lowered(MODELS / f"{name}.yaml") for name in names}
    if not arguments.only:
        programs |= {name: large(*which) for name, which in LARGE.items()}
    programs |= {f"ring of {n:,}": lowered(RING, {"n": str(n)}) for n in RINGS}
    results = rounds({n: partial(measure, p, arguments.arch) for n, p in programs.items()}, arguments.rounds)
    least = {name: {k: min(r[k] for r in runs) for k in runs[0]} for name, runs in results.items()}
    print(f"{find_compiler()}, {arguments.arch}, {len(os.sched_getaffinity(0))} processors; least of the rounds")
    table(
        ["model", "s", "CPU s", "units", "KiB of code", "kernels of the model"],
        [
            [
                n,
                least[n]["s"],
                least[n]["cpu_s"],
                int(least[n]["units"]),
                int(least[n]["code"]),
                len(programs[n].templates),
            ]
            for n in sorted(results, key=lambda n: -least[n]["s"])
        ],
    )
    write_results("nvrtc", {"arch": arguments.arch, "compiler": str(find_compiler()), "rounds": results})


if __name__ == "__main__":
    main()
