"""Text as a YAML scalar in double quotes.

Assumes: nothing.
Guarantees: reading it back gives the text; it is one line of printable characters.
Does not: decide whether quotes are needed.
"""

from __future__ import annotations


def quoted(text: str) -> str:
    """`text` in double quotes; characters that cannot be printed are escaped by their numbers."""
    return '"' + "".join(_escaped(c) for c in text) + '"'


def _escaped(c: str) -> str:
    if c in '\\"':
        return "\\" + c
    if c.isprintable():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
