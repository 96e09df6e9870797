"""Going to definitions, finding references and renaming, through `use` and the library."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

pytestmark = pytest.mark.asyncio(loop_scope="session")

CELLS = """language: 1
neurons:
  base:
    params: {tau: 20 ms, v_rest: -65 mV}
    state: {v: v_rest}
    inputs: {ge: {unit: mV, decay: tau}}
    dynamics: {dv/dt: (v_rest - v + ge) / tau}
    spike: {when: v > -50 mV, reset: [v = v_rest]}
"""
MODEL = """language: 1
params: {n: {value: 10, type: int}}
neurons:
  cell: {use: cells.yaml#base, params: {tau: 10 ms}}
populations:
  exc: {neuron: cell, size: n, init: {v: -60 mV}, params: {v_rest: -70 mV}}
  noise: {neuron: library/neurons/poisson, size: n, params: {rate: 8 Hz}}
projections:
  all: {from: [exc, noise], to: exc, connect: {all_to_all: {}}, deliver: {into: ge, weight: 0.1 mV}}
simulate: {dt: 0.1 ms, duration: 1 s}
record:
  - trace: {from: exc, variables: [v], every: 1 ms}
"""


def at(text: str, what: str, occurrence: int = 0) -> lsp.Position:
    """The place inside of the n-th `what`."""
    found = -1
    for _ in range(occurrence + 1):
        found = text.index(what, found + 1)
    return lsp.Position(text.count("\n", 0, found), found - text.rfind("\n", 0, found) - 1)


def word(text: str, place: lsp.Range) -> str:
    return text.splitlines()[place.start.line][place.start.character : place.end.character]


async def definition(editor, name: str, place: lsp.Position) -> lsp.Location | None:
    return await editor.client.text_document_definition_async(lsp.DefinitionParams(editor.document(name), place))


@pytest.fixture
def files(editor):
    (editor.folder / "cells.yaml").write_text(CELLS)
    return editor


CASES = {
    "population": ("exc, noise", 0, "m.yaml", 5, "exc"),
    "neuron": ("cell, size", 0, "m.yaml", 3, "cell"),
    "parameter of the model": ("n, init", 0, "m.yaml", 1, "n"),
    "definition of another file": ("base, params", 0, "cells.yaml", 2, "base"),
    "input through use": ("ge, weight", 0, "cells.yaml", 5, "ge"),
    "state through use": ("v: -60", 0, "cells.yaml", 4, "v"),
    "parameter through use": ("v_rest: -70", 0, "cells.yaml", 3, "v_rest"),
    "recorded variable": ("v], every", 0, "cells.yaml", 4, "v"),
}


@pytest.mark.parametrize("name", CASES)
async def test_definition(files, name: str) -> None:
    what, occurrence, file, line, symbol = CASES[name]
    await files.open("m.yaml", MODEL)
    found = await definition(files, "m.yaml", at(MODEL, what, occurrence))
    assert found is not None
    assert (found.uri, found.range.start.line) == (files.uri(file), line)
    assert word(CELLS if file == "cells.yaml" else MODEL, found.range) == symbol


async def test_parameter_of_a_current(files) -> None:
    text = f"""{MODEL}currents:
  step: {{params: {{height: 1 mV}}, value: height}}
inputs:
  drive: {{to: exc, into: ge, current: {{source: step, params: {{height: 2 mV}}}}}}
"""
    await files.open("m.yaml", text)
    found = await definition(files, "m.yaml", at(text, "height: 2"))
    assert found is not None
    assert text.splitlines()[found.range.start.line].startswith("  step:")


async def test_definition_in_the_library(files) -> None:
    await files.open("m.yaml", MODEL)
    for what in ("poisson, size", "rate: 8"):
        found = await definition(files, "m.yaml", at(MODEL, what))
        assert found is not None
        assert found.uri.endswith("library/neurons/poisson.yaml")


async def test_references(files) -> None:
    await files.open("m.yaml", MODEL)
    await files.open("cells.yaml", CELLS)

    async def find(file: str, place: lsp.Position, declaration: bool) -> list[tuple[str, int]]:
        params = lsp.ReferenceParams(lsp.ReferenceContext(declaration), files.document(file), place)
        found = await files.client.text_document_references_async(params)
        return sorted((x.uri.rpartition("/")[2], x.range.start.line) for x in found)

    state = [("cells.yaml", 6), ("cells.yaml", 6), ("cells.yaml", 7), ("cells.yaml", 7), ("m.yaml", 5), ("m.yaml", 11)]
    assert await find("cells.yaml", at(CELLS, "v: v_rest"), False) == state
    assert await find("cells.yaml", at(CELLS, "v: v_rest"), True) == sorted([*state, ("cells.yaml", 4)])
    assert await find("m.yaml", at(MODEL, "exc:"), False) == [("m.yaml", 8), ("m.yaml", 8), ("m.yaml", 11)]


async def rename(editor, file: str, place: lsp.Position, new: str) -> dict[str, str]:
    """The texts after renaming."""
    params = lsp.RenameParams(editor.document(file), place, new)
    edit = await editor.client.text_document_rename_async(params)
    texts = {"m.yaml": MODEL, "cells.yaml": CELLS}
    for uri, edits in edit.changes.items():
        name = uri.rpartition("/")[2]
        lines = texts[name].split("\n")
        for e in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
            line = lines[e.range.start.line]
            lines[e.range.start.line] = line[: e.range.start.character] + e.new_text + line[e.range.end.character :]
        texts[name] = "\n".join(lines)
    return texts


@pytest.mark.parametrize("what", ["v: v_rest", "ge: {unit", "base:", "tau: 20", "v_rest: -65"])
async def test_a_model_is_right_after_renaming(files, what: str) -> None:
    await files.open("m.yaml", MODEL)
    await files.open("cells.yaml", CELLS)
    texts = await rename(files, "cells.yaml", at(CELLS, what), "renamed")
    assert "renamed" in texts["cells.yaml"]
    await files.write("cells.yaml", texts["cells.yaml"])
    assert await files.write("m.yaml", texts["m.yaml"]) == []


async def test_what_is_not_renamed(files) -> None:
    await files.open("m.yaml", MODEL)
    with pytest.raises(JsonRpcException, match="library"):
        await rename(files, "m.yaml", at(MODEL, "rate: 8"), "r")
    with pytest.raises(JsonRpcException, match="no name"):
        await rename(files, "m.yaml", at(MODEL, "exc:"), "a b")
    with pytest.raises(JsonRpcException, match="already"):
        await rename(files, "m.yaml", at(MODEL, "exc:"), "noise")


async def test_layers_are_renamed(editor) -> None:
    text = (
        "language: 1\nnetwork:\n  inputs: {x: {shape: [3]}}\n  layers:\n    - dense: {name: first, units: 3}\n"
        "    - dense: {name: second, units: 3}\n    - add: {inputs: [first, second]}\n"
    )
    assert await editor.open("m.yaml", text) == []
    params = lsp.RenameParams(
        editor.document("m.yaml"), at(text, "first]") if "first]" in text else at(text, "first,"), "one"
    )
    edit = await editor.client.text_document_rename_async(params)
    assert sorted(e.range.start.line for e in edit.changes[editor.uri("m.yaml")]) == [4, 6]
