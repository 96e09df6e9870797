"""The trials of a sweep, from the model and from callers; parameters that are words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compiler.core.errors import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.runtime.artifacts.expanded import expanded_yaml
from compiler.sweep.plan import Plan, plan

MODEL = """language: 1
name: small
params:
  rate: {value: 20 Hz}
  n: {value: 5, type: int}
  cell: {value: poisson, type: choice, choices: [poisson, quiet]}
neurons:
  quiet: {params: {rate: 1 Hz}, state: {v: 0}, update: [v = v + 0.1], spike: {when: v > 1, reset: [v = 0]}}
populations: {a: {neuron: cell, size: n, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 20 ms, seed: 7}
record: [spikes: {from: a}]
"""


def planned(
    folder: Path, sweep: str = "", own: Any = None, seeds: Any = None, text: str = MODEL, **options: Any
) -> Plan:
    path = folder / "m.yaml"
    path.write_text(text + (f"sweep: {sweep}\n" if sweep else ""), encoding="utf-8")
    return plan(path, own, seeds, {}, options)


def settings(p: Plan) -> list[dict[str, str]]:
    return [dict(t.settings) for t in p.trials]


def test_grid_and_its_short_form(tmp_path: Path) -> None:
    expected = [{"n": a, "rate": b} for a in ("1", "2") for b in ("5 Hz", "6 Hz", "7 Hz")]
    for text in ("{grid: {n: [1, 2], rate: [5 Hz, 6 Hz, 7 Hz]}}", "{n: [1, 2], rate: [5 Hz, 6 Hz, 7 Hz]}"):
        found = planned(tmp_path, text)
        assert settings(found) == expected and found.swept == ("n", "rate")
        assert load_model(tmp_path / "m.yaml").name == "small"
    own = {"grid": {"n": range(1, 3), "rate": ["5 Hz", "6 Hz", "7 Hz"]}}
    assert settings(planned(tmp_path, own=own)) == expected


def test_list_and_seeds(tmp_path: Path) -> None:
    found = planned(tmp_path, "{list: [{n: 1}, {n: 2, rate: 3 Hz}, {n: 1}], seeds: 2}")
    assert [(t.settings, t.seed) for t in found.trials] == [
        ({"n": "1"}, 7),
        ({"n": "1"}, 8),
        ({"n": "2", "rate": "3 Hz"}, 7),
        ({"n": "2", "rate": "3 Hz"}, 8),
    ]
    assert [t.seed for t in planned(tmp_path, "{seeds: [4, 9, 4]}").trials] == [4, 9]
    assert [t.seed for t in planned(tmp_path, "{n: [1]}", seeds=3).trials] == [7, 8, 9]


def test_drawn_values_lie_between_and_stay(tmp_path: Path) -> None:
    rules = "{rate: {log_uniform: {low: 1 Hz, high: 100 Hz}}, n: {integers: {low: 1, high: 3}}, "
    rules += "cell: {choice: [poisson, quiet]}}"
    few = settings(planned(tmp_path, f"{{random: {{trials: 20, values: {rules}}}}}"))
    many = settings(planned(tmp_path, f"{{random: {{trials: 200, values: {rules}}}}}"))
    assert many[:20] == few, "more trials begin with the same ones"
    rates = [float(s["rate"].removesuffix(" Hz")) for s in many]
    assert min(rates) >= 1 and max(rates) <= 100 and 60 < sum(r < 10 for r in rates) < 140
    assert {s["n"] for s in many} == {"1", "2", "3"} and {s["cell"] for s in many} == {"poisson", "quiet"}
    other = settings(planned(tmp_path, f"{{random: {{trials: 20, seed: 1, values: {rules}}}}}"))
    assert other != few


def test_keys_change_with_what_determines_results(tmp_path: Path) -> None:
    def key(**changes: Any) -> str:
        return planned(tmp_path, "{n: [2]}", **changes).trials[0].key

    first = key()
    assert key() == first
    assert key(text=MODEL + "description: another\n") == first
    assert key(text=MODEL.replace("20 ms", "30 ms")) != first
    assert key(duration="30 ms") != first


@pytest.mark.parametrize(
    ("sweep", "text"),
    [
        ("{grid: {rat: [1]}}", "did you mean `rate`"),
        ("{grid: {n: [1]}, list: [{n: 1}]}", "one of"),
        ("{random: {trials: 2, values: {n: {integers: {low: 1.5, high: 3}}}}}", "whole"),
        ("{random: {trials: 2, values: {rate: {log_uniform: {low: 0 Hz, high: 3 Hz}}}}}", "low"),
        ("{random: {trials: 2, values: {rate: {uniform: {low: 1 Hz, high: 3 kHz}}}}}", "one unit"),
        ("", "no `sweep`"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, sweep: str, text: str) -> None:
    with pytest.raises(RunError, match=text) as caught:
        planned(tmp_path, sweep)
    assert caught.value.code == "E0912"


def test_a_word_stands_for_a_neuron(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(MODEL, encoding="utf-8")
    assert load_model(path).populations[0].neuron.name == "poisson"
    assert load_model(path, {"cell": "quiet"}).populations[0].neuron.name == "quiet"
    text = expanded_yaml(path, {"cell": "quiet", "n": "3"})
    (tmp_path / "e.yaml").write_text(text, encoding="utf-8")
    again = load_model(tmp_path / "e.yaml").populations[0]
    assert again.neuron.name == "quiet" and again.size == 3


def test_a_word_stands_for_an_activation_and_an_optimizer(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        """language: 1
params:
  act: {value: relu, type: choice, choices: [relu, tanh]}
  method: {value: adam, type: choice, choices: [adam, sgd]}
  rate: {value: 0.01}
network:
  inputs: {x: {shape: [4]}, y: {shape: [2]}}
  layers: [{dense: {inputs: x, units: 3, activation: act}}, {dense: {name: out, units: 2}}]
train:
  data: {file: none.npz, inputs: {x: x, y: y}}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {method: {learning_rate: rate}}
  batch: 4
  epochs: 1
""",
        encoding="utf-8",
    )
    unread = frozenset({"data"})
    first = load_model(path, unread=unread)
    other = load_model(path, {"act": "tanh", "method": "sgd"}, unread=unread)
    assert first.train is not None and other.train is not None
    assert (first.train.optimizer.name, other.train.optimizer.name) == ("adam", "sgd")
    assert first.network != other.network


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("{value: cat, type: choice, choices: [poisson]}", "E0205"),
        ("{value: poisson, type: choice}", "E0103"),
        ("{value: poisson, type: choice, choices: [poisson], min: 1}", "E0108"),
    ],
)
def test_mistakes_in_a_choice(tmp_path: Path, value: str, code: str) -> None:
    text = MODEL.replace("{value: poisson, type: choice, choices: [poisson, quiet]}", value)
    (tmp_path / "m.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "m.yaml")
    assert [d.code for d in caught.value.diagnostics] == [code] and caught.value.diagnostics[0].line == 6


def test_a_setting_that_is_no_choice(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    with pytest.raises(ModelError, match="did you mean `quiet`"):
        load_model(tmp_path / "m.yaml", {"cell": "quite"})
