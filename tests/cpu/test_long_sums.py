"""Sums of many float32 terms are as exact as short ones, in every form in which they are printed
(compiler/passes/program/long_sums.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.reference.load import ReferenceInstance
from backends.registry import backend
from compiler.ir.level2.program import Order
from compiler.passes.program.merge import merge
from compiler.verify.verify import verify_program
from tests.cpu.long_sums import FORMS, errors, program

CAPABILITIES = backend("cpu").capabilities


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
