"""Depthwise convolutions of images whose channels come last on CUDA, up to the machine code, without a GPU."""

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
from compiler.strategies.cuda import depthwise_conv
from tests.cpu.contractions import Case, Conv, program
from tests.gpu.stored_conv_cases import DEPTHWISE_NAMES, depthwise_cases, directions
from tests.unit.test_implicit_gemm import work

LARGE = Conv(64, 96, 96, 48, 48, (3, 3), stride=(2, 2), pad=1, groups=96)


def cases(*sizes: Conv) -> list[Case]:
    """By the rules, forwards, to the image and to the weights."""
    return [Case(*p, choose(*p, 0, 4, strategies())[0], None) for p in directions([*sizes])]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_they_are_taken(kernel: int, stride: int) -> None:
    found = cases(replace(LARGE, kernel=(kernel, kernel), pad=kernel // 2, stride=(stride, stride)))
    names = [x.choice.strategy for x in found if x.choice is not None]
    assert names == [depthwise_conv.NAME, depthwise_conv.NAME, depthwise_conv.WEIGHTS]


@pytest.mark.parametrize(
    "c",
    [replace(LARGE, groups=48), replace(LARGE, channels=92, filters=92, groups=92)],
    ids=["of two", "not in eights"],
)
def test_what_is_left_to_others(c: Conv) -> None:
    assert not DEPTHWISE_NAMES & {x.choice.strategy for x in cases(c) if x.choice is not None}


def test_the_text_does_not_depend_on_sizes() -> None:
    other = replace(LARGE, batch=3, channels=32, filters=32, groups=32, rows=15)
    one, both = (CudaBackend().emit(merge(program(cases(*x), DType.F32, True))) for x in ([LARGE], [LARGE, other]))
    assert one == both


def test_blocks_cover_pixels_and_share_sums() -> None:
    merged = merge(program([x for n, x in enumerate(cases(LARGE)) if n != 1], DType.F32, True))
    found = [(call.grid, call.memory > 0) for w in work(merged) for call in calls_of(w)]
    pixels = 64 * 24 * 24
    assert sorted(found)[-1] == (pixels // depthwise_conv.PIXELS * 3, False)  # 32 channels a block: none is empty
    assert sorted(found)[0][1] and sorted(found)[0][0] % 3 == 0


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
def test_they_compile() -> None:
    merged = merge(program(depthwise_cases(), DType.F32, True))
    assert compile_text(emit(merged), "depthwise", False, "sm_90").binary.read_bytes().startswith(b"\x7fELF")
    names = {*re.findall(r"__global__.* (depthwise_conv\w*)\(", CudaBackend().emit(merged))}
    assert "depthwise_conv_3_step_1_tap_1_div_2" in names
    assert "depthwise_conv_weights_7_step_2_by_1_tap_1" in names
