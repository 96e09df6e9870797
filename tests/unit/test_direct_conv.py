"""Convolutions accumulated in registers and matmul, without a GPU: supported contractions, coverage by blocks, shared
memory limits, and compilation."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from backends.cuda.kernels.launch_geometry import calls_of
from backends.cuda.run.backend import CudaBackend
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.choice import Problem, product
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import direct_conv, direct_conv_weights, matmul
from compiler.strategies.cuda.direct_conv import BUFFER_BYTES, OUTS, STRIP, THREADS, Window, line_pitch, rounded_pitch
from tests.cpu.contractions import Conv, conv, dense, gradient, program
from tests.gpu.products import DIRECT, batched_product, chosen, direct_epilogue_cases
from tests.unit.test_implicit_gemm import work

ALL = DIRECT | {"implicit_gemm"}
WINDOWS = [
    Window(out, taps, step, tap)
    for out, taps, step, tap in itertools.product((1, 5, 28, 300), (2, 3, 5, 11), (1, 2), (1, -1, 2))
]


def strategy(problem: object) -> str:
    choice, reason = choose(*problem, 0, 4, ALL)  # type: ignore[misc]
    assert choice is not None, reason
    return choice.strategy


def test_what_is_taken() -> None:
    plain, strided = conv(Conv(64, 6, 16, 14, 14, (5, 5))), conv(Conv(64, 6, 16, 14, 14, (5, 5), stride=(2, 2)))
    assert [strategy(p) for p in (plain, gradient(*plain, 0))] == ["direct_conv", "direct_conv"]
    assert [strategy(p) for p in (strided, gradient(*strided, 0))] == ["direct_conv", "implicit_gemm"]
    assert [strategy(gradient(*p, 1)) for p in (plain, strided)] == ["direct_conv_weights"] * 2
    point = conv(Conv(8, 6, 6, 9, 9, (1, 1)))
    assert {strategy(p) for p in (point, gradient(*point, 0), gradient(*point, 1))} == {"implicit_gemm"}
    layer = dense(64, 400, 120)
    assert {strategy(p) for p in (layer, gradient(*layer, 0), gradient(*layer, 1))} == {"matmul"}
    assert strategy(batched_product(False)) == "implicit_gemm"


@pytest.mark.parametrize("real_bytes", [4, 8])
@pytest.mark.parametrize("cols", WINDOWS)
def test_layouts_fit(cols: Window, real_bytes: int) -> None:
    """Threads, shared memory while operands are staged, and while shares of the channels are joined."""
    words = BUFFER_BYTES // real_bytes
    for n, o, c, height in ((1, 1, 1, 1), (64, 16, 6, 10), (1000, 70, 130, 33)):
        rows = Window(height, cols.taps, cols.step, cols.tap)
        x = direct_conv.layout(n, o, c, rows, cols, real_bytes)
        assert x is not None
        threads = x.strips * x.rows * x.samples * x.blocks
        outs = OUTS[x.tile] * x.blocks
        assert threads * x.deep <= THREADS and threads * STRIP * OUTS[x.tile] <= words
        plane = x.samples * rows.span(x.rows) * line_pitch(x.strips, cols)
        assert x.channels * (plane + rows.taps * cols.taps * outs) <= words and 1 <= x.channels <= c
        y = direct_conv_weights.layout(n, o, c, rows, cols, real_bytes)
        if y is None:  # a row that does not fit
            assert cols.out == 300
            continue
        each = direct_conv_weights.outs_of(cols.taps)
        taps, strips = rows.taps * y.channels * y.blocks, -(-cols.out // STRIP)
        assert taps * y.shares <= THREADS and taps * each * cols.taps <= words
        staged = y.blocks * each * y.rows * rounded_pitch(STRIP * strips)
        assert staged + y.channels * rows.span(y.rows) * line_pitch(strips, cols) <= words
        half = 1 << (y.shares - 1).bit_length() - 1 if y.shares > 1 else 0
        assert half * taps * each * cols.taps <= words


@pytest.mark.parametrize(
    ("n", "o", "c", "out", "measured"),
    [
        (64, 16, 6, 10, (1, 3, 10, 17, 33)),
        (64, 6, 1, 28, (1, 1, 14, 51, 128)),
        (1024, 16, 6, 10, (1, 6, 10, 8, 198)),
        (1024, 6, 1, 28, (1, 1, 28, 51, 396)),
    ],
)
def test_layouts_of_weights_that_are_fast_on_an_h200(
    n: int, o: int, c: int, out: int, measured: tuple[int, ...]
) -> None:
    """Of the ways that were measured for LeNet-5 the fastest ones, or within 3 % of them (docs/gpu-validation.md)."""
    window = Window(out, 5, 1, 1)
    x = direct_conv_weights.layout(n, o, c, window, replace(window, wide=2), 4)
    assert x is not None and (x.blocks, x.channels, x.rows, x.shares, x.splits) == measured


@pytest.mark.parametrize(("outputs", "each"), [(6, 6), (12, 6), (16, 8), (4, 4)])
def test_threads_sum_as_many_outputs_as_there_are(outputs: int, each: int) -> None:
    window = Window(14, 5, 1, -1)
    x = direct_conv.layout(1024, outputs, 16, window, replace(window, wide=2), 4)
    assert x is not None and OUTS[x.tile] == each


def test_short_gradients_of_weights_leave_room_for_what_runs_beside_them() -> None:
    """ResNet-20 at batch 32: one block on each processor, though three are faster where nothing else runs."""
    window = Window(32, 3, 1, 1)
    x = direct_conv_weights.layout(32, 16, 16, window, window, 4)
    assert x is not None
    assert direct_conv_weights.tiles(x.blocks, x.channels, 3, 16, 16) * x.splits <= H200.processors


def test_aligned_elements_are_copied_together() -> None:
    """By where the first tap of the first output is, whichever way the window goes, and by the length of a line."""
    found = []
    for pad, cols, kernel in ((2, 28, 5), (0, 14, 5), (1, 32, 3), (0, 32, 3), (2, 27, 5)):
        forward = conv(Conv(8, 3, 8, cols, cols, (kernel, kernel), pad=pad))
        for problem in (forward, gradient(*forward, 0)):
            p = product(*problem, 0, 4, H200)
            assert isinstance(p, Problem)
            x = direct_conv.convolution(p, 0)
            assert isinstance(x, direct_conv.Convolution)
            found.append(x.cols.wide)
    assert found == [2, 2, 2, 2, 1, 1, 4, 2, 1, 1]


def test_blocks_have_memory_for_their_sums() -> None:
    forward = conv(Conv(70, 6, 40, 20, 20, (5, 5)))
    merged = merge(program([chosen(gradient(*forward, 1), DType.F32, None, DIRECT)], DType.F32, True))
    (w,) = work(merged)
    (call,) = calls_of(w)
    columns = {n: int(w.column(f"s_{n}")[0]) for n in ("splits", "blocks", "channels")}
    tiles = direct_conv_weights.tiles(columns["blocks"], columns["channels"], 5, 40, 6)
    elements = direct_conv_weights.elements_of(columns["blocks"], columns["channels"], 5, 5)
    counters, sums = direct_conv_weights.words_of(columns["splits"], elements)
    assert columns["splits"] > 1 and call.grid == tiles * columns["splits"]
    assert call.places is not None
    assert 4 * (int(call.places[0]) + tiles * (counters + sums)) <= call.memory


@pytest.mark.parametrize("sizes", [(1, 1, 1), (64, 120, 400), (1024, 400, 120), (5, 7, 60_000), (4096, 4096, 4096)])
def test_matmul_covers_k(sizes: tuple[int, int, int]) -> None:
    x = matmul.tiling(*sizes)
    assert x.depth % matmul.step_of(x.tile) == 0
    assert (x.splits - 1) * x.depth < sizes[2] <= x.splits * x.depth


def test_small_products_have_small_tiles_and_no_splits() -> None:
    """Joining the sums of blocks takes longer than all terms of a small tile."""
    sizes = {n: matmul.TILES[matmul.tiling(*n).tile] for n in ((64, 120, 400), (1024, 120, 400), (4096, 4096, 4096))}
    assert list(sizes.values()) == [16, 32, 64]
    assert matmul.tiling(64, 120, 400).splits == 1 and matmul.tiling(10, 84, 1024).splits > 1


def test_the_text_does_not_depend_on_sizes() -> None:
    def text(*sizes: Conv) -> str:
        forwards = [conv(c) for c in sizes]
        cases = [chosen(p, DType.F32, None, DIRECT) for f in forwards for p in (f, gradient(*f, 0), gradient(*f, 1))]
        return CudaBackend().emit(merge(program(cases, DType.F32, True)))

    small = Conv(8, 1, 3, 9, 9, pad=1)
    assert text(small) == text(small, Conv(64, 16, 32, 20, 28, pad=1), Conv(500, 2, 5, 40, 40, pad=1))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_products_compile(arch: str) -> None:
    cases = [x for x in direct_epilogue_cases(DType.F64) if x.choice is not None and x.choice.strategy in DIRECT]
    text = emit(merge(program(cases, DType.F64, True)))
    assert {x.choice.strategy for x in cases if x.choice} == DIRECT
    assert compile_text(text, "products", False, arch).binary.read_bytes().startswith(b"\x7fELF")
