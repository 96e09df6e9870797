"""Writes .npz files whose bytes depend on their arrays alone, for the scripts beside this one.

Assumes: nothing.
Guarantees: the same bytes on every run: no time stamps in the archive.
Does not: hold pickled objects.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays, compressed, and say what they are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, so that the bytes do not change
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue())
    print(f"{path}: " + ", ".join(f"{n} {a.dtype} {a.shape}" for n, a in arrays.items()))
