"""Convolutions in groups of few channels on CUDA up to the machine code, without a GPU."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.contract import strategies
from backends.cuda.kernels.launch_geometry import calls_of
from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cuda import grouped_conv
from tests.cpu.contractions import Conv, conv, gradient, program
from tests.gpu.products import GROUPED, chosen, grouped_cases
from tests.unit.test_implicit_gemm import work

DEPTHWISE = Conv(64, 96, 96, 48, 48, (3, 3), stride=(2, 2), pad=1, groups=96)


def taken(c: Conv) -> list[str]:
    """The strategies of the rules, forwards, to the image and to the weights."""
    forward = conv(c)
    found = [choose(*p, 0, 4, strategies())[0] for p in (forward, gradient(*forward, 0), gradient(*forward, 1))]
    return [x.strategy for x in found if x is not None]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_depthwise_convolutions_are_summed_in_registers(kernel: int, stride: int) -> None:
    c = replace(DEPTHWISE, kernel=(kernel, kernel), pad=kernel // 2, stride=(stride, stride))
    assert taken(c) == [grouped_conv.NAME, grouped_conv.NAME, grouped_conv.WEIGHTS]


def test_many_channels_of_a_group_are_products() -> None:
    """Each element is read for many sums."""
    assert not GROUPED & {*taken(Conv(64, 256, 256, 14, 14, (3, 3), pad=1, groups=2))}


@pytest.mark.parametrize(
    "c", [replace(DEPTHWISE, groups=1), replace(DEPTHWISE, kernel=(9, 9), pad=4)], ids=["no groups", "wide"]
)
def test_what_is_left_to_others(c: Conv) -> None:
    assert not GROUPED & {*taken(c)}


def test_the_text_does_not_depend_on_sizes() -> None:
    def text(*sizes: Conv) -> str:
        problems = [p for c in sizes for p in (conv(c), gradient(*conv(c), 0), gradient(*conv(c), 1))]
        cases = [chosen(p, DType.F32, None, GROUPED) for p in problems]
        return CudaBackend().emit(merge(program(cases, DType.F32, True)))

    assert text(DEPTHWISE) == text(DEPTHWISE, replace(DEPTHWISE, batch=3, channels=32, filters=64, groups=32, rows=15))


def test_blocks_cover_pixels_and_share_sums() -> None:
    forward = conv(DEPTHWISE)
    problems = [forward, gradient(*forward, 1)]
    merged = merge(program([chosen(p, DType.F32, None, GROUPED) for p in problems], DType.F32, True))
    grids, memory = [], []
    for w in work(merged):
        (call,) = calls_of(w)
        grids.append(call.grid)
        memory.append(call.memory)
    points = grouped_conv.points(64, 24, 24)
    splits = grouped_conv.shares(96, points)
    assert splits > 1
    assert sorted(grids) == sorted([96 * -(-points // grouped_conv.THREADS), 96 * splits])
    assert sorted(m > 0 for m in memory) == [False, True]


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("real", [DType.F32, DType.F64])
def test_they_compile(real: DType) -> None:
    merged = merge(program(grouped_cases(real), real, True))
    assert compile_text(emit(merged), "grouped", False, "sm_90").binary.read_bytes().startswith(b"\x7fELF")
    names = {*re.findall(r"__global__.* (grouped_conv\w*)\(", CudaBackend().emit(merged))}
    assert "grouped_conv_3_step_1_tap_1_div_2" in names
    assert "grouped_conv_weights_7_step_1_tap_1" in names
