"""Checkpointed blocks: recomputation is bitwise equal, random draws included, and needs less memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from backends.cpu.backend import CpuBackend
from backends.cpu.emit.emit import emit
from compiler.ir.level2.target import Target
from compiler.layout.plan_memory import place
from compiler.passes.pipeline.lower import Lowered, lower
from compiler.strategies.cost.devices import MEASURED_CORE
from netloom import run
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

MODEL = """\
language: 1
name: blocks
network:
  inputs: {image: {shape: [2, 8, 8]}, label: {shape: [], dtype: int32}}
  layers:
    - conv2d: {inputs: image, filters: 4, kernel: 3, padding: same}
LAYERS
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {image: images, label: labels}, split: {validation: 0.2}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {momentum: {learning_rate: 0.05}}
  batch: 8
  epochs: 2
  seed: 5
numerics: {order: ORDER}
"""
RESIDUAL = """
    - repeat:
        times: TIMES
        CHECKPOINT
        layers:
          - activation: {name: enter, function: relu}
          - conv2d: {filters: 4, kernel: 3, padding: same, activation: gelu}
          - batch_norm: {}
          - dropout: {rate: 0.2}
          - conv2d: {name: out, filters: 4, kernel: 3, padding: same}
          - add: {inputs: [out, enter]}
"""
SEQUENCE = """
    - reshape: {shape: [8, 32]}
    - block:
        CHECKPOINT
        layers:
          - repeat:
              times: TIMES
              layers:
                - layer_norm: {name: x}
                - attention: {name: seen, heads: 4}
                - add: {inputs: [x, seen]}
                - dense: {units: 32, activation: tanh}
          - lstm: {units: 32, sequence: true}
          - softmax: {}
"""
POOLS = """
    - block:
        CHECKPOINT
        layers:
          - conv2d: {filters: 8, kernel: 3, padding: same, activation: silu}
          - max_pool2d: {size: 2}
          - repeat: {times: TIMES, layers: [{conv2d: {filters: 8, kernel: 3, padding: same, activation: sigmoid}}]}
          - group_norm: {groups: 2}
          - upsample: {factor: 2}
"""
KINDS = {"residual": RESIDUAL, "sequence": SEQUENCE, "pools": POOLS}


def text(layers: str, checkpoint: bool, order: str = "reproducible", times: int = 2) -> str:
    layers = layers.replace("CHECKPOINT", f"checkpoint: {'true' if checkpoint else 'false'}")
    return MODEL.replace("LAYERS", layers.replace("TIMES", str(times)).strip("\n")).replace("ORDER", order)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(30, 2, 8, 8)).astype(np.float32), rng.integers(0, 3, 30).astype(np.int32)
    np.savez(tmp_path / "samples.npz", images=images, labels=labels)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "target", "order"),
    [
        ("residual", "cpu", "reproducible"),
        *(pytest.param(k, "cpu", "reproducible", marks=pytest.mark.slow) for k in ("sequence", "pools")),
        *(pytest.param(k, "cpu", "bitwise", marks=pytest.mark.slow) for k in KINDS),
        *((k, "reference", "bitwise") for k in KINDS),
    ],
)
def test_the_same_bits(folder: Path, kind: str, target: str, order: str) -> None:
    found = []
    for checkpoint in (False, True):
        path = folder / "model.yaml"
        path.write_text(text(KINDS[kind], checkpoint, order, 1))
        epochs = 1 if target == "reference" else 2
        out = folder / f"{checkpoint}"
        result = run(path, target, epochs=epochs, verify=True, out=out, build_dir=folder / "build")
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        losses = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
        found.append((losses, load_file(result.folder / "weights.safetensors")))
    assert found[0][0] == found[1][0]
    assert found[0][1].keys() == found[1][1].keys()
    for name, value in found[0][1].items():
        assert value.tobytes() == found[1][1][name].tobytes(), name


def lowered(folder: Path, layers: str, checkpoint: bool, times: int, device: Target | None = None) -> Lowered:
    own = CpuBackend().capabilities
    capabilities = own if device is None else replace(own, device=device)
    return lower(model_of(text(layers, checkpoint, times=times), folder), capabilities, verify=True)


def test_memory_of_deep_networks(folder: Path) -> None:
    """Memory per additional block: all its tensors without checkpoints, and with them only the one that the next block
    reads (8 samples of 4x8x8, stored in 16 lanes: so by the estimates of a core that starts one multiply-add a
    cycle)."""

    def more(checkpoint: bool) -> float:
        few, many = (lowered(folder, RESIDUAL, checkpoint, n, MEASURED_CORE).merged for n in (8, 16))
        sizes = [sum(place(m, {}).arena_bytes.values()) for m in (few, many)]
        return (sizes[1] - sizes[0]) / 8 / (4 * 16 * 4 * 8 * 8)

    assert more(False) > 5
    assert more(True) < 1.3


def test_one_text_for_every_depth(folder: Path) -> None:
    """Except for the comment with a kernel's layer: the last block has no successor."""
    texts = [emit(lowered(folder, RESIDUAL, True, times).merged).text for times in (3, 6)]
    bare = [[line for line in t.splitlines() if not line.startswith("/* ---- ")] for t in texts]
    assert bare[0] == bare[1]


def test_what_is_kept_and_what_is_not(folder: Path) -> None:
    found = [d for d in lowered(folder, RESIDUAL, True, 2).decisions if d.pass_name == "recompute"]
    assert all(d.subject.startswith("train: ") for d in found)
    made = {d.subject.removeprefix("train: "): d.verdict for d in found}
    assert made["conv2d_2.activated"] == made["dropout_1.mask"] == "computed again"
    assert made["batch_norm_1.mean"] == "kept"  # statistics
    assert made["enter_1.activated"] == "kept"  # the sum that ends the block is a part of the next one's first kernel
    assert "conv2d_1.weight" not in made
