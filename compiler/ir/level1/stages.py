"""Level 1, the order of what a step does (SynapseDef in ir/level0/synapses.py says why).

Assumes, guarantees: an operation is in one stage; stages run in ORDER, over all populations and projections.
Does not: order the operations of one stage (order_populations, order_synapses).
"""

from __future__ import annotations

from typing import Final

TRIALS: Final = "rows of timed arrays, at the start of a trial"
DRIVES: Final = "drives"
BEFORE: Final = "copies of what populations read of others"
POPULATIONS: Final = "populations"
RECORDS: Final = "records of spikes and rates"
PAST: Final = "past values, and those of pools for each neuron"

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

EVENT_RECORDS: Final = "records of events"
POISSON: Final = "Poisson inputs"
TRACES: Final = "records of traces"

_AT_SPIKES: Final = (ON_PRE, PRE_SPIKE, PRE_PAST, ON_POST, POST_SPIKE, POST_PAST, CONDITIONS, EVENTS, EVENT_TIMES)
_POPULATIONS: Final = (TRIALS, DRIVES, BEFORE, POPULATIONS, RECORDS, PAST)
_AFTER: Final = (EVENT_RECORDS, POISSON, TRACES)
SYNAPSES: Final = (
    *(START, START_TRANSPOSED, ENDS_START, ENDS, ENDS_PAST, UPDATE, KNOWN),
    *(*_AT_SPIKES, END, END_TRANSPOSED, OWN_INPUTS, ENDS_END, OWN_DELIVER),
)
ORDER: Final = (*_POPULATIONS, *SYNAPSES, *_AFTER)
IN_SEQUENCE: Final = frozenset({*_POPULATIONS, KNOWN, *_AFTER})
"""Stages whose rows run as they were added; in others those of one kernel run together."""


def seen_before(stage: str, end: str) -> bool:
    """Whether statements of a stage see variables of `pre:` (`post:`) without what the spikes of this step change."""
    return stage in (UPDATE, ON_PRE) or (stage == ON_POST and end == "post")
