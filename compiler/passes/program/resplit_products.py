"""resplit_products: products of one launch share the device, and split their sums no more than they have to.

A product that has fewer tiles than the device has processors splits its sums, and its blocks wait for each other. Where
several products are one launch, as the gradients of the weights of query, key and value, their tiles are enough
together.

Assumes: launches are batched (batch_launches); strategies were chosen for products alone.
Guarantees: where the rows of a launch are products of the same extents by stored_products of bf16, and split their
sums, they get the tiles and splits by which the launch is the fastest by estimate. Only the order of sums changes.
Does not: change products of different extents, or any where a lock file says how one is computed; or other strategies,
whose estimates promise nothing there (measured on an H100).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level2.batch_independence import extent_of
from compiler.ir.level2.target import Target
from compiler.passes.program.decisions import Decision
from compiler.strategies.cuda import stored_products
from compiler.strategies.cuda.implicit_gemm import sides
from compiler.strategies.pins import Pins
from compiler.strategies.tilings import Tiling

NAME: Final = "resplit_products"
Extents = tuple[int, int, int, int]
"""Batch, rows, columns and terms of a product."""


@dataclass(frozen=True)
class _Products:
    """What the rows of a launch have in common: `tile` by number; `scratch`: the column of its bytes."""

    tile: int
    extents: Extents
    scratch: str


def _tiling(x: _Products, count: int, device: Target) -> Tiling:
    """Of so many products as one."""
    _, *across = stored_products.shape_of(x.tile)
    batch, m, n, k = x.extents
    return stored_products.tilings(batch * count, m, n, k, device, across=(across[0], across[1]))[0]


def resplit(merged: l2.Merged, device: Target, pins: Pins) -> tuple[l2.Merged, list[Decision]]:
    """The program, and what is split otherwise."""
    tables, made = list(merged.tables), list[Decision]()
    for phase in () if pins else merged.phases:
        for x in phase.launches:
            rows = tables[x.template]
            found = _products(merged.templates[x.template], rows, x) if x.hi - x.lo > 1 else None
            if found is None:
                continue
            before = {name: _column(rows, name)[x.lo] for name in ("s_tile", "s_splits", "s_depth")}
            best = _tiling(found, x.hi - x.lo, device)
            after = dict(best.columns)
            if after != before:
                scratch = stored_products.scratch_of(stored_products.NAME, best, found.extents)
                tables[x.template] = _with(rows, x, {**after, found.scratch: scratch})
                why = f"{x.hi - x.lo} products are one launch"
                made.append(Decision(NAME, rows.paths[x.lo] if rows.paths else phase.name, _shown(after), why))
    return replace(merged, tables=tuple(tables)), made


def _shown(columns: Mapping[str, int]) -> str:
    return f"sums in {columns['s_splits']} parts" if columns["s_splits"] > 1 else "sums as a whole"


def _column(rows: l2.Rows, name: str) -> Sequence[int]:
    return [int(str(v)) for v in rows.scalars[name]]


def _products(template: l2.Template, rows: l2.Rows, x: l2.Launch) -> _Products | None:
    """What the rows of a launch are, where they are alike and split their sums."""
    contract = template.body
    if not isinstance(contract, l2.Contract) or contract.strategy != stored_products.NAME or contract.scratch is None:
        return None
    if contract.sums:
        return None
    nest, access = contract.nest, template.strided
    par, red = (tuple(d.name for d in nest.dims if (d.kind is l2.DimKind.RED) == summed) for summed in (False, True))
    found = sides(par, red, (access["x0"].dims, access["x1"].dims))
    parts = (found.batch, found.m, found.n, found.k)
    alike = {
        (_column(rows, "s_tile")[row], *(prod(extent_of(template, rows, row, d) for d in part) for part in parts))
        for row in range(x.lo, x.hi)
    }
    if len(alike) > 1 or all(_column(rows, "s_splits")[row] == 1 for row in range(x.lo, x.hi)):
        return None
    ((tile, batch, m, n, k),) = alike
    return _Products(tile, (batch, m, n, k), contract.scratch)


def _with(rows: l2.Rows, x: l2.Launch, columns: Mapping[str, int]) -> l2.Rows:
    """The rows of a launch with these values in columns."""
    changed = dict(rows.scalars)
    for name, value in columns.items():
        changed[name] = tuple(value if x.lo <= row < x.hi else v for row, v in enumerate(_column(rows, name)))
    return replace(rows, scalars=changed)
