"""Strategies: how a contraction may be computed, one file each.

Assumes: Contracts in gather form; `available` names the strategies that the target has templates for.
Guarantees: a contraction is recognised by its body and index maps alone; what no strategy takes stays a generic nest.
Does not: measure or print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.ir.graph import Contract, Tensor
from compiler.strategies import (
    dense_weight_gradient,
    implicit_gemm,
    lanes_conv,
    lanes_conv_weight_gradient,
    lanes_dense,
)
from compiler.strategies.choice import Choice, No, Problem, product

__all__ = ["Choice", "choose"]

STRATEGIES: tuple[tuple[str, Callable[[Problem], Choice | No]], ...] = (
    (lanes_dense.NAME, lanes_dense.match),
    (dense_weight_gradient.NAME, dense_weight_gradient.match),
    (lanes_conv.NAME, lanes_conv.match),
    (lanes_conv_weight_gradient.NAME, lanes_conv_weight_gradient.match),
    (implicit_gemm.NAME, implicit_gemm.match),
)


def choose(
    node: Contract, tensors: Mapping[str, Tensor], lanes: int, real_bytes: int, available: frozenset[str]
) -> tuple[Choice | None, str]:
    """The strategy for a contraction, or None (the generic nest), and why."""
    problem = product(node, tensors, lanes, real_bytes)
    if isinstance(problem, No):
        return None, problem.reason
    reasons = []
    for name, match in STRATEGIES:
        if name not in available:
            continue
        found = match(problem)
        if isinstance(found, Choice):
            return found, "its index maps match"
        reasons.append(f"{name}: {found.reason}")
    return None, "; ".join(reasons) or "the target has no strategies"
