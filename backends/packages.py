"""Libraries that pip has installed.

Assumes: the metadata of packages.
Guarantees: nothing is loaded.
Does not: search elsewhere.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path


@cache
def installed(package: str, *files: str) -> tuple[Path, str] | None:
    """The file of one of these names, and the version of its package; None where there is none."""
    try:
        here = distribution(package)
    except PackageNotFoundError:
        return None
    found = (Path(str(here.locate_file(f))).resolve() for f in here.files or () if f.name in files)
    return next(((file, here.version) for file in found if file.is_file()), None)
