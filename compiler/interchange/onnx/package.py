"""The package `onnx` (extra `onnx`), imported lazily."""

from __future__ import annotations

from typing import Any

from compiler.core.diagnostics import RunError


def onnx_package() -> Any:
    """The package `onnx`. Raises RunError (E0919, exit 3) when it is not installed."""
    try:
        import onnx
    except ImportError:
        message = "the package `onnx` is not installed"
        raise RunError("E0919", message, "pip install 'netloom[onnx]'", exit_code=3) from None
    return onnx
