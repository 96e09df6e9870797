"""Netloom: compiles neural networks that are described in YAML.

    import netloom

    m = netloom.load("models/cuba.yaml", set={"n_exc": 1600})
    result = m.run(seed=3)
    times, neurons = result.spikes("exc")

`load` gives a `Model`; `check`, `build`, `run`, `evaluate` and `predict` do with a file what the commands of the same
names do. Errors are NetloomError: ModelError (the model is wrong; `diagnostics`), RunError and BackendError (`code`,
`message`, `help`, `exit_code`); `str` of an error is the text that the command line prints.

Assumes: nothing. Guarantees: importing this package imports nothing else until a name is used.
Does not: print, change the working directory, or write a folder that was not asked for (`run` and `build` of a file
write as the commands do).
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers see it; importing `typing` takes longer than all the rest

if TYPE_CHECKING:
    from typing import Any

    from backends.protocol import BackendError
    from compiler.core.diagnostics import Diagnostic, ModelError, NetloomError, RunError
    from compiler.runtime.artifacts.results import BuildResult
    from compiler.sweep.table import SweepResult
    from netloom.functions import build, check, evaluate, export, open, predict, run, sweep, tune
    from netloom.model import Model, import_onnx, load
    from netloom.results import RunResult
    from netloom.simulation import Quantity, Simulation

__all__ = [
    "BackendError",
    "BuildResult",
    "Diagnostic",
    "Model",
    "ModelError",
    "NetloomError",
    "Quantity",
    "RunError",
    "RunResult",
    "Simulation",
    "SweepResult",
    "build",
    "check",
    "evaluate",
    "export",
    "import_onnx",
    "load",
    "open",
    "predict",
    "run",
    "sweep",
    "tune",
]

_PLACES = {
    "backends.protocol": ("BackendError",),
    "compiler.core.diagnostics": ("Diagnostic", "ModelError", "NetloomError", "RunError"),
    "compiler.runtime.artifacts.results": ("BuildResult",),
    "netloom.functions": (
        "build",
        "check",
        "evaluate",
        "export",
        "open",
        "predict",
        "run",
        "sweep",
        "tune",
    ),
    "compiler.sweep.table": ("SweepResult",),
    "netloom.model": ("Model", "import_onnx", "load"),
    "netloom.results": ("RunResult",),
    "netloom.simulation": ("Quantity", "Simulation"),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from compiler.core.version import VERSION

        return VERSION
    for place, names in _PLACES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
