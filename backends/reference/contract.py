"""Contractions, as their nest says, and the sums over tiles that their kernel has.

Assumes: a row whose body is an l2.Contract; the last PAR dim of its nest is that of columns where it has such sums.
Guarantees: each tile has as many rows, in their order, but for the last ones.
Does not: use strategies.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.nest import run_nest
from backends.reference.row import Row


def run_contract(row: Row, body: l2.Contract, step: int) -> None:
    found = run_nest(row, body.nest, step, [s.value for s in body.sums])
    for made, values in zip(body.sums, found, strict=True):
        _over_tiles(row, made, values.reshape(-1, values.shape[-1]))


def _over_tiles(row: Row, made: l2.TileSum, values: Any) -> None:
    """`values`: (rows, columns)."""
    rows, tiles = len(values), row.size("tiles")
    weights = row.arrays[made.weight][:rows, None] if made.weight else np.ones((rows, 1), values.dtype)
    target = row.arrays[made.target].reshape(-1, tiles)
    for tile in range(tiles):
        own = slice(rows * tile // tiles, rows * (tile + 1) // tiles)
        x, weight, total = values[own], weights[own], weights[own].sum()
        mean = (weight * x).sum(axis=0) / np.maximum(total, np.finfo(values.dtype).tiny)
        match made.of:
            case "sum":
                target[:, tile] = x.sum(axis=0)
            case "mean":
                target[:, tile] = mean
            case "square":
                target[:, tile] = (weight * (x - mean) ** 2).sum(axis=0)
            case "weight":
                target[:, tile] = total
