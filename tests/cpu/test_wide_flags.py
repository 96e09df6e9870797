"""Flags of events beside many values are as wide as these; the spikes are the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of, simulate

pytestmark = pytest.mark.usefixtures("cc")


def text_of(states: int) -> str:
    names = [f"x{k}" for k in range(states)]
    update = ", ".join(
        f"{a} = {a} + 0.1 * ({b} + self.i + 1)" for a, b in zip(names, names[1:] + names[:1], strict=True)
    )
    held = ", ".join(f"{n}: 0.{k + 1}" for k, n in enumerate(names))
    return f"""language: 1
name: many
neurons:
  cell: {{state: {{{held}}}, update: [{update}], spike: {{when: x0 > 5, reset: [x0 = 0]}}}}
populations: {{a: {{neuron: cell, size: 1300}}}}
simulate: {{dt: 1 ms, duration: 12 ms}}
record: [{{spikes: {{from: a}}}}]
"""


@pytest.mark.parametrize(("states", "wide"), [(4, False), (40, True)])
def test_flags(states: int, wide: bool, tmp_path: Path) -> None:
    model = model_of(text_of(states), tmp_path)
    cpu = backend("cpu")
    emitted = cpu.emit(lower(model, cpu.capabilities).merged)
    assert bool(re.search(r"nl_i32 flags\w*\[NL_CHUNK\]", emitted)) == wide
    spikes = [simulate(text_of(states), tmp_path, target=t).spikes["a"] for t in ("cpu", "reference")]
    assert len(spikes[0]) > 1300
    np.testing.assert_array_equal(*spikes)
