"""clearing: projections that forget what is on its way at an event of a phase.

Assumes: the lists of the spikes of both ends are kept for as long as the delays (insert_delays).
Guarantees: a spike arrives unless the event lies between its emission and its arrival. That follows from the clock, so
that it takes no state: at step k, the last clearing before it ended step j, the largest j < k with j % every == at, and
what was emitted in step k - delay <= j is forgotten. The phase is data.
Does not: forget what has arrived at an input.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Ref
from compiler.passes.program.clock import BEFORE

REMAINS: Final = ((BEFORE - Ref("cleared_at")) % Ref("cleared_every")) >= Ref("delay")
"""Whether an event that arrives `delay` steps after it was emitted has not been forgotten."""


def waits(projection: l0.Projection) -> bool:
    """Whether its spikes wait at the source, where they can be forgotten, even where an input has a ring buffer."""
    return projection.clear is not None


def clear_columns(projection: l0.Projection) -> dict[str, int]:
    """What REMAINS reads beside the delay."""
    return {} if projection.clear is None else dict(zip(("cleared_every", "cleared_at"), projection.clear, strict=True))
