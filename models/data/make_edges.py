"""Writes edges.npz, an image as spikes and two kernels that find its edges, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run (a fixed seed, no time stamps in the archive).
Does not: use a photograph: the image is a square, a disk and a slope of grey.

Arrays: `times` float64 (ms, on a grid of 1 ms up to 99 ms) and `indices` int32: the spikes of 64 x 64 pixels, row by
row, each step with a probability that is half the pixel's grey value; `kernel` float32 (2, 1, 3, 3): the derivatives
across and down (Sobel and Feldman 1968), divided by 4; `image` float32 (64, 64), between 0 and 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fixed_npz import write_npz


def main() -> None:
    y, x = np.mgrid[0:64, 0:64].astype(np.float64)
    image = 0.1 + 0.2 * x / 63
    image[12:32, 8:30] = 0.9
    image[(y - 44) ** 2 + (x - 44) ** 2 < 13**2] = 0.7
    drawn = np.random.Generator(np.random.PCG64(7)).random((99, 64 * 64))
    step, pixel = np.nonzero(drawn < 0.5 * image.ravel())
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32) / 4
    arrays = {
        "times": (step + 1).astype(np.float64),
        "indices": pixel.astype(np.int32),
        "kernel": np.stack([sobel, sobel.T])[:, None],
        "image": image.astype(np.float32),
    }
    write_npz(Path(__file__).with_name("edges.npz"), arrays)


if __name__ == "__main__":
    main()
