"""Arrays of a GPU that are read together: which ones one transfer brings."""

from __future__ import annotations

from backends.cuda.run.load import GAP, MOST, neighbours


def test_arrays_that_lie_together_are_one_transfer() -> None:
    near, far = (1024, "b", 100), (1124 + GAP + 1, "c", 8)
    assert neighbours([far, near, (512, "a", 512)]) == [[(512, "a", 512), near], [far]]
    assert neighbours([near, (1124 + GAP, "c", 8)]) == [[near, (1124 + GAP, "c", 8)]]
    assert neighbours([]) == []


def test_transfers_are_bounded() -> None:
    half = MOST // 2
    arrays = [(0, "a", half), (half, "b", half), (2 * half, "c", 8)]
    assert neighbours(arrays) == [arrays[:2], arrays[2:]]
    assert neighbours([(0, "a", 3 * MOST)]) == [[(0, "a", 3 * MOST)]]
