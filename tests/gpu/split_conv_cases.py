"""Convolutions of float32 by split_conv, by every shape of tiles with and without splits."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.level1.graph import Map
from compiler.passes.layouts.channels_last import moved_contraction, moved_tensor
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cuda.split import split_conv
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.gpu.products import Problem
from tests.gpu.tensor_cases import by_shapes

SHAPES = [
    Conv(6, 64, 24, 7, 7, pad=1),
    Conv(5, 72, 20, 6, 9, pad=1),
    Conv(2, 66, 136, 12, 13, (3, 2), stride=(2, 1), pad=1),
    Conv(5, 32, 17, 9, 8, (2, 5), pad=2, dilate=2),
    Conv(65, 32, 24, 4, 3, (3, 3), stride=(2, 2), pad=1),
    Conv(40, 128, 16, 3, 3, (1, 2)),
    Conv(2, 20, 32, 13, 12, (5, 5), pad=2),
    Conv(1, 24, 66, 17, 18, pad=1),
    Conv(9, 16, 40, 9, 14, (3, 7), stride=(2, 2), pad=3),
    Conv(3, 24, 136, 8, 10, stride=(2, 2), pad=1),  # of their images' gradients, pixels with the same rests
    Conv(2, 20, 136, 8, 12, (1, 1), stride=(2, 2)),
    Conv(3, 17, 40, 12, 10, (5, 5), stride=(2, 2), pad=2),
    Conv(2, 70, 130, 6, 8, (3, 4), stride=(2, 2), pad=1),
]


def by_force(problem: Problem, after: Map | None = None) -> Iterator[Case]:
    """The problem by each shape of tiles, with and without splits, if split_conv takes it, whatever the rules say."""
    try:
        variants = split_conv.variants(product(*problem, 0, 4), 100)
    except NotApplicable:
        return
    yield from by_shapes(problem, variants, after)


def last(problem: Problem) -> Problem:
    """The problem with channels last."""
    node, tensors = problem
    wanted = {n for n, t in tensors.items() if t.batched or n != "y"}
    found = {n: moved_tensor(t) if n in wanted else t for n, t in tensors.items()}
    return moved_contraction(node, found, wanted), found


def directions(shapes: list[Conv]) -> Iterator[Problem]:
    """The convolutions and both of their gradients, in both orders of axes."""
    for c in shapes:
        forward = conv(c)
        for p in (forward, gradient(*forward, 0), gradient(*forward, 1)):
            yield p
            yield last(p)
