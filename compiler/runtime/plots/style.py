"""Shared by all plots: colours and figures without a window.

Assumes: matplotlib.
Guarantees: pyplot is never imported.
Does not: draw.
"""

from __future__ import annotations

from typing import Any, Final

COLORS: Final = ("#3465a4", "#cc3b3b", "#3c8d40", "#b8860b", "#75507b", "#2e8b8b", "#8b5a2b", "#555753")


def new_figure(width: float, height: float) -> Any:
    """A figure of this size in inches, without a window: pyplot, which would choose one, is never imported."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
