"""How long the language server takes from a change to its diagnostics, over the protocol as an editor speaks it.

`python -m benchmarks.bench_lsp [MODEL ...]` prints milliseconds: the median and the largest of N changes.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig

ROOT = Path(__file__).parents[1]
WANTED = {"resnet20": 30, "microcircuit": 30, "multi_area_structure": 300}
CHANGES = 15


async def measure(names: list[str]) -> None:
    """Change a comment of each model, and its name, and wait for the answers."""
    command = [sys.executable, "-m", "compiler.cli", "lsp"]
    client = await ClientServerConfig(command, server_env=dict(os.environ)).start()
    await client.initialize_session(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    for name in names:
        path = ROOT / "models" / f"{name}.yaml"
        text, times = path.read_text(encoding="utf-8"), []
        item = lsp.TextDocumentItem(path.as_uri(), "yaml", 0, text)
        client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        await _answer(client, path.as_uri())
        for i in range(CHANGES):
            where = lsp.VersionedTextDocumentIdentifier(i + 1, path.as_uri())
            change = lsp.TextDocumentContentChangeWholeDocument(f"{text}\n# change {i}\n")
            began = time.perf_counter()
            client.text_document_did_change(lsp.DidChangeTextDocumentParams(where, [change]))
            await _answer(client, path.as_uri())
            times.append(1000 * (time.perf_counter() - began))
        wanted = f"   wanted: {WANTED[name]}" if name in WANTED else ""
        print(f"{name:<24} median {statistics.median(times):6.1f}   largest {max(times):6.1f}{wanted}", flush=True)
    await client.shutdown_session()
    await client.stop()


async def _answer(client: object, uri: str) -> None:
    found: dict[str, object] = client.diagnostics  # type: ignore[attr-defined]
    while uri not in found:
        await asyncio.sleep(0.0005)
    del found[uri]


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[1:] or list(WANTED)))
