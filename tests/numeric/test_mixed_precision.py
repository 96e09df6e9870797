"""Mixed precision: rounding against known values, and the CPU against the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.load import narrowed, widened
from backends.protocol import Backend
from backends.reference.evaluate import rounded
from backends.reference.load import ReferenceBackend
from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import with_options
from tests.gpu.test_training import give_order
from tests.grids import slow

STEPS = 8


def test_rounding_is_to_the_nearest_and_ties_go_to_even() -> None:
    ulp = 2.0**-7
    given = np.array(
        [1, 1 + ulp / 2, 1 + 3 * ulp / 2, 1 + ulp / 2 + 2**-20, -1 - ulp, 3.4e38, np.inf, 0, 1e-30], np.float32
    )
    exact = np.array([1, 1, 1 + 2 * ulp, 1 + ulp, -1 - ulp, np.inf, np.inf, 0], np.float32)
    assert np.array_equal(rounded(given)[:-1], exact)
    assert abs(float(rounded(given)[-1]) / 1e-30 - 1) < 2.0**-8
    assert np.isnan(rounded(np.array([np.nan], np.float32)))[0]
    assert np.array_equal(widened(narrowed(given)), rounded(given))
    values = np.random.default_rng(1).standard_normal(10_000).astype(np.float32)
    assert np.array_equal(widened(narrowed(values)), rounded(values))
    assert np.all(abs(rounded(values) / values - 1) <= 2.0**-8)


def losses(root: Path, name: str, backend: Backend, folder: Path, precision: str = "mixed") -> np.ndarray:
    model = load_model(root / "models" / f"{name}.yaml", {})
    model = replace(model, numerics=replace(model.numerics, precision=precision))
    program = lower(model, backend.capabilities, True).merged
    instance = backend.load(backend.build(program, folder, {}), program, 3)
    give_order(instance, program)
    found = []
    for step in range(1, STEPS + 1):
        instance.run("train", step, 1)
        found.append(float(instance.read("train/loss")[0]))
    instance.close()
    return np.array(found)


@pytest.mark.usefixtures("little_optimized")
@pytest.mark.parametrize("name", ["mlp", "lenet_digits", *slow("transformer", "lstm")])
def test_the_cpu_rounds_where_the_reference_does(name: str, root: Path, tmp_path: Path) -> None:
    here, there = losses(root, name, CpuBackend(), tmp_path), losses(root, name, ReferenceBackend(), tmp_path)
    np.testing.assert_allclose(here, there, rtol=1e-3)
    exact = losses(root, name, CpuBackend(), tmp_path, "float32")
    assert np.any(abs(exact - here) > 0)
    np.testing.assert_allclose(here, exact, rtol=2e-2)


def test_options_that_exclude_each_other(root: Path) -> None:
    model = load_model(root / "models" / "mlp.yaml", {})
    with pytest.raises(RunError, match="bitwise"):
        with_options(model, Options(precision="mixed", order="bitwise"))
    with pytest.raises(RunError, match="network"):
        with_options(load_model(root / "models" / "cuba.yaml", {}), Options(precision="mixed"))
