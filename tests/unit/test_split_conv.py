"""Convolutions of split factors, without a GPU: which are taken, their kernels, and compilation."""

from __future__ import annotations

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import Emitted, emit
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cuda.split import split_conv
from tests.cpu.contractions import Conv, conv, gradient, program
from tests.gpu.products import Problem
from tests.gpu.split_conv_cases import by_force

DIRECT = frozenset({"direct_conv", "implicit_gemm", "tensor_conv_float32", "tensor_conv_weights_float32"})


def image_gradient(c: Conv) -> Problem:
    return gradient(*conv(c), 0)


def chosen(problem: Problem) -> str:
    choice, reason = choose(*problem, 0, 4, DIRECT | {split_conv.NAME})
    assert choice is not None, reason
    return choice.strategy


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_gradients_of_strided_convolutions(kernel: tuple[int, int]) -> None:
    """They are taken where pixels with the same rests are equally many, and see enough terms."""
    pad = kernel[0] // 2
    large = Conv(32, 256, 512, 32, 32, kernel, (2, 2), pad)
    assert chosen(image_gradient(large)) == split_conv.NAME
    assert chosen(image_gradient(Conv(32, 256, 512, 33, 32, kernel, (2, 2), pad))) != split_conv.NAME
    assert chosen(image_gradient(Conv(32, 512, 64, 32, 32, kernel, (2, 2), pad))) != split_conv.NAME


def test_pixels_with_the_same_rests_have_a_kernel_of_their_own() -> None:
    """What all pixels see alike does not pay for rests."""
    for stride, named in ((1, False), (2, True)):
        problem = image_gradient(Conv(3, 24, 192, 8, 10, stride=(stride, stride), pad=1))
        kernels = {f.name for k in texts(problem).kernels for f in k.functions}
        assert any("_of_rests_" in name for name in kernels) == named, kernels


def texts(problem: Problem) -> Emitted:
    return emit(merge(program(list(by_force(problem)), DType.F32, True)))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_gradients_of_strided_convolutions_compile(kernel: tuple[int, int]) -> None:
    """For sm_90, and as PTX for later architectures, by other units."""
    emitted = texts(image_gradient(Conv(3, 24, 192, 8, 10, kernel, (2, 2), kernel[0] // 2)))
    assert compile_text(emitted, "convolutions", False, "sm_90").beside
