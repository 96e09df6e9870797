"""What the YAML parser complains about, in this project's words.

Assumes: exceptions of PyYAML (libyaml's messages and those of its Python twin).
Guarantees: each syntax error becomes one Diagnostic at the place that a user has to change.
Does not: parse; it looks at the text around the parser's marks only.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import yaml

from compiler.core.diagnostics import Related
from compiler.core.errors import Sink
from compiler.core.source import SourceFile, Span

# Tab, line feed, and carriage return before a line feed are fine. U+0085, U+2028 and U+2029 are
# line breaks for YAML 1.1 parsers and not for YAML 1.2, so they are refused rather than read in one
# of two ways.
_REFUSED: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]|\r(?!\n)|(?<!\\A)\ufeff"
)
_KEY_AND_MORE: Final = re.compile(r"\s*(?:- +)*[^\s#].*?:\s+\S")
_MAX_REPORTED: Final = 20


def refused_characters(file: SourceFile, sink: Sink) -> bool:
    """Report characters that no YAML text may hold; True when there are any."""
    found = False
    for number, match in enumerate(_REFUSED.finditer(file.text)):
        if number == _MAX_REPORTED:
            break
        found = True
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
    return found


def explain_syntax_error(error: yaml.YAMLError, file: SourceFile, sink: Sink) -> None:
    """Add the diagnostic for an exception of the parser."""
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    context = str(getattr(error, "context", None) or "")
    mark = getattr(error, "problem_mark", None)
    context_mark = getattr(error, "context_mark", None)
    size = len(file.text)
    at = min(mark.index, size) if mark is not None else 0
    opened = min(context_mark.index, size) if context_mark is not None else None
    char = file.text[at : at + 1]
    here = Span(file, at, min(at + 1, size))
    start = here if opened is None else Span(file, opened, min(opened + 1, size))

    def report(code: str, message: str, span: Span, help: str | None, begun: str = "") -> None:
        related = (Related(begun, start),) if begun and opened is not None else ()
        sink.error(code, message, span, help, related)

    if problem.startswith("mapping values are not allowed"):
        _unexpected_colon(file, at, sink)
    elif "tab" in problem or (char == "\t" and "cannot start any token" in problem):
        report("E0007", "a tab stands where indentation is read", here, "indent with spaces")
    elif "cannot start any token" in problem:
        help = f"put the value in quotes if it begins with `{char}`"
        report("E0023", f"a value cannot begin with `{char}`", here, help)
    elif "quoted scalar" in context and "unexpected" in problem:
        quote = file.text[start.start : start.end]
        report("E0021", f"this {quote} is not closed", start, f"end the string with {quote}")
    elif "quoted scalar" in context:
        help = r"write \\ for a backslash, or use single quotes, in which \ is an ordinary character"
        escape = Span(file, at, min(at + 2, size))
        report("E0025", f"unknown escape `{file.text[at : at + 2]}`", escape, help)
    elif problem.startswith(("did not find expected ',' or", "expected ',' or")):
        _unclosed_bracket(file, at, start, sink)
    elif "simple key" in context:
        line = file.position(start.start)[0]
        end = start.start + len(file.text[start.start :].split("\n", 1)[0].rstrip())
        help = "write `key: value`, with a space after the colon"
        message = f"`:` is missing after this key (line {line})"
        report("E0026", message, Span(file, start.start, max(end, start.start)), help)
    elif problem.startswith(("did not find expected key", "expected <block end>")) or (
        "expected '-' indicator" in problem
    ):
        if char in "]}":
            report("E0022", f"this `{char}` closes nothing", here, f"delete the `{char}`")
        elif char == ":":
            help = "a value that begins with `:` must be in quotes"
            report("E0009", "there is no key before this `:`", here, help)
        else:
            what = "list" if "collection" in context or "'-'" in problem else "mapping"
            help = "align it with the entries that it belongs to"
            message = f"this line fits neither the {what} above nor what encloses it"
            report("E0024", message, here, help, f"the {what} begins here")
    elif "block sequence entries are not allowed" in problem:
        help = "begin the list on the next line, or write it as [a, b]"
        report("E0027", "a list item cannot begin on this line", here, help)
    elif "block scalar" in context:
        help = "put the value in quotes if it begins with `>` or `|`"
        message = "after `>` or `|` the line must end; the text begins on the next line"
        report("E0023", message, here, help)
    elif "anchor" in context or "alias" in context:
        first = file.text[start.start : start.end]
        help = f"put the value in quotes if it begins with `{first}`"
        report("E0023", f"no name follows this `{first}`", start, help)
    elif "tag" in problem or "tag" in context:
        help = "put the value in quotes if it begins with `!`"
        report("E0011", "tags are not part of the language", here, help)
    elif "directive" in problem or "directive" in context or "incompatible" in problem:
        help = "only `%YAML 1.2` may stand before the document"
        report("E0013", "this directive is not understood", here, help)
    elif "document start" in problem:
        if char and char in "]}":
            report("E0022", f"this `{char}` closes nothing", here, f"delete the `{char}`")
        else:
            report("E0012", "text follows the end of the document", here, None)
    elif "node content" in problem and char:
        help = f"put the value in quotes if `{char}` is part of it"
        report("E0023", f"a value is expected here, not `{char}`", here, help)
    elif isinstance(error, yaml.reader.ReaderError):
        report("E0006", "the file holds a character that YAML does not allow", here, None)
    else:
        report("E0001", problem + (f", {context}" if context else ""), here, None)


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
        related = (Related("the value is here", place),)
        sink.error("E0024", message, span, help, related)
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
    related = (Related(f"the `{bracket}` is here", start),)
    help = f"a comma or the closing `{closing}` is missing before this place"
    message = f"expected `,` or `{closing}` here"
    sink.error("E0022", message, here, help, related)
