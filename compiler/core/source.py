"""Where text came from: source files, spans in them, and the chain of expansions behind a node.

Assumes: nothing; every other module may import this one.
Guarantees: a span is cheap (three words), immutable, and never takes part in structural equality of the
node that carries it (carriers declare `span: Span = field(default=NOWHERE, compare=False)`).
Does not: read files, decode text or render anything.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One text that a user wrote: `path` as it is shown to the user, `text` decoded."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Character offset at which each line begins (line 1 first)."""
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return tuple(starts)

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of a character offset, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1) without its line end."""
        starts = self.line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")


@dataclass(frozen=True)
class Origin:
    """One step of expansion: the node was produced by a `use`, a `for`, a `repeat` or a class."""

    kind: str  # "use" | "for" | "repeat" | "class" | "library" | "--set"
    label: str  # what a reader calls this step, e.g. "use of library/neurons/adex" or "for i = 17"
    span: Span
    parent: Origin | None = None


# A large model has a million spans. Frozen by `Final`, which the type checker enforces:
# `frozen=True` would do so at run time and make each of them four times slower to create.
@dataclass(slots=True, unsafe_hash=True, repr=False)
class Span:
    """Characters [start, end) of a file, and the expansions (`via`, innermost first) that led there. `line` and
    `column` (of the first character, in characters) count from 1."""

    file: Final[SourceFile]
    start: Final[int]
    end: Final[int]
    via: Final[Origin | None] = field(default=None, compare=False)

    @property
    def line(self) -> int:
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.file.position(self.start)[1]

    def __str__(self) -> str:
        line, column = self.file.position(self.start)
        return f"{self.file.path}:{line}:{column}"

    def __repr__(self) -> str:
        last = self.file.position(self.end)
        return f"<Span {self} to {last[0]}:{last[1]}>"


NOWHERE = Span(SourceFile("<generated>", ""), 0, 0)
"""The span of a node without source text."""
