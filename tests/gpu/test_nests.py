"""The loop nests of tests/cpu/test_nests.py on a GPU, against the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tests.cpu.test_nests as on_cpu
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load import CudaInstance
from backends.reference.load import ReferenceInstance
from compiler.ir.level2.program import ELEMENT, Add, Axis, Dim, Mode, Nest, Program, Strided
from compiler.passes.program.merge import merge
from tests.cpu.programs import assign, expr
from tests.cpu.test_nests import (  # noqa: F401  (collected here as well)
    test_contiguous_sum,
    test_flat_map_with_functions,
    test_guards_of_one_section_stay_out_of_the_others,
    test_index_with_division,
    test_integer_sum,
    test_lanes_with_guard,
    test_masked_lanes,
    test_padded_convolution_over_rows,
    test_random_numbers,
    test_several_sums_of_each_lane,
    test_sum_over_lanes,
    test_transpose_with_strides_in_columns,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cpu, "CpuBackend", CudaBackend)


def run_both(program: Program, folder: Path) -> tuple[CudaInstance, ReferenceInstance]:
    merged = merge(program)
    backend = CudaBackend(check=True)
    here = backend.load(backend.build(merged, folder, {}), merged, 1)
    there = ReferenceInstance(merged, 1)
    here.run("step", 1, 2)
    there.run("step", 1, 2)
    return here, there


@pytest.mark.parametrize(("points", "terms"), [(3, 5), (70, 40), (2, 5000), (1, 100_000), (200_000, 3)])
@pytest.mark.parametrize("combine", ["add", "max", "min"])
def test_reductions_of_every_shape(tmp_path: Path, points: int, terms: int, combine: str) -> None:
    """One thread, a warp or a block per point: results agree with the reference, and are reproducible."""
    x = on_cpu.data(points, terms)
    dims = (Dim("i", "n"), Dim("k", "m", on_cpu.RED))
    nest = Nest(dims, (), combine, expr("x * scale"), "acc", (assign("y", "acc + 1"),))
    row = Strided((Axis((("i", 1),), stride="m"), Axis((("k", 1),))))
    arrays = {"x": x, "y": np.zeros(points, np.float32)}
    program = on_cpu.single(
        nest,
        {"x": (Mode.READ, row), "y": (Mode.WRITE, ELEMENT)},
        arrays,
        {"n": points, "m": terms, "scale": 0.5},
    )
    here, there = run_both(program, tmp_path)
    got, expected = here.read("y"), there.read("y")
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-4 * np.sqrt(terms))
    here.run("step", 3, 1)
    assert np.array_equal(here.read("y"), got)


@pytest.mark.parametrize(("points", "terms"), [(3, 5), (70, 40), (2, 5000), (1, 100_000), (40_000, 100)])
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("combine", ["add", "max"])
def test_several_sums_of_every_shape(tmp_path: Path, points: int, terms: int, columns: bool, combine: str) -> None:
    """By one thread, a warp, a block or blocks: as the reference has them, and each as if it were alone."""
    nest, accesses = on_cpu.several(combine, columns)
    arrays, numbers = on_cpu.arrays_of_several(points, terms)
    here, there = run_both(on_cpu.single(nest, accesses, arrays, numbers), tmp_path)
    for name in ("y", "z"):
        assert np.allclose(here.read(name), there.read(name), rtol=1e-4, atol=1e-3 * np.sqrt(terms))
    got = here.read("first")
    here.run("step", 3, 1)
    assert np.array_equal(here.read("first"), got)
    alone = replace(nest, beside=(), epilogue=(assign("first", "acc"),))
    only = {n: accesses[n] for n in ("x", "first")}
    one, _ = run_both(on_cpu.single(alone, only, {n: arrays[n] for n in only}, numbers), tmp_path / "alone")
    assert np.array_equal(one.read("first"), got)


@pytest.mark.parametrize("wide", [False, True], ids=["rows", "planes"])
@pytest.mark.parametrize(("points", "terms"), [(3, 5), (70, 600), (2, 8000), (20_000, 100)])
def test_what_follows_sums(tmp_path: Path, wide: bool, points: int, terms: int) -> None:
    """In a thread, a warp or a block."""
    nest, accesses = on_cpu.standardized(wide)
    arrays, numbers = on_cpu.arrays_of_rows(points, terms, wide)
    here, there = run_both(on_cpu.single(nest, accesses, arrays, numbers), tmp_path)
    for name in ("y", "x", "mean", "span", "kept"):
        got, want = here.read(name), there.read(name)
        assert np.allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max()), name


def test_integers_that_many_threads_add_to(tmp_path: Path) -> None:
    ids = np.random.default_rng(1).integers(0, 7, 10_000).astype(np.int32)
    nest = Nest((Dim("i", "n"),), (assign("j", "ids"), Add("total", expr("i - 3"))))
    at = Strided((Axis((("j", 1),)),))
    program = on_cpu.single(
        nest,
        {"ids": (Mode.READ, ELEMENT), "total": (Mode.ACCUMULATE, at)},
        {"ids": ids, "total": np.zeros(7, np.int64)},
        {"n": len(ids)},
    )
    here, there = run_both(program, tmp_path)
    assert np.array_equal(here.read("total"), there.read("total"))


def test_gather_through_a_local(tmp_path: Path) -> None:
    """An index read from memory selects a row; rows that do not exist read as the fill."""
    ids = np.array([3, 1, 3, 0, 2, 9], np.int32)
    table = on_cpu.data(4, 5)
    nest = Nest((Dim("i", "n"), Dim("j", "width")), (assign("at", "id"), assign("y", "row")), fill=-1.0)
    wide = Strided((Axis((("i", 1),), stride="width"), Axis((("j", 1),))))
    program = on_cpu.single(
        nest,
        {
            "id": (Mode.READ, ELEMENT),
            "row": (Mode.READ, Strided((Axis((("at", 1),), extent=4, stride="width"), Axis((("j", 1),))))),
            "y": (Mode.WRITE, wide),
        },
        {"id": ids, "row": table, "y": np.zeros((6, 5), np.float32)},
        {"n": 6, "width": 5},
    )
    here, there = run_both(program, tmp_path)
    assert np.array_equal(here.read("y"), there.read("y"))
    assert (here.read("y")[-5:] == -1).all()


def test_float_sums_from_many_threads_are_refused(tmp_path: Path) -> None:
    nest = Nest((Dim("i", "n"),), (Add("total", expr("x")),))
    program = on_cpu.single(
        nest,
        {"x": (Mode.READ, ELEMENT), "total": (Mode.ACCUMULATE, Strided(()))},
        {"x": on_cpu.data(10), "total": np.zeros(1, np.float32)},
        {"n": 10},
    )
    from backends.protocol import BackendError

    with pytest.raises(BackendError, match="no fixed order"):
        CudaBackend().emit(merge(program))
