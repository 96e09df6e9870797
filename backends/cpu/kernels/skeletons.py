"""The skeletons of this backend: backends/c_family/skeletons.py with its package."""

from __future__ import annotations

from functools import partial
from typing import Any

from backends.c_family.skeletons import skeletons
from compiler.strategies.plugins import installed


def _of_others() -> dict[str, str]:
    """The templates of strategies of other packages."""
    return {f"strategy_{s.name}.c.j2": s.template for s in installed() if s.target == "cpu"}


statements = partial(skeletons, "backends.cpu", _of_others, True)
"""Skeletons of statements."""


def render(file: str, **names: Any) -> str:
    return skeletons("backends.cpu").get_template(file).render(**names)
