"""Relations drawn on a GPU equal those of the reference; rows of any length are sorted in ascending order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tests.cpu.test_connect as on_cpu
import tests.numeric.test_connectivity as rules
from backends.cuda.run.backend import CudaBackend
from compiler.passes.program.merge import merge
from tests.cpu.test_connect import (  # noqa: F401  (collected here as well)
    test_a_rare_connection_skips_whole_blocks,
    test_given_events,
    test_relations_are_those_of_the_reference,
)
from tests.numeric.test_connectivity import (  # noqa: F401
    test_all_of_the_pool,
    test_conditions_over_places,
    test_distance,
    test_fixed_indegree,
    test_fixed_outdegree,
    test_probability_of_distance,
)

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_cpu, "CpuBackend", CudaBackend)
    monkeypatch.setattr(rules, "TARGETS", ["cuda", "reference"])


@pytest.mark.parametrize(("n_pre", "number"), [(1, 100_000), (3, 20_000), (700, 50_000), (1000, 10)])
def test_rows_of_any_length_are_sorted(tmp_path: Path, n_pre: int, number: int) -> None:
    """In shared memory up to 8,192 targets, in place beyond."""
    values = {"n_pre": n_pre, "n_post": 5000, "number": number, "multapses": 1, "autapses": 1, "same": 0}
    here, there = on_cpu.both(merge(on_cpu.relation("fixed_total", values, 0.3)), tmp_path)
    assert np.array_equal(here.read("row"), there.read("row"))
    assert np.array_equal(here.read("col"), there.read("col"))


def test_row_pointers_beyond_one_block(tmp_path: Path) -> None:
    values = {"n_pre": 5000, "n_post": 300, "autapses": 0, "same": 0}
    here, there = on_cpu.both(merge(on_cpu.relation("fixed_probability", values, 0.02)), tmp_path)
    assert np.array_equal(here.read("row"), there.read("row"))
    assert np.array_equal(here.read("col"), there.read("col"))
