"""Shows diagnostics: as text with source lines and carets, one per line, or as JSON.

Assumes: spans whose files hold the text that was read.
Guarantees: sorted by file and position, without duplicates; carets stand under what they mark
whatever the width of the characters before; long lines are clipped; nothing in a source line can
move the cursor.
Does not: print, decide on colour, or know what codes mean (compiler/core/codes.md).
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from compiler.core.diagnostics import Diagnostic, Related, Severity
from compiler.core.source import NOWHERE, Origin, Span

Format: TypeAlias = Literal["human", "short", "json"]

MAX_SHOWN: Final = 100
MAX_VIA: Final = 8
MAX_WIDTH: Final = 100  # columns of a source line that are shown
TAB_STOP: Final = 4

_RESET: Final = "\x1b[0m"
_STYLES: Final = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
    "help": "\x1b[1;36m",
    "message": "\x1b[1m",
    "gutter": "\x1b[1;34m",
}
# Characters that change the text direction would show another program than the one that is parsed.
_BIDIRECTIONAL: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def render(diagnostics: Iterable[Diagnostic], format: Format, color: bool = False) -> str:
    """All of `diagnostics` as one text, ending in a line feed; empty when there are none.

    `human` ends with a summary and shows at most MAX_SHOWN; `short` is one line each, as compilers
    write them; `json` is one object per line and always complete.
    """
    in_order = ordered(diagnostics)
    if not in_order:
        return ""
    if format == "json":
        return "".join(_json(d) + "\n" for d in in_order)
    shown, rest = in_order[:MAX_SHOWN], len(in_order) - MAX_SHOWN
    paint = _Paint(color)
    if format == "short":
        lines = [_short(d, paint) for d in shown]
        if rest > 0:
            lines.append(f"... and {rest} more")
        return "\n".join(lines) + "\n"
    blocks = [_human(d, paint) for d in shown]
    if rest > 0:
        blocks.append(f"... and {rest} more")
    blocks.append(_summary(in_order, paint))
    return "\n\n".join(blocks) + "\n"


def block(d: Diagnostic, color: bool = False) -> str:
    """One diagnostic, with its source line and help, without a line feed at the end."""
    return _human(d, _Paint(color))


def complaint(
    code: str,
    message: str,
    help: str | None,
    format: Format = "human",
    color: bool = False,
    span: Span | None = None,
) -> str:
    """An error of a run or a tool, ending in a line feed. Its message may have several lines (a compiler's output),
    which `human` shows below it."""
    first, _, rest = message.partition("\n")
    place = None if span is None or _is_nowhere(span) else span
    diagnostic = Diagnostic(code, first, place, help)
    if format != "human":
        return render([diagnostic], format, color)
    lines = [block(diagnostic, color), *(f"  | {line}" for line in rest.split("\n") if rest)]
    return "\n".join(lines) + "\n"


def ordered(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by file and position; of several that say the same of the same place, only the first.

    Copies that `for` made of one mistake stand at one place, so they become one. Those without a
    place come first.
    """
    first: dict[tuple[object, ...], Diagnostic] = {}
    for d in diagnostics:
        place = (d.span.file.path, d.span.start, d.span.end) if d.span else None
        first.setdefault((d.code, d.severity, d.message, place), d)

    def key(d: Diagnostic) -> tuple[str, int, int]:
        return (d.span.file.path, d.span.start, d.span.end) if d.span else ("", -1, -1)

    return sorted(first.values(), key=key)


@dataclass(frozen=True)
class _Paint:
    on: bool

    def __call__(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self.on else text


def _head(d: Diagnostic, paint: _Paint) -> str:
    label = f"{d.severity.value}[{d.code}]" if d.code else d.severity.value
    return paint(label, d.severity.value) + paint(f": {_one_line(d.message)}", "message")


def _short(d: Diagnostic, paint: _Paint) -> str:
    return f"{d.span}: {_head(d, paint)}" if d.span else _head(d, paint)


def _human(d: Diagnostic, paint: _Paint) -> str:
    spans = [d.span] if d.span else []
    spans += [r.span for r in d.related]
    gutter = max((len(str(s.line)) for s in spans), default=1)
    lines = [_head(d, paint)]
    if d.span is not None:
        lines.append(f"{' ' * gutter}{paint('-->', 'gutter')} {d.span}")
        lines += _snippet(d.span, gutter, paint, d.severity.value)
    margin = " " * (gutter + 1) + paint("=", "gutter") + " "
    if d.help:
        text = d.help.replace("\n", "\n" + " " * (gutter + 9))
        lines.append(f"{margin}{paint('help:', 'help')} {text}")
    for related in d.related:
        lines += _related(related, gutter, margin, paint)
    for step in _chain(d.span)[:MAX_VIA]:
        where = "" if _is_nowhere(step.span) else f" ({step.span})"
        lines.append(f"{margin}via {step.label}{where}")
    if len(_chain(d.span)) > MAX_VIA:
        lines.append(f"{margin}via {len(_chain(d.span)) - MAX_VIA} more")
    return "\n".join(lines)


def _related(related: Related, gutter: int, margin: str, paint: _Paint) -> list[str]:
    label = f"{margin}{paint('note:', 'note')} {_one_line(related.message)}"
    if _is_nowhere(related.span):
        return [label]
    return [f"{label}: {related.span}", *_snippet(related.span, gutter, paint, "note")]


def _snippet(span: Span, gutter: int, paint: _Paint, style: str) -> list[str]:
    """The source line of `span` with carets under it; nothing when the file has no text."""
    if not span.file.text:
        return []
    number, column = span.file.position(span.start)
    last, last_column = span.file.position(max(span.end, span.start))
    line = span.file.line(number)
    if last > number and last_column == 1:
        last, last_column = last - 1, 0  # it ends at the line feed before
    begin = column - 1
    end = last_column - 1 if last == number and last_column else len(line)
    shown, before, width = clip(line, begin, max(begin, min(end, len(line))))
    carets = "^" * max(width, 1)
    tail = f" to line {last}" if last > number else ""
    bar = paint("|", "gutter")
    empty = " " * gutter
    return [
        f"{empty} {bar}",
        f"{paint(str(number).rjust(gutter), 'gutter')} {bar} {shown}".rstrip(),
        f"{empty} {bar} {' ' * before}{paint(carets + tail, style)}",
    ]


def clip(line: str, begin: int, end: int) -> tuple[str, int, int]:
    """(what is shown of `line`, columns before the marked part, columns of it).

    Characters [begin, end) are marked. A line wider than MAX_WIDTH is cut around the marked part, of
    which the beginning stays visible.
    """
    # Cut by characters first, so that a line of megabytes costs no more than a short one.
    from_char = max(0, begin - MAX_WIDTH)
    part = line[from_char : begin + 2 * MAX_WIDTH]
    cells = _cells(part)
    widths = [w for _, w in cells]
    at, to = begin - from_char, min(end, from_char + len(part)) - from_char
    total = sum(widths)
    if from_char == 0 and len(part) == len(line) and total <= MAX_WIDTH:
        return _join(cells), sum(widths[:at]), sum(widths[at:to])
    # The marked part stays whole when it can; what room is left goes half before and half after it.
    marked = min(sum(widths[at:to]), MAX_WIDTH - 20)
    first, room = at, (MAX_WIDTH - 6 - marked) // 2
    while first > 0 and widths[first - 1] <= room:
        first -= 1
        room -= widths[first]
    left = "..." if first > 0 or from_char > 0 else ""
    stop, room = first, MAX_WIDTH - 3 - len(left)
    while stop < len(cells) and widths[stop] <= room:
        room -= widths[stop]
        stop += 1
    right = "..." if from_char + stop < len(line) else ""
    before = len(left) + sum(widths[first:at])
    return left + _join(cells[first:stop]) + right, before, sum(widths[at : min(to, stop)])


def _cells(text: str) -> list[tuple[str, int]]:
    """What is shown for each character of `text`, and how many columns of a terminal it takes."""
    cells: list[tuple[str, int]] = []
    column = 0
    for char in text:
        shown, width = _cell(char, column)
        cells.append((shown, width))
        column += width
    return cells


def _cell(char: str, column: int) -> tuple[str, int]:
    if " " <= char <= "~":
        return char, 1
    if char == "\t":
        width = TAB_STOP - column % TAB_STOP
        return " " * width, width
    code = ord(char)
    if code < 32:
        return chr(0x2400 + code), 1  # pictures of control characters
    category = unicodedata.category(char)
    if char in _BIDIRECTIONAL or category in ("Cc", "Cs", "Zl", "Zp", "Cn"):
        return "\ufffd", 1
    if category in ("Mn", "Me", "Cf"):
        return char, 0
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _join(cells: Sequence[tuple[str, int]]) -> str:
    return "".join(shown for shown, _ in cells)


def _one_line(text: str) -> str:
    """`text` with what would break a line or move the cursor made visible."""
    return "".join(_cell(c, 0)[0] if c != "\n" else " " for c in text)


def _chain(span: Span | None) -> list[Origin]:
    """The expansions that led to `span`, innermost first."""
    steps: list[Origin] = []
    step = span.via if span else None
    while step is not None:
        steps.append(step)
        step = step.parent
    return steps


def _is_nowhere(span: Span) -> bool:
    return span.file is NOWHERE.file


def _summary(diagnostics: Sequence[Diagnostic], paint: _Paint) -> str:
    counts = Counter(d.severity for d in diagnostics)
    parts = [
        f"{n} {word}{'' if n == 1 else 's'}"
        for severity, word in (
            (Severity.ERROR, "error"),
            (Severity.WARNING, "warning"),
            (Severity.NOTE, "note"),
        )
        if (n := counts[severity])
    ]
    worst = next(s for s in Severity if counts[s])
    paths = {d.span.file.path for d in diagnostics if d.span is not None}
    where = f" in {next(iter(paths))}" if len(paths) == 1 else ""
    if len(paths) > 1:
        where = f" in {len(paths)} files"
    return paint(worst.value, worst.value) + paint(": " + " and ".join(parts) + where, "message")


def _json(d: Diagnostic) -> str:
    return json.dumps(
        {
            "code": d.code,
            "severity": d.severity.value,
            "message": d.message,
            **_place(d.span),
            "help": d.help,
            "related": [{"message": r.message, **_place(r.span)} for r in d.related],
            "via": [{"kind": o.kind, "label": o.label, **_place(o.span)} for o in _chain(d.span)],
        },
        ensure_ascii=False,
    )


def _place(span: Span | None) -> dict[str, str | int | None]:
    """Lines and columns count from 1, in characters; the end is exclusive."""
    if span is None or _is_nowhere(span):
        names = ("path", "line", "column", "end_line", "end_column")
        return dict.fromkeys(names)
    line, column = span.file.position(span.start)
    end_line, end_column = span.file.position(max(span.start, span.end))
    return {
        "path": span.file.path,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
