"""Names of the compiler in a model, in OpenCL (tests/cpu/test_compiler_names.py: cpu, reference and CUDA)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compiler_names import VARIANTS, named
from tests.construct_runs import compare, results
from tests.grids import one_in

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("names", one_in(3, VARIANTS[::3]), ids=lambda names: names["state1"])
def test_opencl_gives_the_bits_of_the_reference(names: Mapping[str, str], tmp_path: Path) -> None:
    model = named(tmp_path / "model", names)
    compare("names", results(model, tmp_path, "opencl"), results(model, tmp_path, "reference"))
