"""Writes digits.npz, the UCI handwritten digits (8x8 pixels, 1,797 of them), beside this file.

Assumes: scikit-learn is installed; it bundles the data set.
Guarantees: the same bytes on every run (no time stamps in the archive).
Does not: scale; pixels stay the integers 0..16, and a model scales them (`scale: {image: 1 / 16}`).

Arrays: `images` uint8 (1797, 1, 8, 8), `flat` uint8 (1797, 64), `labels` int32 (1797,).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
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
    path = Path(__file__).with_name("digits.npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that the bytes do not change
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue())
    print(f"{path}: " + ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in arrays.items()))


if __name__ == "__main__":
    main()
