"""Unique names.

Guarantees: a name stays readable: underscores or a number are appended.
Does not: know scopes.
"""

from __future__ import annotations

from collections.abc import Set


def free_name(name: str, taken: Set[str]) -> str:
    """`name` with as many underscores appended as make it unique among the taken ones."""
    while name in taken:
        name += "_"
    return name


def numbered_name(name: str, taken: Set[str]) -> str:
    """`name`, or where it is taken the first free one of `name_2`, `name_3`, ..."""
    unique, k = name, 1
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique
