"""What is shown of the thing under the pointer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODELS = Path(__file__).parents[2] / "models"
SCENARIOS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "editor" / "scenarios.json").read_text(encoding="utf-8")
)["cases"]
HOVERED = [c for c in SCENARIOS if "«h»" in c["text"]]


@pytest.mark.parametrize("case", HOVERED, ids=lambda c: str(c["name"]))
async def test_the_cases_of_the_schema(editor, case: dict[str, Any]) -> None:
    found = await editor.hover(case["text"].replace("«h»", "«»"))
    for text in case["expect"]["hover_has"]:
        assert text in found


CASES = {
    "size of a population": ("cuba", "  ex«»c:\n", ["3,200 neurons of `lif_cuba`", "38.4 kB of state"]),
    "synapses": ("cuba", "  exci«»tation:", ["256,000 synapses expected", "1.0 MB", "delay 0.1 ms"]),
    "parameter": ("cuba", "size: n_«»exc", ["parameter of the model", "`3200`", "Excitatory neurons"]),
    "unit of a state": ("cuba", "(v_rest - «»v + ge", ["state variable of neuron `lif_cuba`", "unit: `mV`"]),
    "equation": ("cuba", "dv«»/dt", ["dv/dt = (v_rest - v + ge + gi) / tau_m"]),
    "input": ("cuba", "{into: g«»e", ["input of neuron `lif_cuba`", "decays with `tau_e`"]),
    "builtin": ("stdp", "w = cl«»ip(w + post", ["`clip(x, lo, hi)`"]),
    "shape": ("resnet20", "- con«»v2d: {name: first", ["`coloured` 3x32x32 -> 16x32x32", "`first`", "filters"]),
    "repeated": ("resnet20", "- batch_«»norm: {name: norm16}", ["(3 copies)", "16x32x32"]),
    "layer that is read": ("resnet20", "logits: lo«»gits, target", ["`logits`: layer, `dense` of shape 10"]),
    "library": ("stdp", "library/neurons/poi«»sson", ["neuron of `poisson.yaml`"]),
}


@pytest.mark.parametrize("name", CASES)
async def test_hover(editor, name: str) -> None:
    model, where, wanted = CASES[name]
    text = (MODELS / f"{model}.yaml").read_text(encoding="utf-8").replace("data/", f"{MODELS}/data/")
    plain = where.replace("«»", "")
    assert plain in text
    found = await editor.hover(text.replace(plain, where, 1))
    for part in wanted:
        assert part in found, found


async def test_prose_shows_nothing(editor) -> None:
    assert await editor.hover("language: 1\ndescription: A net«»work of neurons\n") == ""


async def hints(editor, model: str) -> dict[str, str]:
    text = (MODELS / f"{model}.yaml").read_text(encoding="utf-8").replace("data/", f"{MODELS}/data/")
    await editor.open("m.yaml", text)
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(10_000, 0))
    params = lsp.InlayHintParams(editor.document("m.yaml"), whole)
    found = await editor.client.text_document_inlay_hint_async(params)
    lines = text.splitlines()
    return {lines[h.position.line][: h.position.character].strip(): h.label for h in found}


async def test_hints_of_a_spiking_model(editor) -> None:
    found = await hints(editor, "cuba")
    assert found["exc:"] == "3,200 neurons"
    assert found["excitation:"] == "256,000 synapses expected"
    assert found["v: v_rest"] == "[mV]"


async def test_hints_of_layers(editor) -> None:
    found = await hints(editor, "resnet20")
    assert found["- global_avg_pool: {expect: {shape: [64]}}"] == "-> 64"
    assert found["- upsample: {name: large, inputs: image, factor: 4}"] == "-> 1x32x32"


async def test_lenses(editor) -> None:
    text = (
        "language: 1\npopulations: {exc: {neuron: lif, size: 10}}\nsimulate: {dt: 0.1 ms, duration: 1 ms}\n"
        "record: [{spikes: {from: exc}}]\nexpect: [{rate: {of: exc, between: [0 Hz, 1000 Hz]}}]\n"
    )
    await editor.open("m.yaml", text)
    (editor.folder / "m.yaml").write_text(text)
    found = await editor.client.text_document_code_lens_async(lsp.CodeLensParams(editor.document("m.yaml")))
    assert [(x.range.start.line, x.command.title, x.command.command) for x in found] == [
        (2, "run", "netloom.run"),
        (4, "test", "netloom.test"),
    ]
    uri = editor.uri("m.yaml")
    editor.client.messages.clear()
    done = await editor.client.workspace_execute_command_async(lsp.ExecuteCommandParams("netloom.test", [uri]))
    assert done == 0
    assert any("netloom test" in m.message for m in editor.client.messages)
    assert not any("not saved" in m.message for m in editor.client.messages)


async def test_a_run_of_what_is_not_saved(editor) -> None:
    await editor.open("m.yaml", "language: 1\n")
    (editor.folder / "m.yaml").write_text("language: 1\nname: other\n")
    params = lsp.ExecuteCommandParams("netloom.run", [editor.uri("m.yaml")])
    assert await editor.client.workspace_execute_command_async(params) == 1
    assert any("not saved" in m.message for m in editor.client.messages)
