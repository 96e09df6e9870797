"""row_planes: the copy of a row-major image in which neighbouring output pixels read neighbouring elements for every
tap of a window (nl_rows in backends/cpu/templates/row_windows.c.j2).

Assumes: a window that is walked forwards, without division.
Guarantees: a plane for each residue of the rows' step that the window sees. Where an output row fills whole vectors, a
copy for each residue of the columns' step, whose rows hold the whole window; otherwise one for each column of the
window, whose rows are those of the output, so that the output's pixels are one run of memory for every tap.
Does not: choose a strategy.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.strategies.choice import named, rounded
from compiler.strategies.cost.cores import Core
from compiler.strategies.window import WindowAxis

SLACK = 2
"""Vectors behind the last plane, which tiles may read."""


@dataclass(frozen=True)
class Planes:
    """Of one channel `copies` x `phases` planes of `high` x `wide` elements; `vector`: elements of one."""

    rows: WindowAxis
    cols: WindowAxis
    vector: int
    high: int
    wide: int
    copies: int
    phases: int

    @property
    def columns(self) -> dict[str, int]:
        """Of the walk and the planes, but for the window's taps."""
        rows, cols = self.rows, self.cols
        return named(
            step_r=rows.step,
            step_c=cols.step,
            tap_r=rows.tap,
            tap_c=cols.tap,
            from_r=rows.origin,
            from_c=cols.origin,
            high=self.high,
            copies=self.copies,
            phases=self.phases,
            wide=self.wide,
        )

    @property
    def masks(self) -> int:
        """Elements that tell which ones of a channel's planes lie in their row of the image."""
        return rounded(self.copies * self.high * self.wide, self.vector)

    def elements(self, channels: int) -> int:
        """Of all planes, whole vectors, and what tiles may read behind them."""
        each = self.copies * self.phases * self.high * self.wide
        return rounded(channels * each, self.vector) + SLACK * self.vector

    def operations(self, channels: int, core: Core) -> float:
        """Estimated vector operations of making the planes of so many channels."""
        return core.copy * self.elements(channels) / self.vector + channels * self.copies * self._lines(core)

    def _lines(self, core: Core) -> float:
        """Of a copy, beside its vectors."""
        rows, cols, lines = self.rows, self.cols, self.phases * self.high
        if cols.step == 1:
            moved = rows.step == 1 and self.wide == cols.extent  # as one run
            short = core.short * self.wide if self.wide < self.vector else 0.0
            return core.line if moved else (core.line + short) * lines
        single = cols.step > 3
        return lines * (core.steps + (core.pixel * self.wide if single else 0.0))


def planes_of(rows: WindowAxis, cols: WindowAxis, vector: int, always: bool = False) -> Planes:
    """`always`: rows of the planes hold the whole window whatever the output's are, and need no masks."""
    high = (rows.step * (rows.out - 1) + rows.tap * (rows.taps - 1)) // rows.step + 1
    beyond = cols.tap * (cols.taps - 1) // cols.step
    whole = always or (cols.out % vector == 0 and beyond > 0)
    copies, wide = (cols.step, cols.out + beyond) if whole else (cols.taps, cols.out)
    wide += always and cols.origin != 0 and wide == cols.extent  # not the image moved
    return Planes(rows, cols, vector, high, wide, copies, min(rows.step, rows.tap * (rows.taps - 1) + 1))
