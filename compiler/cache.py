"""Where Netloom keeps what it can make again: compiled texts, measurements, files in another form.

Assumes: nothing.
Guarantees: one folder per user, or the one that $NETLOOM_CACHE names.
Does not: make or clean the folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """$NETLOOM_CACHE, or the platform's folder for caches."""
    if given := os.environ.get("NETLOOM_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "netloom"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netloom"
