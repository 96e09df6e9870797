"""Writes digits.npz, the UCI handwritten digits (8x8 pixels, 1,797 of them), beside this file.

Assumes: scikit-learn is installed; it bundles the data set.
Guarantees: the same bytes on every run (no time stamps in the archive).
Does not: scale; pixels stay the integers 0..16, and a model scales them (`scale: {image: 1 / 16}`).

Arrays: `images` uint8 (1797, 1, 8, 8), `flat` uint8 (1797, 64), `labels` int32 (1797,).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fixed_npz import write_npz
from sklearn.datasets import load_digits


def main() -> None:
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    if not np.array_equal(images, digits.images):
        raise ValueError("the pixels are not small integers")
    arrays = {
        "images": images[:, None],
        "flat": images.reshape(len(images), -1),
        "labels": digits.target.astype(np.int32),
    }
    write_npz(Path(__file__).with_name("digits.npz"), arrays)


if __name__ == "__main__":
    main()
