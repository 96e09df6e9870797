"""Unique names.

Assumes / guarantees: a name stays readable: underscores are appended.
Does not: know scopes.
"""

from __future__ import annotations


def free_name(name: str, taken: frozenset[str]) -> str:
    """`name` with as many underscores appended as make it unique among the taken ones."""
    while name in taken:
        name += "_"
    return name
