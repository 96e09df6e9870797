"""Quick fixes do what the helps say, and the mistake is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as lsp

pytestmark = pytest.mark.asyncio(loop_scope="session")

START = "language: 1\nsimulate: {dt: 0.1 ms, duration: 1 s}\n"
EXC = START + "populations:\n  exc: {neuron: lif, size: 10}\n"
CASES = {
    "key": (START + "populations:\n  exc: {neuron: lif, sise: 10}\n", ["size"]),
    "word of another tool": (START + "populations:\n  exc: {neuron: lif, count: 10}\n", ["size"]),
    "name": (EXC + "record: [{spikes: {from: exx}}]\n", ["exc"]),
    "library": (START + "populations:\n  exc: {neuron: library/neurons/adx, size: 1}\n", ["library/neurons/adex"]),
    "choice": (EXC + "numerics: {precision: flaot64}\n", ["float64"]),
}


async def fixes(editor, text: str) -> list[tuple[lsp.Diagnostic, lsp.CodeAction]]:
    found = []
    for d in await editor.open("m.yaml", text):
        context = lsp.CodeActionContext([d])
        params = lsp.CodeActionParams(editor.document("m.yaml"), d.range, context)
        actions = await editor.client.text_document_code_action_async(params) or []
        found += [(d, a) for a in actions]
    return found


def applied(editor, text: str, action: lsp.CodeAction) -> str:
    (edit,) = action.edit.changes[editor.uri("m.yaml")]
    lines = text.split("\n")
    line = lines[edit.range.start.line]
    lines[edit.range.start.line] = line[: edit.range.start.character] + edit.new_text + line[edit.range.end.character :]
    return "\n".join(lines)


@pytest.mark.parametrize("name", CASES)
async def test_a_fix(editor, name: str) -> None:
    text, wanted = CASES[name]
    found = await fixes(editor, text)
    assert [a.title for _, a in found] == [f"write `{w}`" for w in wanted]
    assert await editor.write("m.yaml", applied(editor, text, found[0][1])) == []


async def test_no_fix_where_the_mistake_is_in_another_file(editor) -> None:
    cells = "language: 1\nneurons: {cell: {state: {v: 0}, update: [v = w], methd: rk4}}\n"
    (editor.folder / "cells.yaml").write_text(cells)
    text = START + "neurons: {own: {use: cells.yaml#cell}}\npopulations: {exc: {neuron: own, size: 1}}\n"
    assert any(d.code == "E0101" for d in await editor.open("m.yaml", text))
    assert await fixes(editor, text) == []
    assert [a.title for _, a in await fixes(editor, cells)] == ["write `method`"]


@pytest.mark.slow
async def test_fixes_of_all_wrong_models(editor) -> None:
    """Of every model of tests/errors whose help asks for another word, the fix removes the error."""
    tried = 0
    for path in sorted((Path(__file__).parents[1] / "errors").glob("E*/*.yaml")):
        if path.stat().st_size > 4000:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if "�" in text or "\r" in text:
            continue
        for d, action in await fixes(editor, text):
            after = await editor.write("m.yaml", applied(editor, text, action))
            left = [x for x in after if (x.code, x.message, x.range.start) == (d.code, d.message, d.range.start)]
            assert not left, f"{path}: {action.title}"
            tried += 1
    assert tried > 40
