"""window: the walk of one axis of a convolution's image, and the border that a copy of the image needs.

Assumes: an affine index of one output dim and one window dim.
Guarantees: index = (step * out + tap * t + origin) / div as integers; `low` and `size` cover every index that divides.
Does not: choose a strategy.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.space import Affine


@dataclass(frozen=True)
class WindowAxis:
    """One axis: `out` output positions, `taps` window positions, an image of `extent` elements."""

    extent: int
    out: int
    taps: int
    step: int
    tap: int
    origin: int
    div: int

    @property
    def low(self) -> int:
        """The smallest index."""
        first = self.origin + min(0, self.tap * (self.taps - 1))
        return -(-first // self.div)

    @property
    def high(self) -> int:
        """The largest index."""
        last = self.step * (self.out - 1) + self.origin + max(0, self.tap * (self.taps - 1))
        return last // self.div

    @property
    def leaves(self) -> bool:
        """Whether some index is outside the image."""
        return self.low < 0 or self.high >= self.extent

    def seen(self, out: int) -> tuple[int, ...]:
        """The taps that an output position sees inside the image."""
        at = [self.step * out + self.tap * t + self.origin for t in range(self.taps)]
        return tuple(t for t, i in enumerate(at) if i % self.div == 0 and 0 <= i // self.div < self.extent)

    def classes(self, split: bool) -> list[tuple[int, int]]:
        """Output positions that see the same taps, in order: (positions, taps). Without `split` those outside the
        image count as seen."""
        found: list[tuple[int, int]] = []
        for residue in range(self.div):
            last: tuple[int, ...] | None = None
            for out in range(residue, self.out, self.div):
                taps = self.seen(out) if split else ()
                if taps == last:
                    found[-1] = found[-1][0] + 1, found[-1][1]
                else:
                    found.append((1, len(taps) if split else self._matching(residue)))
                last = taps
        return found

    def _matching(self, residue: int) -> int:
        at = [self.step * residue + self.tap * t + self.origin for t in range(self.taps)]
        return sum(1 for i in at if i % self.div == 0)


def window_axis(axis: Affine, out: str, tap: str, extents: dict[str, int], extent: int) -> WindowAxis | None:
    """The axis, or None where its index is of another form. A dim of extent 1 may be missing from it."""
    terms = dict(axis.terms)
    step, by_tap = terms.pop(out, 0), terms.pop(tap, 0)
    if terms or (step == 0 and extents[out] > 1) or (by_tap == 0 and extents[tap] > 1):
        return None
    step = step or axis.div
    if step < 1 or (axis.div != 1 and step != 1 and extents[out] > 1):
        return None
    if axis.div != 1 and extents[out] == 1:
        step = 1
    return WindowAxis(extent, extents[out], extents[tap], step, by_tap, axis.const, axis.div)


def columns(rows: WindowAxis, cols: WindowAxis, copy: bool, split: bool = False) -> dict[str, int]:
    """The columns that describe the window; `copy`: the image is copied with its border; `split`: without columns."""
    found: dict[str, int] = {}
    for axis, suffix, many, border in ((rows, "r", "rows", copy), (cols, "c", "cols", copy and not split)):
        found[f"s_{many}"] = axis.extent
        found[f"s_out_{many}"] = axis.out
        found[f"s_taps_{suffix}"] = axis.taps
        found[f"s_step_{suffix}"] = axis.step
        found[f"s_tap_{suffix}"] = axis.tap
        found[f"s_from_{suffix}"] = axis.origin
        found[f"s_div_{suffix}"] = axis.div
        found[f"s_low_{suffix}"] = axis.low if border else 0
        found[f"s_all_{many}"] = axis.high - axis.low + 1 if border else axis.extent
    found["s_copy"] = int(copy)
    return found
