"""Choices of the rules for a core, where candidates were measured that differ by more than a tenth: what is beside the
sums decides (compiler/strategies/cost/cpu.py)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.ir.level1.graph import Contract, Tensor
from compiler.strategies import choose
from compiler.strategies.choice import product
from compiler.strategies.cost.devices import CORE, MEASURED_CORE
from compiler.strategies.cost.tiles import WHOLE_PART
from compiler.strategies.cpu import lanes_conv_weight_gradient, rows_conv_weight_gradient
from compiler.strategies.layout import row_major
from compiler.strategies.variants import identity
from tests.cpu.contractions import Conv, conv, dense, gradient

Problem = tuple[Contract, dict[str, Tensor]]
CAPABILITIES = replace(CpuBackend().capabilities, device=CORE)
ONE = (1, 1)
FORWARD, INPUT, WEIGHTS = None, 0, 1
ROWS = [
    (conv(Conv(4, 64, 64, 16, 16, stride=(2, 2))), FORWARD, "rows_product"),  # lines of steps, copied one by one
    (conv(Conv(1, 33, 8, 28, 28, stride=(2, 2))), FORWARD, "rows_product"),
    (conv(Conv(1, 64, 128, 56, 56, stride=(2, 2), pad=1)), FORWARD, "rows_conv"),
    (conv(Conv(3, 64, 3, 100, 100, ONE)), FORWARD, "rows_product"),  # the image lies far
    (conv(Conv(8, 4, 13, 17, 17, pad=1)), INPUT, "turned_rows_conv"),
    (conv(Conv(4, 96, 96, 9, 9, pad=1, groups=96)), INPUT, "rows_depthwise"),
    (conv(Conv(1, 144, 144, 56, 56, stride=(2, 2), pad=1, groups=144)), INPUT, "rows_depthwise"),  # 176 us for 580
    (conv(Conv(1, 96, 96, 56, 56, (7, 7), pad=3, groups=96)), FORWARD, "rows_depthwise"),  # 399 us for 1257
    (conv(Conv(1, 960, 960, 7, 7, pad=1, groups=960)), FORWARD, "rows_conv"),  # 79 us; 112 channel by channel
    (conv(Conv(4, 1, 32, 28, 28, pad=1)), FORWARD, "rows_conv"),  # 24 us, 31
    (conv(Conv(8, 128, 32, 56, 5, ONE)), INPUT, "rows_conv"),  # short runs of results
    (dense(8, 1000, 300), FORWARD, "rows_dense"),  # terms behind whole vectors are one more
    (dense(1, 1000, 300), WEIGHTS, "nest"),  # few terms
    (dense(8, 512, 512), WEIGHTS, "rows_product"),
    (conv(Conv(1, 64, 64, 56, 56, pad=1)), WEIGHTS, "bordered_rows_product"),  # windows of pixels are no vectors
    (conv(Conv(1, 3, 32, 224, 224, stride=(2, 2), pad=1)), WEIGHTS, "rows_conv_weight_gradient vector=1 s_tile=0"),
    (conv(Conv(4, 128, 256, 28, 28, pad=1)), INPUT, "turned_winograd_rows s_strip=2 s_tile=6"),  # not one row of tiles
    (conv(Conv(4, 16, 32, 14, 14, pad=1)), WEIGHTS, "bordered_rows_product"),
    (conv(Conv(4, 3, 96, 227, 227, (11, 11), (4, 4))), WEIGHTS, "rows_product"),  # 8.5 ms, 15.8 with a border
    (conv(Conv(1, 39, 546, 14, 14)), INPUT, "turned_winograd_rows"),  # 950 us, 1159
    (conv(Conv(1, 96, 96, 56, 56, (7, 7), pad=3, groups=96)), WEIGHTS, "exchanged_rows_depthwise"),  # 0.92 ms, 0.96
    (conv(Conv(1, 240, 240, 28, 28, (5, 5), pad=2, groups=240)), WEIGHTS, "rows_conv_weight_gradient"),
    (conv(Conv(4, 64, 64, 1, 250, (1, 5), pad=2)), FORWARD, "rows_conv"),  # a line is an image of one row
    (conv(Conv(4, 64, 64, 1, 250, (1, 5), pad=2)), WEIGHTS, "bordered_rows_product"),
    (dense(96, 3546, 151), FORWARD, "rows_product"),  # 747 us, 1256: rows that are not whole vectors
    (dense(96, 512, 24), FORWARD, "rows_dense"),
    (dense(16, 3000, 2929), FORWARD, "rows_dense"),  # 3.3 ms, 4.6: weights that lie far
    (conv(Conv(1, 106, 11, 36, 36, (7, 7), (3, 3))), WEIGHTS, "exchanged_rows_conv"),  # 250 us; 421 channel by channel
    (conv(Conv(1, 304, 16, 9, 9, (2, 2), pad=1, groups=4)), FORWARD, "rows_conv"),  # 33 us, 63: short lines
    (conv(Conv(2, 384, 256, 7, 7, (7, 7), (7, 7))), FORWARD, "rows_product"),  # 1.2 ms, 1.6: weights of one pixel
    (conv(Conv(1, 204, 95, 15, 15, (7, 7), pad=3)), FORWARD, "bordered_rows_product"),  # 3.5 ms, 5.4: panels lie far
    (conv(Conv(4, 387, 1, 60, 60, (2, 2), (2, 2), pad=1)), FORWARD, "rows_conv"),  # 3.5 ms, 8.5: a copy that lies far
]
IN_LANES = [
    (conv(Conv(32, 100, 300, 15, 15, ONE, (3, 3))), INPUT, "spread_lanes_product"),  # copies whose lanes stay
    (conv(Conv(20, 48, 128, 13, 13, ONE, (2, 2))), INPUT, "lanes_conv"),
    (conv(Conv(64, 512, 16, 9, 9, stride=(2, 2), pad=1)), FORWARD, "lanes_conv vector=0 s_strip=1 s_tile=0"),  # far
    (conv(Conv(16, 8, 96, 24, 24)), WEIGHTS, "lanes_conv_weight_gradient"),
    (
        conv(Conv(16, 64, 64, 28, 28, pad=1)),
        WEIGHTS,
        "winograd_weight_gradient vector=1 s_pitch=65 s_strip=49 s_tile=1",
    ),
    (conv(Conv(16, 3, 96, 128, 128, (11, 11))), FORWARD, "lanes_conv"),  # what is transformed lies far
    (conv(Conv(16, 12, 12, 20, 20, (9, 9), pad=4)), FORWARD, "fourier_conv"),  # near
    (conv(Conv(32, 64, 64, 1, 254, (1, 5))), FORWARD, "lanes_conv"),  # a line is an image of one row
    (conv(Conv(32, 64, 64, 1, 254, (1, 5))), WEIGHTS, "lanes_product"),
    (dense(128, 300, 10), WEIGHTS, "dense_weight_gradient vector=1 s_tile=1"),
    (conv(Conv(64, 512, 512, 2, 2, pad=1)), WEIGHTS, "exchanged_lanes_conv"),  # 8.1 ms, 27.8 as it is
    (conv(Conv(16, 512, 512, 7, 7, pad=1)), WEIGHTS, "exchanged_lanes_conv"),  # 25.0 ms, 34.9
    (conv(Conv(16, 128, 256, 28, 28, stride=(2, 2), pad=1)), WEIGHTS, "exchanged_lanes_conv"),  # 16.4 ms, 25.0
    (conv(Conv(16, 128, 128, 28, 28, pad=1)), WEIGHTS, "fourier_weight_gradient"),  # 19.9 ms, exchanged 35.6
    (conv(Conv(64, 32, 32, 16, 16, pad=1)), WEIGHTS, "winograd_weight_gradient"),  # copies take more than sums
    (conv(Conv(64, 512, 512, 2, 2, pad=1)), FORWARD, "lanes_conv"),  # 6.7 ms, exchanged 20.8
    (conv(Conv(32, 100, 100, 5, 5)), INPUT, "lanes_conv vector=0 s_strip=25 s_tile=6"),  # tiles of few rows
    (conv(Conv(16, 74, 94, 5, 5, groups=2)), INPUT, "lanes_conv vector=0 s_strip=25 s_tile=6"),
    (conv(Conv(32, 144, 16, 21, 21, stride=(2, 2), pad=1)), INPUT, "lanes_conv vector=0 s_strip=441 s_tile=1"),
    (conv(Conv(16, 136, 16, 5, 5, (5, 5))), INPUT, "lanes_conv vector=0 s_strip=25 s_tile=7"),  # each row sees another
    (conv(Conv(16, 256, 128, 16, 16, (8, 8), (8, 8))), FORWARD, "lanes_product"),  # 2.5 ms, 5.2: windows lie far
    (conv(Conv(16, 8, 66, 116, 116, ONE, (2, 2))), WEIGHTS, "lanes_product"),  # 1.4 ms, 2.2: so do images
    (conv(Conv(48, 61, 1, 82, 82, ONE)), FORWARD, "lanes_conv"),  # 3.9 ms, 7.1: as it is far, copies are, too
]


BY_CORE = [
    (0, conv(Conv(1, 512, 512, 7, 7, pad=1)), INPUT, "bordered_rows_product", "turned_rows_conv"),  # transposed copies
    (0, conv(Conv(2, 181, 470, 8, 8, (5, 5))), INPUT, "bordered_rows_product", "turned_rows_conv"),
    (0, conv(Conv(1, 16, 96, 112, 112, ONE)), INPUT, "rows_product", "rows_conv"),  # images that lie far
    (0, conv(Conv(1, 64, 2, 96, 96, ONE)), FORWARD, "rows_product", "rows_conv"),
    (0, conv(Conv(1, 2048, 512, 7, 7, ONE)), INPUT, "rows_product", "rows_conv"),  # weights that lie far
    (0, conv(Conv(4, 496, 159, 9, 9, (2, 2), (3, 3), pad=1)), WEIGHTS, "bordered_rows_product", "exchanged_rows_conv"),
    (0, conv(Conv(4, 38, 334, 37, 37, (2, 2), pad=1)), WEIGHTS, "bordered_rows_product", "exchanged_rows_conv"),
    (LANES, conv(Conv(16, 128, 128, 28, 28, pad=1)), FORWARD, "winograd_conv", "fourier_conv"),  # near places
    (LANES, conv(Conv(64, 512, 512, 2, 2, pad=1)), WEIGHTS, "exchanged_lanes_conv", "lanes_conv_weight_gradient"),
]
"""What differs between a core that starts two multiply-adds of a vector a cycle, and one that starts one."""


@pytest.mark.parametrize("lanes, problem, operand, two, one", BY_CORE)
def test_sums_are_as_fast_as_the_core(lanes: int, problem: Problem, operand: int | None, two: str, one: str) -> None:
    own = CAPABILITIES if lanes else row_major(CAPABILITIES)
    node, tensors = problem if operand is None else gradient(*problem, operand)
    for device, expected in ((CORE, two), (replace(MEASURED_CORE, caches=CORE.caches), one)):
        found, why = choose(node, tensors, lanes, 4, own.strategies, device)
        assert identity(found).split()[0] == expected, f"{device.name}: {why}"


@pytest.mark.parametrize("lanes, cases", [(0, ROWS), (LANES, IN_LANES)])
def test_what_is_beside_the_sums(lanes: int, cases: list[tuple[Problem, int | None, str]]) -> None:
    own = CAPABILITIES if lanes else row_major(CAPABILITIES)
    for problem, operand, expected in cases:
        node, tensors = problem if operand is None else gradient(*problem, operand)
        found, why = choose(node, tensors, lanes, 4, own.strategies, own.device)
        named = identity(found)
        assert named == expected or named.split()[0] == expected, f"{node.dims}: {why}"


@pytest.mark.parametrize("lanes, batch", [(0, 4), (LANES, 2 * LANES)])
def test_parts_of_gradients_stay_in_the_first_cache(lanes: int, batch: int) -> None:
    """16 to 32 channels, 32 x 32 pixels, a step of 2, batch 32: 0.80 ms so, 1.12 from the second cache."""
    own = CAPABILITIES if lanes else row_major(CAPABILITIES)
    node, tensors = gradient(*conv(Conv(batch, 16, 24, 32, 32, stride=(2, 2), pad=1)), WEIGHTS)
    for device, cache in ((CORE, CORE.caches[0] // 2), (MEASURED_CORE, MEASURED_CORE.caches[1] // 2)):
        problem = product(node, tensors, lanes, 4, device)
        strategy = lanes_conv_weight_gradient if lanes else rows_conv_weight_gradient
        part = dict(strategy.STRATEGY.match(problem).columns)["s_part"]
        assert cache / 4 <= 4 * part * device.vector <= cache
        assert own.strategies >= {strategy.NAME}
        alone = gradient(*conv(Conv(batch, 1, 24, 32, 32, pad=1)), WEIGHTS)  # one tile has all taps
        assert dict(strategy.STRATEGY.match(product(*alone, lanes, 4, device)).columns)["s_part"] == WHOLE_PART
