"""clock: the time of a step, whose zero is the end of the warm-up.

Assumes: steps are counted from 1 at the start of the run, for ring buffers, draws and checkpoints.
Guarantees: all times derive from `step - warmup_steps`, so that the warm-up is data and never changes the text: `t`,
timed arrays, counters of phases and times of spikes. ProgramBuilder.row gives the column to every kernel that reads it,
ProgramBuilder.launch shifts the steps of periodic launches.
Does not: define the order of evaluation (docs/synapses.md has the table).
"""

from __future__ import annotations

from typing import Final

from compiler.expr.ast import Call, Expr, Ref

WARMUP: Final = "warmup_steps"
"""Column: how many steps run before time 0."""
DT: Final = Ref("dt")
CLOCK: Final = Ref("step") - Ref(WARMUP)
"""The number of the step, 1 for the first after time 0."""
BEFORE: Final = CLOCK - 1
"""Steps between time 0 and the start of this one; below 0 in the warm-up."""
STEP_END: Final = CLOCK * DT
STEP_START: Final = BEFORE * DT
STEP_MIDDLE: Final = STEP_START + 0.5 * DT


def time_of(step: Expr) -> Expr:
    """The time [ms] at which a step ended."""
    return (step - Ref(WARMUP)) * DT


def counter(of: str, every: str) -> Expr:
    """`count` or `step` of a phase: step k after time 0 is step (k - 1) % every + 1 of trial (k - 1) // every. Trials
    repeat in the warm-up, too; there they are counted backwards from -1."""
    if of == "count":
        return Call("float", (BEFORE // Ref(every),))
    return Call("float", (BEFORE % Ref(every) + 1,))
