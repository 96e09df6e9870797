"""spread: a chain spread over blocks as one launch: the kernel's name and the structures that it reads.

Assumes: the names of templates/spread.cu.j2.
Guarantees: size-dependent data is in tables (spread_table.py).
Does not: fill in tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np

NAME: Final = "nl_spread_chain"
KEPT: Final = np.dtype(
    [
        ("from", "u8"),
        ("by_out", "i8"),
        ("by_term", "i8"),
        *((name, "i4") for name in ("outs", "terms", "at", "pitch", "bits", "unused")),
    ]
)
PANEL: Final = np.dtype(
    [
        ("values", "u8"),
        ("by_sample", "i8"),
        *((name, "i4") for name in ("terms", "at", "pitch", "rows", "first", "unused", "unused_2", "unused_3")),
    ]
)
STAGE: Final = np.dtype(
    [
        *((name, "i4") for name in ("moves", "what", "outs", "bits", "panels", "side", "ways", "tiles")),
        *((name, "i4") for name in ("across", "part", "line", "chunk", "chunks", "meets", "rows", "reads")),
        *((name, "i4") for name in ("products", "depth", "wide", "terms")),
    ]
)
SPREAD: Final = np.dtype(
    [
        ("samples", "i8"),
        *((name, "i4") for name in ("members", "matrices", "stages", "record", "sums", "values", "records")),
        *((name, "i4") for name in ("end", "many", "times", "line", "unused", "unused_2", "unused_3")),
    ]
)
"""nl_kept, nl_panel, nl_spread_stage and nl_spread_of of templates/spread.cu.j2."""
SPARE: Final = 4
"""Bytes of a thread for what is only prefetched."""
COUNTERS: Final = 32
"""Words between the counters of two groups."""
