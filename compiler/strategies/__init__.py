"""Strategies: how a contraction may be computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.ir.graph import Contract, Tensor


@dataclass(frozen=True)
class Choice:
    """A strategy for one contraction: structural literals, integer columns of its template, scratch bytes."""

    strategy: str
    literals: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, int], ...]
    scratch_bytes: int


def choose(
    node: Contract, tensors: Mapping[str, Tensor], lanes: int, real_bytes: int, available: frozenset[str]
) -> tuple[Choice | None, str]:
    """The strategy for a contraction, or None (the generic nest), and why."""
    return None, "no strategy matches"
