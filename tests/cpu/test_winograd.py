"""Convolutions and their gradients by Winograd's minimal filtering on the CPU against the definition (numpy)."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.backend import LANES
from compiler.ir.level1.graph import Map
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from compiler.strategies import ROWS, choose
from compiler.strategies.choice import product
from compiler.strategies.cpu.winograd import winograd_conv, winograd_rows, winograd_weight_gradient
from tests.cpu.contractions import Case, Conv, conv, gradient, program
from tests.cpu.test_strategies import BACKEND, DOUBLE, REALS, SINGLE, Problem, check, with_epilogue
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc")


def by_winograd(problem: Problem, real: DType, tile: int = 0, after: Map | None = None, rows: bool = False) -> Case:
    """The case by the tile that is number `tile` by estimate, whether it is the fastest or not. `rows`: row-major."""
    strategy = winograd_rows if rows else winograd_conv if problem[0].out.batched else winograd_weight_gradient
    wanted = product(*problem, 0 if rows else LANES * 4 // real.bytes, real.bytes)
    found = strategy.variants(wanted)
    return Case(*problem, found[tile % len(found)], after)


CONVS = [
    Conv(1, 1, 1, 3, 3),
    Conv(16, 1, 3, 3, 9),
    Conv(17, 5, 11, 7, 6, pad=1),
    Conv(33, 3, 4, 1, 1, pad=1),
    Conv(3, 9, 2, 2, 1, pad=2),
    Conv(20, 4, 17, 5, 8),
    Conv(40, 33, 9, 4, 4, pad=1),
    Conv(5, 2, 3, 4, 5, pad=5),
    Conv(20, 6, 10, 9, 5, pad=1, groups=2),
    Conv(2, 70, 25, 12, 12, pad=1),
    Conv(16, 7, 7, 6, 6, pad=1, groups=7),
]
"""Odd extents, channels that fill no tile, parts of a block, several strips, windows that see only the border."""


@pytest.mark.parametrize("real", SINGLE)
def test_forward_and_gradients(real: DType, tmp_path: Path) -> None:
    """All shapes in float32; in float64 every second one."""
    cases = []
    for number, c in enumerate(CONVS if real is DType.F32 else CONVS[::2]):
        cases.append(by_winograd(conv(c), real, number % 4))
        cases.append(by_winograd(gradient(*conv(c), 0), real, (number + 1) % 4))
        cases.append(by_winograd(gradient(*conv(c), 1), real, (number + 2) % 4))
    check(cases, real, tmp_path)


def test_sums_of_many_outputs_are_made_in_parts(tmp_path: Path) -> None:
    case = by_winograd(gradient(*conv(Conv(2, 410, 14, 2, 2, pad=1)), 1), DType.F32)
    assert case.choice is not None
    assert dict(case.choice.columns)["s_part"] == 12
    check([case], DType.F32, tmp_path)


STRIPS = Conv(1, 100, 40, 26, 31, pad=1)
"""Of several rows of tiles each."""
ROW_CONVS = [
    *CONVS[:1],
    Conv(1, 1, 3, 3, 9),
    Conv(2, 5, 11, 7, 6, pad=1),
    Conv(3, 9, 2, 2, 1, pad=2),
    Conv(1, 4, 17, 5, 40),
    STRIPS,
    Conv(1, 33, 9, 4, 4, pad=1),
    Conv(2, 2, 3, 4, 5, pad=5),
    Conv(2, 6, 10, 9, 5, pad=1, groups=2),
    Conv(2, 40, 25, 20, 31, pad=1),
]


@pytest.mark.parametrize("real", DOUBLE)
def test_row_major(real: DType, tmp_path: Path) -> None:
    cases = [by_winograd(conv(c), real, n % 5, rows=True) for n, c in enumerate(ROW_CONVS)]
    choice = cases[ROW_CONVS.index(STRIPS)].choice
    assert choice is not None
    assert 1 < dict(choice.columns)["s_high"] < 13
    check(cases, real, tmp_path, row_major=True)


@pytest.mark.parametrize(("rows", "real"), diagonal([False, True], list(REALS.values())))
def test_epilogues(real: DType, rows: bool, tmp_path: Path) -> None:
    """A bias per channel and an activation, another image, a row or column of it."""
    cases = []

    def add(problem: Problem, text: str, *others: tuple[str, tuple[int | None, ...]]) -> None:
        more, after = with_epilogue(problem, text, *others)
        cases.append(by_winograd(more, real, 0, after, rows))

    image = conv(Conv(20, 3, 5, 6, 7, pad=1))
    add(image, "relu(x0 + x1) + x2", ("b", (1,)), ("q", (0, 1, 2, 3)))
    add(image, "x0 * x1 + x2", ("p", (3,)), ("q", (1, 2)))
    add(conv(Conv(16, 4, 6, 6, 7, pad=1, groups=2)), "x0 - x1", ("b", (1, 2)))
    if not rows:
        add(gradient(*image, 0), "x0 * x1 if x1 > 0 else 0.0", ("q", (0, 1, 2, 3)))
        add(gradient(*image, 1), "x1 - 0.5 * x0", ("q", (0, 1, 2, 3)))
    check(cases, real, tmp_path, rows)


TAKEN = {
    "": [
        (Conv(32, 16, 16, 32, 32, pad=1), "winograd_conv"),
        (Conv(32, 64, 64, 8, 8, pad=1), "winograd_conv"),
        (Conv(32, 3, 16, 32, 32, pad=1), "lanes_conv"),
        (Conv(32, 32, 32, 16, 16, pad=1, groups=32), "lanes_conv"),
        (Conv(64, 512, 512, 2, 2, pad=1), "lanes_conv"),
    ],
    "rows": [
        (Conv(1, 16, 16, 32, 32, pad=1), "winograd_rows"),
        (Conv(1, 3, 16, 32, 32, pad=1), "rows_conv"),
        (Conv(1, 512, 512, 7, 7, pad=1), "rows_conv"),
    ],
    "weights": [
        (Conv(32, 32, 32, 32, 32, pad=1), "winograd_weight_gradient"),
        (Conv(16, 64, 64, 16, 16, pad=1), "winograd_weight_gradient"),
        (Conv(32, 16, 16, 32, 32, pad=1), "lanes_conv_weight_gradient"),
        (Conv(32, 3, 16, 32, 32, pad=1), "lanes_conv_weight_gradient"),
        (Conv(16, 512, 512, 4, 4, pad=1), "lanes_conv_weight_gradient"),
    ],
}


@pytest.mark.parametrize("kind", TAKEN)
def test_taken_where_products_outweigh_transforms(kind: str) -> None:
    available = BACKEND.capabilities.strategies
    for c, strategy in TAKEN[kind]:
        problem = gradient(*conv(c), 1) if kind == "weights" else conv(c)
        choice, reason = choose(
            *problem, 0 if kind == "rows" else LANES, 4, available & ROWS if kind == "rows" else available
        )
        assert choice is not None
        assert choice.strategy == strategy, reason


@pytest.mark.parametrize(
    "other",
    [
        Conv(16, 32, 32, 9, 9, (5, 5), pad=2),
        Conv(16, 32, 32, 9, 9, (3, 1)),
        Conv(16, 32, 32, 9, 9, stride=(2, 2), pad=1),
        Conv(16, 32, 32, 9, 9, dilate=2),
    ],
)
def test_other_windows_are_refused(other: Conv) -> None:
    problems = {"conv": [conv(other), gradient(*conv(other), 0)], "weight_gradient": [gradient(*conv(other), 1)]}
    for name, some in problems.items():
        for problem in some:
            choice, reason = choose(*problem, LANES, 4, BACKEND.capabilities.strategies)
            assert choice is not None
            assert choice.strategy.startswith(("lanes_", "fourier_"))
            assert f"winograd_{name}: the window is not 3 x 3 with steps of 1" in reason


@pytest.mark.parametrize("kind", TAKEN)
def test_text_does_not_depend_on_sizes(kind: str) -> None:
    """Nor on how the window lies, or the register tile."""
    rows = kind == "rows"

    def text(*sizes: Conv) -> str:
        problems = [gradient(*conv(c), 1) if kind == "weights" else conv(c) for c in sizes]
        cases = [by_winograd(q, DType.F32, c.channels % 4, rows=rows) for q, c in zip(problems, sizes, strict=True)]
        return BACKEND.emit(merge(program(cases, DType.F32, rows)))

    small = Conv(8, 1, 3, 9, 9, pad=1)
    assert text(small) == text(small, Conv(64, 18, 32, 20, 28, pad=1), Conv(3, 31, 5, 4, 4, pad=2))
