"""Tables of plain text.

Assumes: nothing.
Guarantees: importing this module imports no part of the compiler.
Does not: print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LONG: Final = 40
"""Rows of a table."""


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, long: int = LONG) -> str:
    """Columns with two spaces between them; the first `left` to the left, the others to the right. Of more rows than
    `long`, the middle is left out."""
    shown = [list(r) for r in rows]
    if len(shown) > long:
        more = len(shown) - long + 1
        middle = [f"... {more} more", *[""] * (len(header) - 1)]
        shown = [*shown[: long - 5], middle, *shown[-4:]]
    cells = [list(header), *shown]
    widths = [max(len(r[i]) for r in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        padded = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join(lines)
