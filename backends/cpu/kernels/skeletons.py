"""The skeletons of this backend: backends/c_family/skeletons.py with its package."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from backends.c_family.skeletons import skeletons


def environment() -> Environment:
    return skeletons("backends.cpu")


def render(file: str, **names: Any) -> str:
    return environment().get_template(file).render(**names)


def exists(file: str) -> bool:
    return file in environment().list_templates()
