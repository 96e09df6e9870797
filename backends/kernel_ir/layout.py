"""Lines of text, broken where they are too long.

Assumes: text with the marks of tree.py.
Guarantees: a line of at most WIDTH columns, if its marks allow it: broken at the outermost of them that keep it so, the
last of these; at what is outside an expression (one mark: `=`), if all behind it fits in a line. Behind a place in an
operand it is indented once more than behind one outside. The words are the same in the same order. A note that does
not fit stands above.
Does not: look into what is between marks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

from backends.kernel_ir.tree import BODY, MARK, plain
from compiler.core.source import NOWHERE, Span

WIDTH: Final = 120
_PLACE: Final = f" {MARK}"


class Line(NamedTuple):
    """One line of text, indented by `depth` levels; `span` of the user's expression, if any; `note`: a comment."""

    text: str
    depth: int = 0
    span: Span = NOWHERE
    note: str = ""

    @property
    def room(self) -> int:
        return WIDTH - 4 * self.depth

    @property
    def noted(self) -> str:
        return f"{self.text} /* {self.note} */" if self.note else self.text


def broken(line: Line) -> Iterator[Line]:
    """The lines of one, without marks and notes."""
    text, depth, span, note = line
    shown, noted = plain(text), plain(line.noted)
    if len(noted) <= line.room:
        yield Line(noted, depth, span)
        return
    if note:
        yield from remark(note, depth)
    if len(shown) <= line.room or shown.startswith("#") or shown.endswith("\\"):
        yield Line(shown, depth, span)
        return
    head, _, body = text.partition(BODY)
    yield from _parts(head, line)
    if body:
        yield from broken(Line(body, depth + 1, span))


def remark(text: str, depth: int) -> Iterator[Line]:
    """A comment in lines of its own."""
    first, *rest = textwrap.wrap(f"/* {text} */", WIDTH - 4 * depth, subsequent_indent="   ") or [""]
    yield from (Line(x, depth) for x in (first, *rest))


def _parts(text: str, line: Line) -> Iterator[Line]:
    """What fits in a line, and the lines behind it; those of a head are apart from its body."""
    marked, depth, outside = text.split(_PLACE), line.depth, list[int]()
    words = [x.lstrip(MARK) for x in marked]
    levels = [1 + len(x) - len(word) for x, word in zip(marked, words, strict=True)]
    behind = depth if text.endswith(";") else depth + 1
    while len(" ".join(words)) > WIDTH - 4 * depth and words[1:]:
        fit, length = 1, len(words[0])
        while (length := length + 1 + len(words[fit])) <= WIDTH - 4 * depth:
            fit += 1
        last = [n for n in range(1, fit + 1) if levels[n] == 1 and len(" ".join(words[n:])) < WIDTH - 4 * behind - 4]
        worse = 2.5 if outside else len(text)  # what is outside, where what is behind it does not fit
        at = last[-1] if last else min(range(1, fit + 1), key=lambda n: (levels[n] if levels[n] > 1 else worse, -n))
        yield Line(" ".join(words[:at]), depth, line.span)
        outside = [*(x for x in outside if x < levels[at]), levels[at]]
        words, levels, depth = words[at:], levels[at:], behind + len(outside)
    yield Line(" ".join(words), depth, line.span)
