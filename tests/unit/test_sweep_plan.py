"""The trials of a sweep, from the model and from callers; parameters that are words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.core.diagnostics import ModelError, RunError
from compiler.frontend.load import load_model
from compiler.runtime.artifacts.expanded import expanded_yaml
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import check_model, load_checked
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
    ("sweep", "codes"),
    [
        ("{grid: {rat: [1]}, seeds: 2}", ["E0204"]),
        ("{n: [1, 2.5, -1, 3 mV], rate: [1 mV], cell: [quite]}", ["E0206", "E0401", "E0401", "E0205"]),
        ("{grid: {n: [1]}, list: [{n: 1}]}", ["E0108"]),
        ("{random: {trials: 2, values: {n: {integers: {low: 1.5, high: 3}}}}}", ["E0206"]),
        ("{random: {trials: 2, values: {rate: {log_uniform: {low: 0 Hz, high: 3 Hz}}}}}", ["E0106"]),
        ("{random: {trials: 2, values: {rate: {uniform: {low: 1 Hz, high: 3 kHz}}}}}", ["E0106"]),
        ("{random: {trials: 2, values: {cell: {choice: [poisson, nobody]}, n: {choice: [1.5]}}}}", ["E0205", "E0206"]),
    ],
)
def test_values_are_checked_at_their_line(tmp_path: Path, sweep: str, codes: list[str]) -> None:
    """By `check` and by a sweep alike; given by a caller, too, where the place is in what was given."""
    with pytest.raises(ModelError) as caught:
        planned(tmp_path, sweep)
    found = caught.value.diagnostics
    assert sorted(d.code for d in found) == sorted(codes)
    assert {(d.file, d.line) for d in found} == {(str(tmp_path / "m.yaml"), MODEL.count("\n") + 1)}
    told = [d for d in check_model(tmp_path / "m.yaml", Options(), False).diagnostics if d.code[0] == "E"]
    assert [(d.code, d.message, d.line, d.column) for d in told] == [
        (d.code, d.message, d.line, d.column) for d in found
    ]
    own = yaml.safe_load(sweep)
    with pytest.raises(ModelError) as caught:
        planned(tmp_path, own=own)
    assert {d.file for d in caught.value.diagnostics} == {"trials"}
    assert sorted(d.code for d in caught.value.diagnostics) == sorted(codes)


def test_a_run_does_not_ask_what_a_sweep_would(tmp_path: Path) -> None:
    """The settings of one run are not those of the sweep."""
    text = MODEL.replace("n: {value: 5, type: int}", "n: {value: 5, type: int}\n  k: {value: 1, max: n, type: int}")
    text = text.replace("size: n", "size: k")
    path = tmp_path / "m.yaml"
    path.write_text(text + "sweep: {n: [8, 9], k: [7]}\n", encoding="utf-8")
    assert len(planned(tmp_path, "{n: [8, 9], k: [7]}", text=text).trials) == 2
    chosen = Options(set={"n": "3"})
    assert load_checked(path, chosen, Times())[0].name == "small"
    assert {d.code for d in check_model(path, chosen, False).diagnostics} == {"W0002"}
    with pytest.raises(ModelError, match="more than its `max`"):
        planned(tmp_path, "{n: [6, 9], k: [7]}", text=text)


def test_choices_that_are_no_words(tmp_path: Path) -> None:
    """A mistake in `params` is nothing that the check of the values stumbles over."""
    text = MODEL.replace("choices: [poisson, quiet]", "choices: [poisson, [quiet]]")
    with pytest.raises(ModelError) as caught:
        planned(tmp_path, "{cell: [quiet]}", text=text)
    assert [d.code for d in caught.value.diagnostics] == ["E0205"]


def test_no_sweep(tmp_path: Path) -> None:
    for count in (10**9, 10**30):
        with pytest.raises(RunError, match="more than 1,000,000 trials"):
            planned(tmp_path, seeds=count)
    with pytest.raises(RunError, match="says no `sweep`") as caught:
        planned(tmp_path)
    assert caught.value.code == "E0912"
    with pytest.raises(RunError, match="maps, lists, texts and numbers") as caught:
        planned(tmp_path, own={"grid": {"n": [object()]}})
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
