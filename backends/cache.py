"""Cache keys of compiled texts, and their places in the cache.

Assumes: nothing.
Guarantees: texts that differ in comments alone have one key.
Does not: read or write the cache (compiler/core/cache.py does).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from compiler.core.cache import cache_folder


def place_of(target: str, *words: str) -> tuple[str, Path]:
    """The key of texts and of what compiles them, and the index of the files that were made of them."""
    digest = hashlib.sha256(b"".join(word.encode() + b"\0" for word in words)).hexdigest()
    return digest, cache_folder() / target / digest[:2] / f"{digest}.json"


def without_comments(text: str) -> str:
    """The text without comments: model lines in comments may change without recompilation."""
    first, *others = text.split("/*")
    return " ".join([first, *(x.partition("*/")[2] for x in others)])
