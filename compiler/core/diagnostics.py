"""Diagnostics: mistakes in a model file as data, collected where they are detected and rendered in one place
(render.py); and the errors that are raised: for these together, and of runs and tools.

Assumes: spans from compiler.core.source.
Guarantees: a pass that detects a user's mistake adds a Diagnostic to its `Sink` and goes on where it can;
`Sink.check()` ends the stage when there are errors. No other exception is raised for a user's mistake. Every error
carries a stable code; those of runs and tools carry an exit code.
Does not: print, colour or exit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from compiler.core.source import Span


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Related:
    """A second place that explains the first: "declared here", "first used here"."""

    message: str
    span: Span


def declared_at(span: Span | None, what: str = "") -> tuple[Related, ...]:
    """The place where `what` a message is about is declared; none where it is not known."""
    return () if span is None else (Related(f"{what} is declared here" if what else "declared here", span),)


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning. `code` is stable ("E0123"); the catalogue in compiler/core/codes.md tells more about
    each. `file`, `line` and `column` say where it begins (None: nowhere in a file); `str` is what the command line
    prints of it."""

    code: str
    message: str
    span: Span | None
    help: str | None = None
    related: tuple[Related, ...] = ()
    severity: Severity = Severity.ERROR

    @property
    def file(self) -> str | None:
        """The path of the file, as it was given."""
        return None if self.span is None else self.span.file.path

    @property
    def line(self) -> int | None:
        """From 1."""
        return None if self.span is None else self.span.line

    @property
    def column(self) -> int | None:
        """In characters, from 1."""
        return None if self.span is None else self.span.column

    def __str__(self) -> str:
        from compiler.core.render import block

        return block(self)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """ "did you mean `x`?" for the nearest of `known`, or None when nothing is near. Other capitals, `-` and missing
    `_` are nearest (`MaxPool2d`), then names that go on where `word` ends (`stdp`), abbreviations of each part
    (`exp_euler`), and similar spellings."""
    names = list(dict.fromkeys(known))
    near = (
        [n for n in names if letters_of(n) == letters_of(word)][:1]
        or _that_go_on(word, names)
        or _abbreviated(word, names)[:1]
        or get_close_matches(word, names, n=1, cutoff=0.6)
        or _in_any_case(word, names)[:1]
    )
    if not near:
        return None
    shown = [f"`{n}`" for n in near]
    return f"did you mean {' or '.join(p for p in (', '.join(shown[:-1]), shown[-1]) if p)}?"


_MOST_LONGER: Final = 5


def letters_of(word: str) -> str:
    """`word` in lower case without `_`, `-` and blanks."""
    return "".join(c for c in word.lower() if c not in "_- ")


def _that_go_on(word: str, names: list[str]) -> list[str]:
    """Names that have more parts after `word`, if they are few."""
    longer = [n for n in names if len(word) > 2 and n.startswith(f"{word}_")]
    return longer if len(longer) <= _MOST_LONGER else []


def _abbreviated(word: str, names: list[str]) -> list[str]:
    """The one name whose parts begin with those of `word`."""
    parts = word.lower().split("_")
    if len(word) < 3 or not all(parts):
        return []
    matches = [n for n in names if _begins_with(n.lower().split("_"), parts)]
    return matches if len(matches) == 1 else []


def _begins_with(whole: list[str], parts: list[str]) -> bool:
    return len(whole) == len(parts) and all(a.startswith(b) for a, b in zip(whole, parts, strict=True))


def _in_any_case(word: str, names: list[str]) -> list[str]:
    lower = {n.lower(): n for n in names}
    return [lower[n] for n in get_close_matches(word.lower(), list(lower), n=1, cutoff=0.7)]


class NetloomError(Exception):
    """Every error that a user can do something about."""


class ModelError(NetloomError):
    """Raised when a stage cannot go on; carries every diagnostic collected so far, once. `str` is what the command line
    prints."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(dict.fromkeys(diagnostics))  # of each user of a definition
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        from compiler.core.render import render

        return render(self.diagnostics, "human").rstrip("\n")


EXIT_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {
        code: number
        for number, codes in (
            (1, "E0910 E0914 E0918"),
            (2, "E0909 E0911 E0912 E0913 E0915 E0916 E0917 E0919 E0925 E0927 E0935 E0940 E0952"),
            (3, "E0901 E0907 E0921 E0922 E0923 E0938 E0939 E0941 E0942 E0943 E0946 E0947 E0948 E0950"),
            (4, "E0902 E0903 E0904"),
            (5, "E0905 E0906 E0908 E0924 E0930 E0949 E0951"),
        )
        for code in codes.split()
    }
)
"""Of the command line, by the code of an error of a run or a tool. 1: the model is invalid; 2: the request is; 3: a
tool or target is missing; 4: code generation or a compiler failed; 5: the run or the device did."""


class CodedError(NetloomError):
    """An error of a run or a tool. `exit_code`: of the command line (default: that of EXIT_CODES); `span`: the place in
    the model file of what the message names, if it has one; `str` is the text that the command line prints."""

    def __init__(
        self, code: str, message: str, help: str | None = None, span: Span | None = None, exit_code: int | None = None
    ) -> None:
        super().__init__(code, message, help, span, exit_code)
        self.code, self.message, self.help, self.span = code, message, help, span
        self.exit_code = EXIT_CODES[code] if exit_code is None else exit_code

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

    def warning(
        self, code: str, message: str, span: Span | None, help: str | None = None, related: tuple[Related, ...] = ()
    ) -> None:
        self.items.append(Diagnostic(code, _cut(message), span, help and _cut(help), related, Severity.WARNING))

    def failed(self, since: int = 0) -> bool:
        """Whether one of the items, of those `since` a number of them, is an error."""
        return any(d.severity is Severity.ERROR for d in self.items[since:])

    def check(self) -> None:
        """Raise ModelError with everything collected if at least one item is an error."""
        if self.failed():
            raise ModelError(self.items)


LONGEST: Final = 2000


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


class RunError(CodedError):
    """A run cannot continue: it failed, numerically or because something cannot be written, or the request is
    invalid."""


class Interrupted(KeyboardInterrupt):
    """A signal (Ctrl-C, SIGTERM or SIGHUP) ends the current work; no results are lost."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"signal {signal_number}")
        self.signal_number = signal_number
