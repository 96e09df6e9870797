"""blas: the linear algebra of SciPy in one thread, for matrices of a few rows.

Assumes: nothing; where SciPy does not have an OpenBLAS of its own, nothing changes.
Guarantees: within `one_thread` that library uses one thread, else as many as before: waking others takes much longer
than the exponential of a 3x3 matrix does. Results have the same bits.
Does not: change the library that NumPy has.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock


@contextmanager
def one_thread() -> Iterator[None]:
    """As long as it lasts, SciPy computes in one thread."""
    found = openblas()
    if found is None:
        yield
        return
    library, lock = found
    with lock:
        many = library.scipy_openblas_get_num_threads()
        library.scipy_openblas_set_num_threads(1)
        try:
            yield
        finally:
            library.scipy_openblas_set_num_threads(many)


@cache
def openblas() -> tuple[ctypes.CDLL, Lock] | None:
    """The library that SciPy has loaded, and what keeps its number of threads from being changed by two at once."""
    import scipy

    folder = Path(scipy.__file__).parents[1] / "scipy.libs"
    for path in sorted(folder.glob("libscipy_openblas*")):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        if hasattr(library, "scipy_openblas_set_num_threads"):
            return library, Lock()
    return None
