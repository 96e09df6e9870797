"""implicit_gemm on a GPU against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.backend import CudaBackend
from compiler.ir.evaluate_graph import evaluate_graph
from compiler.ir.graph import Weight
from compiler.ir.space import DType
from compiler.passes.merge import merge
from tests.cpu.contractions import Case, program
from tests.gpu.products import (
    conv_cases,
    dense_cases,
    direct_cases,
    direct_epilogue_cases,
    epilogue_cases,
    matmul_cases,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("real", [DType.F32, DType.F64])
@pytest.mark.parametrize(
    "cases_of", [dense_cases, matmul_cases, conv_cases, direct_cases, epilogue_cases, direct_epilogue_cases]
)
def test_products(cases_of: Callable[[DType], list[Case]], real: DType, tmp_path: Path) -> None:
    """The numbers of the definition, and the same bits when it runs again."""
    cases = cases_of(real)
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
        arrays = {n: v.astype(real.numpy).astype(np.float64) for n, v in arrays.items()}
        exact = evaluate_graph((*inputs, node, *((case.after,) if case.after else ())), arrays)[last.out.name]
        terms = np.prod([e for d, e in node.dims if d not in {a.terms[0][0] for a in node.out_map}])
        tolerance = (1e-6 if real is DType.F32 else 1e-14) * (5 + 3 * float(np.sqrt(terms)))
        found = runs[0][number].reshape(node.out.shape)
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance, err_msg=f"{number}: {node}")
        for again in runs[1:]:
            assert np.array_equal(again[number], runs[0][number]), number
    instance.close()
