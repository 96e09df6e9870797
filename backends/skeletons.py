"""The jinja2 skeletons of a backend (its templates/*.j2).

Assumes: the files are package data of the backend's package.
Guarantees: an undefined name in a skeleton is an error, never an empty string; trailing newlines are kept.
Does not: know kernels.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def skeletons(package: str) -> Environment:
    """One environment for all skeletons of a package: blocks on lines of their own leave no empty lines."""
    return Environment(
        loader=PackageLoader(package, "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
