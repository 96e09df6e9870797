"""Drawing relations: the rules of `Connect`, in integer arithmetic only.

Assumes: formals with the fixed names that compiler/ir/program.py gives for each rule.
Guarantees: the same relation as every other backend: words of Philox with counter (index, step,
draw) and integer comparisons. Rows are ascending by target; a target may repeat only under
fixed_total.
Does not: check p or sizes (the lowering does).

fixed_probability: row i draws word pairs (index i, step d = 0, 1, ..., draw 0): blocks = first k
  with w[0] <= hi[k] (none: 256 blocks are passed without a synapse), rest = first k with w[1] <=
  lo[k]; compiler/passes/lower_connect.py makes the table and says why.
fixed_total: synapse k draws (index k, step 0, draw 0): source = (w[0] n_pre) >> 32, target = (w[1]
n_post) >> 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from backends.reference import philox
from backends.reference.row import InterpretError, Row
from compiler.ir.program import Connect

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sources and targets, one entry per synapse, in any order."""

BLOCK = 256


def _fixed_probability(row: Row) -> Pairs:
    table = row.arrays["table"].astype(np.int64)
    low, high = table[:BLOCK].copy(), table[BLOCK:]
    low[-1] = (1 << 32) - 1  # every word has an outcome
    key, n_pre = int(row.scalars["key"]), row.size("n_pre")
    without_self = row.size("same") == 1 and row.size("autapses") == 0
    pool = row.size("n_post") - (1 if without_self else 0)
    source = np.arange(n_pre, dtype=np.int64)
    at = np.full(n_pre, -1, np.int64)
    found: list[Pairs] = []
    draw = 0
    while len(source):
        words = philox.words(key, source, draw, 0).astype(np.int64)
        draw += 1
        blocks = np.searchsorted(high, words[0], side="left")
        rest = np.searchsorted(low, words[1], side="left")
        hit = blocks < BLOCK
        at = at + np.where(hit, BLOCK * blocks + rest + 1, BLOCK * BLOCK)
        going = at < pool
        here = hit & going
        found.append((source[here], at[here] + (without_self & (at[here] >= source[here]))))
        source, at = source[going], at[going]
    return _joined(found)


def _fixed_total(row: Row) -> Pairs:
    number = row.size("number")
    words = philox.words(int(row.scalars["key"]), np.arange(number), 0, 0).astype(np.uint64)
    n_pre, n_post = np.uint64(row.size("n_pre")), np.uint64(row.size("n_post"))
    half = np.uint64(32)
    return (words[0] * n_pre >> half).astype(np.int64), (words[1] * n_post >> half).astype(np.int64)


def _all_to_all(row: Row) -> Pairs:
    n_pre, n_post = row.size("n_pre"), row.size("n_post")
    source = np.repeat(np.arange(n_pre, dtype=np.int64), n_post)
    target = np.tile(np.arange(n_post, dtype=np.int64), n_pre)
    if row.size("same") == 1 and row.size("autapses") == 0:
        other = source != target
        source, target = source[other], target[other]
    return source, target


def _one_to_one(row: Row) -> Pairs:
    each = np.arange(row.size("n_pre"), dtype=np.int64)
    return each, each


def _joined(parts: list[Pairs]) -> Pairs:
    empty = np.zeros(0, np.int64)
    sources, targets = zip(*parts, strict=True) if parts else ((empty,), (empty,))
    return np.concatenate(sources), np.concatenate(targets)


def _pairs(row: Row, rule: str) -> Pairs:
    match rule:
        case "fixed_probability":
            return _fixed_probability(row)
        case "fixed_total":
            return _fixed_total(row)
        case "all_to_all":
            return _all_to_all(row)
        case "one_to_one":
            return _one_to_one(row)
    raise InterpretError(f"{row.label}: no connect rule `{rule}`")


def _transpose(row: Row, stage: str) -> None:
    """The same relation by target."""
    pointers, target = row.arrays["row"], row.arrays["col"]
    if stage == "count":
        row.arrays["to_row"][0] = 0
        row.arrays["to_row"][1:] = np.bincount(target, minlength=row.size("n_post"))
        return
    order = np.argsort(target, kind="stable")
    row.arrays["to_index"][:] = order
    row.arrays["to_col"][:] = np.repeat(np.arange(row.size("n_pre")), np.diff(pointers))[order]


def run_connect(row: Row, body: Connect) -> None:
    """Run one stage of connecting for one relation."""
    pointers: Any = row.arrays["row"]
    if body.rule == "transpose":
        _transpose(row, body.stage)
        return
    match body.stage:
        case "count":
            source, _ = _pairs(row, body.rule)
            pointers[0] = 0
            pointers[1:] = np.bincount(source, minlength=row.size("n_pre"))
        case "scan":
            np.cumsum(pointers, out=pointers)
        case "fill":
            source, target = _pairs(row, body.rule)
            row.arrays["col"][:] = target[np.lexsort((target, source))]
        case _:
            raise InterpretError(f"{row.label}: no stage `{body.stage}` of connecting")
