"""Cache keys of compiled texts.

Assumes: nothing.
Guarantees: texts that differ in comments alone have one key.
Does not: locate the cache (compiler/core/cache.py does).
"""

from __future__ import annotations


def without_comments(text: str) -> str:
    """The text without comments: model lines in comments may change without recompilation."""
    first, *others = text.split("/*")
    return " ".join([first, *(x.partition("*/")[2] for x in others)])
