"""Convolutions of images whose channels come last, all three directions, by every shape of tiles with and without
splits, against float64."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.ir.space import DType
from compiler.strategies import choose
from compiler.strategies.cuda import stored_products, tensor_conv, tensor_conv_weights
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.cpu.test_strategies import with_epilogue
from tests.gpu.stored_conv_cases import (
    DEPTHWISE,
    DEPTHWISE_NAMES,
    GATHERED,
    PRODUCTS,
    STAGED,
    by_force,
    depthwise_cases,
    directions,
    last,
)
from tests.gpu.tensor_cases import stored_by_force
from tests.gpu.test_contractions import run_products

pytestmark = pytest.mark.gpu


def test_gathered_pixels(tmp_path: Path) -> None:
    cases = [case for p in directions(GATHERED) for case in by_force(p)]
    tiles = {dict(c.choice.columns)["s_tile"] for c in cases if c.choice is not None}
    across = ((False, False), (False, True), (True, True))
    assert tiles == {stored_products.number_of(n, *x) for n in range(3) for x in across}
    assert len(cases) > 60
    run_products(cases, DType.F32, 3e-6, tmp_path)


def test_epilogues(tmp_path: Path) -> None:
    forward = conv(Conv(3, 64, 72, 6, 9, pad=1))
    texts = []
    for problem, text, *operands in (
        (forward, "relu(x0 + x1) + x2", ("b", (3,)), ("q", (0, 1, 2, 3))),
        (gradient(*forward, 0), "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3))),
        (gradient(*forward, 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3))),
    ):
        moved, after = with_epilogue(last(problem), text, *operands)
        texts += by_force(moved, after)
    run_products(texts, DType.F32, 3e-6, tmp_path)


def test_staged_pixels(tmp_path: Path) -> None:
    """By tensor_conv and tensor_conv_weights."""
    names = frozenset({f"{tensor_conv.NAME}_stored", f"{tensor_conv_weights.NAME}_stored"})
    chosen = [(p, choose(*p, 0, 4, names)[0]) for p in directions(STAGED)]
    cases = [Case(*p, way, None) for p, way in chosen if way is not None]
    assert len(cases) >= 17
    run_products(cases, DType.F32, 3e-6, tmp_path)


def test_depthwise(tmp_path: Path) -> None:
    cases = depthwise_cases()
    assert len(cases) > 3 * len(DEPTHWISE)
    run_products(cases, DType.F32, 3e-6, tmp_path)


def test_epilogues_of_depthwise_convolutions(tmp_path: Path) -> None:
    forward = conv(Conv(3, 40, 40, 6, 9, pad=1, groups=40))
    cases = []
    for problem, text, *operands in (
        (forward, "relu(x0 + x1) + x2", ("b", (4,)), ("q", (0, 1, 2, 3, 4))),
        (gradient(*forward, 0), "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3, 4))),
        (gradient(*forward, 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3, 4))),
    ):
        moved, after = with_epilogue(last(problem), text, *operands)
        way = choose(*moved, 0, 4, DEPTHWISE_NAMES)[0]
        assert way is not None
        cases.append(Case(*moved, way, after))
    run_products(cases, DType.F32, 3e-6, tmp_path)


def test_windows_of_one_element(tmp_path: Path) -> None:
    """By stored_products, all three directions."""
    cases = [case for p in directions(PRODUCTS) for case in stored_by_force(p)]
    assert len(cases) > 20
    run_products(cases, DType.F32, 3e-6, tmp_path)
