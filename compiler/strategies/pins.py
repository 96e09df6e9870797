"""pins: strategies chosen earlier by measuring, and their validity.

Assumes: contractions in gather form.
Guarantees: a pin is valid only for the problem that it was measured on: the same structure, sizes, precision and order,
on a target that still offers the pinned variant.
Does not: read files (compiler/tune/lock.py does) or measure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Ref, show, substitute
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine
from compiler.strategies.choice import Choice
from compiler.strategies.cost.devices import H200
from compiler.strategies.variants import identity, ways

AGAIN: Final = ".again"
"""Ends the name of a tensor that is computed again (passes/tensors/recompute.py), by the way of its original."""


@dataclass(frozen=True)
class Pin:
    """`way`: identity of a variant (variants.py); `problem`: the digest of its problem; `source`: its origin;
    `microseconds`: its measured time; `instead`: what was faster, but not in a whole step."""

    problem: str
    way: str
    source: str
    microseconds: float
    instead: str = ""


Pins = Mapping[str, Pin]
"""By model path: `train/dense1.sum`, `train/lstm_1.at.cell.carried`."""


def path_of(phase: str, out: l1.Tensor) -> str:
    """The model path of a contraction, and of its recomputation."""
    return f"{phase}/{out.name.removesuffix(AGAIN)}"


def problem_digest(node: l1.Contract, tensors: Mapping[str, l1.Tensor], lanes: int, real_bytes: int, order: str) -> str:
    """Equal for contractions that take the same time: independent of names, dependent on sizes."""
    return _digest(node, tensors, lanes, real_bytes, order, True)


def structure_digest(
    node: l1.Contract, tensors: Mapping[str, l1.Tensor], lanes: int, real_bytes: int, order: str
) -> str:
    """Equal for contractions that can share a text: independent of sizes."""
    return _digest(node, tensors, lanes, real_bytes, order, False)


def _digest(
    node: l1.Contract, tensors: Mapping[str, l1.Tensor], lanes: int, real_bytes: int, order: str, sizes: bool
) -> str:
    names = {d: f"d{i}" for i, (d, _) in enumerate(node.dims)}
    parts: list[object] = [order, lanes, real_bytes, node.combine, node.fill, len(node.scalars)]
    parts.append(show(_renamed(node.body, names)))
    parts.append([e for _, e in node.dims] if sizes else len(node.dims))
    walked = [(node.out, node.out_map)]
    walked += [(tensors[name], axes) for name, axes in zip(node.ins, node.in_maps, strict=True)]
    for tensor, axes in walked:
        parts.append((tensor.dtype, tensor.batched, tensor.shape if sizes else len(tensor.shape)))
        parts += [tensor.windows] if tensor.windows else []
        parts += ["panels"] if tensor.panel else []
        parts += ["pitch", tensor.pitch if sizes else 0] if tensor.pitch else []
        parts.append([_axis(a, names, sizes) for a in axes])
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _renamed(body: Expr, names: Mapping[str, str]) -> Expr:
    return substitute(body, {old: Ref(new) for old, new in names.items()})


def _axis(axis: Affine, names: Mapping[str, str], sizes: bool) -> object:
    terms = sorted((names[d], c) for d, c in axis.terms)
    return (terms, axis.const, axis.div) if sizes else terms


@dataclass(frozen=True)
class Refused:
    """Why a pin is not valid."""

    reason: str


def pinned(
    pin: Pin,
    node: l1.Contract,
    tensors: Mapping[str, l1.Tensor],
    lanes: int,
    real_bytes: int,
    order: str,
    available: frozenset[str],
    device: Target = H200,
) -> Choice | Refused | None:
    """The choice (None: the generic nest) of a pin, or why it is no longer valid."""
    if pin.problem != problem_digest(node, tensors, lanes, real_bytes, order):
        return Refused("it was measured for another shape, precision or order")
    for way in ways(node, tensors, lanes, real_bytes, available, device):
        if identity(way) == pin.way:
            return way
    return Refused(f"`{pin.way}` is no way to compute it here")
