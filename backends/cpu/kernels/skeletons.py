"""The skeletons of this backend: backends/c_family/skeletons.py with its package."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from backends.c_family.skeletons import skeletons
from compiler.strategies.plugins import installed


def environment() -> Environment:
    return skeletons("backends.cpu", _of_others)


def _of_others() -> dict[str, str]:
    """The templates of strategies of other packages."""
    return {f"strategy_{s.name}.c.j2": s.template for s in installed() if s.target == "cpu"}


def render(file: str, **names: Any) -> str:
    return environment().get_template(file).render(**names)


def exists(file: str) -> bool:
    return file in environment().list_templates()
