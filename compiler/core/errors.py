"""What can go wrong while a model runs, other than a mistake in its file.

Assumes: nothing.
Guarantees: every error carries a stable code and the exit code of the command line.
Does not: print.
"""

from __future__ import annotations

from compiler.core.diagnostics import CodedError


class RunError(CodedError):
    """A run cannot go on. exit_code 5: it failed, numerically or because something cannot be written; 2: what was asked
    for does not fit."""

    def __init__(self, code: str, message: str, help: str | None = None, exit_code: int = 5) -> None:
        super().__init__(code, message, help, exit_code)


class Interrupted(KeyboardInterrupt):
    """A signal (Ctrl-C, SIGTERM or SIGHUP) ends what is being done, where no results are lost."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"signal {signal_number}")
        self.signal_number = signal_number
