"""synapse_schedule: launches of the rows of projections, stage by stage (ir/level1/stages.py).

Assumes: the rows of one stage are independent, except those that are added with join=False.
Guarantees: stages are in ORDER, independent of the order of families in the model; inside a stage, rows of one kernel
are consecutive, kernels by first appearance, so that they become one launch.
Does not: create rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compiler.ir.level1.stages import ORDER
from compiler.passes.program.build_program import Row

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
