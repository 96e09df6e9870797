"""The error of a backend.

Assumes: compiler/core/diagnostics.py.
Guarantees: a code of the catalogue, and the exit code.
Does not: render.
"""

from __future__ import annotations

from compiler.core.diagnostics import CodedError


class BackendError(CodedError):
    """A tool is missing, code generation or the compiler failed, or the device did."""


class NoAlgorithm(BackendError):
    """A library does not compute a contraction of this phase, on this device and in its workspace (E0924)."""

    def __init__(self, phase: str, message: str) -> None:
        help = "`netloom tune` takes another candidate; `--no-lock` runs without a library"
        super().__init__("E0924", message, help)
        self.phase = phase
