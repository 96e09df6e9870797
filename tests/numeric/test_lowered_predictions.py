"""Predictions lowered for a core and for a GPU, run by the interpreter: of weights in panels, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.reference.load import instantiate
from backends.registry import backend
from compiler.ir.text import print_ir
from compiler.passes.pipeline import lower as predict
from compiler.runtime.common.arrays import read_logical
from tests.numeric.simulated import model_of

TEXT = """
language: 1
name: lowered
network:
  inputs: {x: {shape: [20]}}
  layers:
    - dense: {inputs: x, units: 37, activation: tanh}
    - layer_norm: {}
    - dense: {name: out, units: 5}
numerics: {precision: float64}
"""


def outputs(folder: Path, target: str, samples: np.ndarray) -> tuple[np.ndarray, str]:
    """Of the last layer, and the text of the program."""
    model = model_of(TEXT, folder)
    program = predict.lower_predict(model, backend(target).capabilities, len(samples), verify=True).lowered.merged
    instance, arrays = instantiate(program, 3), {a.name: a for a in program.arrays}
    if "prepare" in {p.name for p in program.phases}:
        instance.run("prepare", 1, 1)
    instance.write(predict.ORDER, np.arange(len(samples), dtype=np.int32))
    instance.write(predict.data_name("x"), samples)
    instance.run(predict.PHASE, 1, 1)
    made = next(a for a in arrays.values() if a.name.startswith(f"{predict.PHASE}/out.") and a.shape[-1] == 5)
    return read_logical(instance, made), print_ir(program)


@pytest.mark.parametrize(("target", "batch"), [("cpu", 2), ("cpu", 3), ("cpu", 16), ("cuda", 3)])
def test_predictions(target: str, batch: int, tmp_path: Path) -> None:
    samples = np.random.default_rng(1).normal(size=(batch, 20))
    found, text = outputs(tmp_path, target, samples)
    assert ("rows_panels" in text) is (target == "cpu" and batch < 4)
    np.testing.assert_allclose(found, outputs(tmp_path, "reference", samples)[0], rtol=1e-9, atol=1e-12)
