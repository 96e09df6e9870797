"""Where the files that travel with the compiler lie: the standard library and the schemas.

Assumes: a checkout (`models/library`, `schemas` beside `compiler`) or an installed wheel
(`compiler/data/...`).
Guarantees: the same answer from any working directory.
Does not: read them.
"""

from __future__ import annotations

from pathlib import Path


def library_path() -> Path:
    """The folder with `neurons/`, `synapses/` and `optimizers/` of the standard library."""
    return _folder("library", Path("models") / "library")


def schema_path() -> Path:
    """The folder of the JSON Schemas."""
    return _folder("schemas", Path("schemas"))


def _folder(packaged: str, in_checkout: Path) -> Path:
    package = Path(__file__).resolve().parent
    installed = package / "data" / packaged
    return installed if installed.is_dir() else package.parent / in_checkout
