"""The skeletons of this backend: backends/c_family/skeletons.py with its package."""

from __future__ import annotations

from functools import partial
from typing import Any

from backends.c_family.skeletons import skeletons

statements = partial(skeletons, "backends.cuda", statements=True)
"""Skeletons of statements."""


def render(file: str, **names: Any) -> str:
    """The text of a file."""
    return skeletons("backends.cuda").get_template(file).render(**names)
