"""Claim: no model is slower on a GPU than at another revision by more than 3 %.

Measured, on one GPU: microseconds of a step, the two revisions in turn and the one first that was second in the round
before; medians over the rounds, and the median of the rounds' ratios. Each revision runs in a process of its own from
its own tree (its passes, kernels, models and data of benchmarks), on the same GPU as the other. Simulations are without
recording and have chosen how to make steps; trainings are those of the other GPU benchmarks.

BEFORE and AFTER are revisions, which are unpacked into a temporary folder, or folders with a tree.

Usage: bench_gpu_revisions.py BEFORE [AFTER=.] [--rounds 10] [--only microcircuit,lstm_64]
"""

from __future__ import annotations

from revisions import Comparison, main

STEPS = {
    "microcircuit": 20_000,
    "microcircuit_0.1": 40_000,
    "cuba": 40_000,
    "lenet5_64": 1_200,
    "lenet5_1024": 250,
    "resnet20_32": 100,
    "resnet20_256": 30,
    "lstm_64": 400,
    "gru_128": 300,
    "gru_128_batch_256": 150,
    "lstm_512": 40,
    "gru_512": 40,
    "lstm_1024": 20,
}
"""Of a round: about 0.1 s."""

WORKER = '''
"""One subject of one tree, in whose folder this runs."""
import sys, time
from pathlib import Path

sys.path[:0] = [str(Path("benchmarks").resolve()), str(Path.cwd())]
name, folder = sys.argv[1], Path(sys.argv[2])
import numpy as np
import gpu_training


def simulation(model, scale):
    import bench_gpu_cuba, bench_gpu_microcircuit
    from gpu_stepping import CHOOSING

    silent = {"cuba": bench_gpu_cuba.silent, "microcircuit": bench_gpu_microcircuit.silent}[model]
    path = folder / f"{model}.yaml"
    path.write_text(silent(Path("models", f"{model}.yaml").read_text(encoding="utf-8")), encoding="utf-8")
    backend = gpu_training.CudaBackend()
    settings = {"scale_n": scale, "scale_k": scale} if scale else {}
    program = gpu_training.lower(gpu_training.load_model(path, settings), backend.capabilities).merged
    instance = backend.load(backend.build(program, folder / "build", {}), program, 1)
    some = next(a.name for a in program.arrays if a.name.endswith("spike_count"))
    done = 0

    def run(count):
        nonlocal done
        begin = time.perf_counter()
        while count > 0:
            ran = instance.run("step", done + 1, count)
            done, count = done + ran, count - ran
        instance.read(some)  # waits for the device
        return time.perf_counter() - begin

    run(CHOOSING)
    return run


def training():
    import bench_gpu_lenet5, bench_gpu_recurrent, bench_gpu_resnet20

    if name in bench_gpu_recurrent.NETWORKS:
        network = bench_gpu_recurrent.NETWORKS[name]
        bench_gpu_recurrent.make_data(network, folder, network.batch)
        model, batch = bench_gpu_recurrent.model(network, folder, network.batch), network.batch
    else:
        subject, words = name.split("_")
        batch = int(words)
        {"lenet5": bench_gpu_lenet5, "resnet20": bench_gpu_resnet20}[subject].make_data(folder, batch)
        model = gpu_training.model_of_benchmarks(subject, folder, batch)
    run, _ = gpu_training.netloom(model, folder, batch, True, False)
    run(30)
    return run


model, _, scale = name.partition("_")
run = simulation(model, scale or "1" * (model == "microcircuit")) if model in ("microcircuit", "cuba") else training()
'''

if __name__ == "__main__":
    main(Comparison("gpu_revisions", __doc__ or "", WORKER, STEPS))
