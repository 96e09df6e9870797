"""The version of Netloom, in one place that costs nothing to read (pyproject.toml repeats it)."""

from __future__ import annotations

VERSION = "0.1.0"
