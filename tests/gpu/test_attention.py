"""Attention at once against its definition in float64, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from backends.protocol import Instance
from compiler.ir.space import DType
from compiler.passes.kernels import place_parts
from compiler.passes.pipeline.lower import lower
from tests.evaluate_graph import evaluate_graph
from tests.gpu.attention_cases import GRID, RESULTS, SMALL, Case, program, sliced
from tests.gpu.test_contractions import as_stored

pytestmark = pytest.mark.gpu

UNIT = {1: 6e-3, 2: 8e-4, 3: 6e-7}
"""Relative error (Frobenius) by factors; of bf16 results 1 has that of rounding them, too."""


def loaded(cases: Sequence[Case], folder: Path) -> Instance:
    merged, backend = program(cases), CudaBackend()
    return backend.load(backend.build(merged, folder, {}), merged, 1)


def run(instance: Instance, number: int, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for name, x in values.items():
        instance.write(name, x)
    for of in RESULTS:
        name = f"case{number}/{of}.{number}"
        instance.write(name, np.full(instance.read(name).shape, np.nan, np.float32))
    instance.run(f"case{number}", 1, 1)
    return {of: instance.read(f"case{number}/{of}.{number}").astype(np.float64) for of in RESULTS}


def check(cases: Sequence[Case], folder: Path) -> None:
    instance = loaded(cases, folder)
    for number, case in enumerate(cases):
        nodes = case.nodes(number)
        tensors = {n.out.name: n.out for n in nodes if hasattr(n, "out")}
        values = case.values(number)
        given = {n: as_stored(x, tensors[n], DType.F32) for n, x in values.items()}
        exact = evaluate_graph(nodes, given)
        found = run(instance, number, values)
        again = run(instance, number, values)
        for of in RESULTS:
            wanted = exact[f"{of}.{number}"].ravel()
            assert np.array_equal(found[of], again[of], equal_nan=True)
            error = np.linalg.norm(found[of].ravel() - wanted) / max(np.linalg.norm(wanted), 0.3 * wanted.size**0.5)
            assert error < UNIT[case.factors] * (1 if of in ("context", "norms") else 3), (case, of, error)
    instance.close()


def test_small(tmp_path: Path) -> None:
    check(SMALL, tmp_path)


def test_grid(tmp_path: Path) -> None:
    check(GRID, tmp_path)


@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_slices_give_the_same_bits(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a step, read where they lie and copied."""
    backend, found = CudaBackend(), []
    for name in ("there", "copied"):
        merged = lower(sliced(tmp_path, precision), backend.capabilities, True).merged
        instance = backend.load(backend.build(merged, tmp_path / name, {}), merged, 1)
        instance.write("train.order", np.arange(32, dtype=np.int32))
        assert instance.run("train", 1, 1) == 1
        found.append([instance.read(f"{layer}.{of}") for layer in ("all", "y") for of in ("weight", "bias")])
        instance.close()
        monkeypatch.setattr(place_parts, "_heads", lambda _: False)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_with_the_steps_that_see_it(bad: float, tmp_path: Path) -> None:
    """A step before a key does not see it; of a value, other features do not."""
    case = Case((1, 1, 100, 100, 32, 32), 3, True)
    instance = loaded([case], tmp_path)
    for operand in ("k.0", "v.0"):
        values = case.values(0)
        plain = run(instance, 0, values)["context"].reshape(100, 32)
        values[operand][0, 40, 0, 3] = bad
        y = run(instance, 0, values)["context"].reshape(100, 32)
        columns = [c for c in range(32) if operand == "k.0" or c != 3]
        assert np.array_equal(y[:40, columns], plain[:40, columns])
        if operand == "v.0" or np.isnan(bad):
            assert not np.isfinite(y[40:, 3]).any()
    instance.close()
