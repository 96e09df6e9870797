"""What `check` says, of unsaved texts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from lsprotocol import types as lsp

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODEL = """language: 1
neurons:
  cell: {use: cells.yaml#cell}
populations:
  exc: {neuron: cell, size: 10}
simulate: {dt: 0.1 ms, duration: 1 s}
"""
CELLS = """language: 1
neurons:
  cell:
    state: {v: 0 mV}
    dynamics: {dv/dt: -v / 10 ms}
"""


async def test_the_words_and_the_place_of_check(editor) -> None:
    found = await editor.open("m.yaml", "language: 1\npopulations:\n  é𝄞x: {neuron: lif, sise: 10}\n")
    assert any(d.code == "E0107" for d in found)
    found = await editor.write("m.yaml", "language: 1\nx-note: '𝄞'\npopulations:\n  exc: {neuron: lif, sise: 10}\n")
    wrong = next(d for d in found if d.code == "E0101")
    assert wrong.message == "unknown key `sise` in population `exc`\ndid you mean `size`?"
    assert (wrong.range.start.line, wrong.range.start.character, wrong.range.end.character) == (3, 21, 25)
    assert wrong.source == "netloom"


async def test_a_text_that_becomes_right(editor) -> None:
    (editor.folder / "cells.yaml").write_text(CELLS)
    assert [d.code for d in await editor.open("m.yaml", MODEL.replace("size", "sise"))] == ["E0101"]
    assert await editor.write("m.yaml", MODEL) == []


async def test_an_unsaved_file_that_is_used(editor) -> None:
    (editor.folder / "cells.yaml").write_text(CELLS)
    assert await editor.open("m.yaml", MODEL) == []
    editor.client.diagnostics.clear()
    await editor.open("cells.yaml", CELLS.replace("-v / 10 ms", "-u / 10 ms"))
    (wrong,) = await editor.diagnostics("m.yaml")
    assert wrong.code == "E0302"
    assert wrong.range.start.line == 2  # where the other file is used
    assert wrong.related_information[0].location.uri == editor.uri("cells.yaml")
    assert wrong.related_information[0].location.range.start.line == 4


async def test_a_file_of_definitions_has_no_error(editor) -> None:
    assert await editor.open("cells.yaml", CELLS) == []


async def test_every_text_on_the_way(editor) -> None:
    """Half-typed YAML, cut anywhere, ends nothing."""
    text = (Path(__file__).parents[2] / "models" / "cuba.yaml").read_text(encoding="utf-8")
    await editor.open("m.yaml", "")
    for end in range(0, len(text), 97):
        editor.send("m.yaml", text[:end])
        await asyncio.sleep(0)
    found = await editor.write("m.yaml", text)
    for _ in range(400):  # diagnostics of an earlier text may be under way
        if not found:
            break
        await asyncio.sleep(0.01)
        found = await editor.diagnostics("m.yaml")
    assert [d.code for d in found] == []
    assert not [m for m in editor.client.log_messages if "internal error" in m.message]


async def test_files_of_other_programs_are_left_alone(editor) -> None:
    assert await editor.open("compose.yaml", "services: {web: {image: nginx}}\n") == []
    assert await editor.complete("services: {web: {image: nginx}}\n«»", "compose.yaml") == {}
    assert "language" in await editor.complete("«»", "new.yaml")


async def test_a_file_of_data_that_changes(editor) -> None:
    text = """language: 1
populations:
  exc: {neuron: lif, size: 2, init: {v: {file: v.npy}}}
simulate: {dt: 0.1 ms, duration: 1 s}
"""
    assert [d.code for d in await editor.open("m.yaml", text)] == ["E0701"]
    np.save(editor.folder / "v.npy", np.zeros(2))
    editor.client.diagnostics.clear()
    change = lsp.FileEvent(editor.uri("v.npy"), lsp.FileChangeType.Created)
    editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([change]))
    assert await editor.diagnostics("m.yaml") == []
    (editor.folder / "v.npy").unlink()
    editor.client.diagnostics.clear()
    editor.client.text_document_did_save(lsp.DidSaveTextDocumentParams(editor.document("m.yaml")))
    assert [d.code for d in await editor.diagnostics("m.yaml")] == ["E0701"]


async def test_a_folder_behind_a_link(editor) -> None:
    """Answers name a document as the editor does."""
    (editor.folder / "real").mkdir()
    (editor.folder / "link").symlink_to("real")
    found = await editor.open("link/m.yaml", "language: 1\npopulations: {exc: {neuron: lif, sise: 10}}\n")
    assert "E0101" in [d.code for d in found]
