"""Names that differ from those that are taken.

Assumes / guarantees: a name stays readable: underscores are added to it.
Does not: know what a name stands for.
"""

from __future__ import annotations


def free_name(name: str, taken: frozenset[str]) -> str:
    """`name`, with as many underscores as make it differ from those that are taken."""
    while name in taken:
        name += "_"
    return name
