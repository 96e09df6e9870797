"""What definitions bring along from their files: functions, synapses, phases; named parts; classes of projections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.core.diagnostics import ModelError
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
    assert "half_2(x)" in text
    after = load_model(written(tmp_path / "expanded.yaml", text))
    assert model_hash(replace(after, functions=before.functions)) == model_hash(before)


def test_replaced_parts_call_functions_of_the_file(tmp_path: Path) -> None:
    """A name that the model does not declare, and one file does, is that file's; so in a file that takes from it."""
    written(tmp_path / "lib.yaml", LIBRARY)
    middle = "language: 1\nneurons:\n  fast: {use: lib.yaml#fast, update: {special: [g = g + quarter(0.4)]}}\n"
    written(tmp_path / "middle.yaml", middle)
    own = "language: 1\nname: m\nneurons: {mine: {use: FILE, update: {special: [g = g + TERM]}}}\n"
    own += "populations: {a: {neuron: mine, size: 4}}\nsimulate: {dt: 1 ms, duration: 5 ms}\n"
    plain = own.replace("FILE", "lib.yaml#fast").replace("TERM", "0.5 * (0.5 * 0.4)")
    expected = model_hash(load_model(written(tmp_path / "plain.yaml", plain)))
    called = load_model(
        written(tmp_path / "m.yaml", own.replace("FILE", "lib.yaml#fast").replace("TERM", "quarter(0.4)"))
    )
    assert model_hash(called) == expected
    again = expanded_yaml(tmp_path / "m.yaml", {})
    assert "quarter(x)" in again
    assert model_hash(replace(load_model(written(tmp_path / "x.yaml", again)), functions=called.functions)) == expected
    between = own.replace("{use: FILE, update: {special: [g = g + TERM]}}", "{use: middle.yaml#fast}")
    assert model_hash(load_model(written(tmp_path / "b.yaml", between))) == expected


def test_a_function_of_two_files_is_not_guessed(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", LIBRARY)
    written(
        tmp_path / "two.yaml",
        "language: 1\nfunctions: {quarter(x): x / 4}\nneurons: {n: {update: [v = 1], state: {v: 0}}}\n",
    )
    text = MODEL.replace("LIB", "lib.yaml").replace("half(0.001)", "quarter(0.001)")
    text = text.replace("b: {neuron: mine", "c: {neuron: two.yaml#n, size: 1}\n  b: {neuron: mine")
    with pytest.raises(ModelError) as caught:
        load_model(written(tmp_path / "m.yaml", text))
    assert caught.value.diagnostics[0].code == "E0303"


CLASSED = LIBRARY.replace("projections:\n  forward: {", "classes:\n  every: {").replace(", delay: 1 ms}\n", "}\n")
CLASSED += "  slow: {delay: 1 ms}\nprojections:\n  forward: {classes: [every, slow]}\n"


def test_classes_of_the_file_come_along(tmp_path: Path) -> None:
    written(tmp_path / "lib.yaml", CLASSED)
    text = MODEL.replace("LIB", "lib.yaml").replace("classes: [late]", "params: {rate: 0.2}")
    found = {p.name: p for p in load_model(written(tmp_path / "m.yaml", text)).projections}
    flat = {p.name: p for p in load_model(written(tmp_path / "flat.yaml", FLAT)).projections}
    assert [m.delay for m in found["ab"].members] == [1]
    assert found["ba"].members == flat["ba"].members and found["ab"].members == flat["ab"].members


TABLES = """language: 1
tables:
  gain: {values: [0, 1, 3], from: 0, to: 2}
  unread: {values: [0, 1, 3], from: 0, to: 2}
functions: {twice(x): 2 * gain(x)}
neurons: {cell: {inputs: {g: {}}, state: {v: 0}, update: [v = 0.9 * v + twice(g)]}}
"""


def test_tables_come_along(tmp_path: Path) -> None:
    lib = written(tmp_path / "lib.yaml", TABLES)
    assert check_model(lib, Options(), lowered=False).name == "lib"
    text = "language: 1\nname: m\npopulations: {a: {neuron: lib.yaml#cell, size: 2}}\n"
    text += "simulate: {dt: 1 ms, duration: 5 ms}\n"
    found = load_model(written(tmp_path / "m.yaml", text))
    assert [(t.name, t.rows, t.high) for t in found.lookups] == [("gain", 3, 2.0)]
    own = text + "tables: {gain: {values: [0, 1], from: 0, to: 5}}\n"
    assert [(t.rows, t.high) for t in load_model(written(tmp_path / "m.yaml", own)).lookups] == [(2, 5.0)]


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
