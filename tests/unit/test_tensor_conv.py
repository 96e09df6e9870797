"""Convolutions on matrix units, without a GPU: what is taken, shared memory and threads, and compilation."""

from __future__ import annotations

import itertools

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from compiler.ir.level2.target import Target
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.cost.devices import H200, gpu
from compiler.strategies.cuda import tensor_conv, tensor_conv_weights
from compiler.strategies.cuda.direct_conv import Convolution, Window
from tests.cpu.contractions import Case, Conv, conv, gradient, program
from tests.gpu.products import Problem
from tests.gpu.tensor_cases import in_bf16

KINDS = frozenset(s.name for s in (*tensor_conv.STRATEGIES, *tensor_conv_weights.STRATEGIES))
FLOAT32 = frozenset({"tensor_conv_float32", "tensor_conv_weights_float32"})
WALKS = [
    Window(out, taps, step, tap, div)
    for out, taps, step, tap, div in itertools.product((1, 5, 28, 300), (1, 3, 7), (1, 2), (1, -1), (1, 2))
    if step == 1 or div == 1
]


def directions(c: Conv) -> list[Problem]:
    forward = conv(c)
    return [forward, gradient(*forward, 0), gradient(*forward, 1)]


def strategy(problem: Problem, names: frozenset[str] = KINDS) -> str:
    choice, _ = choose(*problem, 0, 4, names)
    return "" if choice is None else choice.strategy


def test_what_is_taken() -> None:
    weights = ["tensor_conv_weights_float32"]
    for taken in (
        Conv(8, 16, 16, 9, 9),
        Conv(8, 16, 16, 9, 9, stride=(2, 2)),
        Conv(8, 16, 16, 9, 9, (1, 1), stride=(2, 2)),
    ):
        found = [strategy(p, FLOAT32) for p in directions(taken)]
        assert found == ["tensor_conv_float32"] * 2 + weights, taken
    (_, back, _), (_, uneven, _) = (
        directions(Conv(8, 16, 16, 9, 9, stride=(3, 3))),
        directions(Conv(8, 16, 16, 9, 9, stride=(1, 2))),
    )
    assert [strategy(p, FLOAT32) for p in (back, uneven)] == ["", ""]
    assert not any(strategy(p) for p in directions(Conv(8, 6, 6, 9, 9, groups=3)))
    assert strategy(conv(Conv(8, 1, 16, 9, 9)), FLOAT32) == "", "nine terms are summed in order"
    assert all(strategy(in_bf16(p)).endswith("stored") for p in directions(Conv(8, 16, 16, 9, 9)))


@pytest.mark.parametrize("device", [H200, gpu("sm_86")], ids=lambda device: device.architecture)
@pytest.mark.parametrize("cols", WALKS)
def test_layouts_fit(cols: Window, device: Target) -> None:
    """Warps, and that what warps share divides among them; shared memory is what a block of the device may have."""
    for n, o, c, height in ((1, 1, 1, 1), (64, 16, 6, 10), (1000, 70, 130, 33)):
        rows = Window(height, cols.taps, cols.step, cols.tap, cols.div)
        x = Convolution(0, n, o, height, cols.out, c, rows, cols)
        for parts in (1, 3):
            found = tensor_conv.layout(x, parts, device)
            assert found is not None or device is not H200
            if found is None:
                continue
            tall, _ = tensor_conv.TILES[found.tile]
            assert found.rows % cols.div == found.strips % cols.div == 0
            alike = found.samples * found.rows * found.strips // cols.div**2
            warps = cols.div**2 * -(-alike // (tall * tensor_conv.PIXELS)) * found.blocks
            assert warps * found.deep <= tensor_conv.WARPS
            assert tensor_conv.shared_bytes(found.columns, parts, rows, cols) <= device.shared_block
            if cols.div == 1 and (weights := tensor_conv_weights.layout(x, parts, device)) is not None:
                tile = weights.outs, weights.channels
                size = tensor_conv_weights.shared_bytes(tile, weights.rows, parts, rows, cols)
                assert size <= device.shared_block
                assert rows.taps * tile[0] * tile[1] // tensor_conv_weights.SIDE**2 <= tensor_conv_weights.WARPS


def cases(kind: str, *shapes: Conv) -> list[Case]:
    names = frozenset({f"tensor_conv_{kind}", f"tensor_conv_weights_{kind}"})
    problems = [in_bf16(p) if kind == "stored" else p for c in shapes for p in directions(c)]
    return [Case(*p, choose(*p, 0, 4, names)[0], None) for p in problems]


def test_the_text_does_not_depend_on_sizes() -> None:
    def text(*shapes: Conv) -> str:
        return CudaBackend().emit(merge(program(cases("float32", *shapes), DType.F32, True)))

    small = Conv(8, 4, 3, 9, 9, pad=1)
    assert text(small, Conv(64, 16, 32, 20, 28, pad=1)) == text(
        small, Conv(64, 16, 16, 20, 28, pad=1), Conv(64, 16, 32, 20, 28, pad=1)
    )


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("kind", ["float32", "stored"])
def test_they_compile(arch: str, kind: str) -> None:
    made = cases(kind, Conv(8, 16, 16, 9, 9, stride=(2, 2)))
    text = emit(merge(program(made, DType.F32, True)))
    assert compile_text(text, "convolutions", False, arch).binary.read_bytes().startswith(b"\x7fELF")
