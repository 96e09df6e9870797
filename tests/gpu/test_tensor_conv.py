"""Convolutions on matrix units, all three directions, against float64, and no less exact than a float32 sum in order
where that is promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cuda import tensor_conv, tensor_conv_weights
from tests.cpu.contractions import Case, Conv, conv, gradient, program
from tests.cpu.test_strategies import with_epilogue
from tests.gpu.products import Problem
from tests.gpu.tensor_cases import in_bf16
from tests.gpu.test_contractions import run_products

pytestmark = pytest.mark.gpu

SHAPES = [
    Conv(32, 16, 16, 32, 32, pad=1),
    Conv(5, 64, 64, 8, 8, pad=1),
    Conv(3, 32, 40, 13, 9, (3, 3), stride=(2, 2), pad=1),
    Conv(9, 16, 32, 32, 30, stride=(2, 2), pad=1),
    Conv(7, 70, 9, 8, 11, (3, 2), stride=(1, 2), pad=2),
    Conv(2, 130, 33, 7, 7, pad=1),
    Conv(3, 17, 70, 30, 31, (2, 3)),
    Conv(2, 20, 40, 16, 150, (3, 3), pad=1),
    Conv(2, 24, 12, 20, 17, (5, 5), pad=2),
    Conv(3, 16, 40, 20, 18, (4, 6), pad=2),
    Conv(4, 3, 64, 32, 32, (7, 7), stride=(2, 2), pad=3),
    Conv(2, 18, 20, 19, 21, (3, 3), pad=2, dilate=2),
    Conv(70, 32, 48, 4, 4, (3, 3), pad=1),
]


def problems(shapes: list[Conv]) -> list[Problem]:
    """All three directions."""
    forward = [conv(c) for c in shapes]
    return [p for f in forward for p in (f, gradient(*f, 0), gradient(*f, 1))]


def cases_of(kind: str, shapes: list[Conv]) -> list[Case]:
    """Those that a kind takes."""
    names = frozenset({f"{tensor_conv.NAME}_{kind}", f"{tensor_conv_weights.NAME}_{kind}"})
    found = [in_bf16(p) if kind == "stored" else p for p in problems(shapes)]
    chosen = [(p, choose(*p, 0, 4, names)[0]) for p in found]
    return [Case(*p, way, None) for p, way in chosen if way is not None]


@pytest.mark.parametrize(("kind", "unit"), [("float32", 1e-6), ("tf32", 3e-5), ("bf16", 5e-3), ("stored", 3e-6)])
def test_sums(kind: str, unit: float, tmp_path: Path) -> None:
    cases = cases_of(kind, SHAPES)
    assert len(cases) >= 28
    run_products(cases, DType.F32, unit, tmp_path)


def test_epilogues(tmp_path: Path) -> None:
    names = frozenset(
        s.name for s in (*tensor_conv.STRATEGIES, *tensor_conv_weights.STRATEGIES) if s.products == "float32"
    )
    image = Conv(20, 8, 18, 6, 7, pad=1)
    texts = [
        with_epilogue(conv(image), "relu(x0 + x1) + x2", ("b", (1,)), ("q", (0, 1, 2, 3))),
        with_epilogue(conv(image), "x0 * x1 + x2", ("p", (3,)), ("q", (1, 2))),
        with_epilogue(gradient(*conv(image), 0), "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3))),
        with_epilogue(gradient(*conv(image), 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3))),
    ]
    cases = [Case(*problem, choose(*problem, 0, 4, names)[0], after) for problem, after in texts]
    assert all(c.choice is not None for c in cases)
    run_products(cases, DType.F32, 1e-6, tmp_path)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("channels", [8, 16, 64, 130])
def test_float32_is_no_less_exact_than_a_sum_in_order(channels: int, positive: bool, tmp_path: Path) -> None:
    cases = cases_of("float32", [Conv(4, channels, 16, 8, 8, pad=1)])
    assert len(cases) == 3
    merged, backend = merge(program(cases, DType.F32, True)), CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    rng = np.random.default_rng(channels)
    for number, case in enumerate(cases):
        for name in case.node.ins:
            x = rng.standard_normal(case.tensors[name].shape).astype(np.float32)
            instance.write(f"{number}.{name}", abs(x) if positive else x)
    instance.run("train", 1, 1)
    for number, case in enumerate(cases):
        x, w = (instance.read(f"{number}.{n}").reshape(case.tensors[n].shape) for n in case.node.ins)
        exact, ordered = (sums(case, x.astype(t), w.astype(t)) for t in (np.float64, np.float32))
        found = instance.read(f"{number}.y").reshape(exact.shape)
        error, limit = (np.linalg.norm(y - exact) / np.linalg.norm(exact) for y in (found, ordered))
        assert error <= limit, (error, limit, case.choice)
    instance.close()


def sums(case: Case, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The contraction with its terms added in order, in the type of the operands."""
    node, extents = case.node, dict(case.node.dims)
    out = [m.terms[0][0] for m in node.out_map]
    summed = [d for d in extents if d not in out]
    y = np.zeros(case.tensors[node.out.name].shape, x.dtype)
    grids = dict(zip(out, np.meshgrid(*(np.arange(extents[d]) for d in out), indexing="ij"), strict=True))
    for at in np.ndindex(*(extents[d] for d in summed)):
        index = grids | {d: np.asarray(i) for d, i in zip(summed, at, strict=True)}
        terms: list[np.ndarray] = []
        for values, maps in zip((x, w), node.in_maps, strict=True):
            places = np.broadcast_arrays(*(sum(c * index[d] for d, c in m.terms) + m.const for m in maps))
            inside = np.logical_and.reduce([(p >= 0) & (p < n) for p, n in zip(places, values.shape, strict=True)])
            clipped = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, values.shape, strict=True))
            terms.append(np.where(inside, values[clipped], 0).astype(x.dtype))
        y += terms[0] * terms[1]
    return y


def test_what_is_not_finite_stays_so(tmp_path: Path) -> None:
    (forward, *_) = cases_of("float32", [Conv(1, 16, 16, 8, 8, pad=1)])
    merged, backend = merge(program([forward], DType.F32, True)), CudaBackend()
    instance = backend.load(backend.build(merged, tmp_path, {}), merged, 1)
    image, weights = forward.node.ins if forward.tensors[forward.node.ins[0]].shape[0] == 1 else forward.node.ins[::-1]
    x = np.ones(forward.tensors[image].shape, np.float32)
    x[0, 3, 4, 4] = np.inf
    instance.write(f"0.{image}", x)
    instance.write(f"0.{weights}", np.ones(forward.tensors[weights].shape, np.float32))
    instance.run("train", 1, 1)
    y = instance.read("0.y").reshape(1, 16, 8, 8)
    touched = np.zeros((8, 8), bool)
    touched[3:6, 3:6] = True
    assert (~np.isfinite(y[0])).all(0)[touched].all() and np.isfinite(y[0][:, ~touched]).all()
    instance.close()
