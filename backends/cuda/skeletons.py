"""The jinja2 skeletons of this backend (templates/*.j2).

Assumes: the files are package data beside this module.
Guarantees: an undefined name in a skeleton is an error, never an empty string; trailing newlines are kept.
Does not: know kernels.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


@cache
def environment() -> Environment:
    """One environment for all skeletons: blocks on lines of their own leave no empty lines."""
    return Environment(
        loader=PackageLoader("backends.cuda", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(file: str, **names: Any) -> str:
    return environment().get_template(file).render(**names)


def exists(file: str) -> bool:
    return file in environment().list_templates()
