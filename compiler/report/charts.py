"""Charts as SVG, in a page of their own colours: lines, dots, a heat map, parallel coordinates.

Assumes: finite numbers are drawn, others are left out.
Guarantees: text is escaped; hovering over a mark shows its values (`<title>`); at most MOST_POINTS marks a chart.
Does not: load anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

import numpy as np
import numpy.typing as npt

COLORS: Final = ("#3465a4", "#cc0000", "#4e9a06", "#f57900", "#75507b", "#c17d11", "#06989a", "#2e3436")
MOST_POINTS: Final = 3000
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 240, 62, 38, 14, 14

Floats = npt.NDArray[np.float64]
Series = Mapping[str, tuple[Floats, Floats]]


def number(value: float) -> str:
    """A number for readers."""
    return f"{value:.4g}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers between two ends."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / count))
    step = next(s * step for s in (1, 2, 5, 10) if (high - low) / (s * step) <= count)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


class Axes:
    """A rectangle with a scale on both sides, to which marks are added."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], labels: tuple[str, str], height: int = HEIGHT
    ) -> None:
        self.x, self.y, self.labels, self.height = _widened(x), _widened(y), labels, height
        self.marks: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point."""
        u = (x - self.x[0]) / (self.x[1] - self.x[0])
        v = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + u * (WIDTH - LEFT - RIGHT), TOP + (1 - v) * (self.height - TOP - BOTTOM)

    def svg(self) -> str:
        low, high = TOP, self.height - BOTTOM
        parts = [f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img">']
        for value in ticks(*self.x, 8):
            px, _ = self.at(value, self.y[0])
            parts.append(f'<path class="grid" d="M{px:.1f} {low}V{high}"/>')
            parts.append(f'<text x="{px:.1f}" y="{high + 14}" text-anchor="middle">{number(value)}</text>')
        for value in ticks(*self.y):
            _, py = self.at(self.x[0], value)
            parts.append(f'<path class="grid" d="M{LEFT} {py:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 5}" y="{py + 3.5:.1f}" text-anchor="end">{number(value)}</text>')
        parts.append(
            f'<text x="{(LEFT + WIDTH) / 2}" y="{self.height - 6}" text-anchor="middle">{escape(self.labels[0])}</text>'
        )
        middle = self.height / 2 - 10
        parts.append(
            f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{escape(self.labels[1])}</text>'
        )
        return "".join([*parts, *self.marks, "</svg>"])


def _widened(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0
    return (low, high) if high > low else (low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1))


def _ends(arrays: Sequence[Floats]) -> tuple[float, float]:
    found = [a[np.isfinite(a)] for a in arrays]
    found = [a for a in found if len(a)]
    return (min(float(a.min()) for a in found), max(float(a.max()) for a in found)) if found else (0.0, 1.0)


def lines(series: Series, labels: tuple[str, str], *, zero: bool = False, points: bool = True) -> str:
    """Lines by name, with a legend; hovering over a point shows its values. `zero`: the axis begins at 0."""
    xs, ys = [x for x, _ in series.values()], [y for _, y in series.values()]
    low, high = _ends(ys)
    axes = Axes(_ends(xs), (min(low, 0.0) if zero else low, high), labels)
    each = max(MOST_POINTS // max(len(series), 1), 50)
    for k, (name, (x, y)) in enumerate(series.items()):
        color = COLORS[k % len(COLORS)]
        shown = [axes.at(a, b) for a, b in _thinned(x, y, each) if math.isfinite(b)]
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in shown) if shown else ""
        axes.marks.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.3"><title>{escape(name)}</title></path>'
        )
        if points and len(x) <= 120:
            for a, b in zip(x, y, strict=True):
                if math.isfinite(b):
                    px, py = axes.at(float(a), float(b))
                    text = f"{escape(name)}: {number(float(b))} at {number(float(a))}"
                    axes.marks.append(
                        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{color}"><title>{text}</title></circle>'
                    )
    return axes.svg() + legend(tuple(series))


def _thinned(x: Floats, y: Floats, most: int) -> list[tuple[float, float]]:
    """At most about `most` points: of each stretch, the lowest and the highest."""
    if len(x) <= most:
        return [(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    out: list[tuple[float, float]] = []
    for part in np.array_split(np.arange(len(x)), max(most // 2, 1)):
        values = np.where(np.isfinite(y[part]), y[part], 0.0)
        for k in sorted({int(np.argmin(values)), int(np.argmax(values))}):
            out.append((float(x[part[k]]), float(y[part[k]])))
    return out


def dots(series: Series, labels: tuple[str, str]) -> str:
    """Points by name: a raster. Of more than MOST_POINTS an even selection is shown."""
    total = sum(len(x) for x, _ in series.values())
    every = max(1, -(-total // MOST_POINTS))
    axes = Axes(_ends([x for x, _ in series.values()]), _ends([y for _, y in series.values()]), labels, 300)
    for k, (name, (x, y)) in enumerate(series.items()):
        marks = "".join(
            "M{:.1f} {:.1f}h0".format(*axes.at(float(a), float(b))) for a, b in zip(x[::every], y[::every], strict=True)
        )
        color = COLORS[k % len(COLORS)]
        axes.marks.append(
            f'<path d="{marks}" stroke="{color}" stroke-width="2" stroke-linecap="round">'
            f"<title>{escape(name)}</title></path>"
        )
    note = f'<p class="note">one spike in {every} is shown</p>' if every > 1 else ""
    return axes.svg() + legend(tuple(series)) + note


def heat_map(columns: Sequence[str], rows: Sequence[str], values: Floats, labels: tuple[str, str, str]) -> str:
    """`values` (rows, columns) as colours; hovering shows them."""
    low, high = _widened(_ends([values.ravel()]))
    width, height = (WIDTH - 110) / max(len(columns), 1), min(34.0, 300 / max(len(rows), 1))
    total = 30 + height * len(rows) + 36
    parts = [f'<svg viewBox="0 0 {WIDTH} {total:.0f}" role="img">']
    for i, row in enumerate(rows):
        y = 20 + height * i
        parts.append(f'<text x="96" y="{y + height / 2 + 4:.1f}" text-anchor="end">{escape(row)}</text>')
        for j, column in enumerate(columns):
            value = float(values[i, j])
            share = (value - low) / (high - low) if math.isfinite(value) else math.nan
            color = f"hsl({230 - 190 * share:.0f} 70% {88 - 40 * share:.0f}%)" if math.isfinite(share) else "#eeeeec"
            text = f"{labels[0]} {column}, {labels[1]} {row}: {labels[2]} {number(value)}"
            box = f'x="{100 + width * j:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
            parts.append(f'<rect {box} fill="{color}"><title>{escape(text)}</title></rect>')
    for j, column in enumerate(columns):
        if j % max(1, len(columns) // 12) == 0:
            x = 100 + width * (j + 0.5)
            parts.append(f'<text x="{x:.1f}" y="{total - 24:.0f}" text-anchor="middle">{escape(column)}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{total - 6:.0f}" text-anchor="middle">{escape(labels[0])}</text>')
    parts.append(
        f'<text x="4" y="12">{escape(labels[1])}; {escape(labels[2])} from {number(low)} to {number(high)}</text>'
    )
    return "".join([*parts, "</svg>"])


def parallel(axes: Mapping[str, Sequence[float | str]], last: str) -> str:
    """Parallel coordinates: a line per trial over one axis per column, coloured by the column `last`."""
    names = list(axes)
    count = len(next(iter(axes.values()), ()))
    places = {name: LEFT + (WIDTH - LEFT - 60) * k / max(len(names) - 1, 1) for k, name in enumerate(names)}
    scales = {name: _scale(values) for name, values in axes.items()}
    parts = [f'<svg viewBox="0 0 {WIDTH} 300" role="img">']
    for k in range(min(count, 1000)):
        share = scales[last][0][k]
        color = f"hsl({230 - 190 * share:.0f} 70% 45%)" if math.isfinite(share) else "#babdb6"
        points = [(places[n], 260 - 220 * scales[n][0][k]) for n in names if math.isfinite(scales[n][0][k])]
        text = ", ".join(f"{n} {axes[n][k]}" for n in names)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if path:
            parts.append(
                f'<path class="hover" d="M{path}" fill="none" stroke="{color}"><title>{escape(text)}</title></path>'
            )
    for name in names:
        parts.append(f'<path class="axis" d="M{places[name]:.1f} 40V260"/>')
        parts.append(f'<text x="{places[name]:.1f}" y="285" text-anchor="middle">{escape(name)}</text>')
        for share, text in scales[name][1]:
            parts.append(f'<text x="{places[name] + 4:.1f}" y="{264 - 220 * share:.1f}">{escape(text)}</text>')
    return "".join([*parts, "</svg>"])


def _scale(values: Sequence[float | str]) -> tuple[list[float], list[tuple[float, str]]]:
    """(the place of each value from 0 to 1, places with labels); words stand at even distances."""
    if all(isinstance(v, int | float) for v in values):
        low, high = _widened(_ends([np.array(values, np.float64)]))
        return [(float(v) - low) / (high - low) for v in values], [
            ((t - low) / (high - low), number(t)) for t in ticks(low, high, 4)
        ]
    words = sorted({str(v) for v in values})
    places = {w: k / max(len(words) - 1, 1) for k, w in enumerate(words)}
    return [places[str(v)] for v in values], [(p, w) for w, p in places.items()][:12]


def legend(names: Sequence[str]) -> str:
    """The colours of a chart with more than one name."""
    if len(names) < 2:
        return ""
    items = (
        f'<span><i style="background:{COLORS[k % len(COLORS)]}"></i>{escape(n)}</span>' for k, n in enumerate(names)
    )
    return f'<p class="legend">{"".join(items)}</p>'
