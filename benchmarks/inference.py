"""What the benchmarks of inference share: models without training, and random weights for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import yaml

from compiler.frontend.load import load_model
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import lower_predict
from compiler.runtime.artifacts.safetensors import learned

ROOT = Path(__file__).resolve().parents[1]


def without_training(
    which: str, folder: Path, precision: str = "float32", values: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """A copy of a model of models/, or of benchmarks/models (`benchmarks/resnet50`), in `folder` that needs no data:
    without `train`. `values`: of its params."""
    group, _, name = which.rpartition("/")
    source = ROOT / (f"{group}/models" if group else "models") / f"{name}.yaml"
    whole = yaml.safe_load(source.read_text())
    content = {key: whole[key] for key in ("language", "name", "params", "network", "train") if key in whole}
    read = content.pop("train")["loss"]["softmax_cross_entropy"]["target"]
    del content["network"]["inputs"][read]
    content["numerics"] = {"precision": precision}
    for key, value in values.items():
        content["params"][key]["value"] = yaml.safe_load(value)
    model = folder / f"{name}.yaml"
    model.write_text(yaml.safe_dump(content, sort_keys=False))
    return model


def weights_of(model: Path) -> dict[str, np.ndarray]:
    """Random weights by name."""
    rng = np.random.default_rng(0)
    plain = Capabilities("cpu", 0, True, frozenset())
    wanted = learned((lower_predict(load_model(model), plain, 1).graph,))
    spread = {n: 1 / max(float(np.prod(s[1:])), 1) ** 0.5 for n, s in wanted.items()}
    found = {n: rng.normal(0, spread[n], s).astype(np.float32) for n, s in wanted.items()}
    return {n: np.abs(v) + 0.5 if n.endswith("running_var") else v for n, v in found.items()}
