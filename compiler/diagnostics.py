"""Diagnostics: errors as data, collected by whoever finds them and rendered in one place (render.py).

Assumes: spans from compiler.source.
Guarantees: a pass that meets a user's mistake adds a Diagnostic to its `Sink` and goes on where it can;
`Sink.check()` ends the stage when there are errors. No other exception stands for a user's mistake.
Does not: print, colour or exit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum

from compiler.source import Span


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Related:
    """A second place that explains the first: "declared here", "first used here"."""

    message: str
    span: Span


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `code` is stable ("E0123"); the catalogue in compiler/codes.py tells more about each."""

    code: str
    message: str
    span: Span | None
    help: str | None = None
    related: tuple[Related, ...] = ()
    severity: Severity = Severity.ERROR


class ModelError(Exception):
    """Raised when a stage cannot go on; carries every diagnostic collected so far."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__("; ".join(d.message for d in self.diagnostics))


@dataclass
class Sink:
    """Collects diagnostics. A stage shares one sink; `check` raises when any of them is an error."""

    items: list[Diagnostic] = field(default_factory=list)

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        help: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.items.append(Diagnostic(code, message, span, help, related))

    def warning(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        self.items.append(Diagnostic(code, message, span, help, (), Severity.WARNING))

    def check(self) -> None:
        """Raise ModelError with everything collected if at least one item is an error."""
        if any(d.severity is Severity.ERROR for d in self.items):
            raise ModelError(self.items)


def did_you_mean(word: str, known: Iterable[str], limit: int = 1) -> str | None:
    """ "did you mean `x`?" for the nearest of `known`, or None when nothing is near."""
    near = get_close_matches(word, list(known), n=limit, cutoff=0.6)
    if not near:
        return None
    return "did you mean " + " or ".join(f"`{n}`" for n in near) + "?"
