"""From layers to kernels: fusion, launches and texts, on small networks with verification at every level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from backends.cpu.backend import CpuBackend
from backends.reference.load import instantiate
from compiler.expr.ast import Ref
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import Lowered, lower

HEAD = """language: 1
name: small
network:
  inputs:
    image: {shape: [6]}
    label: {shape: [], dtype: int32}
  layers:
"""
TAIL = """
train:
  data: {file: data.npz, inputs: {image: images, label: labels}, split: {validation: 0.2}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  metrics: [accuracy]
  optimizer: {adam: {learning_rate: 0.01}}
  batch: 8
  epochs: 1
  seed: 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "data.npz",
        images=rng.normal(1.0, 1.0, (25, 6)).astype(np.float32),
        labels=rng.integers(0, 3, 25).astype(np.int32),
    )
    return tmp_path


def lowered(folder: Path, layers: str, extra: str = "") -> Lowered:
    path = folder / "small.yaml"
    path.write_text(HEAD + layers + TAIL + extra)
    return lower(load_model(path), CpuBackend().capabilities, verify=True)


def test_a_layer_may_be_added_to_itself(folder: Path) -> None:
    layers = """
    - dense: {name: a, units: 4, activation: tanh}
    - add: {name: twice, inputs: [a, a, a]}
    - dense: {name: logits, units: 3}
"""
    program = lowered(folder, layers).program
    instance = instantiate(program, 1)
    order = np.full(instance.read("train.order").shape, -1, np.int32)
    order[:8] = np.arange(8)
    instance.write("train.order", order)
    instance.run("train", 1, 1)
    assert np.isfinite(instance.read("train/loss")).all()


def test_bias_and_activation_join_the_contraction(folder: Path) -> None:
    layers = """
    - dense: {name: hidden, units: 4, activation: relu}
    - dense: {name: logits, units: 3}
"""
    done = lowered(folder, layers)
    names = [t.name for t in done.merged.templates]
    assert any(n.startswith("hidden.activated: lanes dense") for n in names)
    assert not any(n.startswith(("hidden.biased:", "hidden.activated: elementwise")) for n in names)
    verdicts = {(d.pass_name, d.subject): d.verdict for d in done.decisions}
    assert verdicts["fuse_epilogues", "train: hidden.activated"] == "fused"


def test_dependent_layers_of_equal_text_are_launched_one_after_the_other(folder: Path) -> None:
    layers = """
    - dense: {name: first, units: 6, activation: tanh}
    - dense: {name: second, units: 6, activation: tanh}
    - dense: {name: logits, units: 3}
"""
    done = lowered(folder, layers)
    table = next(i for i, t in enumerate(done.merged.templates) if t.name.startswith("first.activated"))
    train = next(p for p in done.merged.phases if p.name == "train")
    runs = [(x.lo, x.hi) for x in train.launches if x.template == table]
    assert all(hi - lo == 1 for lo, hi in runs) and len(runs) >= 2


def test_all_updates_are_one_launch(folder: Path) -> None:
    layers = """
    - dense: {name: first, units: 6, activation: tanh}
    - dense: {name: second, units: 5, activation: relu}
    - dense: {name: logits, units: 3}
"""
    done = lowered(folder, layers)
    table = next(i for i, t in enumerate(done.merged.templates) if "optimizer update" in t.name)
    train = next(p for p in done.merged.phases if p.name == "train")
    assert [(x.lo, x.hi) for x in train.launches if x.template == table] == [(0, 6)]


def test_rows_that_a_short_batch_lacks_cannot_make_weights_infinite(folder: Path) -> None:
    """The slope of sqrt is infinite at 0, which padding with zeros would have met."""
    layers = """
    - dense: {name: first, units: 4, bias: false, activation: root}
    - dense: {name: logits, units: 3}
"""
    done = lowered(folder, layers, "functions:\n  root(x): sqrt(abs(x))\n")
    backend = CpuBackend()
    artifact = backend.build(done.merged, folder / "build", {})
    instance = backend.load(artifact, done.merged, 1)
    order = np.full(instance.read("train.order").shape, -1, np.int32)
    order[:5] = np.arange(5)
    instance.write("train.order", order)
    instance.run("train", 1, 1)
    assert np.isfinite(instance.read("first.weight")).all()


def test_sizes_are_not_in_the_text(folder: Path) -> None:
    def text(units: int, other: int) -> str:
        layers = f"""
    - dense: {{name: first, units: {units}, activation: tanh}}
    - dense: {{name: logits, units: 3}}
"""
        return CpuBackend().emit(lowered(folder, layers, f"x-note: {other}\n").merged)

    assert text(4, 1) == text(17, 2) == text(1, 3)


def test_a_minimum_is_one_reduction(folder: Path) -> None:
    layers = """
    - reduce: {name: least, function: min, axes: 0, keep: true}
    - reduce: {name: most, inputs: image, function: max, axes: 0, keep: true}
    - concat: {inputs: [least, most]}
    - dense: {name: logits, units: 3}
"""
    done = lowered(folder, layers)
    bodies = [t.body for t in done.merged.templates]
    assert {"min", "max"} <= {b.combine for b in bodies if isinstance(b, l2.Nest)}
    negated = [n for g in done.tensors for n in g.nodes if isinstance(n, l1.Map) and n.body == -Ref("x0")]
    assert not negated
