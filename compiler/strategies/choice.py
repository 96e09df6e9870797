"""choice: the result of a strategy, and matching common to all strategies.

Assumes: Contracts in gather form (passes/tensors/decompose.py).
Guarantees: plain data; recognition by index maps and layouts, never by names.
Does not: depend on templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Ref
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, along, plain_dim
from compiler.strategies.cost.cores import Core, core
from compiler.strategies.cost.cpu import VECTOR_BYTES, within
from compiler.strategies.cost.devices import H200

T = TypeVar("T")
LIMIT = 2**31
"""Offsets inside one block of the batch and inside the weights are 32-bit."""


@dataclass(frozen=True)
class Tiles:
    """How a strategy stores its result, rows by `columns`: `rows` tiles of at most `lines` rows for each of
    `batches`."""

    batches: int
    rows: int
    lines: int
    columns: int

    @property
    def count(self) -> int:
        """Tiles of the rows of all batches."""
        return self.batches * self.rows


@dataclass(frozen=True)
class Choice:
    """A strategy for one contraction: structural literals, integer columns of its template, scratch bytes.
    `microseconds`: estimated time, where strategies of a target compete by time; 0, or `wins`: it always wins.
    `joined`: adjacent dims that every array walks contiguously may be collapsed into one loop of its nest. `workspace`:
    elements of an array that its kernels pass to each other, which is planned with the others. `exchange`: where
    another contraction is computed instead. `bare`: it stores sums alone, an epilogue is another kernel. `tiled`: where
    its kernel may sum over the rows of a tile."""

    strategy: str
    literals: tuple[tuple[str, int], ...]
    columns: tuple[tuple[str, int], ...]
    scratch_bytes: int
    microseconds: float = 0.0
    joined: bool = False
    workspace: int = 0
    exchange: Exchange | None = None
    bare: bool = False
    wins: bool = False
    tiled: Tiles | None = None


@dataclass(frozen=True)
class Exchange:
    """A contraction with the same sums (compiler/strategies/exchange.py). `node`: of copies of the operands, x0 and x1,
    whose tensors are `operands`; `sources`: which operand each is a copy of; `reads`: for each element (d0, d1, ...) of
    a copy the index in its operand (None: the operand itself is read); `back`: for each element of the result the index
    in that of `node`, which `inner` computes."""

    node: l1.Contract
    operands: tuple[l1.Tensor, l1.Tensor]
    sources: tuple[int, int]
    reads: tuple[tuple[Affine, ...] | None, tuple[Affine, ...] | None]
    back: tuple[Affine, ...]
    inner: Choice

    @property
    def same_lanes(self) -> bool:
        """Whether the result has the batch where that of `node` has it."""
        return self.node.out.batched and self.back[0] == along("d0")


@dataclass(frozen=True)
class Problem:
    """A product of two operands summed over dims. `out`: the dims of the output's axes, in order; `device`: what the
    cost models are asked about."""

    node: l1.Contract
    extents: Mapping[str, int]
    out: tuple[str, ...]
    operands: tuple[l1.Tensor, l1.Tensor]
    lanes: int
    real_bytes: int
    device: Target = H200

    @property
    def stored(self) -> tuple[bool, bool]:
        """Which operands are bf16 in memory."""
        first, second = (t.dtype == "bf16" for t in self.operands)
        return first, second

    def axes(self, operand: int) -> tuple[Affine, ...]:
        return self.node.in_maps[operand]

    def plain(self, operand: int) -> tuple[str | None, ...]:
        """Per axis of an operand its dim where the index is plain, or None."""
        return tuple(plain_dim(a) for a in self.axes(operand))

    @property
    def core(self) -> Core:
        """The constants of its cost models."""
        return core(self.device)

    def within(self, bytes_: int) -> int:
        """What a cache of the device is to hold, where those that were measured hold so many bytes."""
        return within(bytes_, self.device)

    def strip(self, tiles: int, vectors: int, numbers: int, bytes_: int) -> int:
        """Tiles that are transformed at a time, into so many numbers each: whole register tiles, `within` bytes."""
        each = numbers * self.lanes * self.real_bytes * vectors
        return max(1, min(self.within(bytes_) // each, -(-tiles // vectors))) * vectors

    def blocks(self, dim: str) -> int:
        return -(-self.extents[dim] // self.lanes)


class NotApplicable(Exception):
    """Why a strategy does not apply."""


def refuse_if(refused: object, reason: str) -> None:
    """Raises NotApplicable."""
    if refused:
        raise NotApplicable(reason)


def named(**values: int) -> dict[str, int]:
    """The columns `s_NAME` of a row."""
    return {f"s_{name}": value for name, value in values.items()}


def refuse_beyond(elements: int) -> None:
    """Raises NotApplicable where offsets have more than 32 bits."""
    refuse_if(elements >= LIMIT, "it is larger than 32-bit offsets reach")


def either(first: int, match: Callable[[int], T]) -> T:
    """The match with the operand `first` as the image, or with the other one. Raises NotApplicable: that of `first`."""
    try:
        return match(first)
    except NotApplicable:
        with suppress(NotApplicable):
            return match(1 - first)
        raise


def product(
    node: l1.Contract, tensors: Mapping[str, l1.Tensor], lanes: int, real_bytes: int, device: Target = H200
) -> Problem:
    """The contraction as a product of two real operands, in batch-in-lanes layout or without lanes (0). Raises
    NotApplicable."""
    refuse_if(lanes and lanes * real_bytes != VECTOR_BYTES, "the target's tensors have no lanes of 64 bytes")
    refuse_if(node.combine != "add" or node.scalars, "it is not a sum of products")
    body = node.body
    if not (isinstance(body, Binary) and body.op == "*"):
        raise NotApplicable("it is not a sum of products")
    if not (isinstance(body.left, Ref) and isinstance(body.right, Ref)):
        raise NotApplicable("it is not a product of two operands")
    if {body.left.name, body.right.name} != {"x0", "x1"} or len(node.ins) != 2:
        raise NotApplicable("it is not a product of two operands")
    refuse_if(node.fill != 0, "what lies outside an operand does not count as 0")
    operands = (tensors[node.ins[0]], tensors[node.ins[1]])
    refuse_if(any(t.dtype == "int" for t in operands), "an operand is not real")
    out = tuple(plain_dim(a) for a in node.out_map)
    named = tuple(d for d in out if d is not None)
    refuse_if(len(named) != len(out) or len(set(named)) != len(named), "the output is not in gather form")
    extents = dict(node.dims)
    if any(extents[d] != e for d, e in zip(named, node.out.shape, strict=True)):
        raise NotApplicable("the output is only partly written")
    return Problem(node, extents, named, operands, lanes, real_bytes, device)


def rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
