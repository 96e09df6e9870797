"""Convolutions by Fourier transforms up to the machine code, without a GPU: which are taken, how they are cut, that
blocks and workspace cover them, and compilation."""

from __future__ import annotations

import numpy as np
import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import Emitted, emit
from backends.cuda.kernels.launch_geometry import calls_of
from compiler.ir.level0.model import Numerics
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import choose
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cuda import fft_conv
from compiler.strategies.cuda.fft_conv import NAME, POINTS, axis, frequencies, way_of
from compiler.strategies.permissions import permitted
from tests.cpu.contractions import Conv, conv, gradient, program
from tests.gpu.fft_cases import SHAPES, by_force, directions, fft_cases
from tests.unit.test_implicit_gemm import work

ALL = frozenset({"matmul", "implicit_gemm", "direct_conv", "direct_conv_weights", NAME})
LARGE = Conv(128, 64, 128, 64, 64, (9, 9)), Conv(128, 384, 384, 13, 13), Conv(128, 3, 96, 128, 128, (11, 11))


def strategy(problem: tuple) -> str:  # type: ignore[type-arg]
    choice, reason = choose(*problem, 0, 4, ALL)
    assert choice is not None, reason
    return choice.strategy


def refused(problem: tuple, real_bytes: int = 4) -> str:  # type: ignore[type-arg]
    with pytest.raises(NotApplicable) as why:
        fft_conv.choices(product(*problem, 0, real_bytes))
    return str(why.value)


def test_large_convolutions_take_it_in_all_directions() -> None:
    assert {strategy(p) for shape in LARGE for p in directions(shape)} == {NAME}


def test_others_do_not() -> None:
    for shape in (Conv(64, 6, 16, 14, 14, (5, 5)), Conv(32, 16, 16, 32, 32, pad=1), Conv(64, 256, 64, 14, 14, (1, 1))):
        assert NAME not in {strategy(p) for p in directions(shape)}
    strided = conv(Conv(64, 64, 64, 32, 32, (5, 5), stride=(2, 2)))
    assert "steps" in refused(strided) and "steps" in refused(conv(Conv(64, 64, 64, 32, 32, (5, 5), dilate=2)))
    assert "groups" in refused(conv(Conv(64, 64, 64, 32, 32, (5, 5), groups=2)))
    assert "few terms" in refused(conv(Conv(64, 3, 64, 32, 32)))
    assert "float32" in refused(conv(LARGE[0]), 8)
    assert "memory" in refused(conv(Conv(128, 256, 256, 128, 128, (5, 5))))
    assert "32-bit" in refused(conv(Conv(4096, 64, 64, 128, 128, (5, 5))))


def test_a_gradient_that_few_blocks_would_sum() -> None:
    """Of the weights of one channel by six outputs: 32 blocks took 120 us on an H200, direct sums 32."""
    weights = gradient(*conv(Conv(1024, 1, 6, 28, 28, (5, 5), pad=2)), 1)
    assert strategy(weights) == "direct_conv_weights"


@pytest.mark.parametrize("products", ["exact", "float32", "tf32", "bf16"])
def test_it_is_permitted_where_products_may_be_computed_otherwise(products: str) -> None:
    found = permitted(Capabilities("cuda", 0, False, ALL), Numerics(products=products)).strategies
    assert (NAME in found) == (products != "exact")


@pytest.mark.parametrize("points", POINTS)
def test_tiles_cover_every_output(points: int) -> None:
    """A result of a circular sum is that of the convolution: what wraps around, or lies behind the tile, is 0."""
    rng = np.random.default_rng(points)
    for _ in range(300):
        taps, out, pad = int(rng.integers(2, 12)), int(rng.integers(2, 100)), int(rng.integers(0, 12))
        extent = max(1, out + taps - 1 - int(rng.integers(0, 2 * pad + 1)))
        image, weights = rng.integers(1, 9, extent), rng.integers(1, 9, taps)
        found = axis(points, taps, out, extent, -pad)
        if found is None:
            assert taps > points
            continue
        at = np.arange(-pad, out + taps - 1 - pad)
        padded = np.where((at >= 0) & (at < extent), image[np.clip(at, 0, extent - 1)], 0)
        exact = [int((padded[i : i + taps] * weights).sum()) for i in range(out)]
        sums = []
        for tile in range(found.tiles):
            here = found.start + tile * found.step + np.arange(points)
            cut = np.where((here >= 0) & (here < extent), image[np.clip(here, 0, extent - 1)], 0)
            sums += [int((np.roll(cut, -i)[:taps] * weights).sum()) for i in range(found.step)]
        assert sums[:out] == exact


def test_every_way_has_blocks_and_a_workspace() -> None:
    for shape in (*SHAPES, *LARGE):
        cases = fft_cases(shape)
        merged = merge(program(cases, DType.F32, True))
        sizes = {a.name: a.physical_size for a in merged.arrays}
        for w in work(merged):
            for call in calls_of(w):
                assert call.grid > 0 and call.shared <= 227 << 10 and call.jobs is None
        for number, case in enumerate(cases):
            assert case.choice is not None
            assert sizes[f"{number}.workspace"] == case.choice.workspace == case.choice.scratch_bytes // 4
            assert case.choice.workspace >= 4 * frequencies(way_of(case.choice.literals).points)


def test_sums_over_many_samples_are_split() -> None:
    splits = {dict(c.choice.columns)["s_splits"] for s in LARGE for c in fft_cases(s) if c.choice}
    assert 1 in splits and len(splits) > 1


def test_the_workspace_is_planned() -> None:
    """It is an array of the program, so it shares memory with others, and launches that use it are ordered."""
    case = next(by_force(conv(LARGE[1])))
    merged = merge(program([case], DType.F32, True))
    (template,) = merged.templates
    assert "workspace" in [f.name for f in template.formals]


def texts() -> Emitted:
    """Every kernel, the ones of few channels or outputs for three of them."""
    return emit(merge(program(fft_cases(SHAPES[2]), DType.F32, True)))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("nvrtc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_transforms_compile(arch: str) -> None:
    """Only the products of spectra are on matrix units, by warpgroups for sm_90."""
    text = texts()
    assert [part.name for part in text.parts if part.tensor] == ["fft_product"]
    found = compile_text(text, "transforms", False, arch)
    for binary in (found.binary, *found.beside):
        assert binary.read_bytes().startswith(b"\x7fELF")
        assert "wgmma" not in binary.with_suffix(".ptx").read_text(encoding="utf-8")


def test_the_text_does_not_depend_on_sizes() -> None:
    def text(*shapes: Conv) -> str:
        cases = [c for s in shapes for c in fft_cases(s) if c.choice and dict(c.choice.literals)["points"] == 32]
        return emit(merge(program(cases, DType.F32, True))).text

    small = Conv(3, 21, 23, 20, 23, (5, 5), pad=1)
    assert text(small) == text(small, Conv(128, 64, 128, 40, 50, (9, 9), pad=3))


def test_a_window_larger_than_a_tile_is_left_to_others() -> None:
    problem = gradient(*conv(Conv(8, 30, 30, 90, 90, (70, 70))), 0)
    assert "window" in refused(problem)
