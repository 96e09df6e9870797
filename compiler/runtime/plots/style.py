"""Shared by all plots: colours, styles, figures without a window, and saving them.

Assumes: matplotlib.
Guarantees: pyplot is never imported; equal data give equal SVG; a figure is laid out once for all of its files.
Does not: draw.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError, did_you_mean
from compiler.core.disk import new_file

COLORS: Final = ("#3465a4", "#cc3b3b", "#3c8d40", "#b8860b", "#75507b", "#2e8b8b", "#8b5a2b", "#555753")
UM_PER_INCH: Final = 25400.0
DPI: Final = 150
DRAWING: Final = threading.Lock()
"""Held while one thread draws: matplotlib has one style for the process."""

_ALWAYS: Final[Mapping[str, Any]] = {
    "svg.hashsalt": "netloom",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
}
_STYLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "paper": {
        "font.size": 7,
        "axes.titlesize": 7,
        "axes.linewidth": 0.6,
        "lines.linewidth": 0.8,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "pdf.fonttype": 42,  # letters stay letters in a journal's editor
        "savefig.dpi": 300,
    },
}
PAPER: Final = 3.35 / 8
"""The width of one column over that of a usual figure."""


@contextmanager
def drawing(style: str) -> Iterator[None]:
    """A context in which figures are made and saved in a style. Raises RunError (E0912) for one that does not exist."""
    import matplotlib
    from cycler import cycler

    usual: Any = {**_ALWAYS, "axes.prop_cycle": cycler(color=COLORS)}
    with DRAWING, matplotlib.rc_context(usual):
        parameters: Any = _parameters(style)
        matplotlib.rcParams.update(parameters)
        yield


def _parameters(style: str) -> Mapping[str, Any]:
    if style in _STYLES:
        return _STYLES[style]
    import matplotlib.style as styles

    if style in styles.library:
        found: Any = styles.library[style]
        return dict(found)
    if style.endswith(".mplstyle") and Path(style).is_file():
        from matplotlib import rc_params_from_file

        read: Any = rc_params_from_file(style, use_default_template=False)
        return dict(read)
    help = did_you_mean(style, (*_STYLES, *styles.library))
    help = help or "a style is `default`, `paper`, one of matplotlib's, or a .mplstyle file"
    raise RunError("E0912", f"there is no plot style `{style}`", help)


def new_figure(width: float, height: float, look: l0.Look | None = None) -> Any:
    """A figure of this size in inches, or that of its look, without a window: pyplot, which would choose one, is never
    imported."""
    from matplotlib.figure import Figure

    if look is not None and look.size is not None:
        width, height = look.size[0] / UM_PER_INCH, look.size[1] / UM_PER_INCH
    elif look is not None and look.style == "paper":
        width, height = width * PAPER, max(height * PAPER, 1.2)
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix. Raises RunError (E0930)."""
    import matplotlib

    suffix = path.suffix[1:]
    dated = {"svg": "Date", "pdf": "CreationDate"}
    metadata = {dated[suffix]: None} if suffix in dated else None
    dpi = matplotlib.rcParams["savefig.dpi"]
    _lay_out(figure, DPI if dpi == "figure" else dpi)
    with new_file(path, "a plot") as stream:
        if suffix == "png":
            _write_png(figure, stream)
        else:
            figure.savefig(stream, format=suffix, dpi=figure.dpi, metadata=metadata)


def _lay_out(figure: Any, dpi: float) -> None:
    """Find the layout of a figure, once for all of its files: it takes as long as drawing one, and a figure that has
    an engine for it is drawn once more for each file."""
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.dpi = dpi
        engine.execute(figure)
        figure.set_layout_engine(None)


def _write_png(figure: Any, stream: IO[bytes]) -> None:
    """An image without transparency, which takes a third less time than with it; level 3 a third of the time of 6."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    pixels.save(stream, format="png", compress_level=3, dpi=(figure.dpi, figure.dpi))


def labelled(name: str, unit: str) -> str:
    """A label of an axis: the name and, where there is one, the unit."""
    return name + (f" ({unit})" if unit not in ("1", "") else "")
