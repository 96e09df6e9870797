"""The error of a backend.

Assumes: compiler/core/diagnostics.py.
Guarantees: a code of the catalogue, and the exit code.
Does not: render.
"""

from __future__ import annotations

from compiler.core.diagnostics import CodedError
from compiler.core.source import Span


class BackendError(CodedError):
    """A tool is missing (exit 3) or code generation or the compiler failed (exit 4) or the device failed (5)."""

    def __init__(
        self, code: str, message: str, help: str | None = None, exit_code: int = 4, span: Span | None = None
    ) -> None:
        super().__init__(code, message, help, exit_code, span)


class NoAlgorithm(BackendError):
    """A library does not compute a contraction of this phase, on this device and in its workspace (E0924)."""

    def __init__(self, phase: str, message: str) -> None:
        help = "`netloom tune` takes another candidate; `--no-lock` runs without a library"
        super().__init__("E0924", message, help, exit_code=5)
        self.phase = phase
