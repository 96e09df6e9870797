"""Which populations `all` and classes mean, where some have no spikes or not the variable."""

from __future__ import annotations

from pathlib import Path

import pytest

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import ModelError
from compiler.frontend.load import load_model

HEAD = """
language: 1
neurons:
  cell: {state: {v: 0, w: 0}, update: [v = v + 0.1], spike: {when: v > 1, reset: [v = 0]}}
  rate: {state: {r: 0, w: 0}, dynamics: {dr/dt: -r / (10 ms)}}
classes: {silent: {neuron: rate}}
populations:
  a: {neuron: cell, size: 2}
  b: {classes: [silent], size: 2}
  c: {neuron: cell, size: 2}
simulate: {dt: 0.1 ms, duration: 1 ms}
"""


def loaded(folder: Path, text: str) -> l0.Model:
    path = folder / "model.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_model(path, {})


def test_all_are_those_that_have_it(tmp_path: Path) -> None:
    model = loaded(
        tmp_path,
        """
record:
  - spikes: {from: all}
  - rate: {from: all, every: 0.1 ms}
  - trace: {from: all, variables: [v, w, r]}
plots:
  - raster: {from: all}
  - rate: {from: all}
  - trace: {from: all, variable: v}
  - trace: {from: all, variable: w}
expect:
  - rate: {of: all, between: [0 Hz, 1 Hz]}
""",
    )
    assert [r.populations for r in model.spikes] == [("a", "c")]
    assert [r.population for r in model.rates] == ["a", "c"]
    traced = {r.population: r.variables for r in model.traces}
    assert traced == {"a": ("v", "w"), "b": ("w", "r"), "c": ("v", "w")}
    shown = [dict(p.args)["from"] for p in model.plots]
    assert shown == [("a", "c"), ("a", "c"), ("a", "c"), ("a", "b", "c")]
    assert [dict(e.args)["of"] for e in model.expect] == ["a", "c"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("spikes: {from: [a, b]}", "`b` never spikes"),
        ("spikes: {from: silent}", "`b` never spikes"),
        ("trace: {from: [a, b], variables: [v]}", "neuron `rate` of `b` has no state variable or input `v`"),
        ("trace: {from: all, variables: [w, x]}", "neuron `cell` of `a` has no state variable or input `x`"),
    ],
)
def test_what_is_named_must_have_it(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        loaded(tmp_path, f"record:\n  - {entry}\n")
    assert said in caught.value.diagnostics[0].message
