"""Every construct of the spiking language on a GPU: bitwise equal to the CPU, in both precisions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netloom import run
from tests.construct_runs import compare, construct, results, stored_results, write_construct
from tests.constructs import CONSTRUCTS

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cc")]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", list(CONSTRUCTS))
def test_cuda_gives_the_bits_of_the_cpu(tmp_path: Path, name: str, precision: str) -> None:
    model = construct(name, tmp_path, precision)
    compare(name, results(model, tmp_path, "cuda"), results(model, tmp_path, "cpu"))


@pytest.mark.parametrize("name", list(CONSTRUCTS))
def test_cuda_repeats_itself(tmp_path: Path, name: str) -> None:
    """`reproducible`: the same bits in every run."""
    model = construct(name, tmp_path, "float32", "reproducible")
    compare(name, results(model, tmp_path, "cuda"), results(model, tmp_path, "cuda"))


def test_files_of_a_run_hold_the_same(tmp_path: Path) -> None:
    """Every kind of record through the runner."""
    path = write_construct("records", tmp_path, "float32")
    stored = {}
    for target in ("cpu", "cuda"):
        run(path, target, out=tmp_path / target, build_dir=tmp_path / f"build-{target}")
        stored[target] = stored_results(tmp_path / target)
    assert stored["cpu"].keys() == stored["cuda"].keys()
    for name, values in stored["cpu"].items():
        np.testing.assert_array_equal(stored["cuda"][name], values, err_msg=name)
