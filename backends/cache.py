"""What of a text counts for a cache of compiled ones.

Assumes: nothing.
Guarantees: texts that differ in comments alone are one.
Does not: know where the cache is (compiler/core/cache.py does).
"""

from __future__ import annotations

import re


def without_comments(text: str) -> str:
    """The text that matters to a compiler: model lines in comments may move without compiling again."""
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
