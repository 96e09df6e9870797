"""What kernels of CUDA do not ask, since it holds in all rows: compilers read a case less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level2.program import Array, Rows, SizeOf
from compiler.ir.space import DType, Role
from compiler.layout.row_facts import UNKNOWN, RowFacts
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of

MODEL = """
language: 1
network:
  inputs: {x: {shape: [WIDE]}, t: {shape: [WIDE]}}
  layers:
    - dense: {name: hidden, inputs: x, units: WIDE, activation: gelu}
    - layer_norm: {}
    - dense: {name: y, units: WIDE}
train:
  data: {file: data.npz, inputs: {x: x, t: t}}
  loss: {mean_squared_error: {prediction: y, target: t}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: 64
  epochs: 1
numerics: {precision: mixed}
"""


def test_facts_are_those_of_all_rows() -> None:
    arrays = {
        "whole": Array("whole", DType.F32, (64,), Role.WORK),
        "part": Array("part", DType.F32, (8,), Role.WORK, within="whole", first=2),
        "moving": Array("moving", DType.F32, (8,), Role.WORK, within="whole", by_step=6),
    }
    of = {"a": ("whole", "whole"), "b": ("whole", "part"), "c": ("moving", "whole")}
    columns = {"n": np.array([16, 24]), "m": np.array([3, 1 << 20]), "late": (SizeOf("whole"), 8)}
    facts = RowFacts(Rows(2, of, columns), arrays)
    assert facts.divides(8, "n") and not facts.divides(16, "n") and facts.divides(4, 8) and not facts.divides(8, 4)
    assert not facts.divides(1, "late") and not UNKNOWN.divides(1, "n")
    assert [facts.is_aligned(x, 16) for x in "abc"] == [True, False, False]
    assert [facts.is_aligned(x, 8) for x in "abc"] == [True] * 3 and not UNKNOWN.is_aligned("a", 4)
    assert facts.is_short(["n", "m"]) and not facts.is_short(["n", "m", 1 << 10])
    assert not facts.is_short(["n", "late"]) and facts.products(["n", 2]).tolist() == [32, 48]  # type: ignore[union-attr]


@pytest.mark.parametrize(("wide", "asks"), [(256, False), (252, True)])
def test_what_holds_in_all_rows_is_not_asked(tmp_path: Path, wide: int, asks: bool) -> None:
    """An epilogue of products takes a third more to compile with reads and writes of what is not aligned."""
    np.savez(tmp_path / "data.npz", x=np.zeros((64, wide), np.float32), t=np.zeros((64, wide), np.float32))
    program = lower(model_of(MODEL.replace("WIDE", str(wide)), tmp_path), CudaBackend().capabilities).merged
    parts = {x.name: x.text.split("/* ==== kernels")[1] for x in emit(program).parts}
    stored = "".join(text for name, text in parts.items() if name.startswith("stored_products"))
    assert stored.count("const bool nl_even = ") > 2
    assert (stored.count("const bool nl_even = true;") < stored.count("const bool nl_even = ")) == asks
    every = "".join(parts.values())
    assert "nl_take_short(" in every and "nl_take(rest, " not in every and "nl_is_aligned<" not in every
