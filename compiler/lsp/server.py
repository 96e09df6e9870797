"""The language server: which requests of the Language Server Protocol are answered, and by what.

Assumes: pygls (the extra `lsp`).
Guarantees: an answer or an error for each request; the server goes on after either.
Does not: decide anything: the files beside it do.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from compiler.core.resources import library_path
from compiler.core.source import Span
from compiler.core.version import VERSION
from compiler.lsp import convert
from compiler.lsp.actions import replacements
from compiler.lsp.analysis import Analysis
from compiler.lsp.completion import complete
from compiler.lsp.facts import hints
from compiler.lsp.hover import Under, hover
from compiler.lsp.outline import cursor
from compiler.lsp.session import Session
from compiler.lsp.symbols import Occurrence, Symbols


class Server(LanguageServer):
    """A language server with its session."""

    def __init__(self) -> None:
        super().__init__("netloom", VERSION, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental)
        self.session = Session(self.show, self.fail)
        self.uris: dict[Path, str] = {}  # of open documents, as the client writes them

    @property
    def convert(self) -> convert.Convert:
        """What counts columns as the client does."""
        chosen = self.server_capabilities.position_encoding
        return convert.Convert(str(getattr(chosen, "value", chosen)))

    def show(self, analysis: Analysis) -> None:
        """Publish the diagnostics of a document."""
        items = [self.convert.diagnostic(d, analysis.path) for d in analysis.diagnostics]
        uri = self.uris.get(analysis.path, convert.uri_of(analysis.path))
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, items))

    def location(self, span: Span) -> lsp.Location:
        """The place of a span, in whichever file it is."""
        place = self.convert.location(span)
        return lsp.Location(self.uris.get(convert.path_of(place.uri), place.uri), place.range)

    def fail(self, path: Path, error: Exception) -> None:
        """Tell of an error of the server itself."""
        text = "".join(traceback.format_exception(error))
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, f"{path}: internal error\n{text}"))


def make() -> Server:
    """A server with all of its features."""
    server = Server()

    def changed(uri: str) -> None:
        text, path = server.workspace.get_text_document(uri).source, convert.path_of(uri)
        server.uris[path.resolve()] = uri
        server.session.change(path, text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def edited(params: lsp.DidChangeTextDocumentParams) -> None:
        changed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.session.close(convert.path_of(uri))
        server.uris.pop(convert.path_of(uri).resolve(), None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.session.again(convert.path_of(params.text_document.uri))  # what it reads may have changed, too

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(params: lsp.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            server.session.again(convert.path_of(change.uri))

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" ", "{", "[", "/", ".", ","])
    )
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList:
        path = convert.path_of(params.text_document.uri)
        scope, file = server.session.scope(path)
        at = server.convert.offset(file, params.position)
        found = cursor(file, at)
        offers = [] if found is None else complete(found, file.text, at, scope)
        return lsp.CompletionList(False, [server.convert.completion(o, file, at) for o in offers])

    _names(server)
    _shown(server)
    _done(server)
    return server


def _shown(server: Server) -> None:
    """Hover, inlay hints, code lenses."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hovered(params: lsp.HoverParams) -> lsp.Hover | None:
        path = convert.path_of(params.text_document.uri).resolve()
        facts = await server.session.facts(path)
        root = server.session.scope(path)[0].root
        symbols = Symbols(server.session.texts, library_path().resolve())
        at = server.convert.offset(root.span.file, params.position)
        named = symbols.at(path, at)
        declared_in = None if named is None else server.session.texts.tree(named.symbol.file)
        text = hover(Under(at, root, named, declared_in, facts))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text)) if text else None

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        path = convert.path_of(params.text_document.uri).resolve()
        facts = await server.session.facts(path)
        root = server.session.scope(path)[0].root
        found = (
            [] if facts is None else [(server.convert.position(root.span.file, h.at), h) for h in hints(facts, root)]
        )
        inside = ((at, h) for at, h in found if params.range.start.line <= at.line <= params.range.end.line)
        return [lsp.InlayHint(at, h.text, padding_left=True) for at, h in inside]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        root = server.session.scope(convert.path_of(uri))[0].root
        found = []
        for key, word in (("simulate", "run"), ("train", "run"), ("expect", "test")):
            entry = root.entry(key)
            if entry is not None:
                command = lsp.Command(word, f"netloom.{word}", arguments=[uri])
                found.append(lsp.CodeLens(server.convert.range_of(entry.key.span), command))
        return found


def _done(server: Server) -> None:
    """Quick fixes, and the commands of code lenses."""

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    async def fixes(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, found = params.text_document.uri, []
        file = server.session.scope(convert.path_of(uri))[1]
        for d in params.context.diagnostics:
            written = file.text[server.convert.offset(file, d.range.start) : server.convert.offset(file, d.range.end)]
            help = d.data if isinstance(d.data, str) else d.message.partition("\n")[2]
            names = replacements(str(d.code), help, written) if d.source == "netloom" else []
            for name in names:
                edit = lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(d.range, name)]})
                kind, first = lsp.CodeActionKind.QuickFix, len(names) == 1
                found.append(lsp.CodeAction(f"write `{name}`", kind, [d], edit=edit, is_preferred=first))
        return found

    @server.command("netloom.run")
    async def run(uri: str) -> int:
        return await command("run", uri)

    @server.command("netloom.test")
    async def test(uri: str) -> int:
        return await command("test", uri)

    async def command(word: str, uri: str) -> int:
        """Run a command of the command line on a saved file; its exit code."""
        path = convert.path_of(uri)
        root = server.workspace.root_path
        if not path.exists() or path.read_bytes().decode("utf-8", "replace") != server.session.text(path):
            message = f"{path.name} has changes that are not saved: netloom {word} reads the file"
            server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, message))
        server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, f"netloom {word} {path.name} ..."))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "compiler.cli", word, str(path)),
            cwd=root or path.parent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            out = (await process.communicate())[0].decode(errors="replace")
        finally:
            if process.returncode is None:
                process.terminate()
        code = process.returncode or 0
        kind = lsp.MessageType.Error if code else lsp.MessageType.Info
        server.window_log_message(lsp.LogMessageParams(kind, out))
        last = "\n".join(out.strip().splitlines()[-12:])
        server.window_show_message(lsp.ShowMessageParams(kind, f"netloom {word} {path.name}: exit code {code}\n{last}"))
        return code


def _names(server: Server) -> None:
    """Definitions, references, renaming."""

    def occurrence(where: lsp.TextDocumentIdentifier, at: lsp.Position) -> tuple[Symbols, Path, Occurrence | None]:
        path = convert.path_of(where.uri).resolve()
        symbols = Symbols(server.session.texts, library_path().resolve())
        root = server.session.texts.tree(path)
        return symbols, path, None if root is None else symbols.at(path, server.convert.offset(root.span.file, at))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        symbols, _, at = occurrence(params.text_document, params.position)
        span = None if at is None else symbols.declaration(at.symbol)
        return None if span is None else server.location(span)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        symbols, path, at = occurrence(params.text_document, params.position)
        found = [] if at is None else symbols.references(at.symbol, path)
        return [server.location(o.span) for o in found if params.context.include_declaration or not o.declares]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def prepare(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        symbols, _, at = occurrence(params.text_document, params.position)
        return None if at is None or symbols.refusal(at.symbol) else server.convert.range_of(at.span)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        symbols, path, at = occurrence(params.text_document, params.position)
        if at is None:
            return None
        refused = symbols.refusal(at.symbol, params.new_name)
        if refused is not None:
            raise JsonRpcInvalidParams(refused)
        edits: dict[str, list[lsp.TextEdit]] = {}
        for o in symbols.references(at.symbol, path):
            place = server.location(o.span)
            edits.setdefault(place.uri, []).append(lsp.TextEdit(place.range, params.new_name))
        return lsp.WorkspaceEdit(changes=dict(edits))


def serve(port: int | None = None) -> None:
    """Answer one client over standard input and output, or the clients of a port of this machine."""
    server = make()
    if port is not None:
        server.start_tcp("127.0.0.1", port)
        return
    # The client reads nothing but the protocol: what else is printed goes to standard error.
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server.start_io(os.fdopen(os.dup(sys.stdin.fileno()), "rb"), os.fdopen(out, "wb"))
