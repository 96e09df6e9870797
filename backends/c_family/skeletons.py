"""The jinja2 skeletons of a backend: its templates/*.j2, and those of this folder that backends share.

Assumes: the files are package data of the backend's package.
Guarantees: an undefined name in a skeleton is an error, never an empty string; trailing newlines are kept. Skeletons
are compiled once, beside the package's own bytecode, where that can be written.
Does not: depend on kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import (
    BytecodeCache,
    ChoiceLoader,
    DictLoader,
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
)

_SHARED: Final = "backends.c_family"


@cache
def skeletons(package: str, others: Callable[[], Mapping[str, str]] = dict) -> Environment:
    """One environment for all skeletons of a package, its own first: blocks on separate lines leave no empty lines.
    `others`: texts by name, of other packages."""
    return Environment(
        loader=ChoiceLoader([*(PackageLoader(p, "templates") for p in (package, _SHARED)), DictLoader(others())]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=_compiled(package),
    )


def _compiled(package: str) -> BytecodeCache | None:
    """The cache of compiled skeletons; jinja2 checks them against the text and its own version."""
    folder = Path(str(files(package))) / "__pycache__"
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None
