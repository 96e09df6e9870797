"""Quick fixes: what the help of a diagnostic says, done.

Assumes: helps as compiler/core/diagnostics.py and compiler/frontend/schema/wording.py word them.
Guarantees: a fix replaces the text that the diagnostic underlines, or its last part, by one word that the help names.
Does not: guess beyond the help.
"""

from __future__ import annotations

import re
from typing import Final

_MEANT: Final = re.compile(r"did you mean (?P<names>`[^`]+`(?:(?:, | or )`[^`]+`)*)\?")
_WRITE: Final = re.compile(r"(?:write )?`(?P<name>[A-Za-z][A-Za-z0-9_]*)`(?: or `(?P<other>[A-Za-z][A-Za-z0-9_]*)`)?")
_WORDS: Final = frozenset({"E0101", "E0105"})
"""Codes of unknown words, which the help replaces as a whole."""


def replacements(code: str, help: str, written: str) -> list[str]:
    """What may stand in place of `written`, the text that a diagnostic underlines."""
    found = _MEANT.search(help)
    if found is not None:
        names = re.findall(r"`([^`]+)`", found["names"])
    else:
        word = _WRITE.fullmatch(help) if code in _WORDS else None
        names = [n for n in (word["name"], word["other"]) if n] if word is not None else []
    return [_whole(name, written) for name in names]


def _whole(name: str, written: str) -> str:
    """A name in place of the last part of `library/neurons/lif` or `cells.yaml#lif`."""
    begin = max(written.rfind("#"), written.rfind("/")) + 1
    return name if "/" in name or "#" in name or not begin else written[:begin] + name
