"""Claim: no model is slower on the CPU than at another revision by more than 5 %.

Measured, on one thread: CPU microseconds of a step, the two revisions in turn and the one first that was second in the
round before; medians over the rounds, and the median of the rounds' ratios. Each revision runs in a process of its own
from its own tree (its passes, kernels, models and data of benchmarks). Simulations are without recording.

BEFORE and AFTER are revisions, which are unpacked into a temporary folder, or folders with a tree.

Usage: bench_cpu_revisions.py BEFORE [AFTER=.] [--rounds 10] [--only cuba,lenet5]
"""

from __future__ import annotations

from revisions import Comparison, main

STEPS = {
    "cuba": 20_000,
    "microcircuit_0.1": 3_000,
    "stdp": 60_000,
    "spiking_conv": 3_000,
    "lenet5": 200,
    "mlp": 150,
    "resnet20": 6,
    "transformer": 25,
}
"""Of a round: about 0.4 s."""

WORKER = '''
"""One subject of one tree, in whose folder this runs."""
import re, sys, time
from pathlib import Path

sys.path[:0] = [str(Path("benchmarks").resolve()), str(Path.cwd())]
name, folder = sys.argv[1], Path(sys.argv[2])
import numpy as np
from backends.cpu.backend import CpuBackend
from gpu_training import load_model, lower  # from where they are in this tree


def simulation():
    import bench_spiking_conv

    settings = {}
    if name == "spiking_conv":
        np.savez(folder / "kernel.npz", kernel=bench_spiking_conv.kernel())
        text = bench_spiking_conv.model_text("toeplitz", 1000)
    else:
        model, _, scale = name.partition("_")
        text = Path("models", f"{model}.yaml").read_text(encoding="utf-8")
        settings = {"scale_n": scale, "scale_k": scale} if scale else {}
    for block in ("record", "plots", "expect"):
        text = re.sub(rf"(?m)^{block}:.*\\n(?:[ #-].*\\n|\\n)*", "", text)
    if not re.search("(?m)^numerics:", text):
        text += "\\nnumerics: {precision: float32}\\n"
    return text, settings, "step"


def training():
    import bench_training

    case = bench_training.CASES[name]
    bench_training.make_data(folder / "images.npz", case)
    return Path("benchmarks", "models", f"{name}.yaml").read_text(encoding="utf-8"), {}, "train"


text, settings, phase = training() if Path("benchmarks", "models", f"{name}.yaml").exists() else simulation()
path = folder / f"{name}.yaml"
path.write_text(text, encoding="utf-8")
backend = CpuBackend()
program = lower(load_model(path, settings), backend.capabilities).merged
instance = backend.load(backend.build(program, folder / "build", {}), program, 1)
if phase == "train":
    shape = next(a.shape for a in program.arrays if a.name == "train.order")
    order = np.random.default_rng(2).permutation(shape[0] * shape[1]).astype(np.int32)
    instance.write("train.order", order.reshape(shape))
done = 0


def run(count):
    global done
    begin = time.process_time()
    while count > 0:
        ran = instance.run(phase, done + 1, count)
        done, count = done + ran, count - ran
    return time.process_time() - begin


run(3)
'''

if __name__ == "__main__":
    main(Comparison("cpu_revisions", __doc__ or "", WORKER, STEPS))
