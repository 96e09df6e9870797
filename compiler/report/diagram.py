"""A model as a diagram: populations and projections, or layers with their shapes.

Assumes: a checked model.
Guarantees: at most MOST_BOXES boxes; beyond that a sentence says how many there are.
Does not: show parameters.
"""

from __future__ import annotations

import math
from html import escape
from typing import Final

import compiler.ir.level0.model as l0

MOST_BOXES: Final = 60
WIDTH: Final = 640


def diagram(model: l0.Model) -> str:
    """SVG; "" for a model without populations and layers."""
    return (_populations(model) if model.populations else "") + (_layers(model.network) if model.network else "")


def _populations(model: l0.Model) -> str:
    """Populations on an ellipse; an arrow per pair that is connected, as wide as it has projections."""
    count = len(model.populations)
    if count > MOST_BOXES:
        members = sum(len(f.members) for f in model.projections)
        return f"<p>{count:,} populations, {members:,} projections</p>"
    height = 120 if count < 3 else 300
    places: dict[str, tuple[float, float]] = {}
    for k, p in enumerate(model.populations):
        angle = math.pi + 2 * math.pi * k / count
        places[p.name] = WIDTH / 2 + 230 * math.cos(angle), height / 2 + (height / 2 - 35) * math.sin(angle)
    pairs: dict[tuple[str, str], list[str]] = {}
    for f in model.projections:
        for m in f.members:
            pairs.setdefault((m.source, m.target), []).append(f"{f.name}: {f.rule} into {f.into}")
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><defs><marker id="to" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#888a85"/></marker></defs>'
    ]
    for (source, target), names in pairs.items():
        (x0, y0), (x1, y1) = places[source], places[target]
        text = escape(f"{source} to {target}\n" + "\n".join(names[:12]))
        if source == target:
            path = (
                f"M{x0 - 22:.1f} {y0 - 14:.1f}C{x0 - 40:.1f} {y0 - 52:.1f} {x0 + 40:.1f} {y0 - 52:.1f} "
                f"{x0 + 22:.1f} {y0 - 16:.1f}"
            )
        else:
            length = math.hypot(x1 - x0, y1 - y0) or 1.0
            ux, uy = (x1 - x0) / length, (y1 - y0) / length
            bend_x, bend_y = (x0 + x1) / 2 - 18 * uy, (y0 + y1) / 2 + 18 * ux
            path = (
                f"M{x0 + 30 * ux:.1f} {y0 + 18 * uy:.1f}Q{bend_x:.1f} {bend_y:.1f} {x1 - 34 * ux:.1f} "
                f"{y1 - 20 * uy:.1f}"
            )
        parts.append(
            f'<path class="hover" d="{path}" fill="none" stroke="#888a85" marker-end="url(#to)">'
            f"<title>{text}</title></path>"
        )
    for p in model.populations:
        x, y = places[p.name]
        title = escape(f"{p.name}: {p.size:,} neurons of {p.neuron.name}")
        parts.append(
            f"<g><title>{title}</title>"
            f'<rect class="box" x="{x - 46:.1f}" y="{y - 17:.1f}" width="92" height="34" rx="8"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{y - 2:.1f}" text-anchor="middle">{escape(p.name[:14])}</text>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{y + 11:.1f}" text-anchor="middle">{p.size:,}</text></g>')
    return "".join([*parts, "</svg>"])


def _layers(network: l0.Network) -> str:
    """Inputs and layers in order, with kind and shape; rows from left to right."""
    boxes: list[tuple[str, str, tuple[int, ...], tuple[str, ...]]] = [
        (i.name, "input", i.shape, ()) for i in network.inputs
    ]
    boxes += [
        (x.name, x.kind + (f", {x.activation}" if x.activation else ""), x.shape, x.inputs) for x in network.layers
    ]
    if len(boxes) > MOST_BOXES:
        return f"<p>{len(network.layers):,} layers</p>"
    across = 4
    height = 64 * -(-len(boxes) // across) + 8
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for k, (name, kind, shape, inputs) in enumerate(boxes):
        x, y = 4 + (k % across) * (WIDTH / across), 4 + 64 * (k // across)
        extent = " x ".join(map(str, shape)) or "one number"
        title = escape(f"{name}: {kind}, {extent}" + (f"; of {', '.join(inputs)}" if inputs else ""))
        parts.append(
            f"<g><title>{title}</title>"
            f'<rect class="box" x="{x:.1f}" y="{y}" width="{WIDTH / across - 22:.1f}" height="48" rx="6"/>'
        )
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 15}">{escape(name[:18])}</text>')
        parts.append(f'<text class="small" x="{x + 8:.1f}" y="{y + 28}">{escape(kind[:22])}</text>')
        parts.append(f'<text class="small" x="{x + 8:.1f}" y="{y + 41}">{escape(extent)}</text></g>')
        if k + 1 < len(boxes) and (k + 1) % across:
            parts.append(f'<text class="small" x="{x + WIDTH / across - 16:.1f}" y="{y + 28}">&#8594;</text>')
    return "".join([*parts, "</svg>"])
