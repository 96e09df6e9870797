"""Which parts of an array have elements in common, against their elements."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from compiler.ir.level2.dependence import meeting, parts_of
from compiler.ir.level2.program import Array, Lanes, Role
from compiler.ir.space import DType
from compiler.layout.plan_memory import side_by_side


def meet(a: Array, b: Array) -> bool:
    return next(meeting(sorted((a, b), key=lambda x: x.first))).size > 0


def _parts(rng: np.random.Generator, lanes: int) -> tuple[list[Array], list[set[int]]]:
    """A whole with slices of it, and slices of these, some with lanes; the elements of each."""
    shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
    stored = (shape[0], *shape[1:], *([lanes] if lanes else []))
    elements = np.arange(prod(stored)).reshape(stored)
    layout = Lanes(lanes) if lanes else None
    named = (shape[0] * lanes, *shape[1:]) if lanes else shape
    arrays, found = [Array("whole", DType.F32, named, Role.WORK, layout)], [set(elements.flat)]
    for k in range(12):
        whole = [a == 0 and lanes > 0 for a in range(len(shape))]  # samples in lanes are not sliced
        low = [0 if all_ else int(rng.integers(0, n)) for all_, n in zip(whole, shape, strict=True)]
        high = [n if all_ else int(rng.integers(at + 1, n + 1)) for all_, at, n in zip(whole, low, shape, strict=True)]
        part = elements[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
        extents = part.shape[:-1] if lanes else part.shape
        own = (extents[0] * max(lanes, 1), *extents[1:])
        strides = tuple(s // elements.itemsize for s in elements.strides[: len(shape)])
        first = int(part.flat[0])
        arrays.append(Array(str(k), DType.F32, own, Role.WORK, layout, within="whole", first=first, strides=strides))
        found.append(set(part.flat))
    return arrays, found


@pytest.mark.parametrize("lanes", [0, 2])
def test_slices_meet_where_they_have_elements_in_common(lanes: int) -> None:
    rng = np.random.default_rng(1)
    seen: set[bool] = set()
    for _ in range(60):
        arrays, elements = _parts(rng, lanes)
        parts = parts_of(arrays)
        assert set(parts["whole"]) == {a.name for a in arrays[1:]}
        beside = side_by_side(arrays)
        for a, own in zip(arrays[1:], elements[1:], strict=True):
            assert a.physical_size == max(own) - min(own) + 1
            for b, other in zip(arrays[1:], elements[1:], strict=True):
                common = not own.isdisjoint(other)
                assert meet(a, b) is common
                assert a is b or (b.name in parts.get(a.name, ()) or a.name in parts.get(b.name, ())) is common
                assert (b.name not in beside[a.name]) is common
                seen.add(common)
    assert seen == {True, False}


def test_what_is_no_box_of_one_grid_may_meet() -> None:
    whole = Array("whole", DType.F32, (4, 10), Role.WORK)
    column = Array("column", DType.F32, (4, 2), Role.WORK, within="whole", first=0, strides=(10, 1))
    across = Array("across", DType.F32, (6,), Role.WORK, within="whole", first=7)
    apart = Array("apart", DType.F32, (3,), Role.WORK, within="whole", first=35)
    assert meet(column, across) and not meet(column, apart)
    assert parts_of([whole, column, across, apart])["column"] == ("across",)
