"""Products on a GPU against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load import narrowed, widened
from compiler.ir.level1.graph import Tensor, Weight
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cuda.tensor_cores import STORED, TF32, TF32X3
from tests.cpu.contractions import Case, program
from tests.evaluate_graph import evaluate_graph
from tests.gpu.products import (
    GROUPED,
    conv_cases,
    dense_cases,
    direct_cases,
    direct_epilogue_cases,
    epilogue_cases,
    grouped_cases,
    matmul_cases,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("real", [DType.F32, DType.F64])
@pytest.mark.parametrize(
    "cases_of",
    [dense_cases, matmul_cases, conv_cases, direct_cases, grouped_cases, epilogue_cases, direct_epilogue_cases],
)
def test_products(cases_of: Callable[[DType], list[Case]], real: DType, tmp_path: Path) -> None:
    run_products(cases_of(real), real, 1e-6 if real is DType.F32 else 1e-14, tmp_path)


@pytest.mark.parametrize(("name", "unit"), [(TF32, 4e-4), (TF32X3, 1e-6)])
def test_tensor_cores(name: str, unit: float, tmp_path: Path) -> None:
    """Factors of 11 significant bits; and with three products the accuracy of float32."""
    first = frozenset({name})
    cases = [*dense_cases(DType.F32, first), *conv_cases(DType.F32, first)]
    assert sum(c.choice is not None and c.choice.strategy == name for c in cases) > 5
    run_products(cases, DType.F32, unit, tmp_path)


@pytest.mark.parametrize("name", ["implicit_gemm", STORED, "grouped_conv"])
def test_operands_in_bf16(name: str, tmp_path: Path) -> None:
    """Their products are exact in float32, and in tf32; one operand, or both."""
    cases = [
        bf16_operands(c, both) for c in (*dense_cases(DType.F32), *conv_cases(DType.F32)) for both in (False, True)
    ]
    if name in GROUPED:
        cases = [bf16_operands(c, both) for c in grouped_cases(DType.F32) for both in (False, True)]
    names = GROUPED if name in GROUPED else frozenset({name})
    chosen = [(c, choose(c.node, c.tensors, 0, 4, names)[0]) for c in cases]
    found = [replace(c, choice=way) for c, way in chosen if way is not None]
    assert len(found) > (5 if name == STORED else 20)
    run_products(found, DType.F32, 1e-6, tmp_path)


def bf16_operands(case: Case, both: bool) -> Case:
    first, second = case.node.ins
    named = {first, second} if both else {second}
    return replace(case, tensors={n: replace(t, dtype="bf16") if n in named else t for n, t in case.tensors.items()})


def as_stored(values: np.ndarray, tensor: Tensor, real: DType) -> np.ndarray:
    """Values as an array of the tensor holds them, in float64."""
    stored = widened(narrowed(values)) if tensor.dtype == "bf16" else values.astype(real.numpy)
    return stored.astype(np.float64)


def run_products(cases: list[Case], real: DType, unit: float, tmp_path: Path) -> None:
    """The numbers of the definition, and the same bits when it runs again. `unit`: the error of a term, about."""
    merged = merge(program(cases, real, True))
    backend = CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    rng = np.random.default_rng(1)
    given = []
    for number, case in enumerate(cases):
        given.append({n: rng.standard_normal(t.shape) for n, t in case.tensors.items() if n != "y"})
        for name, values in given[-1].items():
            instance.write(f"{number}.{name}", values)
        instance.write(f"{number}.y", np.full(case.node.out.shape, np.nan))
    runs = []
    for step in (1, 2, 3):
        instance.run("train", step, 1)
        runs.append([instance.read(f"{number}.y") for number in range(len(cases))])
    for number, (case, arrays) in enumerate(zip(cases, given, strict=True)):
        node, last = case.node, case.after or case.node
        inputs = tuple(Weight(case.tensors[n], "zeros") for n in arrays)
        arrays = {n: as_stored(v, case.tensors[n], real) for n, v in arrays.items()}
        exact = evaluate_graph((*inputs, node, *((case.after,) if case.after else ())), arrays)[last.out.name]
        terms = np.prod([e for d, e in node.dims if d not in {a.terms[0][0] for a in node.out_map}])
        tolerance = unit * (5 + 3 * float(np.sqrt(terms)))
        tolerance += 2.0**-8 if last.out.dtype == "bf16" else 0.0
        found = runs[0][number].reshape(node.out.shape)
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance, err_msg=f"{number}: {node}")
        for again in runs[1:]:
            assert np.array_equal(again[number], runs[0][number]), number
    instance.close()
