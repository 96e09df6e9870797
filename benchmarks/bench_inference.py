"""Inference: the standalone C file and the phase `predict` beside onnxruntime, in one thread.

    python benchmarks/bench_inference.py [MODEL[:BATCH[:PARAM=VALUE ...]] ...]      (needs onnx and onnxruntime)

Models are those of models/ and of benchmarks/models (as `benchmarks/resnet50`); without BATCH one sample at a time.
Weights are random. All compute the same batch in turn, round after round, so that the machine's load is shared; medians
and bests of CPU microseconds are printed, and the ratio of medians to onnxruntime's. Outputs are compared first. The
standalone file is measured with one sample.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnxruntime
from inference import weights_of, without_training
from safetensors.numpy import save_file

from compiler.interchange.onnx.export import to_onnx
from compiler.passes.pipeline.lower import ORDER, PHASE, data_name
from compiler.runtime.artifacts.trained import open_trained
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import Predictor, build_prediction
from compiler.runtime.inference.standalone import build_standalone

ROUNDS, CALLS, SECONDS = 40, 10, 30.0


def standalone(files: tuple[Path, ...], name: str) -> ctypes.CDLL:
    library = files[0].with_suffix(".so").absolute()
    flags = ["-O3", "-std=c11", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-fPIC", "-shared"]
    subprocess.run(["cc", *flags, str(files[0]), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """(median, best) microseconds by name; rounds are interleaved, as many as fit into `SECONDS`, at least 5."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    start = time.process_time()
    for call in calls.values():
        call()
    count = max(1, min(CALLS, int(SECONDS / ROUNDS / (time.process_time() - start))))
    for done in range(ROUNDS):
        if done >= 5 and time.process_time() - start > SECONDS:
            break
        for name, call in calls.items():
            begin = time.process_time()
            for _ in range(count):
                call()
            times[name].append((time.process_time() - begin) / count * 1e6)
    return {name: (float(np.median(t)), min(t)) for name, t in times.items()}


def bench(which: str, batch: int, values: dict[str, str], folder: Path) -> None:
    model = without_training(which, folder, values=values)
    name = model.stem
    file = folder / f"{name}.safetensors"
    save_file(weights_of(model), file)
    options = Options(weights=file, build_dir=folder)
    trained = open_trained(model, options)
    prediction, built, backend = build_prediction(trained, options, batch)
    predictor = Predictor(prediction, built, backend, trained)
    proto = to_onnx(trained.model, weights_of(model), tuple(o.name for o in prediction.outputs))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)

    rng = np.random.default_rng(1)
    feeds = {i.name: rng.random((batch, *i.shape)).astype(np.float32) for i in prediction.inputs}
    found = predictor(feeds)
    for a, c in zip(found.values(), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(np.asarray(a, float), c, rtol=1e-3, atol=1e-3 * float(np.abs(c).max()))
    for item in prediction.inputs:
        predictor.instance.write(data_name(item.name), feeds[item.name].reshape(-1))
    predictor.instance.write(ORDER, np.arange(batch, dtype=np.int32))
    calls: dict[str, Callable[[], object]] = {
        "phase predict": lambda: predictor.instance.run(PHASE, 1, 1),
        "onnxruntime": lambda: session.run(None, feeds),
    }
    if batch == 1:
        function = getattr(standalone(build_standalone(model, options, embed=True).files, name), f"{name}_predict")
        outs = [np.zeros_like(v, np.float32) for v in found.values()]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*feeds.values(), *outs)]
        assert function(*pointers) == 0
        for a, b in zip(found.values(), outs, strict=True):
            np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-4, atol=1e-5)
        calls["standalone C"] = lambda: function(*pointers)
    times = measure(calls)
    base = times["onnxruntime"][0]
    for what, (median, best) in times.items():
        beside = f"{median / base:5.2f} x onnxruntime"
        print(f"{name:12} batch {batch:<4} {what:14} {median:9.1f} us (best {best:9.1f})   {beside}")
    predictor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL[:BATCH[:PARAM=VALUE ...]]")
    names = parser.parse_args().models or ["lenet5", "resnet20", "mlp"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            model, batch, *values = name.split(":") if ":" in name else (name, "1")
            own = Path(folder) / name.replace("/", "-")  # libraries of one path would be loaded once
            own.mkdir()
            bench(model, int(batch), dict(v.split("=") for v in values), own)


if __name__ == "__main__":
    main()
