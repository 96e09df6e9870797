"""Networks for inference: files with random weights, for tests of prediction and interchange.

Assumes: a folder to write into.
Guarantees: every kind of layer that has weights gets them, running statistics too, away from their initial values.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from compiler.frontend.load import load_model
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import lower_predict
from compiler.runtime.artifacts.safetensors import learned

PLAIN = Capabilities("cpu", 0, True, frozenset())


def write_network(folder: Path, inputs: str, layers: str, head: str = "", name: str = "net", seed: int = 0) -> Path:
    """A model file without `train`, and random weights beside it."""
    path = folder / f"{name}.yaml"
    weights = folder / f"{name}.safetensors"
    weights.touch()
    body = "\n".join(f"    - {line}" for line in layers.strip().splitlines())
    path.write_text(
        f"language: 1\nname: {name}\n{head}\nnetwork:\n  weights: {name}.safetensors\n  inputs: {inputs}\n"
        f"  layers:\n{body}\n"
    )
    save_file(random_weights(path, seed), weights)
    return path


def random_weights(path: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights for all layers of a model file; variances are positive."""
    rng = np.random.default_rng(seed)
    wanted = learned((lower_predict(load_model(path), PLAIN, 1).graph,))
    out = {}
    for name, shape in wanted.items():
        fan = max(int(np.prod(shape[1:])), 1)
        values = rng.normal(0.0, 1.0 / np.sqrt(fan), shape)
        out[name] = (np.abs(values) + 0.5 if name.endswith("running_var") else values).astype(np.float32)
    return out


def samples(path: Path, count: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Random samples for the inputs of a model file; whole numbers are 0 or 1."""
    rng = np.random.default_rng(seed)
    network = load_model(path).network
    assert network is not None
    return {
        i.name: (rng.normal(size=(count, *i.shape)) if i.dtype == "real" else rng.integers(0, 2, (count, *i.shape)))
        .astype(np.float32 if i.dtype == "real" else np.int32)
        for i in network.inputs
    }  # fmt: skip
