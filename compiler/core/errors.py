"""Errors: mistakes in a model file, collected and raised together, and errors of runs and tools.

Assumes: nothing.
Guarantees: every error carries a stable code; those of runs and tools carry an exit code.
Does not: print.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from compiler.core.diagnostics import Diagnostic, Related, Severity
from compiler.core.source import Span


class NetloomError(Exception):
    """Every error that a user can do something about."""


class ModelError(NetloomError):
    """Raised when a stage cannot go on; carries every diagnostic collected so far. `str` is what the command line
    prints."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        from compiler.core.render import render

        return render(self.diagnostics, "human").rstrip("\n")


class CodedError(NetloomError):
    """An error of a run or a tool. `exit_code`: of the command line; `span`: the place in the model file of what the
    message names, if it has one; `str` is the text that the command line prints."""

    def __init__(self, code: str, message: str, help: str | None, exit_code: int, span: Span | None = None) -> None:
        super().__init__(code, message, help, exit_code, span)
        self.code, self.message, self.help, self.exit_code = code, message, help, exit_code
        self.span = span

    def __str__(self) -> str:
        from compiler.core.render import complaint

        return complaint(self.code, self.message, self.help, span=self.span).rstrip("\n")


@dataclass
class Sink:
    """Collects diagnostics. A stage shares one sink; `check` raises when any of them is an error. Texts of users that a
    message repeats are cut at LONGEST characters."""

    items: list[Diagnostic] = field(default_factory=list)

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        help: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        self.items.append(Diagnostic(code, _cut(message), span, help and _cut(help), related))

    def warning(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        self.items.append(Diagnostic(code, _cut(message), span, help and _cut(help), (), Severity.WARNING))

    def check(self) -> None:
        """Raise ModelError with everything collected if at least one item is an error."""
        if any(d.severity is Severity.ERROR for d in self.items):
            raise ModelError(self.items)


LONGEST: Final = 2000


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class RunError(CodedError):
    """A run cannot continue. exit_code 5: it failed, numerically or because something cannot be written; 2: the
    request is invalid."""

    def __init__(
        self, code: str, message: str, help: str | None = None, exit_code: int = 5, span: Span | None = None
    ) -> None:
        super().__init__(code, message, help, exit_code, span)


class Interrupted(KeyboardInterrupt):
    """A signal (Ctrl-C, SIGTERM or SIGHUP) ends the current work; no results are lost."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"signal {signal_number}")
        self.signal_number = signal_number
