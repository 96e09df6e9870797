"""Sums of many float32 terms are as exact as short ones, in every form in which they are printed
(compiler/passes/program/long_sums.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from backends.reference.load import ReferenceInstance
from backends.registry import backend
from compiler.ir.level2.program import Order
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import ROWS
from compiler.strategies.choice import product
from compiler.strategies.cpu import lanes_conv_weight_gradient, rows_conv_weight_gradient, rows_product
from compiler.strategies.cpu.winograd import winograd_weight_gradient
from compiler.verify.verify import verify_program
from tests.cpu import contractions
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.cpu.long_sums import FORMS, errors, program

CAPABILITIES = backend("cpu").capabilities
STRATEGIES: Final = {
    m.NAME: m.STRATEGY
    for m in (rows_product, rows_conv_weight_gradient, lanes_conv_weight_gradient, winograd_weight_gradient)
}


@pytest.mark.parametrize("order", [Order.REPRODUCIBLE, Order.BITWISE])
def test_long_sums_are_exact(tmp_path: Path, cc: list[str], not_optimized: None, order: Order) -> None:
    merged = merge(program(order, CAPABILITIES))
    cpu = backend("cpu")
    here = cpu.load(cpu.build(merged, tmp_path, {}), merged, 1)
    here.run("step", 1, 1)
    assert max(errors(here).values()) < 4e-6
    if order is Order.BITWISE:
        there = ReferenceInstance(merged, 1)
        there.run("step", 1, 1)
        for name in (f"{form}.{n}" for form in FORMS for n in "yz"):
            np.testing.assert_array_equal(here.read(name), there.read(name), err_msg=name)


def test_sums_at_once_are_not() -> None:
    """What the pass is for; float64 and threads that share a sum need no blocks."""
    made = program(Order.BITWISE, CAPABILITIES)
    verify_program(made)
    assert all(k.body.blocks for k in made.kernels)
    plain = replace(made, kernels=tuple(replace(k, body=replace(k.body, blocks=None)) for k in made.kernels))
    found = ReferenceInstance(merge(plain), 1)
    found.run("step", 1, 1)
    assert min(errors(found).values()) > 2e-5
    threads = program(Order.FAST, replace(CAPABILITIES, rows=True))
    assert not any(k.body.blocks for k in threads.kernels)


@pytest.mark.parametrize("name", STRATEGIES)
def test_gradients_of_weights_are(name: str, tmp_path: Path, cc: list[str], not_optimized: None) -> None:
    """Of 200,000 equal terms, which their strategies add up block by block."""
    lanes = 0 if name in ROWS else 16
    node, tensors = gradient(*conv(Conv(16, 1, 1, 114, 114, (3, 3))), 1)
    choice = STRATEGIES[name].match(product(node, tensors, lanes, 4))
    merged = merge(contractions.program([Case(node, tensors, choice)], DType.F32, row_major=not lanes))
    here = backend("cpu").load(backend("cpu").build(merged, tmp_path, {}), merged, 1)
    for array in merged.arrays:
        here.write(array.name, np.full(array.physical_size, 0.3 if array.name == "0.x" else 1))
    here.run("train", 1, 1)
    assert abs(here.read("0.y") / (np.float64(np.float32(0.3)) * 16 * 112 * 112) - 1).max() < 2e-5
