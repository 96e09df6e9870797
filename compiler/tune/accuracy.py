"""accuracy: the error of a candidate, and what it may be.

Assumes: products of two operands summed over dims (compiler/strategies/choice.py); operands that are normally
distributed.
Guarantees: errors are relative, in the Frobenius norm, against sums in float64 of some elements of the result, the same
ones for all candidates. A candidate is judged by the class of products that it says it needs
(compiler/strategies/strategy.py), which the model permits: one that says it is as exact as float32 is held to that.
Does not: bound errors for other operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level1.graph as l1
from compiler.ir.space import Affine
from compiler.tune.sites import Site

Reals = npt.NDArray[np.float64]
WORK: Final = 1 << 21
"""Terms that are summed in float64."""
LEAST, MOST = 4, 256
"""Elements of the result that are compared."""


@dataclass(frozen=True)
class Sample:
    """Elements of a result by their flat number, and their sums in float64."""

    places: npt.NDArray[np.int64]
    sums: Reals

    def error(self, result: Reals) -> float:
        """The relative error of a result, flat, in logical order."""
        size = float(np.linalg.norm(self.sums))
        return float(np.linalg.norm(result[self.places] - self.sums)) / (size or 1.0)


def logical(flat: npt.NDArray[np.generic], tensor: l1.Tensor, lanes: int) -> Reals:
    """The elements of a tensor, flat, in logical order, from the array that holds it."""
    values = flat.astype(np.float64)
    if tensor.pitch:
        return values.reshape(-1, tensor.pitch)[:, : tensor.shape[-1]].reshape(-1)
    if not (lanes and tensor.batched):
        return values
    each = int(np.prod(tensor.shape[1:]))
    by_sample = np.moveaxis(values.reshape(-1, each, lanes), 2, 1).reshape(-1, each)
    return by_sample[: tensor.shape[0]].reshape(-1)


def sample(site: Site, operands: Mapping[str, Reals]) -> Sample:
    """Some elements of the result of a contraction of `operands` (flat, in logical order)."""
    node, extents = site.node, dict(site.node.dims)
    size = prod(node.out.shape)
    outer = [axis.terms[0][0] if axis.terms else "" for axis in node.out_map]
    inner = [d for d in extents if d not in outer]
    terms = prod(extents[d] for d in inner)
    many = min(size, max(LEAST, min(MOST, WORK // max(terms, 1))))
    places = np.sort(np.random.default_rng(2).choice(size, many, replace=False))
    at = dict(zip(outer, np.unravel_index(places, node.out.shape or (1,)), strict=False))
    grid = np.unravel_index(np.arange(terms), tuple(extents[d] for d in inner) or (1,))
    along = {d: np.asarray(values)[:, None] for d, values in at.items()}
    along |= {d: np.asarray(values)[None, :] for d, values in zip(inner, grid, strict=False)}
    factors = [
        _read(operands[name], site.tensors[name].shape, axes, along, (many, terms))
        for name, axes in zip(node.ins, node.in_maps, strict=True)
    ]
    return Sample(places, np.einsum("nk,nk->n", *factors))


def _read(
    values: Reals,
    shape: tuple[int, ...],
    axes: tuple[Affine, ...],
    along: Mapping[str, npt.NDArray[np.int64]],
    wanted: tuple[int, int],
) -> Reals:
    """An operand at every point; 0 outside of it, and between the elements that a division reaches."""
    flat = np.zeros(wanted, np.int64)
    inside = np.ones(wanted, bool)
    for extent, axis in zip(shape, axes, strict=True):
        index = np.full(wanted, axis.const, np.int64)
        for dim, step in axis.terms:
            index += step * along[dim]
        inside &= index % axis.div == 0
        index //= axis.div
        inside &= (index >= 0) & (index < extent)
        flat = flat * extent + index
    found: Reals = np.where(inside, values[np.where(inside, flat, 0)], 0.0)
    return found


def _root(terms: int) -> float:
    return float(np.sqrt(terms))


def most_error(site: Site, epsilon: float, rounding: float) -> float:
    """What the relative error of a candidate may be: four times that of a sum in order, and of the rounding of factors
    that it needs."""
    outer = {d for a in site.node.out_map for d, _ in a.terms}
    terms = prod(extent for d, extent in site.node.dims if d not in outer)
    return epsilon * (4.0 + 2.0 * _root(terms)) + 2.0 * rounding


def far_off(result: Reals, nest: Reals, site: Site, epsilon: float, rounding: float) -> bool:
    """Whether some element differs from that of the generic nest by more than rounding explains."""
    outer = {d for a in site.node.out_map for d, _ in a.terms}
    terms = prod(extent for d, extent in site.node.dims if d not in outer)
    bound = epsilon * 8 * (5 + 3 * _root(terms)) + 8 * rounding
    scale = max(float(np.abs(nest).max(initial=0.0)), 1.0)
    return not float(np.abs(result - nest).max(initial=0.0)) <= bound * scale
