"""SciPy in one thread, for as long as small matrices are taken."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.passes.cells.blas import one_thread, openblas
from compiler.passes.cells.cell_columns import exponentials


def test_exponentials_of_small_matrices_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards, also after an error, there are as many as before."""
    found = openblas()
    if found is None:
        pytest.skip("SciPy has no OpenBLAS of its own")
    library, _ = found
    before, during = library.scipy_openblas_get_num_threads(), list[int]()

    def taken(matrices: object) -> None:
        during.append(library.scipy_openblas_get_num_threads())
        raise ZeroDivisionError

    library.scipy_openblas_set_num_threads(2)
    try:
        monkeypatch.setattr("scipy.linalg.expm", taken)
        with pytest.raises(ZeroDivisionError):
            exponentials(np.zeros((1, 2, 2)))
        assert during == [1] and library.scipy_openblas_get_num_threads() == 2
    finally:
        library.scipy_openblas_set_num_threads(before)


def test_without_a_library_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.passes.cells.blas.openblas", lambda: None)
    with one_thread():
        assert exponentials(np.zeros((2, 2, 2))).tolist() == [[[1, 0], [0, 1]]] * 2
