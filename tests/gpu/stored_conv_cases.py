"""Convolutions of images whose channels come last, as the pass lays them out, and by every shape of tiles."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.level1.graph import Map
from compiler.passes.layouts.channels_last import moved_contraction, moved_tensor
from compiler.strategies import choose
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cuda import depthwise_conv, stored_products
from tests.cpu.contractions import Case, Conv, conv, gradient
from tests.gpu.products import Problem
from tests.gpu.tensor_cases import by_shapes, in_bf16

STRIDED = [Conv(3, 64, 64, 8, 6, (3, 3), stride=(2, 2), pad=1)]
NARROW = [
    Conv(2, 24, 40, 9, 7, pad=1),
    Conv(3, 96, 24, 8, 6, pad=1),
    Conv(2, 8, 16, 11, 12, (5, 5), pad=2),
    Conv(3, 32, 48, 8, 6, (3, 3), stride=(2, 2), pad=1),
    Conv(4, 72, 200, 5, 6, (2, 3), pad=1, dilate=2),
]
"""Channels that are no multiple of those that are gathered at once."""
GATHERED = [
    *NARROW,
    Conv(2, 64, 64, 7, 7, pad=1),
    Conv(3, 64, 72, 6, 9, pad=1),
    Conv(1, 128, 64, 10, 5, (3, 2), stride=(2, 1), pad=1),
    Conv(5, 64, 64, 6, 6, (1, 1), stride=(2, 2)),
    Conv(2, 64, 64, 9, 8, (2, 3), pad=2, dilate=2),
    Conv(9, 64, 64, 4, 3, (3, 3), stride=(2, 2), pad=1),
    Conv(40, 64, 64, 3, 3, (1, 2)),
    *STRIDED,
    Conv(2, 64, 128, 6, 8, (2, 5), stride=(2, 2), pad=2),
]
STAGED = [
    Conv(5, 64, 64, 8, 8, pad=1),
    Conv(3, 32, 40, 13, 9, (3, 3), stride=(2, 2), pad=1),
    Conv(7, 72, 16, 8, 11, (3, 2), stride=(1, 2), pad=2),
    Conv(2, 24, 8, 20, 17, (5, 5), pad=2),
    Conv(4, 16, 64, 16, 16, (1, 1), stride=(2, 2)),
    Conv(4, 3, 64, 16, 16, (7, 7), stride=(2, 2), pad=3),
]
DEPTHWISE = [
    Conv(3, 24, 24, 9, 7, pad=1, groups=24),
    Conv(2, 64, 64, 13, 12, (3, 3), stride=(2, 2), pad=1, groups=64),
    Conv(5, 72, 72, 8, 11, (5, 3), pad=2, groups=72),
    Conv(2, 96, 96, 10, 9, (7, 7), stride=(2, 1), pad=3, groups=96),
    Conv(1, 8, 8, 20, 21, (3, 3), pad=2, dilate=2, groups=8),
    Conv(9, 136, 136, 4, 5, (2, 4), pad=1, groups=136),
    Conv(64, 32, 32, 20, 20, pad=1, groups=32),
    Conv(2, 72, 72, 15, 14, (7, 7), pad=3, groups=72),
    Conv(3, 32, 32, 11, 13, (5, 5), pad=4, dilate=2, groups=32),
    Conv(2, 64, 64, 9, 30, (5, 4), stride=(1, 3), pad=1, groups=64),
]
DEPTHWISE_NAMES = frozenset({depthwise_conv.NAME, depthwise_conv.WEIGHTS})
PRODUCTS = [Conv(9, 64, 72, 6, 9, (1, 1)), Conv(6, 64, 40, 7, 14, (1, 1))]


def last(problem: Problem) -> Problem:
    """The problem over tensors of bf16, channels last where their number allows it, as the pass lays them out."""
    node, tensors = in_bf16(problem)
    wanted = {n for n, t in tensors.items() if t.shape[1] % 8 == 0 and (t.batched or n != "y")}
    found = {n: moved_tensor(t) if n in wanted else t for n, t in tensors.items()}
    return moved_contraction(node, found, wanted), found


def directions(shapes: list[Conv]) -> Iterator[Problem]:
    for c in shapes:
        forward = conv(c)
        yield from (last(p) for p in (forward, gradient(*forward, 0), gradient(*forward, 1)))


def depthwise_cases() -> list[Case]:
    """By depthwise_conv and depthwise_conv_weights, with each number of blocks that share a sum."""
    found = []
    for p in directions(DEPTHWISE):
        best = choose(*p, 0, 4, DEPTHWISE_NAMES)[0]
        if best is not None:
            (strategy,) = (s for s in depthwise_conv.STRATEGIES if s.name == best.strategy)
            found += [Case(*p, x, None) for x in (best, *strategy.variants(product(*p, 0, 4), best))]
    return found


def by_force(problem: Problem, after: Map | None = None) -> Iterator[Case]:
    """The problem by each shape of tiles, where there are any, whatever the rules say."""
    found = product(*problem, 0, 4)
    try:
        variants = stored_products.variants(found, stored_products.CONV, 10 * len(stored_products.COLUMNS))
    except NotApplicable:
        return
    yield from by_shapes(problem, variants, after)
