"""Contractions, as their nest says, and the sums over tiles that their kernel has.

Assumes: a row whose body is an l2.Contract; the last PAR dim of its nest is that of columns where it has such sums.
Guarantees: each tile has as many rows, in their order, but for the last ones. Weights in panels
(compiler/strategies/cpu/rows_panels.py) are read as their nest says, one output after the other.
Does not: use strategies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import compiler.ir.level2.program as l2
from backends.reference.nest import run_nest
from backends.reference.row import Row
from compiler.strategies.cpu import rows_panels


def run_contract(row: Row, body: l2.Contract, step: int) -> None:
    if body.strategy == rows_panels.NAME:
        row = _out_of_panels(row)
    found = run_nest(row, body.nest, step, [s.value for s in body.sums])
    for made, values in zip(body.sums, found, strict=True):
        _over_tiles(row, made, values.reshape(-1, values.shape[-1]))


def _out_of_panels(row: Row) -> Row:
    panels = row.arrays["x1"].reshape(-1, row.size("s_ins"), rows_panels.panel_of(row.real.itemsize))
    return replace(row, arrays={**row.arrays, "x1": panels.swapaxes(1, 2).reshape(-1)})


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
