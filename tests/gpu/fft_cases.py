"""Convolutions by Fourier transforms (fft_conv): every size of tiles and every way to sum, by force, over windows,
borders, odd sizes and batches, for all three directions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from compiler.ir.level1.graph import Map
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cuda import fft_conv
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.cpu.test_strategies import with_epilogue
from tests.gpu.products import Problem

SHAPES = (
    Conv(3, 21, 23, 20, 23, (5, 5), pad=1),
    Conv(3, 35, 67, 17, 40, (7, 3), pad=2),
    Conv(5, 3, 13, 30, 50, (7, 7), pad=2),
    Conv(2, 4, 11, 50, 33, (11, 10)),
    Conv(1, 70, 2, 17, 40, (7, 3), pad=2),
    Conv(2, 130, 65, 13, 13),
    Conv(5, 8, 6, 64, 60, (9, 9)),
    Conv(9, 2, 33, 24, 24, (9, 8), pad=3),
)


def by_force(problem: Problem, after: Map | None = None) -> Iterator[Case]:
    """The problem in every way that there is, whatever the rules say; none where sums are too short."""
    found = product(*problem, 0, 4)
    with suppress(NotApplicable):
        yield from (Case(*problem, c, after) for c in fft_conv.choices(found))


def directions(shape: Conv) -> tuple[Problem, Problem, Problem]:
    forward = conv(shape)
    return forward, gradient(*forward, 0), gradient(*forward, 1)


def fft_cases(shape: Conv) -> list[Case]:
    return [case for p in directions(shape) for case in by_force(p)]


def epilogue_cases() -> list[Case]:
    image, wide = conv(Conv(7, 30, 5, 16, 17, pad=1)), conv(Conv(3, 3, 9, 30, 20, (7, 7), pad=3))
    texts = [
        with_epilogue(image, "relu(x0 + x1) + x2", ("b", (1,)), ("q", (0, 1, 2, 3))),
        with_epilogue(wide, "x0 * x1 + x2", ("p", (3,)), ("q", (1, 2))),
        with_epilogue(gradient(*wide, 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3))),
    ]
    return [case for problem, after in texts for case in by_force(problem, after)]
