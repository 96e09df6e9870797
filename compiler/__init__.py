"""Netloom: compiles neural networks that are described in YAML.

    from compiler import check, build, run, evaluate, predict

Assumes: nothing. Guarantees: importing this package imports nothing else until a name is used.
Does not: hold code (compiler/runtime/api.py is the Python API).
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers see it; importing `typing` takes longer than all the rest

if TYPE_CHECKING:
    from typing import Any

    from compiler.runtime.api import build, check, evaluate, predict, run
    from compiler.runtime.artifacts.results import BuildResult, RunResult

__all__ = ["BuildResult", "RunResult", "build", "check", "evaluate", "predict", "run"]


def __getattr__(name: str) -> Any:
    if name in ("build", "check", "evaluate", "predict", "run"):
        from compiler.runtime import api

        return getattr(api, name)
    if name in ("BuildResult", "RunResult"):
        from compiler.runtime.artifacts import results

        return getattr(results, name)
    if name == "__version__":
        from compiler.core.version import VERSION

        return VERSION
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
