"""Unique names in files that are written for users.

Guarantees: a name stays readable: a number is appended.
Does not: know scopes.
"""

from __future__ import annotations

from collections.abc import Set


def numbered_name(name: str, taken: Set[str]) -> str:
    """`name`, or where it is taken the first free one of `name_2`, `name_3`, ..."""
    unique, k = name, 1
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique
