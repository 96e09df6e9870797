"""Level 0: invalid shared, rewired and formed synapses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model, Projection
from compiler.verify.model import model_violations

TEXT = """\
language: 1
neurons: {cell: {state: {v: 0}, inputs: {g: {}}, update: [v = v + g], spike: {when: v > 1, reset: [v = 0]}}}
phases: {day: {every: 5 ms, events: {end: 5 ms}}}
synapses:
  grows:
    state: {w: 1, dw: 0}
    shared: [w]
    on_pre: [deliver(w), dw = dw + 1]
    on: {day.end: [w = w + mean_instances(dw), remove(w < 0), "form(random() < 0.1, indegree)"]}
populations: {a: {neuron: cell, size: 9}}
projections:
  p: {from: a, to: a, connect: {fixed_outdegree: {number: 5}}, synapse: grows, occupied: 0.5, deliver: {into: g}}
simulate: {dt: 1 ms, duration: 1 s}
"""


def _with(model: Model, **changed: object) -> Model:
    p = model.projections[0]
    assert p.synapse is not None
    broken: Projection
    part = changed.get("occupied")
    if isinstance(part, float):
        broken = replace(p, members=tuple(replace(m, occupied=part) for m in p.members))
    else:
        broken = replace(p, synapse=replace(p.synapse, **changed))  # type: ignore[arg-type]
    return replace(model, projections=(broken,))


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"shared": ("x",)}, "`x` is shared, but is not a state"),
        ({"rewired": "outdegree"}, "what is rewired keeps"),
        ({"rewired": None}, "what is rewired keeps"),
        ({"vacancies": False}, "removed or formed without vacancies"),
        ({"occupied": 1.5}, "has 1.5 of its places occupied"),
    ],
)
def test_breaches_are_found(tmp_path: Path, changed: dict[str, object], part: str) -> None:
    (tmp_path / "m.yaml").write_text(TEXT)
    model = load_model(tmp_path / "m.yaml", {})
    assert not list(model_violations(model))
    found = list(model_violations(_with(model, **changed)))
    assert any(part in v for v in found), found
