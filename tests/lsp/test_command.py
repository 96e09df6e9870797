"""The command `netloom lsp`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp import ClientServerConfig


def lsp(*arguments: str, without: str = "") -> subprocess.CompletedProcess[str]:
    hide = f"sys.modules[{without!r}] = None\n" if without else ""
    code = f"import sys\n{hide}sys.argv = ['netloom', 'lsp', *{arguments!r}]\n"
    code += "from compiler.cli.__main__ import main\nmain()"
    return subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)


def test_without_the_package() -> None:
    done = lsp(without="pygls")
    assert done.returncode == 3
    assert "E0938" in done.stderr
    assert "pip install 'netloom[lsp]'" in done.stderr


def test_two_ways_at_once() -> None:
    done = lsp("--stdio", "--port", "4000")
    assert done.returncode == 2
    assert "exclude each other" in done.stderr


def test_a_client_that_goes_away() -> None:
    done = lsp()
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.asyncio
@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 23), ("utf-32", 20)])
async def test_columns_as_the_client_counts(tmp_path: Path, encoding: str, column: int) -> None:
    client = await ClientServerConfig([sys.executable, "-m", "compiler.cli", "lsp"]).start()
    general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind(encoding)])
    capabilities = types.ClientCapabilities(general=general)
    await client.initialize_session(types.InitializeParams(capabilities=capabilities))
    uri = (tmp_path / "m.yaml").as_uri()
    text = 'language: 1\nnumerics: {x-: "𝄞", presision: float64}\n'
    item = types.TextDocumentItem(uri, "yaml", 0, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    while uri not in client.diagnostics:
        await asyncio.sleep(0.005)
    (wrong,) = (d for d in client.diagnostics[uri] if d.code == "E0101")
    assert wrong.range.start.character == column
    found = await client.text_document_hover_async(
        types.HoverParams(types.TextDocumentIdentifier(uri), wrong.range.end)
    )
    assert found is None
    await client.shutdown_session()
    await client.stop()
