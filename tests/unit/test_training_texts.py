"""The texts of trainings with masks, a confusion matrix, accumulation, averages, plateaus, initialisers and
augmentation: they compile for CUDA, and do not depend on the number of layers, samples, batches or pixels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.strategies.cost.devices import MEASURED_CORE
from tests.numeric.simulated import model_of

MODEL = """\
language: 1
name: texts
network:
  inputs: {image: {shape: [2, SIZE, SIZE]}, label: {shape: [], dtype: int32}, seen: {shape: []}}
  layers:
    - noise: {inputs: image, std: 0.1}
    - random_flip: {}
    - augment: {value: x * (0.9 + 0.2 * random()), draws: sample}
    - random_crop: {padding: 1}
    - flatten: {}
    - dense: {units: 12, activation: relu, init: orthogonal}
    - repeat: {times: LAYERS, layers: [{dense: {units: 12, activation: relu, init: he_normal}}]}
    - dense: {name: logits, units: 3, init: {truncated_normal: {std: 0.1}}}
train:
  data: {file: samples.npz, inputs: {image: images, label: labels, seen: seen}, split: {folds: 4, stratify: label}}
  loss: {softmax_cross_entropy: {logits: logits, target: label, mask: seen, ignore: 2}}
  metrics: [confusion]
  optimizer: {adam: {learning_rate: '0.01 * cosine_decay(step, steps)'}}
  clip: {norm: 1}
  accumulate: EVERY
  average: 0.99
  plateau: {metric: validation_loss, patience: 2}
  batch: 4
  epochs: 2
numerics: {order: ORDER}
"""


def program(
    folder: Path, backend: CpuBackend | CudaBackend, layers: int, size: int, every: int, samples: int, order: str
) -> Merged:
    labels = np.arange(samples) % 3
    np.savez(folder / "samples.npz", images=np.zeros((samples, 2, size, size)), labels=labels.astype(np.int32),
             seen=np.ones(samples))  # fmt: skip
    text = MODEL.replace("LAYERS", str(layers)).replace("SIZE", str(size))
    model = model_of(text.replace("EVERY", str(every)).replace("ORDER", order), folder)
    own = backend.capabilities
    capabilities = replace(own, device=MEASURED_CORE) if isinstance(backend, CpuBackend) else own
    return lower(model, capabilities, verify=True).merged


@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_one_text_for_every_size(tmp_path: Path, order: str) -> None:
    for backend, emit in ((CpuBackend(), emit_c), (CudaBackend(), emit_cuda)):
        few = emit(program(tmp_path, backend, 2, 5, 2, 32, order)).text
        many = emit(program(tmp_path, backend, 9, 6, 5, 200, order)).text
        assert few == many
        long = emit(program(tmp_path, backend, 2, 9, 2, 32, order)).text  # sums over weights are (long_sums)
        assert long == emit(program(tmp_path, backend, 9, 8, 5, 200, order)).text


@pytest.mark.nvrtc
@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_it_compiles_for_cuda(tmp_path: Path, order: str) -> None:
    text = emit_cuda(program(tmp_path, CudaBackend(), 2, 6, 2, 32, order))
    artifact = compile_text(text, "texts", order == "bitwise", "sm_90")
    assert artifact.binary.read_bytes().startswith(b"\x7fELF")
