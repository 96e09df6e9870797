"""Writes convnet.npz, the inputs of the single layers of convnet-benchmarks, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run (no drawn numbers, no time stamps in the archive); a file of a few kB, as the
values repeat: what they are does not matter to the time that a convolution takes.
Does not: hold images.

Arrays: `l1` to `l5`, uint8, (16, channels, rows, columns), values 0..15 that differ between samples and columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fixed_npz import write_npz

SHAPES = {"l1": (3, 128, 128), "l2": (64, 64, 64), "l3": (128, 32, 32), "l4": (128, 16, 16), "l5": (384, 13, 13)}
SAMPLES = 16


def main() -> None:
    arrays = {}
    for name, shape in SHAPES.items():
        sample, column = np.arange(SAMPLES).reshape(-1, 1, 1, 1), np.arange(shape[2])
        arrays[name] = np.broadcast_to((sample + column) % 16, (SAMPLES, *shape)).astype(np.uint8)
    write_npz(Path(__file__).with_name("convnet.npz"), arrays)


if __name__ == "__main__":
    main()
