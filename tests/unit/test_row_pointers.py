"""Long subscripts in emitted C: what is the same in a loop is added to a pointer before it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from compiler.strategies.cost.devices import CORE

LONG = r"(?<!&)\b\w+_p_(?:\d+_)?\[[^\]\[]*\+[^\]\[]*\+[^\]\[]*\+[^\]\[]*\]"
"""A load or a store whose subscript has three additions."""


def kernels(root: Path, name: str) -> str:
    capabilities = replace(CpuBackend().capabilities, device=CORE)
    text = CpuBackend().emit(lower(load_model(root / "models" / f"{name}.yaml"), capabilities).merged)
    return text[text.index("/* ==== kernels") :]


@pytest.mark.parametrize("name", ["lenet5", "lstm", "transformer"])
def test_subscripts_in_loops_over_lanes_are_short(root: Path, name: str) -> None:
    text = kernels(root, name)
    assert re.findall(LONG, text) == []
    assert text.count("_row_ = ") >= 10


def test_a_window_is_a_pointer_in_the_loop_that_moves_it(root: Path) -> None:
    pool = kernels(root, "lenet5").partition("k8_maximum_over_r_s)")[2].partition("\n}")[0]
    assert "acc[lane] = nl_max_f32(acc[lane], x_row_[lane]);" in pool
    assert (
        pool.index("s < 2; s++") < pool.index("x_row_ = x_p_ + n * x_by_n_ + c * x_by_c_") < pool.index("x_row_[lane]")
    )


def test_elements_under_a_condition_are_chosen_for_all_lanes_at_once(root: Path) -> None:
    """The gradient of a pooling: what lies outside of the image reads zeros; the loop over lanes has no branch."""
    spread = kernels(root, "lenet5").partition("k23_sum_over_r_s)")[2].partition("\n}")[0]
    assert spread.count("static const real fill[16]") == 1
    assert "? y_grad_p_ + n * y_grad_by_n_ + c * y_grad_by_c_" in spread
