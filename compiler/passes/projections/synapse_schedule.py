"""synapse_schedule: the order of synaptic operations within a step (SynapseDef in ir/level0/model.py says why).

Assumes: the rows of one stage are independent, except those that are added with join=False.
Guarantees: stages are in ORDER, independent of the order of families in the model; inside a stage, rows of one kernel
are consecutive, kernels by first appearance, so that they become one launch.
Does not: create rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compiler.passes.program.build_program import Row

ENDS: Final = "pre and post, every step"
ENDS_PAST: Final = "pre and post, kept before spikes"
UPDATE: Final = "synapses, every step"
KNOWN: Final = "deliveries that are known at the spike"
ON_PRE: Final = "on_pre"
PRE_SPIKE: Final = "pre: on_spike"
PRE_PAST: Final = "pre, kept after spikes"
ON_POST: Final = "on_post"
POST_SPIKE: Final = "post: on_spike"
POST_PAST: Final = "post, kept after spikes"
CONDITIONS: Final = "conditions of events"
EVENTS: Final = "events"
EVENT_TIMES: Final = "times of events"

START: Final = "events of phases, at the start of a trial"
START_TRANSPOSED: Final = "from the first transpose on, at the start of a trial"
END: Final = "events of phases, later"
END_TRANSPOSED: Final = "from the first transpose on, later"
OWN_INPUTS: Final = "what has arrived in inputs of projections"
OWN_DELIVER: Final = "what projections deliver in every step"
ENDS_START: Final = "pre and post, at the start of a trial"
ENDS_END: Final = "pre and post, at later events of phases"

_AT_SPIKES: Final = (ON_PRE, PRE_SPIKE, PRE_PAST, ON_POST, POST_SPIKE, POST_PAST, CONDITIONS, EVENTS, EVENT_TIMES)
ORDER: Final = (
    *(START, START_TRANSPOSED, ENDS_START, ENDS, ENDS_PAST, UPDATE, KNOWN),
    *(*_AT_SPIKES, END, END_TRANSPOSED, OWN_INPUTS, ENDS_END, OWN_DELIVER),
)


def seen_before(stage: str, end: str) -> bool:
    """Whether statements of a stage see variables of `pre:` (`post:`) without what the spikes of this step change."""
    return stage in (UPDATE, ON_PRE) or (stage == ON_POST and end == "post")


Due = tuple[int, int]
"""Steps k with k % every == offset."""
EVERY_STEP: Final[Due] = (1, 0)


@dataclass
class Stages:
    """Mutable while families are lowered; `launch` ends it."""

    _rows: dict[tuple[str, int], dict[object, list[tuple[Row, bool, Due]]]] = field(default_factory=dict)

    def add(
        self,
        stage: str,
        row: Row,
        join: bool = True,
        group: object = None,
        due: Due = EVERY_STEP,
        part: int = 0,
    ) -> None:
        """`row` runs in `stage`, beside those of its `group` (default: of its kernel), in the steps
        that are `due`; the parts of a stage run in order."""
        rows = self._rows.setdefault((stage, part), {})
        rows.setdefault(row.kernel if group is None else group, []).append((row, join, due))

    def launch(self) -> None:
        """Adds everything to the phase "step"."""
        for place in sorted(self._rows, key=lambda at: (ORDER.index(at[0]), at[1])):
            for group in self._rows[place].values():
                for row, join, (every, offset) in group:
                    row.launch("step", every, offset, join)
