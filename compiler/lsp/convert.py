"""Between the compiler's data and that of the Language Server Protocol: places, diagnostics, paths.

Assumes: absolute paths in spans, or `library/...`.
Guarantees: a place outside of the text becomes the nearest inside of it.
Does not: talk to a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris

from compiler.core.diagnostics import Diagnostic, Severity
from compiler.core.resources import library_path
from compiler.core.source import SourceFile, Span
from compiler.lsp.completion import Offer

_SEVERITY = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.NOTE: lsp.DiagnosticSeverity.Information,
}


def path_of(uri: str) -> Path:
    """The path of a document; that of an unsaved one without a place is relative, and names no file."""
    found = uris.to_fs_path(uri)
    return Path(found if found is not None else uri.rpartition(":")[2])


def uri_of(path: Path | str) -> str:
    """The URI of the file that a span names."""
    text = str(path)
    if text.startswith("library/"):
        text = str(library_path() / text.removeprefix("library/"))
    return uris.from_fs_path(text) or text


_OFFERS = {
    "key": lsp.CompletionItemKind.Property,
    "name": lsp.CompletionItemKind.Variable,
    "word": lsp.CompletionItemKind.EnumMember,
}


@dataclass(frozen=True)
class Convert:
    """For a client that counts columns in UTF-16 units (as all can), in bytes of UTF-8 or in characters."""

    encoding: str = "utf-16"

    def units(self, text: str) -> int:
        """The length of a text as the client counts."""
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "replace"))
        return len(text) + (sum(c > "\uffff" for c in text) if self.encoding == "utf-16" else 0)

    def position(self, file: SourceFile, offset: int) -> lsp.Position:
        """The place of a character offset."""
        line, column = file.position(min(max(offset, 0), len(file.text)))
        before = file.line(line)[: column - 1]
        return lsp.Position(line - 1, self.units(before))

    def offset(self, file: SourceFile, at: lsp.Position) -> int:
        """The character offset of a place."""
        if at.line >= len(file.line_starts):
            return len(file.text)
        text, units, count = file.line(at.line + 1), 0, 0
        while count < len(text) and units < at.character:
            units += self.units(text[count])
            count += 1
        return file.line_starts[at.line] + count

    def range_of(self, span: Span) -> lsp.Range:
        return lsp.Range(self.position(span.file, span.start), self.position(span.file, span.end))

    def location(self, span: Span) -> lsp.Location:
        """The place of a span, in whichever file it is."""
        return lsp.Location(uri_of(span.file.path), self.range_of(span))

    def diagnostic(self, d: Diagnostic, path: Path) -> lsp.Diagnostic:
        """A diagnostic of the document at `path`. One that lies in another file stands where this one leads to it, with
        the other place beside it."""
        span, related = d.span, [(r.message, r.span) for r in d.related]
        fix = d.help  # what replaces the text at this place
        if span is not None and span.file.path != str(path):
            related.insert(0, ("it is here", span))
            span, fix = _led_here(span, path), ""
        where = self.range_of(span) if span is not None else lsp.Range(lsp.Position(0, 0), lsp.Position(0, 1))
        return lsp.Diagnostic(
            where,
            d.message if d.help is None else f"{d.message}\n{d.help}",
            severity=_SEVERITY[d.severity],
            code=d.code,
            source="netloom",
            related_information=[lsp.DiagnosticRelatedInformation(self.location(s), m) for m, s in related] or None,
            data=fix,
        )

    def completion(self, offer: Offer, file: SourceFile, at: int) -> lsp.CompletionItem:
        """What may be written from the place where an offer begins to the cursor at `at`."""
        where = lsp.Range(self.position(file, offer.start), self.position(file, at))
        doc = lsp.MarkupContent(lsp.MarkupKind.Markdown, offer.doc) if offer.doc else None
        edit = lsp.TextEdit(where, offer.insert)
        kind = _OFFERS[offer.what]
        return lsp.CompletionItem(
            offer.label, kind=kind, detail=offer.detail or None, documentation=doc, text_edit=edit
        )


def _led_here(span: Span, path: Path) -> Span | None:
    """The outermost place of the file at `path` that leads to `span`."""
    found, origin = None, span.via
    while origin is not None:
        if origin.span.file.path == str(path):
            found = origin.span
        origin = origin.parent
    return found
