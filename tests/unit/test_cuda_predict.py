"""The phase `predict` as CUDA: compiled for one architecture, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower_predict
from tests.cpu.networks_for_use import write_network

LAYERS = """
conv2d: {name: a, filters: 5, kernel: 3, padding: same, bias: false}
batch_norm: {name: n1}
activation: {name: r1, function: relu}
conv_transpose2d: {name: t, filters: 4, kernel: 3}
batch_norm: {name: n2}
flatten: {name: f}
dense: {name: logits, units: 4}
softmax: {name: p}
"""


@pytest.mark.nvrtc
@pytest.mark.parametrize("batch", [1, 64])
def test_it_compiles(tmp_path: Path, batch: int) -> None:
    path = write_network(tmp_path, "{x: {shape: [2, 8, 8]}}", LAYERS)
    cuda = CudaBackend()
    merged = lower_predict(load_model(path), cuda.capabilities, batch, verify=True).lowered.merged
    compile_text(emit(merged), "net", False, "sm_90")
