"""PyTorch exports, by both exporters, import and agree with onnxruntime: nn.TransformerEncoder of every kind,
nn.MultiheadAttention, and networks around them (exports.py)."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from tests.numeric.onnx_nodes import difference
from tests.torch.exports import Case, both_ways, encoders, export, others

pytestmark = pytest.mark.torch
ALL = encoders() | both_ways() | others()
RUNS = [(n, e, d) for n, c in ALL.items() for e in c.exporters for d in (True, False)]
# Every network once; which exporter and whether its batch is fixed takes turns.
QUICK = [(n, c.exporters[k % len(c.exporters)], bool(k // 2 % 2)) for k, (n, c) in enumerate(ALL.items())]


def _compare(name: str, exporter: str, dynamic: bool, folder: Path) -> None:
    case: Case = ALL[name]
    path = folder / "m.onnx"
    inputs = export(case, path, exporter, dynamic)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(zip((i.name for i in session.get_inputs()), inputs, strict=True)))
    assert difference(path, inputs, folder, expected) < 1e-5


@pytest.mark.parametrize(("name", "exporter", "dynamic"), QUICK)
def test_exported_now(tmp_path: Path, name: str, exporter: str, dynamic: bool) -> None:
    _compare(name, exporter, dynamic, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "exporter", "dynamic"), [r for r in RUNS if r not in QUICK])
def test_every_way(tmp_path: Path, name: str, exporter: str, dynamic: bool) -> None:
    _compare(name, exporter, dynamic, tmp_path)


@pytest.mark.parametrize("name", ["encoder_steps_norm_gelu", "padded_batch", "seen"])
@pytest.mark.parametrize("opset", [18, 23])
def test_other_opsets(tmp_path: Path, name: str, opset: int) -> None:
    """23 has an operator for attention, which onnxruntime 1.32 cannot run with these masks: ONNX's reference
    implementation can."""
    path = tmp_path / "m.onnx"
    inputs = export(ALL[name], path, "dynamo", True, opset_version=opset)
    evaluator = ReferenceEvaluator(onnx.load(path))
    expected = evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))
    assert difference(path, inputs, tmp_path, expected) < 1e-5
