"""Names for users: unique ones in files, and several in a message.

Guarantees: a name that is made unique stays readable: a number is appended.
Does not: know scopes.
"""

from __future__ import annotations

from collections.abc import Sequence, Set


def numbered_name(name: str, taken: Set[str]) -> str:
    """`name`, or where it is taken the first free one of `name_2`, `name_3`, ..."""
    unique, k = name, 1
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` of the names for a message, and how many more there are."""
    shown = ", ".join(f"`{n}`" for n in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
