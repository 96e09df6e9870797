"""Syntax errors of the YAML parser, in this project's wording.

Assumes: exceptions of PyYAML (messages of libyaml and of its Python counterpart).
Guarantees: each syntax error becomes one Diagnostic at the span that a user has to change.
Does not: parse; it inspects only the text around the parser's marks.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

import yaml

from compiler.core.diagnostics import Related, Sink
from compiler.core.source import SourceFile, Span

# Tab, line feed, and carriage return before a line feed are fine. U+0085, U+2028 and U+2029 are
# line breaks for YAML 1.1 parsers and not for YAML 1.2, so they are refused rather than read in one
# of two ways.
_REFUSED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]|\r(?!\n)|(?<!\\A)\ufeff"
)
_KEY_AND_MORE: Final = re.compile(r"\s*(?:- +)*[^\s#].*?:\s+\S")
_MAX_REPORTED: Final = 20
MAX_DEPTH: Final = 100


def refused_characters(file: SourceFile, sink: Sink) -> bool:
    """Report characters that are invalid in YAML; True when there are any."""
    refused = False
    for number, match in enumerate(_REFUSED.finditer(file.text)):
        if number == _MAX_REPORTED:
            break
        refused = True
        char = match.group()[0]
        span = Span(file, match.start(), match.start() + 1)
        code = ord(char)
        if char == "\ufeff":
            sink.error("E0005", "a byte order mark in the middle of the file", span, "delete it")
        elif char == "\r":
            help = "use line feeds, or carriage return and line feed, as line ends"
            sink.error("E0006", "a carriage return without a line feed", span, help)
        elif char in "\u0085\u2028\u2029":
            message = f"the line separator U+{code:04X} is not allowed here"
            sink.error("E0006", message, span, "use an ordinary line end")
        else:
            name = "NUL" if code == 0 else unicodedata.name(char, "a control character")
            message = f"the character U+{code:04X} ({name}) is not allowed in a model file"
            help = f'in a string in double quotes it can be written as "\\u{code:04x}"'
            sink.error("E0006", message, span, help)
    return refused


@dataclass(frozen=True)
class _Complaint:
    """An exception of the parser. `at`: where it was detected; `opened`: the start of the enclosing construct."""

    file: SourceFile
    sink: Sink
    problem: str
    context: str
    at: int
    opened: int | None

    @property
    def char(self) -> str:
        return self.file.text[self.at : self.at + 1]

    @property
    def here(self) -> Span:
        return Span(self.file, self.at, min(self.at + 1, len(self.file.text)))

    @property
    def start(self) -> Span:
        if self.opened is None:
            return self.here
        return Span(self.file, self.opened, min(self.opened + 1, len(self.file.text)))

    def report(self, code: str, message: str, span: Span, help: str | None, begun: str = "") -> bool:
        related = (Related(begun, self.start),) if begun and self.opened is not None else ()
        self.sink.error(code, message, span, help, related)
        return True


def explain_syntax_error(error: yaml.YAMLError, file: SourceFile, sink: Sink) -> None:
    """Add the diagnostic for an exception of the parser."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = str(getattr(error, "context", None) or "")
    mark = getattr(error, "problem_mark", None)
    context_mark = getattr(error, "context_mark", None)
    size = len(file.text)
    at = min(mark.index, size) if mark is not None else 0
    opened = min(context_mark.index, size) if context_mark is not None else None
    c = _Complaint(file, sink, problem, context, at, opened)
    if _in_a_scalar(c) or _in_a_collection(c) or _of_properties(c):
        return
    if isinstance(error, yaml.reader.ReaderError):
        c.report("E0006", "the file holds a character that YAML does not allow", c.here, None)
    elif problem == "exceeded maximum nesting depth":  # of libyaml, which has a limit of its own
        c.report("E0014", f"nesting is deeper than {MAX_DEPTH} levels", c.here, None)
    else:
        c.report("E0001", problem + (f", {context}" if context else ""), c.here, None)


def _in_a_scalar(c: _Complaint) -> bool:
    """Characters that no value may begin with, and quotes. Whether that is the error."""
    if c.problem.startswith("mapping values are not allowed"):
        _unexpected_colon(c.file, c.at, c.sink)
        return True
    no_token = "cannot start any token" in c.problem
    if "tab" in c.problem or (c.char == "\t" and no_token):
        return c.report("E0007", "a tab stands where indentation is read", c.here, "indent with spaces")
    if no_token:
        help = f"put the value in quotes if it begins with `{c.char}`"
        return c.report("E0023", f"a value cannot begin with `{c.char}`", c.here, help)
    if "quoted scalar" not in c.context:
        return False
    if "unexpected" in c.problem:
        quote = c.file.text[c.start.start : c.start.end]
        return c.report("E0021", f"this {quote} is not closed", c.start, f"end the string with {quote}")
    help = r"write \\ for a backslash, or use single quotes, in which \ is an ordinary character"
    escape = Span(c.file, c.at, min(c.at + 2, len(c.file.text)))
    return c.report("E0025", f"unknown escape `{c.file.text[c.at : c.at + 2]}`", escape, help)


def _in_a_collection(c: _Complaint) -> bool:
    """Brackets, keys without a colon, and indentation. Whether that is the error."""
    if c.problem.startswith(("did not find expected ',' or", "expected ',' or")):
        _unclosed_bracket(c.file, c.at, c.start, c.sink)
        return True
    if "simple key" in c.context:
        start = c.start.start
        line = c.file.position(start)[0]
        end = start + len(c.file.text[start:].split("\n", 1)[0].rstrip())
        help = "write `key: value`, with a space after the colon"
        return c.report(
            "E0026", f"`:` is missing after this key (line {line})", Span(c.file, start, max(end, start)), help
        )
    starts = ("did not find expected key", "expected <block end>")
    if c.problem.startswith(starts) or "expected '-' indicator" in c.problem:
        return _no_entry(c)
    if "block sequence entries are not allowed" in c.problem:
        help = "begin the list on the next line, or write it as [a, b]"
        return c.report("E0027", "a list item cannot begin on this line", c.here, help)
    return False


def _no_entry(c: _Complaint) -> bool:
    """Text where an entry of a block mapping or list is expected."""
    if c.char in "]}":
        return c.report("E0022", f"this `{c.char}` closes nothing", c.here, f"delete the `{c.char}`")
    if c.char == ":":
        help = "a value that begins with `:` must be in quotes"
        return c.report("E0009", "there is no key before this `:`", c.here, help)
    what = "list" if "collection" in c.context or "'-'" in c.problem else "mapping"
    help = "align it with the entries that it belongs to"
    message = f"this line fits neither the {what} above nor what encloses it"
    return c.report("E0024", message, c.here, help, f"the {what} begins here")


def _of_properties(c: _Complaint) -> bool:
    """Block scalars, anchors, tags, directives and the ends of documents. Whether that is the error."""
    if "block scalar" in c.context:
        help = "put the value in quotes if it begins with `>` or `|`"
        message = "after `>` or `|` the line must end; the text begins on the next line"
        return c.report("E0023", message, c.here, help)
    if "anchor" in c.context or "alias" in c.context:
        first = c.file.text[c.start.start : c.start.end]
        help = f"put the value in quotes if it begins with `{first}`"
        return c.report("E0023", f"no name follows this `{first}`", c.start, help)
    both = f"{c.problem}\n{c.context}"
    if "tag" in both:
        help = "put the value in quotes if it begins with `!`"
        return c.report("E0011", "tags are not part of the language", c.here, help)
    if "directive" in both or "incompatible" in c.problem:
        help = "only `%YAML 1.2` may stand before the document"
        return c.report("E0013", "this directive is not understood", c.here, help)
    if "document start" in c.problem:
        if c.char and c.char in "]}":
            return c.report("E0022", f"this `{c.char}` closes nothing", c.here, f"delete the `{c.char}`")
        return c.report("E0012", "text follows the end of the document", c.here, None)
    if "node content" in c.problem and c.char:
        help = f"put the value in quotes if `{c.char}` is part of it"
        return c.report("E0023", f"a value is expected here, not `{c.char}`", c.here, help)
    return False


def _unexpected_colon(file: SourceFile, at: int, sink: Sink) -> None:
    """`a: b: c` (a colon in a value), or a key indented under a value or a word without colon."""
    number, column = file.position(at)
    before = file.line(number)[: column - 1]
    here = Span(file, at, min(at + 1, len(file.text)))
    if _KEY_AND_MORE.match(before):
        help = "put the value in quotes, or begin a nested mapping on the next line"
        sink.error("E0020", "`: ` inside of a value that is not in quotes", here, help)
        return
    key = before.strip()
    begin = at - len(before.lstrip())
    above = number - 1
    while above > 0 and not file.line(above).strip():
        above -= 1
    previous = file.line(above)
    span = Span(file, begin, max(begin, at))
    starts = file.line_starts
    indent = len(previous) - len(previous.lstrip())
    place = Span(file, starts[above - 1] + indent, starts[above - 1] + len(previous.rstrip()))
    if ":" in previous:
        message = f"the key `{key}` is indented under a line that already has a value"
        help = "align it with the keys that it belongs to"
        sink.error("E0024", message, span, help, (Related("the value is here", place),))
    else:
        help = "write `key: value`, with a space after the colon"
        message = "`:` is missing in this line" if above else f"unexpected key `{key}`"
        sink.error("E0026", message, place if above else span, help)


def _unclosed_bracket(file: SourceFile, at: int, start: Span, sink: Sink) -> None:
    bracket = file.text[start.start : start.end]
    closing = {"[": "]", "{": "}"}.get(bracket, "]")
    if not file.text[at:].strip():
        sink.error("E0022", f"this `{bracket}` is not closed", start, f"add the `{closing}`")
        return
    here = Span(file, at, min(at + 1, len(file.text)))
    part = re.compile(r"\w+\s*\[[^\[\]\n]*\]").match(file.text, _word_start(file.text, at))
    if file.text[at] == "[" and part is not None:
        help = f"inside of brackets this is put in quotes: `'{part[0]}'`"
    else:
        help = f"a comma or the closing `{closing}` is missing before this place"
    message = f"expected `,` or `{closing}` here"
    sink.error("E0022", message, here, help, (Related(f"the `{bracket}` is here", start),))


def _word_start(text: str, at: int) -> int:
    """Where the word that ends before `at` begins."""
    while at > 0 and (text[at - 1].isalnum() or text[at - 1] in "_ "):
        at -= 1
    return at + len(text[at:]) - len(text[at:].lstrip())
