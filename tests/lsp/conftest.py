"""A real server in a process of its own, driven over its standard input as editors do it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig, LanguageClient

MODELS = Path(__file__).parents[2] / "models"
CURSOR = "«»"


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[sys.executable, "-m", "compiler.cli", "lsp"]), scope="session"
)
async def server(lsp_client: LanguageClient):
    await lsp_client.initialize_session(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    yield
    await lsp_client.shutdown_session()


@dataclass
class Editor:
    """An editor with documents in a folder."""

    client: LanguageClient
    folder: Path
    version: int = 0

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def document(self, name: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(name))

    async def open(self, name: str, text: str) -> list[lsp.Diagnostic]:
        """Open a document; its diagnostics."""
        self.client.diagnostics.pop(self.uri(name), None)
        item = lsp.TextDocumentItem(self.uri(name), "yaml", 0, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics(name)

    async def write(self, name: str, text: str) -> list[lsp.Diagnostic]:
        """Give a document another text; its diagnostics."""
        self.client.diagnostics.pop(self.uri(name), None)
        self.send(name, text)
        return await self.diagnostics(name)

    def send(self, name: str, text: str) -> None:
        self.version += 1
        where = lsp.VersionedTextDocumentIdentifier(self.version, self.uri(name))
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(where, [change]))

    async def diagnostics(self, name: str) -> list[lsp.Diagnostic]:
        for _ in range(2000):
            if self.uri(name) in self.client.diagnostics:
                return list(self.client.diagnostics[self.uri(name)])
            await asyncio.sleep(0.005)
        raise AssertionError(f"no diagnostics of {name}")

    async def at(self, name: str, marked: str) -> tuple[lsp.TextDocumentIdentifier, lsp.Position]:
        """Open a text with a mark; the place of the mark."""
        at = marked.index(CURSOR)
        await self.open(name, marked.replace(CURSOR, "", 1))
        line = marked.count("\n", 0, at)
        return self.document(name), lsp.Position(line, at - (marked.rfind("\n", 0, at) + 1))

    async def complete(self, marked: str, name: str = "m.yaml") -> dict[str, lsp.CompletionItem]:
        where, at = await self.at(name, marked)
        found = await self.client.text_document_completion_async(lsp.CompletionParams(where, at))
        items = found.items if isinstance(found, lsp.CompletionList) else found or []
        return {i.label: i for i in items}

    async def hover(self, marked: str, name: str = "m.yaml") -> str:
        where, at = await self.at(name, marked)
        found = await self.client.text_document_hover_async(lsp.HoverParams(where, at))
        return "" if found is None else found.contents.value


@pytest.fixture
def editor(server: LanguageClient, tmp_path: Path) -> Editor:
    return Editor(server, tmp_path)
