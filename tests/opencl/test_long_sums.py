"""Long sums on an OpenCL device (that of conftest.py) are as exact as short ones; in the order `bitwise` they have the
bits of the reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.opencl.backend import OpenclBackend
from backends.reference.load import ReferenceInstance
from compiler.ir.level2.program import Order
from compiler.passes.program.merge import merge
from tests.cpu.long_sums import FORMS, errors, program


@pytest.mark.usefixtures("device")
def test_long_sums_have_the_bits_of_the_reference(tmp_path: Path) -> None:
    target = OpenclBackend()
    merged = merge(program(Order.BITWISE, target.capabilities))
    here, there = target.load(target.build(merged, tmp_path, {}), merged, 1), ReferenceInstance(merged, 1)
    for instance in (here, there):
        instance.run("step", 1, 1)
    assert max(errors(here).values()) < 4e-6
    for name in (f"{form}.{n}" for form in FORMS for n in "yz"):
        np.testing.assert_array_equal(here.read(name), there.read(name), err_msg=name)
