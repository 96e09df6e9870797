"""What compilers read grows no faster than the number of different models, counted in text and units; and populations
and projections of one kind cost few calls each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compiler.ir.level2.program as l2
from backends.cpu.backend import CpuBackend
from backends.cpu.emit.emit import emit as emit_c
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from backends.protocol import Backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from tests.work import at_most

HEAD = "language: 1\nsimulate: {dt: 0.1 ms, duration: 1 ms}\n"
NEURON = """
  n{n}:
    inputs: {{i: {{unit: mV}}}}
    state: {{v: 0 mV}}
    dynamics: {{dv/dt: -v / (10 ms) + i / (1 ms) + (2 mV / (1 ms)) * ({f})}}
    spike: {{when: v > 1 mV, reset: ["v = 0 mV"]}}"""


def with_models(folder: Path, many: int, backend: Backend) -> l2.Merged:
    """As many neuron models, no two of which have the same kernel: nested functions by the digits of their numbers."""
    populations, neurons = "populations:", "neurons:"
    for n in range(many):
        f, rest = "v / (1 mV)", n
        for _ in range(5):
            f, rest = f"{('sin', 'cos', 'tanh')[rest % 3]}({f})", rest // 3
        populations += f"\n  p{n}: {{neuron: n{n}, size: 10}}"
        neurons += NEURON.format(n=n, f=f)
    path = folder / f"models{many}.yaml"
    path.write_text(f"{HEAD}{populations}\n{neurons}\n", encoding="utf-8")
    return lower(load_model(path, {}), backend.capabilities).merged


def test_units_of_many_models_are_more_but_not_longer(tmp_path: Path) -> None:
    """The time that NVRTC takes for a kernel of waves grows faster than its text."""
    lengths = []
    for many in (20, 40):
        emitted = emit(with_models(tmp_path, many, CudaBackend()))
        assert sum("neuron_update(NL_ARGUMENTS)" in line for line in emitted.text.split("\n")) == many
        lengths.append([len(x.text) for x in emitted.parts])
    few, many_more = lengths
    assert len(few) > 2 and 1.4 * len(few) <= len(many_more) <= 2 * len(few)
    assert max(many_more) <= 1.02 * max(few)
    assert sum(many_more) <= 2.1 * sum(few)


def test_functions_that_many_models_call_are_not_copied(tmp_path: Path) -> None:
    """Each copy of a sine costs gcc a tenth of a second. A kernel has twenty."""
    lengths = []
    for many in (1, 20, 40):
        text = emit_c(with_models(tmp_path, many, CpuBackend())).text
        assert not re.findall(r"NL_FN float nl_(?:sin|cos|tanh)_f32\(", text)
        lengths.append(len(text))
    assert lengths[2] <= 2.1 * lengths[1]


@pytest.mark.parametrize(
    ("f", "shared"),
    [
        ("exp(v / (1 mV))", False),
        ("exp(v / (1 mV)) + exp(v / (2 mV))", True),
        ("abs(v / (1 mV)) + abs(v / (2 mV))", False),
        ("(exp(v / (1 mV)) + exp(v / (2 mV)) if v < 1 mV else 1)", False),
    ],
)
def test_functions_of_few_calls_or_under_conditions_are_copied(tmp_path: Path, f: str, shared: bool) -> None:
    """With the four slopes of a step; a loop with a call under a condition would not be vectorised."""
    path = tmp_path / "one.yaml"
    text = f"{HEAD}populations:\n  p: {{neuron: n0, size: 10}}\nneurons:{NEURON.format(n=0, f=f)}\n"
    path.write_text(text, encoding="utf-8")
    text = emit_c(lower(load_model(path, {}), CpuBackend().capabilities).merged).text
    assert ("NL_SHARED" in text) == shared


FAMILY = (
    HEAD
    + """
neurons:
  lif:
    params: {tau: 10 ms}
    inputs: {i: {unit: mV, decay: 5 ms}}
    state: {v: 0 mV}
    dynamics: {dv/dt: (i - v) / tau}
    spike: {when: v > 10 mV, reset: [v = 0 mV]}
populations:
  "p{k}":
    for: {k: 0..39}
    neuron: lif
    size: 10
    params: {tau: 10 ms + k * 1 ms}
    init: {v: {uniform: {low: 0 mV, high: 10 mV}}}
record: [spikes: {from: all}]
projections:
"""
)
ALL = "  all: {from: all, to: all, connect: {fixed_total: {number: 20}}, deliver: {into: i, weight: 1 mV}}\n"
RING = """
  "q{k}":
    for: {k: 0..39}
    from: p{k}
    to: p{(k + 1) % 40}
    connect: {fixed_probability: {p: 0.2}}
    deliver: {into: i, weight: 1 mV + k * 0.1 mV}
"""


@pytest.mark.parametrize(("projections", "loading", "lowering"), [(ALL, 75_000, 100_000), (RING, 18_200, 12_600)])
def test_projections_of_one_kind_cost_few_calls(tmp_path: Path, projections: str, loading: int, lowering: int) -> None:
    """They are lowered at once: 53 calls for each of 1,600, of which one by one would take 120."""
    path, capabilities = tmp_path / "family.yaml", CpuBackend().capabilities
    path.write_text(FAMILY + projections, encoding="utf-8")
    lower(load_model(path, {}), capabilities)  # modules are imported, and what is read once is known
    with at_most(loading):
        model = load_model(path, {})
    with at_most(lowering):
        lower(model, capabilities)
