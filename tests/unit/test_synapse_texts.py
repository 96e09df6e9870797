"""Texts of plastic projections: equal for 10 and for 1,000, and the CUDA text compiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.cuda.run.backend import CudaBackend
from backends.registry import backend
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of
from tests.numeric.synapse_oracle import everything, model_text


def merged(text: str, folder: Path, target: str) -> Merged:
    return lower(model_of(text, folder), backend(target).capabilities, verify=True).merged


@pytest.mark.parametrize("order", ["reproducible", pytest.param("bitwise", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("target", "emit"), [("cpu", emit_c), ("cuda", emit_cuda)])
def test_few_and_many_give_one_text(tmp_path: Path, order: str, target: str, emit: Callable[[Merged], object]) -> None:
    """Ten, and a hundred or (in slow tests) a thousand."""
    numerics = f"{{precision: float32, order: {order}}}"
    counts = (10, 100 if order == "reproducible" else 1000)
    few, many = (merged(everything(numerics, count), tmp_path, target) for count in counts)
    assert len(many.templates) == len(few.templates)
    assert emit(few).text == emit(many).text  # type: ignore[attr-defined]
    step = next(p for p in many.phases if p.name == "step")
    assert len(step.launches) < 20  # rows of one stage run together


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize(
    ("precision", "order"), [("float32", "reproducible"), ("float64", "bitwise"), ("float32", "fast")]
)
def test_cuda_compiles(tmp_path: Path, precision: str, order: str) -> None:
    program = merged(everything(f"{{precision: {precision}, order: {order}}}", 2), tmp_path, "cuda")
    artifact = compile_text(emit_cuda(program), "everything", order == "bitwise", "sm_90")
    assert artifact.binary.read_bytes().startswith(b"\x7fELF")


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("name", ["stdp_additive", "stdp_triplet", "tsodyks_markram", "graded", "stochastic_release"])
def test_the_library_compiles_for_cuda(tmp_path: Path, name: str) -> None:
    projections = f"""\
  plastic: {{from: s, to: t, connect: {{all_to_all: {{}}}}, synapse: library/synapses/{name}, deliver: {{into: a}},
            params: {{{"w_0: 1 mV" if "triplet" in name else "w_max: 1 mV" if "stdp" in name else "w: 1 mV"}}}}}
"""
    text = model_text([(5, 0)], [(6, 0)], (2, 2), projections)
    artifact = CudaBackend().build(merged(text, tmp_path, "cuda"), tmp_path / "build", {"arch": "sm_90"})
    assert artifact.binary.exists()


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
def test_delays_that_differ_compile_for_cuda(tmp_path: Path) -> None:
    """One text and a row for each age, launched one after the other: they write the same synapses."""
    synapse = """\
synapses:
  counting:
    params: {tau: 3 ms}
    state: {n: 0, s: 0}
    dynamics: {ds/dt: -s / tau}
    event_driven: true
    on_pre: [deliver((1 mV) * (1 + s)), n = n + 1, s = s + 1]
"""
    projections = """\
  plastic: {from: s, to: t, connect: {fixed_probability: {p: 0.5}}, synapse: counting, deliver: {into: a},
            delay: {uniform: {low: 0.1 ms, high: 0.8 ms, round: nearest}}}
"""
    program = merged(model_text([(5, 0)], [(6, 0)], (9, 9), projections, synapse), tmp_path, "cuda")
    step = next(p for p in program.phases if p.name == "step")
    aged = [x for x in step.launches if program.templates[x.template].name.endswith("on_pre (counting)")]
    assert len(aged) == 8
    assert all(x.hi - x.lo == 1 for x in aged)
    assert len({x.template for x in aged}) == 1
    artifact = compile_text(emit_cuda(program), "ages", False, "sm_90")
    assert artifact.binary.read_bytes().startswith(b"\x7fELF")
