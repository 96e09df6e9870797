"""libraries: what strategies that call NVIDIA's libraries have alike: their workspace, and their own proposals.

Assumes: choices with a column `s_tile`: which of the library's proposals.
Guarantees: a workspace begins at a multiple of ALIGNED bytes, and is no larger than the device may give.
Does not: match.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, Problem
from compiler.strategies.strategy import with_columns

PROPOSALS: Final = 3
"""Of a library, that are worth measuring."""
ALIGNED: Final = 256
"""Of which libraries want a workspace to begin at a multiple."""


def room_of(p: Problem, most: int) -> tuple[int, int]:
    """Bytes of the workspace of a library, and with what it takes to align them."""
    given = most if p.device.workspace is None else min(most, max(p.device.workspace - ALIGNED, 0))
    room = given // ALIGNED * ALIGNED
    return room, room + ALIGNED


def proposals(p: Problem, choice: Choice) -> list[Choice]:
    """The variants of a choice: those that the library itself proposes after its first one."""
    return [with_columns(choice, s_tile=n) for n in range(1, PROPOSALS)]
