"""Paths of the files that are installed with the compiler: the standard library, the schemas, and the
models and data of `netloom init`.

Assumes: a checkout (`models/library`, `models/starters`, `models/data`, `schemas` beside `compiler`) or an installed
wheel (`compiler/data/...`).
Guarantees: the same answer from any working directory.
Does not: read them.
"""

from __future__ import annotations

from pathlib import Path


def library_path() -> Path:
    """The folder with `neurons/`, `synapses/` and `optimizers/` of the standard library."""
    return _place("library", Path("models") / "library")


def library_names(collection: str) -> tuple[str, ...]:
    """The definitions that the standard library has: `neurons`, `synapses`, `currents` or `optimizers`."""
    return tuple(sorted(p.stem for p in (library_path() / collection).glob("*.yaml")))


def schema_path() -> Path:
    """The folder of the JSON Schemas."""
    return _place("schemas", Path("schemas"))


def starters_path() -> Path:
    """The folder of the models that `netloom init` writes."""
    return _place("starters", Path("models") / "starters")


def data_path(name: str) -> Path:
    """A data file that `netloom init` puts beside its model (models/data/README.md)."""
    return _place(name, Path("models") / "data" / name)


def _place(packaged: str, in_checkout: Path) -> Path:
    package = Path(__file__).resolve().parents[1]
    installed = package / "data" / packaged
    return installed if installed.exists() else package.parent / in_checkout
