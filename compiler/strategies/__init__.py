"""Strategies: the algorithms for a contraction, one file each.

Assumes: Contracts in gather form; `available` names the strategies that the target has templates for.
Guarantees: a contraction is recognised by its body and index maps alone; contractions without a matching strategy stay
generic nests.
Does not: measure or print.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Capabilities, Target
from compiler.strategies.choice import Choice, NotApplicable, Problem, product
from compiler.strategies.cost.cpu import OPERATIONS_PER_US
from compiler.strategies.cost.devices import H200
from compiler.strategies.cost.nests import outer_nest, row_nest
from compiler.strategies.cpu import (
    dense_weight_gradient,
    fourier_conv,
    fourier_weight_gradient,
    lanes_conv,
    lanes_conv_weight_gradient,
    lanes_dense,
    lanes_pairs,
    onednn,
    rows_conv,
    rows_conv_weight_gradient,
    rows_dense,
    rows_panels,
    rows_product,
)
from compiler.strategies.cpu.depthwise import rows_depthwise
from compiler.strategies.cpu.winograd import winograd4_conv, winograd_conv, winograd_rows, winograd_weight_gradient
from compiler.strategies.cuda import (
    depthwise_conv,
    direct_conv,
    direct_conv_weights,
    fft_conv,
    grouped_conv,
    implicit_gemm,
    matmul,
    stored_products,
    tensor_conv,
    tensor_conv_weights,
    tensor_cores,
    tensor_products,
)
from compiler.strategies.cuda.split import split_conv, split_products
from compiler.strategies.cuda.vendor import cublaslt, cudnn
from compiler.strategies.exchange import HOPELESS, exchanged, share
from compiler.strategies.plugins import installed
from compiler.strategies.strategy import Strategy

__all__ = ["ROWS", "Choice", "choose", "problem_key"]

GROUPS: tuple[tuple[Strategy, ...], ...] = (
    (
        rows_conv.STRATEGY,
        rows_depthwise.STRATEGY,
        winograd_rows.STRATEGY,
        rows_dense.STRATEGY,
        rows_product.STRATEGY,
        rows_panels.STRATEGY,
        rows_conv_weight_gradient.STRATEGY,
    ),
    (lanes_dense.STRATEGY,),
    (dense_weight_gradient.STRATEGY,),
    (lanes_pairs.STRATEGY,),
    (
        lanes_conv.STRATEGY,
        winograd_conv.STRATEGY,
        winograd4_conv.STRATEGY,
        fourier_conv.STRATEGY,
        lanes_conv_weight_gradient.STRATEGY,
        winograd_weight_gradient.STRATEGY,
        fourier_weight_gradient.STRATEGY,
        rows_product.LANES_STRATEGY,
    ),
    (
        *stored_products.STRATEGIES,
        *tensor_products.STRATEGIES[:-1],
        split_products.STRATEGY,
        tensor_products.STRATEGIES[-1],  # as exact as split_products, and slower where there is much to sum
        matmul.STRATEGY,
        direct_conv.STRATEGY,
        direct_conv_weights.STRATEGY,
        *grouped_conv.STRATEGIES,
        *depthwise_conv.STRATEGIES,
        *tensor_conv.STRATEGIES,
        *tensor_conv_weights.STRATEGIES,
        implicit_gemm.STRATEGY,
        fft_conv.STRATEGY,
        split_conv.STRATEGY,
        *tensor_cores.STRATEGIES,
    ),
)
"""The first group of which a strategy matches is taken; inside of it strategies compete by time."""

ROWS = frozenset(s.name for s in GROUPS[0])
"""For row-major tensors of targets that have lanes."""


def measured() -> tuple[Strategy, ...]:
    """Strategies that no rule takes, libraries and those of other packages: they are computed with where a lock file
    says so."""
    return (onednn.STRATEGY, *cublaslt.STRATEGIES, *cudnn.STRATEGIES, *installed())


def every() -> tuple[Strategy, ...]:
    """All strategies, each once."""
    return (*chain.from_iterable(GROUPS), *measured())


def choose(
    node: l1.Contract,
    tensors: Mapping[str, l1.Tensor],
    lanes: int,
    real_bytes: int,
    available: frozenset[str],
    device: Target = H200,
) -> tuple[Choice | None, str]:
    """The strategy for a contraction on a device, or None (the generic nest), and why."""
    try:
        problem = product(node, tensors, lanes, real_bytes, device)
    except NotApplicable as why:
        return None, str(why)
    others: list[str] = []
    for group in GROUPS:
        reasons: list[str] = []
        best: Choice | None = None
        for strategy in group:
            name = strategy.name
            if name not in available or (lanes and name in ROWS) or not strategy.reads(problem):
                continue
            try:
                found = fitting(strategy.match(problem), device)
            except NotApplicable as why:
                reasons.append(f"{name}: {why}")
                continue
            if found.wins or not found.microseconds:
                return found, "its index maps match"
            if best is None or found.microseconds < best.microseconds:
                if best is not None:
                    reasons.append(_slower(best))
                best = found
            else:
                reasons.append(_slower(found))
        if best is not None:
            return _compared(problem, best, reasons, available)
        others += reasons
    nest = row_nest(node, real_bytes) / OPERATIONS_PER_US
    if (other := _equivalent(problem, available, device, nest)) is not None:
        return other, f"as an equivalent convolution, about {other.microseconds:.1f} us"
    return None, "; ".join(others) or "the target has no strategies"


def in_rows(
    node: l1.Contract, tensors: Mapping[str, l1.Tensor], target: Capabilities, real_bytes: int = 4
) -> Choice | None:
    """The strategy for a contraction of row-major tensors on a target."""
    return choose(node, tensors, 0, real_bytes, target.strategies, target.device)[0]


def _compared(
    problem: Problem, best: Choice, reasons: list[str], available: frozenset[str]
) -> tuple[Choice | None, str]:
    """The fastest strategy, or what is faster, and why. `reasons`: what is said of other strategies."""
    slower = "; ".join((_slower(best), *reasons))
    if (other := _equivalent(problem, available, problem.device, best.microseconds)) is not None:
        return other, f"as an equivalent convolution, about {other.microseconds:.1f} us; {slower}"
    if _is_outer_nest(problem, available, best.microseconds):
        return None, f"as a nest its few terms take less; {slower}"
    told = f"; {'; '.join(reasons)}" if reasons else ""
    return best, f"its index maps match, about {best.microseconds:.1f} us{told}"


def _is_outer_nest(problem: Problem, available: frozenset[str], most: float) -> bool:
    """Whether the nest is estimated to take less than so many microseconds, where it is one of which that is known."""
    nest = outer_nest(problem.node, problem.real_bytes)
    return not problem.lanes and bool(available & ROWS) and nest is not None and nest / OPERATIONS_PER_US < most


def _equivalent(problem: Problem, available: frozenset[str], device: Target, most: float) -> Choice | None:
    """The fastest one by estimate where rows have strategies, if it takes less than `most` microseconds; other targets
    have one for every convolution."""
    if not available & ROWS:
        return None
    known = [s for s in chain.from_iterable(GROUPS) if s.name in available and not (problem.lanes and s.name in ROWS)]
    found = (fitting(c, device) for c in exchanged(problem, known, most / HOPELESS) if fits(c, device))
    return next((c for c in found if c.microseconds < most * share(problem, c)), None)


def problem_key(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> object:
    """Equal for contractions for which `choose` finds the same on a target."""
    operands = tuple(
        (t.whole or t.room, t.shape, t.dtype, t.batched, t.windows, t.panel, t.steps_first)
        for t in map(tensors.__getitem__, node.ins)
    )
    walks = (node.dims, node.out_map, node.in_maps, node.out.shape, node.out.batched, operands)
    return walks, node.body, node.combine, node.fill, bool(node.scalars)


def fitting(found: Choice, device: Target) -> Choice:
    """A choice with its estimate as corrected for a device. Raises NotApplicable where it takes more memory than it
    may."""
    if not fits(found, device):
        raise NotApplicable(f"it takes {found.scratch_bytes:,} bytes beside the arrays")
    factor = dict(device.estimates).get(found.strategy, 1.0)
    return found if factor == 1.0 else replace(found, microseconds=factor * found.microseconds)


def fits(choice: Choice, device: Target) -> bool:
    """Whether it takes no more memory than it may."""
    return device.workspace is None or choice.scratch_bytes <= device.workspace


def _slower(choice: Choice) -> str:
    return f"{choice.strategy}: about {choice.microseconds:.1f} us"
