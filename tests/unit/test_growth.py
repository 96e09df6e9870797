"""What compilers read grows no faster than the number of different models, counted in text and units."""

from __future__ import annotations

from pathlib import Path

import compiler.ir.level2.program as l2
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from backends.protocol import Backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower

HEAD = "language: 1\nsimulate: {dt: 0.1 ms, duration: 1 ms}\n"
NEURON = """
  n{n}:
    inputs: {{i: {{unit: mV}}}}
    state: {{v: 0 mV}}
    dynamics: {{dv/dt: -v / (10 ms) + i / (1 ms) + (2 mV / (1 ms)) * {f}}}
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
