"""A model may use every name that the compiler uses itself: it computes what it does with other names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from tests.compiler_names import PLAIN, VARIANTS, named, renamed
from tests.construct_runs import Array, lowered, results

pytestmark = pytest.mark.usefixtures("cc", "quickly_compiled")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    folder = tmp_path_factory.mktemp("plain")
    found = results(named(folder / "model", PLAIN), folder, "reference")
    assert all(len(found[f"{p}.spikes.record"]) > 10 for p in "ab")
    return found


@pytest.mark.parametrize("names", VARIANTS, ids=lambda names: names["state1"])
def test_results_are_those_with_plain_names(names: Mapping[str, str], plain: dict[str, Array], tmp_path: Path) -> None:
    model = named(tmp_path / "model", names)
    for target in ("cpu", "reference"):
        found = results(model, tmp_path, target)
        for name, values in plain.items():
            np.testing.assert_array_equal(found[renamed(name, names)], values, err_msg=f"{target}: {name}")


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("names", VARIANTS, ids=lambda names: names["state1"])
def test_cuda_compiles(names: Mapping[str, str], tmp_path: Path) -> None:
    compile_text(emit(lowered(named(tmp_path / "model", names), "cuda")), "names", False, "sm_90")
