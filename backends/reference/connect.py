"""Drawing relations: the rules of `Connect`, in integer arithmetic only.

Assumes: formals with the fixed names that compiler/ir/level2/program.py gives for each rule.
Guarantees: the same relation as every other backend: words of Philox with counter (index, step, draw) and integer
comparisons. Rows are ascending by target; a target may repeat only with multapses. Only `expression` computes with real
numbers: its relation is the same everywhere under `order: bitwise`, else where rounding does not decide.
Does not: check p or sizes (the lowering does).

fixed_probability: row i draws word pairs (index i, step d = 0, 1, ..., draw 0): blocks = first k
  with w[0] <= hi[k] (none: 256 blocks are passed without a synapse), rest = first k with w[1] <=
  lo[k]; compiler/connect/probability.py makes the table and says why.
Rules with numbered connections: compiler/connect/drawing.py.
expression: pair (i, j) draws (index i n_post + j, step 0, draw 0) and is connected when w[0] / 2**32 < p.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.reference import philox
from backends.reference.evaluate import Evaluator, cast
from backends.reference.row import InterpretError, Row
from compiler.connect import numbered
from compiler.connect.drawing import Numbered
from compiler.expr.ast import Expr
from compiler.expr.functions import CONSTANTS

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Sources and targets, one entry per synapse, in any order."""

BLOCK = 256
TRIES = 64


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


def _without_self(row: Row) -> bool:
    return row.size("same") == 1 and row.size("autapses") == 0


def _part(word: Any, n: int) -> npt.NDArray[np.int64]:
    """The part of 0 .. n - 1 that a 32-bit word falls into."""
    return np.asarray(word.astype(np.uint64) * np.uint64(n) >> np.uint64(32), np.int64)


def _numbered(row: Row, x: Numbered) -> Pairs:
    """The connections of all owners, one after the other."""
    known: dict[str, Any] = {f: row.scalars[f] for f in row.scalars}
    known["skip"] = np.bool_("same" in known and _without_self(row))
    value = Evaluator(known.__getitem__, row.real, 0)
    each, owners = int(value(x.each)), int(value(x.owners))
    owner = np.repeat(np.arange(owners, dtype=np.int64), each)
    known[x.owner] = owner
    known["c"] = place = np.tile(np.arange(each, dtype=np.int64), owners)
    if x.pools:
        key, pools = int(row.scalars["key"]), [int(value(p)) for p in x.pools]
        if row.size("multapses"):
            if x.owner:
                columns = [philox.words(key, np.arange(owners), c, 0)[0] for c in range(each)]
                words = [np.stack(columns, axis=1).ravel() if each else place]
            else:
                words = list(philox.words(key, place, 0, 0))
            drawn = [_part(w, n) for w, n in zip(words, pools, strict=False)]
        else:
            at = philox.shuffled(key, owner, math.prod(pools), place)
            drawn = [at] if len(pools) == 1 else [*np.divmod(at, pools[1])]
        known |= dict(zip("ab", drawn, strict=False))
    source, target = (np.broadcast_to(np.asarray(value(e), np.int64), place.shape) for e in (x.source, x.target))
    return source, target


def _expression(row: Row, e: Expr) -> Pairs:
    n_pre, n_post = row.size("n_pre"), row.size("n_post")
    columns = {**CONSTANTS, **row.scalars}
    found: list[Pairs] = []
    chunk = max(1, (1 << 22) // max(n_post, 1))
    for first in range(0, n_pre, chunk):
        i = np.arange(first, min(first + chunk, n_pre), dtype=np.int64)[:, None]
        j = np.arange(n_post, dtype=np.int64)[None, :]
        known: dict[str, Any] = {**columns, "i": i, "j": j}
        for end, index, side in (("i", i, "from"), ("j", j, "to")):
            w, h = row.size(f"w_{side}"), row.size(f"h_{side}")
            known |= {f"x_{end}": index % w, f"y_{end}": index // w % h, f"c_{end}": index // (w * h)}
        with np.errstate(all="ignore"):
            p = np.asarray(Evaluator(known.__getitem__, row.real, 0).typed(e))
        shape = (i.size, n_post)
        if p.dtype != np.bool_:
            word = philox.words(int(row.scalars["key"]), i * n_post + j, 0, 0)[0]
            p = word.astype(np.float64) < np.broadcast_to(cast(p, row.real).astype(np.float64), shape) * 4294967296.0
        hit = np.broadcast_to(p, shape)
        if _without_self(row):
            hit = hit & (i != j)
        a, b = np.nonzero(hit)
        found.append((a + first, b))
    return _joined(found)


def _joined(parts: list[Pairs]) -> Pairs:
    empty = np.zeros(0, np.int64)
    sources, targets = zip(*parts, strict=True) if parts else ((empty,), (empty,))
    return np.concatenate(sources), np.concatenate(targets)


def _pairs(row: Row, body: l2.Connect) -> Pairs:
    rule = body.rule
    if body.probability is not None:
        return _expression(row, body.probability)
    if rule == "fixed_probability":
        return _fixed_probability(row)
    if (found := numbered(rule)) is not None:
        return _numbered(row, found)
    raise InterpretError(f"{row.label}: no connect rule `{rule}`")


def _transpose(row: Row, stage: str) -> None:
    """The transposed relation."""
    pointers, target = row.arrays["row"], row.arrays["col"]
    if stage == "count":
        row.arrays["to_row"][0] = 0
        row.arrays["to_row"][1:] = np.bincount(target, minlength=row.size("n_post"))
        return
    order = np.argsort(target, kind="stable")
    row.arrays["to_index"][:] = order
    row.arrays["to_col"][:] = np.repeat(np.arange(row.size("n_pre")), np.diff(pointers))[order]


def _mask(row: Row, body: l2.Connect) -> None:
    """A bit per pair: words of 32 targets."""
    n_pre, n_post = row.size("n_pre"), row.size("n_post")
    bits = np.zeros((n_pre, -(-n_post // 32) * 32), np.bool_)
    bits[_pairs(row, body)] = True
    row.arrays["words"][:] = np.packbits(bits, axis=1, bitorder="little").view("<u4").reshape(-1)


def drawn_again(row: Row, rule: str, probability: Expr | None) -> Pairs:
    """(sources, targets) of all rows of a Procedural relation, sources ascending, targets ascending in each."""
    scalars = {**row.scalars, "key": row.scalars["connect_key"]}  # statements may have a separate stream
    source, target = _pairs(replace(row, scalars=scalars), l2.Connect(rule, "fill", probability))
    order = np.lexsort((target, source))
    return source[order], target[order]


def _rewire(row: Row, step: int) -> None:
    """New targets for the synapses marked in `gone`; see Connect."""
    pointers, col = row.arrays["row"], row.arrays["col"]
    gone: Any = row.arrays["gone"]
    skip = _without_self(row)
    pool, key = row.size("n_post") - skip, int(row.scalars["key"])
    for i in range(row.size("n_pre")):
        mine = slice(int(pointers[i]), int(pointers[i + 1]))
        for s in range(mine.start, mine.stop):
            if not gone[s] & 1:
                continue
            found = False
            drawn = _part(philox.words(key, np.full(TRIES, s), step, np.arange(TRIES, dtype=np.uint64))[0], pool)
            for at in (*drawn, *((drawn[-1] + 1 + np.arange(pool)) % pool)):
                target = at + (skip and at >= i)
                if row.size("multapses") or target not in col[mine][gone[mine] < 2]:
                    col[s], found = target, True
                    break
            if gone[s] == 3:
                gone[s] = 1 if found else 2


def run_connect(row: Row, body: l2.Connect, step: int = 0) -> None:
    """Run one stage of connecting for one relation."""
    if body.rule == "rewire":
        _rewire(row, step)
        return
    if body.rule == "transpose":
        _transpose(row, body.stage)
        return
    if body.stage == "mask":
        _mask(row, body)
        return
    pointers: Any = row.arrays["row"]
    match body.stage:
        case "count":
            source, _ = _pairs(row, body)
            pointers[0] = 0
            pointers[1:] = np.bincount(source, minlength=row.size("n_pre"))
        case "scan":
            np.cumsum(pointers, out=pointers)
        case "fill":
            source, target = _pairs(row, body)
            row.arrays["col"][:] = target[np.lexsort((target, source))]
        case _:
            raise InterpretError(f"{row.label}: no stage `{body.stage}` of connecting")
