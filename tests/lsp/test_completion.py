"""What is offered while a model is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCENARIOS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "editor" / "scenarios.json").read_text(encoding="utf-8")
)["cases"]
OFFERED = [c for c in SCENARIOS if "«c»" in c["text"]]

START = """language: 1
params: {n: {value: 10, type: int}}
functions: {squash(x): x / (1 + x)}
neurons:
  cell:
    params: {tau: 20 ms, v_rest: -65 mV}
    state: {v: v_rest, w: 0}
    inputs: {ge: {unit: mV, decay: tau}, gi: {unit: mV}}
    others: {driver: {burst: 1, pool.gi: 1}}
    dynamics: {dv/dt: (v_rest - v) / tau}
  other: {use: library/neurons/adex}
classes: {cortical: {neuron: cell}}
populations:
  exc: {neuron: cell, size: 10}
  inh: {classes: [cortical], size: 10}
  far: {neuron: library/neurons/adex, size: 10}
"""
PHASES = "language: 1\nphases: {trial: {every: 5 ms, events: {start: 0 ms, end: 5 ms}}}\n"
NETWORK = """language: 1
network:
  inputs: {image: {shape: [3]}, label: {shape: [], dtype: int32}}
  layers:
    - dense: {name: first, units: 3}
    - repeat: {times: 2, layers: [{dense: {name: inner, units: 3}}]}
"""


@pytest.mark.parametrize("case", OFFERED, ids=lambda c: str(c["name"]))
async def test_the_cases_of_the_schema(editor, case: dict[str, Any]) -> None:
    """What an editor offers that knows the schema alone is offered here, too."""
    found = await editor.complete(case["text"].replace("«c»", "«»"))
    assert set(case["expect"].get("complete_has", ())) <= found.keys()
    assert not set(case["expect"].get("complete_not", ())) & found.keys()


CASES: dict[str, tuple[str, list[str], list[str]]] = {
    "parameters of the neuron": (START + "  new:\n    neuron: cell\n    params: {«»", ["tau", "v_rest"], ["v", "ge"]),
    "parameters of the class's neuron": (
        START + "  new:\n    classes: [cortical]\n    params:\n      «»",
        ["tau"],
        ["v"],
    ),
    "parameters of the library": (START + "  new: {neuron: adex, params: {C«»", ["C_m", "V_T"], ["tau"]),
    "events of a projection": (PHASES + "projections: {p: {clear: «»", ["trial.start", "trial.end"], ["trial"]),
    "events of a neuron": (PHASES + "neurons: {other: {on: {«»", ["trial.start", "trial.end"], ["trial"]),
    "lookup tables": (
        "language: 1\ntables: {gain: {}}\nneurons: {cell: {state: {v: 0}, update: [v = «»",
        ["gain", "v", "exp"],
        [],
    ),
    "other populations of the neuron": (START + "  new: {neuron: cell, others: {«»", ["driver"], ["v"]),
    "populations to read": (START + "  new: {neuron: cell, others: {driver: «»", ["exc", "far"], ["cell"]),
    "variables of another population": (
        START.replace("dynamics: {dv", "update: [w = driver.«»]\n    dynamics: {dv"),
        ["driver.burst", "driver.pool.gi"],
        [],
    ),
    "state of the neuron": (START + "  new: {neuron: cell, init: {«»", ["v", "w"], ["tau", "ge"]),
    "state through use": (START + "  new: {neuron: other, init: {«»", ["v", "w"], ["a"]),
    "neurons": (START + "  new: {neuron: «»", ["cell", "other", "library/neurons/lif"], ["exc"]),
    "definitions": (START.replace("use: library/neurons/adex", "use: «»"), ["cell", "library/neurons/adex"], ["other"]),
    "populations": (START + "projections:\n  p:\n    from: «»", ["exc", "inh", "cortical", "all"], ["cell"]),
    "populations in a list": (START + "projections:\n  p:\n    from: [exc, «»", ["exc", "inh"], ["cell"]),
    "inputs": (START + "projections:\n  p:\n    to: exc\n    deliver: {into: «»", ["ge", "gi"], ["v", "I_syn"]),
    "inputs of several": (
        START + "projections:\n  p:\n    to: [inh, far]\n    deliver:\n      into: «»",
        ["ge", "I_syn"],
        [],
    ),
    "a synapse's parameters": (
        START + "projections:\n  p:\n    synapse: library/synapses/stdp_additive\n    params: {«»",
        ["tau_pre", "a_post"],
        ["w"],
    ),
    "places of both ends": (
        START + "projections:\n  p:\n    from: exc\n    delay: «»",
        ["distance", "i", "x_j", "n"],
        ["tau"],
    ),
    "recorded variables": (START + "record:\n  - trace: {from: exc, variables: [«»", ["v", "w", "ge"], ["tau"]),
    "an equation's name": (
        START.replace("dynamics: {dv/dt: (v_rest - v) / tau}", "dynamics:\n      «»"),
        ["dv/dt", "dw/dt"],
        [],
    ),
    "an expression": (START.replace("- v) / tau}", "- «»"), ["v", "tau", "ge", "n", "exp", "squash", "dt"], ["exc"]),
    "the end of an expression": (START.replace("- v) / tau}", "- v) / ta«»"), ["tau"], []),
    "the model's parameters": (START + "  new: {size: «»", ["n"], ["tau"]),
    "optimizer": (NETWORK + "train:\n  optimizer:\n    adam:\n      «»", ["learning_rate", "beta1"], ["m", "decay"]),
    "optimizers": (
        "language: 1\noptimizers: {mine: {update: [x = 1]}}\ntrain:\n  optimizer:\n    «»",
        ["mine", "adam"],
        ["learning_rate"],
    ),
    "layers": (NETWORK + "    - add: {inputs: [«»", ["first", "inner", "image"], ["dense"]),
    "a layer without a dash": (NETWORK + "    «»", ["dense", "conv2d"], ["units"]),
    "metrics": (NETWORK + "train:\n  metrics: [accuracy]\n  stop: {watch: «»", [], []),
    "in quotes": (START + "  new: {neuron: '«»", ["cell"], []),
    "a whole file that is broken elsewhere": (
        "language: 1\nx: [1, {\n" + START.partition("\n")[2] + "projections:\n  p: {from: «»",
        ["exc"],
        ["cell"],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_completion(editor, name: str) -> None:
    text, there, absent = CASES[name]
    found = await editor.complete(text)
    assert set(there) <= found.keys()
    assert not set(absent) & found.keys()


async def test_what_is_inserted(editor) -> None:
    found = await editor.complete(START + "  new:\n    si«»\n    neuron: cell\n")
    assert found["size"].text_edit.new_text == "size: "
    assert (found["size"].text_edit.range.start.character, found["size"].text_edit.range.end.character) == (4, 6)
    assert "The number of neurons." in found["size"].documentation.value
    assert "neuron" not in found
    found = await editor.complete(NETWORK + "    «»")
    assert found["dense"].text_edit.new_text == "- dense:"
    found = await editor.complete(START + "  new: {init: {v: «»")
    assert found["uniform"].text_edit.new_text == "{uniform: "
