"""`fuse: required`: a missed fusion is an error, a fused node is not; factors of weights only are hoisted."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from compiler.core.diagnostics import ModelError
from compiler.ir.level2.program import Nest
from compiler.passes.pipeline.lower import lower, lower_predict
from tests.numeric.simulated import model_of

MODEL = """\
language: 1
name: fused
network:
  inputs: {{image: {{shape: [1, 8, 8]}}, label: {{shape: [], dtype: int32}}}}
  layers:
    - block:
        fuse: required
        layers:
{layers}
    - flatten: {{}}
    - dense: {{name: logits, units: 10}}
train:
  data: {{file: {data}, inputs: {{image: images, label: labels}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{sgd: {{learning_rate: 0.01}}}}
  batch: 32
  epochs: 1
"""
CONV = "conv2d: {filters: 4, kernel: 3, padding: 1"
GOOD = {
    "bias and activation": [CONV + ", activation: relu}"],
    "a value that gradients need": [CONV + ", activation: gelu}"],
    "normalisation": [CONV + ", bias: false}", "batch_norm: {}", "activation: {function: relu}"],
    "residual": [CONV + ", name: a}", CONV + ", name: b}", "add: {inputs: [b, a]}"],
    "statistics of a sample": ["global_avg_pool: {}", "softmax: {}"],
    "one kernel of two results": ["layer_norm: {}"],
}


def text(root: Path, *layers: str) -> str:
    lines = "\n".join(f"          - {layer}" for layer in layers)
    return MODEL.format(
        layers=lines.replace("conv2d: {", "conv2d: {inputs: image, ", 1), data=root / "models/data/digits.npz"
    )


@pytest.mark.parametrize("case", GOOD)
def test_met(root: Path, tmp_path: Path, case: str) -> None:
    layers = GOOD[case] if GOOD[case][0].startswith("conv") else [CONV + "}", *GOOD[case]]
    model = model_of(text(root, *layers), tmp_path)
    for backend in (CpuBackend(), CudaBackend()):
        lower(model, backend.capabilities, verify=True)
        for fold in (True, False):
            lower_predict(model, backend.capabilities, 32, verify=True, fold=fold)


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([CONV + "}", "dropout: {rate: 0.5}"], "dropout_1.y needs dropout_1.mask, which is made later"),
        ([CONV + "}", "flatten: {}", "activation: {function: tanh}"], "it reads flatten_1.y in another shape"),
    ],
)
def test_missed(root: Path, tmp_path: Path, layers: list[str], reason: str) -> None:
    model = model_of(text(root, *layers), tmp_path)
    with pytest.raises(ModelError) as caught:
        lower(model, CpuBackend().capabilities)
    first = caught.value.diagnostics[0]
    assert first.code == "E0503"
    assert first.help is not None and reason in first.help
    assert first.span is not None and first.span.line == 9 + len(layers) - 1  # the last of the layers
    assert first.related[0].span.line == 7


def test_a_prediction_that_misses_one(root: Path, tmp_path: Path) -> None:
    model = model_of(text(root, CONV + "}", "flatten: {}", "activation: {function: tanh}"), tmp_path)
    with pytest.raises(ModelError, match=r"in a prediction `activation_1\.activated`"):
        lower_predict(model, CpuBackend().capabilities, 32)


def test_a_normalisation_in_use_is_the_end_of_its_convolution(root: Path, tmp_path: Path) -> None:
    """Though its scale stands behind the convolution in the model: the validation has no kernel of its own for it."""
    model = model_of(text(root, *GOOD["normalisation"]), tmp_path)
    done = lower(model, CpuBackend().capabilities)
    verdicts = {(d.subject, d.verdict) for d in done.decisions if d.pass_name == "fuse_epilogues"}
    assert ("eval: activation_1.activated", "fused") in verdicts
    launches = next(p for p in done.merged.phases if p.name == "eval").launches
    used = [(done.merged.templates[x.template], done.merged.tables[x.template].paths[x.lo]) for x in launches]
    assert not [t for t, path in used if isinstance(t.body, Nest) and not t.body.combine and "conv2d" in path]
