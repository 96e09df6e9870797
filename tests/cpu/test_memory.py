"""Memory per static synapse, from the sizes of a loaded program: uniform values take no bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.run.load import CpuInstance
from backends.cuda.run.backend import CudaBackend
from backends.registry import backend
from compiler.ir.level0.model import Model
from compiler.layout.plan_memory import place
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: memory
params: {{amount: {{value: 0.1}}}}
neurons: {{cell: {{state: {{v: 0}}, inputs: {{g: {{}}}}, update: [v = v + g], spike: {{when: v > 1, reset: [v = 0]}}}}}}
populations: {{a: {{neuron: cell, size: 500}}}}
projections:
  p: {{from: a, to: a, connect: {{{connect}}}, deliver: {{into: g, weight: {weight}}}, delay: {delay}}}
simulate: {{dt: 0.1 ms, duration: 1 ms}}
record: [{{spikes: {{from: a}}}}]
numerics: {{order: {order}}}
"""
RULES = {
    "fixed_probability": "fixed_probability: {p: amount}",
    "fixed_indegree": "fixed_indegree: {number: round(500 * amount)}",
    "fixed_total": "fixed_total: {number: round(250000 * amount)}",
}
DRAWN = "{normal: {mean: 0.1, std: 0.02}}"
LATE = "{uniform: {low: 0.1 ms, high: 25.5 ms, round: nearest}}"  # up to 255 steps


def held(model: Model, folder: Path) -> tuple[int, int, int]:
    """(synapses, bytes of everything on the CPU, bytes of everything on a GPU)."""
    chosen = backend("cpu")
    merged = lower(model, chosen.capabilities, verify=True).merged
    instance = chosen.load(chosen.build(merged, folder, {}), merged, 1)
    assert isinstance(instance, CpuInstance)
    on_gpu = place(lower(model, CudaBackend().capabilities, verify=True).merged, instance.sizes)
    number = int(instance.read("p[a->a]'row")[-1])
    return number, sum(a.nbytes for a in instance.arenas.values()), sum(on_gpu.arena_bytes.values())


EACH = [
    (DRAWN, LATE, 9),  # target, weight, delay
    ("0.1", LATE, 5),  # one weight
    (DRAWN, "1.5 ms", 8),  # one delay
    ("0.1", "1.5 ms", 4),
]


@pytest.mark.parametrize(("rule", "each", "order"), diagonal(list(RULES), EACH, ["reproducible", "bitwise"], leading=2))
def test_bytes_of_a_sparse_synapse(tmp_path: Path, rule: str, each: tuple[str, str, int], order: str) -> None:
    """Memory per additional synapse, at three times as many; arenas are padded to 64 bytes."""
    weight, delay, bytes_each = each
    text = TEXT.format(connect=RULES[rule], weight=weight, delay=delay, order=order)
    few, many = (held(model_of(text, tmp_path, {"amount": str(p)}), tmp_path / str(p)) for p in (0.1, 0.3))
    more = many[0] - few[0]
    assert more > 45_000
    for a, b in zip(few[1:], many[1:], strict=True):
        assert (b - a) / more == pytest.approx(bytes_each, abs=0.01)
