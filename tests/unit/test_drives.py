"""Drives in the emitted code: its size is independent of their number, and it compiles for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import backends.cpu.emit.emit
import backends.cuda.emit.emit
from backends.cuda.emit.compile import compile_text
from backends.registry import backend
from compiler.core.diagnostics import ModelError
from compiler.ir.level0.model import Const, Driven
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of

MANY = """\
language: 1
name: many
params: {n: {value: 10, type: int, min: 2}, level: {value: 3 pA}}
timed:
  drive: {values: [0 pA, 20 pA, 10 pA], every: 5 ms}
  rates: {values: [10 Hz, 90 Hz], every: 7 ms, interpolate: true}
neurons:
  cell:
    params: {tau: 10 ms, R: 0.1 GOhm, I_e: 0 pA, sigma: 1 mV}
    state: {v: 0 mV}
    inputs: {i: {unit: pA}, jump: {unit: mV}}
    dynamics: {dv/dt: (R * (I_e + i + drive(t)) - v) / tau + sigma * sqrt(2 / tau) * xi}
    update: [v = v + jump]
    spike: {when: v > 5 mV, reset: [v = 0 mV]}
currents:
  ramp: {params: {slope: 1 pA/ms}, value: slope * t + level}
populations:
  "p{k}": {for: {k: 0..n - 1}, neuron: cell, size: 2 + k, params: {tau: 10 ms + k * 1 ms}}
  "q{k}": {for: {k: 0..n - 1}, neuron: cell, size: 3, params: {I_e: (1 pA + k * 0.1 pA) * sin(t / (5 ms + k * 1 ms))}}
inputs:
  "ramp{k}": {for: {k: 0..n - 1}, to: "p{k}", current: {into: I_e, source: ramp, params: {slope: k * 1 pA/ms}}}
  "wave{k}": {for: {k: 0..n - 1}, to: "p{k}", current: {into: i, source: sine, params: {amplitude: 1 pA + k * 1 pA}}}
  "noise{k}":
    {for: {k: 0..n - 1}, to: "q{k}", current: {into: i, source: ornstein_uhlenbeck, params: {sigma: 1 pA + k * 1 pA}}}
  "rain{k}": {for: {k: 0..n - 1}, to: "q{k}", poisson: {into: jump, rate: rates(t) + k * 3 Hz, weight: 0.1 mV}}
simulate: {dt: 0.1 ms, duration: 20 ms, seed: 1}
record: [{spikes: {from: all}}]
"""


def merged(folder: Path, target: str, n: int, order: str = "reproducible") -> Merged:
    model = model_of(MANY + f"numerics: {{order: {order}}}\n", folder, {"n": str(n)})
    return lower(model, backend(target).capabilities, verify=True).merged


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_code_does_not_grow_with_drives(tmp_path: Path, target: str) -> None:
    emit = backends.cpu.emit.emit.emit if target == "cpu" else backends.cuda.emit.emit.emit
    few, many = (merged(tmp_path, target, n) for n in (3, 60))
    assert emit(few).text == emit(many).text
    kernels = sum("into" in t.name for t in few.templates)
    assert kernels == 7  # ramp, sine, OU, the formula, the Poisson input; a timed array and noise that equations read


@pytest.mark.nvrtc
@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_cuda_compiles(tmp_path: Path, order: str) -> None:
    program = merged(tmp_path, "cuda", 3, order)
    emitted = backends.cuda.emit.emit.emit(program)
    assert compile_text(emitted, "many", order == "bitwise", "sm_90").binary.stat().st_size > 1000


def test_a_constant_current_stays_a_number(tmp_path: Path) -> None:
    """`amplitude` into a parameter of one number costs no kernel."""
    text = """\
language: 1
name: constant
populations: {p: {neuron: lif, size: 2}, q: {neuron: lif, size: 2, params: {i_e: [1 pA, 2 pA]}}}
inputs: {a: {to: [p, q], current: {into: i_e, amplitude: 100 pA}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
"""
    model = model_of(text, tmp_path)
    assert dict(model.populations[0].params)["i_e"] == Const(100.0)
    assert [(d.population, d.into) for d in model.drives] == [("q", "i_e")]


def test_driven_values_and_hidden_parameters(tmp_path: Path) -> None:
    model = model_of(MANY, tmp_path, {"n": "2"})
    p, q = model.populations[0], model.populations[2]
    assert isinstance(dict(q.params)["I_e"], Driven)
    assert [d.name for d in p.neuron.params if d.name.startswith("_")] == ["_drive", "_xi"]
    into = {(d.population, d.into) for d in model.drives}
    assert {("p0", "_drive"), ("p0", "_xi"), ("p0", "I_e"), ("p0", "i"), ("q0", "I_e"), ("q0", "i")} <= into


def test_library_names_without_a_path(tmp_path: Path) -> None:
    """`use: lif` and `neuron: lif` mean the library where the file has no `lif`; the file's own wins."""
    text = """\
language: 1
name: names
neurons: {mine: {use: lif, params: {tau_m: 5 ms}}, izhikevich: {state: {v: 0}}}
currents: {wave: {use: sine, params: {frequency: 3 Hz}}}
populations: {p: {neuron: mine, size: 1}, q: {neuron: izhikevich, size: 1}, r: {neuron: qif, size: 1}}
inputs: {a: {to: p, current: {into: i_e, source: wave, params: {amplitude: 1 pA}}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
"""
    model = model_of(text, tmp_path)
    assert dict(model.populations[0].params)["tau_m"] == Const(5.0)
    assert [s.name for s in model.populations[1].neuron.state] == ["v"]
    assert dict(model.drives[0].params)["frequency"] == Const(0.003)
    with pytest.raises(ModelError) as caught:
        model_of(text.replace("use: lif", "use: lift"), tmp_path)
    assert caught.value.diagnostics[0].help == "did you mean `lif`?"
