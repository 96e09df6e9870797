"""What definitions bring along from their files: functions, synapses, phases; named parts; classes of projections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.core.errors import ModelError
from compiler.frontend.load import load_model
from compiler.frontend.resolve.use import LibraryFinder
from compiler.ir.level0.model import Model
from compiler.runtime.artifacts.expanded import expanded_yaml
from compiler.runtime.common.hashes import model_hash
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import check_model

LIBRARY = """language: 1
functions:
  half(x): 0.5 * x
  quarter(x): half(half(x))
phases:
  trial: {every: 10 ms, events: {start: 0 ms, end: 10 ms}}
  unread: {every: 0.3 ms}
neurons:
  base:
    inputs: {raw: {}}
    state: {g: 0, v: 0, k: 0}
    update:
      - gather: [g = quarter(raw)]
      - special: []
      - membrane: [v = v + 0.1 * (g - v) + 0.02]
    spike: {when: v > 0.1, reset: [v = 0]}
    on: {trial.start: [k = k + 1]}
  fast: {use: base, update: {membrane: [v = v + 0.2 * (g - v) + 0.05]}}
synapses:
  plastic:
    params: {rate: 0.1}
    state: {w: 1}
    on_pre: [deliver(quarter(w)), w = w + half(rate)]
projections:
  forward: {connect: {all_to_all: {}}, synapse: plastic, deliver: {into: raw}, delay: 1 ms}
"""

MODEL = """language: 1
name: m
functions: {half(x): 100 * x}
classes: {late: {delay: 3 ms, params: {rate: 0.2}}}
neurons:
  mine: {use: LIB#fast, update: {special: [g = g + half(0.001)]}}
populations:
  a: {neuron: LIB#base, size: 4}
  b: {neuron: mine, size: 4}
projections:
  ab: {use: LIB#forward, from: a, to: b}
  ba: {use: LIB#forward, classes: [late], from: b, to: a, delay: 4 ms}
simulate: {dt: 1 ms, duration: 50 ms}
record: [{trace: {from: [a, b], variables: [k, v, g], every: 1 ms}}]
"""

FLAT = """language: 1
name: m
functions: {half(x): 100 * x}
phases: {trial: {every: 10 ms, events: {start: 0 ms, end: 10 ms}}}
neurons:
  base: &base
    inputs: {raw: {}}
    state: {g: 0, v: 0, k: 0}
    update: [g = 0.5 * (0.5 * raw), v = v + 0.1 * (g - v) + 0.02]
    spike: {when: v > 0.1, reset: [v = 0]}
    on: {trial.start: [k = k + 1]}
  mine:
    use: base
    update: [g = 0.5 * (0.5 * raw), g = g + 100 * 0.001, v = v + 0.2 * (g - v) + 0.05]
synapses:
  plastic:
    params: {rate: 0.1}
    state: {w: 1}
    on_pre: [deliver(0.5 * (0.5 * w)), w = w + 0.5 * rate]
populations:
  a: {neuron: base, size: 4}
  b: {neuron: mine, size: 4}
projections:
  ab: {connect: {all_to_all: {}}, synapse: plastic, deliver: {into: raw}, from: a, to: b, delay: 1 ms}
  ba:
    connect: {all_to_all: {}}
    synapse: plastic
    params: {rate: 0.2}
    deliver: {into: raw}
    from: b
    to: a
    delay: 4 ms
simulate: {dt: 1 ms, duration: 50 ms}
record: [{trace: {from: [a, b], variables: [k, v, g], every: 1 ms}}]
""".replace("&base", "")


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def model(folder: Path, reference: str = "lib.yaml") -> Model:
    return load_model(written(folder / "m.yaml", MODEL.replace("LIB", reference)))


@pytest.mark.parametrize("where", ["lib.yaml", "parts/lib.yaml", "../lib.yaml"])
def test_definitions_see_their_own_file(tmp_path: Path, where: str) -> None:
    folder = tmp_path / "models"
    written(folder / where, LIBRARY)
    assert model_hash(model(folder, where)) == model_hash(load_model(written(tmp_path / "flat.yaml", FLAT)))


def test_a_file_of_a_file(tmp_path: Path) -> None:
    """References in a file count from its folder, at every level."""
    written(tmp_path / "parts" / "inner.yaml", LIBRARY)
    outer = "language: 1\nneurons:\n  base: {use: inner.yaml#base}\n  fast: {use: inner.yaml#fast}\n"
    outer += "projections: {forward: {use: inner.yaml#forward}}\n"
    written(tmp_path / "parts" / "lib.yaml", outer)
    assert model_hash(model(tmp_path, "parts/lib.yaml")) == model_hash(load_model(written(tmp_path / "f.yaml", FLAT)))


def test_a_file_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "library" / "house.yaml", LIBRARY)
    monkeypatch.setattr(LibraryFinder, "file", lambda self, name: tmp_path / "library" / f"{name}.yaml")
    found = model(tmp_path, "library/house")
    assert model_hash(found) == model_hash(load_model(written(tmp_path / "flat.yaml", FLAT)))


def test_only_phases_that_are_read_come_along(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", LIBRARY)
    assert [p.name for p in model(tmp_path).phases] == ["trial"]


def test_a_phase_of_the_model_wins(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", LIBRARY)
    text = MODEL.replace("LIB", "lib.yaml") + "phases: {trial: {use: lib.yaml#trial, every: 20 ms}}\n"
    (phase,) = load_model(written(tmp_path / "m.yaml", text)).phases
    assert phase.every == 20 and [name for name, _ in phase.events] == ["start", "end"]


def test_the_expanded_model_says_the_same(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", LIBRARY)
    before = model(tmp_path)
    text = expanded_yaml(tmp_path / "m.yaml", {})
    assert "half_(x)" in text
    after = load_model(written(tmp_path / "expanded.yaml", text))
    assert model_hash(replace(after, functions=before.functions)) == model_hash(before)


def test_a_function_that_calls_itself_in_another_file(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", LIBRARY.replace("half(x): 0.5 * x", "half(x): quarter(x)"))
    with pytest.raises(ModelError) as caught:
        model(tmp_path)
    found = caught.value.diagnostics[0]
    assert found.code == "E0307" and Path(found.file).name == "lib.yaml" and "calls itself" in found.message


def test_definitions_alone_are_checked(tmp_path: Path) -> None:
    path = written(tmp_path / "lib.yaml", LIBRARY)
    assert check_model(path, Options(), lowered=False).name == "lib"
    wrong = written(tmp_path / "wrong.yaml", LIBRARY.replace("v = v + 0.1 * (g - v) + 0.02", "v = v + missing"))
    (found,) = check_model(wrong, Options(), lowered=False).diagnostics
    assert found.code == "E0302" and "missing" in found.message


def test_definitions_alone_do_not_run(tmp_path: Path) -> None:
    found = check_model(written(tmp_path / "lib.yaml", LIBRARY), Options(), lowered=True)
    assert [d.code for d in found.diagnostics] == ["E0103"]


def test_parts_of_handlers_synapses_and_pools(tmp_path: Path) -> None:
    text = """language: 1
neurons:
  base:
    state: {v: 0, k: 0}
    pool:
      reduce: {top: max(v)}
      state: {g: 0}
      update: [{raise: [g = g + top]}, {leak: [g = 0.5 * g]}]
    update: [v = v + 0.1 * pool.g + 0.1]
    spike: {when: v > 1, reset: [{zero: [v = 0]}, {count: [k = k + 1]}]}
    on: {trial.start: [{first: [k = 0]}, v = 0.5]}
  other:
    use: base
    pool: {reduce: {top: max(v)}, update: {leak: []}}
    spike: {when: v > 2, reset: {count: [k = k + 2]}}
    on: {trial.start: {first: [k = 7]}}
populations: {a: {neuron: other, size: 3}}
phases: {trial: {every: 10 ms, events: {start: 0 ms}}}
simulate: {dt: 1 ms, duration: 50 ms}
"""
    neuron = load_model(written(tmp_path / "m.yaml", text)).populations[0].neuron
    assert neuron.spike is not None
    assert [[s.target for s in p.update] for p in neuron.pools] == [["pool.g"]]
    assert [s.target for s in neuron.spike.reset] == ["v", "k"]
    assert [[s.target for s in h.actions] for h in neuron.on] == [["k", "v"]]


def test_parts_may_leave_nothing_of_an_event(tmp_path: Path) -> None:
    text = """language: 1
neurons:
  base:
    state: {v: 0, k: 0}
    update: [v = v + 0.1]
    spike: {when: v > 1, reset: [v = 0]}
    on: {trial.start: [{count: [k = k + 1]}, {more: []}], trial.end: [v = 0]}
  still: {use: base, on: {trial.start: {count: []}}}
populations: {a: {neuron: still, size: 3}}
phases: {trial: {every: 10 ms, events: {start: 0 ms, end: 10 ms}}}
simulate: {dt: 1 ms, duration: 50 ms}
"""
    neuron = load_model(written(tmp_path / "m.yaml", text)).populations[0].neuron
    assert [(h.event, [s.target for s in h.actions]) for h in neuron.on] == [("end", ["v"])]
