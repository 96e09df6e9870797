"""Convolutions by Winograd's algorithm in tiles of 4 x 4 pixels on the CPU against the definition (numpy), and their
error."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import LANES
from compiler.ir.level1.graph import Map
from compiler.ir.space import DType
from compiler.strategies import choose
from compiler.strategies.choice import Problem, product
from compiler.strategies.cpu.winograd import winograd4_conv
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.cpu.test_fourier import no_worse_than_in_order
from tests.cpu.test_strategies import BACKEND, check, with_epilogue
from tests.cpu.test_strategies import Problem as Contraction
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc")


def by_winograd4(problem: Contraction, tile: int = 0, after: Map | None = None) -> Case:
    """The case by the tile that is number `tile` by estimate."""
    found = product(*problem, LANES, 4)
    assert isinstance(found, Problem)
    choices = winograd4_conv.variants(found)
    assert isinstance(choices, list), choices
    return Case(*problem, choices[tile % len(choices)], after)


CONVS = [
    Conv(1, 1, 1, 3, 3),
    Conv(17, 5, 11, 7, 6, pad=1),
    Conv(33, 3, 4, 1, 1, pad=1),
    Conv(3, 9, 2, 2, 1, pad=2),
    Conv(20, 4, 17, 5, 18),
    Conv(40, 33, 9, 4, 9, pad=1),
    Conv(20, 6, 10, 9, 5, pad=1, groups=2),
    Conv(2, 70, 25, 12, 12, pad=1),
]
"""Odd extents, channels that fill no tile, parts of a block, sums of several chunks, windows that see only borders."""


def test_convolutions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Forward and to the input, in one strip and in several; epilogues: a bias and an activation, another image."""
    monkeypatch.setattr(winograd4_conv, "LEAST", 1)
    cases = []
    for number, c in enumerate(CONVS):
        with monkeypatch.context() as m:
            m.setattr("compiler.strategies.cost.cpu.WINOGRAD4_STRIP_BYTES", 1 if number % 2 else 32_000_000)
            cases += [by_winograd4(conv(c), number), by_winograd4(gradient(*conv(c), 0), number + 1)]
    check(cases, DType.F32, tmp_path)
    ends = []
    for groups, text in ((1, "relu(x0 + x1) + x2"), (2, "relu(x0 + x1) - x2")):
        image = conv(Conv(20, 4, 6, 6, 7, pad=1, groups=groups))
        bias, all_axes = ("b", (1,) if groups == 1 else (1, 2)), tuple(range(len(image[0].out.shape)))
        problem, after = with_epilogue(image, text, bias, ("q", all_axes))
        ends.append(by_winograd4(problem, 0, after))
    check(ends, DType.F32, tmp_path / "ends")


@pytest.mark.parametrize(("channels", "positive"), diagonal([winograd4_conv.LEAST, 256, 512], [False, True]))
def test_the_error_is_below_that_of_a_sum_in_order(channels: int, positive: bool, tmp_path: Path) -> None:
    """Where each chunk of channels is as long as it may be."""
    assert no_worse_than_in_order(by_winograd4(conv(Conv(4, channels, 4, 10, 10))), positive, tmp_path)


def test_what_rounds_more_is_left_to_others() -> None:
    for c, bytes_ in ((Conv(16, winograd4_conv.LEAST - 1, 64, 8, 8), 4), (Conv(16, 256, 64, 8, 8), 8)):
        found = product(*conv(c), LANES * 4 // bytes_, bytes_)
        assert winograd4_conv.STRATEGY.choice(found) is None


def test_taken_where_the_model_permits_it() -> None:
    """Where `products` is `exact` there is no larger tile."""
    problem = conv(Conv(32, 256, 256, 14, 14, pad=1))
    available = BACKEND.capabilities.strategies
    for strategies, name in (
        (available, "winograd4_conv"),
        (available - {"winograd4_conv", "fourier_conv"}, "winograd_conv"),
    ):
        choice, reason = choose(*problem, LANES, 4, strategies)
        assert choice is not None
        assert choice.strategy == name, reason
