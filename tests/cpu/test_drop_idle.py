"""Populations without equations and deliveries that change nothing have no kernels, and are not launched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.opencl.emit import emit as emit_opencl
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes import passes_for
from compiler.passes.pipeline.lower import lower
from tests.construct_runs import lowered, results

MODEL = """\
language: 1
name: idle
neurons:
  still: {state: {v: 1}}
  held: {state: {v: 1}, inputs: {g: {}}, update: [v = v + g]}
  fires: {state: {x: 0}, update: [x = x + 0.3], spike: {when: x > 1, reset: [x = 0]}}
synapses:
  nothing: {state: {w: 1}, on_pre: []}
  same: {state: {w: 1}, on_pre: [w = w]}
  zero: {state: {w: 1}, on_pre: [deliver(0)]}
populations:
  a: {neuron: fires, size: 4}
  b: {neuron: still, size: 4}
  c: {neuron: held, size: 4}
projections:
  ab: {from: a, to: c, connect: {all_to_all: {}}, synapse: nothing}
  ac: {from: a, to: c, connect: {all_to_all: {}}, synapse: same}
  ad: {from: a, to: c, connect: {all_to_all: {}}, synapse: zero, deliver: {into: g}}
  ae: {from: a, to: c, connect: {all_to_all: {}}, deliver: {into: g, weight: 0.5}}
simulate: {dt: 1 ms, duration: 9 ms, seed: 1}
record:
  - trace: {from: [b, c], variables: [v], members: all}
numerics: {order: ORDER}
"""
ALONE = """\
language: 1
name: alone
neurons:
  still: {state: {v: 0}}
populations:
  b: {neuron: still, size: 4}
simulate: {dt: 1 ms, duration: 9 ms, seed: 1}
"""
IDLE = ("(still)", "(nothing)", "(same)", "(zero)")


@pytest.mark.parametrize("order", ["fast", "reproducible", "bitwise"])
@pytest.mark.parametrize("target", ["cpu", "cuda", "opencl", "reference"])
def test_what_changes_nothing_is_not_launched(tmp_path: Path, target: str, order: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(MODEL.replace("ORDER", order), encoding="utf-8")
    model = load_model(path, {})
    merged = lowered(model, target)
    assert not [t.name for t in merged.templates if t.name.endswith(IDLE)]
    step = next(p for p in merged.phases if p.name == "step")
    assert len(step.launches) == 4  # two populations, one projection, the record
    every = frozenset(p.name for p in passes_for() if p.optional) - {"drop_idle"}
    without = lower(model, backend(target).capabilities, only=every).merged
    assert len([t.name for t in without.templates if t.name.endswith(IDLE)]) == 3  # none for no statements at all


def test_results_are_the_same(tmp_path: Path, cc: list[str]) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(MODEL.replace("ORDER", "bitwise"), encoding="utf-8")
    model = load_model(path, {})
    ours, theirs = results(model, tmp_path, "cpu"), results(model, tmp_path, "reference")
    assert ours.keys() == theirs.keys() and all(np.array_equal(ours[n], theirs[n]) for n in ours)
    assert ours["b.v"].tolist() == [1] * 4 and ours["c.v"].tolist() == [5] * 4


def test_a_model_without_any_kernel_runs(tmp_path: Path, cc: list[str]) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(ALONE, encoding="utf-8")
    model = load_model(path, {})
    merged = lowered(model, "cuda")
    assert not merged.templates
    compile_text(emit_cuda(merged), "alone", False, "sm_90")
    assert emit_c(lowered(model, "cpu")).text and emit_opencl(lowered(model, "opencl"))
    for target in ("cpu", "reference"):
        assert results(model, tmp_path, target)["b.v"].tolist() == [0] * 4
