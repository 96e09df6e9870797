"""Loops that call functions of vectors are vectorised, also where a neuron may be refractory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.emit.build import find_compiler, flags
from backends.cpu.emit.emit import emit
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower

MODEL = """
language: 1
neurons:
  channels:
    state: {v: -65 mV, m: 0.1, h: 0.1}
    dynamics:
      dv/dt: (-65 mV - v) / (10 ms) + m * h * (50 mV - v) / (1 ms)
      dm/dt: 1 / exprel((-40 mV - v) / (10 mV)) * (1 - m) / (1 ms) - 4 * m / (1 ms)
      dh/dt: 1 / exprel((-50 mV - v) / (5 mV)) * (1 - h) / (1 ms) - h / (1 ms)
    spike: {when: v > -20 mV, reset: [v = -65 mV], refractory: 2 ms}
populations: {p: {neuron: channels, size: 100}}
simulate: {dt: 0.1 ms, duration: 1 ms}
"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_neurons_with_a_refractory_period_are_vectorised(tmp_path: Path, cc: list[str], precision: str) -> None:
    """gcc moves a call that only neurons outside of the period need into that branch, unless it is told not to."""
    version = subprocess.run([*cc, "--version"], capture_output=True, text=True, check=True).stdout
    if "gcc" not in version.lower() and "Free Software Foundation" not in version:
        pytest.skip("only with GCC, whose report it reads")
    path = tmp_path / "channels.yaml"
    path.write_text(f"{MODEL}numerics: {{precision: {precision}}}\n", encoding="utf-8")
    emitted = emit(lower(load_model(path, {}), CpuBackend().capabilities).merged)
    assert "NL_SHARED" in emitted.text
    options = flags(False, False, emitted.text)
    (tmp_path / "channels.c").write_text(emitted.text, encoding="utf-8")
    (tmp_path / "netloom.h").write_text(emitted.header, encoding="utf-8")
    command = [*find_compiler().command, *options, "-fopt-info-vec", "channels.c", "-o", "channels.so"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    lines = emitted.text.split("\n")
    loop = next(i for i, text in enumerate(lines, 1) if "for (nl_i64 i = base; i < end; i++)" in text)
    assert any("vectorized" in x and x.split(":")[1] == str(loop) for x in said.split("\n")), said
